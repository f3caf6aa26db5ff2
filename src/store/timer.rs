//! `sched.timer` and `sched.schedule_change`: what dispatchers read and write.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::pg_sys::Oid;
use scheduler_core::plan::{Next, Progress};
use scheduler_core::skip::Skip;
use scheduler_core::Instant;

use crate::arguments;
use crate::convert::{self, timestamp};
use crate::error::{or_raise, raise, Failure};
use crate::statement;
use crate::store::session::Row;
use crate::store::Session;

/// The changes of one schedule that nobody has applied yet.
pub struct Change {
    /// Which schedule.
    pub schedule_id: i64,
    /// When a run that it waited for ended, if one did.
    pub terminal_at: Option<Instant>,
    /// The rows to forget once it is applied.
    pub change_ids: Vec<i64>,
    /// Whether it can be applied now.
    pub standing: Standing,
}

/// What is known of the timer of a changed schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is ours until the transaction ends.
    Locked,
    /// There is none yet.
    New,
    /// Somebody else has it.
    Busy,
}

/// A schedule, its job and its timer as the dispatcher sees them.
pub struct Snapshot {
    /// Which schedule.
    pub schedule_id: i64,
    /// `None` where it was dropped.
    pub schedule: Option<ScheduleRow>,
    /// `None` where no dispatcher has seen it yet.
    pub timer: Option<TimerRow>,
    /// An awaited run of it has not ended.
    pub busy: bool,
}

/// The columns of a schedule that decide what it does.
pub struct ScheduleRow {
    /// Rises with every change.
    pub version: i64,
    /// As written.
    pub clock: String,
    /// As written.
    pub time_zone: String,
    /// As written.
    pub catch_up: String,
    /// As written.
    pub catch_up_window: Option<Interval>,
    /// As written.
    pub max_plans_per_tick: i32,
    /// As written.
    pub rearm: String,
    /// As written.
    pub overlap: String,
    /// As written.
    pub delay: Interval,
    /// As written.
    pub jitter: Interval,
    /// As written.
    pub starts_at: Option<TimestampWithTimeZone>,
    /// As written.
    pub ends_at: Option<TimestampWithTimeZone>,
    /// Dispatched here.
    pub owned: bool,
    /// Not paused.
    pub enabled: bool,
    /// The anchor of `every`.
    pub created_at: Instant,
    /// Only later plans fire.
    pub baseline_at: Instant,
    /// Since when the clock, the zone, the window, the pause and the ownership are as they are.
    pub since_at: Instant,
    /// The job that it names.
    pub job_name: String,
    /// That job's owner; `None` where the job does not exist.
    pub job_owner: Option<Oid>,
    /// Its runs are done by whoever dispatches them (jobs of kind notify and log).
    pub done_when_fired: bool,
}

/// The columns of a timer.
pub struct TimerRow {
    /// The version of the schedule that it was made from.
    pub version: i64,
    /// The plan that it is armed for.
    pub next_plan: Option<Instant>,
    /// What it remembers.
    pub progress: Progress,
    /// Failed fires in a row.
    pub error_count: i32,
    /// Unarmed until a run ends.
    pub waiting: bool,
    /// The schedule could not be used.
    pub parked: bool,
}

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
    pub parked: Option<String>,
    /// Whether its runs are awaited.
    pub awaited: bool,
    /// Whether its runs are done when they are dispatched.
    pub done_when_fired: bool,
    /// The plan times that become executions.
    pub runs: Vec<Instant>,
    /// The plan times that are passed over, with the definition (its `since_at`) whose plan times they are.
    pub skipped: Vec<(Instant, Skip)>,
    /// The definitions of the past (past_ids) that are settled with them.
    pub settled: Vec<i64>,
    /// What the timer remembered before.
    pub before: Progress,
    /// Whether it was parked before.
    pub was_parked: bool,
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
            done_when_fired: row.done_when_fired,
            runs: Vec::new(),
            skipped: Vec::new(),
            settled: Vec::new(),
            before: progress,
            was_parked: false,
        }
    }
}

/// A column of time.
pub fn instant_of(row: &Row, column: i32) -> Option<Instant> {
    row.get::<TimestampWithTimeZone>(column).map(|value| or_raise(convert::instant("a stored time", value)))
}

/// A time that the schema says is never NULL.
pub fn must(value: Option<Instant>) -> Instant {
    value.unwrap_or_else(|| raise(Failure::internal("a time of a schedule is NULL")))
}

