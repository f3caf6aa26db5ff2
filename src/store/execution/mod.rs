//! The ledger, and the leases on it.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::{is_due, later, timestamp};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::session::{Row, Rows};
use crate::pg::Session;
use crate::store::counted;
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::{arguments, statement};

mod claimed;
mod existing;
pub mod history;
pub mod ids;

pub use claimed::{claim, Claimed, GrantedLease, QueueClaim};
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
    /// Where it waited.
    pub queue: String,
    /// The job's longest run.
    pub run_timeout: Option<Interval>,
}

impl Lease {
    /// What a statement has given, if it has.
    fn given(rows: &Rows, run_timeout: Option<Interval>) -> Option<Lease> {
        let lease = rows.first().map(|row| Lease::of(&row, run_timeout));
        low_water_marks::added_leases(lease.iter().map(|lease| lease.stale_after));
        lease
    }

    fn of(row: &Row, run_timeout: Option<Interval>) -> Lease {
        Lease {
            execution_id: row.get_required("execution_id"),
            lease_token: row.get_required("lease_token"),
            fence: row.get_required("fence"),
            attempt: row.get_required("attempt"),
            max_attempts: row.get_required("max_attempts"),
            stale_after: row.get_required("stale_after"),
            payload: row.get_required("payload"),
            queue: row.get_required("queue"),
            run_timeout,
        }
    }
}

/// What a claim asks for, beside the key.
pub struct LeaseOptions {
    /// Who claims.
    pub runner_id: String,
    /// Length of the lease.
    pub stale_timeout: Interval,
    /// Length of the run, after which heartbeats ask to stop it; the job's.
    pub run_timeout: Option<Interval>,
    /// Replaces the execution's own, where given.
    pub max_attempts: Option<i32>,
    /// Replaces the execution's own, where given.
    pub allow_stale_reentry: Option<bool>,
}

impl LeaseOptions {
    /// Until when a run may last that begins now.
    pub fn run_until(&self, now: Instant) -> Option<TimestampWithTimeZone> {
        self.run_timeout.map(|length| later(now, length))
    }
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
    /// When it can be claimed; `None` = at once.
    pub run_at: Option<TimestampWithTimeZone>,
}

impl NewExecution<'_> {
    /// The time that it waits for: none where that has come.
    pub fn waits_until(&self, now: Instant) -> Option<TimestampWithTimeZone> {
        self.run_at.filter(|at| !is_due(*at, now))
    }
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
            TIMESTAMPTZOID,
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
            timestamp(now),
            options.run_until(now)
        ],
    );
    Lease::given(&rows, options.run_timeout)
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
            TIMESTAMPTZOID,
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
            options.runner_id.as_str(),
            options.stale_timeout,
            timestamp(now),
            options.run_until(now)
        ],
    );
    Lease::given(&rows, options.run_timeout)
}

/// Takes over a stale run; `None` where somebody else has it in hand.
pub fn claim_stale(session: &Session, known: ExistingExecution, options: LeaseOptions, now: Instant) -> Option<Lease> {
    statement!(
        CLAIM_STALE = "lease/claim_stale"(
            UUIDOID,
            UUIDOID,
            INT4OID,
            BOOLOID,
            TEXTOID,
            INTERVALOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID
        )
    );
    let rows = CLAIM_STALE.run(
        session,
        arguments![
            known.id,
            known.lease_token,
            options.max_attempts,
            options.allow_stale_reentry,
            options.runner_id.as_str(),
            options.stale_timeout,
            timestamp(now),
            options.run_until(now)
        ],
    );
    Lease::given(&rows, options.run_timeout)
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
    counted::of_rows(&rows);
    let inserted = rows.first().map_or(Inserted::default(), |row| Inserted {
        count: row.get_required("count"),
        ids: row.get("ids").unwrap_or_default(),
        queues: row.get("queues").unwrap_or_default(),
    });
    low_water_marks::added_to_queues(&inserted.queues, &rows);
    inserted
}
