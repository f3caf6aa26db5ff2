//! `dispatch_due`: what the worker does, in any client's transaction. `rebuild`: its timers made anew. `prune`: what retention has deleted, at once.

use pgrx::prelude::*;
use scheduler_core::schedule::Bounds;
use scheduler_core::Instant;

use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::session;
use crate::shmem::counters::pending::tick_at_commit;
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::identity::{self, Home};
use crate::store::schedule::dropped::Runs;
use crate::store::shard;
use crate::store::timer::BatchWindow;
use crate::{dispatch, guc};

use crate::api::job::at_least_one;

/// What one call fires at most.
const BOUNDS: Bounds = Bounds { executions: 10_000, contended: 10_000, bytes: 64 * 1024 * 1024 };

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn dispatch_due(max_schedules: default!(Option<i32>, "NULL")) -> i64 {
    or_raise((|| {
        let limit = max_schedules.map_or_else(guc::batch_size, i64::from);
        if limit < 1 {
            return Err(Failure::invalid(
                format!("max_schedules must be at least 1, not {limit}"),
                "Leave it out for the setting sched.batch_size.",
            ));
        }
        dispatch_up_to(limit)
    })())
}

/// Dispatches what is due, as far as the caller may know of nothing that keeps it: all of it, in this transaction.
pub fn dispatch_all_due() -> Outcome<()> {
    while dispatch_up_to(guc::batch_size())? > 0 {
        pgrx::check_for_interrupts!();
    }
    Ok(())
}

fn dispatch_up_to(limit: i64) -> Outcome<i64> {
    let home = session(|session| {
        let home = identity::require(|| session)?;
        shard::check_snapshot(|| session).map(|()| home)
    })?;
    if home == Home::Nowhere {
        return Ok(0);
    }
    if database_clock::is_test() {
        return Ok(dispatch::catch_up_with_the_clock(limit, BOUNDS));
    }
    tick_at_commit();
    session(|session| {
        dispatch::settle_dropped(session, Runs::Stay, database_clock::now());
        dispatch::settle_cancels(session, Runs::Stay, database_clock::now());
        dispatch::thin_out_alerts(session);
    });
    let applied = dispatch::apply_all_changes();
    session(|session| {
        let soonest_first = BatchWindow { after: Instant::MIN, latest: 0, earliest: limit, bounds: BOUNDS };
        let fired = dispatch::fire_due(session, soonest_first, database_clock::now());
        // What was due by now: what fails is due again later.
        let now = database_clock::now();
        while dispatch::deliver(session, now, guc::batch_size()) > 0 {
            pgrx::check_for_interrupts!();
        }
        if applied + fired.schedules > 0 {
            // The worker may have found these locked, and does not know when they come next.
            wakeup::at_commit(database_clock::now());
        }
        Ok(fired.executions)
    })
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn rebuild() -> i64 {
    let count = dispatch::rebuild(database_clock::now());
    wakeup::at_commit(database_clock::now());
    count
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn prune(max_executions: default!(Option<i32>, "NULL")) -> i64 {
    or_raise((|| {
        let most = max_executions.map(|most| at_least_one("max_executions", most)).transpose()?;
        Ok(dispatch::prune_now(most.map_or(i64::MAX, i64::from)))
    })())
}