/// Locks up to `limit` changes after `after` and the timers they are about.
pub fn pick_changes(session: &Session, after: i64, limit: i64) -> Vec<Change> {
    statement!(CHANGES_PICK = "changes_pick"(INT8OID, INT8OID));
    let rows = CHANGES_PICK.run(session, arguments![after, limit]);
    rows.iter()
        .map(|row| Change {
            schedule_id: row.must(1),
            terminal_at: instant_of(&row, 2),
            change_ids: row.must(3),
            standing: match row.must::<String>(4).as_str() {
                "locked" => Standing::Locked,
                "new" => Standing::New,
                _ => Standing::Busy,
            },
        })
        .collect()
}

/// Locks up to `limit` timers that are due at `now`.
pub fn pick_due(session: &Session, now: Instant, limit: i64) -> Vec<i64> {
    statement!(TIMERS_DUE = "timers_due"(TIMESTAMPTZOID, INT8OID));
    TIMERS_DUE.run(session, arguments![timestamp(now), limit]).iter().map(|row| row.must(1)).collect()
}

/// Whether a change is waiting.
pub fn has_changes(session: &Session) -> bool {
    statement!(CHANGE_EXISTS = "change_exists"());
    CHANGE_EXISTS.run(session, arguments![]).first().is_some()
}

/// The state of these schedules, after their timers were locked.
pub fn read(session: &Session, schedule_ids: Vec<i64>) -> Vec<Snapshot> {
    statement!(SCHEDULES_READ = "schedules_read"(INT8ARRAYOID));
    let rows = SCHEDULES_READ.run(session, arguments![schedule_ids]);
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
                since_at: must(instant_of(&row, 28)),
                job_name: row.must(18),
                job_owner: row.get(19),
                done_when_fired: row.get(20).unwrap_or(false),
            }),
            timer: row.get::<i64>(21).map(|version| TimerRow {
                version,
                next_plan: instant_of(&row, 22),
                progress: Progress {
                    cursor: instant_of(&row, 23),
                    buffered: instant_of(&row, 24),
                    backlog_until: instant_of(&row, 25),
                },
                error_count: row.must(26),
                waiting: row.must(29),
                parked: row.must(30),
            }),
            busy: row.must(27),
        })
        .collect()
}

/// Timers as the arrays that the statements take.
#[derive(Default)]
struct Columns {
    schedule_id: Vec<i64>,
    version: Vec<i64>,
    next_plan: Vec<Option<TimestampWithTimeZone>>,
    fire_at: Vec<Option<TimestampWithTimeZone>>,
    waiting: Vec<bool>,
    buffered: Vec<Option<TimestampWithTimeZone>>,
    cursor: Vec<Option<TimestampWithTimeZone>>,
    backlog_until: Vec<Option<TimestampWithTimeZone>>,
    reason: Vec<Option<String>>,
    last_run: Vec<Option<TimestampWithTimeZone>>,
    run_schedule_id: Vec<i64>,
    run_version: Vec<i64>,
    run_plan: Vec<TimestampWithTimeZone>,
    run_awaited: Vec<bool>,
    any_done_when_fired: bool,
}

impl Columns {
    fn of(timers: Vec<NewTimer>) -> Columns {
        let mut columns = Columns::default();
        for timer in timers {
            let (plan, fire_at) = match timer.next {
                Some(Next::Armed { plan, fire_at }) => (Some(timestamp(plan)), Some(timestamp(fire_at))),
                Some(Next::Waiting | Next::Done) | None => (None, None),
            };
            columns.schedule_id.push(timer.schedule_id);
            columns.version.push(timer.version);
            columns.next_plan.push(plan);
            columns.fire_at.push(fire_at);
            columns.waiting.push(timer.next == Some(Next::Waiting));
            columns.buffered.push(timer.progress.buffered.map(timestamp));
            columns.cursor.push(timer.progress.cursor.map(timestamp));
            columns.backlog_until.push(timer.progress.backlog_until.map(timestamp));
            columns.reason.push(timer.parked);
            columns.last_run.push(timer.runs.last().copied().map(timestamp));
            columns.any_done_when_fired |= timer.done_when_fired;
            for run in timer.runs {
                columns.run_schedule_id.push(timer.schedule_id);
                columns.run_version.push(timer.version);
                columns.run_plan.push(timestamp(run));
                columns.run_awaited.push(timer.awaited);
            }
        }
        columns
    }
}

