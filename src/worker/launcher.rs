//! The launcher: one static worker for the server, connected to no database. It finds the databases that may have the
//! extension and keeps a dispatcher running in each.

use std::collections::{HashMap, HashSet};
use std::ptr::null_mut;

use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::prelude::*;
use scheduler_core::Instant;

use crate::convert;
use crate::error::{self, Failure};
use crate::guc;
use crate::store::catalog::Database;
use crate::worker::wake::Expected;
use crate::worker::{dispatcher, hold, identity, transaction, wake};

/// A dispatcher that left is started again no sooner than this, in microseconds; one that could not even connect after twice
/// as long each time,
const RESTART_AFTER: i64 = 1_000_000;
/// but no later than this. The same goes for looking whether a worker slot has become free.
const RESTART_AT_MOST: i64 = 32_000_000;
/// A dispatcher that has not come so long after it was asked for never will, in microseconds.
const COMING_AT_MOST: i64 = 5_000_000;
/// A worker slot is free only some moments after its worker has ended: to find none for so long is a reason to warn.
const SHORTAGE_TO_WARN: i64 = 1_000_000;
/// How many databases are looked into at the same time: a server may have many more of them than worker slots.
const LOOKS_AT_A_TIME: usize = 3;

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
    super::set_application_name(c"scheduler launcher");
    pgrx::log!("scheduler: launcher started");
    let mut known = Known::default();
    loop {
    super::hold_cancels(true);
        if super::reload_settings() {
            // sched.databases may name databases that were passed over.
            known.seen.clear();
        }
        let wake = known.look(&board);
        super::report_idle(c"waiting for databases that lack a dispatcher");
        super::sleep_until(wake, convert::now());
        if super::must_end() {
            pgrx::log!("scheduler: launcher stopped");
            // With 0 the postmaster would never start another.
            // SAFETY: ends the process as a worker's return from its main function does.
            unsafe { pg_sys::proc_exit(1) };
        }
    }
}

/// What the launcher remembers between two looks.
#[derive(Default)]
struct Known {
    /// Databases in which a dispatcher was started at least once.
    seen: HashSet<u32>,
    /// The dispatchers that were last asked for.
    asked: HashMap<u32, Asked>,
    /// Since when something keeps dispatchers from running, and what was said of it.
    short_since: Option<Instant>,
    warned: Option<String>,
}

/// A dispatcher that was asked for.
#[derive(Clone, Copy)]
struct Asked {
    at: Instant,
    /// How many before it never came as far as connecting.
    failures: u32,
}

/// What becomes of a database that lacks a dispatcher.
enum Start {
    /// It has one, or one was asked for.
    Started,
    /// One was started and has to come before this instant.
    Coming(Instant),
    /// Not before this instant.
    NotBefore(Instant),
    /// Something else ends first, and wakes the launcher.
    Later,
    /// There is no room for it.
    Missing(Failure),
}

impl Known {
    /// Starts what is missing; when to look again.
    fn look(&mut self, board: &wake::Launcher) -> Instant {
        let now = convert::now();
        let mut wake = after(now, guc::tick_interval());
        let looked_up = transaction::run(c"listing the databases", || {
            let (role, databases) = (identity::of_setting(), list_databases());
            let barred = identity::barred(&role, databases.iter().map(|database| database.oid));
            (role, databases, barred)
        });
        let Some((role, databases, barred)) = looked_up else { return after(now, RESTART_AFTER) };
        let here: HashSet<u32> = databases.iter().map(|database| database.oid).collect();
        board.forget_missing(|oid| here.contains(&oid));
        self.seen.retain(|oid| here.contains(oid));
        self.asked.retain(|oid, _| here.contains(oid));
        if board.take_overlooked() {
            self.seen.clear();
        }
        let role = match role {
            Ok(role) => role,
            Err(failure) => return self.say(Some(failure), false, now).map_or(wake, |again| wake.min(again)),
        };
        let (mut missing, mut all_served) = (None, true);
        for database in databases {
            let oid = database.oid;
            if !guc::serves_database(&database.name) {
                continue;
            }
            if board.has_dispatcher(oid) {
                self.seen.insert(oid);
                continue;
            }
            // What is known of it stays as it is until the hold ends, whose holder then wakes us.
            if hold::is_held(oid) {
                continue;
            }
            if barred.contains(&oid) {
                missing = Some(identity::may_not_connect(&database.name));
                all_served = false;
                continue;
            }
            // One look into each new database; afterwards only where something asked for us, or where a dispatcher died.
            let wanted = board.take_wanted(oid);
            if self.seen.contains(&oid) && !wanted && !board.misses_dispatcher(oid) {
                continue;
            }
            let start = self.start(board, oid, role, wanted, now);
            match start {
                Start::Started => {
                    self.seen.insert(oid);
                    continue;
                }
                Start::Coming(latest) => {
                    wake = wake.min(latest);
                    continue;
                }
                Start::NotBefore(earliest) => wake = wake.min(earliest),
                Start::Missing(failure) => missing = Some(failure),
                Start::Later => {}
            }
            // As if it were new: what asked for it is not forgotten.
            self.seen.remove(&oid);
            all_served = false;
        }
        self.say(missing, all_served, now).map_or(wake, |again| wake.min(again))
    }

