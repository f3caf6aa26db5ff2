//! Part of a transaction that may fail without taking the rest with it.

use std::panic::AssertUnwindSafe;
use std::ptr::null;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{pg_sys, PgSqlErrorCode, PgTryBuilder};

use crate::error::{Failure, Outcome};

/// Runs `body` in a subtransaction: an error rolls back what it did and is returned. A cancelled
/// statement and a shutdown are not the body's fault and go on to the caller.
pub fn run<R>(body: impl FnOnce() -> R) -> Outcome<R> {
    // SAFETY: the pattern of PL/pgSQL's exec_stmt_block: memory context and resource owner are those of before on both ways
    // out, and the subtransaction is released or rolled back on each.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(null());
        pg_sys::MemoryContextSwitchTo(context);
        let restore = move || {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        };
        let result = PgTryBuilder::new(AssertUnwindSafe(|| Ok(body())))
            .catch_others(|error| {
                pg_sys::MemoryContextSwitchTo(context);
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
                restore();
                let (code, message) = describe(&error);
                if code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED
                    || code == PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN
                    || code == PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE
                {
                    error.rethrow()
                }
                Err(Failure::new(code, message, ""))
            })
            .execute();
        if result.is_ok() {
            pg_sys::ReleaseCurrentSubTransaction();
            restore();
        }
        result
    }
}

/// SQLSTATE and message of an error, whichever language it came from.
pub fn describe(error: &CaughtError) -> (PgSqlErrorCode, String) {
    match error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => {
            (report.sql_error_code(), report.message().to_owned())
        }
        CaughtError::RustPanic { ereport, .. } => (ereport.sql_error_code(), ereport.message().to_owned()),
    }
}
