//! Part of a transaction that may fail without taking the rest with it.

use std::panic::AssertUnwindSafe;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{pg_sys, PgSqlErrorCode, PgTryBuilder};

use crate::pg::error::{Failure, Outcome};

/// Runs `body` in a subtransaction: an error rolls back what it did and is returned. A cancelled
/// statement and a shutdown are not the body's fault and go on to the caller.
pub fn run<R>(body: impl FnOnce() -> R) -> Outcome<R> {
    let whole = || {
        let result = body();
        check_deferred();
        result
    };
    within_one(whole, true, is_the_sessions)
}

/// Runs `body` in a subtransaction that is rolled back, and its locks with it: what it has read is returned, or an error, whatever that says it is.
/// For what reads somebody's tables, who could have any error look like the session's. (A shutdown is none that could be caught.)
pub fn undone<R>(body: impl FnOnce() -> R) -> Outcome<R> {
    within_one(body, false, |_| false)
}

fn within_one<R>(
    body: impl FnOnce() -> R,
    is_kept: bool,
    goes_on: impl Fn(PgSqlErrorCode) -> bool + std::panic::RefUnwindSafe,
) -> Outcome<R> {
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
                if goes_on(code) {
                    error.rethrow()
                }
                Err(Failure::new(code, message, ""))
            })
            .execute();
        if result.is_ok() {
            if is_kept {
                pg_sys::ReleaseCurrentSubTransaction();
            } else {
                pg_sys::MemoryContextSwitchTo(context);
                pg_sys::RollbackAndReleaseCurrentSubTransaction();
            }
            restore();
        }
        result
    }
}

/// Has triggers that a superuser put off to the end of the transaction run now, where the part that they fail can be told from the others.
/// Not in a client's session: its own are for its COMMIT.
fn check_deferred() {
    // Where an owner who is no superuser has a say, nothing can be put off, and what is made immediate here would stay so for what comes.
    // SAFETY: reads a global of the process.
    if is_client() || unsafe { pg_sys::InSecurityRestrictedOperation() } {
        return;
    }
    // SAFETY: inside a transaction.
    unsafe { set_constraints_immediate() }
}

/// What SET CONSTRAINTS ALL IMMEDIATE does: what was put off to the end of the transaction happens now.
///
/// # Safety
/// In a transaction.
pub unsafe fn set_constraints_immediate() {
    let statement = pg_sys::palloc0(size_of::<pg_sys::ConstraintsSetStmt>()).cast::<pg_sys::ConstraintsSetStmt>();
    (*statement).type_ = pg_sys::NodeTag::T_ConstraintsSetStmt;
    pg_sys::AfterTriggerSetState(statement);
}

/// Other extensions' background workers run users' statements: to us they are clients.
fn is_client() -> bool {
    !is_in_a_dispatcher()
}

/// Whether this process is a dispatcher of ours.
pub fn is_in_a_dispatcher() -> bool {
    DISPATCHES.load(Ordering::Relaxed)
}

/// This process is a dispatcher of ours: whatever is put off in its transactions, it was put off by what we write.
static DISPATCHES: AtomicBool = AtomicBool::new(false);

/// To be said by a dispatcher when it begins.
pub fn in_a_dispatcher() {
    DISPATCHES.store(true, Ordering::Relaxed);
}

/// Whether an error is the session's and not what it just worked on: a cancelled statement, what its isolation level demands. A client's
/// session may also have used up its stack, or be in a deadlock by what it did before.
fn is_the_sessions(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode as Code;
    let always = [Code::ERRCODE_QUERY_CANCELED, Code::ERRCODE_ADMIN_SHUTDOWN, Code::ERRCODE_T_R_SERIALIZATION_FAILURE];
    let of_a_client = [Code::ERRCODE_STATEMENT_TOO_COMPLEX, Code::ERRCODE_T_R_DEADLOCK_DETECTED];
    always.contains(&code) || (of_a_client.contains(&code) && is_client())
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
