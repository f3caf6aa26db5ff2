//! Queues of the server's own runners, one for each owner of jobs of kind `sql` and each queue of theirs. Their names are longer than a queue of
//! users may have: nobody can claim from them, nor listen for them.

use pgrx::pg_sys::Oid;

use crate::pg::convert::MAX_QUEUE_BYTES;

/// What their names begin with; `sched.job.ready_queue` says the same.
pub const PREFIX: &str = "executions that the server runs itself, as the role with oid ";

/// What comes before the job's queue in each name of ours; views know this number.
const BEFORE_QUEUE: usize = 72;

const OWNER_DIGITS: usize = 10;

const _: () = assert!(PREFIX.len() > MAX_QUEUE_BYTES && PREFIX.len() + OWNER_DIGITS + " ".len() == BEFORE_QUEUE);

/// Where executions of jobs of this queue wait that run as this role.
#[cfg(any(test, feature = "pg_test"))]
pub fn name(owner: Oid, queue: &str) -> String {
    prefix_of(owner) + queue
}

/// What the names of this owner's queues begin with.
pub fn prefix_of(owner: Oid) -> String {
    format!("{PREFIX}{:010} ", owner.to_u32())
}

/// Whether executions that the server runs itself wait there.
pub fn is_runner_queue(queue: &str) -> bool {
    queue.starts_with(PREFIX)
}

/// Whose runners take what waits in this queue, if it is one of theirs.
pub fn owner(queue: &str) -> Option<Oid> {
    queue.strip_prefix(PREFIX)?.get(..OWNER_DIGITS)?.parse().ok().map(Oid::from_u32)
}

/// The queue as users know it: the job's, where what waits is not for them to claim.
pub fn user_queue(queue: &str) -> &str {
    if queue.len() <= MAX_QUEUE_BYTES {
        return queue;
    }
    queue.get(BEFORE_QUEUE..).unwrap_or(queue)
}

/// Names between which all of these queues are, or those of one owner: the digits say so in any collation.
pub fn bounds(owner: Option<Oid>) -> [String; 2] {
    let (first, last) = owner.map_or((0, 9_999_999_999), |owner| {
        let number = u64::from(owner.to_u32());
        (number, number + 1)
    });
    [first, last].map(|number| format!("{PREFIX}{number:010}"))
}
