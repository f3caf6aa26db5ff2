//! What is so with schedules: what alerts are judged by.

use std::collections::HashMap;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::alert::{End, Kind, Limits, Open, Run, Stage};
use scheduler_core::lease::Status;
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::{self, Zero};
use crate::pg::record::Record;
use crate::pg::session::{List, Row};
use crate::pg::Session;
use crate::store::alert::run_id;
use crate::{arguments, statement};

/// A schedule, its timer and what the last look remembered.
pub struct Schedule {
    pub schedule_name: String,
    pub version: i64,
    /// Neither paused nor another scheduler's.
    pub fires: bool,
    pub edited_at: Instant,
    pub limits: Limits,
    pub alert_job: Option<String>,
    pub job_name: String,
    pub key: Uuid,
    /// The owner of its job, if there is that.
    pub owner: Option<Oid>,
    pub timer: Option<Timer>,
    pub seen: Option<Seen>,
}

/// What its timer says.
pub struct Timer {
    /// It is made from the schedule as it is.
    pub is_applied: bool,
    pub is_parked: bool,
    pub error_count: i32,
    pub last_error: Option<String>,
    pub next_plan_time: Option<Instant>,
    pub waits: bool,
    pub buffered: Option<Instant>,
}

/// What the last look remembered.
pub struct Seen {
    pub version: i64,
    pub plan_time: Option<Instant>,
    pub unsettled: Vec<Uuid>,
    pub last_success: Option<Instant>,
}

/// These schedules, without those that are gone.
pub fn schedules(session: &Session, schedule_ids: Vec<i64>) -> HashMap<i64, Schedule> {
    statement!(SCHEDULES = "alert/schedules"(INT8ARRAYOID));
    let rows = SCHEDULES.run(session, arguments![List(schedule_ids)]);
    rows.iter().filter_map(|row| schedule(&row)).collect()
}

fn schedule(row: &Row) -> Option<(i64, Schedule)> {
    // What a hand has written and nobody can read asks for nothing.
    let limit = |argument| {
        let value: Option<Interval> = row.get(argument);
        value.and_then(|value| convert::duration(argument, value, Zero::Refused).ok())
    };
    let version = row.get::<i64>("version")?;
    let timer = row.get::<bool>("is_applied").map(|is_applied| Timer {
        is_applied,
        is_parked: row.get_required("parked"),
        error_count: row.get_required("error_count"),
        last_error: row.lossy("last_error"),
        next_plan_time: row.get_saturated("next_plan_time"),
        waits: row.get_required("waiting"),
        buffered: row.get_saturated("buffered_plan"),
    });
    let seen = row.get::<i64>("seen_version").map(|version| Seen {
        version,
        plan_time: row.get_saturated("seen_plan"),
        unsettled: row.get::<Vec<Option<Uuid>>>("unsettled").unwrap_or_default().into_iter().flatten().collect(),
        last_success: row.get_saturated("last_success_at"),
    });
    let limits = Limits {
        max_lateness: limit("max_lateness"),
        max_duration: limit("max_duration"),
        expect_success_within: limit("expect_success_within"),
    };
    let schedule = Schedule {
        schedule_name: row.get_required("schedule_name"),
        version,
        fires: row.get_required("fires"),
        edited_at: row.get_required_saturated("updated_at"),
        limits,
        alert_job: row.get("alert_job"),
        job_name: row.get_required("job_name"),
        key: row.get_required("key"),
        owner: row.get("owner"),
        timer,
        seen,
    };
    Some((row.get_required("schedule_id"), schedule))
}

/// Which runs of a schedule are wanted.
pub struct Wanted {
    /// Of which schedule.
    pub schedule_id: i64,
    /// Those of its scope,
    pub key: Uuid,
    /// after this plan time; `None` = the newest.
    pub after: Option<TimestampWithTimeZone>,
    /// but no more than this.
    pub most: i64,
    /// And these.
    pub named: Vec<Uuid>,
}

/// A run as the ledger has it.
pub struct LedgerRun {
    pub execution_id: Uuid,
    pub plan_time: Instant,
    /// The schedule's clock has planned it.
    pub is_planned: bool,
    /// It is one of those that follow what was seen, not only one that is named.
    pub is_next: bool,
    /// It goes on, or
    pub run: Option<Run>,
    /// has ended as SUCCESS or failed for good.
    pub end: Option<End>,
    /// Why it failed: the code, and what may hold a secret.
    pub error: (Option<String>, Option<String>),
}

