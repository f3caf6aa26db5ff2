//! Queues of executions whose bucket has left this server, one for each queue that they come from. Their names are longer than a queue of users
//! may have, as those of runners and dispatchers are, and nobody looks through them; `shard/waiting_move.sql` makes them.

use crate::pg::convert::MAX_QUEUE_BYTES;

/// What their names begin with; a user's queue may as well.
const PREFIX: &str = "elsewhere:";

/// Whether this is such a queue.
pub fn is_elsewhere_queue(queue: &str) -> bool {
    queue.len() > MAX_QUEUE_BYTES && queue.starts_with(PREFIX)
}
