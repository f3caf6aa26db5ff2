//! Queues of the server's own runners, one for each owner of jobs of kind `sql`. Their names are longer than a queue of users may have: nobody
//! can claim from them, nor listen for them.

use pgrx::pg_sys::Oid;

use crate::pg::convert::MAX_QUEUE_BYTES;

/// What their names begin with; `sched.job.ready_queue` says the same.
pub const PREFIX: &str = "executions that the server runs itself, as the role with oid ";

const _: () = assert!(PREFIX.len() > MAX_QUEUE_BYTES);

/// Where executions wait that run as this role.
pub fn name(owner: Oid) -> String {
    format!("{PREFIX}{:010}", owner.to_u32())
}

/// Whether executions that the server runs itself wait there.
pub fn is_runner_queue(queue: &str) -> bool {
    queue.starts_with(PREFIX)
}

/// Whose runners take what waits in this queue, if it is one of theirs.
pub fn owner(queue: &str) -> Option<Oid> {
    queue.strip_prefix(PREFIX)?.parse().ok().map(Oid::from_u32)
}

/// The least and the greatest name that these queues can have.
pub fn bounds() -> [String; 2] {
    [format!("{PREFIX}0000000000"), format!("{PREFIX}9999999999")]
}
