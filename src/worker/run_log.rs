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
    // SAFETY: reads globals of the process, which is connected as the job's owner.
    let (database, owner) = unsafe { (pg_sys::MyDatabaseId.to_u32(), pg_sys::GetAuthenticatedUserId().to_u32()) };
    let now = convert::now().as_micros();
    let line = log_limit::count(database, job_name, now);
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
    if let Some(text) = log_limit::of_role(owner, text, now) {
        error::report(PgLogLevel::LOG, Failure::note(text));
    }
}
