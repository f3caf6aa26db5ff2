//! What users read of an execution's state.

use crate::keyword::keywords;

keywords! {
    /// The status of an execution. The ledger stores all but RUNNING, which a row among the leases says.
    pub enum Status {
        /// Dispatched or enqueued, never claimed.
        Pending = "PENDING",
        /// Leased.
        Running = "RUNNING",
        /// Done.
        Success = "SUCCESS",
        /// Failed: with a next_retry_at it will be tried again, without it has ended.
        Failed = "FAILED",
        /// Ended because it was asked to stop.
        Cancelled = "CANCELLED",
    }
}
