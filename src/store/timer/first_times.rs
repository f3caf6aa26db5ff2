//! Before which time no timer, retry or lease stands: what a tick begins its looks with. An index keeps the entries of what has fired, was tried
//! again or has ended, until VACUUM takes them away, and it can't while a transaction is older than they are. A tick that began at the very head
//! would go past all of them each time.
//!
//! Whoever writes a time says so (`low_water_marks`: added_timers, added_leases, added_retry), and what has gone is passed over once
//! (`scan_start`). Without the fast path, or where the library is not preloaded, nothing is known: the beginning of time.

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::{self, lease, retry, timer};
use crate::heap::Layout;
use crate::pg::Session;
use crate::shmem::low_water_mark::Position;
use crate::store::fast_path::{self, readable};
use crate::store::queue::scan_start::{self, TimeOrder};

/// Timers by when they fire.
const TIMERS: TimeOrder = TimeOrder { index: c"timer_fire_at", time: timer::FIRE_AT, id: None };

/// What waits for a time, by that time.
pub const RETRIES: TimeOrder = TimeOrder { index: c"retry_pkey", time: retry::RETRY_AT, id: Some(retry::EXECUTION_ID) };

/// Leases by when they are to be looked at.
pub const LEASES: TimeOrder = TimeOrder { index: c"lease_sweep_at", time: lease::SWEEP_AT, id: None };

/// No timer fires before or at this time, by what is known.
pub fn before_timers(session: &Session, now: Instant) -> Instant {
    before(first(session, &layouts::TIMER, TIMERS, now))
}

/// No lease is to be looked at up to this time.
pub fn before_leases(session: &Session, now: Instant) -> Instant {
    before(first(session, &layouts::LEASE, LEASES, now))
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

fn first(session: &Session, layout: &Layout, by: TimeOrder, now: Instant) -> Option<Position> {
    // Nobody says on a standby what the primary has written.
    // SAFETY: reads shared memory.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return None;
    }
    fast_path::open_in(session, |schema: Oid| scan_start::first_time(&readable(schema, layout)?, by, now))
}
