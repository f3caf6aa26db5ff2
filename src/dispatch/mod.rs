//! One tick, in steps that the dispatcher runs in a transaction each and `dispatch_due` in its caller's: apply changes to
//! timers, end stale leases, make due retries claimable, fire due timers.

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

pub use arm::apply_changes;
pub use dropped::settle_dropped;
pub use explain::{explain, so_far, too_many, MOST_PLANS};
pub use fire::{fire_due, Done};
pub use policy::{catch_up_of, overlap_of, rearm_of};
pub use prune::Pruner;
pub use rebuild::rebuild;
pub use sweep::{end_of, end_runs, promote_retries, sweep_stale, EndedRuns};

use scheduler_core::Instant;

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
pub fn notify(session: &Session, queues: Vec<String>) {
    if guc::notify() && !queues.is_empty() && store::notify::has_room() {
        timer::notify(session, queues);
    }
}

/// The same for one queue, where nothing else calls for a statement.
pub fn notify_queue(owner: &Owner, queue: &str) {
    if guc::notify() && store::notify::has_room() {
        store::notify::queue(owner, queue);
    }
}
