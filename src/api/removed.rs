//! Functions that are no more. The objects of the release that had them name their symbols until they are updated, and its install script,
//! from which updates are tried, would not run without.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::pg::error::{raise, Failure};
use crate::pg::sql_type::Ignored;

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
    _job_name: Option<Ignored>,
    _kind: Option<Ignored>,
    _command: Option<Ignored>,
    _queue: Option<Ignored>,
    _max_attempts: Option<i32>,
    _retry_backoff: Option<Ignored>,
    _run_timeout: Option<Interval>,
    _stale_timeout: Option<Interval>,
    _allow_stale_reentry: Option<bool>,
    _priority: Option<i32>,
) {
    gone("define_job")
}

/// Of 0.2.0, with fewer arguments.
#[pg_extern(sql = false)]
fn enqueue(
    _job_name: Option<Ignored>,
    _payload: Option<Ignored>,
    _plan_time: Option<TimestampWithTimeZone>,
    _scope_kind: Option<Ignored>,
    _scope_id: Option<Ignored>,
) -> Uuid {
    gone("enqueue")
}

/// Of 0.2.0, with fewer arguments.
#[pg_extern(sql = false)]
fn enqueue_many(
    _job_name: Option<Ignored>,
    _payloads: Option<Ignored>,
    _plan_times: Option<Ignored>,
    _scope_kind: Option<Ignored>,
    _scope_ids: Option<Ignored>,
) -> SetOfIterator<'static, Uuid> {
    gone("enqueue_many")
}

/// Of 0.3.1, with fewer arguments.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)]
fn alter_job(
    _job_name: Option<Ignored>,
    _kind: Option<Ignored>,
    _command: Option<Ignored>,
    _queue: Option<Ignored>,
    _max_attempts: Option<i32>,
    _retry_backoff: Option<Ignored>,
    _run_timeout: Option<Interval>,
    _stale_timeout: Option<Interval>,
    _allow_stale_reentry: Option<bool>,
    _priority: Option<i32>,
    _own_transactions: Option<bool>,
    _settings: Option<Ignored>,
    _reset: Option<Ignored>,
) {
    gone("alter_job")
}

/// Of 0.3.1, with fewer arguments.
#[pg_extern(sql = false)]
fn alter_execution(
    _execution_id: Option<Uuid>,
    _payload: Option<Ignored>,
    _run_at: Option<TimestampWithTimeZone>,
    _priority: Option<i32>,
) -> bool {
    gone("alter_execution")
}

/// Of 0.1.0, whose own statements called it.
#[pg_extern(sql = false)]
fn is_being_claimed(_key: Uuid, _plan_time: TimestampWithTimeZone) -> bool {
    gone("is_being_claimed")
}

/// Of 0.1.0, with fewer columns.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)]
fn try_claim(
    _job_name: Option<Ignored>,
    _plan_time: Option<TimestampWithTimeZone>,
    _scope_kind: Option<Ignored>,
    _scope_id: Option<Ignored>,
    _runner_id: Option<Ignored>,
    _stale_timeout: Option<Interval>,
    _max_attempts: Option<i32>,
    _allow_stale_reentry: Option<bool>,
) {
    gone("try_claim")
}

/// Of 0.1.0, with fewer columns.
#[pg_extern(sql = false)]
fn claim(
    _queue: Option<Ignored>,
    _max_claims: Option<i32>,
    _runner_id: Option<Ignored>,
    _stale_timeout: Option<Interval>,
) {
    gone("claim")
}

/// Of 0.1.0 and 0.2.0, with fewer arguments.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)]
fn create_schedule(
    _schedule_name: Option<Ignored>,
    _clock: Option<Ignored>,
    _job_name: Option<Ignored>,
    _time_zone: Option<Ignored>,
    _payload: Option<Ignored>,
    _scope_kind: Option<Ignored>,
    _scope_id: Option<Ignored>,
    _catch_up: Option<Ignored>,
    _catch_up_window: Option<Interval>,
    _max_plans_per_tick: Option<i32>,
    _rearm: Option<Ignored>,
    _overlap: Option<Ignored>,
    _delay: Option<Interval>,
    _jitter: Option<Interval>,
    _starts_at: Option<TimestampWithTimeZone>,
    _ends_at: Option<TimestampWithTimeZone>,
    _ownership: Option<Ignored>,
    _enabled: Option<bool>,
) -> i64 {
    gone("create_schedule")
}

/// Of 0.1.0 and 0.2.0, with fewer arguments.
#[pg_extern(sql = false)]
#[allow(clippy::too_many_arguments)]
fn alter_schedule(
    _schedule_name: Option<Ignored>,
    _clock: Option<Ignored>,
    _job_name: Option<Ignored>,
    _time_zone: Option<Ignored>,
    _payload: Option<Ignored>,
    _scope_kind: Option<Ignored>,
    _scope_id: Option<Ignored>,
    _catch_up: Option<Ignored>,
    _catch_up_window: Option<Interval>,
    _max_plans_per_tick: Option<i32>,
    _rearm: Option<Ignored>,
    _overlap: Option<Ignored>,
    _delay: Option<Interval>,
    _jitter: Option<Interval>,
    _starts_at: Option<TimestampWithTimeZone>,
    _ends_at: Option<TimestampWithTimeZone>,
    _ownership: Option<Ignored>,
    _enabled: Option<bool>,
    _new_name: Option<Ignored>,
    _reset: Option<Ignored>,
) {
    gone("alter_schedule")
}
