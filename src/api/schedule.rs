//! `create_schedule`, `drop_schedule`.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::clock::{none_ahead, RunEdge};
use scheduler_core::schedule::{CatchUp, Overlap, Ownership, Rearm, MAX_PAYLOAD_BYTES};
use scheduler_core::{Instant, Keyword};

use crate::dispatch::{catch_up_of, overlap_of, rearm_of, MAX_PLANS_PER_TICK};
use crate::guc;
use crate::pg::convert::{self, required, Zero};
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, Session};
use crate::store::database_clock;
use crate::store::handover::taken::taken_from;
use crate::store::identity;
use crate::store::job::{self, Job};
use crate::store::schedule::{self, bulk, dropped, AlertSettings, Definition, Locked};
use crate::store::shard;

use crate::api::job::{self as jobs, at_least_one};

#[pg_extern(schema = "sched", name = "create_schedule", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn create_schedule_with_alerts(
    schedule_name: Option<Text>,
    clock: Option<Text>,
    job_name: Option<Text>,
    time_zone: default!(Option<Text>, "NULL"),
    payload: default!(Option<Jsonb>, "'{}'"),
    scope_kind: default!(Option<Text>, "'schedule'"),
    scope_id: default!(Option<Text>, "NULL"),
    catch_up: default!(Option<Text>, "'latest_only'"),
    catch_up_window: default!(Option<Interval>, "NULL"),
    max_plans_per_tick: default!(Option<i32>, "100"),
    rearm: default!(Option<Text>, "'on_dispatch'"),
    overlap: default!(Option<Text>, "'allow'"),
    delay: default!(Option<Interval>, "'0'"),
    jitter: default!(Option<Interval>, "'0'"),
    starts_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ends_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    ownership: default!(Option<Text>, "'owned'"),
    enabled: default!(Option<bool>, "true"),
    max_lateness: default!(Option<Interval>, "NULL"),
    max_duration: default!(Option<Interval>, "NULL"),
    expect_success_within: default!(Option<Interval>, "NULL"),
    alert_job: default!(Option<Text>, "NULL"),
) -> i64 {
    or_raise((|| {
        create(Definition {
            payload: required("payload", payload)?,
            scope_kind: required("scope_kind", scope_kind)?.into(),
            catch_up: required("catch_up", catch_up)?.into(),
            max_plans_per_tick: required("max_plans_per_tick", max_plans_per_tick)?,
            rearm: required("rearm", rearm)?.into(),
            overlap: required("overlap", overlap)?.into(),
            delay: required("delay", delay)?,
            jitter: required("jitter", jitter)?,
            ownership: required("ownership", ownership)?.into(),
            enabled: required("enabled", enabled)?,
            catch_up_window,
            starts_at,
            ends_at,
            alerts: AlertSettings {
                max_lateness,
                max_duration,
                expect_success_within,
                alert_job: alert_job.map(String::from),
            },
            ..defaults(
                required("schedule_name", schedule_name)?.into(),
                required("clock", clock)?.into(),
                required("job_name", job_name)?.into(),
                time_zone.map(String::from),
                scope_id.map(String::from),
            )
        })
    })())
}

/// The kind of scope that a schedule has unless it says otherwise.
pub const SCOPE_KIND: &str = "schedule";

/// A schedule with the default of every argument that has one.
pub fn defaults(
    schedule_name: String,
    clock: String,
    job_name: String,
    time_zone: Option<String>,
    scope_id: Option<String>,
) -> Definition {
    Definition {
        scope_id: scope_id.unwrap_or_else(|| schedule_name.clone()),
        schedule_name,
        clock,
        job_name,
        time_zone: time_zone.unwrap_or_else(guc::time_zone),
        payload: Jsonb::empty(),
        scope_kind: SCOPE_KIND.to_owned(),
        catch_up: CatchUp::LatestOnly.as_str().to_owned(),
        catch_up_window: None,
        max_plans_per_tick: 100,
        rearm: Rearm::OnDispatch.as_str().to_owned(),
        overlap: Overlap::Allow.as_str().to_owned(),
        delay: convert::interval(0),
        jitter: convert::interval(0),
        starts_at: None,
        ends_at: None,
        ownership: Ownership::Owned.as_str().to_owned(),
        enabled: true,
        alerts: AlertSettings::default(),
    }
}

fn counts_from_an_end(clock: &str) -> bool {
    convert::clock(clock).is_ok_and(|clock| clock.counts_from() == Some(RunEdge::End))
}

/// A clock that counts from the end of runs is armed when a run has ended, so its schedule waits for that.
pub fn armed_as_its_clock_says(definition: Definition) -> Definition {
    if counts_from_an_end(&definition.clock) && definition.rearm == Rearm::OnDispatch.as_str() {
        Definition { rearm: Rearm::OnTerminal.as_str().to_owned(), ..definition }
    } else {
        definition
    }
}

