//! One transaction of a worker: an error ends it, is logged, and harms nothing that comes after.
//! (pgrx' own helper neither catches nor aborts, and tells the statistics nothing, so that autovacuum would not see our tables.)

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, UnwindSafe};

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{pg_sys, PgLogLevel, PgSqlErrorCode, PgTryBuilder};

use crate::pg::{compat, error};

/// Runs `body` in a transaction of its own. An error (or a panic) rolls it back, goes to the server's log as a WARNING
/// that starts with `what`, and gives `None`.
pub fn run<R>(what: &CStr, body: impl FnOnce() -> R + UnwindSafe) -> Option<R> {
    attempt(what, body).map_err(|message| log(what, &message)).ok()
}

/// Runs `body` in a transaction of its own. An error (or a panic) rolls it back; its message is returned.
pub fn attempt<R>(what: &CStr, body: impl FnOnce() -> R + UnwindSafe) -> Result<R, String> {
    // SAFETY: called between transactions only; every path leaves by commit or abort.
    unsafe {
        // Who cancels a statement means one that runs: like any idle session we forget what came in between.
        super::hold_cancels(false);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, what.as_ptr());
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        // A runner has the settings of its role, which say how the transactions of the role begin, not how ours do.
        compat::forget_transaction_timeout();
        pg_sys::XactReadOnly = false;
        pg_sys::XactDeferrable = false;
        pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
    }
    let whole = AssertUnwindSafe(|| unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body();
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        Ok(result)
    });
    let result = PgTryBuilder::new(whole)
        .catch_others(|error| {
            let (_, message) = crate::pg::subtransaction::describe(&error);
            // SAFETY: the error has been handled; this is what PostgresMain does with a failed transaction.
            unsafe {
                pg_sys::AbortCurrentTransaction();
            }
            Err(message)
        })
        .execute();
    super::hold_cancels(true);
    // SAFETY: between transactions.
    unsafe {
        pg_sys::pgstat_report_stat(true);
    }
    result
}

/// Says in the server's log that something failed.
pub fn log(what: &CStr, message: &str) {
    let text = format!("scheduler: {} failed: {}", what.to_string_lossy(), error::cut(message));
    ErrorReport::new(PgSqlErrorCode::ERRCODE_WARNING, text, "scheduler").report(PgLogLevel::WARNING);
}
