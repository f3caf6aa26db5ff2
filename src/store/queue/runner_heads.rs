//! The queues in which something waits for an owner's runners, row by row: what owners_waiting.sql says of one owner.
//!
//! A runner asks before each claim. So it goes past what was claimed and is not vacuumed yet as claims do, from the queue's low-water mark on,
//! for the queues that it has met; and only between those it looks for others.

use std::cell::RefCell;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::layouts::{self, ready};
use crate::heap::{Condition, Index, LatestSnapshot, Table};
use crate::pg::record::Record;
use crate::shmem::low_water_mark::Position;
use crate::store::queue::scan_start::{self, Waiting};
use crate::store::queue::{pause, runner_queue};

/// How many queues a process remembers at most.
const MOST: usize = 64;

thread_local! {
    /// The queues that this process has met, in the order of the index, and of whom.
    static KNOWN: RefCell<(Oid, Vec<String>)> = const { RefCell::new((Oid::INVALID, Vec::new())) };
}

/// All of them, the one with what comes first before the others; `None` where one is paused, or the table is not as this file expects it.
pub fn queues_waiting(schema: Oid, owner: Oid, now: Instant) -> Option<Vec<String>> {
    let waiting = Table::open(schema, &layouts::READY)?;
    let (known_owner, known) = KNOWN.take();
    let known = if known_owner == owner { known } else { Vec::new() };
    let (mut heads, names) = look(&waiting, owner, known, now);
    if names.len() <= MOST {
        KNOWN.set((owner, names));
    }
    if heads.iter().any(|(_, queue)| pause::is_any_paused_now(schema, queue, now)) {
        return None;
    }
    heads.sort_unstable();
    Some(heads.into_iter().map(|(_, queue)| queue).collect())
}

/// What comes first in each queue in which something waits, and all queues that are known now.
fn look(waiting: &Table, owner: Oid, known: Vec<String>, now: Instant) -> (Vec<(Position, String)>, Vec<String>) {
    let prefix = runner_queue::prefix_of(owner);
    let [mut after, last] = runner_queue::bounds(Some(owner));
    let latest = LatestSnapshot::take();
    let mut between = Index::open(waiting, c"ready_order", &latest);
    let (mut heads, mut names) = (Vec::new(), Vec::new());
    for next in known.into_iter().map(Some).chain([None]) {
        let end = next.as_deref().unwrap_or(&last);
        loop {
            between.seek_between(
                Condition::more_than(pg_sys::F_TEXT_GT, after.as_str()),
                Condition::less_than(pg_sys::F_TEXT_LT, end),
            );
            if !between.next() {
                break;
            }
            after = waiting.get_required(ready::QUEUE);
            if after.starts_with(&prefix) {
                heads.push((scan_start::position(waiting), after.clone()));
                names.push(after.clone());
            }
        }
        let Some(queue) = next else { break };
        let from = scan_start::first_position(waiting, &queue, now);
        let mut order = Waiting::from(Index::open(waiting, c"ready_order", &latest), &queue, from);
        if order.next(Index::next) {
            heads.push((scan_start::position(waiting), queue.clone()));
        }
        after.clone_from(&queue);
        names.push(queue);
    }
    (heads, names)
}