/// The same of an edit: a schedule whose clock no longer counts from the end of runs does not wait for them, but where the edit says so.
pub fn armed_as_its_new_clock_says(clock_before: &str, new: Definition, is_rearm_given: bool) -> Definition {
    if !is_rearm_given && counts_from_an_end(clock_before) && !counts_from_an_end(&new.clock) {
        Definition { rearm: Rearm::OnDispatch.as_str().to_owned(), ..new }
    } else {
        armed_as_its_clock_says(new)
    }
}

fn create(definition: Definition) -> Outcome<i64> {
    let definition = armed_as_its_clock_says(definition);
    check(&definition, None)?;
    let (caller, now) = (role::caller(), database_clock::now());
    let warning = will_not_fire(&definition, now, now)?;
    let created = session(|session| {
        let job = check_job(session, &definition.job_name, caller)?;
        jobs::check_payload(job.notifies, &definition.job_name, &definition.payload)?;
        check_alert_job(session, &definition, caller)?;
        insert(session, definition)
    })?;
    warn(warning);
    Ok(created)
}

/// Inserts a schedule of a job that the caller may use; `42710`.
pub fn insert(session: &Session, definition: Definition) -> Outcome<i64> {
    identity::refuse_distributed(|| session)?;
    shard::require_to_write(|| session, [definition.scope()])?;
    let name = definition.schedule_name.clone();
    let inserted = bulk::insert(session, vec![definition], database_clock::now());
    inserted.first().map(|(_, schedule_id)| *schedule_id).ok_or_else(|| duplicate(&name))
}

/// What a session is told that writes a schedule with nothing to come: 01000.
pub fn will_not_fire(schedule: &Definition, anchor: Instant, now: Instant) -> Outcome<Option<Failure>> {
    let (clock, zone) = (convert::clock(&schedule.clock)?, ServerZone::stored(&schedule.time_zone)?);
    let window = [
        convert::optional_instant("starts_at", schedule.starts_at)?,
        convert::optional_instant("ends_at", schedule.ends_at)?,
    ];
    let warning = none_ahead(&clock.bind(&zone, anchor), &schedule.clock, now, window);
    Ok(warning.map(|warning| {
        let name = convert::shown(&schedule.schedule_name);
        let message = format!("schedule \"{name}\" will not fire: {}", warning.message);
        Failure { hint: warning.hint, ..Failure::warning(message) }
    }))
}

/// What a schedule has before an edit, and may keep, also where a new one may not have it.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// Its clock.
    pub clock: &'a str,
    /// Its zone.
    pub time_zone: &'a str,
    /// Its payload.
    pub payload: &'a Jsonb,
}

/// Everything about a schedule that can be wrong by itself.
pub fn check(schedule: &Definition, before: Option<Before<'_>>) -> Outcome<()> {
    check_keys(schedule, before).map_err(|(_, failure)| failure)
}

/// The same, with the argument that is at fault.
pub fn check_keys(schedule: &Definition, before: Option<Before<'_>>) -> Result<(), (&'static str, Failure)> {
    let zone = match before {
        Some(before) if before.time_zone == schedule.time_zone => ServerZone::stored(before.time_zone),
        Some(_) | None => ServerZone::find(&schedule.time_zone),
    };
    let clock = match before {
        Some(before) if before.clock == schedule.clock => convert::clock(before.clock),
        Some(_) | None => convert::new_clock(&schedule.clock),
    };
    let payload = match before {
        Some(before) if *before.payload == schedule.payload => Ok(()),
        Some(_) | None => check_payload(&schedule.payload),
    };
    let window = || {
        let starts_at = convert::optional_instant("starts_at", schedule.starts_at)?;
        let ends_at = convert::optional_instant("ends_at", schedule.ends_at)?;
        let hint =
            "The first instant that may be a plan time is starts_at, the first that may no longer be one is ends_at.";
        let both = starts_at.zip(ends_at);
        both.map_or(Ok(()), |(starts_at, ends_at)| {
            convert::in_order(["starts_at", "ends_at"], [starts_at, ends_at], hint)
        })
    };
    let ownership = || match Ownership::parse(&schedule.ownership) {
        Some(Ownership::Owned | Ownership::External) => Ok(()),
        Some(Ownership::Elsewhere) | None => Err(Failure::invalid(
            format!("unknown ownership \"{}\"", schedule.ownership),
            "Use 'owned' (dispatched here) or 'external' (another scheduler fires it).",
        )),
    };
    let wait = |argument, value| convert::duration(argument, value, Zero::Allowed).map(drop);
    let length = |argument, value| convert::optional_duration(argument, value, Zero::Refused).map(drop);
    let name = |argument, value: &String| convert::name(argument, Some(value.clone())).map(drop);
    let results = [
        ("schedule_name", name("schedule_name", &schedule.schedule_name)),
        ("clock", clock.map(drop)),
        ("payload", payload),
        ("job_name", name("job_name", &schedule.job_name)),
        ("time_zone", zone.map(drop)),
        ("scope_kind", name("scope_kind", &schedule.scope_kind)),
        ("scope_id", name("scope_id", &schedule.scope_id)),
        ("catch_up", catch_up_of(&schedule.catch_up).map(drop)),
        ("catch_up_window", length("catch_up_window", schedule.catch_up_window)),
        ("max_plans_per_tick", max_plans(schedule.max_plans_per_tick).map(drop)),
        ("rearm", rearm_of(&schedule.rearm).map(drop)),
        ("overlap", overlap_of(&schedule.overlap).map(drop)),
        ("delay", wait("delay", schedule.delay)),
        ("jitter", wait("jitter", schedule.jitter)),
        ("ends_at", convert::optional_instant("ends_at", schedule.ends_at).map(drop)),
        ("starts_at", window()),
        ("ownership", ownership()),
        ("max_lateness", length("max_lateness", schedule.alerts.max_lateness)),
        ("max_duration", length("max_duration", schedule.alerts.max_duration)),
        ("expect_success_within", length("expect_success_within", schedule.alerts.expect_success_within)),
        ("alert_job", schedule.alerts.alert_job.iter().try_for_each(|job| name("alert_job", job))),
    ];
    results.into_iter().try_for_each(|(key, result)| result.map_err(|failure| (key, failure)))
}

