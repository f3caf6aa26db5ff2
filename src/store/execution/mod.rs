//! The ledger, and the leases on it.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{Limits, State, Status};
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::session::{Row, Rows};
use crate::pg::Session;
use crate::store::low_water_marks;
use crate::store::queue::delivery;
use crate::{arguments, statement};

pub mod history;
pub mod ids;

/// An execution as a claim finds it.
pub struct ExistingExecution {
    /// Its id.
    pub id: Uuid,
    /// Where it stands.
    pub state: State,
    /// What its attempts allow.
    pub limits: Limits,
    /// Who owns it.
    pub owner: Oid,
    /// Where it waits.
    pub(super) queue: String,
    pub(super) priority: i32,
    pub(super) next_retry_at: Option<TimestampWithTimeZone>,
    pub(super) lease_token: Option<Uuid>,
}

/// What there is of a key.
pub enum KeyLookup {
    /// Nothing.
    Free,
    /// Something that a transaction has not committed yet.
    InHand,
    /// An execution.
    Existing(ExistingExecution),
}

impl ExistingExecution {
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

/// Columns 2 to 15 of execution_by_key.sql and execution_state.sql as the core sees them.
fn state_of(row: &Row) -> State {
    if row.get_required("is_leased") {
        return State::Running {
            stale: row.get_required("is_stale"),
            cancel_requested: row.get_required("cancel_requested"),
        };
    }
    match Status::parse(&row.get_required::<String>("status")) {
        Some(Status::Pending) => State::Pending,
        Some(Status::Failed) if row.get_required("is_retryable") => {
            State::Retryable { due: row.get_required("is_retry_due") }
        }
        Some(Status::Running | Status::Success | Status::Failed | Status::Cancelled) | None => State::Terminal,
    }
}

/// The execution of this key and plan time.
pub fn by_key(
    session: &Session,
    key: Uuid,
    plan_time: TimestampWithTimeZone,
    now: Instant,
) -> Option<ExistingExecution> {
    statement!(EXECUTION_BY_KEY = "lease/execution_by_key"(UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    let rows = EXECUTION_BY_KEY.run(session, arguments![key, plan_time, timestamp(now)]);
    rows.first().map(|row| {
        let (state, leased): (State, bool) = (state_of(&row), row.get_required("is_leased"));
        ExistingExecution {
            id: row.get_required("id"),
            state,
            limits: Limits {
                attempt: if leased { row.get_required("lease_attempt") } else { row.get_required("attempt") },
                max_attempts: row.get_required("max_attempts"),
                allow_stale_reentry: row.get_required("allow_stale_reentry"),
            },
            owner: row.get_required("owner"),
            queue: row.get_required("queue"),
            priority: row.get_required("priority"),
            next_retry_at: row.get("next_retry_at"),
            lease_token: row.get("lease_token"),
        }
    })
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

/// Leases what is claimable in a queue.
pub fn claim(session: &Session, claim: &QueueClaim, now: Instant) -> Vec<Claimed> {
    statement!(CLAIM = "queue/claim"(TEXTOID, INT8OID, TEXTOID, INTERVALOID, INTERVALOID, TIMESTAMPTZOID, OIDOID));
    let rows = CLAIM.run(
        session,
        arguments![
            claim.queue.as_str(),
            claim.limit,
            claim.runner_id.as_str(),
            claim.stale_timeout,
            claim.default_stale_timeout,
            timestamp(now),
            claim.caller
        ],
    );
    let claimed = rows.iter().map(|row| Claimed {
        execution_id: row.get_required("execution_id"),
        lease_token: row.get_required("lease_token"),
        fence: row.get_required("fence"),
        attempt: row.get_required("attempt"),
        job_name: row.get_required("job_name"),
        scope_kind: row.get_required("scope_kind"),
        scope_id: row.get_required("scope_id"),
        plan_time: row.get_required("plan_time"),
        payload: row.get_required("payload"),
        stale_after: row.get_required("stale_after"),
    });
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

/// Where an execution stands, and who owns it.
pub fn state(session: &Session, execution_id: Uuid, now: Instant) -> Option<(State, Oid)> {
    statement!(EXECUTION_STATE = "lease/execution_state"(UUIDOID, TIMESTAMPTZOID));
    let rows = EXECUTION_STATE.run(session, arguments![execution_id, timestamp(now)]);
    rows.first().map(|row| (state_of(&row), row.get_required("owner")))
}
