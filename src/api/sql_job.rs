//! `schedule_sql`, `unschedule`: a job of kind `sql` and its schedule, both of one name, by one call.

use pgrx::datum::Interval;
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::job::Kind;

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::job::{self, Job};
use crate::store::schedule::{self as store, Definition, Locked};

use crate::api::job::{self as jobs, Runs};
use crate::api::schedule::{self, Before};
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
    retry_backoff: default!(Option<Many<Interval>>, "'{}'"),
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
        let (schedule_id, warning) = session(|session| {
            let before = lock_or_make_job(session, &job, caller)?;
            let (schedule_id, warning) = match find(session, &name, before.as_ref(), caller)? {
                None => {
                    write_job(session, &job, before.is_some(), caller)?;
                    create(session, Definition { enabled: enabled.unwrap_or(true), ..schedule })?
                }
                Some(found) => {
                    // Alerts are no argument of this: those that alter_schedule has asked for stay asked for.
                    let alerts = found.definition.alerts.clone();
                    let enabled = enabled.unwrap_or(found.definition.enabled);
                    write_job(session, &job, before.is_some(), caller)?;
                    replace(session, found, Definition { enabled, alerts, ..schedule }, caller)?
                }
            };
            remember(session, &name, schedule_id);
            Outcome::Ok((schedule_id, warning))
        })?;
        warn(warning);
        Ok(schedule_id)
    })())
}

/// Has the next call find job and schedule by this name.
pub fn remember(session: &Session, name: &str, schedule_id: i64) {
    job::set_pair(session, name);
    store::set_pair(session, schedule_id, Some(name));
}

type Scheduled = (i64, Option<Failure>);

fn create(session: &Session, schedule: Definition) -> Outcome<Scheduled> {
    schedule::check(&schedule, None)?;
    let now = database_clock::now();
    let warning = schedule::will_not_fire(&schedule, now, now)?;
    Ok((schedule::insert(session, schedule)?, warning))
}

/// What is as it was, is not written: an edit would be a new version of the schedule.
fn replace(session: &Session, found: Locked, schedule: Definition, caller: pg_sys::Oid) -> Outcome<Scheduled> {
    let Definition { clock, time_zone, payload, .. } = &found.definition;
    let before = Before { clock, time_zone, payload };
    schedule::check(&schedule, Some(before))?;
    let schedule_id = found.schedule_id;
    if found.definition == schedule {
        return Ok((schedule_id, None));
    }
    Ok((schedule_id, edit_locked(session, found, caller, |_| Ok(schedule))?))
}

/// The job that the pair has, locked, and whether schedule_sql knows it; `None` where it was made now. Other calls of this name come later: all of
/// them, and unschedule, lock or make the job before the schedule.
pub fn lock_or_make_job(session: &Session, job: &job::Definition, caller: pg_sys::Oid) -> Outcome<Option<(Job, bool)>> {
    loop {
        if let found @ Some(_) = lock_job(session, &job.job_name, caller)? {
            return Ok(found);
        }
        if jobs::insert(session, job, caller)? {
            return Ok(None);
        }
        // Somebody has made it between the two.
        pgrx::check_for_interrupts!();
    }
}

