//! Runs of SQL jobs that end without a word from their runner: its process is gone, or nobody may run them as their owner.

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{self, FailureOutcome};
use scheduler_core::Instant;

use crate::dispatch::finish::end_each;
use crate::pg::error::Failure;
use crate::pg::Session;
use crate::store::lease::end::{End, Failing};
use crate::store::lease::sql as leases;
use crate::store::runner;

/// Ends runs whose process is gone, nobody knows why, and which are locked; how many.
pub fn end_lost(session: &Session, runs: &[Failing], error_code: &str, error_msg: &str, now: Instant) -> usize {
    let decide = |run: &Failing| lease::stale(run.limits, run.cancel_requested);
    end(session, runs, decide, error_code, error_msg, now)
}

/// Ends runs that failed in a way that has ended their process too, and which are locked; how many.
pub fn end_failed(session: &Session, runs: &[Failing], error_code: &str, error_msg: &str, now: Instant) -> usize {
    let decide = |run: &Failing| lease::failed(run.limits, false, run.cancel_requested);
    end(session, runs, decide, error_code, error_msg, now)
}

fn end(
    session: &Session,
    runs: &[Failing],
    decide: impl Fn(&Failing) -> FailureOutcome,
    error_code: &str,
    error_msg: &str,
    now: Instant,
) -> usize {
    let write = |runs: &[(Uuid, End)]| leases::finish_failed(session, runs, error_code, error_msg, now);
    end_each(session, runs, decide, now, &write, &|_| ())
}

/// Fails executions that wait for a runner of an owner as whom nothing can run; how many.
pub fn refuse(session: &Session, owner: Oid, reason: &Failure, limit: i64, now: Instant) -> usize {
    let waiting = runner::lock_waiting(session, owner, limit);
    let decide = |run: &Failing| lease::failed(run.limits, false, run.cancel_requested);
    let text = reason.text();
    let write = |runs: &[(Uuid, End)]| runner::refuse(session, runs, &reason.sqlstate(), &text, now);
    end_each(session, &waiting, decide, now, &write, &|_| ())
}

/// A delivery that failed is tried again no sooner, whatever its job says, in microseconds: a dispatcher has others to deliver.
const LEAST_WAIT: i64 = 1_000_000;

/// Fails an execution that waits, as a run of it would have failed.
pub fn fail(session: &Session, run: &Failing, reason: &Failure, now: Instant) {
    let decide = |run: &Failing| lease::failed(run.limits, false, run.cancel_requested);
    let soonest = now.checked_add_micros(LEAST_WAIT).unwrap_or(Instant::MAX);
    let write = |runs: &[(Uuid, End)]| {
        let later = |end: End| match end {
            End::Retry(at) => End::Retry(at.max(soonest)),
            End::Terminal | End::Cancelled => end,
        };
        let runs: Vec<(Uuid, End)> = runs.iter().map(|(id, end)| (*id, later(*end))).collect();
        runner::refuse(session, &runs, &reason.sqlstate(), &reason.message, now)
    };
    end_each(session, std::slice::from_ref(run), decide, now, &write, &|_| ());
}
