//! `create_schedule`, `alter_schedule`, `drop_schedule`, `pause`, `resume`.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::convert::{self, required, Zero};
use crate::dispatch::{catch_up_of, overlap_of, rearm_of};
use crate::error::{or_raise, Failure, Outcome};
use crate::guc;
use crate::jsonb::Jsonb;
use crate::store::schedule::{self, Definition, Locked};
use crate::store::{job, role, session, Session};
use crate::zone::ServerZone;

use super::job::at_least_one;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn create_schedule(
    schedule_name: Option<String>,
    clock: Option<String>,
    job_name: Option<String>,
    time_zone: default!(Option<String>, "NULL"),
    payload: default!(Option<Jsonb>, "'{}'"),
    scope_kind: default!(Option<String>, "'schedule'"),
    scope_id: default!(Option<String>, "NULL"),
    catch_up: default!(Option<String>, "'latest_only'"),
    catch_up_window: default!(Option<Interval>, "NULL"),
    max_plans_per_tick: default!(Option<i32>, "100"),
    rearm: default!(Option<String>, "'on_dispatch'"),
    overlap: default!(Option<String>, "'allow'"),
    delay: default!(Option<Interval>, "'0'"),
    jitter: default!(Option<Interval>, "'0'"),
    starts_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ends_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ownership: default!(Option<String>, "'owned'"),
    enabled: default!(Option<bool>, "true"),
) -> i64 {
    or_raise((|| {
        let schedule_name = convert::name("schedule_name", schedule_name)?;
        create(Definition {
            clock: required("clock", clock)?,
            time_zone: time_zone.unwrap_or_else(guc::time_zone),
            job_name: convert::name("job_name", job_name)?,
            payload: required("payload", payload)?,
            scope_kind: convert::name("scope_kind", scope_kind)?,
            scope_id: scope_id.unwrap_or_else(|| schedule_name.clone()),
            schedule_name,
            catch_up: required("catch_up", catch_up)?,
            catch_up_window,
            max_plans_per_tick: required("max_plans_per_tick", max_plans_per_tick)?,
            rearm: required("rearm", rearm)?,
            overlap: required("overlap", overlap)?,
            delay: required("delay", delay)?,
            jitter: required("jitter", jitter)?,
            starts_at,
            ends_at,
            ownership: required("ownership", ownership)?,
            enabled: required("enabled", enabled)?,
        })
    })())
}

fn create(definition: Definition) -> Outcome<i64> {
    check(&definition)?;
    let (name, caller) = (definition.schedule_name.clone(), role::caller());
    session(|session| {
        check_job(session, &definition.job_name, caller)?;
        schedule::insert(session, definition, convert::now()).ok_or_else(|| duplicate(&name))
    })
}

/// Everything about a schedule that can be wrong by itself.
fn check(schedule: &Definition) -> Outcome<()> {
    convert::name("job_name", Some(schedule.job_name.clone()))?;
    convert::name("scope_kind", Some(schedule.scope_kind.clone()))?;
    convert::name("scope_id", Some(schedule.scope_id.clone()))?;
    convert::clock(&schedule.clock)?;
    ServerZone::find(&schedule.time_zone)?;
    catch_up_of(&schedule.catch_up)?;
    rearm_of(&schedule.rearm)?;
    overlap_of(&schedule.overlap)?;
    at_least_one("max_plans_per_tick", schedule.max_plans_per_tick)?;
    convert::optional_duration("catch_up_window", schedule.catch_up_window, Zero::Refused)?;
    convert::duration("delay", schedule.delay, Zero::Allowed)?;
    convert::duration("jitter", schedule.jitter, Zero::Allowed)?;
    let starts_at = convert::optional_instant("starts_at", schedule.starts_at)?;
    let ends_at = convert::optional_instant("ends_at", schedule.ends_at)?;
    if let (Some(starts_at), Some(ends_at)) = (starts_at, ends_at) {
        if starts_at >= ends_at {
            return Err(Failure::invalid(
                "starts_at must be before ends_at",
                "The first instant that may be a plan time is starts_at, the first that may no longer be one is ends_at.",
            ));
        }
    }
    if !matches!(schedule.ownership.as_str(), "owned" | "external") {
        return Err(Failure::invalid(
            format!("unknown ownership \"{}\"", schedule.ownership),
            "Use 'owned' (dispatched here) or 'external' (another scheduler fires it).",
        ));
    }
    Ok(())
}

fn check_job(session: &Session, job_name: &str, caller: pg_sys::Oid) -> Outcome<()> {
    let Some(known) = job::read(session, job_name) else {
        return Err(Failure::unknown("job", job_name, "Define it first with sched.define_job."));
    };
    if !role::may_act_for(caller, known.owner) {
        return Err(Failure::not_owner("job", job_name));
    }
    Ok(())
}

fn duplicate(name: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("schedule \"{name}\" already exists"),
        "Choose another name, or change the existing one with sched.alter_schedule.",
    )
}

