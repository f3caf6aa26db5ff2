//! What a report shows: the rows that the core draws (`scheduler_core::report`), each schedule's plan times with their verdicts, read at one moment.
//!
//! A schedule with many plan times in the range is counted, not walked (`counted`).

mod counted;

use std::collections::HashMap;
use std::ffi::CStr;

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::lease::Status;
use scheduler_core::report::{
    self as drawn, lateness_class, Attempt, Cause, LatenessColumn, LoadHour, Mark, Report, Run, Schedule, UserText,
    Verdict, View, LATENESS_CLASSES,
};
use scheduler_core::schedule::SkipReason;
use scheduler_core::{Instant, Keyword};

use crate::dispatch::{self, BoundedClock};
use crate::guc;
use crate::health;
use crate::pg::convert::{self, Zero};
use crate::pg::{oid_cache, role, syscache, Owner, Session};
use crate::store::report::{self as store, RunLine, ScheduleLine, Which};
use crate::store::timer::{self, ScheduleRow, ScheduleState};

/// A schedule with more plan times than this in the range is counted.
const MOST_WALKED: u64 = 2000;
/// What is due for no longer than this is not late: a dispatcher is at it, in microseconds.
const AT_IT: i64 = 1_000_000;
/// All of a page's plan times that are walked are not more than this.
const MOST_WALKED_IN_ALL: u64 = 400_000;
/// How many columns the lateness of runs is shown in.
const LATENESS_COLUMNS: i64 = 48;
/// How many alerts are counted.
const MOST_ALERTS: i64 = 10_000;
const MICROS_PER_HOUR: i64 = 3_600_000_000;
/// The load is shown for a week.
const LOAD_HOURS: i64 = 168;

/// What is asked for, and by whom.
pub struct Request {
    pub from: Instant,
    pub to: Instant,
    pub now: Instant,
    pub time_zone: String,
    pub reader: Oid,
}

impl Request {
    fn view(&self) -> View {
        View {
            from: self.from,
            to: self.to,
            now: self.now,
            time_zone: UserText::from(self.time_zone.clone()),
            ascii_only: !speaks_utf8(),
        }
    }
}

/// Whether what we say reaches the client as it is: its encoding and the database's are UTF-8.
fn speaks_utf8() -> bool {
    // SAFETY: read globals of the process.
    unsafe {
        let utf8 = pg_sys::pg_enc::PG_UTF8 as i32;
        pg_sys::GetDatabaseEncoding() == utf8 && pg_sys::pg_get_client_encoding() == utf8
    }
}

/// Everything that the page shows.
pub fn report(owner: &Owner, request: &Request, like: &str) -> Report {
    let session = owner.session();
    let read = read(owner, request, Which::Like(like));
    let lateness = lateness(&read.runs, request);
    let load = load(&read.states, request.now);
    let health = health::look(owner, request.reader, request.now).findings.into_iter().map(|found| drawn::Health {
        component: UserText::from(found.component.as_str()),
        severity: found.severity,
        since: found.since,
        message: UserText::from(found.message),
        hint: UserText::from(found.hint.unwrap_or_default()),
    });
    Report {
        view: request.view(),
        title: UserText::from(syscache::database_name()),
        server: UserText::from(server_name()),
        like: (like != "%").then(|| UserText::from(like)),
        schedules: rows(session, read, request),
        load,
        lateness,
        health: health.collect(),
        alerts: Some(alerts(session, request, reads_all(owner, request.reader), like)),
    }
}

fn reads_all(owner: &Owner, reader: Oid) -> bool {
    role::reads_everything(reader, oid_cache::relation(owner.schema, c"monitor"))
}

/// By what people know this server: `cluster_name`, or its host and port.
fn server_name() -> String {
    let setting = |name| guc::of_another(name).filter(|value| !value.is_empty());
    setting("cluster_name").unwrap_or_else(|| {
        let mut name = [0_u8; 256];
        // SAFETY: the room that is said, whose last byte stays NUL.
        unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
        let host = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default();
        setting("port").map_or_else(|| host.to_string(), |port| format!("{host}:{port}"))
    })
}

fn cause(error: store::ErrorLine) -> Cause {
    let text = |text: Option<String>| UserText::from(text.unwrap_or_default());
    Cause { code: text(error.code), message: text(error.message) }
}

