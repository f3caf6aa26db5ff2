//! What executions come to, told to those who count (`shmem/counters.rs`): by a row, or by the column `counted` of a statement that returns no row
//! for each.
//!
//! `counted` is the text of a JSON array with an object for each job, queue and owner, as `Group` has it. Times are in microseconds.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::pg_sys::{self, Oid};
use scheduler_core::lease::{Claim, Status};
use scheduler_core::metrics::Event;
use scheduler_core::schedule::{jitter, SkipReason};
use scheduler_core::Instant;
use serde::Deserialize;

use crate::heap::layouts::{self, ledger, schedule};
use crate::heap::{Condition, Index, LatestSnapshot, Table};
use crate::pg::record::{Column, Record};
use crate::pg::session::{Row, Rows};
use crate::pg::{convert, role};
use crate::shmem::counters::pending::count;
use crate::shmem::counters::OTHER;
use crate::shmem::registry;
use crate::store::queue::user_queue::user_queue;

/// What a statement has done to executions of one job, queue and owner.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct Group {
    job: String,
    queue: String,
    owner: u32,
    /// Put into the ledger by a schedule.
    fired: u64,
    /// By an application.
    enqueued: u64,
    /// Ended as SUCCESS.
    success: u64,
    /// Ended as CANCELLED.
    cancelled: u64,
    /// How late each began that began and ended at once.
    late: Option<Vec<i64>>,
    /// How long each took that ended.
    lasted: Option<Vec<i64>>,
}

/// Counts what `counted` says, in the one row that has it.
pub fn of_rows(rows: &Rows) {
    if !registry::preloaded() {
        return;
    }
    let said = rows.iter().find_map(|row| row.get::<String>("counted"));
    // It is our own statement that wrote it.
    let groups: Vec<Group> = said.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for group in groups {
        let mut events = vec![
            Event::Fired(group.fired),
            Event::Enqueued(group.enqueued),
            Event::Ended(Status::Success, group.success),
            Event::Ended(Status::Cancelled, group.cancelled),
        ];
        events.extend(group.late.into_iter().flatten().map(Event::Late));
        events.extend(group.lasted.into_iter().flatten().map(Event::Lasted));
        count(&group.job, user_queue(&group.queue), Oid::from_u32(group.owner), &events);
    }
}

/// Executions of a job were fired, in this queue.
pub fn fired(job: &str, queue: &str, owner: Oid, executions: u64) {
    count(job, user_queue(queue), owner, &[Event::Fired(executions)]);
}

/// Executions of a job were enqueued, in this queue.
pub fn enqueued(job: &str, queue: &str, owner: Oid, executions: u64) {
    count(job, user_queue(queue), owner, &[Event::Enqueued(executions)]);
}

/// Plan times of a schedule were passed over, by a row with its job, the job's queue and owner.
pub fn skipped(row: &Row, reason: SkipReason, plans: u64) {
    let (Some(job), Some(owner)) = (row.get::<&str>("job_name"), row.get::<Oid>("owner")) else { return };
    count(job, user_queue(row.get("queue").unwrap_or(OTHER)), owner, &[Event::Skipped(reason, plans)]);
}

/// The time for which an execution was planned, by its row of the ledger. A backfill was planned for none that its run could have kept.
/// What applications call a plan time may be a mere name: theirs is planned for when it came to be.
pub fn planned_for(entry: &impl Record<Column>) -> Option<i64> {
    let micros = |time: TimestampWithTimeZone| i64::from(time);
    let plan_time = match entry.get_required::<&str>(ledger::ORIGIN) {
        "backfill" => return None,
        "enqueue" | "claim" => micros(entry.get_required(ledger::CREATED_AT)),
        "schedule" => dispatch_time(entry),
        _ => micros(entry.get_required(ledger::PLAN_TIME)),
    };
    Some(
        entry
            .get(ledger::RUN_AT)
            .map(micros)
            .filter(|run_at| *run_at < i64::MAX)
            .map_or(plan_time, |at| at.max(plan_time)),
    )
}

