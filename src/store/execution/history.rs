//! What the ledger remembers of a scope, and how it forgets.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::Rows;
use crate::pg::Session;
use crate::{arguments, statement};

/// The newest plan of a scope.
pub struct LatestPlan {
    /// Its plan time.
    pub plan_time: TimestampWithTimeZone,
    /// Where it stands.
    pub status: String,
    /// Attempts so far.
    pub attempt: i32,
    /// Attempts allowed.
    pub max_attempts: i32,
    /// When it is tried again.
    pub next_retry_at: Option<TimestampWithTimeZone>,
    /// A claim would steal it now.
    pub retry_eligible: bool,
}

/// The newest plan of a scope that `caller` may see.
pub fn latest_plan(session: &Session, key: Uuid, now: Instant, caller: Oid) -> Option<LatestPlan> {
    statement!(LATEST_PLAN = "execution/latest_plan"(UUIDOID, TIMESTAMPTZOID, OIDOID));
    LATEST_PLAN.run(session, arguments![key, timestamp(now), caller]).first().map(|row| LatestPlan {
        plan_time: row.get_required("plan_time"),
        status: row.get_required("status"),
        attempt: row.get_required("attempt"),
        max_attempts: row.get_required("max_attempts"),
        next_retry_at: row.get("next_retry_at"),
        retry_eligible: row.get_required("retry_eligible"),
    })
}

/// The newest that have ended for good: of a job, or of all.
pub fn recent(session: &Session, job_name: Option<String>, limit: i32, reader: Oid, reads_all: bool) -> Rows<'_> {
    statement!(RECENT = "execution/recent"(TEXTOID, INT8OID, OIDOID, BOOLOID));
    RECENT.run(session, arguments![job_name, i64::from(limit), reader, reads_all])
}

/// Plan times from the first to just before the second, where they are given.
type OpenRange = [Option<Instant>; 2];

/// The executions of a key that `reader` may read, newest first.
pub fn ids_of_key(session: &Session, key: Uuid, range: OpenRange, reader: Oid) -> Vec<Uuid> {
    statement!(IDS_OF_KEY = "execution/ids_of_key"(UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID, OIDOID));
    let [from, to] = range.map(|time| time.map(timestamp));
    IDS_OF_KEY.run(session, arguments![key, from, to, reader]).iter().map(|row| row.get_required("id")).collect()
}

/// The same of a schedule.
pub fn ids_of_schedule(session: &Session, schedule_id: i64, range: OpenRange, reader: Oid) -> Vec<Uuid> {
    statement!(IDS_OF_SCHEDULE = "execution/ids_of_schedule"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, OIDOID));
    let [from, to] = range.map(|time| time.map(timestamp));
    IDS_OF_SCHEDULE
        .run(session, arguments![schedule_id, from, to, reader])
        .iter()
        .map(|row| row.get_required("id"))
        .collect()
}

/// The job that an execution is of.
pub fn job_of(session: &Session, execution_id: Uuid) -> Option<String> {
    statement!(JOB_OF = "execution/job_of"(UUIDOID));
    JOB_OF.run(session, arguments![execution_id]).first().map(|row| row.get_required("job_name"))
}

/// Whether the ledger holds any plan of a scope.
pub fn scope_taken(session: &Session, key: Uuid) -> bool {
    statement!(SCOPE_TAKEN = "execution/scope_taken"(UUIDOID));
    SCOPE_TAKEN.run(session, arguments![key]).first().is_some()
}

/// The stored plans from `from` to `to` that `caller` can claim now, oldest first, at most `limit`.
pub fn claimable_plans(
    session: &Session,
    (key, caller): (Uuid, Oid),
    from: Instant,
    to: Instant,
    now: Instant,
    limit: i64,
) -> Vec<TimestampWithTimeZone> {
    statement!(
        PLANS_CLAIMABLE =
            "execution/plans_claimable"(UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, OIDOID)
    );
    let arguments = arguments![key, timestamp(from), timestamp(to), timestamp(now), limit, caller];
    let rows = PLANS_CLAIMABLE.run(session, arguments);
    rows.iter().map(|row| row.get_required("plan_time")).collect()
}

/// Whether the ledger holds this plan.
pub fn plan_exists(session: &Session, key: Uuid, plan_time: Instant) -> bool {
    statement!(PLAN_EXISTS = "execution/plan_exists"(UUIDOID, TIMESTAMPTZOID));
    PLAN_EXISTS.run(session, arguments![key, timestamp(plan_time)]).first().is_some()
}

/// Attempts of the plans after the newest SUCCESS, as far as `caller` may see them.
pub fn attempts_since_success(session: &Session, key: Uuid, caller: Oid) -> i64 {
    statement!(ATTEMPTS_SINCE_SUCCESS = "execution/attempts_since_success"(UUIDOID, OIDOID));
    ATTEMPTS_SINCE_SUCCESS.run(session, arguments![key, caller]).first().map_or(0, |row| row.get_required("attempts"))
}

/// One step of forgetting.
pub struct Pruned {
    /// Where the walk goes on; `None` at the end.
    pub last: Option<Uuid>,
    /// How many rows went.
    pub gone: i64,
    /// How many were looked at.
    pub seen: i64,
}

/// Looks at `rows` rows after `last` that were created before `limit` and deletes those that ended before it, but for the
/// newest of each owner in each scope.
pub fn prune(session: &Session, last: Uuid, limit_id: Uuid, limit: Instant, rows: i64) -> Pruned {
    statement!(HISTORY_PRUNE = "execution/history_prune"(UUIDOID, UUIDOID, TIMESTAMPTZOID, INT8OID));
    let found = HISTORY_PRUNE.run(session, arguments![last, limit_id, timestamp(limit), rows]);
    found.first().map_or(Pruned { last: None, gone: 0, seen: 0 }, |row| Pruned {
        last: row.get("last"),
        gone: row.get_required("gone"),
        seen: row.get_required("seen"),
    })
}
