//! The ledger, and the leases on it.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::heap::layouts::{lease, ledger};
use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::{Column, Record};
use crate::pg::session::{Row, Rows};
use crate::pg::Session;
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::{arguments, statement};

mod existing;
pub mod history;
pub mod ids;

pub use existing::{by_key, state, ExistingExecution, KeyLookup};

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
    /// What a statement has given, if it has.
    fn given(rows: &Rows) -> Option<Lease> {
        let lease = rows.first().map(|row| Lease::of(&row));
        low_water_marks::added_leases(lease.iter().map(|lease| lease.stale_after));
        lease
    }

    fn of(row: &Row) -> Lease {
        Lease {
            execution_id: row.get_required("execution_id"),
            lease_token: row.get_required("lease_token"),
            fence: row.get_required("fence"),
            attempt: row.get_required("attempt"),
            max_attempts: row.get_required("max_attempts"),
            stale_after: row.get_required("stale_after"),
            payload: row.get_required("payload"),
        }
    }
}

/// What a claim asks for, beside the key.
pub struct LeaseOptions {
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

/// Inserts an execution together with its first lease; `None` where the key exists by now.
pub fn claim_new(session: &Session, new: &NewExecution, options: &LeaseOptions, now: Instant) -> Option<Lease> {
    statement!(
        CLAIM_NEW = "lease/claim_new"(
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
            options.max_attempts.unwrap_or(new.max_attempts),
            options.allow_stale_reentry.unwrap_or(new.allow_stale_reentry),
            new.owner,
            options.runner_id.as_str(),
            options.stale_timeout,
            timestamp(now)
        ],
    );
    Lease::given(&rows)
}

/// Leases an execution that waits; `None` where somebody else has it in hand.
pub fn claim_known(
    session: &Session,
    known: ExistingExecution,
    plan_time: TimestampWithTimeZone,
    options: LeaseOptions,
    now: Instant,
) -> Option<Lease> {
    statement!(
        CLAIM_KNOWN = "lease/claim_known"(
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
            options.max_attempts,
            options.allow_stale_reentry,
            options.runner_id,
            options.stale_timeout,
            timestamp(now)
        ],
    );
    Lease::given(&rows)
}

/// Takes over a stale run; `None` where somebody else has it in hand.
pub fn claim_stale(session: &Session, known: ExistingExecution, options: LeaseOptions, now: Instant) -> Option<Lease> {
    statement!(
        CLAIM_STALE = "lease/claim_stale"(UUIDOID, UUIDOID, INT4OID, BOOLOID, TEXTOID, INTERVALOID, TIMESTAMPTZOID)
    );
    let rows = CLAIM_STALE.run(
        session,
        arguments![
            known.id,
            known.lease_token,
            options.max_attempts,
            options.allow_stale_reentry,
            options.runner_id,
            options.stale_timeout,
            timestamp(now)
        ],
    );
    Lease::given(&rows)
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
    /// The leases last as long as the process of who claims.
    pub lasts_as_process: bool,
    /// Whose executions may be claimed.
    pub caller: Oid,
}

/// An execution that claim() leased.
pub struct Claimed {
    /// Which.
    pub execution_id: Uuid,
    /// Proves the lease.
    pub lease_token: Uuid,
    /// Rises with every lease.
    pub fence: i64,
    /// 1 for the first.
    pub attempt: i32,
    /// Its job.
    pub job_name: String,
    /// Its scope.
    pub scope_kind: String,
    /// Its scope.
    pub scope_id: String,
    /// Its plan time.
    pub plan_time: TimestampWithTimeZone,
    /// What it carries.
    pub payload: Jsonb,
    /// The end of the lease without a heartbeat.
    pub stale_after: TimestampWithTimeZone,
}

/// Of a lease that a claim gave, what its holder is told beside the execution.
pub struct GrantedLease {
    /// The execution.
    pub execution_id: Uuid,
    /// Proves the lease.
    pub lease_token: Uuid,
    /// Rises with every lease.
    pub fence: i64,
    /// 1 for the first.
    pub attempt: i32,
    /// The end of the lease without a heartbeat.
    pub stale_after: TimestampWithTimeZone,
}

impl GrantedLease {
    fn of(lease: &impl Record<Column>) -> GrantedLease {
        GrantedLease {
            execution_id: lease.get_required(lease::EXECUTION_ID),
            lease_token: lease.get_required(lease::LEASE_TOKEN),
            fence: lease.get_required(lease::FENCE),
            attempt: lease.get_required(lease::ATTEMPT),
            stale_after: lease.get_required(lease::STALE_AFTER),
        }
    }
}

impl Claimed {
    /// By its row of the ledger and the lease that `grant` gives it, which is told the job.
    pub fn of(entry: &impl Record<Column>, grant: impl FnOnce(&str) -> GrantedLease) -> Claimed {
        let job_name: String = entry.get_required(ledger::JOB_NAME);
        let GrantedLease { execution_id, lease_token, fence, attempt, stale_after } = grant(&job_name);
        Claimed {
            execution_id,
            lease_token,
            fence,
            attempt,
            job_name,
            scope_kind: entry.get_required(ledger::SCOPE_KIND),
            scope_id: entry.get_required(ledger::SCOPE_ID),
            plan_time: entry.get_required(ledger::PLAN_TIME),
            payload: entry.get_required(ledger::PAYLOAD),
            stale_after,
        }
    }
}

/// Leases what is claimable in a queue.
pub fn claim(session: &Session, claim: &QueueClaim, now: Instant) -> Vec<Claimed> {
    statement!(
        CLAIM = "queue/claim"(TEXTOID, INT8OID, TEXTOID, INTERVALOID, INTERVALOID, TIMESTAMPTZOID, OIDOID, BOOLOID)
    );
    let rows = CLAIM.run(
        session,
        arguments![
            claim.queue.as_str(),
            claim.limit,
            claim.runner_id.as_str(),
            claim.stale_timeout,
            claim.default_stale_timeout,
            timestamp(now),
            claim.caller,
            claim.lasts_as_process
        ],
    );
    let claimed = rows.iter().map(|row| Claimed::of(&row, |_| GrantedLease::of(&row)));
    let claimed: Vec<Claimed> = claimed.collect();
    low_water_marks::added_leases(claimed.iter().map(|claimed| claimed.stale_after));
    claimed
}

/// Executions of a schedule that are not its due plans: fired by hand, backfilled.
pub struct ExecutionBatch<'a> {
    /// The hash of job and scope.
    pub key: Uuid,
    /// The job.
    pub job_name: &'a str,
    /// The scope.
    pub scope_kind: &'a str,
    /// The scope.
    pub scope_id: &'a str,
    /// Their plan times.
    pub plan_times: Vec<TimestampWithTimeZone>,
    /// What they carry.
    pub payload: Jsonb,
    /// `manual` or `backfill`.
    pub origin: &'a str,
    /// Who owns them where the job was never defined.
    pub caller: Oid,
    /// Their schedule.
    pub schedule: Option<(i64, &'a str)>,
}

/// What inserting executions calls for.
#[derive(Default)]
pub struct Inserted {
    /// How many there were.
    pub count: i64,
    /// Their ids, by plan time.
    pub ids: Vec<Uuid>,
    /// Queues in which something became claimable.
    pub queues: Vec<String>,
}

/// Inserts those that the ledger does not hold.
pub fn insert(session: &Session, batch: ExecutionBatch, now: Instant) -> Inserted {
    statement!(
        EXECUTIONS_INSERT = "execution/executions_insert"(
            UUIDOID,
            TEXTOID,
            TEXTOID,
            TEXTOID,
            TIMESTAMPTZARRAYOID,
            JSONBOID,
            TEXTOID,
            REGROLEOID,
            INT8OID,
            TEXTOID,
            TIMESTAMPTZOID,
            INT4OID
        )
    );
    let rows = EXECUTIONS_INSERT.run(
        session,
        arguments![
            batch.key,
            batch.job_name,
            batch.scope_kind,
            batch.scope_id,
            batch.plan_times,
            batch.payload,
            batch.origin,
            batch.caller,
            batch.schedule.map(|schedule| schedule.0),
            batch.schedule.map(|schedule| schedule.1),
            timestamp(now),
            delivery::payload_limit()
        ],
    );
    delivery::deliver(&rows);
    let inserted = rows.first().map_or(Inserted::default(), |row| Inserted {
        count: row.get_required("count"),
        ids: row.get("ids").unwrap_or_default(),
        queues: row.get("queues").unwrap_or_default(),
    });
    low_water_marks::added_to_queues(&inserted.queues, &rows);
    inserted
}
