//! The pure half of the scheduler: no Postgres, no I/O, no clock of its own. `now`, the zone and the anchor are
//! always arguments, so every decision can be tested with a table of inputs.
//!
//! Rooms, from the bottom up; a room imports only from rooms before it:
//!
//! - `keyword`: the words of columns and arguments, as enums.
//! - `time`: instants and the calendar.
//! - `clock`: a clock's text, and the plan times that it has in a zone.
//! - `schedule`: which plan times run, which are skipped, and what comes next.
//! - `job`: the kinds of jobs.
//! - `enqueue`: what makes two calls of it mean the same.
//! - `lease`: the states of an execution and what may become of it.
//! - `crontab`: crontabs as Debian's cron reads them.
//! - `foreign`: clocks of other schedulers, as clocks of ours.
//! - `runtime`: how long a dispatcher waits.
//! - `health`: how bad a state is.
//! - `metrics`: what is counted, and how a monitoring system reads it.
//! - `alert`: which alerts a schedule calls for.
//! - `report`: a page and a text that show what became of plan times.

pub mod alert;
pub mod clock;
pub mod crontab;
pub mod enqueue;
pub mod foreign;
pub mod health;
pub mod job;
mod keyword;
pub mod lease;
pub mod metrics;
pub mod report;
pub mod runtime;
pub mod schedule;
pub mod time;

pub use clock::{Clock, ClockError};
pub use keyword::Keyword;
pub use time::Instant;
