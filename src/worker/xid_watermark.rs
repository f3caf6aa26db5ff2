//! Whether a look would find anything else than those before it: only a transaction with an id changes rows, and the server counts
//! those. So a dispatcher that nobody woke asks no table while nothing at all is written, in any database.

use pgrx::pg_sys;

/// How many transactions of the server had an id when all of them had ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct XidWatermark(u64);

impl XidWatermark {
    /// What this transaction sees from its first snapshot on; `None` where another one with an id is open, a prepared one perhaps, which
    /// may still commit.
    pub fn now() -> Option<XidWatermark> {
        let next = next_transaction();
        // SAFETY: called in a transaction with an active snapshot.
        let (oldest_open, next_seen) = unsafe {
            let snapshot = pg_sys::GetActiveSnapshot();
            ((*snapshot).xmin, (*snapshot).xmax)
        };
        let all_ended = oldest_open == next_seen && pg_sys::TransactionId::from(next as u32) == next_seen;
        all_ended.then_some(XidWatermark(next))
    }

    /// Nothing can have been written since.
    pub fn is_current(self) -> bool {
        next_transaction() == self.0
    }
}

/// The id that the next transaction gets, counted on where ids begin anew.
fn next_transaction() -> u64 {
    // SAFETY: reads shared memory.
    unsafe { pg_sys::ReadNextFullTransactionId() }.value
}
