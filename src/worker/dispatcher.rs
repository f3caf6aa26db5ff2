//! The dispatcher of one database. It sleeps until something is due or a commit wakes it, and then works in short
//! transactions, each step on its own, so that an error in one never starves the others.

use std::ffi::{c_int, CStr, CString};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::prelude::*;
use pgrx::IntoDatum;
use scheduler_core::Instant;

use crate::convert;
use crate::guc;
use crate::worker::tick::Tick;
use crate::worker::{transaction, wake};

/// Asks the postmaster for a dispatcher in this database; false where no worker slot is free.
pub fn start(database: pg_sys::Oid) -> bool {
    BackgroundWorkerBuilder::new("scheduler dispatcher")
        .set_type("scheduler dispatcher")
        .set_library("scheduler")
        .set_function("scheduler_dispatcher_main")
        .set_argument(database.into_datum())
        .set_restart_time(None)
        .enable_spi_access()
        .load_dynamic()
        .is_ok()
}

/// Entry point; the postmaster calls it in a new process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scheduler_dispatcher_main(database: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP | SignalWakeFlags::SIGTERM);
    // SAFETY: the argument is the oid that `start` gave; the handler is core's own, so that pg_terminate_backend ends us in
    // the middle of a statement as it ends a backend.
    unsafe {
        super::install_die_handler();
        pg_sys::before_shmem_exit(Some(on_exit), database);
        let oid = pg_sys::Oid::from_datum(database, false).unwrap_or(pg_sys::Oid::INVALID);
        pg_sys::BackgroundWorkerInitializeConnectionByOid(oid, pg_sys::Oid::INVALID, 0);
        run(oid);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: c_int, database: pg_sys::Datum) {
    wake::dispatcher_left(database.value() as u32, pg_sys::MyProcPid);
}

fn run(database: pg_sys::Oid) {
    // SAFETY: reads a global of the process.
    let pid = unsafe { pg_sys::MyProcPid };
    let Some(board) = wake::Dispatcher::enter(database.to_u32(), pid) else { return };
    super::pin_settings();
    let Some(name) = transaction::run(c"reading the database's name", database_name).flatten() else { return };
    let shown = name.to_string_lossy();
    let mut serving = false;
    let mut tick = Tick::new(convert::now());
    loop {
        board.awake();
        super::reload_settings();
        let here =
            guc::serves_database(&name) && transaction::run(c"looking for the extension", extension_here) == Some(true);
        if here != serving {
            board.serves(here);
            let what = if here { "started" } else { "stopped" };
            pgrx::log!("scheduler: dispatcher for database \"{shown}\" {what}");
            serving = here;
        }
        if !here {
            board.serves(false);
            return;
        }
        let wake = if guc::enabled() { tick.run() } else { None };
        let now = convert::now();
        let longest = now.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
        let wake = wake.map_or(longest, |wake| wake.min(longest));
        board.sleeping_until(wake);
        super::report_idle();
        super::sleep_until(wake, now);
    }
}

fn database_name() -> Option<CString> {
    // SAFETY: a catalog look-up inside a transaction; the name is palloc'd.
    unsafe {
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_owned())
    }
}

/// Whether the extension exists in this database: its schema can only go with it.
fn extension_here() -> bool {
    // SAFETY: catalog look-ups inside a transaction; the first answers from the cache.
    unsafe {
        pg_sys::get_namespace_oid(c"sched".as_ptr(), true) != pg_sys::Oid::INVALID
            && pg_sys::get_extension_oid(c"scheduler".as_ptr(), true) != pg_sys::Oid::INVALID
    }
}
