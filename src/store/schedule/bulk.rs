//! Many schedules in one statement: from a JSON array, or from a crontab.

use std::ops::RangeInclusive;

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::PgSqlErrorCode;
use scheduler_core::Instant;

use crate::pg::error::{Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::{convert, Session};
use crate::store::schedule::{AlertSettings, Definition};
use crate::{arguments, statement};

/// An element of a JSON array of schedules: what it says, `None` where it says nothing.
pub struct Spec {
    /// As create_schedule has it.
    pub schedule_name: Option<String>,
    /// As create_schedule has it.
    pub clock: Option<String>,
    /// As create_schedule has it.
    pub job_name: Option<String>,
    /// As create_schedule has it.
    pub time_zone: Option<String>,
    /// As create_schedule has it.
    pub payload: Option<Jsonb>,
    /// As create_schedule has it.
    pub scope_kind: Option<String>,
    /// As create_schedule has it.
    pub scope_id: Option<String>,
    /// As create_schedule has it.
    pub catch_up: Option<String>,
    /// As create_schedule has it.
    pub catch_up_window: Option<Interval>,
    /// As create_schedule has it.
    pub max_plans_per_tick: Option<i32>,
    /// As create_schedule has it.
    pub rearm: Option<String>,
    /// As create_schedule has it.
    pub overlap: Option<String>,
    /// As create_schedule has it.
    pub delay: Option<Interval>,
    /// As create_schedule has it.
    pub jitter: Option<Interval>,
    /// As create_schedule has it.
    pub starts_at: Option<TimestampWithTimeZone>,
    /// As create_schedule has it.
    pub ends_at: Option<TimestampWithTimeZone>,
    /// As create_schedule has it.
    pub ownership: Option<String>,
    /// As create_schedule has it.
    pub enabled: Option<bool>,
    /// As create_schedule has them.
    pub alerts: AlertSettings,
    /// What declare_schedules takes beside.
    pub declared: Declared,
}

/// What an element says that only declare_schedules takes: of itself, and as schedule_sql has it.
pub struct Declared {
    /// The name that the schedule had before.
    pub was: Option<String>,
    /// A schedule of no group is taken into the group.
    pub adopt: Option<bool>,
    /// As schedule_sql has it.
    pub command: Option<String>,
    /// As schedule_sql has it.
    pub run_timeout: Option<Interval>,
    /// As schedule_sql has it.
    pub max_attempts: Option<i32>,
    /// As schedule_sql has it.
    pub retry_backoff: Option<Vec<Option<Interval>>>,
    /// As schedule_sql has it.
    pub own_transactions: Option<bool>,
    /// As schedule_sql has it.
    pub settings: Option<Jsonb>,
    /// As schedule_sql has it.
    pub priority: Option<i32>,
}

/// The elements at these places (1-based) in order; raises where a value cannot be read as its type.
pub fn read_specs(session: &Session, specs: &Jsonb, places: RangeInclusive<i32>) -> Vec<Spec> {
    statement!(SCHEDULE_SPECS = "schedule/schedule_specs"(JSONBOID, INT4OID, INT4OID));
    let rows = SCHEDULE_SPECS.run(session, arguments![specs.clone(), *places.start(), *places.end()]);
    rows.iter()
        .map(|row| Spec {
            schedule_name: row.get("schedule_name"),
            clock: row.get("clock"),
            job_name: row.get("job_name"),
            time_zone: row.get("time_zone"),
            payload: row.get("payload"),
            scope_kind: row.get("scope_kind"),
            scope_id: row.get("scope_id"),
            catch_up: row.get("catch_up"),
            catch_up_window: row.get("catch_up_window"),
            max_plans_per_tick: row.get("max_plans_per_tick"),
            rearm: row.get("rearm"),
            overlap: row.get("overlap"),
            delay: row.get("delay"),
            jitter: row.get("jitter"),
            starts_at: row.get("starts_at"),
            ends_at: row.get("ends_at"),
            ownership: row.get("ownership"),
            enabled: row.get("enabled"),
            alerts: AlertSettings::of(&row),
            declared: Declared {
                was: row.get("was"),
                adopt: row.get("adopt"),
                command: row.get("command"),
                run_timeout: row.get("run_timeout"),
                max_attempts: row.get("max_attempts"),
                retry_backoff: row.get("retry_backoff"),
                own_transactions: row.get("own_transactions"),
                settings: row.get("settings"),
                priority: row.get("priority"),
            },
        })
        .collect()
}

/// What is wrong with an element before its values are read.
pub enum Malformed {
    /// It is no object.
    NotAnObject,
    /// A key that create_schedule has no argument for.
    Key(String),
    /// A value of a JSON type that its key does not take.
    Value {
        /// The key.
        key: String,
        /// The JSON type.
        json_type: String,
        /// The value, or its beginning.
        text: String,
    },
}

/// The first element with something wrong, by its place (1-based): `keys` are those that it may have.
pub fn malformed(session: &Session, specs: &Jsonb, keys: &[&str]) -> Option<(usize, Malformed)> {
    statement!(SCHEDULE_SPEC_KEYS = "schedule/schedule_spec_keys"(JSONBOID, TEXTARRAYOID));
    let rows = SCHEDULE_SPEC_KEYS.run(session, arguments![specs.clone(), keys.to_vec()]);
    rows.first().map(|row| {
        let malformed = match (row.get("key"), row.get("json_type")) {
            (None, _) => Malformed::NotAnObject,
            (Some(key), None) => Malformed::Key(key),
            (Some(key), Some(json_type)) => {
                Malformed::Value { key, json_type, text: row.lossy("text").unwrap_or_default() }
            }
        };
        (usize::try_from(row.get_required::<i64>("place")).unwrap_or(0), malformed)
    })
}

/// Raises where this key of element `place` (1-based) cannot be read as its type.
pub fn read_key(session: &Session, specs: &Jsonb, place: i32, key: &str) {
    statement!(SCHEDULE_SPEC_BAD = "schedule/schedule_spec_bad"(JSONBOID, INT4OID, TEXTOID));
    SCHEDULE_SPEC_BAD.run(session, arguments![specs.clone(), place, key]);
}

/// Inserts all whose names are free; the names that were inserted, and their numbers.
pub fn insert(session: &Session, schedules: Vec<Definition>, now: Instant) -> Vec<(String, i64)> {
    statement!(
        SCHEDULES_INSERT = "schedule/schedules_insert"(
            TEXTARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            JSONBARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            INTERVALARRAYOID,
            INT4ARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            INTERVALARRAYOID,
            INTERVALARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TEXTARRAYOID,
            BOOLARRAYOID,
            INTERVALARRAYOID,
            INTERVALARRAYOID,
            INTERVALARRAYOID,
            TEXTARRAYOID,
            TIMESTAMPTZOID
        )
    );
    let column = |text: fn(&Definition) -> &String| -> Vec<String> { schedules.iter().map(text).cloned().collect() };
    let rows = SCHEDULES_INSERT.run(
        session,
        arguments![
            column(|schedule| &schedule.schedule_name),
            column(|schedule| &schedule.clock),
            column(|schedule| &schedule.time_zone),
            column(|schedule| &schedule.job_name),
            schedules.iter().map(|schedule| schedule.payload.clone()).collect::<Vec<_>>(),
            column(|schedule| &schedule.scope_kind),
            column(|schedule| &schedule.scope_id),
            column(|schedule| &schedule.catch_up),
            schedules.iter().map(|schedule| schedule.catch_up_window).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.max_plans_per_tick).collect::<Vec<_>>(),
            column(|schedule| &schedule.rearm),
            column(|schedule| &schedule.overlap),
            schedules.iter().map(|schedule| schedule.delay).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.jitter).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.starts_at).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.ends_at).collect::<Vec<_>>(),
            column(|schedule| &schedule.ownership),
            schedules.iter().map(|schedule| schedule.enabled).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.alerts.max_lateness).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.alerts.max_duration).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.alerts.expect_success_within).collect::<Vec<_>>(),
            schedules.iter().map(|schedule| schedule.alerts.alert_job.clone()).collect::<Vec<_>>(),
            convert::timestamp(now)
        ],
    );
    rows.iter().map(|row| (row.get_required("schedule_name"), row.get_required("schedule_id"))).collect()
}

