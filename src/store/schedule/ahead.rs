//! What was written by a clock that was ahead, and is put right by the one that is not.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys::Oid;
use scheduler_core::runtime::backoff;
use scheduler_core::Instant;

use crate::pg::convert::{self, timestamp};
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::store::low_water_marks;
use crate::store::schedule::skipped_plans::PastDefinition;
use crate::{arguments, statement};

/// What lies less ahead of the clock than this, in microseconds, is over before anybody could do something about it. (The trigger
/// `schedule_before_update` says the same.)
const NOTICED: i64 = 1_000_000;
/// How many schedules are named.
const NAMED: i64 = 5;

/// Since when a time lies ahead of the clock.
pub fn horizon(now: Instant) -> Instant {
    now.checked_add_micros(NOTICED).unwrap_or(Instant::MAX)
}

/// Schedules that fire nothing until the clock gets to where it was once.
pub struct Ahead {
    /// How many.
    pub count: i64,
    /// Until when, in the session's zone.
    pub until: String,
    /// The same as a time.
    pub until_at: Instant,
    /// The first of their names.
    pub names: Vec<String>,
}

/// The schedules that are silent until after `horizon`, with the names that `reader` may know, or all; `None` where there are none.
pub fn schedules(session: &Session, horizon: Instant, reader: Oid, reads_all: bool) -> Option<Ahead> {
    statement!(SCHEDULES_AHEAD = "schedule/schedules_ahead"(TIMESTAMPTZOID, INT8OID, OIDOID, BOOLOID));
    let rows = SCHEDULES_AHEAD.run(session, arguments![timestamp(horizon), NAMED, reader, reads_all]);
    let row = rows.first()?;
    Some(Ahead {
        count: row.get_required("count"),
        until: row.get("until")?,
        until_at: row.get_saturated("until_at")?,
        names: row.get_required("names"),
    })
}

impl Ahead {
    /// How many lie ahead of what, until when and which, as a message says it; `whose` they are, or nothing.
    pub fn described(&self, whose: &str) -> String {
        let Ahead { count, names, .. } = self;
        let (schedules, lie) = if *count == 1 { ("schedule", "lies") } else { ("schedules", "lie") };
        let named: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let more = if i64::try_from(named.len()) == Ok(*count) { "" } else { ", …" };
        let named = if named.is_empty() { String::new() } else { format!(": {}{more}", named.join(", ")) };
        format!("{count} {schedules}{whose} {lie} ahead of the clock and may fire nothing until it gets there{named}")
    }
}

/// Whether what was written last was written by a clock that was ahead: a few looks into indexes, whatever there is.
pub fn is_likely(session: &Session, horizon: Instant) -> bool {
    statement!(CLOCK_WAS_AHEAD = "schedule/clock_was_ahead"(TIMESTAMPTZOID));
    CLOCK_WAS_AHEAD.run(session, arguments![timestamp(horizon)]).first().is_some_and(|row| row.get_required("is_ahead"))
}

/// Has fires and changes tried again now that have failed by a clock that was ahead.
pub fn try_again(session: &Session, now: Instant) {
    statement!(FAILURES_AHEAD = "failures_ahead"(TIMESTAMPTZOID, TIMESTAMPTZOID));
    let latest = horizon(now).checked_add_micros(backoff::LONGEST).unwrap_or(Instant::MAX);
    FAILURES_AHEAD.run(session, arguments![timestamp(now), timestamp(latest)]);
    low_water_marks::added_timers([now].into_iter());
}

/// A skip that goes on after the end of its definition.
pub struct Beyond {
    /// The definition.
    pub past: PastDefinition,
    valid_from: TimestampWithTimeZone,
    plan_from: TimestampWithTimeZone,
}

impl Beyond {
    /// The first of its plan times.
    pub fn from(&self) -> Instant {
        convert::saturated(self.plan_from)
    }
}

/// Has the definitions of these schedules end where later ones begin; the skips that are now too long.
pub fn straighten(session: &Session, schedule_ids: Vec<i64>) -> Vec<Beyond> {
    statement!(DEFINITIONS_STRAIGHTEN = "schedule/definitions_straighten"(INT8ARRAYOID));
    statement!(SKIPS_BEYOND = "schedule/skips_beyond"(INT8ARRAYOID));
    DEFINITIONS_STRAIGHTEN.run(session, arguments![List(schedule_ids.clone())]);
    let rows = SKIPS_BEYOND.run(session, arguments![List(schedule_ids)]);
    rows.iter()
        .map(|row| Beyond {
            past: PastDefinition::of(&row),
            valid_from: row.get_required("valid_from"),
            plan_from: row.get_required("plan_from"),
        })
        .collect()
}

/// Shortens skips: the last plan time that is left of each, and how many are; `None` where none is.
pub fn cut(session: &Session, skips: &[(Beyond, Option<(Instant, i64)>)]) {
    if skips.is_empty() {
        return;
    }
    statement!(
        SKIPS_CUT = "schedule/skips_cut"(
            INT8ARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            TIMESTAMPTZARRAYOID,
            INT8ARRAYOID
        )
    );
    SKIPS_CUT.run(
        session,
        arguments![
            List(skips.iter().map(|(skip, _)| skip.past.schedule_id).collect::<Vec<i64>>()),
            List(skips.iter().map(|(skip, _)| skip.valid_from).collect::<Vec<_>>()),
            List(skips.iter().map(|(skip, _)| skip.plan_from).collect::<Vec<_>>()),
            List(skips.iter().map(|(_, left)| left.map(|(to, _)| timestamp(to))).collect::<Vec<_>>()),
            List(skips.iter().map(|(_, left)| left.map(|(_, count)| count)).collect::<Vec<_>>())
        ],
    );
}
