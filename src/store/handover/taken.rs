//! What is fired here in place of another scheduler, and what others were reported to have fired.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use scheduler_core::schedule::Ownership;
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::{saturated, timestamp};
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::{role, Session};
use crate::{arguments, statement};

/// An imported schedule that can be taken over, or was.
pub struct Candidate {
    /// Where it came from.
    pub source: String,
    /// The schema there.
    pub schema: String,
    /// Their row.
    pub source_id: String,
    /// What that said when it was imported.
    pub fingerprint: String,
    /// It is fired here in their place.
    pub taken: bool,
    /// It was on there when it was taken over.
    pub was_enabled: bool,
    /// Our schedule.
    pub schedule_id: i64,
    /// Its name.
    pub name: String,
    /// Its clock.
    pub clock: String,
    /// Its zone.
    pub time_zone: String,
    /// The anchor of `every`.
    pub created_at: TimestampWithTimeZone,
    /// It is on here.
    pub enabled: bool,
    /// It is fired here.
    pub is_owned: bool,
    owner: Option<Oid>,
}

impl Candidate {
    /// Whether its job is this role's own.
    pub fn is_owned_by(&self, caller: Oid) -> bool {
        self.owner == Some(caller)
    }

    /// Whether this role may do it.
    pub fn is_of(&self, caller: Oid) -> bool {
        self.owner.map_or_else(|| role::is_superuser(caller), |owner| role::may_act_for(caller, owner))
    }
}

/// What was imported: of one source or all, and of these schedules or all.
pub fn read(session: &Session, source: Option<&str>, names: Option<Vec<String>>) -> Vec<Candidate> {
    statement!(TAKEN_READ = "handover/taken_read"(TEXTOID, TEXTARRAYOID));
    let rows = TAKEN_READ.run(session, arguments![source, names]);
    rows.iter()
        .map(|row| Candidate {
            source: row.get_required("source"),
            schema: row.get_required("source_schema"),
            source_id: row.get_required("source_id"),
            fingerprint: row.get_required("fingerprint"),
            taken: row.get_required("taken"),
            was_enabled: row.get_required("was_enabled"),
            schedule_id: row.get_required("schedule_id"),
            name: row.get_required("schedule_name"),
            clock: row.get_required("clock"),
            time_zone: row.get_required("time_zone"),
            created_at: row.get_required("created_at"),
            enabled: row.get_required("enabled"),
            is_owned: row.get_required::<String>("ownership") == Ownership::Owned.as_str(),
            owner: row.get("owner"),
        })
        .collect()
}

/// Remembers that rows were taken over, and which of them were on there.
pub fn mark(session: &Session, source: &str, schema: &str, rows: &[(String, bool)], now: Instant) {
    write(session, source, schema, rows, Some(timestamp(now)));
}

/// Remembers that rows were handed back.
pub fn unmark(session: &Session, source: &str, schema: &str, ids: &[String]) {
    let rows: Vec<_> = ids.iter().map(|id| (id.clone(), false)).collect();
    write(session, source, schema, &rows, None);
}

fn write(session: &Session, source: &str, schema: &str, rows: &[(String, bool)], at: Option<TimestampWithTimeZone>) {
    statement!(TAKEN_MARK = "handover/taken_mark"(TEXTOID, TEXTOID, TEXTARRAYOID, BOOLARRAYOID, TIMESTAMPTZOID));
    let ids: Vec<String> = rows.iter().map(|(id, _)| id.clone()).collect();
    let enabled = List(rows.iter().map(|(_, enabled)| *enabled).collect());
    TAKEN_MARK.run(session, arguments![source, schema, ids, enabled, at]);
}

/// Has a schedule whose clock counts from runs count from one of theirs. It was just taken over, which has it count from now.
pub fn count_from(session: &Session, schedule_id: i64, at: Instant) {
    statement!(COUNT_FROM = "handover/count_from"(INT8OID, TIMESTAMPTZOID));
    COUNT_FROM.run(session, arguments![schedule_id, timestamp(at)]);
}

