//! An execution as it is found: its row of the ledger, and its lease if somebody has one.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{Limits, State, Status};
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::{lease, ledger};
use crate::pg::convert::is_due;
use crate::pg::record::{Column, Record};
use crate::pg::session::{Part, Row};
use crate::pg::Session;
use crate::store::counted;
use crate::store::queue::delivery_queue::is_delivery_queue;
use crate::{arguments, statement};

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
    pub(in crate::store) planned_for: Option<i64>,
    pub(in crate::store) queue: String,
    pub(in crate::store) priority: i32,
    pub(in crate::store) next_retry_at: Option<TimestampWithTimeZone>,
    pub(in crate::store) lease_token: Option<Uuid>,
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
    /// By its row of the ledger and its lease, if it has one; `can_only_end`: a dropped schedule has
    /// left it, or it is to be cancelled.
    pub fn of(
        entry: &impl Record<Column>,
        lease: Option<&impl Record<Column>>,
        can_only_end: bool,
        now: Instant,
    ) -> ExistingExecution {
        ExistingExecution {
            id: entry.get_required(ledger::ID),
            state: state_of(entry, lease, can_only_end, now),
            limits: Limits {
                attempt: lease
                    .map_or_else(|| entry.get_required(ledger::ATTEMPT), |lease| lease.get_required(lease::ATTEMPT)),
                max_attempts: entry.get_required(ledger::MAX_ATTEMPTS),
                allow_stale_reentry: entry.get_required(ledger::ALLOW_STALE_REENTRY),
            },
            owner: entry.get_required(ledger::OWNER),
            planned_for: counted::planned_for(entry),
            queue: entry.get_required(ledger::QUEUE),
            priority: entry.get_required(ledger::PRIORITY),
            next_retry_at: entry.get(ledger::NEXT_RETRY_AT),
            lease_token: lease.and_then(|lease| lease.get(lease::LEASE_TOKEN)),
        }
    }

    /// Whether dispatchers deliver it, and nobody claims it.
    pub fn is_delivered(&self) -> bool {
        is_delivery_queue(&self.queue)
    }

    /// Whether somebody has a lease on it.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}

/// Where an execution stands by its row of the ledger and its lease; one that `can_only_end` is not claimed.
fn state_of(
    entry: &impl Record<Column>,
    lease: Option<&impl Record<Column>>,
    can_only_end: bool,
    now: Instant,
) -> State {
    if let Some(lease) = lease {
        return State::Running {
            stale: is_due(lease.get_required(lease::STALE_AFTER), now) && !can_only_end,
            cancel_requested: lease.get_required(lease::CANCEL_REQUESTED),
        };
    }
    if can_only_end {
        return State::Terminal;
    }
    match (Status::parse(&entry.get_required::<String>(ledger::STATUS)), entry.get(ledger::NEXT_RETRY_AT)) {
        (Some(Status::Pending), runs_at) => State::Pending { due: runs_at.is_none_or(|at| is_due(at, now)) },
        (Some(Status::Failed), Some(retry_at)) => State::Retryable { due: is_due(retry_at, now) },
        (Some(Status::Failed), None) | (Some(Status::Running | Status::Success | Status::Cancelled) | None, _) => {
            State::Terminal
        }
    }
}

/// The lease in a row of execution_by_key.sql or execution_state.sql, if there is one.
fn lease_in<'r>(row: &'r Row<'r>) -> Option<Part<'r, 'r>> {
    let lease = row.part("lease.");
    lease.get::<Uuid>(lease::EXECUTION_ID).is_some().then_some(lease)
}

/// The execution of this key and plan time.
pub fn by_key(
    session: &Session,
    key: Uuid,
    plan_time: TimestampWithTimeZone,
    now: Instant,
) -> Option<ExistingExecution> {
    statement!(EXECUTION_BY_KEY = "lease/execution_by_key"(UUIDOID, TIMESTAMPTZOID));
    let rows = EXECUTION_BY_KEY.run(session, arguments![key, plan_time]);
    let found = rows.first();
    found.map(|row| ExistingExecution::of(&row, lease_in(&row).as_ref(), row.get_required("can_only_end"), now))
}

/// Where an execution stands, and who owns it.
pub fn state(session: &Session, execution_id: Uuid, now: Instant) -> Option<(State, Oid)> {
    statement!(EXECUTION_STATE = "lease/execution_state"(UUIDOID));
    let rows = EXECUTION_STATE.run(session, arguments![execution_id]);
    rows.first().map(|row| (state_of(&row, lease_in(&row).as_ref(), false, now), row.get_required(ledger::OWNER)))
}
