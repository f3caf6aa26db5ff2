//! Runs that end without success, by their holder's word or because their lease ran out: what becomes of them, and who hears of it.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use scheduler_core::lease::FailureOutcome;
use scheduler_core::runtime::backoff;
use scheduler_core::Instant;

use crate::dispatch::notify::notify;
use crate::pg::{convert, Session};
use crate::shmem::wakeup;
use crate::store::lease::sql::{self as leases, End, Failing};

/// Runs to be ended together, with one reason.
pub struct EndedRuns<'a> {
    /// Which, and how each ends.
    pub runs: Vec<(Uuid, End)>,
    /// What a program reads.
    pub error_code: &'a str,
    /// What a person reads.
    pub error_msg: &'a str,
}

/// Ends runs as FAILED, tells who waits for them, and has the dispatcher up for their retries.
pub fn end_runs(session: &Session, ended: EndedRuns, now: Instant) -> usize {
    let failed = leases::finish_failed(session, &ended.runs, ended.error_code, ended.error_msg, now);
    let mut queues = Vec::new();
    for run in &failed {
        if let Some(schedule_id) = run.awaited_by {
            leases::run_ended(session, schedule_id, run.execution_id, now);
            wakeup::at_commit(now);
        }
        match (&run.claimable_in, run.retry_at) {
            (Some(queue), _) if !queues.contains(queue) => queues.push(queue.clone()),
            (Some(_), _) | (None, None) => {}
            (None, Some(retry_at)) => wake_for(retry_at),
        }
    }
    notify(session, queues);
    failed.len()
}

fn wake_for(time: TimestampWithTimeZone) {
    if let Ok(time) = convert::instant("next_retry_at", time) {
        wakeup::at_commit(time);
    }
}

/// How a run ends that failed: tried again at `chosen`, else by its job's backoff.
pub fn end_of(run: &Failing, outcome: FailureOutcome, chosen: Option<Instant>, now: Instant) -> End {
    match outcome {
        FailureOutcome::Terminal => End::Terminal,
        FailureOutcome::Cancelled => End::Cancelled,
        FailureOutcome::Retry => End::Retry(chosen.unwrap_or_else(|| {
            let waits: Vec<i64> = run
                .retry_backoff
                .iter()
                // What define_job would have refused counts as no wait: one bad job must not keep the others' runs from ending.
                .map(|wait| {
                    wait.and_then(|wait| convert::duration("retry_backoff", wait, convert::Zero::Allowed).ok())
                        .unwrap_or(0)
                })
                .collect();
            now.checked_add_micros(backoff::after_attempt(&waits, run.limits.attempt)).unwrap_or(Instant::MAX)
        })),
    }
}
