//! Queues hear that something became claimable, once for each queue and transaction at most: by the dispatcher where there is one.

use scheduler_core::Instant;

use crate::guc;
use crate::pg::convert::MAX_QUEUE_BYTES;
use crate::pg::{subtransaction, Owner, Session};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::execution::{self, ExecutionBatch, Inserted};
use crate::store::queue::{delivery_queue, runner_queue};
use crate::store::{queue, timer};

/// Inserts executions that are not due plans; the queues hear of them.
pub fn insert(session: &Session, batch: ExecutionBatch, now: Instant) -> Inserted {
    let inserted = execution::insert(session, batch, now);
    notify(session, inserted.queues.clone());
    inserted
}

/// Tells the queues that something became claimable, once for each queue and transaction.
pub fn notify(session: &Session, mut queues: Vec<String>) {
    queues.retain(|queue| !wakes_worker(queue));
    // A name that a hand has written may be longer than a channel's, and nobody can listen for it.
    queues.retain(|queue| queue.len() <= MAX_QUEUE_BYTES);
    if !guc::notify() {
        return;
    }
    // What a dispatcher writes it commits and notifies at once.
    if !subtransaction::is_in_a_dispatcher() {
        queues.retain(|queue| !wakeup::notify_at_commit(queue));
    }
    if !queues.is_empty() && queue::notify::has_room() {
        timer::notify(session, queues);
    }
}

/// Notifies all queues in which something waits, of users.
pub fn notify_all(session: &Session) -> usize {
    let queues = queue::notify::waiting(session);
    let count = queues.len();
    notify(session, queues);
    count
}

/// The same for one queue, where nothing else calls for a statement.
pub fn notify_queue(owner: &Owner, queue: &str) {
    if wakes_worker(queue) || !guc::notify() || queue.len() > MAX_QUEUE_BYTES {
        return;
    }
    let is_left_to_it = !subtransaction::is_in_a_dispatcher() && wakeup::notify_at_commit(queue);
    if !is_left_to_it && queue::notify::has_room() {
        queue::notify::queue(owner, queue);
    }
}

/// Has the worker look for what came up in its queue that takes from there; whether this is such a queue.
fn wakes_worker(queue: &str) -> bool {
    if delivery_queue::is_delivery_queue(queue) {
        wakeup::at_commit(database_clock::now());
        return true;
    }
    let owner = runner_queue::owner(queue);
    owner.into_iter().for_each(wakeup::runner_at_commit);
    owner.is_some()
}
