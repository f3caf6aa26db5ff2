//! `alter_schedule`, `pause`, `resume`: edits of schedules under their row lock.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::schedule::Ownership;
use scheduler_core::Keyword;

use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::handover::taken::taken_from;
use crate::store::job;
use crate::store::schedule::{self, AlertSettings, Definition, Locked};
use crate::store::shard;

use crate::api::job as jobs;
use crate::api::schedule::{
    armed_as_its_new_clock_says, check, check_alert_job, check_job, defaults, duplicate, find, will_not_fire, Before,
};

#[pg_extern(schema = "sched", name = "alter_schedule", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn alter_schedule_with_alerts(
    schedule_name: Option<Text>,
    clock: default!(Option<Text>, "NULL"),
    job_name: default!(Option<Text>, "NULL"),
    time_zone: default!(Option<Text>, "NULL"),
    payload: default!(Option<Jsonb>, "NULL"),
    scope_kind: default!(Option<Text>, "NULL"),
    scope_id: default!(Option<Text>, "NULL"),
    catch_up: default!(Option<Text>, "NULL"),
    catch_up_window: default!(Option<Interval>, "NULL"),
    max_plans_per_tick: default!(Option<i32>, "NULL"),
    rearm: default!(Option<Text>, "NULL"),
    overlap: default!(Option<Text>, "NULL"),
    delay: default!(Option<Interval>, "NULL"),
    jitter: default!(Option<Interval>, "NULL"),
    starts_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ends_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ownership: default!(Option<Text>, "NULL"),
    enabled: default!(Option<bool>, "NULL"),
    new_name: default!(Option<Text>, "NULL"),
    reset: default!(Option<Many<Text>>, "'{}'"),
    max_lateness: default!(Option<Interval>, "NULL"),
    max_duration: default!(Option<Interval>, "NULL"),
    expect_success_within: default!(Option<Interval>, "NULL"),
    alert_job: default!(Option<Text>, "NULL"),
) {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        edit(&name, |current| {
            let schedule_name = match new_name {
                Some(new_name) => convert::name("new_name", Some(new_name))?,
                None => current.schedule_name.clone(),
            };
            let (zone_before, clock_before) = (current.time_zone.clone(), current.clock.clone());
            let payload_before = current.payload.clone();
            let is_rearm_given = rearm.is_some();
            let renamed = Definition { schedule_name: schedule_name.clone(), ..current };
            let base = reset.unwrap_or_default().into_iter().try_fold(renamed, reset_argument)?;
            let new = Definition {
                schedule_name,
                clock: clock.map_or(base.clock, String::from),
                time_zone: time_zone.map_or(base.time_zone, String::from),
                job_name: job_name.map_or(base.job_name, String::from),
                payload: payload.unwrap_or(base.payload),
                scope_kind: scope_kind.map_or(base.scope_kind, String::from),
                scope_id: scope_id.map_or(base.scope_id, String::from),
                catch_up: catch_up.map_or(base.catch_up, String::from),
                catch_up_window: catch_up_window.or(base.catch_up_window),
                max_plans_per_tick: max_plans_per_tick.unwrap_or(base.max_plans_per_tick),
                rearm: rearm.map_or(base.rearm, String::from),
                overlap: overlap.map_or(base.overlap, String::from),
                delay: delay.unwrap_or(base.delay),
                jitter: jitter.unwrap_or(base.jitter),
                starts_at: starts_at.or(base.starts_at),
                ends_at: ends_at.or(base.ends_at),
                ownership: ownership.map_or(base.ownership, String::from),
                enabled: enabled.unwrap_or(base.enabled),
                alerts: AlertSettings {
                    max_lateness: max_lateness.or(base.alerts.max_lateness),
                    max_duration: max_duration.or(base.alerts.max_duration),
                    expect_success_within: expect_success_within.or(base.alerts.expect_success_within),
                    alert_job: alert_job.map(String::from).or(base.alerts.alert_job),
                },
            };
            let before = Before { clock: &clock_before, time_zone: &zone_before, payload: &payload_before };
            check(&new, Some(before))?;
            Ok(armed_as_its_new_clock_says(&clock_before, new, is_rearm_given))
        })
    })());
}

