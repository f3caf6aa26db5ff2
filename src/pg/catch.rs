//! Errors of the server as failures.

use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{pg_sys, PgSqlErrorCode, PgTryBuilder};

use crate::pg::error::{Failure, Outcome};

/// Runs `body`; what it raises comes back, but for a cancel and a shutdown. No subtransaction: only for what opens and writes nothing, or
/// where the caller raises again.
pub fn catch<R>(body: impl FnOnce() -> R) -> Outcome<R> {
    // SAFETY: reads and writes globals of the backend's only thread.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        PgTryBuilder::new(AssertUnwindSafe(|| Ok(body())))
            .catch_others(|error| {
                pg_sys::MemoryContextSwitchTo(context);
                let failure = failure_of(&error);
                let is_the_sessions = [PgSqlErrorCode::ERRCODE_QUERY_CANCELED, PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN];
                if is_the_sessions.contains(&failure.code) {
                    error.rethrow()
                }
                Err(failure)
            })
            .execute()
    }
}

fn failure_of(error: &CaughtError) -> Failure {
    let of = |code, message: &str, detail: Option<&str>, hint: Option<&str>| Failure {
        detail: detail.map(str::to_owned),
        ..Failure::new(code, message, hint.unwrap_or_default())
    };
    match error {
        CaughtError::PostgresError(report)
        | CaughtError::ErrorReport(report)
        | CaughtError::RustPanic { ereport: report, .. } => {
            of(report.sql_error_code(), report.message(), report.detail(), report.hint())
        }
    }
}
