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
    let ids: HashMap<String, i64> =
        ids.iter().map(|row| (row.get_required("schedule_name"), row.get_required("schedule_id"))).collect();
    let rows = SCHEDULES.run(session, arguments![like, name]);
    let line = |row: crate::pg::session::Row| {
        let name: String = row.get_required("schedule_name");
        Some(ScheduleLine {
            schedule_id: *ids.get(&name)?,
            name,
            clock: row.get_required("clock"),
            time_zone: row.get_required("time_zone"),
            state: row.get_required("state"),
            next_plan_time: row.get_saturated("next_plan_time"),
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
}

/// What became of these executions; those that are no more are left out.
pub fn runs(session: &Session, execution_ids: Vec<Uuid>) -> Vec<RunLine> {
    statement!(RUNS = "report/runs"(UUIDARRAYOID));
    let rows = RUNS.run(session, arguments![List(execution_ids)]);
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

/// An open alert.
pub struct AlertLine {
    pub kind: String,
    pub schedule_name: String,
    pub since: Instant,
    pub message: String,
    pub acknowledged_until: Option<Instant>,
}

/// The open alerts that a role may read about, up to `most`; `reads_all` says that it is every one.
pub fn alerts(session: &Session, role: Oid, reads_all: bool, most: i64) -> Vec<AlertLine> {
    statement!(ALERTS = "report/alerts"(OIDOID, BOOLOID, INT8OID));
    let rows = ALERTS.run(session, arguments![role, reads_all, most]);
    let line = |row: crate::pg::session::Row| AlertLine {
        kind: row.get_required("kind"),
        schedule_name: row.get_required("schedule_name"),
        since: row.get_required_saturated("since"),
        message: row.lossy("message").unwrap_or_default(),
        acknowledged_until: row.get_saturated("acknowledged_until"),
    };
    rows.iter().map(line).collect()
}
