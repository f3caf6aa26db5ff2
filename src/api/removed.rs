//! Functions that are no more. The objects of the release that had them name their symbols until they are updated, and its install script,
//! from which updates are tried, would not run without.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
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

/// Of 0.1.0, whose own statements called it.
#[pg_extern(sql = false)]
fn is_being_claimed(_key: Uuid, _plan_time: TimestampWithTimeZone) -> bool {
    gone("is_being_claimed")
}
