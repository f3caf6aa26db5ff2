//! What the server's log says of commands, as `exec_simple_query` has it say: `log_statement`, `log_duration` and `log_min_duration_*`. What a
//! client sends in one message is here a command, or each of its statements where these have transactions of their own.

use std::ffi::CStr;
use std::ptr::null;

use pgrx::{pg_sys, PgLogLevel};

use crate::pg::error::{self, Failure};

/// Room for a number of milliseconds, as `check_log_duration` wants it.
const DURATION_BYTES: usize = 32;

/// Says what is about to run, where `log_statement` is about it; whether it did.
///
/// # Safety
/// In a transaction; statements of a raw parse tree.
pub unsafe fn begun(text: &str, statements: &[*mut pg_sys::RawStmt]) -> bool {
    let level = pg_sys::log_statement;
    let is_about = |tree: &*mut pg_sys::RawStmt| {
        level == pg_sys::LogStmtLevel::LOGSTMT_ALL as i32 || pg_sys::GetCommandLogLevel((**tree).stmt) as i32 <= level
    };
    let is_logged = level != pg_sys::LogStmtLevel::LOGSTMT_NONE as i32 && statements.iter().any(is_about);
    if is_logged {
        say(format!("statement: {text}"));
    }
    is_logged
}

/// Says how long it took, which is committed, where the settings want that.
///
/// # Safety
/// After a transaction of this process; nothing has begun since.
pub unsafe fn ended(text: &str, was_logged: bool) {
    let mut duration = [0; DURATION_BYTES];
    let what = pg_sys::check_log_duration(duration.as_mut_ptr(), was_logged);
    let duration = CStr::from_ptr(duration.as_ptr()).to_string_lossy();
    match what {
        0 => {}
        1 => say(format!("duration: {duration} ms")),
        _ => say(format!("duration: {duration} ms  statement: {text}")),
    }
}

/// A line that has its statement in itself.
fn say(text: String) {
    // SAFETY: the process' only thread.
    unsafe {
        let query = pg_sys::debug_query_string;
        pg_sys::debug_query_string = null();
        error::report(PgLogLevel::LOG, Failure::note(text));
        pg_sys::debug_query_string = query;
    }
}
