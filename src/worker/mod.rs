//! The background workers: one launcher for the server, one dispatcher for each database that has the extension.

mod attempt;
mod change_watch;
mod clock;
pub mod dispatcher;
pub mod drain;
pub mod launcher;
mod main_loop;
mod notifier;
mod owner_watch;
mod probe;
mod readiness;
mod retry_offers;
mod run;
mod run_claim;
mod run_log;
mod run_rights;
pub mod runner;
mod session_reset;
mod sleep;
mod staffing;
mod tick;
pub mod transaction;
mod unavailability;
mod worker_role;
mod xid_watermark;

use std::ffi::CStr;

use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::pg_sys;

use crate::pg::compat;

use sleep::{must_end, sleep_for, sleep_until};

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

/// The name under which pg_stat_activity and log_line_prefix's %a know this process.
fn set_application_name(name: &CStr) {
    use pg_sys::{GucContext::PGC_USERSET, GucSource::PGC_S_SESSION};
    // SAFETY: C strings that Postgres copies.
    unsafe { pg_sys::SetConfigOption(c"application_name".as_ptr(), name.as_ptr(), PGC_USERSET, PGC_S_SESSION) }
}

/// Settings that a database or a role may have changed for its sessions and that must not change what a dispatcher does.
/// The owner of a database may set them: with `role` he would have the dispatcher ask as himself.
fn pin_settings() {
    let everywhere: [(&CStr, &CStr); 12] = [
        // Or an error in one schedule would end the process, before anybody could set that schedule apart.
        (c"exit_on_error", c"off"),
        (c"role", c"none"),
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"default_transaction_isolation", c"read committed"),
        (c"default_transaction_read_only", c"off"),
        (c"default_transaction_deferrable", c"off"),
        (c"jit", c"off"),
        // Or the log would have pages about each statement, the last of these in each tick.
        (c"debug_print_parse", c"off"),
        (c"debug_print_rewritten", c"off"),
        (c"debug_print_plan", c"off"),
        (c"trace_sort", c"off"),
        (c"plan_cache_mode", c"auto"),
    ];
    for (name, value) in everywhere.iter().chain(compat::PINNED_SETTINGS) {
        pin(name, value);
    }
}

/// The same while it connects and looks for the extension, which may have to wait for a lock on the database or on a catalog in it: it
/// takes a worker slot and one of the launcher's few looks meanwhile, and what it waits for may be for ever.
fn pin_settings_to_connect() {
    pin(c"exit_on_error", c"off");
    pin(c"lock_timeout", c"2s");
}

/// The same once the extension was found: who locks something of ours is waited for.
fn pin_settings_to_serve() {
    pin(c"lock_timeout", c"0");
}

/// Sets a setting that a database or a role cannot change.
fn pin(name: &CStr, value: &CStr) {
    let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_OVERRIDE);
    // SAFETY: C strings that Postgres copies.
    unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) }
}

/// What pg_stat_activity shows of a worker that sleeps.
fn report_idle(what: &CStr) {
    // SAFETY: reports to the process' own slot, which copies the text.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, what.as_ptr()) }
}

/// Like any idle session, a worker has no statement to be cancelled between its transactions: a cancel that comes then waits for the next
/// one, which forgets it. (Any error ends what this says, so each transaction says it anew.)
fn hold_cancels(hold: bool) {
    // SAFETY: the counter that says in which parts of its code a process takes no cancel; here it is in none of Postgres'.
    unsafe {
        pg_sys::QueryCancelPending = 0;
        pg_sys::QueryCancelHoldoffCount = u32::from(hold);
    }
}

/// Whether SIGHUP has come since the settings were last read.
fn must_reload() -> bool {
    // SAFETY: the flag that the SIGHUP handler set.
    unsafe { pg_sys::ConfigReloadPending != 0 }
}
