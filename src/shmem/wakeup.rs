//! How a commit wakes a worker: shared memory says who sleeps until when, and a commit callback sets the latch of a
//! dispatcher that would otherwise sleep too long.
//!
//! No wake-up is lost: a dispatcher publishes AWAKE before it reads the tables and its next wake time after, and the callback
//! runs when the rows are visible already. Either the dispatcher reads them, or the callback finds AWAKE (or a later
//! time) and sets the latch, and a set latch ends the next sleep at once.
//! PREPARE TRANSACTION runs no commit callback, and a crash forgets everything: `sched.tick_interval` bounds both where there is a
//! dispatcher. Where none was asked for (a prepared CREATE EXTENSION or `adopt`), the next session that claims asks, and the next edit of a
//! schedule: both know then whether the database is a copy, which is to have none.

use std::cell::Cell;
use std::ffi::c_void;

use pgrx::pg_sys;
use pgrx::prelude::*;
use scheduler_core::Instant;

use crate::shmem::registry;

// What this backend's transaction asks for once it has committed.
thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// The earliest time at which the dispatcher has something to do because of this transaction.
    static DEADLINE: Cell<Option<i64>> = const { Cell::new(None) };
    static WANT_DISPATCHER: Cell<bool> = const { Cell::new(false) };
    static WAKE_LAUNCHER: Cell<bool> = const { Cell::new(false) };
}

/// Asks that this database's dispatcher be awake at `deadline` at the latest, if this transaction commits.
pub fn at_commit(deadline: Instant) {
    if registry::preloaded() {
        register_callback();
        let micros = deadline.as_micros();
        DEADLINE.set(Some(DEADLINE.get().map_or(micros, |known| known.min(micros))));
    }
}

/// Has the launcher look at all databases, if this transaction commits.
pub fn launcher_at_commit() {
    if registry::preloaded() {
        register_callback();
        WAKE_LAUNCHER.set(true);
    }
}

/// Asks for a dispatcher in this database, if this transaction commits.
pub fn dispatcher_at_commit() {
    if registry::preloaded() {
        register_callback();
        WANT_DISPATCHER.set(true);
    }
}

fn register_callback() {
    if !REGISTERED.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(transaction_ended), std::ptr::null_mut()) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if event == XACT_EVENT_COMMIT {
        let database = pg_sys::MyDatabaseId.to_u32();
        if let Some(deadline) = DEADLINE.take() {
            registry::wake_dispatcher(database, deadline);
        }
        if WANT_DISPATCHER.take() {
            registry::want(database);
        }
        if WAKE_LAUNCHER.take() {
            registry::wake_launcher();
        }
    } else if event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE {
        DEADLINE.set(None);
        WANT_DISPATCHER.set(false);
        WAKE_LAUNCHER.set(false);
    }
}
