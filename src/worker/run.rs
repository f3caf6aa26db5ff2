//! One run of a SQL job: it is claimed in a transaction of its own, and then, as a rule, the command and the end of the run are committed
//! together. So SUCCESS stands in the ledger if and only if what this attempt did is committed.
//!
//! The lease lasts as long as this process. Nobody else writes to it, but who cancels; so the run can end in the command's own transaction,
//! whatever its isolation level.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use scheduler_core::job::Kind;
use scheduler_core::{lease, Instant, Keyword};

use crate::dispatch;
use crate::execute::{self, timeout, Captured, CommandError, Output, Statements, Transactions};
use crate::guc;
use crate::pg::error::{or_raise, raise, Failure, Outcome};
use crate::pg::{acknowledge_durably, as_owner, convert, run_settings, subtransaction, Owner};
use crate::shmem::runners::process::{self, Runner};
use crate::store::execution::{Claimed, QueueClaim};
use crate::store::identity;
use crate::store::lease::end::{Ending, Failing};
use crate::store::lease::Ledger;
use crate::store::queue;
use crate::store::runner::current::{CurrentRun, OnRun};
use crate::store::runner::{self as store, RunJob};
use crate::worker::run_rights::may_run;
use crate::worker::transaction;

/// What a claim is called.
pub const CLAIMING: &CStr = c"claiming a run";
const FINISHING: &CStr = c"finishing a run";
/// How often to try to write down that a run has failed.
const TRIES: u32 = 5;

/// What came of looking for work.
pub enum Claim {
    Work(Box<Work>),
    Nothing,
    /// This process is no longer the right one.
    Leave,
}

/// A run that was claimed.
pub struct Work {
    claimed: Claimed,
    schedule_name: Option<String>,
    /// What to run, or why nothing.
    task: Outcome<Task>,
}

/// What a run does.
struct Task {
    command: CString,
    settings: Vec<(String, String)>,
    transactions: Transactions,
    /// In microseconds.
    run_timeout: Option<i64>,
}

impl Work {
    pub fn job_name(&self) -> &str {
        &self.claimed.job_name
    }

    /// What it does may be committed before its end.
    fn commits_by_itself(&self) -> bool {
        self.task.as_ref().is_ok_and(|task| task.transactions == Transactions::Each)
    }

    fn lease(&self) -> (Uuid, Uuid) {
        (self.claimed.execution_id, self.claimed.lease_token)
    }

    fn current(&self) -> CurrentRun {
        CurrentRun {
            execution_id: Some(self.claimed.execution_id),
            job_name: self.claimed.job_name.clone(),
            schedule_name: self.schedule_name.clone(),
            scope_kind: Some(self.claimed.scope_kind.clone()),
            scope_id: Some(self.claimed.scope_id.clone()),
            plan_time: self.claimed.plan_time,
            attempt: self.claimed.attempt,
            payload: self.claimed.payload.clone(),
        }
    }
}

/// Whether something waits in this runner's queues.
pub fn has_work(runner: &Runner) -> bool {
    let owner = Oid::from(runner.owner);
    let found = transaction::attempt(c"looking for a run", || {
        as_owner(|us| store::queues_waiting(us.session(), owner, convert::now()))
    });
    found.is_ok_and(|queues| !queues.is_empty())
}

