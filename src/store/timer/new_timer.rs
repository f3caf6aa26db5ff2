//! A timer that is yet to be written, and which of those that are due are picked.

use std::collections::{BTreeMap, VecDeque};

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use scheduler_core::schedule::{Bounds, Next, Progress, Skip};
use scheduler_core::Instant;

use crate::heap::TupleId;
use crate::pg::error::Failure;
use crate::store::schedule::state::{LockedTimer, ScheduleRow};

/// A timer to be written.
#[derive(Clone)]
pub struct NewTimer {
    /// Which schedule.
    pub schedule_id: i64,
    /// The version of the schedule that it is made from.
    pub version: i64,
    /// What comes next; `None` = nothing (paused, external, parked).
    pub next: Option<Next>,
    /// What it remembers.
    pub progress: Progress,
    /// Why it cannot be used, where it cannot.
    pub parked: Option<Failure>,
    /// Whether its runs are awaited.
    pub awaited: bool,
    /// The plan times that become executions.
    pub runs: Vec<Instant>,
    /// What the ledger has them by, with the plan time.
    pub key: Uuid,
    /// Those of them that the schedule fired already when it had another scope.
    pub fired_before: Vec<Instant>,
    /// The plan times that are passed over, with the definition (its `defined_at`) whose plan times they are.
    pub skipped: Vec<(Instant, Skip)>,
    /// The definitions of the past (definition_ids) that are settled with them.
    pub settled: Vec<i64>,
    /// What the timer remembered before.
    pub before: Progress,
    /// Something of it was written by a clock that was ahead: it begins anew, with what is remembered of its past. The anchor of its clock.
    pub straightens: Option<Instant>,
    /// It asks for alerts.
    pub asks_for_alerts: bool,
    /// It was made from the schedule as it was before an edit, or not at all.
    pub is_edited: bool,
    /// Why it was parked before, where it was.
    pub was_parked: Option<String>,
    /// Who owns its job, as far as is known.
    pub owner: Oid,
    /// The timer as it was locked, and where its schedule stands, where both were read without a statement.
    pub held: Option<LockedTimer>,
    /// The same.
    pub schedule_tid: Option<TupleId>,
}

impl NewTimer {
    /// What it fires next,
    pub fn next_plan_time(&self) -> Option<Instant> {
        self.armed().map(|(plan_time, _)| plan_time)
    }

    /// and when.
    pub fn fire_at(&self) -> Option<Instant> {
        self.armed().map(|(_, fire_at)| fire_at)
    }

    fn armed(&self) -> Option<(Instant, Instant)> {
        match self.next {
            Some(Next::Armed { plan_time, fire_at }) => Some((plan_time, fire_at)),
            Some(Next::Waiting | Next::Done) | None => None,
        }
    }

    /// A timer of the schedule as it is now, which has nothing to do yet.
    pub fn idle(schedule_id: i64, row: &ScheduleRow, progress: Progress) -> NewTimer {
        NewTimer {
            schedule_id,
            version: row.version,
            next: None,
            progress,
            parked: None,
            awaited: false,
            runs: Vec::new(),
            key: row.key,
            fired_before: Vec::new(),
            skipped: Vec::new(),
            settled: Vec::new(),
            before: progress,
            straightens: None,
            asks_for_alerts: row.asks_for_alerts,
            is_edited: false,
            was_parked: None,
            owner: row.job_owner.unwrap_or(Oid::INVALID),
            held: None,
            schedule_tid: row.tid,
        }
    }

    /// Whether it is armed for a time that has come.
    pub fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, Some(Next::Armed { fire_at, .. }) if fire_at <= now)
    }
}

/// Schedules by who owns their jobs, in the order in which an owner's own come.
pub type EachOwner = BTreeMap<u32, VecDeque<i64>>;

/// How many due timers are looked at for it from either end: what lies between waits until one of the ends comes there.
pub const MOST_SEEN: i64 = 100_000;

/// Which of the timers that are due a batch takes.
#[derive(Clone, Copy)]
pub struct BatchWindow {
    /// Only those due after this.
    pub after: Instant,
    /// How many of the latest,
    pub latest: i64,
    /// and, where there are more, of the earliest.
    pub earliest: i64,
    /// How much of their executions is written at once.
    pub bounds: Bounds,
}
