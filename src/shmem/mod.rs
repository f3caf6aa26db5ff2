//! What the processes of a server share, in shared memory: who is at work and until when he sleeps, who wants a database to himself, and before
//! which position of an order there is nothing. It knows nothing of our tables.

pub mod counters;
pub mod exclusion;
pub mod gate;
pub mod log_limit;
pub mod low_water_mark;
pub mod notifications;
pub mod registry;
pub mod runners;
mod spinlock;
pub mod wakeup;
