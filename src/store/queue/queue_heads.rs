//! The first entries of queues, row by row: what health/queues.sql says of all queues, and undefined_jobs.sql of one.
//!
//! From one queue to the next by the entries of the index, whatever has become of their rows; in each from its low-water mark on.

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::{self, ledger, ready};
use crate::heap::{Condition, Index, LatestSnapshot, Table};
use crate::pg::record::Record;
use crate::store::fast_path::readable;
use crate::store::queue::scan_start::{self, Waiting};

/// Each queue in which something can be claimed, up to `most` of them, and since when its first entry can: the one that waits longest first.
pub fn first_of_each(schema: Oid, most: usize, now: Instant) -> Option<Vec<(String, Option<Instant>)>> {
    let waiting = readable(schema, &layouts::READY)?;
    let executions = readable(schema, &layouts::LEDGER)?;
    let latest = LatestSnapshot::take();
    let mut names = Index::open(&waiting, c"ready_order", &latest);
    names.keep_entries();
    let mut by_id = Index::open(&executions, c"ledger_pkey", &latest);
    let mut found: Vec<(String, Option<Instant>)> = Vec::new();
    let mut after: Option<String> = None;
    while found.len() < most {
        pgrx::check_for_interrupts!();
        match &after {
            None => names.seek(&[]),
            Some(queue) => names.seek(&[Condition::more_than(pg_sys::F_TEXT_GT, queue.as_str())]),
        }
        if !names.go_to_entry(false) {
            break;
        }
        let queue = names.entry_text(0)?;
        let first = ids(&waiting, &latest, &queue, 1, now).pop();
        if first.is_some_and(|id| by_id.find(&[Condition::equal(pg_sys::F_UUID_EQ, id)])) {
            let times = [ledger::CREATED_AT, ledger::RUN_AT, ledger::NEXT_RETRY_AT];
            let since = times.into_iter().filter_map(|column| executions.get_saturated(column)).max();
            found.push((queue.clone(), since));
        }
        after = Some(queue);
    }
    drop((names, by_id));
    found.sort_by_key(|(_, since)| *since);
    Some(found)
}

/// The first executions that can be claimed from a queue, up to `most`.
pub fn first_in(schema: Oid, queue: &str, most: usize, now: Instant) -> Option<Vec<Uuid>> {
    let waiting = readable(schema, &layouts::READY)?;
    let latest = LatestSnapshot::take();
    Some(ids(&waiting, &latest, queue, most, now))
}

fn ids(waiting: &Table, latest: &LatestSnapshot, queue: &str, most: usize, now: Instant) -> Vec<Uuid> {
    let from = scan_start::first_position(waiting, queue, now);
    let mut order = Waiting::from(Index::open(waiting, c"ready_order", latest), queue, from);
    let mut found = Vec::new();
    while found.len() < most && order.next(Index::next) {
        pgrx::check_for_interrupts!();
        found.push(waiting.get_required(ready::EXECUTION_ID));
    }
    found
}
