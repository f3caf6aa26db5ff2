//! How a runner comes to a run: it claims one in a transaction of its own, if it is the process for it.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use scheduler_core::job::Kind;
use scheduler_core::Keyword;

use crate::execute::Transactions;
use crate::guc;
use crate::pg::error::{raise, Failure, Outcome};
use crate::pg::login_rows::LoginRows;
use crate::pg::parse::Strings;
use crate::pg::{acknowledge_durably, as_owner, convert, run_settings, Owner};
use crate::shmem::runners::process::Runner;
use crate::store::database_clock;
use crate::store::execution::{Claimed, QueueClaim};
use crate::store::identity;
use crate::store::queue;
use crate::store::runner::current::CurrentRun;
use crate::store::runner::{self as store, RunJob};
use crate::worker::run_rights::may_run;
use crate::worker::transaction;

/// What a claim is called.
pub const CLAIMING: &CStr = c"claiming a run";

/// What came of looking for work.
pub enum Claim {
    Work(Box<Work>),
    Nothing,
    /// This process is no longer the right one.
    Leave,
}

/// A run that was claimed.
pub struct Work {
    pub(super) claimed: Claimed,
    schedule_name: Option<String>,
    /// What to run, or why nothing.
    pub(super) task: Outcome<Task>,
}

/// What a run does.
pub struct Task {
    pub(super) command: CString,
    pub(super) settings: Vec<(String, String)>,
    /// How it is read.
    pub(super) strings: Strings,
    pub(super) transactions: Transactions,
    /// In microseconds.
    pub(super) run_timeout: Option<i64>,
}

impl Work {
    pub fn job_name(&self) -> &str {
        &self.claimed.job_name
    }

    /// What it does may be committed before its end.
    pub(super) fn commits_by_itself(&self) -> bool {
        self.task.as_ref().is_ok_and(|task| task.transactions == Transactions::Each)
    }

    pub(super) fn lease(&self) -> (Uuid, Uuid) {
        (self.claimed.execution_id, self.claimed.lease_token)
    }

    pub(super) fn current(&self) -> CurrentRun {
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
        as_owner(|us| store::queues_waiting(us.session(), owner, database_clock::now()))
    });
    found.is_ok_and(|queues| !queues.is_empty())
}

/// Claims the next run of this runner's owner, if a login would still read what this process has from its own.
pub fn claim(runner: &Runner) -> Result<Claim, String> {
    let (database, owner) = (Oid::from(runner.database), Oid::from(runner.owner));
    let is_outdated = AssertUnwindSafe(Cell::new(false));
    let claimed = transaction::attempt(CLAIMING, || {
        // What a command has left behind is cleared, whatever it was: nothing runs as anybody else.
        // SAFETY: reads globals of the process.
        if unsafe { [pg_sys::GetUserId(), pg_sys::GetSessionUserId()] } != [owner; 2] {
            raise(Failure::internal("this process is not the owner of the jobs that it runs"));
        }
        // The role may have gone, or lost its rights; a dispatcher says so to those who wait.
        if may_run(owner).is_err() {
            return Claim::Leave;
        }
        let claim = as_owner(|us| {
            if identity::require(|| us.session()).is_err() {
                return Claim::Leave;
            }
            let claim = claim_one(us, runner, owner);
            // Looked at when the run is known: what was changed before it was enqueued holds for it. A role that has lost SUPERUSER would still
            // be one here, for a session keeps that from its login, with its settings and libraries.
            if LoginRows::read(database, owner) != runner.login {
                if matches!(claim, Claim::Work(_)) {
                    is_outdated.set(true);
                    raise(Failure::internal("a run that was claimed is left to another process"));
                }
                return Claim::Leave;
            }
            claim
        });
        if matches!(&claim, Claim::Work(work) if !work.commits_by_itself()) {
            // On disk before the command begins: a command that crashes the server would begin for the first time again and again, and a fence would
            // be given twice. Standbys get it with what the run commits. (Not as the owner above: what is set there is undone with his search path.)
            run_settings::apply_to_transaction(c"synchronous_commit", c"local");
        }
        claim
    });
    if claimed.is_err() && is_outdated.get() {
        runner.ended(convert::now());
        return Ok(Claim::Leave);
    }
    let claim = claimed?;
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
    let mut queues = store::queues_waiting(us.session(), owner, database_clock::now()).into_iter();
    // Others may have in hand all that waits in one of them.
    let claimed = queues.find_map(|queue| queue::claim(us, &wanted(queue), database_clock::now).claimed.pop());
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
    let settings = run_settings::read(&job.settings)?;
    Ok(Task { command, strings: run_settings::strings(&settings), settings, transactions, run_timeout })
}
