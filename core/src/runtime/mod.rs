//! How long a dispatcher waits: after a failure, for others, and until the next deadline.

pub mod backoff;
pub mod cooldown;
pub mod set_back;
pub mod sleep;
