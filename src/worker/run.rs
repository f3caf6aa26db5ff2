//! One run of a SQL job: it is claimed in a transaction of its own, and then, as a rule, the command and the end of the run are committed
//! together. So SUCCESS stands in the ledger if and only if what this attempt did is committed.
//!
//! The lease lasts as long as this process. Nobody else writes to it, but who cancels; so the run can end in the command's own transaction,
//! whatever its isolation level.

use std::ffi::CStr;

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use pgrx::prelude::*;
use scheduler_core::{lease, Instant};

use crate::dispatch;
use crate::execute::{self, timeout, Captured, CommandError, Output, Statements, Transactions};
use crate::guc;
use crate::pg::error::{or_raise, raise, Failure};
use crate::pg::{acknowledge_durably, as_owner, convert, run_settings, subtransaction};
use crate::shmem::runners::process::{self, Runner};
use crate::store::database_clock;
use crate::store::lease::end::{Ending, Failing};
use crate::store::lease::Ledger;
use crate::store::runner::current::OnRun;
use crate::worker::run_claim::{Task, Work};
use crate::worker::{run_log, transaction};

const FINISHING: &CStr = c"finishing a run";
/// How often to try to write down that a run has failed.
const TRIES: u32 = 5;

/// Runs what was claimed, and writes down how it ended; false where this process is better made anew.
pub fn run(runner: &Runner, work: Work) -> bool {
    let written = match &work.task {
        Ok(task) => {
            let ended = run_task(&work, task);
            match ended {
                Ok(()) => true,
                Err((error, place)) => {
                    let command = task.command.to_string_lossy();
                    let text = error.text(&command, &place);
                    if process::is_cancelled() {
                        run_log::write(work.job_name(), "was cancelled");
                    } else {
                        run_log::write(work.job_name(), &format!("failed: {}: {}", error.sqlstate, error.message));
                    }
                    write_failure(&work, &error.sqlstate, &text)
                }
            }
        }
        Err(failure) => write_failure(&work, &failure.sqlstate(), &failure.text()),
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
        let statements = or_raise(Statements::parse(&task.command, task.strings));
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
        } else {
            let is_own = task.transactions == Transactions::Each;
            let hint = execute::transaction_hint(&error, output.statement(), work.job_name(), is_own);
            error.hint = error.hint.or(hint);
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
    let now = database_clock::now();
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
            Err(message) if tries < TRIES && !super::must_end() => could_not_finish(work, &message),
            Err(message) => {
                // As if the process had died here: the dispatcher ends the run.
                could_not_finish(work, &message);
                // SAFETY: ends the process.
                unsafe { pg_sys::proc_exit(1) }
            }
        }
    }
}

/// Writes down that a run has failed; false where that failed too, and the dispatcher is to do it.
fn write_failure(work: &Work, error_code: &str, error_msg: &str) -> bool {
    for _ in 0..TRIES {
        let written = transaction::attempt(FINISHING, || {
            let now = database_clock::now();
            let decide = |run: &Failing| {
                let next = lease::failed(run.limits, false, run.cancel_requested);
                dispatch::end_of(run, next, None, now)
            };
            end(work.lease(), Ending::Failure { error_code, error_msg, decide: &decide });
            acknowledge_durably();
        });
        match written {
            Ok(()) => return true,
            Err(message) => could_not_finish(work, &message),
        }
        if super::must_end() {
            return false;
        }
    }
    false
}

/// Says in the server's log that the end of a run could not be written.
fn could_not_finish(work: &Work, message: &str) {
    run_log::write(work.job_name(), &format!("could not be ended: {message}"));
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
