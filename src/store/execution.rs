//! The ledger, and the leases on it.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{Limits, State};
use scheduler_core::Instant;

use crate::arguments;
use crate::convert::timestamp;
use crate::jsonb::Jsonb;
use crate::statement;
use crate::store::session::{Row, Rows};
use crate::store::Session;

/// An execution as a claim finds it.
pub struct Known {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub state: State,
    /// What its attempts allow.
    pub limits: Limits,
    /// Who owns it.
    pub owner: Oid,
    /// Where it waits.
    queue: String,
    priority: i32,
    next_retry_at: Option<TimestampWithTimeZone>,
    lease_token: Option<Uuid>,
}

impl Known {
    /// Whether somebody has a lease on it.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}

/// A lease, as it goes to its holder.
pub struct Lease {
    /// The execution.
    pub execution_id: Uuid,
    /// Proves the lease.
    pub lease_token: Uuid,
    /// Rises with every lease.
    pub fence: i64,
    /// 1 for the first.
    pub attempt: i32,
    /// Attempts allowed.
    pub max_attempts: i32,
    /// The end of the lease without a heartbeat.
    pub stale_after: TimestampWithTimeZone,
    /// What the execution carries.
    pub payload: Jsonb,
}

impl Lease {
    fn of(row: &Row) -> Lease {
        Lease {
            execution_id: row.must(1),
            lease_token: row.must(2),
            fence: row.must(3),
            attempt: row.must(4),
            max_attempts: row.must(5),
            stale_after: row.must(6),
            payload: row.must(7),
        }
    }
}

/// What a claim asks for, beside the key.
pub struct Terms {
    /// Who claims.
    pub runner_id: String,
    /// Length of the lease.
    pub stale_timeout: Interval,
    /// Replaces the execution's own, where given.
    pub max_attempts: Option<i32>,
    /// Replaces the execution's own, where given.
    pub allow_stale_reentry: Option<bool>,
}

/// Job, scope and plan time of an execution that does not exist yet.
pub struct NewExecution<'a> {
    /// The hash of job and scope.
    pub key: Uuid,
    /// The job.
    pub job_name: &'a str,
    /// The scope.
    pub scope_kind: &'a str,
    /// The scope.
    pub scope_id: &'a str,
    /// The plan time.
    pub plan_time: TimestampWithTimeZone,
    /// Where it would wait.
    pub queue: &'a str,
    /// Higher goes first.
    pub priority: i32,
    /// Attempts allowed.
    pub max_attempts: i32,
    /// Whether a stale run may be taken over.
    pub allow_stale_reentry: bool,
    /// Who owns it.
    pub owner: Oid,
}

