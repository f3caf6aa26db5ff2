//! The dispatcher of one database: how one is asked for, and how its process begins and ends. What it does is in `main_loop.rs`.

use std::ffi::c_int;

use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::prelude::*;

use crate::pg::{compat, role, subtransaction};
use crate::shmem::runners::{self, Limits};
use crate::shmem::{exclusion, registry};
use crate::worker::main_loop::MainLoop;

/// Database and role in what the postmaster hands over: one number.
fn argument(database: pg_sys::Oid, role: pg_sys::Oid) -> pg_sys::Datum {
    pg_sys::Datum::from(u64::from(role.to_u32()) << 32 | u64::from(database.to_u32()))
}

/// Asks the postmaster for a dispatcher in this database that works as `role` (0: as a superuser); false where no worker slot
/// is free. The caller's latch is set when it has come and when its slot is free again.
pub fn start(database: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: reads a global of the process.
    let caller = unsafe { pg_sys::MyProcPid };
    BackgroundWorkerBuilder::new("scheduler dispatcher")
        .set_type("scheduler dispatcher")
        .set_library("scheduler")
        .set_function("scheduler_dispatcher_main")
        .set_argument(Some(argument(database, role)))
        .set_restart_time(None)
        .set_notify_pid(caller)
        .enable_spi_access()
        .load_dynamic()
        .is_ok()
}

/// Entry point; the postmaster calls it in a new process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scheduler_dispatcher_main(argument: pg_sys::Datum) {
    super::attach_signals();
    subtransaction::in_a_dispatcher();
    let both = argument.value() as u64;
    let (database, role) = (both as u32, pg_sys::Oid::from((both >> 32) as u32));
    // SAFETY: registers a callback of this process, whose argument is a number.
    let pid = unsafe {
        pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(database));
        pg_sys::MyProcPid
    };
    let Some(board) = registry::Dispatcher::enter(database, pid) else { return };
    // One that makes way is missed: the launcher sends another when the exclusion is over.
    let result = if exclusion::is_excluded(database) { ConnectResult::Excluded } else { connect(database, role) };
    // As one that could not connect: the launcher tries again after growing pauses.
    if result == ConnectResult::Locked {
        return board.kept_out();
    }
    board.reached();
    if result == ConnectResult::Connected {
        MainLoop::new(&board, database).run();
    }
}

/// What came of connecting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectResult {
    Connected,
    /// Somebody wants the database to himself.
    Excluded,
    /// Somebody has a lock on it, for long.
    Locked,
}

/// Connects as `role`, or as the first superuser where that is 0.
fn connect(database: u32, role: pg_sys::Oid) -> ConnectResult {
    super::pin_settings_to_connect();
    // SAFETY: once in the life of the process. After an error there is nothing to do but exit, which ends the transaction.
    let result = PgTryBuilder::new(|| unsafe {
        compat::connect(pg_sys::Oid::from(database), role);
        ConnectResult::Connected
    })
    .catch_when(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, |_| ConnectResult::Locked)
    .catch_others(|error| {
        if exclusion::is_excluded(database) {
            return ConnectResult::Excluded;
        }
        error.rethrow()
    })
    .execute();
    if role != pg_sys::Oid::INVALID {
        role::keep_own();
    } else if result == ConnectResult::Connected {
        // session_authorization is a setting as well, which may be another's here only because we are a superuser.
        // SAFETY: puts back whom we connected as.
        unsafe { pg_sys::SetSessionAuthorization(pg_sys::GetAuthenticatedUserId(), true) }
    }
    result
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: c_int, database: pg_sys::Datum) {
    // Nobody of this database is in line for a runner: the next dispatcher looks who waits.
    runners::set_waiting(database.value() as u32, &[], Limits::default());
    registry::dispatcher_left(database.value() as u32, pg_sys::MyProcPid);
}
