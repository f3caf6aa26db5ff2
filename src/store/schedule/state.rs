//! A schedule, its job and its timer as rows: what every decision is made from.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{self, Oid};
use scheduler_core::schedule::{Overlap, Ownership, Progress, Rearm};
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::{schedule, timer};
use crate::heap::TupleId;
use crate::pg::convert;
use crate::pg::error::{Failure, Outcome};
use crate::pg::memory::PlainSize;
use crate::pg::record::{Column, Record};

/// A schedule, its job and its timer as the dispatcher sees them.
pub struct ScheduleState {
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
    pub defined_at: Instant,
    /// The job that it names.
    pub job_name: String,
    /// That job's owner; `None` where the job does not exist.
    pub job_owner: Option<Oid>,
    /// What the ledger has its executions by, with the plan time.
    pub key: Uuid,
    /// Whether some of its executions may have another key, because it had another job or scope before an edit.
    pub previous_keys: PreviousKeys,
    /// It asks for alerts.
    pub asks_for_alerts: bool,
    /// The size of its payload, neither compressed nor copied.
    pub payload_bytes: usize,
    /// Where it stands, where it was read without a statement.
    pub tid: Option<TupleId>,
}

impl ScheduleRow {
    /// A row of `sched.schedule`; its job is not known yet.
    pub fn of(row: &impl Record<Column>) -> ScheduleRow {
        ScheduleRow {
            // First, as the last columns: a table takes apart all up to there at once, where each column by itself costs as much as several do.
            asks_for_alerts: [schedule::EXPECT_SUCCESS_WITHIN, schedule::MAX_DURATION, schedule::MAX_LATENESS]
                .map(|column| row.get::<Interval>(column))
                .iter()
                .any(Option::is_some),
            version: row.get_required(schedule::VERSION),
            clock: row.get_required(schedule::CLOCK),
            time_zone: row.get_required(schedule::TIME_ZONE),
            catch_up: row.get_required(schedule::CATCH_UP),
            catch_up_window: row.get(schedule::CATCH_UP_WINDOW),
            max_plans_per_tick: row.get_required(schedule::MAX_PLANS_PER_TICK),
            rearm: row.get_required(schedule::REARM),
            overlap: row.get_required(schedule::OVERLAP),
            delay: row.get_required(schedule::DELAY),
            jitter: row.get_required(schedule::JITTER),
            starts_at: row.get(schedule::STARTS_AT),
            ends_at: row.get(schedule::ENDS_AT),
            owned: row.get_required::<String>(schedule::OWNERSHIP) == Ownership::Owned.as_str(),
            enabled: row.get_required(schedule::ENABLED),
            created_at: row.get_required_instant(schedule::CREATED_AT),
            baseline_at: row.get_required_instant(schedule::BASELINE_AT),
            defined_at: row.get_required_instant(schedule::DEFINED_AT),
            job_name: row.get_required(schedule::JOB_NAME),
            job_owner: None,
            key: row.get_required(schedule::KEY),
            previous_keys: PreviousKeys::of(row),
            payload_bytes: row.get_required::<PlainSize>(schedule::PAYLOAD).0,
            tid: None,
        }
    }

    /// Whether runs of it may be awaited, by the row alone, which may hold anything.
    pub fn waits_for_runs(&self) -> bool {
        self.rearm != Rearm::OnDispatch.as_str() || self.overlap != Overlap::Allow.as_str()
    }
}

/// The scopes that a schedule had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreviousKeys {
    /// None.
    None,
    /// Some.
    Some,
    /// A NULL among them, by a superuser's hand.
    Unreadable,
}

impl PreviousKeys {
    fn of(row: &impl Record<Column>) -> PreviousKeys {
        // Nearly always there are none, and the array is not unpacked.
        if row.get_required::<PlainSize>(schedule::PREVIOUS_KEYS).0 <= size_of::<pg_sys::ArrayType>() {
            return PreviousKeys::None;
        }
        let keys: Vec<Option<Uuid>> = row.get_required(schedule::PREVIOUS_KEYS);
        match (keys.is_empty(), keys.contains(&None)) {
            (_, true) => PreviousKeys::Unreadable,
            (false, false) => PreviousKeys::Some,
            (true, false) => PreviousKeys::None,
        }
    }

