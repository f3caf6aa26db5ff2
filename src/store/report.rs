//! What a report reads.

use std::collections::HashMap;

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use scheduler_core::lease::Status;
use scheduler_core::report::Verdict;
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::{arguments, statement};

/// A schedule as the view shows it.
pub struct ScheduleLine {
    pub schedule_id: i64,
    pub name: String,
    pub clock: String,
    pub time_zone: String,
    pub state: String,
    pub next_plan_time: Option<Instant>,
    /// For whoever may act for the owner.
    pub last_error: Option<String>,
}

/// Which schedules.
#[derive(Clone, Copy)]
pub enum Which<'a> {
    /// Those whose names are like this.
    Like(&'a str),
    /// The one of this name.
    Named(&'a str),
}

/// The schedules that a role may read about; `reads_all` says that it is every one.
pub fn schedules(session: &Session, which: Which, role: Oid, reads_all: bool) -> Vec<ScheduleLine> {
    statement!(SCHEDULE_IDS = "report/schedule_ids"(TEXTOID, TEXTOID, OIDOID, BOOLOID));
    statement!(SCHEDULES = "report/schedules"(TEXTOID, TEXTOID));
    let (like, name) = match which {
        Which::Like(pattern) => (Some(pattern), None),
        Which::Named(name) => (None, Some(name)),
    };
    let ids = SCHEDULE_IDS.run(session, arguments![like, name, role, reads_all]);
    let ids: HashMap<String, (i64, bool)> = ids
        .iter()
        .map(|row| (row.get_required("schedule_name"), (row.get_required("schedule_id"), row.get_required("owns"))))
        .collect();
    let rows = SCHEDULES.run(session, arguments![like, name]);
    let line = |row: crate::pg::session::Row| {
        let name: String = row.get_required("schedule_name");
        let (schedule_id, owns) = *ids.get(&name)?;
        Some(ScheduleLine {
            schedule_id,
            name,
            clock: row.get_required("clock"),
            time_zone: row.get_required("time_zone"),
            state: row.get_required("state"),
            next_plan_time: row.get_saturated("next_plan_time"),
            last_error: row.lossy("last_error").filter(|_| owns),
        })
    };
    rows.iter().filter_map(line).collect()
}

/// What became of an execution.
pub struct RunLine {
    pub execution_id: Uuid,
    pub plan_time: Instant,
    /// RUNNING with a lease; PENDING also where it is to be tried again.
    pub status: Option<Status>,
    pub attempt: i32,
    pub started_at: Option<Instant>,
    pub finished_at: Option<Instant>,
    /// It began later than it may, or has not begun by now.
    pub is_late: bool,
    /// How its last attempt ended.
    pub attempt_status: Option<Status>,
    /// That attempt takes longer than it may.
    pub is_long: bool,
    /// Why it failed for good, where it did.
    pub cause: Option<ErrorLine>,
}

/// What is told of an error.
#[derive(Clone)]
pub struct ErrorLine {
    pub code: Option<String>,
    /// The beginning of its first line, for whoever may read it.
    pub message: Option<String>,
}

impl ErrorLine {
    fn of(row: &crate::pg::session::Row) -> Option<ErrorLine> {
        let (code, message) = (row.lossy("error_code"), row.lossy("error_msg").filter(|message| !message.is_empty()));
        (code.is_some() || message.is_some()).then_some(ErrorLine { code, message })
    }
}

/// What became of these executions, as far as a role may know; those that are no more are left out.
pub fn runs(session: &Session, execution_ids: Vec<Uuid>, role: Oid) -> Vec<RunLine> {
    statement!(RUNS = "report/runs"(UUIDARRAYOID, OIDOID));
    let rows = RUNS.run(session, arguments![List(execution_ids), role]);
    let status = |text: String| Status::parse(&text);
    let line = |row: crate::pg::session::Row| RunLine {
        execution_id: row.get_required("id"),
        plan_time: row.get_required_saturated("plan_time"),
        status: status(row.get_required("status")),
        attempt: row.get_required("attempt"),
        started_at: row.get_saturated("started_at"),
        finished_at: row.get_saturated("finished_at"),
        is_late: row.get_required("is_late"),
        attempt_status: status(row.get_required("attempt_status")),
        is_long: row.get_required("is_long"),
        cause: ErrorLine::of(&row),
    };
    rows.iter().map(line).collect()
}

/// Executions of one part of a range that had one outcome.
pub struct CountedRuns {
    pub first: Instant,
    pub last: Instant,
    pub count: i64,
    pub verdict: Option<Verdict>,
}

/// How many executions a schedule has in each part of [from, to), by what became of them.
pub fn runs_counted(session: &Session, schedule_id: i64, [from, to]: [Instant; 2], seconds: f64) -> Vec<CountedRuns> {
    statement!(RUNS_COUNTED = "report/runs_counted"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, FLOAT8OID));
    let rows = RUNS_COUNTED.run(session, arguments![schedule_id, timestamp(from), timestamp(to), seconds]);
    let counted = |row: crate::pg::session::Row| CountedRuns {
        first: row.get_required_saturated("first"),
        last: row.get_required_saturated("last"),
        count: row.get_required("count"),
        verdict: Verdict::parse(&row.get_required::<String>("outcome")),
    };
    rows.iter().map(counted).collect()
}

/// An alert.
pub struct AlertLine {
    pub kind: String,
    pub schedule_name: String,
    pub since: Instant,
    pub resolved_at: Option<Instant>,
    pub plan_time: Option<Instant>,
    /// The limit that was passed, as the schedule has it now, in microseconds.
    pub within: Option<i64>,
    pub message: String,
    pub cause: Option<ErrorLine>,
    pub acknowledged_until: Option<Instant>,
}

/// The alerts of schedules whose names are `like` that a role may read about, up to `most`: the open ones, and those that were resolved within
/// the range. `reads_all` says that the role reads about every one.
pub fn alerts(
    session: &Session,
    (role, reads_all): (Oid, bool),
    like: &str,
    [from, to]: [Instant; 2],
    most: i64,
) -> Vec<AlertLine> {
    statement!(ALERTS = "report/alerts"(OIDOID, BOOLOID, INT8OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    let rows = ALERTS.run(session, arguments![role, reads_all, most, like, timestamp(from), timestamp(to)]);
    let line = |row: crate::pg::session::Row| AlertLine {
        kind: row.get_required("kind"),
        schedule_name: row.get_required("schedule_name"),
        since: row.get_required_saturated("since"),
        resolved_at: row.get_saturated("resolved_at"),
        plan_time: row.get_saturated("plan_time"),
        within: row.get("within"),
        message: row.lossy("message").unwrap_or_default(),
        cause: ErrorLine::of(&row),
        acknowledged_until: row.get_saturated("acknowledged_until"),
    };
    rows.iter().map(line).collect()
}
