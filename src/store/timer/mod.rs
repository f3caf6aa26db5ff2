//! Timers: picked and read row by row (`due_scan`) where the tables are as they were made, by statements (`sql`) where a superuser gave them
//! more to do. `turns` picks where not all can be taken. `fire` decides the same for what it writes.

use std::collections::BTreeMap;

use scheduler_core::Instant;

use crate::pg::Session;
use crate::store::fast_path;

pub mod deadline;
mod due_scan;
pub mod fire;
pub mod first_times;
pub mod lock_timeout;
pub mod new_timer;
pub mod rebuild;
mod sql;
mod turns;

pub use crate::store::schedule::state::{PreviousKeys, ScheduleRow, ScheduleState, TimerRow};
pub use fire::{fire, Fired};
pub use new_timer::{BatchWindow, NewTimer};
pub use sql::{
    arm, await_unfinished, drop_timers, fired_before, forget, lock_due, notify, park, postpone, record_failure, timers,
};

/// Locks the timers that are due at `now` at the latest and within the window.
pub fn pick_due(session: &Session, window: BatchWindow, now: Instant) -> BTreeMap<i64, TimerRow> {
    // Past what has fired and is not vacuumed yet.
    let window = BatchWindow { after: window.after.max(first_times::before_timers(session, now)), ..window };
    let picked = fast_path::open_in(session, |schema| due_scan::pick(schema, window, now));
    let picked = picked.unwrap_or_else(|| sql::pick_due(session, window, now));
    turns::pick(session, window, picked, now)
}

/// The state of these schedules, after their timers were locked and read.
pub fn read(session: &Session, schedule_ids: Vec<i64>, mut timers: BTreeMap<i64, TimerRow>) -> Vec<ScheduleState> {
    let read = fast_path::open_in(session, |schema| due_scan::read(schema, &schedule_ids, &mut timers));
    read.unwrap_or_else(|| sql::read(session, schedule_ids, timers))
}
