//! How an attempt ends: what decides it, and what came of it, whoever wrote it (`sql`, `end_heap`).

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{Limits, Status};
use scheduler_core::Instant;

use crate::heap::layouts::{lease, ledger};
use crate::pg::convert::{is_due, timestamp};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::{Column, Record};
use crate::store::low_water_marks;

/// How an attempt ends, by its holder's word.
pub enum Ending<'a> {
    /// As SUCCESS.
    Success {
        /// As finish_success has it.
        rows_affected: Option<i64>,
        /// As finish_success has it.
        result: Jsonb,
    },
    /// As FAILED or CANCELLED.
    Failure {
        /// What a program reads.
        error_code: &'a str,
        /// What a person reads.
        error_msg: &'a str,
        /// What becomes of the execution.
        decide: &'a dyn Fn(&Failing) -> End,
    },
}

/// How a run ends that does not succeed.
#[derive(Clone, Copy)]
pub enum End {
    /// FAILED, to be tried again.
    Retry(Instant),
    /// FAILED for good.
    Terminal,
    /// CANCELLED.
    Cancelled,
}

impl End {
    /// What the ledger says then.
    pub fn status(self) -> Status {
        match self {
            End::Retry(_) | End::Terminal => Status::Failed,
            End::Cancelled => Status::Cancelled,
        }
    }

    /// When it is tried again.
    pub fn retry_at(self) -> Option<TimestampWithTimeZone> {
        match self {
            End::Retry(at) => Some(timestamp(at)),
            End::Terminal | End::Cancelled => None,
        }
    }
}

/// A run that is about to fail: what decides its fate.
pub struct Failing {
    /// Which.
    pub execution_id: Uuid,
    /// What its attempts allow.
    pub limits: Limits,
    /// Waits after each failed attempt.
    pub retry_backoff: Vec<Option<Interval>>,
    /// It was asked to stop.
    pub cancel_requested: bool,
}

impl Failing {
    /// By its lease, its row of the ledger and what its job says, if there is one.
    pub fn of(
        lease: &impl Record<Column>,
        entry: &impl Record<Column>,
        retry_backoff: Option<Vec<Option<Interval>>>,
    ) -> Failing {
        Failing {
            execution_id: lease.get_required(lease::EXECUTION_ID),
            limits: Limits {
                attempt: lease.get_required(lease::ATTEMPT),
                max_attempts: entry.get_required(ledger::MAX_ATTEMPTS),
                allow_stale_reentry: entry.get_required(ledger::ALLOW_STALE_REENTRY),
            },
            retry_backoff: retry_backoff.unwrap_or_default(),
            cancel_requested: lease.get_required(lease::CANCEL_REQUESTED),
        }
    }
}

/// A run that has just ended.
pub struct EndedRun {
    /// Which.
    pub execution_id: Uuid,
    /// Who owns it.
    pub owner: Oid,
    /// The schedule that waits for its end, where this was the end.
    pub awaited_by: Option<i64>,
    /// When it is tried again.
    pub retry_at: Option<TimestampWithTimeZone>,
    /// The schedule whose run it was, where it has failed for good.
    pub failed_of: Option<i64>,
    /// Where it is claimable at once.
    pub claimable: Option<ClaimableRetry>,
}

/// Where a run stands whose retry is due when it fails.
pub struct ClaimableRetry {
    /// The queue.
    pub queue: String,
    priority: i32,
    plan_time: TimestampWithTimeZone,
}

impl EndedRun {
    /// By its row of the ledger, and when it is tried again.
    pub fn of(entry: &impl Record<Column>, retry_at: Option<TimestampWithTimeZone>, now: Instant) -> EndedRun {
        EndedRun {
            execution_id: entry.get_required(ledger::ID),
            owner: entry.get_required(ledger::OWNER),
            awaited_by: if retry_at.is_none() { awaited_by(entry) } else { None },
            retry_at,
            failed_of: None,
            claimable: retry_at.filter(|at| is_due(*at, now)).map(|_| ClaimableRetry {
                queue: entry.get_required(ledger::QUEUE),
                priority: entry.get_required(ledger::PRIORITY),
                plan_time: entry.get_required(ledger::PLAN_TIME),
            }),
        }
    }

    /// The same of one that has failed for good.
    pub fn failed_for_good(self, entry: &impl Record<Column>) -> EndedRun {
        EndedRun { failed_of: entry.get(ledger::SCHEDULE_ID), ..self }
    }

    /// To be said when it waits for its retry, in `ready` or `retry`.
    pub fn mark_retry(&self) {
        match (&self.claimable, self.retry_at) {
            (Some(ready), _) => low_water_marks::added_to_queue(&ready.queue, ready.priority, ready.plan_time),
            (None, Some(retry_at)) => low_water_marks::added_retry(retry_at),
            (None, None) => {}
        }
    }
}

/// The schedule that waits for an execution's end.
pub fn awaited_by(entry: &impl Record<Column>) -> Option<i64> {
    let awaited = entry.get_required(ledger::AWAITED);
    entry.get(ledger::SCHEDULE_ID).filter(|_| awaited)
}

/// A run of finish_success_many that needs something: it did not end, or somebody waits for its end.
pub struct FinishResult {
    /// Which.
    pub execution_id: Uuid,
    /// Its lease held, and it has ended.
    pub ended: bool,
    /// The schedule that waits for its end.
    pub awaited_by: Option<i64>,
}
