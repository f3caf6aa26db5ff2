//! All of our tables and views for one transaction alone, as DROP EXTENSION, an update and a change of owners want them: taken before these take
//! them one by one, in an order of their own that meets that of claims in a deadlock.
//!
//! There is no order that meets nobody's: a claim goes from table to table, who reads a view goes from that to its tables, and a transaction
//! may do the one after the other. So whoever is waited for with nothing in hand is waited for as long as it takes, and with some locks in
//! hand for a moment only. Who does not come free in it may be waiting for what is in hand: all is given back, and he is waited for first.
//! Meanwhile newcomers wait at a door (`worker/door.rs`), so that those become fewer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;

use crate::compat;
use crate::error::raise;
use crate::store::{catalog, names, patience};
use crate::subtransaction;
use crate::worker::door;

/// How long to wait with some locks in hand, at most: less than it takes those who wait for them until they look for a deadlock.
const A_MOMENT: Duration = Duration::from_millis(500);

/// How often to begin anew before it is left to Postgres, which takes the locks in its own order.
const MOST_ROUNDS: usize = 200;

const EXCLUSIVE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;

/// Waits until nobody else has anything of ours in hand; it is the transaction's alone until it ends.
pub fn lock_all() {
    let Some((schema, _)) = names::schema() else { return };
    let mut relations = catalog::relations_of(schema);
    let _closed = door::close();
    for _ in 0..MOST_ROUNDS {
        let Some((first, rest)) = relations.split_first() else { return };
        let Some(busy) = lock(*first, rest) else { return };
        // SAFETY: the lock that `lock` has just taken.
        unsafe { pg_sys::UnlockRelationOid(*first, EXCLUSIVE) }
        pgrx::log!("DEBUGROUND {} busy {}", first.to_u32(), relations[busy + 1].to_u32());
        relations[..=busy + 1].rotate_right(1);
    }
}

/// Whether this transaction has a lock on anything of ours.
pub fn has_any() -> bool {
    let relations = names::schema().map(|(schema, _)| catalog::relations_of(schema));
    relations.into_iter().flatten().any(compat::is_locked_by_me)
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
            patience::in_short_waits(i32::try_from(left).unwrap_or(i32::MAX).max(1), || unsafe {
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
