//! Executions of a job that was never defined: mostly a slip of the pen, of which nobody hears before the work is missed.

use pgrx::{pg_sys, PgLogLevel, PgSqlErrorCode};

use crate::guc::{self, UndefinedJobs};
use crate::pg::convert;
use crate::pg::error::{self, Failure, Outcome};
use crate::pg::Owner;
use crate::store::job;

/// How many letters may be wrong in a name that was meant to be another: no more than one in three.
const MOST_SLIPS: usize = 3;

/// The warning of a job that was never defined, where the setting asks for one; `42704` where it refuses.
pub fn check(owner: &Owner, job_name: &str, caller: pg_sys::Oid) -> Outcome<Option<Failure>> {
    let setting = guc::undefined_jobs();
    if setting == UndefinedJobs::Allow || job::find(owner, job_name).is_some() {
        return Ok(None);
    }
    let (name, near) = (convert::shown(job_name), nearest(owner, job_name, caller));
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

/// Tells the client, once for a call.
pub fn warn(warning: Option<Failure>) {
    if let Some(warning) = warning {
        error::report(PgLogLevel::WARNING, warning);
    }
}

/// The name that was probably meant, of the jobs that the caller may use.
fn nearest(owner: &Owner, name: &str, caller: pg_sys::Oid) -> Option<String> {
    let slips = MOST_SLIPS.min(name.chars().count() / 3);
    let names = job::names_near(owner.session(), name, i32::try_from(slips).unwrap_or(0), caller);
    let distances = names.into_iter().map(|near| (strsim::damerau_levenshtein(&near, name), near));
    distances.filter(|(distance, _)| *distance <= slips).min().map(|(_, near)| near)
}
