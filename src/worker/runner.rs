//! A runner: a process that is connected as the owner of SQL jobs, and runs them one after the other. It never is anybody else: what a command
//! resets or switches leads back to the same role. `run.rs` says how one run goes; here is what stands around them.

use std::ffi::{c_int, CString};
use std::time::Duration;

use pgrx::bgworkers::{BackgroundWorkerBuilder, DynamicBackgroundWorker};
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;

use crate::execute::{self, timeout};
use crate::guc;
use crate::pg::login_rows::{preload_libraries, LoginRows};
use crate::pg::{compat, convert, latch};
use crate::shmem::exclusion;
use crate::shmem::registry::rest;
use crate::shmem::runners::process::{self, Runner};
use crate::shmem::runners::{Limits, Seat};
use crate::store::database_clock;
use crate::worker::run;
use crate::worker::run_claim::{self, Claim};
use crate::worker::session_reset;

/// After so many runs the process is made anew: what they have left in it (libraries, caches, the globals of a language) goes with it.
const MOST_RUNS: u32 = 100;

/// Asks the postmaster for a runner; `None` where no worker slot is free.
pub fn start(seat: Seat) -> Option<DynamicBackgroundWorker> {
    // SAFETY: reads a global of the process.
    let caller = unsafe { pg_sys::MyProcPid };
    BackgroundWorkerBuilder::new("scheduler runner")
        .set_type("scheduler runner")
        .set_library("scheduler")
        .set_function("scheduler_runner_main")
        .set_argument(Some(pg_sys::Datum::from(seat.to_argument())))
        .set_restart_time(None)
        .set_notify_pid(caller)
        .enable_spi_access()
        .load_dynamic()
        .ok()
}

/// Entry point; the postmaster calls it in a new process.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn scheduler_runner_main(argument: pg_sys::Datum) {
    // SAFETY: before any signal is unblocked.
    unsafe { compat::handle_signal(pg_sys::SIGUSR2, cancel_run) }
    super::attach_signals();
    let seat = Seat::of_argument(argument.value() as u64);
    // SAFETY: registers a callback of this process, whose argument is a number.
    let pid = unsafe {
        pg_sys::before_shmem_exit(Some(on_exit), argument);
        pg_sys::MyProcPid
    };
    let Some(mut runner) = Runner::enter(seat, pid, convert::now()) else { return };
    if exclusion::is_excluded(runner.database) {
        return;
    }
    let libraries = connect(&mut runner);
    work(&runner, &libraries);
}

/// A run of this process is to stop. One that was meant has ended where the board says nothing of it any more.
unsafe extern "C-unwind" fn cancel_run(_signal: c_int) {
    if process::is_cancelled() {
        timeout::interrupt();
    }
}

/// How many runners there may be, as the settings say now.
pub fn limits() -> Limits {
    Limits { most: guc::max_sql_runners(), per_role: guc::max_sql_runners_per_role(), lacking: rest::is_lacking() }
}

/// Connects as the owner, and stays that: what `ALTER ROLE ... SET` says holds, but for who it is. Which libraries it has loaded is returned.
fn connect(runner: &mut Runner) -> [String; 2] {
    super::pin(c"exit_on_error", c"off");
    // SAFETY: once in the life of the process; an error ends it.
    unsafe {
        compat::connect(Oid::from(runner.database), Oid::from(runner.owner));
        pg_sys::SetSessionAuthorization(
            pg_sys::GetAuthenticatedUserId(),
            pg_sys::superuser_arg(pg_sys::GetAuthenticatedUserId()),
        );
        // As in a backend: what a library does when it is loaded may ask the catalogs.
        pg_sys::StartTransactionCommand();
        if runner.login == LoginRows::UNKNOWN {
            runner.login = LoginRows::read(Oid::from(runner.database), Oid::from(runner.owner));
        }
        pg_sys::process_session_preload_libraries();
        pg_sys::CommitTransactionCommand();
    }
    super::pin(c"role", c"none");
    name_process(None);
    preload_libraries()
}

/// What pg_stat_activity shows as application_name.
fn name_process(job_name: Option<&str>) {
    let name = job_name.map_or_else(|| "scheduler runner".to_owned(), |job| format!("scheduler: {job}"));
    super::set_application_name(&CString::new(name).unwrap_or_default());
}

/// Runs what there is to run, until nobody needs this process any more.
fn work(runner: &Runner, libraries: &[String; 2]) {
    let mut runs = 0;
    let mut in_vain = false;
    super::hold_cancels(true);
    while runner.look(convert::now()) {
        super::reload_settings();
        // A reload may have named other libraries: they are loaded at a login only.
        if must_leave(runner) || preload_libraries() != *libraries {
            return;
        }
        match run_claim::claim(runner) {
            Ok(Claim::Work(work)) => {
                in_vain = false;
                name_process(Some(work.job_name()));
                let goes_on = run::run(runner, *work);
                runs += 1;
                super::reload_settings();
                if !goes_on || is_test() || runs >= MOST_RUNS || guc::runner_idle() == 0 || runner.gives_way(limits()) {
                    return;
                }
                if !session_reset::clear_session() {
                    return;
                }
                name_process(None);
            }
            Ok(Claim::Nothing) if is_test() => return,
            Ok(Claim::Nothing) => {
                runner.wait(convert::now());
                // What came before that woke nobody. What somebody has in hand seems to wait, but cannot be claimed: once is enough, the
                // dispatcher looks again.
                if !in_vain && run_claim::has_work(runner) {
                    in_vain = true;
                } else if wait(runner) {
                    in_vain = false;
                } else {
                    return;
                }
            }
            Ok(Claim::Leave) => return,
            Err(message) => {
                crate::worker::transaction::log(run_claim::CLAIMING, &message);
                return runner.fail();
            }
        }
    }
}

/// Whether the database is in test mode: a session has one execution run then (`drain.rs`), and no more.
fn is_test() -> bool {
    database_clock::is_test()
}

fn must_leave(runner: &Runner) -> bool {
    super::must_end()
        || !guc::enabled()
        || guc::max_sql_runners() == 0
        || exclusion::is_excluded(runner.database)
        || runner.is_surplus(limits())
}

/// Waits for work; false where none came, or somebody else needs the place.
fn wait(runner: &Runner) -> bool {
    super::report_idle(c"waiting for a run");
    let began = std::time::Instant::now();
    let longest = Duration::from_micros(guc::runner_idle().unsigned_abs());
    while began.elapsed() < longest && runner.is_idle() && !must_leave(runner) && !super::must_reload() {
        let left = longest.saturating_sub(began.elapsed());
        latch::wait_for(i64::try_from(left.as_millis()).unwrap_or(i64::MAX).saturating_add(1));
        if super::must_end() {
            return false;
        }
        pgrx::check_for_interrupts!();
    }
    if must_leave(runner) || runner.is_to_leave() {
        return false;
    }
    if began.elapsed() < longest {
        return true;
    }
    // Who saw us wait counts on us.
    !runner.try_leave()
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: c_int, argument: pg_sys::Datum) {
    let timed_out = execute::fatal_sqlstate().is_some_and(|sqlstate| sqlstate == timeout::TRANSACTION_TIMEOUT);
    process::left(Seat::of_argument(argument.value() as u64), pg_sys::MyProcPid, timed_out);
}
