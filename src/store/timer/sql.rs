//! `sched.timer`: what dispatchers read and write, by statements.

use std::collections::BTreeMap;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::schedule::Next;
use scheduler_core::Instant;

use crate::heap::layouts::{schedule, timer};
use crate::pg::convert::timestamp;
use crate::pg::error::Failure;
use crate::pg::record::Record;
use crate::pg::session::{List, Row, Rows};
use crate::pg::Session;
use crate::store::alert;
use crate::store::low_water_marks;
use crate::store::schedule::state::{ScheduleRow, ScheduleState, TimerRow};
use crate::store::timer::new_timer::{BatchWindow, EachOwner, NewTimer, MOST_SEEN};
use crate::{arguments, statement};

/// Locks the timers that are due at `now` at the latest and within the window.
pub fn pick_due(session: &Session, window: BatchWindow, now: Instant) -> BTreeMap<i64, TimerRow> {
    due_rows(session, window, now).iter().map(|row| timer_of(&row)).collect()
}

/// The same, of which only that is read which any row has: its number, and how many fires failed in a row.
pub fn lock_due(session: &Session, window: BatchWindow, now: Instant) -> Vec<(i64, i32)> {
    due_rows(session, window, now)
        .iter()
        .map(|row| (row.get_required("schedule_id"), row.get_required("error_count")))
        .collect()
}

fn due_rows(session: &Session, window: BatchWindow, now: Instant) -> Rows<'_> {
    statement!(TIMERS_DUE = "timer/timers_due"(TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID));
    let arguments = arguments![timestamp(window.after), timestamp(now), window.latest, window.earliest];
    TIMERS_DUE.run(session, arguments)
}

/// Of each owner up to `most` of the timers that are due within the window, as `due_scan::each_owner` has them: the latest, or the earliest.
pub fn each_owner(session: &Session, window: BatchWindow, now: Instant, most: i64, latest: bool) -> EachOwner {
    statement!(
        TIMERS_EACH_OWNER = "timer/timers_each_owner"(TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID, BOOLOID)
    );
    let arguments = arguments![timestamp(window.after), timestamp(now), most, MOST_SEEN, latest];
    let mut lists = EachOwner::new();
    for row in TIMERS_EACH_OWNER.run(session, arguments).iter() {
        let owner: Oid = row.get_required("owner");
        lists.entry(owner.to_u32()).or_default().push_back(row.get_required("schedule_id"));
    }
    lists
}

/// Locks these timers, where they are due at `now` at the latest.
pub fn lock_these(session: &Session, schedule_ids: Vec<i64>, now: Instant) -> BTreeMap<i64, TimerRow> {
    these_rows(session, schedule_ids, now).iter().map(|row| timer_of(&row)).collect()
}

fn these_rows(session: &Session, schedule_ids: Vec<i64>, now: Instant) -> Rows<'_> {
    statement!(TIMERS_LOCK_THESE = "timer/timers_lock_these"(INT8ARRAYOID, TIMESTAMPTZOID));
    TIMERS_LOCK_THESE.run(session, arguments![List(schedule_ids), timestamp(now)])
}

/// Whether jobs have more than one owner.
pub fn has_several_owners(session: &Session) -> bool {
    statement!(JOB_OWNERS = "job/job_owners"());
    JOB_OWNERS.run(session, arguments![]).first().is_some_and(|row| row.get_required("several"))
}

fn timer_of(row: &Row) -> (i64, TimerRow) {
    (row.get_required(timer::SCHEDULE_ID), TimerRow::of(row))
}

/// The timers of these schedules.
pub fn timers(session: &Session, schedule_ids: Vec<i64>) -> BTreeMap<i64, TimerRow> {
    statement!(TIMERS_READ = "timer/timers_read"(INT8ARRAYOID));
    let rows = TIMERS_READ.run(session, arguments![List(schedule_ids)]);
    rows.iter().map(|row| timer_of(&row)).collect()
}

/// The state of these schedules, after their timers were locked and read.
pub fn read(session: &Session, schedule_ids: Vec<i64>, mut timers: BTreeMap<i64, TimerRow>) -> Vec<ScheduleState> {
    statement!(SCHEDULES_READ = "schedule/schedules_read"(INT8ARRAYOID));
    let rows = SCHEDULES_READ.run(session, arguments![List(schedule_ids)]);
    rows.iter()
        .map(|row| ScheduleState {
            schedule_id: row.get_required("schedule_id"),
            schedule: row
                .get::<i64>(schedule::VERSION)
                .map(|_| ScheduleRow { job_owner: row.get("job_owner"), ..ScheduleRow::of(&row) }),
            timer: timers.remove(&row.get_required::<i64>("schedule_id")),
            busy: row.get_required("busy"),
        })
        .collect()
}

/// Timers as the lists that the statements take. With runs a timer has one row for each of them, of which the first moves it on.
#[derive(Default)]
pub struct Columns {
    pub(super) schedule_id: Vec<i64>,
    pub(super) version: Vec<i64>,
    pub(super) next_plan_time: Vec<Option<TimestampWithTimeZone>>,
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
    pub(super) owner: Vec<Oid>,
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
        self.schedule_id.push(timer.schedule_id);
        self.version.push(timer.version);
        self.next_plan_time.push(timer.next_plan_time().map(timestamp));
        self.fire_at.push(timer.fire_at().map(timestamp));
        self.waiting.push(timer.next == Some(Next::Waiting));
        self.buffered.push(timer.progress.buffered.map(timestamp));
        self.cursor.push(timer.progress.cursor.map(timestamp));
        self.backlog_until.push(timer.progress.backlog_until.map(timestamp));
        self.reason.push(timer.parked.as_ref().map(|reason| reason.message.clone()));
        self.last_run.push(timer.runs.last().copied().map(timestamp));
        self.moves.push(moves);
        self.run.push(run.map(timestamp));
        self.awaited.push(timer.awaited);
        self.owner.push(timer.owner);
    }
}