/// Claims the next run of this runner's owner. `settings` is what `ALTER ROLE` and `ALTER DATABASE ... SET` said before.
pub fn claim(runner: &Runner, settings: &mut Option<String>) -> Result<Claim, String> {
    let (database, owner) = (Oid::from(runner.database), Oid::from(runner.owner));
    let (known, is_outdated) = (settings.clone(), AssertUnwindSafe(Cell::new(false)));
    let claimed = transaction::attempt(CLAIMING, || {
        // What a command has left behind is cleared, whatever it was: nothing runs as anybody else.
        // SAFETY: reads globals of the process.
        if unsafe { [pg_sys::GetUserId(), pg_sys::GetSessionUserId()] } != [owner; 2] {
            raise(Failure::internal("this process is not the owner of the jobs that it runs"));
        }
        // The role may have gone, or lost its rights; a dispatcher says so to those who wait.
        if may_run(owner).is_err() {
            return (Claim::Leave, None);
        }
        let (claim, now_set) = as_owner(|us| {
            if identity::require(|| us.session()).is_err() {
                return (Claim::Leave, None);
            }
            let claim = claim_one(us, runner, owner);
            // Looked at when the run is known: what was set before it was enqueued is set for it.
            let now_set = store::role_settings(us.session(), database, owner);
            if known.as_ref().is_some_and(|known| *known != now_set) {
                if matches!(claim, Claim::Work(_)) {
                    is_outdated.set(true);
                    raise(Failure::internal("a run that was claimed is left to another process"));
                }
                return (Claim::Leave, None);
            }
            (claim, Some(now_set))
        });
        if matches!(&claim, Claim::Work(work) if !work.commits_by_itself()) {
            // On disk before the command begins: a command that crashes the server would begin for the first time again and again, and a fence would
            // be given twice. Standbys get it with what the run commits. (Not as the owner above: what is set there is undone with his search path.)
            run_settings::apply_to_transaction(c"synchronous_commit", c"local");
        }
        (claim, now_set)
    });
    if claimed.is_err() && is_outdated.get() {
        runner.ended(convert::now());
        return Ok(Claim::Leave);
    }
    let (claim, now_set) = claimed?;
    *settings = now_set;
    if matches!(claim, Claim::Work(_)) {
        runner.claimed();
    }
    Ok(claim)
}

fn claim_one(us: &Owner, runner: &Runner, owner: Oid) -> Claim {
    // SAFETY: reads a global of the process.
    let pid = unsafe { pg_sys::MyProcPid };
    let wanted = |queue| QueueClaim {
        queue,
        limit: 1,
        runner_id: format!("sql/{pid}"),
        stale_timeout: None,
        default_stale_timeout: convert::interval(guc::stale_timeout()),
        lasts_as_process: true,
        caller: owner,
    };
    let mut queues = store::queues_waiting(us.session(), owner, convert::now()).into_iter();
    // Others may have in hand all that waits in one of them.
    let claimed = queues.find_map(|queue| queue::claim(us, &wanted(queue), convert::now).pop());
    let Some(claimed) = claimed else { return Claim::Nothing };
    let row = store::read_run(us.session(), claimed.execution_id);
    let schedule_name = row.as_ref().and_then(|row| row.schedule_name.clone());
    let task = match row.and_then(|row| row.job.map(|job| (row.owner, job))) {
        Some((its_owner, job)) => task(job, &claimed.job_name, its_owner, owner),
        None => Err(Failure::unknown("job", &claimed.job_name, "It was dropped before the run began.")),
    };
    let work = Work { claimed, schedule_name, task };
    if work.commits_by_itself() {
        // As the job is now, and not as it may be when the run is lost.
        store::commits_by_itself(us.session(), work.claimed.execution_id);
        // What it does outlives a crash that would take the claim: no attempt may begin twice.
        acknowledge_durably();
    }
    let now = convert::now();
    let run_timeout = work.task.as_ref().ok().and_then(|task| task.run_timeout);
    let terminate_at =
        run_timeout.and_then(|timeout| now.checked_add_micros(timeout.saturating_add(guc::cancel_grace())));
    // Before anybody can see the lease.
    runner.run(work.claimed.execution_id, terminate_at, now);
    Claim::Work(Box::new(work))
}

/// What the run is to do, if execution, job and process have one owner.
fn task(job: RunJob, job_name: &str, execution_owner: Oid, me: Oid) -> Outcome<Task> {
    if job.owner != me || execution_owner != me {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("job \"{job_name}\" has changed hands since this execution was dispatched"),
            "Neither command was run; the next execution runs as the new owner.",
        ));
    }
    if Kind::parse(&job.kind) != Some(Kind::Sql) {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("job \"{job_name}\" is no longer of kind \"sql\""),
            "It was redefined since this execution was dispatched.",
        ));
    }
    let command = CString::new(job.command.unwrap_or_default()).unwrap_or_default();
    let run_timeout = convert::optional_duration("run_timeout", job.run_timeout, convert::Zero::Refused)?;
    let transactions = if job.own_transactions { Transactions::Each } else { Transactions::Together };
    Ok(Task { command, settings: run_settings::read(&job.settings)?, transactions, run_timeout })
}

