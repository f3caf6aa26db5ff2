//! Who may enqueue what: an owner's members, and roles with `sched.grant_enqueue`.

use pgrx::pg_sys;
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::enqueue::IfExists;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::role_argument::RoleArgument;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session, Session};
use crate::store::grants;
use crate::store::job::{self, Job};
use crate::store::queue::enqueue::EnqueueBatch;
use crate::store::schedule as schedules;

use crate::api::job::check_own;
use crate::api::schedule::SCOPE_KIND;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn grant_enqueue(job_name: Option<Text>, role: Option<RoleArgument>) {
    or_raise((|| {
        let name = convert::name("job_name", job_name)?;
        let grantee = required("role", role)?.existing()?;
        let caller = role::caller();
        session(|session| {
            check_own(session, &name, caller)?;
            let Some(owner) = job::share(session, &name) else {
                return Err(Failure::unknown("job", &name, "Define it first with sched.define_job."));
            };
            if !role::may_act_for(caller, owner) {
                return Err(Failure::not_owner("job", &name));
            }
            grants::enqueue(session, &name, grantee);
            Ok(())
        })
    })());
}

/// What a role with `grant_enqueue`, which may not act for the job's owner, does not reach: executions that others have added, and those of
/// the job's schedules; `42501`. `names_scopes`: the executions are of scopes that the call names.
pub fn check_granted<'s>(
    session: impl FnOnce() -> &'s Session,
    batch: &EnqueueBatch,
    if_exists: IfExists,
    names_scopes: bool,
) -> Outcome<()> {
    const OTHER_SCOPE: &str =
        "Pass another scope_kind: a plan time that is enqueued in the scope of a schedule counts as fired.";
    let refused = |what: String, hint: &str| Failure::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, what, hint);
    let name = convert::shown(batch.job_name);
    if if_exists == IfExists::Replace {
        return Err(refused(
            format!("if_exists \"replace\" would change executions of job \"{name}\", whose owner the caller may not act for"),
            "Pass if_exists => 'keep' or 'error': sched.grant_enqueue lets a role add executions.",
        ));
    }
    if names_scopes && batch.scope_kind == SCOPE_KIND {
        return Err(refused(
            format!("scope_kind \"{SCOPE_KIND}\" is that of the schedules of job \"{name}\""),
            OTHER_SCOPE,
        ));
    }
    let taken = names_scopes.then(|| schedules::in_scopes(session(), batch.job_name, batch.keys.clone())).flatten();
    match taken {
        None => Ok(()),
        Some(schedule) => Err(refused(
            format!("the scope is that of schedule \"{}\" of job \"{name}\"", convert::shown(&schedule)),
            OTHER_SCOPE,
        )),
    }
}

/// The job of this name, if it was defined; `42501` where the caller may not enqueue it.
pub fn job_to_enqueue<'s>(
    session: impl FnOnce() -> &'s Session,
    job: Option<Job>,
    job_name: &str,
    caller: pg_sys::Oid,
) -> Outcome<Option<Job>> {
    if job.as_ref().is_some_and(|job| role::may_act_for(caller, job.owner))
        || (job.is_none() && role::is_superuser(caller))
    {
        return Ok(job);
    }
    let right = grants::may_enqueue(session(), job_name, caller);
    let may = if job.is_some() { right.is_granted } else { !right.is_confined };
    if may {
        return Ok(job);
    }
    Err(Failure::not_owner("job", job_name))
}