/// Writes the timers of changed schedules, deletes those of dropped ones, and forgets the changes.
pub fn arm(session: &Session, timers: Vec<NewTimer>, dropped: Vec<i64>, change_ids: Vec<i64>) {
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
            INT8ARRAYOID
        )
    );
    let columns = Columns::of(timers);
    TIMERS_ARM.run(
        session,
        arguments![
            columns.schedule_id,
            columns.version,
            columns.next_plan,
            columns.fire_at,
            columns.waiting,
            columns.buffered,
            columns.cursor,
            columns.backlog_until,
            columns.reason,
            dropped,
            change_ids
        ],
    );
}

/// What a batch of due timers led to.
#[derive(Default)]
pub struct Fired {
    /// How many executions were inserted.
    pub count: i64,
    /// Queues in which something became claimable.
    pub queues: Vec<String>,
    /// Lines for the server's log (jobs of kind log).
    pub log: Vec<String>,
}

/// Inserts the executions of a batch and moves its timers on.
pub fn fire(session: &Session, timers: Vec<NewTimer>, now: Instant) -> Fired {
    statement!(
        TIMERS_FIRE = "timers_fire"(
            INT8ARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            INT8ARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZOID,
            BOOLOID
        )
    );
    let columns = Columns::of(timers);
    let rows = TIMERS_FIRE.run(
        session,
        arguments![
            columns.schedule_id,
            columns.version,
            columns.next_plan,
            columns.fire_at,
            columns.waiting,
            columns.buffered,
            columns.cursor,
            columns.backlog_until,
            columns.last_run,
            columns.run_schedule_id,
            columns.run_version,
            columns.run_plan,
            columns.run_awaited,
            timestamp(now),
            columns.any_done_when_fired
        ],
    );
    rows.first().map_or(Fired::default(), |row| Fired {
        count: row.must(1),
        queues: row.get(2).unwrap_or_default(),
        log: row.get(4).unwrap_or_default(),
    })
}

/// Parks these schedules, each with its reason.
pub fn park(session: &Session, parked: Vec<(i64, String)>) {
    statement!(TIMERS_PARK = "timers_park"(INT8ARRAYOID, TEXTARRAYOID));
    let (schedule_ids, reasons): (Vec<i64>, Vec<String>) = parked.into_iter().unzip();
    TIMERS_PARK.run(session, arguments![schedule_ids, reasons]);
}

/// Deletes the timers of dropped schedules.
pub fn drop_timers(session: &Session, schedule_ids: Vec<i64>) {
    statement!(TIMERS_DROP = "timers_drop"(INT8ARRAYOID));
    TIMERS_DROP.run(session, arguments![schedule_ids]);
}

/// Has a fire that failed tried again at `retry_at`.
pub fn record_failure(session: &Session, schedule_id: i64, error: &str, retry_at: Instant) {
    statement!(TIMER_FAILED = "timer_failed"(INT8OID, TEXTOID, TIMESTAMPTZOID));
    TIMER_FAILED.run(session, arguments![schedule_id, error, timestamp(retry_at)]);
}

/// What a dispatcher wakes for.
#[derive(Default)]
pub struct Deadlines {
    /// The first timer is due.
    pub fire: Option<Instant>,
    /// The first retry is due.
    pub retry: Option<Instant>,
    /// The first lease may be stale.
    pub stale: Option<Instant>,
    /// A change is waiting to be applied.
    pub changes: bool,
}

/// The first fire, retry and end of a lease that are known, and whether changes are left.
pub fn next_deadlines(session: &Session) -> Deadlines {
    statement!(NEXT_DEADLINES = "next_deadlines"());
    NEXT_DEADLINES.run(session, arguments![]).first().map_or(Deadlines::default(), |row| Deadlines {
        fire: instant_of(&row, 1),
        retry: instant_of(&row, 2),
        stale: instant_of(&row, 3),
        changes: row.must(4),
    })
}

/// Notifies these queues' channels.
pub fn notify(session: &Session, queues: Vec<String>) {
    statement!(NOTIFY = "notify"(TEXTARRAYOID));
    let channels: Vec<String> = queues.iter().map(|queue| format!("sched:{queue}")).collect();
    NOTIFY.run(session, arguments![channels]);
}

/// Remembers the unfinished runs of schedules that care about them from now on.
pub fn await_unfinished(session: &Session, schedule_ids: Vec<i64>) {
    statement!(SCHEDULE_AWAIT_UNFINISHED = "schedule_await_unfinished"(INT8ARRAYOID));
    SCHEDULE_AWAIT_UNFINISHED.run(session, arguments![schedule_ids]);
}
