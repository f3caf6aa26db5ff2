//! The dispatcher of one database. It sleeps until something is due or a commit wakes it, and then works in short
//! transactions, each step on its own, so that an error in one never starves the others.

use std::ffi::{c_int, CStr, CString};

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::prelude::*;
use pgrx::IntoDatum;
use scheduler_core::Instant;

use crate::convert;
use crate::guc;
use crate::worker::duty::Duty;
use crate::worker::tick::Tick;
use crate::worker::{transaction, wake};

/// How long to wait after a failed look for the extension, in microseconds.
const LOOK_AGAIN: i64 = 1_000_000;

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
    super::attach_signals();
    // SAFETY: the argument is the oid that `start` gave.
    unsafe {
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
    let mut name: Option<CString> = None;
    let mut tick = Tick::new(convert::now());
    let mut duty = Duty::default();
    let mut woken = true;
    loop {
        board.awake();
        super::reload_settings();
        let looked = transaction::run(c"looking for the extension", extension_here);
        match (&looked, &name) {
            (Some(Some(found)), None) if guc::serves_database(found) => {
                pgrx::log!("scheduler: dispatcher for database \"{}\" started", found.to_string_lossy());
                name = Some(found.clone());
            }
            (Some(Some(found)), Some(_)) if guc::serves_database(found) => {}
            (Some(_), known) => {
                if let Some(known) = known {
                    pgrx::log!("scheduler: dispatcher for database \"{}\" stopped", known.to_string_lossy());
                }
                board.leave();
                return;
            }
            // The look itself failed, which says nothing: look again soon.
            (None, _) => {}
        }
        let now = convert::now();
        let wake = match looked.map(|_| guc::enabled()) {
            Some(true) => match duty.look() {
                Some(true) => tick.run(std::mem::take(&mut woken)),
                Some(false) => None,
                None => now.checked_add_micros(LOOK_AGAIN),
            },
            Some(false) => None,
            None => now.checked_add_micros(LOOK_AGAIN),
        };
        let now = convert::now();
        let longest = now.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
        let wake = wake.map_or(longest, |wake| wake.min(longest));
        board.sleeping_until(wake);
        super::report_idle();
        woken |= super::sleep_until(wake, now) || wake == longest;
    }
}

/// This database's name, where the extension exists in it: its schema can only go with it.
fn extension_here() -> Option<CString> {
    // SAFETY: catalog look-ups inside a transaction, the first from the cache; the name is palloc'd.
    unsafe {
        if pg_sys::get_namespace_oid(c"sched".as_ptr(), true) == pg_sys::Oid::INVALID
            || pg_sys::get_extension_oid(c"scheduler".as_ptr(), true) == pg_sys::Oid::INVALID
        {
            return None;
        }
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_owned())
    }
}