/// Runs what was claimed, and writes down how it ended; false where this process is better made anew.
pub fn run(runner: &Runner, work: Work) -> bool {
    let lease = work.lease();
    let written = match &work.task {
        Ok(task) => {
            let ended = run_task(&work, task);
            match ended {
                Ok(()) => true,
                Err((error, place)) => {
                    let command = task.command.to_string_lossy();
                    let text = error.text(&command, &place);
                    if process::is_cancelled() {
                        pgrx::log!("scheduler: run of job \"{}\" was cancelled", work.job_name());
                    } else {
                        let (job_name, error) = (work.job_name(), &error);
                        pgrx::log!(
                            "scheduler: run of job \"{job_name}\" failed: {}: {}",
                            error.sqlstate,
                            error.message
                        );
                    }
                    write_failure(lease, &error.sqlstate, &text)
                }
            }
        }
        Err(failure) => write_failure(lease, &failure.sqlstate(), &failure.text()),
    };
    if written {
        runner.ended(convert::now());
    }
    written
}

/// Where a command failed, and how.
type Failed = (Box<CommandError>, String);

fn run_task(work: &Work, task: &Task) -> Result<(), Failed> {
    let began = convert::now();
    let ends_at = task.run_timeout.and_then(|timeout| began.checked_add_micros(timeout));
    if let Some(ends_at) = ends_at {
        let terminate_at = ends_at.checked_add_micros(guc::cancel_grace()).unwrap_or(Instant::MAX);
        // SAFETY: reads a global of the process.
        crate::shmem::registry::wake_dispatcher(unsafe { pg_sys::MyDatabaseId.to_u32() }, terminate_at.as_micros());
    }
    let _current = OnRun::begin(work.current());
    let _captured = Captured::begin();
    let mut output = Output::default();
    let mut count = 0;
    // SAFETY: between two transactions of this process, which serves nothing else.
    let result = execute::caught(|| unsafe {
        report_running(&task.command);
        accept_cancels();
        timeout::begin_run(ends_at);
        apply_settings(&task.settings);
        if task.transactions == Transactions::Together {
            pg_sys::SetCurrentStatementStartTimestamp();
            pg_sys::StartTransactionCommand();
        }
        // (Parsing needs no transaction.)
        let statements = or_raise(Statements::parse(&task.command));
        count = statements.len();
        if task.transactions == Transactions::Together {
            pg_sys::BeginImplicitTransactionBlock();
        }
        let ran = execute::run(&task.command, &statements, task.transactions, &mut output);
        if task.transactions == Transactions::Together {
            check_deferred();
            finish(work, &output);
            timeout::end_run_with_transaction();
            pg_sys::EndImplicitTransactionBlock();
            pg_sys::CommitTransactionCommand();
            ran.committed(&task.command);
        }
    });
    let timed_out = timeout::end_run();
    timeout::end_statement();
    super::hold_cancels(true);
    if let Err(mut error) = result {
        abort();
        if timed_out && error.sqlstate == "57014" {
            "run_timeout".clone_into(&mut error.sqlstate);
            let length = task.run_timeout.unwrap_or(0) as f64 / 1e6;
            error.message = format!("the run did not end within its run_timeout of {length} seconds");
        } else if error.sqlstate == "25001" && error.hint.is_none() {
            error.hint = Some(
                "Define the job with own_transactions => true: each statement then has a transaction of its own."
                    .to_owned(),
            );
        }
        return Err((error, output.place(count)));
    }
    // SAFETY: between transactions.
    unsafe { pg_sys::pgstat_report_stat(true) };
    if task.transactions == Transactions::Each {
        finish_apart(work, &output);
    }
    Ok(())
}

/// Shows the command in pg_stat_activity.
fn report_running(command: &CStr) {
    // SAFETY: copies the text into the process' own slot.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, command.as_ptr()) }
}

/// From here on a cancel ends the command; one that has come since the claim does at once.
fn accept_cancels() {
    super::hold_cancels(false);
    if process::is_cancelled() {
        // SAFETY: the next check for interrupts is the command's.
        unsafe { timeout::interrupt() }
    }
}

