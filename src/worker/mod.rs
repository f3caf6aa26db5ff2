//! The background workers: one launcher for the server, one dispatcher for each database that has the extension.

pub mod dispatcher;
mod identity;
pub mod launcher;
mod tick;
pub mod transaction;
pub mod wake;

use std::ffi::CStr;
use std::ptr::null;

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::pg_sys;
use scheduler_core::Instant;

use crate::compat;

/// SIGHUP sets the latch; SIGTERM ends the worker as it ends a backend, inside a statement too (pgrx' handler only sets a
/// flag). Signals are blocked until both handlers stand.
fn attach_signals() {
    // SAFETY: in a background worker that has not unblocked its signals.
    unsafe {
        compat::handle_signal(pg_sys::SIGTERM, die);
    }
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
}

unsafe extern "C-unwind" fn die(signal: i32) {
    pg_sys::die(signal);
}

/// Reads the configuration again where SIGHUP said so; whether it did.
fn reload_settings() -> bool {
    // SAFETY: the flag that the SIGHUP handler set; between transactions.
    unsafe {
        if pg_sys::ConfigReloadPending == 0 {
            return false;
        }
        pg_sys::ConfigReloadPending = 0;
        pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        true
    }
}

/// Settings that a database or a role may have changed for its sessions and that must not change what a dispatcher does.
/// The owner of a database may set them: with `role` he would have the dispatcher ask as himself.
fn pin_settings() {
    let everywhere: [(&CStr, &CStr); 7] = [
        (c"role", c"none"),
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"default_transaction_isolation", c"read committed"),
        (c"default_transaction_read_only", c"off"),
        (c"default_transaction_deferrable", c"off"),
        (c"lock_timeout", c"0"),
        (c"jit", c"off"),
    ];
    for (name, value) in everywhere.iter().chain(compat::PINNED_SETTINGS) {
        // SAFETY: C strings that Postgres copies.
        unsafe {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
    }
}

/// What pg_stat_activity shows of a worker that sleeps.
fn report_idle() {
    // SAFETY: reports to the process' own slot.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, null()) }
}

/// Sleeps on the latch until `wake`, a set latch or a signal.
fn sleep_until(wake: Instant, now: Instant) {
    // Rounded up: a wake-up before the time would find nothing due and come back at once.
    let micros = wake.as_micros().saturating_sub(now.as_micros()).max(0);
    let milliseconds = (micros + 999) / 1000;
    let flags = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the process' own latch.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, flags as i32, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    pgrx::check_for_interrupts!();
}
