//! What is cleared between two runs.

use crate::execute;
use crate::worker::transaction;

/// Does what DISCARD ALL does, but for the plans of our own statements; false where it failed.
pub fn clear_session() -> bool {
    transaction::run(c"clearing the session", || {
        // SAFETY: in a transaction of this process.
        unsafe { execute::discard_all() }
        crate::worker::pin(c"exit_on_error", c"off");
    })
    .is_some()
}