/// How many elements the array has.
pub fn count(session: &Session, specs: &Jsonb) -> i32 {
    statement!(SCHEDULE_SPEC_COUNT = "schedule/schedule_spec_count"(JSONBOID));
    SCHEDULE_SPEC_COUNT.run(session, arguments![specs.clone()]).first().map_or(0, |row| row.get_required("count"))
}

/// Those of these schedules that exist with another job.
pub fn names_of_other_jobs(session: &Session, names: Vec<String>, job_name: &str) -> Vec<String> {
    statement!(SCHEDULE_NAMES_FOREIGN = "schedule/schedule_names_foreign"(TEXTARRAYOID, TEXTOID));
    let rows = SCHEDULE_NAMES_FOREIGN.run(session, arguments![names, job_name]);
    rows.iter().map(|row| row.get_required("schedule_name")).collect()
}

/// Those of these schedules that exist with this job.
pub fn names_of_job(session: &Session, names: Vec<String>, job_name: &str) -> Vec<String> {
    statement!(SCHEDULE_NAMES_OF_JOB = "schedule/schedule_names_of_job"(TEXTARRAYOID, TEXTOID));
    let rows = SCHEDULE_NAMES_OF_JOB.run(session, arguments![names, job_name]);
    rows.iter().map(|row| row.get_required("schedule_name")).collect()
}

/// The key of the hashes in the names of crontab lines, made where there is none; `40001` where another transaction has just made it. Servers that
/// share scopes have to compute the same names: where there is none, theirs is empty.
pub fn crontab_secret(session: &Session, is_shared: bool) -> Outcome<Vec<u8>> {
    statement!(CRONTAB_SECRET = "schedule/crontab_secret"());
    statement!(CRONTAB_SECRET_MAKE = "schedule/crontab_secret_make"());
    let read = || CRONTAB_SECRET.run(session, arguments![]).first().map(|row| row.get_required("secret"));
    if let Some(secret) = read() {
        return Ok(secret);
    }
    if is_shared {
        return Ok(Vec::new());
    }
    CRONTAB_SECRET_MAKE.run(session, arguments![]);
    read().ok_or_else(|| {
        Failure::new(
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "another transaction has just imported the first crontab",
            "Try the transaction again.",
        )
    })
}
