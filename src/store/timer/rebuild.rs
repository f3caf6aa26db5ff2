//! What timers are made anew from.

use pgrx::datum::TimestampWithTimeZone;
use scheduler_core::schedule::Progress;
use scheduler_core::Instant;

use crate::pg::error::Outcome;
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::store::schedule::state::TimerRow;
use crate::{arguments, statement};

/// What is known of a schedule's past.
pub struct DerivedTimer {
    /// Which schedule.
    pub schedule_id: i64,
    /// Up to where its plan times are decided, and what waits for a run.
    pub progress: Outcome<Progress>,
    /// It could not be used when a dispatcher last looked.
    pub parked: bool,
    /// When a run that it waited for ended, where no dispatcher has applied that yet.
    pub terminal_at: Option<Instant>,
    last_plan: Option<TimestampWithTimeZone>,
    last_fired: Option<TimestampWithTimeZone>,
}

impl DerivedTimer {
    /// A timer that knows this, older than any edit of its schedule.
    pub fn timer(&self) -> TimerRow {
        TimerRow {
            version: 0,
            next_plan_time: None,
            progress: self.progress.clone(),
            error_count: 0,
            parked: self.parked.then(String::new),
            waiting: false,
            tracks_runs: false,
            held: None,
        }
    }
}

/// Keeps dispatchers away from the timers until the transaction ends.
pub fn lock_timers(session: &Session) {
    statement!(TIMERS_LOCK = "timer/timers_lock"());
    TIMERS_LOCK.run(session, arguments![]);
}

/// Deletes timers that no schedule calls for.
pub fn drop_orphans(session: &Session) {
    statement!(TIMERS_ORPHANED = "timer/timers_orphaned"());
    TIMERS_ORPHANED.run(session, arguments![]);
}

/// The next schedules after this one, in order.
pub fn next_schedules(session: &Session, after: i64, limit: i64) -> Vec<i64> {
    statement!(SCHEDULES_NEXT = "schedule/schedules_next"(INT8OID, INT8OID));
    SCHEDULES_NEXT.run(session, arguments![after, limit]).iter().map(|row| row.get_required("schedule_id")).collect()
}

/// What the ledger, the skips and the changes say about these schedules.
pub fn find(session: &Session, schedule_ids: Vec<i64>) -> Vec<DerivedTimer> {
    statement!(TIMERS_DERIVE = "timer/timers_derive"(INT8ARRAYOID));
    let rows = TIMERS_DERIVE.run(session, arguments![List(schedule_ids)]);
    rows.iter()
        .map(|row| DerivedTimer {
            schedule_id: row.get_required("schedule_id"),
            progress: TimerRow::times(None, [row.get("cursor_at"), row.get("buffered_plan"), row.get("backlog_until")])
                .1,
            parked: row.get_required("parked"),
            terminal_at: row.get_saturated("terminal_at"),
            last_plan: row.get("last_plan_time"),
            last_fired: row.get("last_fired_at"),
        })
        .collect()
}

/// Writes the last fires into timers that know of none.
pub fn remember_fires(session: &Session, found: Vec<DerivedTimer>) {
    statement!(TIMERS_REMEMBER = "timer/timers_remember"(INT8ARRAYOID, TIMESTAMPTZARRAYOID, TIMESTAMPTZARRAYOID));
    let ids: Vec<i64> = found.iter().map(|found| found.schedule_id).collect();
    let (plans, fires): (Vec<_>, Vec<_>) = found.into_iter().map(|found| (found.last_plan, found.last_fired)).unzip();
    TIMERS_REMEMBER.run(session, arguments![List(ids), List(plans), List(fires)]);
}
