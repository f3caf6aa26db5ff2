//! The queue as users know it, wherever its executions wait.

use crate::store::queue::runner_queue;

/// What the names of queues begin with that dispatchers deliver from; executions_enqueue.sql says the same.
pub const DELIVERY_PREFIX: &str = "executions that a dispatcher delivers when they are due, those of queue ";

/// The queue that users know, by the one that an execution has.
pub fn user_queue(queue: &str) -> &str {
    queue.strip_prefix(DELIVERY_PREFIX).unwrap_or_else(|| runner_queue::user_queue(queue))
}
