//! Leases that ran out are ended, and retries whose time has come are offered again.

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use scheduler_core::lease;
use scheduler_core::Instant;

use crate::dispatch::finish::end_each;
use crate::dispatch::notify::notify;
use crate::pg::Session;
use crate::store::lease::end::{End, Failing};
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
    let decide = |run: &Failing| lease::stale(run.limits, run.cancel_requested);
    let write = |runs: &[(Uuid, End)]| {
        leases::finish_failed(session, runs, "stale_timeout", "lease expired without heartbeat", now)
    };
    let postpone = |execution_id| leases::postpone(session, execution_id, now);
    Swept { ended: end_each(session, &stale.free, decide, now, &write, &postpone), seen: stale.seen }
}

/// Makes up to `limit` retries claimable whose time has come, after the instant up to which others have them in hand; how many. Those whose time has
/// come after `since` do not wait for the others.
pub fn promote_retries(
    session: &Session,
    after: Instant,
    since: Instant,
    now: Instant,
    limit: i64,
    caller: Oid,
) -> i64 {
    let (count, queues) = leases::promote_retries(session, after, since, now, limit, caller);
    if count > 0 {
        notify(session, queues);
    }
    count
}
