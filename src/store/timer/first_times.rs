//! Before which time no timer, retry or lease stands: what a tick begins its looks with. An index keeps the entries of what has fired, was tried
//! again or has ended, until VACUUM takes them away, and it can't while a transaction is older than they are. A tick that began at the very head
//! would go past all of them each time.
//!
//! Whoever writes a time says so (`low_water_marks`: added_timers, added_leases, added_retry), and what has gone is passed over once
//! (`scan_start`). Without the fast path, or where the library is not preloaded, nothing is known: the beginning of time.

use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::{self, lease, retry, timer};
use crate::heap::Layout;
use crate::pg::record::Column;
use crate::pg::Session;
use crate::shmem::low_water_mark::Position;
use crate::store::fast_path::{self, readable};
use crate::store::queue::scan_start;

/// No timer fires before or at this time, by what is known.
pub fn before_timers(session: &Session, now: Instant) -> Instant {
    before(session, &layouts::TIMER, c"timer_fire_at", timer::FIRE_AT, now)
}

/// Nothing waits for a time up to this one.
pub fn before_retries(session: &Session, now: Instant) -> Instant {
    before(session, &layouts::RETRY, c"retry_pkey", retry::RETRY_AT, now)
}

/// No lease is to be looked at up to this time.
pub fn before_leases(session: &Session, now: Instant) -> Instant {
    before(session, &layouts::LEASE, c"lease_sweep_at", lease::SWEEP_AT, now)
}

fn before(session: &Session, layout: &Layout, index: &CStr, column: Column, now: Instant) -> Instant {
    // Nobody says on a standby what the primary has written.
    // SAFETY: reads shared memory.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Instant::MIN;
    }
    let first = |schema: Oid| scan_start::first_time(&readable(schema, layout)?, index, column, now);
    let first = fast_path::open_in(session, first).map(Position::time);
    first.and_then(|first| first.checked_add_micros(-1)).unwrap_or(Instant::MIN)
}