fn apply_settings(settings: &[(String, String)]) {
    if settings.is_empty() {
        return;
    }
    // SAFETY: between transactions.
    unsafe {
        pg_sys::StartTransactionCommand();
        run_settings::apply(settings);
        pg_sys::CommitTransactionCommand();
    }
}

/// What the command put off to the end of its transaction happens now, as its owner.
unsafe fn check_deferred() {
    pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    subtransaction::set_constraints_immediate();
    pg_sys::PopActiveSnapshot();
}

/// The command may have made its transaction read only, or chosen another isolation level, which are its own affair. What is written here is
/// nobody else's: neither has a say in it.
struct OursToWrite {
    read_only: bool,
    isolation: i32,
}

impl OursToWrite {
    fn begin() -> OursToWrite {
        // SAFETY: the process' only thread, in a transaction; its abort forgets both.
        unsafe {
            let before = OursToWrite { read_only: pg_sys::XactReadOnly, isolation: pg_sys::XactIsoLevel };
            pg_sys::XactReadOnly = false;
            // What the server keeps of a serializable transaction has to fit its level: there only a cancel at this moment conflicts.
            if pg_sys::XactIsoLevel == pg_sys::XACT_REPEATABLE_READ as i32 {
                pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
            }
            before
        }
    }
}

impl Drop for OursToWrite {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            pg_sys::XactReadOnly = self.read_only;
            pg_sys::XactIsoLevel = self.isolation;
        }
    }
}

/// Ends the run as SUCCESS in the transaction that is open, which is then durable when it is committed.
unsafe fn finish(work: &Work, output: &Output) {
    let result = output.result();
    let _ours = OursToWrite::begin();
    pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
    let ending = Ending::Success { rows_affected: output.rows_affected(), result };
    if !end(work.lease(), ending) {
        raise(Failure::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "lease lost",
            "The dispatcher has given this run up.",
        ));
    }
    pg_sys::PopActiveSnapshot();
    acknowledge_durably();
}

/// Ends a run that has its lease; false where it was given up.
fn end(lease: (Uuid, Uuid), ending: Ending) -> bool {
    let now = convert::now();
    as_owner(|us| {
        let ended = Ledger::open(us).end(lease, ending, now);
        ended.is_some_and(|ended| {
            dispatch::announce(|| us.session(), &[ended], now);
            true
        })
    })
}

/// Ends a run whose statements are committed.
fn finish_apart(work: &Work, output: &Output) {
    let mut tries = 0;
    loop {
        let (lease, rows_affected) = (work.lease(), output.rows_affected());
        let ended = transaction::attempt(FINISHING, || {
            let ending = Ending::Success { rows_affected, result: output.result() };
            end(lease, ending);
            acknowledge_durably();
        });
        tries += 1;
        match ended {
            Ok(()) => return,
            Err(message) if tries < TRIES && !super::must_end() => transaction::log(FINISHING, &message),
            Err(message) => {
                // As if the process had died here: the dispatcher ends the run.
                transaction::log(FINISHING, &message);
                // SAFETY: ends the process.
                unsafe { pg_sys::proc_exit(1) }
            }
        }
    }
}

/// Writes down that a run has failed; false where that failed too, and the dispatcher is to do it.
fn write_failure(lease: (Uuid, Uuid), error_code: &str, error_msg: &str) -> bool {
    for _ in 0..TRIES {
        let now = convert::now();
        let written = transaction::attempt(FINISHING, || {
            let decide = |run: &Failing| {
                let next = lease::failed(run.limits, false, run.cancel_requested);
                dispatch::end_of(run, next, None, now)
            };
            end(lease, Ending::Failure { error_code, error_msg, decide: &decide });
            acknowledge_durably();
        });
        match written {
            Ok(()) => return true,
            Err(message) => transaction::log(FINISHING, &message),
        }
        if super::must_end() {
            return false;
        }
    }
    false
}

/// What the server does with a session after an error.
fn abort() {
    // SAFETY: the error has been handled.
    unsafe {
        pg_sys::AbortOutOfAnyTransaction();
        pg_sys::PortalErrorCleanup();
        execute::forget_failed();
        pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        pg_sys::pgstat_report_stat(true);
    }
}