    /// Says once what keeps dispatchers from running, unless it is for a moment only or until it is something else, and once that nothing
    /// does any more; when to try again.
    fn say(&mut self, missing: Option<Failure>, all_served: bool, now: Instant) -> Option<Instant> {
        match missing {
            Some(failure) => {
                let since = *self.short_since.get_or_insert(now);
                let lasts = now.as_micros().saturating_sub(since.as_micros());
                if lasts >= SHORTAGE_TO_WARN && self.warned.as_ref() != Some(&failure.message) {
                    self.warned = Some(failure.message.clone());
                    let message = format!("scheduler: {}", failure.message);
                    error::report(PgLogLevel::WARNING, Failure { message, ..failure });
                }
                // A slot that was ours sets our latch. For others, each pause is as long as all before.
                Some(after(now, lasts.clamp(RESTART_AFTER, RESTART_AT_MOST)))
            }
            None if all_served => {
                if self.warned.take().is_some() {
                    pgrx::log!("scheduler: every database has its dispatcher again");
                }
                self.short_since = None;
                None
            }
            None => None,
        }
    }

    fn start(&mut self, board: &wake::Launcher, database: u32, role: pg_sys::Oid, wanted: bool, now: Instant) -> Start {
        let before = self.asked.get(&database).copied();
        if let (Some(asked), wake::Presence::Coming) = (before, wake::presence(database)) {
            let latest = after(asked.at, COMING_AT_MOST);
            if now < latest {
                return Start::Coming(latest);
            }
            // The postmaster could not fork it.
            board.expect_no_more(database);
        }
        let failures = match before {
            Some(asked) if board.was_not_reached(database) => asked.failures.saturating_add(1),
            Some(_) | None => 0,
        };
        // Each time twice as long, for a database that nobody can connect to; the first second is for one that just ended.
        let pause = RESTART_AFTER.saturating_mul(1 << failures.saturating_sub(1).min(5));
        let earliest = before.map(|asked| after(asked.at, pause));
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now && (!wanted || failures > 0)) {
            return Start::NotBefore(earliest);
        }
        if board.looking() >= LOOKS_AT_A_TIME {
            return Start::Later;
        }
        match board.expect_dispatcher(database) {
            Expected::Coming => {}
            Expected::Here => return Start::Started,
            Expected::NoSlot => {
                let message = "more databases have the extension than the scheduler can serve at a time";
                return Start::Missing(Failure::warning(message));
            }
        }
        // A hold that came up since finds the expectation, or we find the hold.
        if hold::is_held(database) {
            board.expect_no_more(database);
            return Start::Later;
        }
        if !dispatcher::start(pg_sys::Oid::from(database), role) {
            board.expect_no_more(database);
            let message = "no worker slot is free for a dispatcher; raise max_worker_processes";
            return Start::Missing(Failure::warning(message));
        }
        self.asked.insert(database, Asked { at: now, failures });
        Start::Started
    }
}

fn after(now: Instant, micros: i64) -> Instant {
    now.checked_add_micros(micros).unwrap_or(Instant::MAX)
}

/// The databases in which a dispatcher may be.
fn list_databases() -> Vec<Database> {
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
            databases.push(Database::read(&*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>()));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, pg_sys::AccessShareLock as i32);
    }
    databases.retain(Database::can_be_served);
    databases
}