/// The job of this name, if the caller may change it; `42501`.
fn lock_job(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<Option<(Job, bool)>> {
    jobs::check_own(session, name, caller)?;
    let found = job::lock_of_pair(session, name);
    if found.as_ref().is_some_and(|(job, _)| !role::may_act_for(caller, job.owner)) {
        return Err(Failure::not_owner("job", name));
    }
    Ok(found)
}

/// Has a job that was there say what the call says.
fn write_job(session: &Session, job: &job::Definition, was_there: bool, caller: pg_sys::Oid) -> Outcome<()> {
    if was_there {
        jobs::write(session, job, caller, Runs::Define)?;
    }
    Ok(())
}

/// The schedule of a pair whose job was locked, locked as well, whatever edits have made of the two. `42710` where a job or a schedule has the name
/// that never belonged to a pair, `42501` where it is another role's.
fn find(session: &Session, name: &str, job: Option<&(Job, bool)>, caller: pg_sys::Oid) -> Outcome<Option<Locked>> {
    let owner = job.map_or(caller, |(job, _)| job.owner);
    let of_pair = lock_of_pair(session, name, owner, caller)?;
    let of_name = match &of_pair {
        Some(found) if found.definition.schedule_name == name => None,
        Some(_) | None => schedule::find_if_any(session, name, caller)?,
    };
    // What define_job and create_schedule have made alike is such a pair.
    let is_alike = |found: &Locked| {
        found.definition.schedule_name == name
            && found.definition.job_name == name
            && job.is_some_and(|(job, _)| job.run_by_server)
    };
    let belongs = |found: &Locked| found.sql_pair.is_some() || is_alike(found);
    let is_pairs_job = job.is_none_or(|(_, is_pair)| *is_pair) || of_pair.iter().chain(&of_name).any(is_alike);
    if !is_pairs_job {
        return Err(no_pair("job", name));
    }
    if of_name.as_ref().is_some_and(|found| !belongs(found)) {
        return Err(no_pair("schedule", name));
    }
    // One that has come to this name with a job of another role is not given a superuser's payload.
    if let Some(found) = of_name.as_ref().filter(|found| found.definition.job_name != name) {
        if let Some(its) = job::read(session, &found.definition.job_name) {
            jobs::check_runs_of(session, &found.definition.job_name, its.owner, caller)?;
        }
    }
    Ok(match (of_pair, of_name) {
        // The schedule of another pair has come to this name: it is this pair's from now on, and the other one is that pair's.
        (Some(before), Some(found)) => {
            store::set_pair(session, before.schedule_id, None);
            store::set_pair(session, found.schedule_id, Some(name));
            store::set_pair(session, before.schedule_id, found.sql_pair.as_deref());
            Some(found)
        }
        (found @ Some(_), None) | (None, found) => found,
    })
}

/// The schedule that was made by this name, whatever it is called now, locked. It is of a job of the pair's owner: another role's mark says nothing.
fn lock_of_pair(session: &Session, name: &str, owner: pg_sys::Oid, caller: pg_sys::Oid) -> Outcome<Option<Locked>> {
    while let Some(called) = store::name_of_pair(session, name, owner) {
        let found = schedule::find_if_any(session, &called, caller)?;
        if found.as_ref().is_some_and(|found| found.sql_pair.as_deref() == Some(name)) {
            return Ok(found);
        }
        // Somebody has renamed or dropped it between the two looks. (A snapshot that does not move raises 40001.)
        pgrx::check_for_interrupts!();
    }
    Ok(None)
}

pub fn no_pair(noun: &str, name: &str) -> Failure {
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
            let job = lock_job(session, &name, caller)?;
            let found = find(session, &name, job.as_ref(), caller)?;
            if job.is_none() && found.is_none() {
                return Ok(false);
            }
            // By the name that the schedule has now: of the pair that it belongs to.
            let other = found.as_ref().and_then(|found| found.sql_pair.clone()).filter(|other| *other != name);
            if let Some(found) = &found {
                schedule::delete(session, found.schedule_id, true);
            }
            match (job, other) {
                (Some(_), _) => drop_with_pending(session, &name)?,
                (None, Some(other)) if is_left_over(session, &other, caller) => drop_with_pending(session, &other)?,
                (None, Some(_) | None) => {}
            }
            Ok(true)
        })
    })())
}

/// Drops the job of a pair, and cancels what waits of it; `2BP01` while another schedule uses it.
pub fn drop_with_pending(session: &Session, name: &str) -> Outcome<()> {
    job::cancel_pending(session, name, database_clock::now());
    jobs::delete(session, name)
}

/// Whether this is the job of a pair whose schedule is gone, and no other schedule's; it is locked then.
pub fn is_left_over(session: &Session, name: &str, caller: pg_sys::Oid) -> bool {
    job::lock_of_pair(session, name).is_some_and(|(job, is_pair)| {
        is_pair && role::may_act_for(caller, job.owner) && job::user(session, name).is_none()
    })
}
