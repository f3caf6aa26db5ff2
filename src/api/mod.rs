//! The SQL functions, one file per noun: check the arguments, call, return. `COMMENT ON` texts are in `sql/schema/90_grants.sql`.

mod claim;
mod clock;
mod crontab;
mod dispatch;
mod enqueue;
mod enqueue_unique;
pub mod explain;
mod handover;
mod health;
pub mod home;
mod job;
mod job_edit;
mod lease;
mod metrics;
mod planning;
mod queue;
mod removed;
mod report;
mod result;
mod schedule;
mod schedule_bulk;
mod schedule_edit;
mod schedule_runs;
mod sql_job;
mod sql_run;
pub mod sql_support;
mod waiting;
