//! A transaction that must have committed by a time, or not at all.

use std::cell::Cell;
use std::ffi::c_void;

use pgrx::{pg_guard, pg_sys, PgSqlErrorCode};
use scheduler_core::Instant;

use crate::pg::convert;
use crate::pg::error::{raise, Failure};

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    static DEADLINE: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Has this transaction fail (`40001`) where it is not about to commit by then. It cannot be prepared (`0A000`).
pub fn commit_by(deadline: Instant) {
    if !REGISTERED.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut()) };
    }
    let micros = deadline.as_micros();
    DEADLINE.set(Some(DEADLINE.get().map_or(micros, |known| known.min(micros))));
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE};
    match (event, DEADLINE.get()) {
        (XACT_EVENT_PRE_COMMIT, Some(deadline)) if convert::now().as_micros() > deadline => {
            DEADLINE.set(None);
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "the next plan time came too near before this transaction committed",
                "Try it again, and commit at once: whoever is to fire that plan time has to know before.",
            ));
        }
        (XACT_EVENT_PRE_PREPARE, Some(_)) => {
            DEADLINE.set(None);
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "a transaction that takes over or hands back schedules cannot be prepared",
                "Nobody knows when it would be committed. Use an ordinary transaction.",
            ));
        }
        (XACT_EVENT_PRE_COMMIT, _) => {}
        _ => DEADLINE.set(None),
    }
}