/// From which row of which source a schedule was taken over, if it was.
pub fn taken_from(session: &Session, schedule_id: i64) -> Option<String> {
    statement!(TAKEN_FROM = "handover/taken_from"(INT8OID));
    let rows = TAKEN_FROM.run(session, arguments![schedule_id]);
    rows.first().map(|row| {
        let (source, id): (String, String) = (row.get_required("source"), row.get_required("source_id"));
        format!("job {id} of {source}")
    })
}

/// Whether something is taken over from there.
pub fn is_any(session: &Session, source: &str, schema: &str) -> bool {
    statement!(TAKEN_ANY = "handover/taken_any"(TEXTOID, TEXTOID));
    TAKEN_ANY.run(session, arguments![source, schema]).len() > 0
}

/// Whether a schedule was fired here from one time to another: it was taken over before.
pub fn is_ours(session: &Session, schedule_id: i64, from: Instant, to: Instant) -> bool {
    statement!(PLAN_IS_OURS = "handover/plan_is_ours"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    PLAN_IS_OURS.run(session, arguments![schedule_id, timestamp(from), timestamp(to)]).len() > 0
}

/// Plan times of a schedule that are not decided: one that waits for a run to end, and the first that is to fire. And, of a clock that counts from
/// runs, from when on it counts.
pub fn open_plans(session: &Session, schedule_id: i64) -> [Option<TimestampWithTimeZone>; 3] {
    statement!(PLANS_OPEN = "handover/plans_open"(INT8OID));
    let rows = PLANS_OPEN.run(session, arguments![schedule_id]);
    rows.first().map_or([None; 3], |row| ["buffered_plan", "next_plan_time", "counts_from"].map(|name| row.get(name)))
}

/// Remembers a run of theirs, and forgets those before `forget_before`.
pub fn report_fire(session: &Session, schedule_id: i64, plan: Instant, fired_at: Instant, forget_before: Instant) {
    statement!(FIRE_REPORT = "handover/fire_report"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    statement!(FIRES_FORGET = "handover/fires_forget"(INT8OID, TIMESTAMPTZOID));
    FIRES_FORGET.run(session, arguments![schedule_id, timestamp(forget_before)]);
    FIRE_REPORT.run(session, arguments![schedule_id, timestamp(plan), timestamp(fired_at)]);
}

/// When runs of theirs began that were reported, in [from, to), in order.
pub fn reported_fires(session: &Session, schedule_id: i64, from: Instant, to: Instant) -> Vec<Instant> {
    statement!(FIRES_REPORTED = "handover/fires_reported"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    let rows = FIRES_REPORTED.run(session, arguments![schedule_id, timestamp(from), timestamp(to)]);
    rows.iter().map(|row| saturated(row.get_required("fired_at"))).collect()
}

/// What is fired here in place of another scheduler.
pub struct Taken {
    /// Where it came from.
    pub source: String,
    /// The schema there.
    pub schema: String,
    /// Their row.
    pub source_id: String,
    /// Our schedule.
    pub schedule_id: i64,
    /// Its name.
    pub name: String,
    /// Who owns its job.
    pub owner: Option<Oid>,
}

/// What is fired here in place of others, by source and schema; not what is parked.
pub fn look(session: &Session) -> Vec<Taken> {
    statement!(TAKEN_LOOK = "handover/taken_look"());
    let rows = TAKEN_LOOK.run(session, arguments![]);
    rows.iter()
        .map(|row| Taken {
            source: row.get_required("source"),
            schema: row.get_required("source_schema"),
            source_id: row.get_required("source_id"),
            schedule_id: row.get_required("schedule_id"),
            name: row.get_required("schedule_name"),
            owner: row.get("owner"),
        })
        .collect()
}
