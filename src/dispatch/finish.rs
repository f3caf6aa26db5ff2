//! Runs that end, by their holder's word or because their lease ran out: who hears of it, and what becomes of those that did not succeed.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::PgLogLevel;
use scheduler_core::lease::FailureOutcome;
use scheduler_core::runtime::backoff;
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect;
use crate::dispatch::notify::notify;
use crate::pg::error::{self, Failure};
use crate::pg::{convert, syscache, Session};
use crate::shmem::wakeup;
use crate::store::alert;
use crate::store::lease::end::{End, EndedRun, Failing};
use crate::store::lease::sql as leases;

/// Tells who waits for runs that have ended, and has the dispatcher up for their retries. A session is asked for where it is needed.
pub fn announce<'s>(session: impl Fn() -> &'s Session, ended: &[EndedRun], now: Instant) {
    let mut queues = Vec::new();
    for run in ended {
        if let Some(schedule_id) = run.awaited_by {
            leases::run_ended(session(), schedule_id, run.execution_id, now);
            wakeup::at_commit(now);
        }
        if let Some(schedule_id) = run.failed_of {
            alert::run_failed(session(), schedule_id, run.execution_id);
            wakeup::at_commit(now);
        }
        match (&run.claimable, run.retry_at) {
            (Some(ready), _) if !queues.contains(&ready.queue) => queues.push(ready.queue.clone()),
            (Some(_), _) | (None, None) => {}
            (None, Some(retry_at)) => wake_for_first([retry_at].into_iter()),
        }
    }
    if !queues.is_empty() {
        notify(session(), queues);
    }
}

/// Has the dispatcher up when the first of these executions is due.
pub fn wake_for_first(due: impl Iterator<Item = TimestampWithTimeZone>) {
    let first = due.min_by_key(|time| i64::from(*time));
    if let Some(Ok(time)) = first.map(|time| convert::instant("retry_at", time)) {
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

/// Writes how runs end.
type Write<'w> = &'w dyn Fn(&[(Uuid, End)]) -> Vec<EndedRun>;

/// Ends runs that their holders do not, which are locked: `write` writes what `decide` decides. How many. One that cannot be ended (somebody put
/// a constraint on the ledger) keeps no other waiting, and goes to `left`.
pub fn end_each(
    session: &Session,
    runs: &[Failing],
    decide: impl Fn(&Failing) -> FailureOutcome,
    now: Instant,
    write: Write,
    left: &dyn Fn(Uuid),
) -> usize {
    let runs: Vec<(Uuid, End)> =
        runs.iter().map(|run| (run.execution_id, end_of(run, decide(run), None, now))).collect();
    let mut end = |runs: &[(Uuid, End)]| {
        let ended = write(runs);
        announce(|| session, &ended, now);
        ended.len()
    };
    let mut failed = |(execution_id, _): &(Uuid, End), failure: Failure| {
        let text = format!(
            "scheduler: execution {execution_id} of database \"{}\" could not be ended and will be tried again: {}",
            syscache::database_name(),
            error::cut(&failure.message)
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
        left(*execution_id);
    };
    bisect(&runs, &mut end, &mut failed).into_iter().sum()
}
