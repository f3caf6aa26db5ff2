//! What the server's log says of runs: which job, in which database, and why. A user chooses the text and how often it comes, so both are
//! bounded.

use std::ffi::CStr;

use pgrx::{pg_sys, PgLogLevel};

use crate::pg::error::{self, Failure};
use crate::pg::{convert, syscache};
use crate::shmem::log_limit::{self, Line, MOST_LINES};
use crate::worker::transaction;

const NAMING: &CStr = c"looking up the name of the database";

/// Writes that the run of a job `what`, for example "was cancelled". To be called between two transactions.
pub fn write(job_name: &str, what: &str) {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    let line = log_limit::count(database, job_name, convert::now().as_micros());
    if line == Line::LeftOut {
        return;
    }
    let more = match line {
        Line::FirstLeftOut => {
            format!("; after {MOST_LINES} lines, further lines of the job are left out until the next second")
        }
        Line::Written | Line::LeftOut => String::new(),
    };
    let database = transaction::attempt(NAMING, syscache::database_name).unwrap_or_default();
    let text = format!("scheduler: run of job \"{job_name}\" in database \"{database}\" {}{more}", error::cut(what));
    error::report(PgLogLevel::LOG, Failure::note(text));
}