/// The execution of this key and plan time.
pub fn by_key(session: &Session, key: Uuid, plan_time: TimestampWithTimeZone, now: Instant) -> Option<Known> {
    statement!(EXECUTION_BY_KEY = "execution_by_key"(UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    let rows = EXECUTION_BY_KEY.run(session, arguments![key, plan_time, timestamp(now)]);
    rows.first().map(|row| {
        let status: String = row.must(2);
        let leased: bool = row.must(8);
        let retryable: bool = row.must(6);
        let state = if leased {
            State::Running { stale: row.must(10) }
        } else if status == "PENDING" {
            State::Pending
        } else if status == "FAILED" && retryable {
            State::Retryable { due: row.must(7) }
        } else {
            State::Terminal
        };
        Known {
            id: row.must(1),
            state,
            limits: Limits {
                attempt: if leased { row.must(9) } else { row.must(3) },
                max_attempts: row.must(4),
                allow_stale_reentry: row.must(5),
            },
            owner: row.must(11),
            queue: row.must(12),
            priority: row.must(13),
            next_retry_at: row.get(14),
            lease_token: row.get(16),
        }
    })
}

/// Inserts an execution together with its first lease; `None` where the key exists by now.
pub fn claim_new(session: &Session, new: &NewExecution, terms: Terms, now: Instant) -> Option<Lease> {
    statement!(
        CLAIM_NEW = "claim_new"(
            UUIDOID,
            TEXTOID,
            TEXTOID,
            TEXTOID,
            TIMESTAMPTZOID,
            TEXTOID,
            INT4OID,
            INT4OID,
            BOOLOID,
            REGROLEOID,
            TEXTOID,
            INTERVALOID,
            TIMESTAMPTZOID
        )
    );
    let rows = CLAIM_NEW.run(
        session,
        arguments![
            new.key,
            new.job_name,
            new.scope_kind,
            new.scope_id,
            new.plan_time,
            new.queue,
            new.priority,
            terms.max_attempts.unwrap_or(new.max_attempts),
            terms.allow_stale_reentry.unwrap_or(new.allow_stale_reentry),
            new.owner,
            terms.runner_id,
            terms.stale_timeout,
            timestamp(now)
        ],
    );
    rows.first().map(|row| Lease::of(&row))
}

/// Leases an execution that waits; `None` where somebody else has it in hand.
pub fn claim_known(
    session: &Session,
    known: Known,
    plan_time: TimestampWithTimeZone,
    terms: Terms,
    now: Instant,
) -> Option<Lease> {
    statement!(
        CLAIM_KNOWN = "claim_known"(
            UUIDOID,
            TEXTOID,
            INT4OID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            INT4OID,
            BOOLOID,
            TEXTOID,
            INTERVALOID,
            TIMESTAMPTZOID
        )
    );
    let rows = CLAIM_KNOWN.run(
        session,
        arguments![
            known.id,
            known.queue,
            known.priority,
            plan_time,
            known.next_retry_at,
            terms.max_attempts,
            terms.allow_stale_reentry,
            terms.runner_id,
            terms.stale_timeout,
            timestamp(now)
        ],
    );
    rows.first().map(|row| Lease::of(&row))
}

/// Takes over a stale run; `None` where somebody else has it in hand.
pub fn claim_stale(session: &Session, known: Known, terms: Terms, now: Instant) -> Option<Lease> {
    statement!(CLAIM_STALE = "claim_stale"(UUIDOID, UUIDOID, INT4OID, BOOLOID, TEXTOID, INTERVALOID, TIMESTAMPTZOID));
    let rows = CLAIM_STALE.run(
        session,
        arguments![
            known.id,
            known.lease_token,
            terms.max_attempts,
            terms.allow_stale_reentry,
            terms.runner_id,
            terms.stale_timeout,
            timestamp(now)
        ],
    );
    rows.first().map(|row| Lease::of(&row))
}

/// What claim() asks for.
pub struct QueueClaim {
    /// Which queue.
    pub queue: String,
    /// How many at most.
    pub limit: i64,
    /// Who claims.
    pub runner_id: String,
    /// Length of the leases; `None` = each job's.
    pub stale_timeout: Option<Interval>,
    /// Length of the leases where a job has none.
    pub default_stale_timeout: Interval,
    /// Whose executions may be claimed.
    pub caller: Oid,
}

/// Leases what is claimable in a queue.
pub fn claim<'s>(session: &'s Session, claim: QueueClaim, now: Instant) -> Rows<'s> {
    statement!(CLAIM = "claim"(TEXTOID, INT8OID, TEXTOID, INTERVALOID, INTERVALOID, TIMESTAMPTZOID, OIDOID));
    CLAIM.run(
        session,
        arguments![
            claim.queue,
            claim.limit,
            claim.runner_id,
            claim.stale_timeout,
            claim.default_stale_timeout,
            timestamp(now),
            claim.caller
        ],
    )
}

/// Makes retries whose time has come claimable; how many, and in which queues.
pub fn promote_retries(session: &Session, now: Instant, limit: i64) -> (i64, Vec<String>) {
    statement!(RETRIES_DUE = "retries_due"(TIMESTAMPTZOID, INT8OID));
    let rows = RETRIES_DUE.run(session, arguments![timestamp(now), limit]);
    rows.first().map_or((0, Vec::new()), |row| (row.must(1), row.get(2).unwrap_or_default()))
}

/// Extends a lease; the execution's owner, or `None` where the lease is lost.
pub fn heartbeat(
    session: &Session,
    execution_id: Uuid,
    lease_token: Uuid,
    stale_timeout: Option<Interval>,
    progress: Option<Jsonb>,
    now: Instant,
) -> Option<Oid> {
    statement!(HEARTBEAT = "heartbeat"(UUIDOID, UUIDOID, INTERVALOID, JSONBOID, TIMESTAMPTZOID));
    let rows = HEARTBEAT.run(session, arguments![execution_id, lease_token, stale_timeout, progress, timestamp(now)]);
    rows.first().map(|row| row.must(1))
}

/// An execution that has just ended.
pub struct Ended {
    /// Who owns it.
    pub owner: Oid,
    /// The schedule that waits for its end.
    pub awaited_by: Option<i64>,
}

/// `octet_length(value::text)`.
pub fn text_size(session: &Session, value: &Jsonb) -> i64 {
    statement!(JSON_SIZE = "json_size"(JSONBOID));
    JSON_SIZE.run(session, arguments![value.clone()]).first().map_or(0, |row| row.must(1))
}

