//! `sched.alert`, `sched.alert_watch` and `sched.alert_state`: what somebody is to be told of, when dispatchers look for it, and what looks remember.
//!
//! Who knows that something changed adds a row to `alert_watch` and waits for nobody (`look_at` and its kin). The rest is for the one
//! dispatcher of a database (`facts` reads, and what is here writes).

pub mod facts;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::alert::{Kind, Open, RunId};
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::session::{List, Row};
use crate::pg::Session;
use crate::{arguments, statement};

/// What calls for a look at a schedule.
#[derive(Clone, Copy)]
pub struct Watch {
    /// Which schedule.
    pub schedule_id: i64,
    /// A run that is to be looked at, whatever its plan time.
    pub execution_id: Option<Uuid>,
    /// That run has failed for good.
    pub failed: bool,
}

/// The number of a run as the core has it.
pub fn run_id(execution_id: Uuid) -> RunId {
    u128::from_be_bytes(*execution_id.as_bytes())
}

/// The other way round.
pub fn execution_id(run: RunId) -> Uuid {
    Uuid::from_bytes(run.to_be_bytes())
}

/// The columns of a list of them.
fn columns(watches: &[Watch]) -> (List<i64>, List<Option<Uuid>>, List<bool>) {
    (
        List(watches.iter().map(|watch| watch.schedule_id).collect()),
        List(watches.iter().map(|watch| watch.execution_id).collect()),
        List(watches.iter().map(|watch| watch.failed).collect()),
    )
}

fn look(session: &Session, watches: &[Watch]) {
    statement!(LOOK_AT = "alert/look_at"(INT8ARRAYOID, UUIDARRAYOID, BOOLARRAYOID));
    let (schedule_ids, execution_ids, failed) = columns(watches);
    LOOK_AT.run(session, arguments![schedule_ids, execution_ids, failed]);
}

/// Has dispatchers look at these schedules.
pub fn look_at(session: &Session, schedule_ids: impl IntoIterator<Item = i64>) {
    let watches: Vec<Watch> =
        schedule_ids.into_iter().map(|schedule_id| Watch { schedule_id, execution_id: None, failed: false }).collect();
    if !watches.is_empty() {
        look(session, &watches);
    }
}

/// The same of a schedule of which this run has failed for good.
pub fn run_failed(session: &Session, schedule_id: i64, execution_id: Uuid) {
    look(session, &[Watch { schedule_id, execution_id: Some(execution_id), failed: true }]);
}

/// The same of those that earlier looks have left something of: they ask for alerts, or have open ones.
pub fn look_at_watched(session: &Session, schedule_ids: &[i64]) {
    if !schedule_ids.is_empty() {
        statement!(LOOK_AT_WATCHED = "alert/look_at_watched"(INT8ARRAYOID));
        LOOK_AT_WATCHED.run(session, arguments![List(schedule_ids.to_vec())]);
    }
}

/// The same of what is gone, and has left an open alert.
pub fn look_at_gone(session: &Session) {
    statement!(LOOK_AT_GONE = "alert/look_at_gone"());
    LOOK_AT_GONE.run(session, arguments![]);
}

/// Has dispatchers look at runs of a schedule that were made beside its plan, if it asks for alerts or has open ones; whether it does.
pub fn look_at_runs(session: &Session, schedule_id: i64, execution_ids: Vec<Uuid>) -> bool {
    statement!(LOOK_AT_RUNS = "alert/look_at_runs"(INT8OID, UUIDARRAYOID));
    LOOK_AT_RUNS.run(session, arguments![schedule_id, List(execution_ids)]).len() > 0
}

/// What is taken at once.
pub struct Share {
    /// What was planned until then has been looked at.
    pub looked_until: Instant,
    /// How many looks that were planned.
    pub planned: i64,
    /// What came up by itself is taken of schedules after this one,
    pub after: i64,
    /// of so many,
    pub schedules: i64,
    /// so many rows of each.
    pub rows: i64,
}

/// Takes some of what is to be looked at now, each with whether it was planned.
pub fn take(session: &Session, share: &Share, now: Instant) -> Vec<(Watch, bool)> {
    statement!(DUE = "alert/due"(TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID, INT8OID, INT8OID));
    let Share { looked_until, planned, after, schedules, rows } = *share;
    let rows = DUE.run(session, arguments![timestamp(looked_until), timestamp(now), planned, after, schedules, rows]);
    let watch = |row: Row| Watch {
        schedule_id: row.get_required("schedule_id"),
        execution_id: row.get("execution_id"),
        failed: row.get_required("failed"),
    };
    rows.iter().map(|row| (row.get_required("planned"), row)).map(|(planned, row)| (watch(row), planned)).collect()
}

/// Forgets all but the newest `keep` rows of each schedule of what came up by itself, of so many.
pub fn thin(session: &Session, of: i64, keep: i64) {
    statement!(THIN = "alert/thin"(INT8OID, INT8OID));
    THIN.run(session, arguments![of, keep]);
}

/// Has what could not be done tried again at that time.
pub fn put_off(session: &Session, watches: &[Watch], until: Instant) {
    statement!(PLAN = "alert/plan"(TIMESTAMPTZOID, INT8ARRAYOID, UUIDARRAYOID, BOOLARRAYOID));
    let (schedule_ids, execution_ids, failed) = columns(watches);
    PLAN.run(session, arguments![timestamp(until), schedule_ids, execution_ids, failed]);
}