/// Runs of schedules.
pub fn runs(session: &Session, wanted: &[Wanted]) -> HashMap<i64, Vec<LedgerRun>> {
    statement!(
        RUNS = "alert/runs"(INT8ARRAYOID, UUIDARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, INT8ARRAYOID, UUIDARRAYOID)
    );
    let named = || wanted.iter().flat_map(|of| of.named.iter().map(|run| (of.schedule_id, *run)));
    let rows = RUNS.run(
        session,
        arguments![
            List(wanted.iter().map(|of| of.schedule_id).collect::<Vec<_>>()),
            List(wanted.iter().map(|of| of.key).collect::<Vec<_>>()),
            List(wanted.iter().map(|of| of.after).collect::<Vec<_>>()),
            List(wanted.iter().map(|of| of.most).collect::<Vec<_>>()),
            List(named().map(|(schedule_id, _)| schedule_id).collect::<Vec<_>>()),
            List(named().map(|(_, run)| run).collect::<Vec<_>>())
        ],
    );
    let mut runs: HashMap<i64, Vec<LedgerRun>> = HashMap::new();
    for row in rows.iter() {
        runs.entry(row.get_required("schedule_id")).or_default().push(run(&row));
    }
    runs
}

fn run(row: &Row) -> LedgerRun {
    let (execution_id, plan_time): (Uuid, Instant) = (row.get_required("id"), row.get_required_saturated("plan_time"));
    let (origin, status): (String, String) = (row.get_required("origin"), row.get_required("status"));
    let runs_since: Option<Instant> = row.get_saturated("runs_since");
    let retries = row.get::<TimestampWithTimeZone>("next_retry_at").is_some();
    let is_put_off = retries || row.get::<TimestampWithTimeZone>("run_at").is_some();
    // What others put into its scope is for them to be late with, and a backfill is late by itself.
    let is_new =
        row.get_required::<i32>("attempt") == 0 && !is_put_off && matches!(origin.as_str(), "schedule" | "manual");
    let id = run_id(execution_id);
    let goes_on = |stage| (Some(Run { id, plan_time, stage }), None);
    let ended = |is_success| {
        let end = row.get_saturated("finished_at").map(|finished| End { id, plan_time, at: finished, is_success });
        (None, end)
    };
    let (run, end) = match (runs_since, Status::parse(&status)) {
        (Some(since), _) => goes_on(Stage::Runs(since)),
        (None, Some(Status::Pending)) => goes_on(if is_new { Stage::New } else { Stage::Waits }),
        (None, Some(Status::Failed)) if retries => goes_on(Stage::Waits),
        (None, Some(Status::Failed)) => ended(false),
        (None, Some(Status::Success)) => ended(true),
        (None, Some(Status::Cancelled | Status::Running) | None) => (None, None),
    };
    let error = (row.lossy("error_code"), row.lossy("error_msg"));
    let (is_planned, is_next) = (origin == "schedule", row.get_required("is_next"));
    LedgerRun { execution_id, plan_time, is_planned, is_next, run, end, error }
}

/// An alert that is open.
pub struct OpenAlert {
    pub what: Open,
    /// The schedule was paused since.
    pub was_silent: bool,
}

/// The open alerts of these schedules.
pub fn open(session: &Session, schedule_ids: Vec<i64>) -> HashMap<i64, Vec<OpenAlert>> {
    statement!(OPEN_ALERTS = "alert/open_alerts"(INT8ARRAYOID));
    let rows = OPEN_ALERTS.run(session, arguments![List(schedule_ids)]);
    let mut open: HashMap<i64, Vec<OpenAlert>> = HashMap::new();
    for row in rows.iter() {
        let Some(kind) = Kind::parse(&row.get_required::<String>("kind")) else { continue };
        let what = Open {
            kind,
            since: row.get_required_saturated("since"),
            plan_time: row.get_saturated("plan_time"),
            run: row.get("execution_id").map(run_id),
        };
        let was_silent = row.get_required("was_silent");
        open.entry(row.get_required("schedule_id")).or_default().push(OpenAlert { what, was_silent });
    }
    open
}

/// When the last of a schedule's newest runs succeeded, of so many.
pub fn newest_success(session: &Session, schedule_id: i64, key: Uuid, of: i64) -> Option<Instant> {
    statement!(NEWEST_SUCCESS = "alert/newest_success"(INT8OID, UUIDOID, INT8OID));
    NEWEST_SUCCESS.run(session, arguments![schedule_id, key, of]).first().and_then(|row| row.get_saturated("at"))
}