/// When a schedule was to dispatch an execution: after its delay and jitter, which are no lateness. As the schedule is now, and never later than
/// it was dispatched. Only what was dispatched later than its plan time by more than a moment is asked for these.
fn dispatch_time(entry: &impl Record<Column>) -> i64 {
    /// What a dispatcher that is awake takes, in microseconds.
    const MOMENT: i64 = 100_000;
    let plan_time = i64::from(entry.get_required::<TimestampWithTimeZone>(ledger::PLAN_TIME));
    let created_at = i64::from(entry.get_required::<TimestampWithTimeZone>(ledger::CREATED_AT));
    let Some(schedule_id) = entry.get::<i64>(ledger::SCHEDULE_ID) else { return plan_time };
    if created_at.saturating_sub(plan_time) <= MOMENT {
        return plan_time;
    }
    let wait = intended_wait(schedule_id, plan_time).unwrap_or(0);
    plan_time.saturating_add(wait).min(created_at)
}

/// For how long a schedule wants a plan time to wait: row by row, for a claim may be asking.
fn intended_wait(schedule_id: i64, plan_time: i64) -> Option<i64> {
    let (schema, _) = role::schema()?;
    let schedules = Table::open(schema, &layouts::SCHEDULE).filter(|table| table.permits(pg_sys::ACL_SELECT))?;
    let latest = LatestSnapshot::take();
    let mut by_id = Index::open(&schedules, c"schedule_pkey", &latest);
    if !by_id.find(&[Condition::equal(pg_sys::F_INT8EQ, schedule_id)]) {
        return None;
    }
    let length = |name, column| {
        convert::duration(name, schedules.get_required::<Interval>(column), convert::Zero::Allowed).unwrap_or(0)
    };
    let (delay, bound) = (length("delay", schedule::DELAY), length("jitter", schedule::JITTER));
    let offset = jitter::offset(bound, schedule_id.cast_unsigned(), Instant::from_micros(plan_time)?);
    Some(delay.saturating_add(offset))
}

/// A lease was given for this attempt, on what was planned for a time.
pub fn claimed(job: &str, queue: &str, owner: Oid, attempt: i32, planned_for: Option<i64>, now: Instant) {
    let (first, later) = ([Event::Claimed(Claim::Won)], [Event::Claimed(Claim::Stole)]);
    let queue = user_queue(queue);
    match planned_for {
        _ if attempt > 1 => count(job, queue, owner, &later),
        None => count(job, queue, owner, &first),
        Some(time) => {
            let late = Event::Late(now.as_micros().saturating_sub(time));
            count(job, queue, owner, &[Event::Claimed(Claim::Won), late]);
        }
    }
}

/// The same by the row of the ledger.
pub fn claimed_entry(entry: &impl Record<Column>, queue: &str, attempt: i32, now: Instant) {
    if registry::preloaded() {
        let planned_for = if attempt > 1 { None } else { planned_for(entry) };
        claimed(
            entry.get_required(ledger::JOB_NAME),
            queue,
            entry.get_required(ledger::OWNER),
            attempt,
            planned_for,
            now,
        );
    }
}

/// An attempt that began at a time has ended, by its row of the ledger; whether another one follows.
pub fn ended(
    entry: &impl Record<Column>,
    status: Status,
    started_at: Option<TimestampWithTimeZone>,
    is_tried_again: bool,
    now: Instant,
) {
    if !registry::preloaded() {
        return;
    }
    let end = Event::Ended(status, 1);
    let lasted = started_at.map(|at| Event::Lasted(now.as_micros().saturating_sub(i64::from(at))));
    let (job, queue, owner): (&str, &str, Oid) =
        (entry.get_required(ledger::JOB_NAME), entry.get_required(ledger::QUEUE), entry.get_required(ledger::OWNER));
    let count = |events: &[Event]| count(job, user_queue(queue), owner, events);
    match (lasted, is_tried_again) {
        (Some(lasted), false) => count(&[end, lasted]),
        (Some(lasted), true) => count(&[end, lasted, Event::Retried]),
        (None, false) => count(&[end]),
        (None, true) => count(&[end, Event::Retried]),
    }
}
