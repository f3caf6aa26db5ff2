//! `schedule_sql`, `unschedule`: a job of kind `sql` and its schedule, both of one name, by one call.

use pgrx::datum::Interval;
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::job::Kind;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session, Session};
use crate::store::job;
use crate::store::schedule::{Definition, Locked};

use crate::api::job as jobs;
use crate::api::schedule;
use crate::api::schedule_edit::edit_locked;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn schedule_sql(
    schedule_name: Option<Text>,
    clock: Option<Text>,
    command: Option<Text>,
    time_zone: default!(Option<Text>, "NULL"),
    payload: default!(Option<Jsonb>, "'{}'"),
    overlap: default!(Option<Text>, "'skip'"),
    catch_up: default!(Option<Text>, "'latest_only'"),
    run_timeout: default!(Option<Interval>, "NULL"),
    max_attempts: default!(Option<i32>, "1"),
    retry_backoff: default!(Option<Vec<Option<Interval>>>, "'{}'"),
    own_transactions: default!(Option<bool>, "false"),
    settings: default!(Option<Jsonb>, "'{}'"),
    priority: default!(Option<i32>, "0"),
    enabled: default!(Option<bool>, "NULL"),
) -> i64 {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let job = job::Definition {
            command: Some(required("command", command)?.into()),
            max_attempts: required("max_attempts", max_attempts)?,
            retry_backoff: jobs::backoff(required("retry_backoff", retry_backoff)?)?,
            run_timeout,
            priority: required("priority", priority)?,
            own_transactions: required("own_transactions", own_transactions)?,
            settings: required("settings", settings)?,
            ..jobs::defaults(name.clone(), Kind::Sql)
        };
        jobs::check(&job)?;
        let schedule = Definition {
            payload: required("payload", payload)?,
            overlap: required("overlap", overlap)?.into(),
            catch_up: required("catch_up", catch_up)?.into(),
            ..schedule::defaults(
                name.clone(),
                required("clock", clock)?.into(),
                name.clone(),
                time_zone.map(String::from),
                None,
            )
        };
        let caller = role::caller();
        let (schedule_id, warning) = session(|session| match find(session, &name, caller)? {
            None => create(session, job, Definition { enabled: enabled.unwrap_or(true), ..schedule }, caller),
            Some(found) => {
                // Alerts are no argument of this: those that alter_schedule has asked for stay asked for.
                let alerts = found.definition.alerts.clone();
                let enabled = enabled.unwrap_or(found.definition.enabled);
                replace(session, found, job, Definition { enabled, alerts, ..schedule }, caller)
            }
        })?;
        schedule::warn(warning);
        Ok(schedule_id)
    })())
}

type Scheduled = (i64, Option<Failure>);

fn create(session: &Session, job: job::Definition, schedule: Definition, caller: pg_sys::Oid) -> Outcome<Scheduled> {
    schedule::check(&schedule, None)?;
    let now = convert::now();
    let warning = schedule::will_not_fire(&schedule, now, now)?;
    jobs::write(session, job, caller)?;
    Ok((schedule::insert(session, schedule)?, warning))
}

/// What is as it was, is not written: an edit would be a new version of the schedule.
fn replace(
    session: &Session,
    found: Locked,
    job: job::Definition,
    schedule: Definition,
    caller: pg_sys::Oid,
) -> Outcome<Scheduled> {
    schedule::check(&schedule, Some(&found.definition.time_zone))?;
    jobs::write(session, job, caller)?;
    let schedule_id = found.schedule_id;
    if found.definition == schedule {
        return Ok((schedule_id, None));
    }
    Ok((schedule_id, edit_locked(session, found, caller, |_| Ok(schedule))?))
}

/// The schedule of this name whose job is of kind sql and has the same name, both locked; `42710` where only one of them is there, or
/// another one, `42501` where it is another role's.
fn find(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<Option<Locked>> {
    // In the order in which an edit locks the two.
    let found = schedule::find_if_any(session, name, caller)?;
    let job = job::lock(session, name);
    if job.as_ref().is_some_and(|job| !role::may_act_for(caller, job.owner)) {
        return Err(Failure::not_owner("job", name));
    }
    match (job, found) {
        (None, None) => Ok(None),
        (Some(job), Some(found)) if job.run_by_server && found.definition.job_name == name => Ok(Some(found)),
        (job, _) => Err(no_pair(if job.is_some() { "job" } else { "schedule" }, name)),
    }
}

fn no_pair(noun: &str, name: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("{noun} \"{}\" exists and was not made by sched.schedule_sql", convert::shown(name)),
        "Choose another name, or drop what has it with sched.drop_schedule and sched.drop_job.",
    )
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn unschedule(schedule_name: Option<Text>) -> bool {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let caller = role::caller();
        session(|session| {
            let Some(found) = find(session, &name, caller)? else { return Ok(false) };
            schedule::delete(session, found.schedule_id, true);
            job::cancel_pending(session, &name, convert::now());
            jobs::delete(session, &name)?;
            Ok(true)
        })
    })())
}