/// One entry of `reset`: the argument goes back to the default of create_schedule; `22023` where it has none.
fn reset_argument(mut schedule: Definition, argument: Option<Text>) -> Outcome<Definition> {
    let argument = required("an element of reset", argument)?;
    let new = defaults(schedule.schedule_name.clone(), String::new(), String::new(), None, None);
    match &*argument {
        "time_zone" => schedule.time_zone = new.time_zone,
        "payload" => schedule.payload = new.payload,
        "scope_kind" => schedule.scope_kind = new.scope_kind,
        "scope_id" => schedule.scope_id = new.scope_id,
        "catch_up" => schedule.catch_up = new.catch_up,
        "catch_up_window" => schedule.catch_up_window = new.catch_up_window,
        "max_plans_per_tick" => schedule.max_plans_per_tick = new.max_plans_per_tick,
        "rearm" => schedule.rearm = new.rearm,
        "overlap" => schedule.overlap = new.overlap,
        "delay" => schedule.delay = new.delay,
        "jitter" => schedule.jitter = new.jitter,
        "starts_at" => schedule.starts_at = new.starts_at,
        "ends_at" => schedule.ends_at = new.ends_at,
        "ownership" => schedule.ownership = new.ownership,
        "enabled" => schedule.enabled = new.enabled,
        "max_lateness" => schedule.alerts.max_lateness = None,
        "max_duration" => schedule.alerts.max_duration = None,
        "expect_success_within" => schedule.alerts.expect_success_within = None,
        "alert_job" => schedule.alerts.alert_job = None,
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
    let warning = session(|session| {
        let found = find(session, name, caller)?;
        let (schedule_id, before) = (found.schedule_id, found.definition.clone());
        edit_locked(session, found, caller, |current| {
            let new = change(current)?;
            refuse_giving_up(session, schedule_id, &before, &new).map(|()| new)
        })
    })?;
    warn(warning);
    Ok(())
}

/// Refuses an edit after which nobody would fire what was taken over: `55000`.
pub fn refuse_giving_up(session: &Session, schedule_id: i64, before: &Definition, new: &Definition) -> Outcome<()> {
    let gives_up = is_owned(before) && !is_owned(new);
    let Some(theirs) = gives_up.then(|| taken_from(session, schedule_id)).flatten() else { return Ok(()) };
    let name = convert::shown(&before.schedule_name);
    Err(Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("schedule \"{name}\" was taken over from {theirs}, which is switched off there"),
        "Call sched.hand_back, which switches it on again.",
    ))
}

/// The same of a schedule that is locked; what to warn of.
pub fn edit_locked(
    session: &Session,
    found: Locked,
    caller: pg_sys::Oid,
    change: impl FnOnce(Definition) -> Outcome<Definition>,
) -> Outcome<Option<Failure>> {
    let Locked { schedule_id, definition, created_at, .. } = found;
    let name = definition.schedule_name.clone();
    let (old_job, old_alert_job) = (definition.job_name.clone(), definition.alerts.alert_job.clone());
    let old_payload = definition.payload.clone();
    let was = Coming::of(&definition);
    let new = change(definition)?;
    // What cannot be read is no matter of an edit that leaves it as it is.
    let look = |anchor| will_not_fire(&new, anchor, database_clock::now());
    let warning = (!was.goes_on(&new)).then(|| convert::instant("created_at", created_at).and_then(look));
    let warning = warning.and_then(Outcome::unwrap_or_default);
    shard::require(|| session, [new.scope()])?;
    if new.job_name != old_job {
        let job = check_job(session, &new.job_name, caller)?;
        jobs::check_payload(job.notifies, &new.job_name, &new.payload)?;
    } else if new.payload != old_payload {
        let notifies = job::read(session, &new.job_name).is_some_and(|job| job.notifies);
        jobs::check_payload(notifies, &new.job_name, &new.payload)?;
    }
    if new.alerts.alert_job != old_alert_job {
        check_alert_job(session, &new, caller)?;
    }
    if new.schedule_name != name && schedule::exists(session, &new.schedule_name) {
        return Err(duplicate(&new.schedule_name));
    }
    match (new.schedule_name != name).then(|| new.schedule_name.clone()) {
        None => schedule::update(session, schedule_id, new),
        // Somebody may take the name between our look and our write.
        Some(new_name) => schedule::rename(session, schedule_id, new, || duplicate(&new_name)),
    }
    Ok(warning)
}

/// What of a schedule decides its plan times from now on.
struct Coming {
    clock: String,
    time_zone: String,
    window: [Option<TimestampWithTimeZone>; 2],
    is_fired: bool,
}

impl Coming {
    fn of(schedule: &Definition) -> Coming {
        Coming {
            clock: schedule.clock.clone(),
            time_zone: schedule.time_zone.clone(),
            window: [schedule.starts_at, schedule.ends_at],
            is_fired: is_fired(schedule),
        }
    }

    /// Whether its plan times stay what they were, or there are none of its own any more.
    fn goes_on(&self, new: &Definition) -> bool {
        self.clock == new.clock
            && self.time_zone == new.time_zone
            && self.window == [new.starts_at, new.ends_at]
            && (self.is_fired || !is_fired(new))
    }
}

fn is_fired(schedule: &Definition) -> bool {
    schedule.enabled && is_owned(schedule)
}

fn is_owned(schedule: &Definition) -> bool {
    schedule.ownership == Ownership::Owned.as_str()
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn pause(schedule_name: Option<Text>) {
    switch(schedule_name, false);
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn resume(schedule_name: Option<Text>) {
    switch(schedule_name, true);
}

fn switch(schedule_name: Option<Text>, enabled: bool) {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        edit(&name, |current| Ok(Definition { enabled, ..current }))
    })());
}
