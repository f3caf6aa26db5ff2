//! The launcher: one static worker for the server, connected to no database. It finds the databases that may have the
//! extension and keeps a dispatcher running in each.

use std::collections::{HashMap, HashSet};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::prelude::*;

use crate::guc;
use crate::pg::error::Failure;
use crate::pg::syscache::Database;
use crate::pg::{compat, convert};
use crate::shmem::counters;
use crate::shmem::exclusion;
use crate::shmem::registry;
use crate::shmem::registry::launcher::{Expected, Launcher, StartOutcome};
use crate::shmem::registry::rest;
use crate::shmem::runners;
use crate::worker::probe::serves;
use crate::worker::unavailability::{Ends, Unavailability, RETRY_AFTER, RETRY_AT_MOST};
use crate::worker::{dispatcher, staffing, transaction, worker_role};

// All of these are measured by a clock that nobody sets: what somebody does to the other makes no pause longer.
/// A dispatcher that left is started again no sooner than this. One that could not even connect is after twice as long
/// each time, but no later than whatever is tried again,
const RESTART_AFTER: Duration = RETRY_AFTER;
/// nor than this where it was for a lock: nobody tells us when that ends, and to try costs nobody anything.
const LOCKED_AT_MOST: Duration = Duration::from_secs(4);
/// A dispatcher that has not come so long after it was asked for never will.
const COMING_AT_MOST: Duration = Duration::from_secs(5);
/// How many databases are looked into at the same time: a server may have many more of them than worker slots.
const LOOKS_AT_A_TIME: usize = 3;
/// How many of these may be such as could not be looked into before: their owners may lock them for ever, and have any number of them.
const LOOKS_AGAIN_AT_A_TIME: usize = 1;
/// A look that has lasted longer takes no place from others, whatever it waits for.
const LOOK_AT_MOST: Duration = Duration::from_secs(5);

/// A dispatcher whose rest ends is sent so much earlier, in microseconds: a process has to be forked and to connect.
const COMES_WITHIN: i64 = 80_000;
/// What is said where there is no room for a dispatcher.
const NO_SLOT: &str = "no worker slot is free for a dispatcher; raise max_worker_processes";

/// Registers the launcher; only while shared_preload_libraries are loaded.
pub fn register() {
    BackgroundWorkerBuilder::new("scheduler launcher")
        .set_type("scheduler launcher")
        .set_library("scheduler")
        .set_function("scheduler_launcher_main")
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(Duration::from_secs(1)))
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
    let Some(board) = Launcher::enter(pid) else { return };
    super::set_application_name(c"scheduler launcher");
    super::hold_cancels(true);
    pgrx::log!("scheduler: launcher started");
    let mut state = LauncherState::default();
    while !super::must_end() {
        if super::reload_settings() {
            // sched.databases may name databases that were passed over.
            state.seen.clear();
        }
        let wake = state.check_databases(&board);
        super::report_idle(c"waiting for databases that lack a dispatcher");
        super::sleep_for(wake.saturating_duration_since(Instant::now()));
    }
    pgrx::log!("scheduler: launcher stopped");
    // With 0 the postmaster would never start another.
    // SAFETY: ends the process as a worker's return from its main function does.
    unsafe { pg_sys::proc_exit(1) };
}

/// What the launcher remembers between two looks.
#[derive(Default)]
struct LauncherState {
    /// Databases in which a dispatcher was started at least once.
    seen: HashSet<u32>,
    /// Those that have the extension: somebody has just created it, or a dispatcher has found it. These wait for no place among the looks.
    proven: HashSet<u32>,
    /// The dispatchers that were last asked for.
    asked: HashMap<u32, Asked>,
    /// What keeps dispatchers from running.
    unavailability: Unavailability,
}

