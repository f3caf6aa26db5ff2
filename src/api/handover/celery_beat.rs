//! Celery Beat with django-celery-beat: the tables of its models. What it sends becomes executions of `pull` jobs, which a worker hands on
//! to Celery (`examples/celery`).

use std::collections::BTreeMap;

use pgrx::pg_sys::Oid;
use scheduler_core::foreign::celery_beat::{self, Task};
use scheduler_core::foreign::ForeignClock;
use scheduler_core::job::Kind;
use scheduler_core::schedule::Overlap;
use scheduler_core::{Instant, Keyword};
use serde_json::value::RawValue;

use crate::pg::catch::catch;
use crate::pg::error::Outcome;
use crate::pg::jsonb::Jsonb;
use crate::store::database_clock;
use crate::store::handover::foreign::{ForeignSchema, TextRow};
use crate::store::handover::switch::{self, Switch};
use crate::store::job;

use crate::api::job as jobs;

use super::source::{find_tables, instant, read_runs, ForeignRow, Place, Runs, Source, Wanted};

/// See the module.
pub struct CeleryBeat;

/// Where its jobs wait: no other worker is to take them for its own.
const QUEUE: &str = "celery";
/// The zone of clocks that have none.
const ZONE: &str = "UTC";

impl Source for CeleryBeat {
    fn find(&self, named: Option<String>, caller: Oid) -> Outcome<ForeignSchema> {
        let tables = [
            c"django_celery_beat_periodictask",
            c"django_celery_beat_crontabschedule",
            c"django_celery_beat_intervalschedule",
            c"django_celery_beat_clockedschedule",
        ];
        find_tables(self, named, &["public"], &tables, caller)
    }

    fn rows(&self, schema: &ForeignSchema) -> Vec<ForeignRow> {
        let now = database_clock::now();
        let rows = schema.rows(include_str!("../../../sql/query/handover/celery_beat_tasks.sql"));
        rows.iter().map(|row| foreign_row(row, now)).collect()
    }

    fn runs(&self, schema: &ForeignSchema, from: Instant, to: Instant, caller: Oid) -> Outcome<Runs> {
        let has_results = schema.has(c"django_celery_results_taskresult");
        if has_results {
            schema.trust(c"django_celery_results_taskresult", caller)?;
        }
        let statement = if has_results {
            include_str!("../../../sql/query/handover/celery_beat_runs.sql")
        } else {
            include_str!("../../../sql/query/handover/celery_beat_last_runs.sql")
        };
        Ok(read_runs(schema, statement, from, to))
    }

    fn switch(&self) -> &'static Switch {
        &switch::CELERY_BEAT
    }
}

/// What a row says, but for whether it is on, and for what running it changes.
const SAID: [&str; 25] = [
    "task",
    "args",
    "kwargs",
    "queue",
    "exchange",
    "routing_key",
    "headers",
    "priority",
    "expires",
    "expire_seconds",
    "one_off",
    "start_time",
    "interval_id",
    "every",
    "period",
    "crontab_id",
    "minute",
    "hour",
    "day_of_month",
    "month_of_year",
    "day_of_week",
    "time_zone",
    "solar_id",
    "clocked_id",
    "clocked_time",
];

fn foreign_row(row: &TextRow, now: Instant) -> ForeignRow {
    let wanted = match row.unreadable() {
        Some((column, look)) => {
            let look: String = look.chars().take(80).collect();
            Err(format!("its {column} is not valid UTF-8: \"{look}\""))
        }
        None => wanted(row, now),
    };
    let mut said: Vec<&str> = SAID.iter().map(|column| row.get(column).unwrap_or("\u{0}")).collect();
    if is(row, "one_off") {
        // Its only run depends on these.
        said.extend(["last_run_at", "date_changed", "total_run_count"].map(|column| row.text(column)));
    }
    ForeignRow {
        id: row.text("id").to_owned(),
        name: row.text("name").to_owned(),
        said: said.join("\u{1f}"),
        place: Place::Here(Box::new(wanted)),
    }
}

fn is(row: &TextRow, column: &str) -> bool {
    row.text(column) == "true"
}

/// A point in time of a row; the reason where it is none that can be kept here, such as infinity.
fn time(row: &TextRow, column: &str) -> Result<Option<Instant>, String> {
    match (row.get(column), instant(row.get(column))) {
        (Some(_), None) => Err(format!("its {column} is no point in time")),
        (_, time) => Ok(time),
    }
}

