//! `test_mode`, `advance`, `now`, `reset`, `drain_sql`: a database in which an application's tests move the clock, and nothing runs by itself.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::Instant;

use crate::dispatch;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::{role, session, syscache};
use crate::shmem::registry::{self, Presence};
use crate::shmem::{counters, wakeup};
use crate::store::{database_clock, identity, low_water_marks, test_mode as store};
use crate::worker::drain;

use crate::api::job::at_least_one;
use crate::api::result::TableIterator;

/// A database with more executions is not one of tests.
const MOST_EXECUTIONS: i64 = 100_000;

// (Made by 00_schema.sql: defaults of columns and arguments call it.)
#[pg_extern(sql = false)]
fn now() -> TimestampWithTimeZone {
    convert::timestamp(database_clock::now())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn test_mode(enabled: default!(Option<bool>, "true")) {
    or_raise((|| {
        let enabled = required("enabled", enabled)?;
        if enabled == database_clock::is_test() {
            return Ok(());
        }
        session(|session| {
            identity::refuse_distributed(|| session)?;
            if enabled {
                check(&store::obstacle(session, MOST_EXECUTIONS))?;
                store::begin(session);
                return Ok(());
            }
            if !store::may_end(session) {
                return Err(Failure::new(
                    PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "executions of the test are left",
                    "Call sched.reset() first: it deletes them, and the end of test mode sets the clock back.",
                ));
            }
            store::end(session);
            // Of times that lie ahead now.
            low_water_marks::forget_all();
            identity::begin_anew(session, database_clock::now());
            Ok(())
        })?;
        // A dispatcher that is there looks, says so and leaves.
        wakeup::at_commit(database_clock::now());
        // SAFETY: reads a global of the process.
        let presence = registry::presence(unsafe { pg_sys::MyDatabaseId.to_u32() });
        if !enabled || presence == Presence::Absent {
            wakeup::dispatcher_at_commit();
        }
        Ok(())
    })())
}

fn check(obstacle: &store::Obstacle) -> Outcome<()> {
    let message = match obstacle {
        store::Obstacle { is_large: true, .. } => {
            format!("database \"{}\" holds more than {MOST_EXECUTIONS} executions", syscache::database_name())
        }
        store::Obstacle { other_owner: Some(owner), .. } => format!(
            "schedules of role {}, which does not own database \"{}\", have fired in it",
            role::quoted(*owner),
            syscache::database_name()
        ),
        store::Obstacle { is_large: false, other_owner: None } => return Ok(()),
    };
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        message,
        "Test mode is for a database of tests: call it right after CREATE EXTENSION, before schedules are created.",
    ))
}

/// `55000` outside of test mode, and in the process of a run.
fn require_test_mode(function: &str) -> Outcome<()> {
    // SAFETY: reads a global of the process.
    if !unsafe { pg_sys::MyBgworkerEntry }.is_null() {
        // The transaction that waits for the run in drain_sql may have moved the clock, and holds its row.
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("sched.{function} cannot be called by the run of an SQL job"),
            "Call it in the session of the test.",
        ));
    }
    if database_clock::is_test() {
        return Ok(());
    }
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "sched.{function} works in test mode only, and database \"{}\" is not in it",
            syscache::database_name()
        ),
        "Call sched.test_mode() in a database of tests.",
    ))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn advance(by: Option<Interval>) -> TimestampWithTimeZone {
    or_raise((|| {
        let by = required("by", by)?;
        require_test_mode("advance")?;
        let micros = session(|session| store::length(session, database_clock::now(), by));
        if micros <= 0 {
            return Err(Failure::invalid(
                format!("by must be positive, not {} seconds", micros as f64 / 1e6),
                "The clock moves forward only. sched.test_mode(false) sets it back.",
            ));
        }
        if database_clock::now().checked_add_micros(micros).is_none_or(|then| then > LATEST) {
            return Err(Failure::out_of_range("by leads past the year 9000", "Pass a shorter interval."));
        }
        // What was edited before is armed before, as a dispatcher would have done at once.
        dispatch::apply_all_changes();
        session(|session| store::advance(session, micros));
        Ok(now())
    })())
}

/// 9000-01-01 in UTC, so that no sum with a length of time leaves the range of the server.
const LATEST: Instant = match Instant::from_micros(220_898_707_200_000_000) {
    Some(latest) => latest,
    None => Instant::MAX,
};

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn reset(keep_definitions: default!(Option<bool>, "true")) {
    or_raise((|| {
        let keeps_definitions = required("keep_definitions", keep_definitions)?;
        require_test_mode("reset")?;
        session(|session| store::reset(session, keeps_definitions, database_clock::now()));
        dispatch::apply_all_changes();
        counters::pending::begin_anew_at_commit();
        Ok(())
    })())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn drain_sql(
    max_executions: default!(Option<i32>, "NULL"),
) -> TableIterator<'static, (name!(execution_id, Uuid), name!(status, String))> {
    or_raise((|| {
        let most = max_executions.map(|most| at_least_one("max_executions", most)).transpose()?;
        require_test_mode("drain_sql")?;
        check_snapshots()?;
        let mut ended = Vec::new();
        while most.is_none_or(|most| ended.len() < most.unsigned_abs() as usize) {
            let Some(run) = drain::run_next()? else { break };
            ended.push(run);
        }
        Ok(TableIterator::new(ended))
    })())
}

/// `0A000` in a transaction that never sees what other processes commit.
fn check_snapshots() -> Outcome<()> {
    // SAFETY: reads a global of the backend.
    if unsafe { pg_sys::XactIsoLevel } < pg_sys::XACT_REPEATABLE_READ as i32 {
        return Ok(());
    }
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        "sched.drain_sql works in a READ COMMITTED transaction only",
        "Another one does not see what the processes commit that run the jobs: SET TRANSACTION ISOLATION LEVEL READ COMMITTED.",
    ))
}
