//! One tick, in steps that the dispatcher runs in a transaction each and `dispatch_due` in its caller's: apply changes to
//! timers, end stale leases, make due retries claimable, fire due timers.

mod apply_changes;
mod bisect;
mod compile;
mod definition_history;
mod expire_leases;
mod explain;
mod fire;
mod prune;
mod rebuild;

pub use apply_changes::apply_changes;
pub use compile::{catch_up_of, overlap_of, rearm_of};
pub use expire_leases::{end_of, end_runs, promote_retries, sweep_stale, EndedRuns};
pub use explain::{explain, so_far, too_many, MOST_PLANS};
pub use fire::{fire_due, Fired};
pub use prune::Pruner;
pub use rebuild::rebuild;

use scheduler_core::Instant;

use crate::guc;
use crate::pg::{Owner, Session};
use crate::store::execution::{self, ExecutionBatch, Inserted};
use crate::store::{queue, timer};

/// Inserts executions that are not due plans; the queues hear of them.
pub fn insert(session: &Session, batch: ExecutionBatch, now: Instant) -> Inserted {
    let inserted = execution::insert(session, batch, now);
    notify(session, inserted.queues.clone());
    inserted
}

/// Tells the queues that something became claimable, once for each queue and transaction.
pub fn notify(session: &Session, queues: Vec<String>) {
    if guc::notify() && !queues.is_empty() && queue::notify::has_room() {
        timer::notify(session, queues);
    }
}

/// The same for one queue, where nothing else calls for a statement.
pub fn notify_queue(owner: &Owner, queue: &str) {
    if guc::notify() && queue::notify::has_room() {
        queue::notify::queue(owner, queue);
    }
}