/// Writes the timers of changed schedules, deletes those of dropped ones, and forgets the changes.
pub fn arm(session: &Session, timers: &[&NewTimer], dropped: Vec<i64>, change_ids: Vec<i64>) {
    statement!(
        TIMERS_ARM = "timer/timers_arm"(
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
            BOOLARRAYOID,
            OIDARRAYOID
        )
    );
    look_for_alerts(session, timers, &dropped);
    let columns = Columns::of(timers);
    TIMERS_ARM.run(
        session,
        arguments![
            List(columns.schedule_id),
            List(columns.version),
            List(columns.next_plan_time),
            List(columns.fire_at),
            List(columns.waiting),
            List(columns.buffered),
            List(columns.cursor),
            List(columns.backlog_until),
            List(columns.reason),
            List(dropped),
            List(change_ids),
            List(columns.awaited),
            List(columns.owner)
        ],
    );
    low_water_marks::added_timers(timers.iter().filter_map(|timer| timer.fire_at()));
}

/// Has dispatchers look for alerts of what was edited or dropped, and of what is parked or no longer is.
fn look_for_alerts(session: &Session, timers: &[&NewTimer], dropped: &[i64]) {
    let is_news = |timer: &&&NewTimer| {
        (timer.is_edited && timer.asks_for_alerts) || timer.parked.is_some() || timer.was_parked.is_some()
    };
    let (news, others): (Vec<&NewTimer>, Vec<&NewTimer>) = timers.iter().partition(|timer| is_news(timer));
    alert::look_at(session, news.iter().map(|timer| timer.schedule_id));
    let edited = others.iter().filter(|timer| timer.is_edited).map(|timer| timer.schedule_id);
    alert::look_at_watched(session, &edited.chain(dropped.iter().copied()).collect::<Vec<i64>>());
}

/// Which of these runs their schedules fired already in a scope that they had before an edit.
pub fn fired_before(session: &Session, runs: &[(i64, Instant)]) -> Vec<(i64, Instant)> {
    statement!(RUNS_FIRED_BEFORE = "schedule/runs_fired_before"(INT8ARRAYOID, TIMESTAMPTZARRAYOID));
    let (ids, plans): (Vec<i64>, Vec<_>) = runs.iter().map(|(id, plan)| (*id, timestamp(*plan))).unzip();
    let rows = RUNS_FIRED_BEFORE.run(session, arguments![List(ids), List(plans)]);
    rows.iter().map(|row| (row.get_required("schedule_id"), row.get_required_instant("plan_time"))).collect()
}

/// Leaves these timers alone until then.
pub fn postpone(session: &Session, schedule_ids: Vec<i64>, until: Instant) {
    statement!(TIMERS_POSTPONE = "timer/timers_postpone"(INT8ARRAYOID, TIMESTAMPTZOID));
    TIMERS_POSTPONE.run(session, arguments![schedule_ids, timestamp(until)]);
    low_water_marks::added_timers([until].into_iter());
}

/// Parks these schedules, each with its reason.
pub fn park(session: &Session, parked: &[(i64, Failure)]) {
    statement!(TIMERS_PARK = "timer/timers_park"(INT8ARRAYOID, TEXTARRAYOID));
    let (schedule_ids, reasons): (Vec<i64>, Vec<&str>) =
        parked.iter().map(|(id, why)| (*id, why.message.as_str())).unzip();
    alert::look_at(session, schedule_ids.iter().copied());
    TIMERS_PARK.run(session, arguments![schedule_ids, reasons]);
}

/// Forgets timers of schedules that go on: their runs stay awaited.
pub fn forget(session: &Session, schedule_ids: Vec<i64>) {
    statement!(TIMERS_FORGET = "timer/timers_forget"(INT8ARRAYOID));
    TIMERS_FORGET.run(session, arguments![List(schedule_ids)]);
}

/// Deletes the timers of dropped schedules, and which of their runs are awaited.
pub fn drop_timers(session: &Session, schedule_ids: Vec<i64>) {
    statement!(TIMERS_DROP = "timer/timers_drop"(INT8ARRAYOID));
    TIMERS_DROP.run(session, arguments![schedule_ids]);
}

/// Has a fire that failed tried again at `retry_at`.
pub fn record_failure(session: &Session, schedule_id: i64, error: &str, retry_at: Instant) {
    statement!(TIMER_FAILED = "timer/timer_failed"(INT8OID, TEXTOID, TIMESTAMPTZOID));
    alert::look_at(session, [schedule_id]);
    TIMER_FAILED.run(session, arguments![schedule_id, error, timestamp(retry_at)]);
    low_water_marks::added_timers([retry_at].into_iter());
}

/// Notifies these queues' channels.
pub fn notify(session: &Session, queues: Vec<String>) {
    statement!(NOTIFY = "queue/notify"(TEXTARRAYOID));
    let channels: Vec<String> = queues.iter().map(|queue| format!("sched:{queue}")).collect();
    NOTIFY.run(session, arguments![channels]);
}

/// Remembers the unfinished runs of schedules that care about them from now on; returns the schedules of which somebody has a run in
/// hand, so that they have to come again later.
pub fn await_unfinished(session: &Session, schedule_ids: Vec<i64>) -> Vec<i64> {
    statement!(SCHEDULE_AWAIT_UNFINISHED = "schedule/schedule_await_unfinished"(INT8ARRAYOID));
    SCHEDULE_AWAIT_UNFINISHED
        .run(session, arguments![schedule_ids])
        .iter()
        .map(|row| row.get_required("schedule_id"))
        .collect()
}
