//! The dispatcher of one database. It sleeps until something is due or a commit wakes it, and then works in short
//! transactions, each step on its own, so that an error in one never starves the others.

use std::ffi::{c_int, CString};

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::prelude::*;
use pgrx::IntoDatum;
use scheduler_core::Instant;

use crate::convert;
use crate::guc;
use crate::worker::duty::{self, Duty, Spoken};
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
    let mut spoken = Spoken::default();
    loop {
        board.awake();
        super::reload_settings();
        let looked = transaction::run(c"looking for the extension", duty::look);
        match (looked.as_ref().map(|here| here.as_ref().map(|here| &here.database)), &name) {
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
        let wake = match looked {
            Some(Some(here)) => match here.duty {
                Duty::Work if guc::enabled() => {
                    spoken.goes_on(&here.database);
                    tick.run()
                }
                Duty::Work | Duty::Nothing => None,
                Duty::Wait(why) => {
                    spoken.once(&here.database, why);
                    None
                }
            },
            Some(None) | None => now.checked_add_micros(LOOK_AGAIN),
        };
        let now = convert::now();
        let longest = now.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
        let wake = wake.map_or(longest, |wake| wake.min(longest));
        board.sleeping_until(wake);
        super::report_idle();
        super::sleep_until(wake, now);
    }
}