    /// The error where they cannot be read.
    pub fn check(self) -> Outcome<()> {
        match self {
            PreviousKeys::None | PreviousKeys::Some => Ok(()),
            PreviousKeys::Unreadable => Err(Failure::invalid(
                "previous_keys of the schedule must not contain NULL",
                "Any sched.alter_schedule takes it out.",
            )),
        }
    }
}

/// The columns of a timer.
pub struct TimerRow {
    /// The version of the schedule that it was made from.
    pub version: i64,
    /// The plan that it is armed for.
    pub next_plan_time: Option<Instant>,
    /// What it remembers; the error where a superuser's hand has written a time that is none.
    pub progress: Outcome<Progress>,
    /// Failed fires in a row.
    pub error_count: i32,
    /// Why it is parked, where it is.
    pub parked: Option<String>,
    /// Unarmed until a run ends.
    pub waiting: bool,
    /// Every unfinished run of the schedule is remembered as awaited, as far as is known.
    pub tracks_runs: bool,
    /// What it takes to write it without a statement, where it was locked without one.
    pub held: Option<LockedTimer>,
}

impl TimerRow {
    /// A row of `sched.timer`.
    pub fn of(row: &impl Record<Column>) -> TimerRow {
        // (First, as a schedule's last column.)
        let tracks_runs = row.get_required(timer::TRACKS_RUNS);
        let remembered = [timer::CURSOR_AT, timer::BUFFERED_PLAN, timer::BACKLOG_UNTIL].map(|column| row.get(column));
        let (next_plan_time, progress) = TimerRow::times(row.get(timer::NEXT_PLAN_TIME), remembered);
        let parked: bool = row.get_required(timer::PARKED);
        TimerRow {
            version: row.get_required(timer::VERSION),
            next_plan_time,
            progress,
            error_count: row.get_required(timer::ERROR_COUNT),
            parked: parked.then(|| row.lossy(timer::LAST_ERROR).unwrap_or_default()),
            waiting: row.get_required(timer::WAITING),
            tracks_runs,
            held: None,
        }
    }

    /// Its times as they are stored: of the plan that it is armed for, and what it remembers.
    pub fn times(
        next_plan_time: Option<TimestampWithTimeZone>,
        [cursor, buffered, backlog_until]: [Option<TimestampWithTimeZone>; 3],
    ) -> (Option<Instant>, Outcome<Progress>) {
        let progress = || {
            Ok(Progress {
                cursor: convert::optional_instant("cursor_at of its timer", cursor)?,
                buffered: convert::optional_instant("buffered_plan of its timer", buffered)?,
                backlog_until: convert::optional_instant("backlog_until of its timer", backlog_until)?,
            })
        };
        match convert::optional_instant("next_plan_time of its timer", next_plan_time) {
            Ok(next_plan_time) => (next_plan_time, progress()),
            Err(unreadable) => (None, Err(unreadable)),
        }
    }

    /// What it remembers; that everything up to `now` is decided where nobody can tell.
    pub fn progress_or_all(&self, now: Instant) -> Progress {
        let all = Progress { cursor: Some(now), buffered: None, backlog_until: None };
        self.progress.as_ref().copied().unwrap_or(all)
    }
}

/// A timer that this transaction has locked.
#[derive(Clone, Copy)]
pub struct LockedTimer {
    /// Where it stands.
    pub tid: TupleId,
    /// What it says of its last fire.
    pub last_plan_time: Option<TimestampWithTimeZone>,
    /// The same.
    pub last_fired_at: Option<TimestampWithTimeZone>,
    /// The same of the runs that are awaited.
    pub tracks_runs: bool,
}
