//! The SQL functions, one file per noun: check the arguments, call, return. `COMMENT ON` texts are in `sql/schema/90_grants.sql`.

mod claim;
mod clock;
mod crontab;
mod dispatch;
mod enqueue;
pub mod explain;
pub mod home;
mod job;
mod lease;
mod planning;
mod removed;
mod result;
mod schedule;
mod schedule_bulk;
mod schedule_edit;
mod schedule_runs;
mod sql_job;
mod sql_run;
pub mod sql_support;
