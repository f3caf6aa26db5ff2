//! The states of an execution, and what a claim, a failure or a cancel makes of each.

mod status;
mod transitions;

pub use status::Status;
pub use transitions::{
    cancel, claim, failed, stale, Cancel, Claim, ClaimRefusal, FailureOutcome, Limits, State, CONFLICTED,
};
