//! Instants and the calendar, as PostgreSQL counts them.

pub mod civil;
pub mod instant;
pub mod units;

pub use instant::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};
