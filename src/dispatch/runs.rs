//! Runs of SQL jobs that end without a word from their runner: its process is gone, or nobody may run them as their owner.

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use pgrx::PgLogLevel;
use scheduler_core::lease;
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect;
use crate::dispatch::finish::{announce, end_of};
use crate::pg::error::{self, Failure};
use crate::pg::Session;
use crate::store::lease::end::{End, EndedRun, Failing};
use crate::store::lease::sql as leases;
use crate::store::runner;

/// Ends runs whose process is gone, which are locked; how many.
pub fn end_lost(session: &Session, runs: &[Failing], error_code: &str, error_msg: &str, now: Instant) -> usize {
    let decide = |run: &Failing| lease::stale(run.limits, run.cancel_requested);
    end(session, runs, decide, now, &|runs| leases::finish_failed(session, runs, error_code, error_msg, now))
}

/// Fails executions that wait for a runner of an owner as whom nothing can run; how many.
pub fn refuse(session: &Session, owner: Oid, reason: &Failure, limit: i64, now: Instant) -> usize {
    let waiting = runner::lock_waiting(session, owner, limit);
    let decide = |run: &Failing| lease::failed(run.limits, false, run.cancel_requested);
    let text = reason.text();
    end(session, &waiting, decide, now, &|runs| runner::refuse(session, runs, &reason.sqlstate(), &text, now))
}

/// Writes how runs end.
type Write<'w> = &'w dyn Fn(&[(Uuid, End)]) -> Vec<EndedRun>;

fn end(
    session: &Session,
    runs: &[Failing],
    decide: impl Fn(&Failing) -> lease::FailureOutcome,
    now: Instant,
    write: Write,
) -> usize {
    let runs: Vec<(Uuid, End)> =
        runs.iter().map(|run| (run.execution_id, end_of(run, decide(run), None, now))).collect();
    let mut end = |runs: &[(Uuid, End)]| {
        let ended = write(runs);
        announce(|| session, &ended, now);
        ended.len()
    };
    // One that cannot be ended (somebody put a constraint on the ledger) keeps no other waiting.
    let mut failed = |(execution_id, _): &(Uuid, End), failure: Failure| {
        let text = format!("scheduler: execution {execution_id} could not be ended: {}", failure.message);
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
    };
    bisect(&runs, &mut end, &mut failed).into_iter().sum()
}