/// `54000` for a payload that a new schedule may not have.
pub fn check_payload(payload: &Jsonb) -> Outcome<()> {
    let size = payload.text_size();
    if size > MAX_PAYLOAD_BYTES {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("payload of a schedule is too large: {size} bytes"),
            format!("Keep it within {MAX_PAYLOAD_BYTES} bytes of octet_length(payload::text), and larger things in a table of your own."),
        ));
    }
    Ok(())
}

/// How many plans one tick may run.
pub fn max_plans(given: i32) -> Outcome<i32> {
    match at_least_one("max_plans_per_tick", given)? {
        n if usize::try_from(n).is_ok_and(|n| n > MAX_PLANS_PER_TICK) => Err(Failure::invalid(
            format!("max_plans_per_tick must be at most {MAX_PLANS_PER_TICK}, not {n}"),
            "A longer backlog takes several ticks, and other schedules fire between them.",
        )),
        n => Ok(n),
    }
}

pub fn check_job(session: &Session, job_name: &str, caller: pg_sys::Oid) -> Outcome<Job> {
    let Some(known) = job::read_and_keep(session, job_name) else {
        return Err(Failure::unknown("job", job_name, "Define it first with sched.define_job."));
    };
    if !role::may_act_for(caller, known.owner) {
        return Err(Failure::not_owner("job", job_name));
    }
    Ok(known)
}

/// The same of the job that is given its alerts, if there is one.
pub fn check_alert_job(session: &Session, schedule: &Definition, caller: pg_sys::Oid) -> Outcome<()> {
    schedule.alerts.alert_job.iter().try_for_each(|job| check_job(session, job, caller).map(drop))
}

pub fn duplicate(name: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        format!("schedule \"{name}\" already exists"),
        "Choose another name, or change the existing one with sched.alter_schedule.",
    )
}

/// The schedule of this name, locked against other edits, if the caller may change it; `42704`, `42501`.
pub fn find(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<Locked> {
    find_if_any(session, name, caller)?
        .ok_or_else(|| Failure::unknown("schedule", name, "Look for its name in the view sched.schedules."))
}

/// The same, where a schedule that does not exist is no error.
pub fn find_if_any(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<Option<Locked>> {
    let Some(found) = schedule::lock(session, name) else { return Ok(None) };
    // Without its job nobody but a superuser can be known to own it.
    let owner = job::read(session, &found.definition.job_name).map(|job| job.owner);
    if !owner.map_or_else(|| role::is_superuser(caller), |owner| role::may_act_for(caller, owner)) {
        return Err(Failure::not_owner("schedule", name));
    }
    // Its row is locked.
    shard::require(|| session, [found.definition.scope()])?;
    Ok(Some(found))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn drop_schedule(schedule_name: Option<Text>, cancel_pending: default!(Option<bool>, "false")) -> bool {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let caller = role::caller();
        session(|session| {
            let Some(found) = find_if_any(session, &name, caller)? else { return Ok(false) };
            delete(session, found.schedule_id, required("cancel_pending", cancel_pending)?);
            Ok(true)
        })
    })())
}

/// Deletes a schedule that is locked.
pub fn delete(session: &Session, schedule_id: i64, cancel_pending: bool) {
    if let Some(theirs) = taken_from(session, schedule_id) {
        let message = format!("{theirs} stays switched off there");
        let hint =
            "This schedule was taken over from it. Call sched.hand_back before a drop to have it run there again.";
        warn(Some(Failure { hint: hint.to_owned(), ..Failure::warning(message) }));
    }
    let keys = schedule::delete(session, schedule_id);
    if cancel_pending {
        dropped::cancel_pending(session, schedule_id, keys, database_clock::now());
    }
}