/// Ends a run as SUCCESS; `None` where the lease is lost.
pub fn finish_success(
    session: &Session,
    execution_id: Uuid,
    lease_token: Uuid,
    rows_affected: Option<i64>,
    result: Jsonb,
    now: Instant,
) -> Option<Ended> {
    statement!(FINISH_SUCCESS = "finish_success"(UUIDOID, UUIDOID, INT8OID, JSONBOID, TIMESTAMPTZOID));
    let rows =
        FINISH_SUCCESS.run(session, arguments![execution_id, lease_token, rows_affected, result, timestamp(now)]);
    rows.first().map(|row| Ended { owner: row.must(1), awaited_by: row.get(3).filter(|_| row.must(2)) })
}

/// A run that is about to fail: what decides its fate.
pub struct Failing {
    /// Which.
    pub execution_id: Uuid,
    /// What its attempts allow.
    pub limits: Limits,
    /// Who owns it.
    pub owner: Oid,
    /// Waits after each failed attempt.
    pub retry_backoff: Vec<Interval>,
}

impl Failing {
    fn of(row: &Row, execution_id: Uuid) -> Failing {
        Failing {
            execution_id,
            limits: Limits { attempt: row.must(1), max_attempts: row.must(2), allow_stale_reentry: row.must(3) },
            owner: row.must(4),
            retry_backoff: row.get(5).unwrap_or_default(),
        }
    }
}

/// Locks a lease; `None` where it is lost.
pub fn read_lease(session: &Session, execution_id: Uuid, lease_token: Uuid) -> Option<Failing> {
    statement!(LEASE_READ = "lease_read"(UUIDOID, UUIDOID));
    let rows = LEASE_READ.run(session, arguments![execution_id, lease_token]);
    rows.first().map(|row| Failing::of(&row, execution_id))
}

/// Locks up to `limit` leases that ran out, of a job or of all, that `caller` may end.
pub fn pick_stale(session: &Session, job_name: Option<&str>, now: Instant, limit: i64, caller: Oid) -> Vec<Failing> {
    statement!(LEASES_STALE = "leases_stale"(TEXTOID, TIMESTAMPTZOID, INT8OID, OIDOID));
    let rows = LEASES_STALE.run(session, arguments![job_name, timestamp(now), limit, caller]);
    rows.iter().map(|row| Failing::of(&row, row.must(6))).collect()
}

/// Moves on leases that heartbeats have kept alive.
pub fn postpone_sweep(session: &Session, now: Instant) {
    statement!(LEASES_POSTPONE = "leases_postpone"(TIMESTAMPTZOID));
    LEASES_POSTPONE.run(session, arguments![timestamp(now)]);
}

/// A run that has just failed.
pub struct Failed {
    /// Which.
    pub execution_id: Uuid,
    /// The schedule that waits for its end, where this was the end.
    pub awaited_by: Option<i64>,
    /// The queue where it is claimable at once.
    pub claimable_in: Option<String>,
    /// When it is tried again.
    pub retry_at: Option<TimestampWithTimeZone>,
}

/// Ends runs as FAILED, each with its retry time or for good.
pub fn finish_failed(
    session: &Session,
    runs: Vec<(Uuid, Option<Instant>)>,
    error_code: &str,
    error_msg: &str,
    now: Instant,
) -> Vec<Failed> {
    statement!(FINISH_FAILED = "finish_failed"(UUIDARRAYOID, TIMESTAMPTZARRAYOID, TEXTOID, TEXTOID, TIMESTAMPTZOID));
    let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
    let retries: Vec<Option<TimestampWithTimeZone>> = runs.iter().map(|run| run.1.map(timestamp)).collect();
    let rows = FINISH_FAILED.run(session, arguments![ids, retries, error_code, error_msg, timestamp(now)]);
    rows.iter()
        .map(|row| Failed {
            execution_id: row.must(1),
            awaited_by: row.get(2).filter(|_| row.must(3)),
            claimable_in: row.get(4),
            retry_at: row.get(5),
        })
        .collect()
}

/// Tells the dispatcher that a run which `schedule_id` waited for has ended.
pub fn run_ended(session: &Session, schedule_id: i64, execution_id: Uuid, now: Instant) {
    statement!(SCHEDULE_RUN_ENDED = "schedule_run_ended"(INT8OID, UUIDOID, TIMESTAMPTZOID));
    SCHEDULE_RUN_ENDED.run(session, arguments![schedule_id, execution_id, timestamp(now)]);
}
