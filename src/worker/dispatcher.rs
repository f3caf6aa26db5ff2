//! The dispatcher of one database. It sleeps until something is due or a commit wakes it, and then works in short
//! transactions, each step on its own, so that an error in one never starves the others.

use std::ffi::{c_int, CStr, CString};

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::prelude::*;
use pgrx::PgLogLevel;
use scheduler_core::Instant;

use crate::compat;
use crate::convert;
use crate::error::{self, Failure};
use crate::guc;
use crate::store::role;
use crate::worker::tick::Tick;
use crate::worker::{transaction, wake};

/// How long to wait after a failed look for the extension, or for rights that are missing, in microseconds.
const LOOK_AGAIN: i64 = 1_000_000;

/// Database and role in what the postmaster hands over: one number.
fn argument(database: pg_sys::Oid, role: pg_sys::Oid) -> pg_sys::Datum {
    pg_sys::Datum::from(u64::from(role.to_u32()) << 32 | u64::from(database.to_u32()))
}

/// Asks the postmaster for a dispatcher in this database that works as `role` (0: as a superuser); false where no worker slot
/// is free.
pub fn start(database: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    BackgroundWorkerBuilder::new("scheduler dispatcher")
        .set_type("scheduler dispatcher")
        .set_library("scheduler")
        .set_function("scheduler_dispatcher_main")
        .set_argument(Some(argument(database, role)))
        .set_restart_time(None)
        .enable_spi_access()
        .load_dynamic()
        .is_ok()
}

/// Entry point; the postmaster calls it in a new process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scheduler_dispatcher_main(argument: pg_sys::Datum) {
    super::attach_signals();
    let both = argument.value() as u64;
    let (database, role) = (pg_sys::Oid::from(both as u32), pg_sys::Oid::from((both >> 32) as u32));
    // SAFETY: the arguments are the oids that `start` gave.
    unsafe {
        pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(database));
        compat::connect(database, role);
    }
    if role == pg_sys::Oid::INVALID {
        // session_authorization is a setting as well, which may be another's here only because we are a superuser.
        // SAFETY: puts back whom we connected as.
        unsafe { pg_sys::SetSessionAuthorization(pg_sys::GetAuthenticatedUserId(), true) }
    } else {
        role::keep_own();
    }
    run(database);
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
    let mut refused = false;
    loop {
        board.awake();
        super::reload_settings();
        let looked = transaction::run(c"looking for the extension", extension_here);
        if looked.as_ref().is_some_and(|found| found.as_ref().is_some_and(|here| !here.role_exists)) {
            // As if we had died: the launcher misses us, and looks for the role that the setting names now.
            return;
        }
        match (looked.as_ref().map(|found| found.as_ref().map(|here| &here.name)), &name) {
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
            Some(Some(here)) if !here.may_dispatch => {
                if !std::mem::replace(&mut refused, true) {
                    say_refused(&here.name);
                }
                now.checked_add_micros(LOOK_AGAIN)
            }
            Some(_) if guc::enabled() => {
                refused = false;
                tick.run()
            }
            Some(_) => None,
            None => now.checked_add_micros(LOOK_AGAIN),
        };
        let now = convert::now();
        let longest = now.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
        let wake = wake.map_or(longest, |wake| wake.min(longest));
        board.sleeping_until(wake);
        super::report_idle();
        super::sleep_until(wake, now);
    }
}

/// What a dispatcher finds in its database.
struct Here {
    name: CString,
    /// Its role has the rights that it needs.
    may_dispatch: bool,
    /// Its role was not dropped.
    role_exists: bool,
}

/// Once, until all is well.
fn say_refused(database: &CStr) {
    let role = guc::worker_role().unwrap_or_default();
    let failure = Failure::new(
        PgSqlErrorCode::ERRCODE_WARNING,
        format!(
            "scheduler: role \"{}\" of sched.worker_role may not dispatch in database \"{}\"",
            role.to_string_lossy(),
            database.to_string_lossy()
        ),
        "Call sched.grant_worker for it there, as a superuser; the scheduler goes on by itself.",
    );
    error::report(PgLogLevel::WARNING, failure);
}

/// This database's name, where the extension exists in it: its schema can only go with it.
fn extension_here() -> Option<Here> {
    // SAFETY: catalog look-ups inside a transaction, the first from the cache; the name is palloc'd.
    unsafe {
        if pg_sys::get_namespace_oid(c"sched".as_ptr(), true) == pg_sys::Oid::INVALID
            || pg_sys::get_extension_oid(c"scheduler".as_ptr(), true) == pg_sys::Oid::INVALID
        {
            return None;
        }
        let name = pg_sys::get_database_name(pg_sys::MyDatabaseId);
        (!name.is_null()).then(|| Here {
            name: CStr::from_ptr(name).to_owned(),
            may_dispatch: role::may_dispatch(),
            role_exists: role::exists(role::caller()),
        })
    }
}