/// The alerts that the reader may know of.
fn alerts(session: &Session, request: &Request, reads_all: bool, like: &str) -> Vec<drawn::Alert> {
    let drawn = |line: store::AlertLine| drawn::Alert {
        kind: UserText::from(line.kind),
        schedule_name: UserText::from(line.schedule_name),
        since: line.since,
        resolved_at: line.resolved_at,
        plan_time: line.plan_time,
        limit: line.within,
        cause: line.cause.map(cause),
        message: UserText::from(line.message),
        acknowledged_until: line.acknowledged_until,
    };
    let range = [request.from, request.to];
    store::alerts(session, (request.reader, reads_all), like, range, MOST_ALERTS).into_iter().map(drawn).collect()
}

/// One schedule, and what is shown of time; `None` where there is none of this name that the reader may read about.
pub fn schedule(owner: &Owner, request: &Request, name: &str) -> Option<(Schedule, View)> {
    let read = read(owner, request, Which::Named(name));
    rows(owner.session(), read, request).pop().map(|schedule| (schedule, request.view()))
}

/// What is known of the schedules, before it is put together.
struct Read {
    lines: Vec<ScheduleLine>,
    states: HashMap<i64, ScheduleState>,
    /// What became of each plan time; `None` where there are too many.
    verdicts: HashMap<i64, Option<Vec<dispatch::Verdict>>>,
    runs: HashMap<Uuid, RunLine>,
}

fn read(owner: &Owner, request: &Request, which: Which) -> Read {
    let session = owner.session();
    let lines = store::schedules(session, which, request.reader, reads_all(owner, request.reader));
    let ids: Vec<i64> = lines.iter().map(|line| line.schedule_id).collect();
    let states = timer::read(session, ids.clone(), timer::timers(session, ids));
    let states: HashMap<i64, ScheduleState> = states.into_iter().map(|state| (state.schedule_id, state)).collect();
    let range = [request.from, request.to];
    let most = (MOST_WALKED_IN_ALL / u64::try_from(states.len().max(1)).unwrap_or(u64::MAX)).clamp(20, MOST_WALKED);
    let verdicts: HashMap<i64, Option<Vec<dispatch::Verdict>>> = states
        .iter()
        .map(|(id, state)| {
            pgrx::check_for_interrupts!();
            (*id, dispatch::explain_state(session, state, range, most, request.now).ok())
        })
        .collect();
    let fired = verdicts.values().flatten().flatten().filter_map(|verdict| verdict.execution_id).collect();
    let runs = store::runs(session, fired, request.reader).into_iter().map(|run| (run.execution_id, run)).collect();
    Read { lines, states, verdicts, runs }
}

fn rows(session: &Session, mut read: Read, request: &Request) -> Vec<Schedule> {
    let lines = std::mem::take(&mut read.lines);
    let row = |line: ScheduleLine| {
        let marks = match read.verdicts.get(&line.schedule_id) {
            Some(Some(verdicts)) => {
                let row = read.states.get(&line.schedule_id).and_then(|state| state.schedule.as_ref());
                let late = row.map_or(AT_IT, late_after);
                verdicts.iter().filter_map(|verdict| mark(verdict, &read.runs, request.now, late)).collect()
            }
            Some(None) => {
                read.states.get(&line.schedule_id).map_or(Vec::new(), |state| counted::marks(session, state, request))
            }
            None => Vec::new(),
        };
        Schedule {
            name: UserText::from(line.name),
            clock: UserText::from(line.clock),
            time_zone: UserText::from(line.time_zone),
            state: line.state,
            next_plan_time: line.next_plan_time,
            last_error: line.last_error.map(UserText::from),
            marks,
        }
    };
    lines.into_iter().map(row).collect()
}

