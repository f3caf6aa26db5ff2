//! Functions that are no more. The objects of the release that had them name their symbols until they are updated, and its install script,
//! from which updates are tried, would not run without.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::pg::error::{raise, Failure};

fn gone(function: &str) -> ! {
    raise(Failure::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("function \"sched.{function}\" is of an older version than the scheduler's library"),
        "Run ALTER EXTENSION scheduler UPDATE in this database.",
    ))
}

/// Of 0.1.0, with fewer arguments.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)]
fn define_job(
    _job_name: Option<String>,
    _kind: Option<String>,
    _command: Option<String>,
    _queue: Option<String>,
    _max_attempts: Option<i32>,
    _retry_backoff: Option<Vec<Option<Interval>>>,
    _run_timeout: Option<Interval>,
    _stale_timeout: Option<Interval>,
    _allow_stale_reentry: Option<bool>,
    _priority: Option<i32>,
) {
    gone("define_job")
}

/// Of 0.1.0, whose own statements called it.
#[pg_extern(sql = false)]
fn is_being_claimed(_key: Uuid, _plan_time: TimestampWithTimeZone) -> bool {
    gone("is_being_claimed")
}
