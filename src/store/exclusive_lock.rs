//! All of our tables and views for one transaction alone, as DROP EXTENSION, an update and a change of owners want them: taken before these take
//! them one by one, in an order of their own that meets that of claims in a deadlock.
//!
//! There is no order that meets nobody's: a claim goes from table to table, who reads a view goes from that to its tables, and a transaction
//! may do the one after the other. So whoever is waited for with nothing in hand is waited for as long as it takes, and with some locks in
//! hand for a moment only. Who does not come free in it may be waiting for what is in hand: all is given back, and he is waited for first.
//! Meanwhile newcomers wait at a gate (`shmem/gate.rs`), so that those become fewer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;

use crate::pg::error::raise;
use crate::pg::{oid_cache, run_settings, subtransaction, syscache};
use crate::shmem::{exclusion, gate};
use crate::store::timer::lock_timeout;

/// How long to wait with some locks in hand, at most: less than it takes those who wait for them until they look for a deadlock.
const A_MOMENT: Duration = Duration::from_millis(500);

/// How often to begin anew before it is left to Postgres, which takes the locks in its own order.
const MOST_ROUNDS: usize = 200;

/// How long an update waits in a session without `lock_timeout`, here and in its script.
const UPDATE_WAIT: Duration = Duration::from_secs(5);

const EXCLUSIVE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;

/// Has the dispatcher leave, and waits until nobody else has anything of ours in hand; it is the transaction's alone until it ends.
/// (`sched_internal` has nothing to lock.)
pub fn lock_all() {
    lock_until(None);
}

/// The same for an update, which clients are not to queue behind: it waits as long as the session's `lock_timeout` says, or for five
/// seconds. After that no lock is held, and the update's script, which then waits for a moment only, raises the error that names the process in
/// the way.
pub fn lock_all_for_update() {
    // SAFETY: reads a setting.
    let limit = match u64::try_from(unsafe { pg_sys::LockTimeout }) {
        Ok(limit) if limit > 0 => Duration::from_millis(limit),
        _ => UPDATE_WAIT,
    };
    // (A shorter limit of the session stays.)
    if !lock_until(Some(Instant::now() + limit)) && limit > Duration::from_millis(100) {
        run_settings::apply_to_transaction(c"lock_timeout", c"100ms");
    }
}

/// False where a deadline came first.
fn lock_until(deadline: Option<Instant>) -> bool {
    // SAFETY: reads a global of the process.
    exclusion::acquire(unsafe { pg_sys::MyDatabaseId.to_u32() });
    let Some((schema, _)) = oid_cache::schema() else { return true };
    let mut relations = syscache::relations_of(schema);
    let _closed = gate::close();
    for _ in 0..MOST_ROUNDS {
        let Some((first, rest)) = relations.split_first() else { return true };
        if !lock_first(*first, deadline) {
            return false;
        }
        let Some(busy) = lock_others(rest) else { return true };
        // SAFETY: the lock that `lock_first` has just taken.
        as_transaction(|| unsafe { pg_sys::UnlockRelationOid(*first, EXCLUSIVE) });
        relations[..=busy + 1].rotate_right(1);
    }
    true
}

/// Takes or gives back locks as the transaction's own, and not as the running statement's: what a subtransaction has taken is the
/// transaction's, and only its owner can give it back.
fn as_transaction(work: impl FnOnce()) {
    // SAFETY: inside a transaction. (An error leaves to an abort, which sets it anew.)
    unsafe {
        let statement = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = pg_sys::CurTransactionResourceOwner;
        work();
        pg_sys::CurrentResourceOwner = statement;
    }
}

/// Takes the first of these locks, whenever that is to be had; false where a deadline came before.
fn lock_first(first: Oid, deadline: Option<Instant>) -> bool {
    // SAFETY: inside a transaction.
    let take = || unsafe { pg_sys::LockRelationOid(first, EXCLUSIVE) };
    let Some(deadline) = deadline else {
        as_transaction(take);
        return true;
    };
    match subtransaction::run(|| {
        lock_timeout::in_short_waits(milliseconds(deadline.saturating_duration_since(Instant::now())), take)
    }) {
        Ok(()) => true,
        Err(failure) if failure.code == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE => false,
        Err(failure) => raise(failure),
    }
}

/// For `lock_timeout`, where 0 would be no limit.
fn milliseconds(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// Takes the other locks; which of them was not to be had in time.
fn lock_others(rest: &[Oid]) -> Option<usize> {
    let at = Cell::new(0);
    // SAFETY: reads a setting.
    let until_a_deadlock = Duration::from_millis(u64::from(unsafe { pg_sys::DeadlockTimeout }.unsigned_abs()));
    let (began, longest) = (Instant::now(), A_MOMENT.min(until_a_deadlock / 2));
    // With the subtransaction the locks go that it has taken.
    let taken = subtransaction::run(|| {
        for (number, relation) in rest.iter().enumerate() {
            at.set(number);
            // SAFETY: inside a transaction.
            lock_timeout::in_short_waits(milliseconds(longest.saturating_sub(began.elapsed())), || unsafe {
                pg_sys::LockRelationOid(*relation, EXCLUSIVE);
            });
        }
    });
    match taken {
        Ok(()) => None,
        Err(failure) if failure.code == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE => Some(at.get()),
        Err(failure) => raise(failure),
    }
}