/// The schedule of this name, locked, if the caller may change it; `42704`, `42501`.
fn lock(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<Locked> {
    let found = schedule::lock(session, name)
        .ok_or_else(|| Failure::unknown("schedule", name, "Look for its name in the view sched.schedules."))?;
    // Without its job nobody but a superuser can be known to own it.
    if !found.owner.map_or_else(|| role::is_superuser(caller), |owner| role::may_act_for(caller, owner)) {
        return Err(Failure::not_owner("schedule", name));
    }
    Ok(found)
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn alter_schedule(
    schedule_name: Option<String>,
    clock: default!(Option<String>, "NULL"),
    job_name: default!(Option<String>, "NULL"),
    time_zone: default!(Option<String>, "NULL"),
    payload: default!(Option<Jsonb>, "NULL"),
    scope_kind: default!(Option<String>, "NULL"),
    scope_id: default!(Option<String>, "NULL"),
    catch_up: default!(Option<String>, "NULL"),
    catch_up_window: default!(Option<Interval>, "NULL"),
    max_plans_per_tick: default!(Option<i32>, "NULL"),
    rearm: default!(Option<String>, "NULL"),
    overlap: default!(Option<String>, "NULL"),
    delay: default!(Option<Interval>, "NULL"),
    jitter: default!(Option<Interval>, "NULL"),
    starts_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ends_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ownership: default!(Option<String>, "NULL"),
    enabled: default!(Option<bool>, "NULL"),
    new_name: default!(Option<String>, "NULL"),
    reset: default!(Option<Vec<Option<String>>>, "'{}'"),
) {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        edit(&name, |current| {
            let base = reset.unwrap_or_default().into_iter().try_fold(current, reset_argument)?;
            let schedule_name = match new_name {
                Some(new_name) => convert::name("new_name", Some(new_name))?,
                None => base.schedule_name,
            };
            let new = Definition {
                schedule_name,
                clock: clock.unwrap_or(base.clock),
                time_zone: time_zone.unwrap_or(base.time_zone),
                job_name: job_name.unwrap_or(base.job_name),
                payload: payload.unwrap_or(base.payload),
                scope_kind: scope_kind.unwrap_or(base.scope_kind),
                scope_id: scope_id.unwrap_or(base.scope_id),
                catch_up: catch_up.unwrap_or(base.catch_up),
                catch_up_window: catch_up_window.or(base.catch_up_window),
                max_plans_per_tick: max_plans_per_tick.unwrap_or(base.max_plans_per_tick),
                rearm: rearm.unwrap_or(base.rearm),
                overlap: overlap.unwrap_or(base.overlap),
                delay: delay.unwrap_or(base.delay),
                jitter: jitter.unwrap_or(base.jitter),
                starts_at: starts_at.or(base.starts_at),
                ends_at: ends_at.or(base.ends_at),
                ownership: ownership.unwrap_or(base.ownership),
                enabled: enabled.unwrap_or(base.enabled),
            };
            check(&new)?;
            Ok(new)
        })
    })());
}

/// One entry of `reset`: the argument goes back to the default of create_schedule; `22023` where it has none.
fn reset_argument(mut schedule: Definition, argument: Option<String>) -> Outcome<Definition> {
    let argument = required("an element of reset", argument)?;
    match argument.as_str() {
        "time_zone" => schedule.time_zone = guc::time_zone(),
        "payload" => schedule.payload = Jsonb::empty(),
        "scope_kind" => schedule.scope_kind = "schedule".to_owned(),
        "scope_id" => schedule.scope_id.clone_from(&schedule.schedule_name),
        "catch_up" => schedule.catch_up = "latest_only".to_owned(),
        "catch_up_window" => schedule.catch_up_window = None,
        "max_plans_per_tick" => schedule.max_plans_per_tick = 100,
        "rearm" => schedule.rearm = "on_dispatch".to_owned(),
        "overlap" => schedule.overlap = "allow".to_owned(),
        "delay" => schedule.delay = convert::interval(0),
        "jitter" => schedule.jitter = convert::interval(0),
        "starts_at" => schedule.starts_at = None,
        "ends_at" => schedule.ends_at = None,
        "ownership" => schedule.ownership = "owned".to_owned(),
        "enabled" => schedule.enabled = true,
        other => {
            return Err(Failure::invalid(
                format!("cannot reset \"{other}\""),
                "Name arguments of sched.create_schedule that have a default, for example 'catch_up_window'.",
            ))
        }
    }
    Ok(schedule)
}

/// Changes a schedule as `change` says, under its row lock.
fn edit(name: &str, change: impl FnOnce(Definition) -> Outcome<Definition>) -> Outcome<()> {
    let caller = role::caller();
    session(|session| {
        let Locked { schedule_id, definition, .. } = lock(session, name, caller)?;
        let (old_job, old_rearm, old_overlap) =
            (definition.job_name.clone(), definition.rearm.clone(), definition.overlap.clone());
        let new = change(definition)?;
        if new.job_name != old_job {
            check_job(session, &new.job_name, caller)?;
        }
        if new.schedule_name != name && schedule::exists(session, &new.schedule_name) {
            return Err(duplicate(&new.schedule_name));
        }
        let awaited = |rearm: &str, overlap: &str| rearm == "on_terminal" || overlap != "allow";
        let begins_to_wait = awaited(&new.rearm, &new.overlap) && !awaited(&old_rearm, &old_overlap);
        schedule::update(session, schedule_id, new);
        if begins_to_wait {
            schedule::await_unfinished(session, schedule_id);
        }
        Ok(())
    })
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn pause(schedule_name: Option<String>) {
    switch(schedule_name, false);
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn resume(schedule_name: Option<String>) {
    switch(schedule_name, true);
}

fn switch(schedule_name: Option<String>, enabled: bool) {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        edit(&name, |current| Ok(Definition { enabled, ..current }))
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn drop_schedule(schedule_name: Option<String>, cancel_pending: default!(Option<bool>, "false")) -> bool {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let caller = role::caller();
        session(|session| {
            if !schedule::exists(session, &name) {
                return Ok(false);
            }
            let found = lock(session, &name, caller)?;
            if required("cancel_pending", cancel_pending)? {
                schedule::cancel_pending(session, found.schedule_id, convert::now());
            }
            schedule::delete(session, found.schedule_id);
            Ok(true)
        })
    })())
}
