//! `sched.skip`, `sched.schedule_definition` and `sched.timer_state`: what did not run, under which definition, and what waits.

use std::collections::{BTreeMap, HashMap, HashSet};

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::schedule::Progress;
use scheduler_core::{Instant, Keyword};

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::{List, Row, Rows};
use crate::pg::Session;
use crate::store::counted;
use crate::store::timer::new_timer::NewTimer;
use crate::{arguments, statement};

/// What a schedule was for a while.
#[derive(Clone)]
pub struct PastDefinition {
    /// Which schedule.
    pub schedule_id: i64,
    /// Which row.
    pub definition_id: i64,
    /// Its plan times are after this instant,
    pub valid_from: Instant,
    /// and not after this one.
    pub valid_to: Instant,
    /// As written.
    pub clock: String,
    /// As written.
    pub time_zone: String,
    /// As written.
    pub starts_at: Option<TimestampWithTimeZone>,
    /// As written.
    pub ends_at: Option<TimestampWithTimeZone>,
    /// Not paused.
    pub enabled: bool,
    /// Dispatched here.
    pub owned: bool,
    /// What nobody dispatched of it is recorded.
    pub settled: bool,
}

impl PastDefinition {
    /// The first columns of a row. What cannot be read in it has no plan times, and keeps nobody from putting the schedule right.
    pub fn of(row: &Row) -> PastDefinition {
        PastDefinition {
            schedule_id: row.get_required("schedule_id"),
            definition_id: row.get_required("definition_id"),
            valid_from: row.get_required_saturated("valid_from"),
            valid_to: row.get_required_saturated("valid_to"),
            clock: row.lossy("clock").unwrap_or_default(),
            time_zone: row.lossy("time_zone").unwrap_or_default(),
            starts_at: row.get("starts_at"),
            ends_at: row.get("ends_at"),
            enabled: row.get_required("enabled"),
            owned: row.get_required("owned"),
            settled: row.get_required("settled"),
        }
    }
}

fn definitions_of(rows: &Rows) -> Vec<PastDefinition> {
    rows.iter().map(|row| PastDefinition::of(&row)).collect()
}

/// The definitions of these schedules that have ended and are not settled, or that do not end before the present one begins, in the order in
/// which they were written.
pub fn unsettled(session: &Session, schedule_ids: Vec<i64>) -> Vec<PastDefinition> {
    statement!(DEFINITIONS_UNSETTLED = "schedule/definitions_unsettled"(INT8ARRAYOID));
    definitions_of(&DEFINITIONS_UNSETTLED.run(session, arguments![List(schedule_ids)]))
}

