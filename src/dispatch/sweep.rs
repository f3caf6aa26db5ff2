//! Runs that end without success: by their holder's word, or because their lease ran out.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{self, Failure as Fate};
use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::store::execution::{self, Failing};
use crate::store::Session;
use crate::worker::wake;

/// Runs to be ended together, with one reason.
pub struct EndedRuns<'a> {
    /// Which, and when each is tried again (`None` = never).
    pub runs: Vec<(Uuid, Option<Instant>)>,
    /// What a program reads.
    pub error_code: &'a str,
    /// What a person reads.
    pub error_msg: &'a str,
}

/// Ends runs as FAILED, tells who waits for them, and has the dispatcher up for their retries.
pub fn end_runs(session: &Session, ended: EndedRuns, now: Instant) -> usize {
    let failed = execution::finish_failed(session, ended.runs, ended.error_code, ended.error_msg, now);
    let mut queues = Vec::new();
    for run in &failed {
        if let Some(schedule_id) = run.awaited_by {
            execution::run_ended(session, schedule_id, run.execution_id, now);
            wake::at_commit(now);
        }
        match (&run.claimable_in, run.retry_at) {
            (Some(queue), _) if !queues.contains(queue) => queues.push(queue.clone()),
            (Some(_), _) | (None, None) => {}
            (None, Some(retry_at)) => wake_for(retry_at),
        }
    }
    super::notify(session, queues);
    failed.len()
}

fn wake_for(time: TimestampWithTimeZone) {
    if let Ok(time) = convert::instant("next_retry_at", time) {
        wake::at_commit(time);
    }
}

/// When a failed run is tried again by its job's backoff; `None` = never.
pub fn retry_time(run: &Failing, fate: Fate, now: Instant) -> Option<Instant> {
    match fate {
        Fate::Terminal => None,
        Fate::Retry => {
            let waits: Vec<i64> = run
                .retry_backoff
                .iter()
                // What define_job would have refused counts as no wait: one bad job must not keep the others' runs from ending.
                .map(|wait| convert::duration("retry_backoff", *wait, convert::Zero::Allowed).unwrap_or(0))
                .collect();
            Some(now.checked_add_micros(backoff::after_attempt(&waits, run.limits.attempt)).unwrap_or(Instant::MAX))
        }
    }
}

/// Ends up to `limit` runs whose lease ran out, of one job or of all; how many.
pub fn sweep_stale(session: &Session, job_name: Option<&str>, now: Instant, limit: i64, caller: Oid) -> usize {
    let stale = execution::pick_stale(session, job_name, now, limit, caller);
    execution::postpone_sweep(session, now);
    if stale.is_empty() {
        return 0;
    }
    let runs = stale.iter().map(|run| (run.execution_id, retry_time(run, lease::stale(run.limits), now))).collect();
    let ended = EndedRuns { runs, error_code: "stale_timeout", error_msg: "lease expired without heartbeat" };
    end_runs(session, ended, now)
}

/// Makes up to `limit` retries claimable whose time has come; how many.
pub fn promote_retries(session: &Session, now: Instant, limit: i64) -> i64 {
    let (count, queues) = execution::promote_retries(session, now, limit);
    if count > 0 {
        super::notify(session, queues);
    }
    count
}
