//! One transaction of a worker: an error ends it, is logged, and harms nothing that comes after.
//! (pgrx' own helper neither catches nor aborts, and tells the statistics nothing, so that autovacuum would not see our tables.)

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, UnwindSafe};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{pg_sys, PgLogLevel, PgSqlErrorCode, PgTryBuilder};

/// Runs `body` in a transaction of its own. An error (or a panic) rolls it back, goes to the server's log as a WARNING
/// that starts with `what`, and gives `None`.
pub fn run<R>(what: &CStr, body: impl FnOnce() -> R + UnwindSafe) -> Option<R> {
    // SAFETY: called between transactions only; every path leaves by commit or abort.
    unsafe {
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, what.as_ptr());
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
    }
    let whole = AssertUnwindSafe(|| unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body();
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        Some(result)
    });
    let result = PgTryBuilder::new(whole)
        .catch_others(|error| {
            let (code, text) = crate::subtransaction::describe(&error);
            // SAFETY: the error has been handled; this is what PostgresMain does with a failed transaction.
            unsafe {
                pg_sys::AbortCurrentTransaction();
            }
            // DROP EXTENSION may have waited for us, or we for it; the dispatcher finds out by itself.
            if code != PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE || extension_exists() {
                log(&what.to_string_lossy(), &text);
            }
            None
        })
        .execute();
    // SAFETY: between transactions.
    unsafe {
        pg_sys::pgstat_report_stat(true);
    }
    result
}

fn log(what: &str, text: &str) {
    ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, format!("scheduler: {what} failed: {text}"), "scheduler")
        .report(PgLogLevel::WARNING);
}

/// Whether the extension is in this database, in a transaction of its own.
fn extension_exists() -> bool {
    // SAFETY: called between transactions; catalog look-ups, which raise nothing.
    unsafe {
        pg_sys::StartTransactionCommand();
        let exists = pg_sys::get_extension_oid(c"scheduler".as_ptr(), true) != pg_sys::Oid::INVALID;
        pg_sys::CommitTransactionCommand();
        exists
    }
}