/// The definitions that a schedule had in [from, to), and all that are not settled, in the order in which they were written.
pub fn definitions_between(session: &Session, schedule_id: i64, from: Instant, to: Instant) -> Vec<PastDefinition> {
    statement!(DEFINITIONS_BETWEEN = "schedule/definitions_between"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    definitions_of(&DEFINITIONS_BETWEEN.run(session, arguments![schedule_id, timestamp(from), timestamp(to)]))
}

/// What a timer remembers that nothing else tells: the buffered plan, and the end of a backlog that is not over.
fn kept(progress: Progress) -> (Option<Instant>, Option<Instant>) {
    (progress.buffered, progress.backlog_until.filter(|end| Some(*end) > progress.cursor))
}

/// Records what these timers passed over and remember, if they were moved as they say; costs nothing where there is nothing. `external`:
/// the schedules of which the ledger has a run by somebody else.
pub fn record(session: &Session, timers: &[&NewTimer], external: &HashSet<i64>) {
    let external = |timer: &NewTimer| timer.runs.last().copied().filter(|_| external.contains(&timer.schedule_id));
    let changes = |timer: &NewTimer| {
        kept(timer.before) != kept(timer.progress) || timer.was_parked.is_some() != timer.parked.is_some()
    };
    let speaking = |timer: &&NewTimer| {
        changes(timer) || external(timer).is_some() || !timer.skipped.is_empty() || !timer.settled.is_empty()
    };
    let timers: Vec<&NewTimer> = timers.iter().copied().filter(speaking).collect();
    if timers.is_empty() {
        return;
    }
    // An edit that was committed late, or in time by a clock that had been ahead: what the definition before it has fired may be later than
    // where this one begins.
    let begins_anew = |timer: &NewTimer| {
        !timer.settled.is_empty() && (timer.progress.cursor < timer.before.cursor || timer.straightens.is_some())
    };
    statement!(
        SKIPS_RECORD = "schedule/skips_record"(
            INT8ARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID,
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            INT8ARRAYOID,
            TEXTARRAYOID,
            TIMESTAMPTZARRAYOID,
            INT8ARRAYOID,
            BOOLARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLARRAYOID
        )
    );
    let time = |of: fn(&Progress) -> Option<Instant>| -> Vec<Option<TimestampWithTimeZone>> {
        timers.iter().map(|timer| of(&timer.progress).map(timestamp)).collect()
    };
    let skips: Vec<_> = timers
        .iter()
        .flat_map(|timer| timer.skipped.iter().map(|(defined_at, skip)| (timer.schedule_id, *defined_at, *skip)))
        .collect();
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let rows = SKIPS_RECORD.run(
        session,
        arguments![
            List(timers.iter().map(|timer| timer.schedule_id).collect::<Vec<i64>>()),
            List(timers.iter().map(|timer| timer.version).collect::<Vec<i64>>()),
            List(time(|progress| progress.cursor)),
            List(time(|progress| progress.buffered)),
            List(time(|progress| progress.backlog_until)),
            List(timers.iter().map(|timer| changes(timer)).collect::<Vec<bool>>()),
            List(skips.iter().map(|(id, ..)| *id).collect::<Vec<i64>>()),
            List(skips.iter().map(|(_, defined_at, _)| timestamp(*defined_at)).collect::<Vec<_>>()),
            List(skips.iter().map(|(.., skip)| timestamp(skip.from)).collect::<Vec<_>>()),
            List(skips.iter().map(|(.., skip)| timestamp(skip.to)).collect::<Vec<_>>()),
            List(skips.iter().map(|(.., skip)| count(skip.count)).collect::<Vec<i64>>()),
            List(skips.iter().map(|(.., skip)| skip.reason.as_str().to_owned()).collect::<Vec<String>>()),
            List(skips.iter().map(|(.., skip)| skip.previous.map(timestamp)).collect::<Vec<_>>()),
            List(timers.iter().flat_map(|timer| timer.settled.iter().copied()).collect::<Vec<i64>>()),
            List(timers.iter().map(|timer| timer.parked.is_some()).collect::<Vec<bool>>()),
            List(timers.iter().map(|timer| external(timer).map(timestamp)).collect::<Vec<_>>()),
            List(timers.iter().map(|timer| begins_anew(timer)).collect::<Vec<bool>>())
        ],
    );
    for row in rows.iter() {
        let (id, to): (i64, TimestampWithTimeZone) = (row.get_required("schedule_id"), row.get_required("plan_to"));
        let written = skips.iter().filter(|(schedule_id, _, skip)| *schedule_id == id && timestamp(skip.to) == to);
        for (.., skip) in written {
            counted::skipped(&row, skip.reason, skip.count);
        }
    }
}

/// Forgets schedules that were dropped.
pub fn forget(session: &Session, schedule_ids: &[i64]) {
    if !schedule_ids.is_empty() {
        statement!(SKIPS_DROP = "schedule/skips_drop"(INT8ARRAYOID));
        SKIPS_DROP.run(session, arguments![List(schedule_ids.to_vec())]);
    }
}

/// A run of skips as it is stored.
pub struct RecordedSkip {
    /// The definition whose plan times they are.
    pub defined_at: Instant,
    /// The first.
    pub from: Instant,
    /// The last.
    pub to: Instant,
    /// Why.
    pub reason: String,
}

/// The skips of a schedule that reach into [from, to), in order.
pub fn between(session: &Session, schedule_id: i64, from: Instant, to: Instant) -> Vec<RecordedSkip> {
    statement!(SKIPS_BETWEEN = "schedule/skips_between"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    let rows = SKIPS_BETWEEN.run(session, arguments![schedule_id, timestamp(from), timestamp(to)]);
    rows.iter()
        .map(|row| RecordedSkip {
            defined_at: row.get_required_saturated("defined_at"),
            from: row.get_required_saturated("plan_from"),
            to: row.get_required_saturated("plan_to"),
            reason: row.get_required("reason"),
        })
        .collect()
}

/// A plan time that the ledger has in a scope that the schedule has or had.
#[derive(Clone, Copy)]
pub struct Taken {
    /// Which.
    pub plan: Instant,
    /// The schedule put it there by a clock that it had.
    pub own: bool,
    /// The schedule fires none there any more: it is its own, or in the scope that it has now.
    pub here: bool,
}

/// Which of these plan times the ledger holds in the schedule's scopes, and the execution of each, in order.
pub fn fired(session: &Session, schedule_id: i64, plans: Vec<TimestampWithTimeZone>) -> Vec<(Taken, Uuid)> {
    statement!(SKIPS_FIRED = "schedule/skips_fired"(INT8OID, TIMESTAMPTZARRAYOID));
    let rows = SKIPS_FIRED.run(session, arguments![schedule_id, List(plans)]);
    let taken = |row: &Row| Taken {
        plan: row.get_required_instant("plan_time"),
        own: row.get_required("own"),
        here: row.get_required("here"),
    };
    rows.iter().map(|row| (taken(&row), row.get_required("id"))).collect()
}

/// The executions of a schedule in [from, to) by any clock that it had, one for each plan time; at most so many.
pub fn own(session: &Session, schedule_id: i64, from: Instant, to: Instant, most: u64) -> BTreeMap<Instant, Uuid> {
    statement!(PLANS_OWN = "schedule/plans_own"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID));
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = PLANS_OWN.run(session, arguments![schedule_id, timestamp(from), timestamp(to), most]);
    rows.iter().map(|row| (row.get_required_instant("plan_time"), row.get_required("id"))).collect()
}

/// Which plan times after the first instant and up to the second the ledger has in the scopes of these schedules, in order.
pub fn fired_between(session: &Session, ranges: &[(i64, Instant, Instant)]) -> HashMap<i64, Vec<Taken>> {
    let mut fired: HashMap<i64, Vec<Taken>> = HashMap::new();
    if ranges.is_empty() {
        return fired;
    }
    statement!(PLANS_FIRED = "schedule/plans_fired"(INT8ARRAYOID, TIMESTAMPTZARRAYOID, TIMESTAMPTZARRAYOID));
    let ids: Vec<i64> = ranges.iter().map(|(id, ..)| *id).collect();
    let (after, until): (Vec<_>, Vec<_>) =
        ranges.iter().map(|(_, after, until)| (timestamp(*after), timestamp(*until))).unzip();
    for row in PLANS_FIRED.run(session, arguments![List(ids), List(after), List(until)]).iter() {
        let taken = Taken {
            plan: row.get_required_instant("plan_time"),
            own: row.get_required("own"),
            here: row.get_required("here"),
        };
        fired.entry(row.get_required("schedule_id")).or_default().push(taken);
    }
    fired
}

/// A schedule of this name, and whether `role` may read about it.
pub fn seen_by(session: &Session, schedule_name: &str, role: Oid) -> Option<(i64, bool)> {
    statement!(SCHEDULE_SEEN = "schedule/schedule_seen"(TEXTOID, OIDOID));
    SCHEDULE_SEEN
        .run(session, arguments![schedule_name, role])
        .first()
        .map(|row| (row.get_required("schedule_id"), row.get_required("may_read")))
}

/// The schedules that `role` may read about and that are paused, parked or edited since a dispatcher looked: number and name.
pub fn stopped(session: &Session, role: Oid) -> Vec<(i64, String)> {
    statement!(SCHEDULES_STOPPED = "schedule/schedules_stopped"(OIDOID));
    SCHEDULES_STOPPED
        .run(session, arguments![role])
        .iter()
        .map(|row| (row.get_required("schedule_id"), row.get_required("schedule_name")))
        .collect()
}

/// Where a walk through the skips stands: a row's key, or before the first. As it is stored: a hand may have written times that are none.
#[derive(Clone, Copy)]
pub struct SkipCursor(Option<(i64, TimestampWithTimeZone, TimestampWithTimeZone)>);

impl SkipCursor {
    /// Before the first.
    pub const START: SkipCursor = SkipCursor(None);
}

/// Looks at `rows` rows after `cursor` and deletes those that ended before `limit`, but for the newest of each schedule; the same for
/// definitions. Where to go on; `None` at the end.
pub fn prune(session: &Session, cursor: SkipCursor, limit: Instant, rows: i64) -> Option<SkipCursor> {
    statement!(DEFINITIONS_PRUNE = "schedule/definitions_prune"(TIMESTAMPTZOID, INT8OID));
    statement!(SKIPS_PRUNE = "schedule/skips_prune"(INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID));
    let definitions = DEFINITIONS_PRUNE.run(session, arguments![timestamp(limit), rows]).len();
    let start = timestamp(Instant::MIN);
    let (schedule_id, defined_at, from) = cursor.0.unwrap_or((0, start, start));
    let found = SKIPS_PRUNE.run(session, arguments![schedule_id, defined_at, from, timestamp(limit), rows]);
    // With as many definitions as fit into a step there may be more, also where no skips are left.
    let more = (i64::try_from(definitions) == Ok(rows)).then_some(cursor);
    let next = found.first().map(|row| {
        SkipCursor(Some((
            row.get_required("schedule_id"),
            row.get_required("defined_at"),
            row.get_required("plan_from"),
        )))
    });
    next.or(more)
}