/// One plan time as it is drawn; `None` where nothing is known of it any more, or it was never ours.
fn mark(verdict: &dispatch::Verdict, runs: &HashMap<Uuid, RunLine>, now: Instant, late_after: i64) -> Option<Mark> {
    let plain = |of| Some(Mark::one(verdict.plan, of));
    if let Some(execution_id) = verdict.execution_id {
        // (One that went since is forgotten.)
        let run = runs.get(&execution_id)?;
        let of = match run.status? {
            Status::Success | Status::Pending | Status::Running if run.is_late => Verdict::Late,
            Status::Success => Verdict::Ran,
            Status::Failed => Verdict::Failed,
            Status::Cancelled => Verdict::Skipped,
            Status::Pending => Verdict::Waiting,
            Status::Running => Verdict::Running,
        };
        let mark = Mark::one(verdict.plan, of);
        return Some(match attempts(run) {
            Some(attempts) => mark.with_run(attempts),
            None => mark,
        });
    }
    match verdict.verdict {
        "skipped" => {
            let mark = Mark::one(verdict.plan, Verdict::Skipped);
            let reason = verdict.reason.as_deref().and_then(SkipReason::parse);
            Some(reason.map_or(mark.clone(), |reason| mark.because(reason)))
        }
        "due" if now.as_micros().saturating_sub(verdict.plan.as_micros()) > late_after => plain(Verdict::Late),
        "due" | "waiting" => plain(Verdict::Waiting),
        "planned" => plain(Verdict::Planned),
        "external" | "forgotten" => None,
        other => {
            debug_assert!(false, "a verdict that nobody draws: {other}");
            None
        }
    }
}

/// How long after its plan time one of this schedule that is due is late, in microseconds: its delay and jitter are no lateness.
fn late_after(row: &ScheduleRow) -> i64 {
    let length = |argument, value| convert::duration(argument, value, Zero::Allowed).unwrap_or(0);
    AT_IT.saturating_add(length("delay", row.delay)).saturating_add(length("jitter", row.jitter))
}

fn attempts(run: &RunLine) -> Option<Run> {
    let attempt = Attempt { started_at: run.started_at?, ended_at: run.finished_at, status: run.attempt_status? };
    let cause = run.cause.as_ref().map(|error| cause(error.clone()));
    Some(Run { attempt: u32::try_from(run.attempt).unwrap_or(1), attempts: vec![attempt], cause, is_long: run.is_long })
}

/// How late the runs began, by columns of the part of the range that has passed.
fn lateness(runs: &HashMap<Uuid, RunLine>, request: &Request) -> Vec<LatenessColumn> {
    let (from, end) = (request.from.as_micros(), request.to.min(request.now).as_micros());
    let width = (end.saturating_sub(from) / LATENESS_COLUMNS).max(1);
    let at =
        |column: i64| Instant::from_micros(from.saturating_add(column.saturating_mul(width))).unwrap_or(request.to);
    let mut columns: Vec<LatenessColumn> = (0..LATENESS_COLUMNS)
        .map(|column| LatenessColumn { from: at(column), to: at(column + 1), counts: [0; LATENESS_CLASSES] })
        .collect();
    for run in runs.values() {
        let (Some(started_at), plan) = (run.started_at, run.plan_time.as_micros()) else { continue };
        let column = usize::try_from(plan.saturating_sub(from) / width).ok().and_then(|column| columns.get_mut(column));
        if let Some(column) = column {
            column.counts[lateness_class(started_at.as_micros().saturating_sub(plan))] += 1;
        }
    }
    columns
}

/// How many plan times each hour of the coming week has, of schedules that are to fire.
fn load(states: &HashMap<i64, ScheduleState>, now: Instant) -> Vec<LoadHour> {
    let first = now.as_micros().div_euclid(MICROS_PER_HOUR) * MICROS_PER_HOUR;
    let hour = |number: i64| Instant::from_micros(first + number * MICROS_PER_HOUR).unwrap_or(Instant::MAX);
    let is_parked = |state: &ScheduleState| state.timer.as_ref().is_some_and(|timer| timer.parked.is_some());
    let fires = states.values().filter(|state| !is_parked(state)).filter_map(|state| state.schedule.as_ref());
    let clocks = fires.filter(|row| row.owned && row.enabled).filter_map(|row| BoundedClock::of_row(row).ok());
    let mut load: Vec<LoadHour> = (0..LOAD_HOURS).map(|number| LoadHour { from: hour(number), count: 0 }).collect();
    for clock in clocks {
        pgrx::check_for_interrupts!();
        for (number, hour_of) in load.iter_mut().enumerate() {
            let number = i64::try_from(number).unwrap_or(0);
            let after = hour(number).just_before().max(now);
            hour_of.count = hour_of.count.saturating_add(clock.count(after, hour(number + 1).just_before(), u64::MAX));
        }
    }
    load
}
