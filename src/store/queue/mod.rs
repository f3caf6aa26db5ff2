//! Queues: what is claimed from them row by row (`heap`) where the tables are as they were made, by statements where a superuser gave them
//! more to do (a trigger, a column).

use scheduler_core::Instant;

use crate::pg::{Owner, Session};
use crate::store::execution::{self, Claimed, QueueClaim};
use crate::store::fast_path;
use crate::store::job;
use crate::store::lease::sql;
use crate::{arguments, statement};

pub mod delivery;
pub mod delivery_queue;
pub mod draw;
pub mod elsewhere_queue;
pub mod enqueue;
pub mod heap;
pub mod notify;
pub mod pause;
pub mod queue_heads;
pub mod runner_heads;
pub mod runner_queue;
pub(in crate::store) mod scan_start;
pub mod unique_scope;
pub mod user_queue;
pub mod waiting;

/// The outcome of a claim on a queue.
pub struct QueueClaimed {
    /// The leases.
    pub claimed: Vec<Claimed>,
    /// Whether executions wait, and all of them belong to owners for whom the caller may not act; `None` where only `waits_for_others_only` knows.
    pub others_only: Option<bool>,
}

/// Leases what is claimable in a queue, retries that are due included.
pub fn claim(owner: &Owner, wanted: &QueueClaim, now: impl Fn() -> Instant) -> QueueClaimed {
    let find_job = |name: &str| job::find(owner, name);
    let queue = fast_path::open(owner.schema, |schema| heap::QueueTables::open(schema, now()));
    queue.and_then(|queue| queue.claim(wanted, now(), find_job)).unwrap_or_else(|| {
        let session = owner.session();
        sql::promote_retries_of(session, now(), &wanted.queue, wanted.limit, wanted.caller);
        QueueClaimed { claimed: execution::claim(session, wanted, now()), others_only: None }
    })
}

/// Whether executions wait in the queue, all of them of owners for whom the caller may not act.
pub fn waits_for_others_only(session: &Session, wanted: &QueueClaim) -> bool {
    statement!(WAITS_FOR_OTHERS = "queue/waits_for_others"(TEXTOID, OIDOID));
    WAITS_FOR_OTHERS.run(session, arguments![wanted.queue.as_str(), wanted.caller]).len() > 0
}
