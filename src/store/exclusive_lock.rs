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
use crate::pg::{oid_cache, subtransaction, syscache};
use crate::shmem::{exclusion, gate};
use crate::store::timer::lock_timeout;

/// How long to wait with some locks in hand, at most: less than it takes those who wait for them until they look for a deadlock.
const A_MOMENT: Duration = Duration::from_millis(500);

/// How often to begin anew before it is left to Postgres, which takes the locks in its own order.
const MOST_ROUNDS: usize = 200;

const EXCLUSIVE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;

/// Has the dispatcher leave, and waits until nobody else has anything of ours in hand; it is the transaction's alone until it ends.
/// (`sched_internal` has nothing to lock.)
pub fn lock_all() {
    // SAFETY: reads a global of the process.
    exclusion::acquire(unsafe { pg_sys::MyDatabaseId.to_u32() });
    let Some((schema, _)) = oid_cache::schema() else { return };
    let mut relations = syscache::relations_of(schema);
    let _closed = gate::close();
    for _ in 0..MOST_ROUNDS {
        let Some((first, rest)) = relations.split_first() else { return };
        let Some(busy) = lock(*first, rest) else { return };
        // SAFETY: the lock that `lock` has just taken.
        unsafe { pg_sys::UnlockRelationOid(*first, EXCLUSIVE) }
        relations[..=busy + 1].rotate_right(1);
    }
}

/// Takes the first of these locks, whenever that is to be had, and the others with it; which of the others was not to be had in time.
fn lock(first: Oid, rest: &[Oid]) -> Option<usize> {
    let at = Cell::new(0);
    // SAFETY: inside a transaction.
    unsafe { pg_sys::LockRelationOid(first, EXCLUSIVE) }
    // SAFETY: reads a setting.
    let until_a_deadlock = Duration::from_millis(u64::from(unsafe { pg_sys::DeadlockTimeout }.unsigned_abs()));
    let (began, longest) = (Instant::now(), A_MOMENT.min(until_a_deadlock / 2));
    // With the subtransaction the locks go that it has taken.
    let taken = subtransaction::run(|| {
        for (number, relation) in rest.iter().enumerate() {
            at.set(number);
            let left = longest.saturating_sub(began.elapsed()).as_millis();
            // SAFETY: as above.
            lock_timeout::in_short_waits(i32::try_from(left).unwrap_or(i32::MAX).max(1), || unsafe {
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
