//! Before which time no timer, retry or lease stands, and before which id no change: what a tick begins its looks with. An index keeps the entries of
//! what has fired, was tried again, has ended or was applied, until VACUUM takes them away, and it can't while a transaction is older than they are. A tick that began at the very head
//! would go past all of them each time.
//!
//! Each writer says so (`low_water_marks`: added_timers, added_leases, added_retry, added_changes), and what has gone is passed over once
//! (`scan_start`). Without the fast path, or where the library is not preloaded, nothing is known: the beginning of time.

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::{self, lease, retry, schedule_change, timer};
use crate::heap::Layout;
use crate::pg::Session;
use crate::shmem::low_water_mark::Position;
use crate::store::fast_path::{self, readable};
use crate::store::queue::scan_start::{self, By, RowOrder};

/// Timers by when they fire.
const TIMERS: RowOrder = RowOrder { index: c"timer_fire_at", first: timer::FIRE_AT, by: By::Time, id: None };

/// What waits for a time, by that time.
pub const RETRIES: RowOrder =
    RowOrder { index: c"retry_pkey", first: retry::RETRY_AT, by: By::Time, id: Some(retry::EXECUTION_ID) };

/// Leases by when they are to be looked at.
pub const LEASES: RowOrder = RowOrder { index: c"lease_sweep_at", first: lease::SWEEP_AT, by: By::Time, id: None };

/// Changes of schedules in the order in which they were made.
const CHANGES: RowOrder =
    RowOrder { index: c"schedule_change_pkey", first: schedule_change::CHANGE_ID, by: By::Number, id: None };

/// No timer fires before or at this time, by what is known.
pub fn before_timers(session: &Session, now: Instant) -> Instant {
    before(first(session, &layouts::TIMER, TIMERS, now))
}

/// No lease is to be looked at up to this time.
pub fn before_leases(session: &Session, now: Instant) -> Instant {
    before(first(session, &layouts::LEASE, LEASES, now))
}

/// No change of a schedule has an id up to this one.
pub fn before_changes(session: &Session, now: Instant) -> i64 {
    first(session, &layouts::SCHEDULE_CHANGE, CHANGES, now).map_or(0, |first| first.parts().1.saturating_sub(1).max(0))
}

/// A place among what waits for a time: the time, and the execution's id.
pub type RetryPlace = (Instant, Uuid);

/// Nothing waits for a time before this place.
pub fn first_retry(session: &Session, now: Instant) -> RetryPlace {
    let first = first(session, &layouts::RETRY, RETRIES, now);
    first.map_or((Instant::MIN, nil()), |first| (first.time(), first.parts().2))
}

/// The first place after all that waits for a time up to `looked`, but not before `first`.
pub fn retries_behind(looked: Instant, first: RetryPlace) -> RetryPlace {
    looked.checked_add_micros(1).filter(|_| looked >= first.0).map_or(first, |behind| (behind, nil()))
}

/// Before all ids.
fn nil() -> Uuid {
    Uuid::from_bytes([0; 16])
}

fn before(first: Option<Position>) -> Instant {
    first.and_then(|first| first.time().checked_add_micros(-1)).unwrap_or(Instant::MIN)
}

fn first(session: &Session, layout: &Layout, by: RowOrder, now: Instant) -> Option<Position> {
    // Nobody says on a standby what the primary has written.
    // SAFETY: reads shared memory.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return None;
    }
    fast_path::open_in(session, |schema: Oid| scan_start::first_entry(&readable(schema, layout)?, by, now))
}
