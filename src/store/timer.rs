//! `sched.timer`: what dispatchers read and write.

use std::collections::BTreeMap;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use scheduler_core::plan::{Next, Progress};
use scheduler_core::skip::Skip;
use scheduler_core::Instant;

use crate::arguments;
use crate::convert::{self, timestamp};
use crate::error::{or_raise, raise, Failure};
use crate::statement;
use crate::store::session::{List, Row, Rows};
use crate::store::table::Place;
use crate::store::{due, Session};

pub use crate::store::fire::{fire, Fired};
pub use crate::store::snapshot::{FormerKeys, Held, ScheduleRow, Snapshot, TimerRow};

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
    /// The plan times that are passed over, with the definition (its `since_at`) whose plan times they are.
    pub skipped: Vec<(Instant, Skip)>,
    /// The definitions of the past (past_ids) that are settled with them.
    pub settled: Vec<i64>,
    /// What the timer remembered before.
    pub before: Progress,
    /// Something of it was written by a clock that was ahead: it begins anew, with what is remembered of its past. The anchor of its clock.
    pub straightens: Option<Instant>,
    /// Why it was parked before, where it was.
    pub was_parked: Option<String>,
    /// The timer as it was locked, and where its schedule stands, where both were read without a statement.
    pub held: Option<Held>,
    /// The same.
    pub schedule_place: Option<Place>,
}

impl NewTimer {
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
            was_parked: None,
            held: None,
            schedule_place: row.place,
        }
    }

    /// Whether it is armed for a time that has come.
    pub fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, Some(Next::Armed { fire_at, .. }) if fire_at <= now)
    }
}

/// A time of a row.
pub fn instant_of(row: &Row, column: usize) -> Option<Instant> {
    row.get::<TimestampWithTimeZone>(column).map(|value| or_raise(convert::instant("a stored time", value)))
}

/// A time of a row that a superuser's hand may have written.
pub fn any_instant_of(row: &Row, column: usize) -> Option<Instant> {
    row.get(column).map(convert::saturated)
}

/// A time that the schema says is never NULL.
pub fn must(value: Option<Instant>) -> Instant {
    value.unwrap_or_else(|| raise(Failure::internal("a time of a schedule is NULL")))
}

/// Which of the timers that are due a batch takes.
#[derive(Clone, Copy)]
pub struct Reach {
    /// Only those due after this.
    pub after: Instant,
    /// How many of the latest,
    pub latest: i64,
    /// and, where there are more, of the earliest.
    pub earliest: i64,
}

/// Locks the timers that are due at `now` at the latest and within reach.
pub fn pick_due(session: &Session, reach: Reach, now: Instant) -> BTreeMap<i64, TimerRow> {
    if let Some(picked) = session.rows().and_then(|schema| due::pick(schema, reach, now)) {
        return picked;
    }
    due_rows(session, reach, now).iter().map(|row| timer_of(&row)).collect()
}

/// The same, of which only that is read which any row has: its number, and how many fires failed in a row.
pub fn lock_due(session: &Session, reach: Reach, now: Instant) -> Vec<(i64, i32)> {
    due_rows(session, reach, now).iter().map(|row| (row.must(1), row.must(7))).collect()
}

fn due_rows(session: &Session, reach: Reach, now: Instant) -> Rows<'_> {
    statement!(TIMERS_DUE = "timers_due"(TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID));
    let arguments = arguments![timestamp(reach.after), timestamp(now), reach.latest, reach.earliest];
    TIMERS_DUE.run(session, arguments)
}

fn timer_of(row: &Row) -> (i64, TimerRow) {
    let (next_plan, progress) = TimerRow::times(row.get(3), [row.get(4), row.get(5), row.get(6)]);
    let timer = TimerRow {
        version: row.must(2),
        next_plan,
        progress,
        error_count: row.must(7),
        parked: row.lossy(8),
        waiting: row.must(9),
        awaits: false,
        held: None,
    };
    (row.must(1), timer)
}

/// The timers of these schedules.
pub fn timers(session: &Session, schedule_ids: Vec<i64>) -> BTreeMap<i64, TimerRow> {
    statement!(TIMERS_READ = "timers_read"(INT8ARRAYOID));
    let rows = TIMERS_READ.run(session, arguments![List(schedule_ids)]);
    rows.iter()
        .map(|row| {
            let (schedule_id, timer) = timer_of(&row);
            (schedule_id, TimerRow { awaits: row.must(10), ..timer })
        })
        .collect()
}