/// A dispatcher that was asked for.
#[derive(Clone, Copy)]
struct Asked {
    at: Instant,
    /// How many, up to the last that has left, never came as far as looking,
    failures: u32,
    /// and whether it was for a lock.
    locked: bool,
    /// What became of this one is known.
    over: bool,
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

impl LauncherState {
    /// Starts what is missing; when to look again.
    fn check_databases(&mut self, board: &Launcher) -> Instant {
        let now = Instant::now();
        let mut wake = now + Duration::from_micros(guc::tick_interval().unsigned_abs());
        let looked_up = transaction::run(c"listing the databases", || {
            let (role, databases) = (worker_role::of_setting(), list_databases());
            let barred = worker_role::barred(&role, databases.iter().map(|database| database.oid));
            (role, databases, barred)
        });
        let Some((role, mut databases, barred)) = looked_up else { return now + RESTART_AFTER };
        let here: HashSet<u32> = databases.iter().map(|database| database.oid).collect();
        board.forget_missing(|oid| here.contains(&oid));
        self.seen.retain(|oid| here.contains(oid));
        self.proven.retain(|oid| here.contains(oid));
        self.asked.retain(|oid, _| here.contains(oid));
        if board.take_overlooked() {
            self.seen.clear();
        }
        self.unavailability.begin();
        let role = match role {
            Ok(role) => role,
            Err(failure) => {
                let again = self.unavailability.record(failure, Ends::Unseen, now);
                self.unavailability.report(now);
                return wake.min(again);
            }
        };
        databases.sort_by_key(|database| self.turn(database.oid));
        let (mut all_served, mut waits) = (true, false);
        for database in databases {
            let oid = database.oid;
            if board.has_dispatcher(oid) {
                self.seen.insert(oid);
                if board.has_settled(oid) {
                    self.proven.insert(oid);
                }
                continue;
            }
            // What is known of it stays as it is until the exclusion ends, whose holder then wakes us.
            if exclusion::is_excluded(oid) {
                continue;
            }
            self.learn_outcome(board, oid);
            if barred.contains(&oid) {
                // Perhaps there is nothing to serve in it: others are, and that is to be said.
                wake = wake.min(self.unavailability.record(
                    worker_role::may_not_connect(&database.name),
                    Ends::Unseen,
                    now,
                ));
                continue;
            }
            let resumes_at = board.resumes_at(oid);
            if let Some(at) = resumes_at {
                let sleeps = at.as_micros().saturating_sub(convert::now().as_micros()).saturating_sub(COMES_WITHIN);
                if sleeps > 0 {
                    wake = wake.min(now + Duration::from_micros(sleeps.unsigned_abs()));
                    continue;
                }
            }
            // One look into each new database; afterwards only where something asked for us, or where a dispatcher died.
            let wanted = board.take_wanted(oid) || resumes_at.is_some();
            if wanted {
                self.proven.insert(oid);
            }
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
                Start::Missing(failure) => {
                    waits |= self.proven.contains(&oid);
                    wake = wake.min(self.unavailability.record_of(&database.name, failure, now));
                }
                Start::Later => {}
            }
            // As if it were new: what asked for it is not forgotten.
            self.seen.remove(&oid);
            // One that its owner has locked is no lack of ours.
            all_served &= !self.proven.contains(&oid) && self.failures(oid) > 0;
        }
        board.waits_for_slot(waits);
        self.unavailability.report(now);
        self.unavailability.end(all_served);
        wake
    }

    /// In which order databases have their turn: those that are no hopeless cases first, of these those that have the extension, and of each
    /// the one that has waited longest.
    fn turn(&self, oid: u32) -> (bool, bool, Option<Instant>) {
        (self.failures(oid) > 0, !self.proven.contains(&oid), self.asked.get(&oid).map(|asked| asked.at))
    }

    fn failures(&self, oid: u32) -> u32 {
        self.asked.get(&oid).map_or(0, |asked| asked.failures)
    }

    /// Learns once what became of the dispatcher that was last asked for.
    fn learn_outcome(&mut self, board: &Launcher, oid: u32) {
        let Some(asked) = self.asked.get_mut(&oid).filter(|asked| !asked.over) else { return };
        let outcome = board.outcome(oid, self.proven.contains(&oid));
        asked.over = outcome != StartOutcome::Open;
        match outcome {
            StartOutcome::Open => {}
            StartOutcome::Over => {
                asked.failures = 0;
                if !board.misses_dispatcher(oid) && board.resumes_at(oid).is_none() {
                    self.proven.remove(&oid);
                }
            }
            StartOutcome::Locked | StartOutcome::Failed => {
                asked.failures = asked.failures.saturating_add(1);
                asked.locked = outcome == StartOutcome::Locked;
                self.seen.remove(&oid);
            }
        }
    }

