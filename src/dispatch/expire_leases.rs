//! Leases that ran out are ended, and retries whose time has come are offered again.

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use pgrx::PgLogLevel;
use scheduler_core::lease;
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect;
use crate::dispatch::finish::{announce, end_of};
use crate::dispatch::notify::notify;
use crate::pg::error::{self, Failure};
use crate::pg::Session;
use crate::store::lease::end::End;
use crate::store::lease::sql as leases;

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
        let ended = leases::finish_failed(session, runs, "stale_timeout", "lease expired without heartbeat", now);
        announce(|| session, &ended, now);
        ended.len()
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
        notify(session, queues);
    }
    count
}