/// The state of these schedules, after their timers were locked and read.
pub fn read(session: &Session, schedule_ids: Vec<i64>, mut timers: BTreeMap<i64, TimerRow>) -> Vec<Snapshot> {
    if let Some(read) = session.rows().and_then(|schema| due::read(schema, &schedule_ids, &mut timers)) {
        return read;
    }
    statement!(SCHEDULES_READ = "schedules_read"(INT8ARRAYOID));
    let rows = SCHEDULES_READ.run(session, arguments![List(schedule_ids)]);
    rows.iter()
        .map(|row| Snapshot {
            schedule_id: row.must(1),
            schedule: row.get::<i64>(2).map(|version| ScheduleRow {
                version,
                clock: row.must(3),
                time_zone: row.must(4),
                catch_up: row.must(5),
                catch_up_window: row.get(6),
                max_plans_per_tick: row.must(7),
                rearm: row.must(8),
                overlap: row.must(9),
                delay: row.must(10),
                jitter: row.must(11),
                starts_at: row.get(12),
                ends_at: row.get(13),
                owned: row.must(14),
                enabled: row.must(15),
                created_at: must(instant_of(&row, 16)),
                baseline_at: must(instant_of(&row, 17)),
                since_at: must(instant_of(&row, 22)),
                job_name: row.must(18),
                job_owner: row.get(19),
                key: row.must(20),
                former_keys: FormerKeys::of(row.must(23), row.must(24)),
                place: None,
            }),
            timer: timers.remove(&row.must::<i64>(1)),
            busy: row.must(21),
        })
        .collect()
}

/// Timers as the lists that the statements take. With runs a timer has one row for each of them, of which the first moves it on.
#[derive(Default)]
pub struct Columns {
    pub(super) schedule_id: Vec<i64>,
    pub(super) version: Vec<i64>,
    pub(super) next_plan: Vec<Option<TimestampWithTimeZone>>,
    pub(super) fire_at: Vec<Option<TimestampWithTimeZone>>,
    pub(super) waiting: Vec<bool>,
    pub(super) buffered: Vec<Option<TimestampWithTimeZone>>,
    pub(super) cursor: Vec<Option<TimestampWithTimeZone>>,
    pub(super) backlog_until: Vec<Option<TimestampWithTimeZone>>,
    pub(super) reason: Vec<Option<String>>,
    pub(super) last_run: Vec<Option<TimestampWithTimeZone>>,
    pub(super) moves: Vec<bool>,
    pub(super) run: Vec<Option<TimestampWithTimeZone>>,
    pub(super) run_id: Vec<Option<Uuid>>,
    pub(super) awaited: Vec<bool>,
}

impl Columns {
    fn of(timers: &[&NewTimer]) -> Columns {
        let mut columns = Columns::default();
        for timer in timers {
            columns.push(timer, true, None);
        }
        columns
    }

    /// Adds a row.
    pub fn push(&mut self, timer: &NewTimer, moves: bool, run: Option<Instant>) {
        let (plan, fire_at) = match timer.next {
            Some(Next::Armed { plan, fire_at }) => (Some(timestamp(plan)), Some(timestamp(fire_at))),
            Some(Next::Waiting | Next::Done) | None => (None, None),
        };
        self.schedule_id.push(timer.schedule_id);
        self.version.push(timer.version);
        self.next_plan.push(plan);
        self.fire_at.push(fire_at);
        self.waiting.push(timer.next == Some(Next::Waiting));
        self.buffered.push(timer.progress.buffered.map(timestamp));
        self.cursor.push(timer.progress.cursor.map(timestamp));
        self.backlog_until.push(timer.progress.backlog_until.map(timestamp));
        self.reason.push(timer.parked.as_ref().map(|reason| reason.message.clone()));
        self.last_run.push(timer.runs.last().copied().map(timestamp));
        self.moves.push(moves);
        self.run.push(run.map(timestamp));
        self.awaited.push(timer.awaited);
    }
}

