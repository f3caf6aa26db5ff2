//! The launcher: one static worker for the server, connected to no database. It finds the databases that may have the
//! extension and keeps a dispatcher running in each.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::prelude::*;
use pgrx::PgLogLevel;
use scheduler_core::Instant;

use crate::convert;
use crate::error::{self, Failure};
use crate::guc;
use crate::worker::{dispatcher, identity, transaction, wake};

/// A dispatcher that left is started again no sooner than this, in microseconds.
const RESTART_AFTER: i64 = 1_000_000;
/// How long to wait for a free worker slot, in microseconds.
const SLOT_RETRY: i64 = 5_000_000;

/// Registers the launcher; only while shared_preload_libraries are loaded.
pub fn register() {
    BackgroundWorkerBuilder::new("scheduler launcher")
        .set_type("scheduler launcher")
        .set_library("scheduler")
        .set_function("scheduler_launcher_main")
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(std::time::Duration::from_secs(1)))
        .enable_spi_access()
        .load();
}

/// Entry point; the postmaster calls it in a new process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scheduler_launcher_main(_argument: pg_sys::Datum) {
    super::attach_signals();
    // SAFETY: no database, no role: only the shared catalogs can be read, and no DROP DATABASE ever waits for us.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnection(null_mut(), null_mut(), 0);
    }
    // SAFETY: reads a global of the process.
    let pid = unsafe { pg_sys::MyProcPid };
    let Some(board) = wake::Launcher::enter(pid) else { return };
    pgrx::log!("scheduler: launcher started");
    let mut known = Known::default();
    loop {
        if super::reload_settings() {
            // sched.databases may name databases that were passed over.
            known.seen.clear();
        }
        let wake = known.look(&board);
        super::report_idle();
        super::sleep_until(wake, convert::now());
    }
}

/// What the launcher remembers between two looks.
#[derive(Default)]
struct Known {
    /// Databases in which a dispatcher was started at least once.
    seen: HashSet<u32>,
    /// When a dispatcher was last asked for.
    asked: HashMap<u32, Instant>,
    /// What was last complained about; nothing while all is well.
    warned: Option<String>,
}

impl Known {
    /// Starts what is missing; when to look again.
    fn look(&mut self, board: &wake::Launcher) -> Instant {
        let now = convert::now();
        let after = |micros| now.checked_add_micros(micros).unwrap_or(Instant::MAX);
        let mut wake = after(guc::tick_interval());
        let looked_up = transaction::run(c"listing the databases", || {
            let (role, databases) = (identity::of_setting(), list_databases());
            let barred = identity::barred(&role, databases.iter().map(|(oid, _)| *oid));
            (role, databases, barred)
        });
        let Some((role, databases, barred)) = looked_up else { return after(RESTART_AFTER) };
        let here: HashSet<u32> = databases.iter().map(|(oid, _)| *oid).collect();
        board.forget_missing(|oid| here.contains(&oid));
        self.seen.retain(|oid| here.contains(oid));
        self.asked.retain(|oid, _| here.contains(oid));
        let role = match role {
            Ok(role) => role,
            Err(failure) => {
                self.warn(Some(failure));
                return wake.min(after(SLOT_RETRY));
            }
        };
        let mut missing = None;
        for (oid, name) in databases {
            if !guc::serves_database(&name) {
                continue;
            }
            if board.has_dispatcher(oid) {
                self.seen.insert(oid);
                continue;
            }
            if barred.contains(&oid) {
                missing = Some(identity::may_not_connect(&name));
                continue;
            }
            // One look into each new database; afterwards only where something asked for us, or where a dispatcher died.
            let wanted = board.take_wanted(oid);
            if self.seen.contains(&oid) && !wanted && !board.misses_dispatcher(oid) {
                continue;
            }
            let earliest = self.asked.get(&oid).and_then(|asked| asked.checked_add_micros(RESTART_AFTER));
            if let Some(earliest) = earliest.filter(|earliest| !wanted && *earliest > now) {
                wake = wake.min(earliest);
                continue;
            }
            self.seen.insert(oid);
            if !board.expect_dispatcher(oid) {
                self.seen.remove(&oid);
                missing =
                    Some(Failure::warning("more databases have the extension than the scheduler can serve at a time"));
            } else if dispatcher::start(pg_sys::Oid::from(oid), role) {
                self.asked.insert(oid, now);
            } else {
                missing = Some(Failure::warning("no worker slot is free for a dispatcher; raise max_worker_processes"));
            }
        }
        if missing.is_some() {
            wake = wake.min(after(SLOT_RETRY));
        }
        self.warn(missing);
        wake
    }

    /// Says what keeps dispatchers from running: once, until it is something else or all is well again.
    fn warn(&mut self, missing: Option<Failure>) {
        let message = missing.as_ref().map(|failure| failure.message.clone());
        if let (Some(failure), true) = (missing, self.warned != message) {
            let message = format!("scheduler: {}", failure.message);
            error::report(PgLogLevel::WARNING, Failure { message, ..failure });
        }
        self.warned = message;
    }
}

/// The databases that accept connections: oid and name.
fn list_databases() -> Vec<(u32, CString)> {
    let mut databases = Vec::new();
    // SAFETY: a sequential scan of a shared catalog with the transaction's snapshot, as autovacuum's launcher does it.
    unsafe {
        let relation = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
        let scan = pg_sys::systable_beginscan(relation, pg_sys::Oid::INVALID, false, null_mut(), 0, null_mut());
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            // -2 is how Postgres marks a database whose DROP was interrupted.
            if row.datallowconn && !row.datistemplate && row.datconnlimit != -2 {
                databases.push((row.oid.to_u32(), CStr::from_ptr(row.datname.data.as_ptr()).to_owned()));
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, pg_sys::AccessShareLock as i32);
    }
    databases
}
