//! What a dispatcher would have done in a database in test mode, in which there is none: each moment at which something came due is gone
//! through, in order, by the clock of the test. So each plan time is fired when it is due, however far the clock was moved.

use scheduler_core::schedule::Bounds;
use scheduler_core::Instant;

use crate::dispatch::alerts::{self, Looked};
use crate::dispatch::apply_changes::{apply_all_changes, apply_changes};
use crate::dispatch::cancel::settle_cancels;
use crate::dispatch::deliver::deliver;
use crate::dispatch::dropped::settle_dropped;
use crate::dispatch::expire_leases::{promote_retries, sweep_stale};
use crate::dispatch::fire::fire_due;
use crate::guc;
use crate::pg::{role, session};
use crate::store::database_clock;
use crate::store::schedule::dropped::Runs;
use crate::store::test_mode::next_moment;
use crate::store::timer::BatchWindow;

/// Does all that has come due until now, but stops after a moment at which at least `limit` schedules in all have fired; how many executions that
/// made.
pub fn catch_up_with_the_clock(limit: i64, bounds: Bounds) -> i64 {
    let until = database_clock::now();
    // What was edited after the clock was moved was edited now.
    apply_all_changes();
    let (mut after, mut executions, mut left) = (Instant::MIN, 0, limit);
    while let Some(moment) = session(|session| next_moment(session, after, until)) {
        after = moment;
        let (fired, schedules) = database_clock::at(moment, || pass(moment, left, bounds));
        executions += fired;
        left -= schedules;
        if left <= 0 {
            return executions;
        }
    }
    // What has no time of its own: executions to deliver, alerts to look for, what others had in hand.
    executions + pass(until, left, bounds).0
}

/// All that is due at a moment, and what follows from it at once; how many executions that made, of how many schedules.
fn pass(moment: Instant, limit: i64, bounds: Bounds) -> (i64, i64) {
    let (mut executions, mut schedules, mut alerts) = (0, 0, Looked::default());
    loop {
        pgrx::check_for_interrupts!();
        let batch = guc::batch_size();
        let mut done = session(|session| {
            settle_dropped(session, Runs::End, moment);
            settle_cancels(session, Runs::End, moment);
            let swept = sweep_stale(session, None, moment, batch, role::DISPATCHER).ended;
            let offered = promote_retries(session, Instant::MIN, moment, moment, batch, role::DISPATCHER);
            swept + usize::try_from(offered).unwrap_or(0)
        });
        let mut after = 0;
        done += session(|session| apply_changes(session, moment, batch, &mut after));
        if schedules < limit {
            let window = BatchWindow { after: Instant::MIN, latest: 0, earliest: limit - schedules, bounds };
            let fired = session(|session| fire_due(session, window, moment));
            executions += fired.executions;
            schedules += i64::try_from(fired.schedules).unwrap_or(i64::MAX);
            done += fired.schedules;
        }
        done += session(|session| deliver(session, moment, batch));
        done += session(|session| alerts::look(session, &mut alerts, moment, batch));
        if done == 0 || schedules >= limit {
            return (executions, schedules);
        }
    }
}
