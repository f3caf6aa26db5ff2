//! The dispatcher of one database. It sleeps until something is due or a commit wakes it, and then works in short
//! transactions, each step on its own, so that an error in one never starves the others.

use std::ffi::{c_int, CStr, CString};

use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::prelude::*;
use pgrx::IntoDatum;
use scheduler_core::Instant;

use crate::convert;
use crate::dispatch;
use crate::guc;
use crate::store::{role, session, timer, Session};
use crate::worker::{transaction, wake};

/// How long to wait after a step that failed, in microseconds.
const AFTER_ERROR: i64 = 1_000_000;

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
        let wake = if guc::enabled() { tick() } else { None };
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

/// Everything that is due now; when to look again.
fn tick() -> Option<Instant> {
    let batch = guc::batch_size();
    let step = |what: &CStr, body: &dyn Fn(&Session) -> usize| {
        let body = std::panic::AssertUnwindSafe(body);
        transaction::run(what, move || session(|session| body(session)))
    };
    let mut failed = false;
    // Every step gets a turn in each round, and no step more than a batch, so that none can starve another.
    loop {
        pgrx::check_for_interrupts!();
        let done = [
            step(c"ending stale leases", &|session| {
                dispatch::sweep_stale(session, None, convert::now(), batch, role::caller())
            }),
            step(c"offering due retries", &|session| {
                usize::try_from(dispatch::promote_retries(session, convert::now(), batch)).unwrap_or(0)
            }),
            step(c"applying changed schedules", &|session| dispatch::apply_changes(session, convert::now(), batch)),
            step(c"dispatching due schedules", &|session| dispatch::fire_due(session, convert::now(), batch).1),
        ];
        failed |= done.contains(&None);
        if failed || done.iter().flatten().all(|count| *count == 0) {
            break;
        }
    }
    let next = transaction::run(c"looking for what is next", || session(timer::next_deadline));
    let retry = convert::now().checked_add_micros(AFTER_ERROR);
    match next {
        Some(next) if !failed => next,
        Some(next) => next.max(retry),
        None => retry,
    }
}
