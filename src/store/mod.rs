//! The only place that talks SQL and touches tables, a room for each kind of thing. One function = one statement, whose text is in
//! `sql/query/`; what leases and timers do all day goes row by row as well (`crate::heap`), with the statement's function beside it.

pub mod alert;
mod counted;
pub mod database_clock;
pub mod exclusive_lock;
pub mod execution;
pub mod fast_path;
pub mod grants;
pub mod handover;
pub mod health;
pub mod identity;
pub mod job;
pub mod lease;
pub mod low_water_marks;
pub mod metrics;
pub mod queue;
mod rare_rows;
pub mod report;
pub mod runner;
pub mod schedule;
pub mod shard;
pub mod test_mode;
pub mod timer;
