//! Runs that end without success: by their holder's word, or because their lease ran out.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use pgrx::PgLogLevel;
use scheduler_core::lease::{self, Failure as NextState};
use scheduler_core::{backoff, Instant};

use crate::dispatch::bisect::bisect;
use crate::pg::error::{self, Failure};
use crate::pg::{convert, Session};
use crate::shmem::registry;
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
            registry::at_commit(now);
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
        registry::at_commit(time);
    }
}

/// How a run ends that failed: tried again at `chosen`, else by its job's backoff.
pub fn end_of(run: &Failing, next: NextState, chosen: Option<Instant>, now: Instant) -> End {
    match next {
        NextState::Terminal => End::Terminal,
        NextState::Cancelled => End::Cancelled,
        NextState::Retry => End::Retry(chosen.unwrap_or_else(|| {
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

/// What one sweep did.
pub struct Swept {
    /// How many runs it ended.
    pub ended: usize,
    /// How many had run out: also those that could not be ended now.
    pub seen: usize,
}

/// Ends up to `limit` runs whose lease ran out, of one job or of all.
pub fn sweep_stale(session: &Session, job_name: Option<&str>, now: Instant, limit: i64, caller: Oid) -> Swept {
    let stale = leases::pick_stale(session, job_name, now, limit, caller);
    leases::postpone_sweep(session, now);
    let runs: Vec<(Uuid, End)> = stale
        .free
        .iter()
        .map(|run| (run.execution_id, end_of(run, lease::stale(run.limits, run.cancel_requested), None, now)))
        .collect();
    let mut end = |runs: &[(Uuid, End)]| {
        let runs = runs.to_vec();
        end_runs(
            session,
            EndedRuns { runs, error_code: "stale_timeout", error_msg: "lease expired without heartbeat" },
            now,
        )
    };
    // One that cannot be ended (somebody put a constraint on the ledger) keeps no other waiting.
    let mut failed = |(execution_id, _): &(Uuid, End), failure: Failure| {
        let text = format!(
            "scheduler: stale execution {execution_id} could not be ended and will be tried again: {}",
            failure.message
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
        leases::postpone(session, *execution_id, now);
    };
    Swept { ended: bisect(&runs, &mut end, &mut failed).into_iter().sum(), seen: stale.seen }
}

/// Makes up to `limit` retries claimable whose time has come; how many.
pub fn promote_retries(session: &Session, now: Instant, limit: i64, caller: Oid) -> i64 {
    let (count, queues) = leases::promote_retries(session, now, limit, caller);
    if count > 0 {
        super::notify(session, queues);
    }
    count
}
