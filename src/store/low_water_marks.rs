//! What statements have added to queues, leases, retries, changes of schedules, dropped schedules and paused queues, told to those who begin to look there (`shmem/low_water_mark.rs`).

use std::ffi::CStr;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::oid_cache;
use crate::pg::record::{Column, Record};
use crate::pg::session::Rows;
use crate::shmem::low_water_mark::{self, Order, Position};
use crate::store::queue::scan_start;

/// To be said when a statement has added entries to these queues, wherever.
pub fn changed(queues: &[String]) {
    queues.iter().for_each(|queue| added_to(c"ready", queue, Position::START));
}

/// To be said when a statement has added entries to a queue, of this priority at most and of this plan time or later ones.
pub fn added_to_queue(queue: &str, priority: i32, plan_time: impl Into<i64>) {
    added_to(c"ready", queue, Position::new(priority, plan_time, Uuid::from_bytes([0; 16])));
}

/// The same of one entry: its row of `ready`.
pub fn added_ready(queue: &str, waiting: &impl Record<Column>) {
    added_to(c"ready", queue, scan_start::position(waiting));
}

/// The same of a statement for one job whose first row says so, where it has added to these queues (one or none).
pub fn added_to_queues(queues: &[String], rows: &Rows) {
    if let Some(row) = rows.first() {
        for queue in queues {
            added_to_queue(queue, row.get_required("priority"), row.get_required::<TimestampWithTimeZone>("plan_time"));
        }
    }
}

/// To be said when a statement has moved executions to other queues, with the rows of those that can be claimed; the queues, each once.
pub fn added_rows(rows: &Rows) -> Vec<String> {
    let mut queues: Vec<String> = Vec::new();
    for row in rows.iter() {
        let queue: String = row.get_required("queue");
        added_ready(&queue, &row);
        if !queues.contains(&queue) {
            queues.push(queue);
        }
    }
    queues
}

/// To be said when a statement has written leases, with the times by which they are to be looked at.
pub fn added_leases<T: Into<i64>>(times: impl Iterator<Item = T>) {
    if let Some(first) = times.map(Position::at).min() {
        added_to(c"lease", "", first);
    }
}

/// To be said when timers were written, with the times at which they are to fire.
pub fn added_timers(times: impl Iterator<Item = Instant>) {
    if let Some(first) = times.min() {
        added_to(c"timer", "", Position::at(timestamp(first)));
    }
}

/// To be said when a run is to be tried again at that time.
pub fn added_retry(at: impl Into<i64>) {
    added_to(c"retry", "", Position::at(at));
}

/// To be said when a statement has written changes of schedules, with their ids.
pub fn added_changes(ids: impl Iterator<Item = i64>) {
    if let Some(first) = ids.min() {
        added_to(c"schedule_change", "", Position::at(first));
    }
}

/// The same where nobody knows the ids.
pub fn added_some_changes() {
    added_to(c"schedule_change", "", Position::START);
}

/// To be said when a schedule was dropped of which somebody has something in hand: nobody is to claim that.
pub fn added_drop() {
    added_to(c"schedule_dropped", "", Position::SOMEWHERE);
}

/// To be said when an execution is to be cancelled that somebody has in hand: nobody is to claim that.
pub fn added_cancel_request() {
    added_to(c"cancel_request", "", Position::SOMEWHERE);
}

/// To be said when a queue was paused: nobody is to claim from it.
pub fn added_pause() {
    added_to(c"paused_queue", "", Position::SOMEWHERE);
}

fn added_to(name: &CStr, order: &str, at: Position) {
    if let Some(order) = table(name).and_then(|table| Order::of(table, order)) {
        order.added(at);
    }
}

fn table(name: &CStr) -> Option<Oid> {
    oid_cache::relation(oid_cache::schema()?.0, name)
}

/// The tables of which something is remembered here.
fn tables() -> impl Iterator<Item = Oid> {
    [
        c"ready",
        c"lease",
        c"retry",
        c"timer",
        c"schedule_change",
        c"schedule_dropped",
        c"cancel_request",
        c"paused_queue",
    ]
    .into_iter()
    .filter_map(table)
}

/// To be said when somebody has written to a table without telling where: all that is remembered of it is forgotten.
pub fn forget(table: Oid) {
    if tables().any(|known| known == table) {
        low_water_mark::forget(table);
    }
}

/// The same of all tables.
pub fn forget_all() {
    tables().for_each(forget);
}
