//! What a transaction remembers until it ends, each piece as long as the subtransaction that it comes from: what a savepoint is rolled back over
//! is forgotten, and what it releases is the outer one's.

use pgrx::pg_sys::{self, SubTransactionId};

/// Values, each with the subtransaction that has it.
pub struct BySubtransaction<T>(Vec<(T, SubTransactionId)>);

impl<T> BySubtransaction<T> {
    /// None.
    pub const fn new() -> BySubtransaction<T> {
        BySubtransaction(Vec::new())
    }

    /// One more, of the present subtransaction.
    pub fn push(&mut self, value: T) {
        // SAFETY: in a transaction.
        self.0.push((value, unsafe { pg_sys::GetCurrentSubTransactionId() }));
    }

    /// Those that are there.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(value, _)| value)
    }

    /// All; none is left.
    pub fn take(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.0).into_iter().map(|(value, _)| value)
    }

    /// To be said when subtransaction `mine` of `parent` has ended.
    pub fn subtransaction_ended(
        &mut self,
        event: pg_sys::SubXactEvent::Type,
        mine: SubTransactionId,
        parent: SubTransactionId,
    ) {
        use pg_sys::SubXactEvent::{SUBXACT_EVENT_ABORT_SUB, SUBXACT_EVENT_COMMIT_SUB};
        // Ids rise: those from `mine` on began in it.
        if event == SUBXACT_EVENT_ABORT_SUB {
            self.0.retain(|(_, asked_in)| *asked_in < mine);
        } else if event == SUBXACT_EVENT_COMMIT_SUB {
            self.0.iter_mut().filter(|(_, asked_in)| *asked_in >= mine).for_each(|(_, asked_in)| *asked_in = parent);
        }
    }
}
