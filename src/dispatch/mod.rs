//! One tick, in steps that the dispatcher runs in a transaction each and `dispatch_due` in its caller's: apply changes to
//! timers, end stale leases, make due retries claimable, fire due timers.

mod ahead;
mod arm;
mod dropped;
mod explain;
mod fire;
mod halve;
mod past;
mod policy;
mod prune;
mod rebuild;
mod sweep;
mod views;

pub use ahead::report as report_ahead;
pub use arm::apply_changes;
pub use dropped::settle_dropped;
pub use explain::{explain, too_many, MOST_PLANS};
pub use fire::{fire_due, Done};
pub use past::Bounded;
pub use policy::{catch_up_of, overlap_of, rearm_of, MAX_PLANS_PER_TICK};
pub use prune::Pruner;
pub use rebuild::rebuild;
pub use sweep::{end_of, end_runs, promote_retries, sweep_stale, EndedRuns};
pub use views::{next_open, skip_parts, so_far};

use scheduler_core::Instant;

use crate::convert::MAX_QUEUE_BYTES;
use crate::guc;
use crate::store::execution::{self, Batch, Inserted};
use crate::store::{self, timer, Owner, Session};

/// Inserts executions that are not due plans; the queues hear of them.
pub fn insert(session: &Session, batch: Batch, now: Instant) -> Inserted {
    let inserted = execution::insert(session, batch, now);
    notify(session, inserted.queues.clone());
    inserted
}

/// Tells the queues that something became claimable, once for each queue and transaction.
pub fn notify(session: &Session, mut queues: Vec<String>) {
    // A name that a hand has written may be longer than a channel's, and nobody can listen for it.
    queues.retain(|queue| queue.len() <= MAX_QUEUE_BYTES);
    if guc::notify() && !queues.is_empty() && store::notify::has_room() {
        timer::notify(session, queues);
    }
}

/// The same for one queue, where nothing else calls for a statement.
pub fn notify_queue(owner: &Owner, queue: &str) {
    if guc::notify() && queue.len() <= MAX_QUEUE_BYTES && store::notify::has_room() {
        store::notify::queue(owner, queue);
    }
}
