//! `sched.schedule_change`: what dispatchers have to look at again.

use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::Session;
use crate::store::database_clock;
use crate::store::timer::first_times;
use crate::{arguments, statement};

/// The changes of one schedule that nobody has applied yet.
#[derive(Clone)]
pub struct Change {
    /// Which schedule.
    pub schedule_id: i64,
    /// When a run that it waited for ended, if one did.
    pub terminal_at: Option<Instant>,
    /// The rows to forget once it is applied.
    pub change_ids: Vec<i64>,
    /// How often that failed.
    pub failures: i32,
    /// Whether it can be applied now.
    pub timer_lock: TimerLock,
}

/// What is known of the timer of a changed schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TimerLock {
    /// It is ours until the transaction ends.
    Locked,
    /// There is none yet.
    New,
    /// Somebody else has it.
    Busy,
}

/// Locks up to `limit` changes after `after` that can be applied at `now`, and the timers they are about.
pub fn pick(session: &Session, after: i64, now: Instant, limit: i64) -> Vec<Change> {
    statement!(CHANGES_PICK = "schedule/changes_pick"(INT8OID, TIMESTAMPTZOID, INT8OID));
    let after = after.max(first_times::before_changes(session, now));
    let rows = CHANGES_PICK.run(session, arguments![after, timestamp(now), limit]);
    rows.iter()
        .map(|row| Change {
            schedule_id: row.get_required("schedule_id"),
            terminal_at: row.get_saturated("terminal_at"),
            change_ids: row.get_required("change_ids"),
            failures: row.get_required("failures"),
            timer_lock: match row.get_required::<String>("timer_lock").as_str() {
                "locked" => TimerLock::Locked,
                "new" => TimerLock::New,
                _ => TimerLock::Busy,
            },
        })
        .collect()
}

/// Has changes that could not be applied tried again at `retry_at`.
pub fn failed(session: &Session, change_ids: Vec<i64>, retry_at: Instant) {
    statement!(CHANGE_FAILED = "schedule/change_failed"(INT8ARRAYOID, TIMESTAMPTZOID));
    CHANGE_FAILED.run(session, arguments![List(change_ids), timestamp(retry_at)]);
}

/// Whether a change is waiting after `after`.
pub fn exist(session: &Session, after: i64) -> bool {
    statement!(CHANGE_EXISTS = "schedule/change_exists"(INT8OID));
    let after = after.max(first_times::before_changes(session, database_clock::now()));
    CHANGE_EXISTS.run(session, arguments![after]).first().is_some()
}