    fn start(&mut self, board: &Launcher, database: u32, role: pg_sys::Oid, wanted: bool, now: Instant) -> Start {
        let before = self.asked.get(&database).copied();
        if let (Some(asked), registry::Presence::Coming) = (before, registry::presence(database)) {
            let latest = asked.at + COMING_AT_MOST;
            if now < latest {
                return Start::Coming(latest);
            }
            // The postmaster could not fork it.
            board.expect_no_more(database);
        }
        let failures = before.map_or(0, |asked| asked.failures);
        // Each time twice as long, for a database that nobody can connect to; the first second is for one that just ended.
        let longest = if before.is_some_and(|asked| asked.locked) { LOCKED_AT_MOST } else { RETRY_AT_MOST };
        let pause = (RESTART_AFTER * (1 << failures.saturating_sub(1).min(5))).min(longest);
        let earliest = before.map(|asked| asked.at + pause);
        if let Some(earliest) = earliest.filter(|earliest| *earliest > now && (!wanted || failures > 0)) {
            return Start::NotBefore(earliest);
        }
        if !self.proven.contains(&database) {
            if let Some(earliest) = self.place_among_looks(board, failures > 0, now) {
                return Start::NotBefore(earliest);
            }
        }
        if !has_slot(board, self.proven.contains(&database)) {
            rest::slot_is_lacking();
            return Start::Missing(Failure::warning(NO_SLOT));
        }
        match board.expect_dispatcher(database) {
            Expected::Coming => {}
            Expected::Here => return Start::Started,
            Expected::NoSlot => {
                let message = "more databases have the extension than the scheduler can serve at a time";
                return Start::Missing(Failure::warning(message));
            }
        }
        // An exclusion that came up since finds the expectation, or we find the exclusion.
        if exclusion::is_excluded(database) {
            board.expect_no_more(database);
            return Start::Later;
        }
        if !dispatcher::start(pg_sys::Oid::from(database), role) {
            board.expect_no_more(database);
            rest::slot_is_lacking();
            return Start::Missing(Failure::warning(NO_SLOT));
        }
        self.asked.insert(database, Asked { at: now, failures, locked: false, over: false });
        Start::Started
    }

    /// `None` where there is room for a look into another database that may not have the extension; otherwise when there will be at the latest.
    /// (One that ends wakes us.)
    fn place_among_looks(&self, board: &Launcher, again: bool, now: Instant) -> Option<Instant> {
        let looks: Vec<(bool, Instant)> = board
            .looking()
            .filter(|oid| !self.proven.contains(oid))
            .filter_map(|oid| self.asked.get(&oid).map(|asked| (asked.failures > 0, asked.at + LOOK_AT_MOST)))
            .filter(|(_, ends)| *ends > now)
            .collect();
        let full = looks.len() >= LOOKS_AT_A_TIME
            || again && looks.iter().filter(|(again, _)| *again).count() >= LOOKS_AGAIN_AT_A_TIME;
        looks.iter().map(|(_, ends)| *ends).min().filter(|_| full)
    }
}

/// Whether a dispatcher can be started so that a worker slot stays free for SQL jobs, or two of them run. The first one may take the last: what is due fires first. So
/// may one that only looks whether there is anything to serve.
fn has_slot(board: &Launcher, stays: bool) -> bool {
    let dispatchers = board.dispatchers();
    let others = compat::background_workers().into_iter().filter(|pid| !board.is_dispatcher(*pid)).count();
    let kept = usize::from(
        stays && dispatchers > 0 && guc::max_sql_runners() > 0 && runners::taken() < staffing::MOST_IN_WANT,
    );
    // SAFETY: reads a global of the process.
    let slots = usize::try_from(unsafe { pg_sys::max_worker_processes }).unwrap_or(0);
    dispatchers + others + kept < slots
}

/// The databases in which a dispatcher may be.
fn list_databases() -> Vec<Database> {
    // Before the look: one that is made meanwhile is none that is gone.
    let mut counted = counters::databases();
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
    counted.retain(|oid| databases.iter().all(|database| database.oid != *oid));
    counted.into_iter().for_each(counters::forget);
    databases.retain(serves);
    databases
}
