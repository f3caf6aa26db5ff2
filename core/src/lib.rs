//! The pure half of the scheduler: no Postgres, no I/O, no clock of its own. `now`, the zone and the anchor are
//! always arguments, so every decision can be tested with a table of inputs.

pub mod backoff;
pub mod catch_up;
pub mod civil;
pub mod clock;
pub mod crontab;
pub mod instant;
pub mod jitter;
pub mod lease;
pub mod overlap;
pub mod plan;
pub mod rest;
pub mod set_back;
pub mod skip;
pub mod sleep;
pub mod zone;

pub use clock::{Clock, ClockError};
pub use instant::Instant;
