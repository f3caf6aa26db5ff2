//! The dispatcher as a sender of notifications: what commits mark it sends, many at once where they come faster than it sends.

use std::cell::Cell;
use std::time::{Duration, Instant as Moment};

use scheduler_core::Instant;

use crate::pg::run_settings;
use crate::shmem::notifications;
use crate::shmem::registry::marks;
use crate::store::queue::notify;
use crate::worker::transaction;

/// The least time from one to the next. What comes after a pause is sent at once.
const PACE: Duration = Duration::from_millis(2);

thread_local! {
    static LAST: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// When the next are to be sent; `None` where no queue is marked. `now` is this moment.
pub fn next(database: u32, now: Instant) -> Option<Instant> {
    if !marks::has_marked(database) {
        return None;
    }
    let left = LAST.get().map_or(Duration::ZERO, |last| PACE.saturating_sub(last.elapsed()));
    now.checked_add_micros(i64::try_from(left.as_micros()).unwrap_or(0))
}

/// Notifies the queues that are marked, unless it is too early.
pub fn send(database: u32) {
    if !marks::has_marked(database) || LAST.get().is_some_and(|last| last.elapsed() < PACE) {
        return;
    }
    marks::take_marked(database);
    let queues = notifications::take_marked(database);
    let notify = || {
        // Who listens would not hear of it after a crash anyway.
        run_settings::apply_to_transaction(c"synchronous_commit", c"off");
        if notify::has_room() {
            queues.iter().for_each(|queue| notify::of(queue));
        }
    };
    marks::end_sending(database, queues.is_empty() || transaction::run(c"notifying queues", notify).is_some());
    LAST.set(Some(Moment::now()));
}