/// What the next look at a schedule is to know.
pub struct Memory {
    /// Which schedule.
    pub schedule_id: i64,
    /// What it was made from.
    pub version: i64,
    /// Up to here its runs were seen.
    pub seen_plan: Option<TimestampWithTimeZone>,
    /// Those of them that had not ended.
    pub unsettled: Vec<Uuid>,
    /// When its last run succeeded, as far as is known.
    pub last_success: Option<Instant>,
    /// When that is.
    pub next_look: Option<Instant>,
}

/// Remembers, and plans the next looks.
pub fn remember(session: &Session, memories: &[Memory]) {
    if memories.is_empty() {
        return;
    }
    statement!(
        REMEMBER = "alert/remember"(
            INT8ARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            INT8ARRAYOID,
            UUIDARRAYOID
        )
    );
    let unsettled = || memories.iter().flat_map(|of| of.unsettled.iter().map(|run| (of.schedule_id, *run)));
    REMEMBER.run(
        session,
        arguments![
            List(memories.iter().map(|of| of.schedule_id).collect::<Vec<_>>()),
            List(memories.iter().map(|of| of.version).collect::<Vec<_>>()),
            List(memories.iter().map(|of| of.seen_plan).collect::<Vec<_>>()),
            List(memories.iter().map(|of| of.last_success.map(timestamp)).collect::<Vec<_>>()),
            List(memories.iter().map(|of| of.next_look.map(timestamp)).collect::<Vec<_>>()),
            List(unsettled().map(|(schedule_id, _)| schedule_id).collect::<Vec<_>>()),
            List(unsettled().map(|(_, run)| run).collect::<Vec<_>>())
        ],
    );
}

/// Forgets schedules of which nothing is to be looked at any more.
pub fn forget(session: &Session, schedule_ids: Vec<i64>) {
    if !schedule_ids.is_empty() {
        statement!(FORGET = "alert/forget"(INT8ARRAYOID));
        FORGET.run(session, arguments![List(schedule_ids)]);
    }
}

/// An alert to be opened.
pub struct NewAlert<'a> {
    /// Of which schedule,
    pub schedule_id: i64,
    /// by its name.
    pub schedule_name: &'a str,
    /// The owner of its job.
    pub owner: Oid,
    /// What it is about.
    pub what: Open,
    /// What is so.
    pub message: String,
    /// What may hold a secret of it.
    pub detail: Option<String>,
}

/// Opens one: its number, and what its alert_job is told. `None` where one of that schedule and kind is open.
pub fn open(session: &Session, alert: NewAlert, now: Instant) -> Option<(i64, Jsonb)> {
    statement!(
        OPEN = "alert/open"(
            TEXTOID,
            INT8OID,
            TEXTOID,
            REGROLEOID,
            UUIDOID,
            TIMESTAMPTZOID,
            TIMESTAMPTZOID,
            TEXTOID,
            TEXTOID,
            TIMESTAMPTZOID
        )
    );
    let Open { kind, since, plan_time, run } = alert.what;
    let arguments = arguments![
        kind.as_str(),
        alert.schedule_id,
        alert.schedule_name,
        alert.owner,
        run.map(execution_id),
        plan_time.map(timestamp),
        timestamp(since),
        alert.message,
        alert.detail,
        timestamp(now)
    ];
    OPEN.run(session, arguments).first().map(|row| (row.get_required("alert_id"), row.get_required("payload")))
}

/// Resolves the open alert of a schedule and kind; its number. `None` where there is none, or somebody's open transaction has it in hand.
pub fn resolve(session: &Session, schedule_id: i64, kind: Kind, now: Instant) -> Option<i64> {
    statement!(RESOLVE = "alert/resolve"(INT8OID, TEXTOID, TIMESTAMPTZOID));
    let rows = RESOLVE.run(session, arguments![schedule_id, kind.as_str(), timestamp(now)]);
    rows.first().map(|row| row.get_required("alert_id"))
}

/// Has `LISTEN "sched:alerts"` hear these, each once.
pub fn tell(session: &Session, payloads: Vec<String>) {
    statement!(TELL = "alert/tell"(TEXTARRAYOID));
    TELL.run(session, arguments![List(payloads)]);
}

/// Forgets alerts that were resolved before `limit`, of so many; how many went.
pub fn prune(session: &Session, limit: Instant, most: i64) -> usize {
    statement!(PRUNE = "alert/prune"(TIMESTAMPTZOID, INT8OID));
    PRUNE.run(session, arguments![timestamp(limit), most]).len()
}

/// Whose an alert is; `None` where there is none of this number.
pub fn owner(session: &Session, alert_id: i64) -> Option<Oid> {
    statement!(FIND = "alert/find"(INT8OID));
    FIND.run(session, arguments![alert_id]).first().map(|row| row.get_required("owner"))
}

/// Has health say nothing of it until then; `None` ends that.
pub fn acknowledge(session: &Session, alert_id: i64, until: Option<TimestampWithTimeZone>) {
    statement!(ACKNOWLEDGE = "alert/acknowledge"(INT8OID, TIMESTAMPTZOID));
    ACKNOWLEDGE.run(session, arguments![alert_id, until]);
}
