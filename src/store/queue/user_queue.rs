//! The queue as users know it, wherever its executions wait.

pub use crate::store::queue::runner_queue::user_queue;

/// What the names of queues begin with that dispatchers deliver from, one for each owner and each queue of theirs; executions_enqueue.sql says the same.
pub const DELIVERY_PREFIX: &str = "executions that a dispatcher delivers, for the role with oid ";
