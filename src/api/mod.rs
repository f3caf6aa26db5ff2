//! The SQL functions, one file per noun: check the arguments, call, return. `COMMENT ON` texts are in `sql/schema/90_grants.sql`.

mod clock;
mod crontab;
mod dispatch;
mod enqueue;
mod execution;
mod former;
mod history;
pub mod home;
pub mod internal;
mod job;
mod lease;
mod result;
mod schedule;
mod schedule_bulk;
mod schedule_runs;
pub mod skip;
