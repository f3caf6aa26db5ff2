//! Executions of a job that was never defined: mostly a slip of the pen, of which nobody hears before the work is missed.

use pgrx::{pg_sys, PgSqlErrorCode};

use crate::guc::{self, UndefinedJobs};
use crate::pg::convert;
use crate::pg::error::{Failure, Outcome};
use crate::pg::Session;
use crate::store::job;

/// How many letters may be wrong in a name that was meant to be another: no more than one in three.
const MOST_SLIPS: usize = 3;

/// The warning of a job that was never defined, where the setting asks for one; `42704` where it refuses.
pub fn warning(session: &Session, job_name: &str, caller: pg_sys::Oid) -> Outcome<Option<Failure>> {
    let setting = guc::undefined_jobs();
    if setting == UndefinedJobs::Allow {
        return Ok(None);
    }
    let (name, near) = (convert::shown(job_name), nearest(session, job_name, caller));
    let meant = near.map(|near| format!("Did you mean \"{}\"? ", convert::shown(&near))).unwrap_or_default();
    let message = format!("job \"{name}\" is not defined");
    if setting == UndefinedJobs::Refuse {
        let hint = format!("{meant}Define it with sched.define_job; sched.undefined_jobs refuses what is not defined.");
        return Err(Failure::new(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, message, hint));
    }
    let hint = format!(
        "{meant}It waits in the queue default. Define it with sched.define_job, or set sched.undefined_jobs to allow."
    );
    Ok(Some(Failure::new(PgSqlErrorCode::ERRCODE_WARNING, message, hint)))
}

/// The name that was probably meant, of the jobs that the caller may use.
fn nearest(session: &Session, name: &str, caller: pg_sys::Oid) -> Option<String> {
    let slips = MOST_SLIPS.min(name.chars().count() / 3);
    let names = job::names_near(session, name, i32::try_from(slips).unwrap_or(0), caller);
    let distances = names.into_iter().map(|near| (strsim::damerau_levenshtein(&near, name), near));
    distances.filter(|(distance, _)| *distance <= slips).min().map(|(_, near)| near)
}
