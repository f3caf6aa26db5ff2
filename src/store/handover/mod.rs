//! Schedules that came from other schedulers: `sched.imported`, and their tables (`foreign`).

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use scheduler_core::schedule::Ownership;
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::timestamp;
use crate::pg::name_lock::{self, Names};
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::{role, Session};
use crate::store::job;
use crate::{arguments, statement};

pub mod foreign;
pub mod left;
pub mod switch;
pub mod taken;

/// What was imported from one of their rows.
pub struct Imported {
    /// Their row.
    pub source_id: String,
    /// What it said.
    pub fingerprint: String,
    /// The job that was made of it.
    pub job_name: String,
    /// What the schedule is now; `None` where it was dropped.
    pub schedule: Option<ImportedSchedule>,
}

/// A schedule that was imported, as it is now.
pub struct ImportedSchedule {
    /// Its number.
    pub schedule_id: i64,
    /// Its name.
    pub name: String,
    /// Its clock.
    pub clock: String,
    /// Its zone.
    pub time_zone: String,
    /// Its job.
    pub job_name: String,
    /// Who owns the job, if it is there.
    pub owner: Option<Oid>,
    /// What kind of job that is.
    pub kind: Option<String>,
    /// It is on.
    pub enabled: bool,
    /// It is fired here.
    pub is_owned: bool,
    /// The anchor of `every`.
    pub created_at: TimestampWithTimeZone,
    /// The first instant that may be a plan time.
    pub starts_at: Option<TimestampWithTimeZone>,
    /// The first that may no longer be one.
    pub ends_at: Option<TimestampWithTimeZone>,
}

impl ImportedSchedule {
    /// Whether this role may hear of it; without its job only a superuser may.
    pub fn is_of(&self, caller: Oid) -> bool {
        self.owner.map_or_else(|| role::is_superuser(caller), |owner| role::may_act_for(caller, owner))
    }
}

/// Keeps other imports from this schema out until the transaction ends: what one makes, the next one knows. Those from other schemas, which may be
/// a stranger's own, do not wait.
pub fn lock(source: &str, schema: &str) {
    name_lock::hold(Names::Imports, &format!("{source} {schema}"));
}

/// The schemas from which something of a source was imported.
pub fn schemas(session: &Session, source: &str) -> Vec<String> {
    statement!(IMPORTED_SCHEMAS = "handover/imported_schemas"(TEXTOID));
    IMPORTED_SCHEMAS.run(session, arguments![source]).iter().map(|row| row.get_required("source_schema")).collect()
}

/// What was imported from there.
pub fn read(session: &Session, source: &str, schema: &str) -> Vec<Imported> {
    statement!(IMPORTED_READ = "handover/imported_read"(TEXTOID, TEXTOID));
    let rows = IMPORTED_READ.run(session, arguments![source, schema]);
    rows.iter()
        .map(|row| Imported {
            source_id: row.get_required("source_id"),
            fingerprint: row.get_required("fingerprint"),
            job_name: row.get_required("imported_job"),
            schedule: row.get::<String>("schedule_name").map(|name| ImportedSchedule {
                schedule_id: row.get_required("schedule_id"),
                name,
                clock: row.get_required("clock"),
                time_zone: row.get_required("time_zone"),
                job_name: row.get_required("job_name"),
                owner: row.get("owner"),
                kind: row.get("kind"),
                enabled: row.get_required("enabled"),
                is_owned: row.get_required::<String>("ownership") == Ownership::Owned.as_str(),
                created_at: row.get_required("created_at"),
                starts_at: row.get("starts_at"),
                ends_at: row.get("ends_at"),
            }),
        })
        .collect()
}

/// Forgets what somebody has dropped.
pub fn forget_dropped(session: &Session, source: &str, schema: &str) {
    statement!(IMPORTED_FORGET = "handover/imported_forget"(TEXTOID, TEXTOID));
    IMPORTED_FORGET.run(session, arguments![source, schema]);
    statement!(FIRES_FORGET_DROPPED = "handover/fires_forget_dropped"());
    FIRES_FORGET_DROPPED.run(session, arguments![]);
}

/// Something that was imported now.
pub struct New {
    /// Their row.
    pub source_id: String,
    /// What it said.
    pub fingerprint: String,
    /// Our schedule.
    pub schedule_id: i64,
    /// Our job.
    pub job_name: String,
    /// What it is called there, or what stands for that.
    pub source_name: String,
}

/// Remembers what was imported.
pub fn remember(session: &Session, source: &str, schema: &str, rows: Vec<New>, now: Instant) {
    statement!(
        IMPORTED_INSERT = "handover/imported_insert"(
            TEXTOID,
            TEXTOID,
            TEXTARRAYOID,
            INT8ARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            TIMESTAMPTZOID,
            TEXTARRAYOID
        )
    );
    let (mut ids, mut schedules, mut fingerprints, mut jobs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut names = Vec::new();
    for New { source_id, fingerprint, schedule_id, job_name, source_name } in rows {
        names.push(source_name);
        ids.push(source_id);
        schedules.push(schedule_id);
        fingerprints.push(fingerprint);
        jobs.push(job_name);
    }
    let schedules = List(schedules);
    IMPORTED_INSERT.run(session, arguments![source, schema, ids, schedules, fingerprints, jobs, timestamp(now), names]);
}

/// Remembers what a row says now.
pub fn remember_edit(session: &Session, source: &str, schema: &str, source_id: &str, fingerprint: &str, now: Instant) {
    statement!(IMPORTED_UPDATE = "handover/imported_update"(TEXTOID, TEXTOID, TEXTOID, TEXTOID, TIMESTAMPTZOID));
    IMPORTED_UPDATE.run(session, arguments![source, schema, source_id, fingerprint, timestamp(now)]);
}

/// Those of these names that a schedule or a job has.
pub fn names_taken(session: &Session, names: Vec<String>) -> Vec<String> {
    statement!(NAMES_TAKEN = "handover/names_taken"(TEXTARRAYOID));
    NAMES_TAKEN.run(session, arguments![names]).iter().map(|row| row.get_required("name")).collect()
}

/// Inserts jobs with their owners; the names of those whose name was free.
pub fn insert_jobs(session: &Session, jobs: &[(&job::Definition, Oid)]) -> Vec<String> {
    statement!(
        JOBS_INSERT = "handover/jobs_insert"(
            TEXTARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            TEXTARRAYOID,
            INT4ARRAYOID,
            OIDARRAYOID,
            BOOLARRAYOID
        )
    );
    let column =
        |text: fn(&job::Definition) -> String| -> Vec<String> { jobs.iter().map(|(job, _)| text(job)).collect() };
    let rows = JOBS_INSERT.run(
        session,
        arguments![
            column(|job| job.job_name.clone()),
            column(|job| job.kind.as_str().to_owned()),
            jobs.iter().map(|(job, _)| job.command.clone()).collect::<Vec<_>>(),
            column(|job| job.queue.clone()),
            List(jobs.iter().map(|(job, _)| job.max_attempts).collect()),
            List(jobs.iter().map(|(_, owner)| *owner).collect()),
            List(jobs.iter().map(|(job, _)| job.own_transactions).collect())
        ],
    );
    rows.iter().map(|row| row.get_required("job_name")).collect()
}

/// Deletes jobs that this transaction has made for nothing.
pub fn delete_jobs(session: &Session, names: Vec<String>) {
    statement!(JOBS_DELETE = "handover/jobs_delete"(TEXTARRAYOID));
    JOBS_DELETE.run(session, arguments![names]);
}