fn wanted(row: &TextRow, now: Instant) -> Result<Wanted, String> {
    let (clock, zone) = clock(row)?;
    let enabled = is(row, "enabled");
    let task = Task {
        enabled,
        one_off: is(row, "one_off"),
        runs: row.text("total_run_count").parse().unwrap_or(0),
        last_run: time(row, "last_run_at")?,
        changed: time(row, "date_changed")?,
        starts: time(row, "start_time")?,
    };
    let is_clocked = schedule_of(row) == Some("clocked_id");
    if is_clocked && enabled && task.runs == 0 && time(row, "clocked_time")?.is_some_and(|at| at <= now) {
        return Err("its time has passed, and it was not sent: a Beat at work sends it at once".to_owned());
    }
    let clock = celery_beat::of_task(clock, is_clocked, &task, now)?;
    Ok(Wanted {
        starts_at: clock.runs_at,
        ends_at: time(row, "expires")?,
        shared_job: None,
        payload: Some(payload(row)?),
        clock,
        time_zone: zone,
        job: job::Definition { queue: QUEUE.to_owned(), ..jobs::defaults(String::new(), Kind::Pull) },
        role: None,
        // Beat sends, whatever became of what it sent before.
        overlap: Overlap::Allow.as_str(),
        enabled,
        note: None,
    })
}

/// Which of its schedules a task has. Beat looks in this order.
fn schedule_of(row: &TextRow) -> Option<&'static str> {
    ["interval_id", "crontab_id", "solar_id", "clocked_id"].into_iter().find(|column| row.get(column).is_some())
}

fn clock(row: &TextRow) -> Result<(ForeignClock, String), String> {
    match schedule_of(row) {
        Some("interval_id") => {
            let every = row.text("every").parse().map_err(|_| "its interval is gone".to_owned())?;
            Ok((celery_beat::interval(every, row.text("period"))?, ZONE.to_owned()))
        }
        Some("crontab_id") => {
            let fields =
                ["minute", "hour", "day_of_month", "month_of_year", "day_of_week"].map(|column| row.text(column));
            let clock =
                celery_beat::crontab(fields).map_err(|reason| format!("crontab \"{}\": {reason}", fields.join(" ")))?;
            Ok((clock, row.text("time_zone").to_owned()))
        }
        Some("clocked_id") => {
            let at = time(row, "clocked_time")?.ok_or("its clocked time is gone")?;
            Ok((celery_beat::clocked(at), ZONE.to_owned()))
        }
        Some(_) => Err("a solar schedule: clocks here know nothing of the sun".to_owned()),
        None => Err("it has no schedule".to_owned()),
    }
}

/// JSON of theirs, as it is written: numbers keep all their digits.
type Object = BTreeMap<String, Box<RawValue>>;

/// What a worker has to hand on to Celery.
fn payload(row: &TextRow) -> Result<Jsonb, String> {
    let text = |column: &str, empty: &'static str| match row.text(column) {
        "" => empty.to_owned(),
        text => text.to_owned(),
    };
    let (args, kwargs) = (text("args", "[]"), text("kwargs", "{}"));
    serde_json::from_str::<Vec<Box<RawValue>>>(&args)
        .map_err(|error| format!("its args are no JSON array: {error}"))?;
    serde_json::from_str::<Object>(&kwargs).map_err(|error| format!("its kwargs are no JSON object: {error}"))?;
    let mut headers: Object = serde_json::from_str(&text("headers", "{}"))
        .map_err(|error| format!("its headers are no JSON object: {error}"))?;
    headers.insert("periodic_task_name".to_owned(), raw(json(row.text("name")))?);
    let headers = serde_json::to_string(&headers).map_err(|error| error.to_string())?;
    let mut options = vec![format!("\"headers\": {headers}")];
    for column in ["exchange", "routing_key"] {
        if let Some(value) = row.get(column).filter(|value| !value.is_empty()) {
            options.push(format!("\"{column}\": {}", json(value)));
        }
    }
    if let Some(priority) = row.get("priority") {
        options.push(format!("\"priority\": {priority}"));
    }
    // Of what it sends, not of the schedule: `expires` is both.
    match (row.get("expires_text"), row.get("expire_seconds")) {
        (Some(at), _) => options.push(format!("\"expires\": {}", json(at))),
        (None, Some(seconds)) => options.push(format!("\"expires\": {seconds}")),
        (None, None) => {}
    }
    let queue = row.get("queue").filter(|queue| !queue.is_empty()).map_or_else(|| "null".to_owned(), json);
    let text = format!(
        "{{\"task\": {}, \"args\": {args}, \"kwargs\": {kwargs}, \"queue\": {queue}, \"options\": {{{}}}}}",
        json(row.text("task")),
        options.join(", ")
    );
    // Postgres knows less than JSON does: no \u0000, and no number of any length.
    catch(|| Jsonb::parse(&text)).map_err(|failure| format!("its arguments are no jsonb: {}", failure.message))
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn raw(text: String) -> Result<Box<RawValue>, String> {
    RawValue::from_string(text).map_err(|error| error.to_string())
}