/// Writes the timers of changed schedules, deletes those of dropped ones, and forgets the changes.
pub fn arm(session: &Session, timers: &[&NewTimer], dropped: Vec<i64>, change_ids: Vec<i64>) {
    statement!(
        TIMERS_ARM = "timers_arm"(
            INT8ARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TEXTARRAYOID,
            INT8ARRAYOID,
            INT8ARRAYOID,
            BOOLARRAYOID
        )
    );
    let columns = Columns::of(timers);
    TIMERS_ARM.run(
        session,
        arguments![
            List(columns.schedule_id),
            List(columns.version),
            List(columns.next_plan),
            List(columns.fire_at),
            List(columns.waiting),
            List(columns.buffered),
            List(columns.cursor),
            List(columns.backlog_until),
            List(columns.reason),
            List(dropped),
            List(change_ids),
            List(columns.awaited)
        ],
    );
}

/// Which of these runs their schedules fired already in a scope that they had before an edit.
pub fn fired_before(session: &Session, runs: &[(i64, Instant)]) -> Vec<(i64, Instant)> {
    statement!(RUNS_FIRED_BEFORE = "runs_fired_before"(INT8ARRAYOID, TIMESTAMPTZARRAYOID));
    let (ids, plans): (Vec<i64>, Vec<_>) = runs.iter().map(|(id, plan)| (*id, timestamp(*plan))).unzip();
    let rows = RUNS_FIRED_BEFORE.run(session, arguments![List(ids), List(plans)]);
    rows.iter().map(|row| (row.must(1), must(instant_of(&row, 2)))).collect()
}

/// Leaves these timers alone until then.
pub fn postpone(session: &Session, schedule_ids: Vec<i64>, until: Instant) {
    statement!(TIMERS_POSTPONE = "timers_postpone"(INT8ARRAYOID, TIMESTAMPTZOID));
    TIMERS_POSTPONE.run(session, arguments![schedule_ids, timestamp(until)]);
}

/// Parks these schedules, each with its reason.
pub fn park(session: &Session, parked: &[(i64, Failure)]) {
    statement!(TIMERS_PARK = "timers_park"(INT8ARRAYOID, TEXTARRAYOID));
    let (schedule_ids, reasons): (Vec<i64>, Vec<&str>) =
        parked.iter().map(|(id, why)| (*id, why.message.as_str())).unzip();
    TIMERS_PARK.run(session, arguments![schedule_ids, reasons]);
}

/// Forgets timers of schedules that go on: their runs stay awaited.
pub fn forget(session: &Session, schedule_ids: Vec<i64>) {
    statement!(TIMERS_FORGET = "timers_forget"(INT8ARRAYOID));
    TIMERS_FORGET.run(session, arguments![List(schedule_ids)]);
}

/// Deletes the timers of dropped schedules, and which of their runs are awaited.
pub fn drop_timers(session: &Session, schedule_ids: Vec<i64>) {
    statement!(TIMERS_DROP = "timers_drop"(INT8ARRAYOID));
    TIMERS_DROP.run(session, arguments![schedule_ids]);
}

/// Has a fire that failed tried again at `retry_at`.
pub fn record_failure(session: &Session, schedule_id: i64, error: &str, retry_at: Instant) {
    statement!(TIMER_FAILED = "timer_failed"(INT8OID, TEXTOID, TIMESTAMPTZOID));
    TIMER_FAILED.run(session, arguments![schedule_id, error, timestamp(retry_at)]);
}

/// Notifies these queues' channels.
pub fn notify(session: &Session, queues: Vec<String>) {
    statement!(NOTIFY = "notify"(TEXTARRAYOID));
    let channels: Vec<String> = queues.iter().map(|queue| format!("sched:{queue}")).collect();
    NOTIFY.run(session, arguments![channels]);
}

/// Remembers the unfinished runs of schedules that care about them from now on; returns the schedules of which somebody has a run in
/// hand, so that they have to come again later.
pub fn await_unfinished(session: &Session, schedule_ids: Vec<i64>) -> Vec<i64> {
    statement!(SCHEDULE_AWAIT_UNFINISHED = "schedule_await_unfinished"(INT8ARRAYOID));
    SCHEDULE_AWAIT_UNFINISHED.run(session, arguments![schedule_ids]).iter().map(|row| row.must(1)).collect()
}
