//! NOTIFY without a statement.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::{pg_sys, IntoDatum};

use crate::store::Owner;

/// Has `LISTEN "sched:<queue>"` hear, once for the transaction, that something became claimable.
pub fn queue(_owner: &Owner, queue: &str) {
    let arguments = [format!("sched:{queue}").into_datum(), "".into_datum()];
    // SAFETY: the types that this function of Postgres takes, and none is NULL.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notify, &arguments) };
}

/// The share of the server's queue of notifications that others may have filled before we send none.
const FULL: f64 = 0.9;
/// How often to look: the look takes a lock that every notification needs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether a notification will fit. A session that listens and stays in a transaction lets the queue fill up, of the whole server; a
/// transaction whose notification does not fit fails at its commit, and a hint must not cost the work.
pub fn has_room() -> bool {
    thread_local! {
        static FOUND: Cell<Option<(Instant, bool)>> = const { Cell::new(None) };
    }
    if let Some((at, room)) = FOUND.get() {
        if at.elapsed() < LOOK_EVERY {
            return room;
        }
    }
    // SAFETY: a function without arguments.
    let usage: Option<f64> = unsafe { pgrx::direct_function_call(pg_sys::pg_notification_queue_usage, &[]) };
    let room = usage.is_none_or(|usage| usage < FULL);
    FOUND.set(Some((Instant::now(), room)));
    room
}
