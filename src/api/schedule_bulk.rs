//! `create_schedules`: all of a JSON array, or nothing of it.

use std::collections::HashSet;

use pgrx::prelude::*;
use scheduler_core::Instant;

use crate::pg::convert::required;
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::memory;
use crate::pg::{role, session, subtransaction, Session};
use crate::store::database_clock;
use crate::store::identity;
use crate::store::schedule::bulk::{self as store, Malformed, Spec};
use crate::store::schedule::Definition;
use crate::store::shard;

use crate::api::job as jobs;
use crate::api::schedule::{self, check_job, check_keys, defaults, duplicate};

/// The arguments of create_schedule.
pub const KEYS: [&str; 22] = [
    "schedule_name",
    "clock",
    "job_name",
    "time_zone",
    "payload",
    "scope_kind",
    "scope_id",
    "catch_up",
    "catch_up_window",
    "max_plans_per_tick",
    "rearm",
    "overlap",
    "delay",
    "jitter",
    "starts_at",
    "ends_at",
    "ownership",
    "enabled",
    "max_lateness",
    "max_duration",
    "expect_success_within",
    "alert_job",
];
/// Those whose JSON text has to be read as another type.
const TYPED_KEYS: [&str; 16] = [
    "catch_up_window",
    "max_plans_per_tick",
    "delay",
    "jitter",
    "starts_at",
    "ends_at",
    "enabled",
    "max_lateness",
    "max_duration",
    "expect_success_within",
    "adopt",
    "run_timeout",
    "max_attempts",
    "retry_backoff",
    "own_transactions",
    "priority",
];

/// The keys that an element may have.
pub struct Keys<'a> {
    pub all: &'a [&'a str],
    /// The function whose arguments they are.
    pub of: &'a str,
}

const AS_AN_ARGUMENT: &str =
    "Write texts, times and lengths of time as JSON strings, numbers as numbers, enabled as true or false, and several values as an array.";

/// What a byte of the array may become while all of it is read and written.
pub const BYTES_FOR_EACH: usize = 8;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn create_schedules(specs: Option<Jsonb>) -> i64 {
    or_raise((|| {
        let specs = required("specs", specs)?;
        memory::require(BYTES_FOR_EACH * specs.stored_size());
        let caller = role::caller();
        let (count, warning) = session(|session| {
            identity::refuse_distributed(|| session)?;
            let schedules = read(session, &specs)?;
            check_jobs(session, &schedules, caller)?;
            check_shard(session, &schedules)?;
            let warning = will_not_fire(&schedules, database_clock::now())?;
            let names: Vec<String> = schedules.iter().map(|schedule| schedule.schedule_name.clone()).collect();
            let inserted = store::insert(session, schedules, database_clock::now());
            let count = inserted.len();
            if count < names.len() {
                return Err(taken(&names, inserted));
            }
            Ok((i64::try_from(count).unwrap_or(i64::MAX), warning))
        })?;
        warn(warning);
        Ok(count)
    })())
}

/// One warning for all of them that have nothing to come.
fn will_not_fire(schedules: &[Definition], now: Instant) -> Outcome<Option<Failure>> {
    let (mut first, mut more) = (None, 0);
    for (index, schedule) in schedules.iter().enumerate() {
        match schedule::will_not_fire(schedule, now, now)? {
            Some(_) if first.is_some() => more += 1,
            Some(warning) => first = Some(at(index + 1, "clock", warning)),
            None => {}
        }
    }
    let and_more = |warning: Failure| Failure {
        message: format!("{}, nor have those of {more} more", warning.message),
        ..warning
    };
    Ok(if more > 0 { first.map(and_more) } else { first })
}

/// The failure as one of element `place` (1-based) and this key.
pub fn at(place: usize, key: &str, failure: Failure) -> Failure {
    Failure { message: format!("element {place}, key \"{key}\": {}", failure.message), ..failure }
}

fn read(session: &Session, specs: &Jsonb) -> Outcome<Vec<Definition>> {
    read_specs(session, specs, &Keys { all: &KEYS, of: "create_schedule" })?
        .into_iter()
        .enumerate()
        .map(|(index, spec)| {
            let place = index + 1;
            let definition = definition(spec).map_err(|(key, failure)| at(place, key, failure))?;
            check_keys(&definition, None).map_err(|(key, failure)| at(place, key, failure))?;
            Ok(schedule::armed_as_its_clock_says(definition))
        })
        .collect()
}

/// The elements of an array with these keys; an error names the element and the key.
pub fn read_specs(session: &Session, specs: &Jsonb, keys: &Keys) -> Outcome<Vec<Spec>> {
    if !specs.is_array() {
        return Err(Failure::invalid(
            "specs is not an array",
            format!("Pass a JSON array of objects, each with the arguments of {}.", keys.of),
        ));
    }
    if let Some((place, malformed)) = store::malformed(session, specs, keys.all) {
        return Err(refusal(place, malformed, keys));
    }
    let count = store::count(session, specs);
    let rows = subtransaction::run(|| store::read_specs(session, specs, 1..=count));
    rows.map_err(|failure| unreadable(session, specs, count, &failure.message))
}

fn refusal(place: usize, malformed: Malformed, keys: &Keys) -> Failure {
    let keys = || format!("An element is an object with keys of: {}.", keys.all.join(", "));
    match malformed {
        Malformed::NotAnObject => Failure::invalid(format!("element {place} is not an object"), keys()),
        Malformed::Key(key) => Failure::invalid(format!("element {place} has the unknown key \"{key}\""), keys()),
        Malformed::Value { key, json_type, text } => {
            let wanted = match key.as_str() {
                "max_plans_per_tick" | "max_attempts" | "priority" => "number",
                "enabled" | "adopt" | "own_transactions" => "boolean",
                "retry_backoff" => "array",
                _ => "string",
            };
            let message = format!("{text} is of the JSON type {json_type}, not {wanted}");
            at(place, &key, Failure::invalid(message, AS_AN_ARGUMENT))
        }
    }
}

/// Which element and key it was that could not be read: the first, of which the half is looked for that it is in, so that the tries
/// are few, and all of them together read each element about once more.
fn unreadable(session: &Session, specs: &Jsonb, count: i32, message: &str) -> Failure {
    let (mut first, mut last) = (1, count);
    while first < last {
        let middle = first + (last - first) / 2;
        match subtransaction::run(|| drop(store::read_specs(session, specs, first..=middle))) {
            Err(_) => last = middle,
            Ok(()) => first = middle + 1,
        }
        pgrx::check_for_interrupts!();
    }
    for key in TYPED_KEYS {
        if let Err(failure) = subtransaction::run(|| store::read_key(session, specs, first, key)) {
            return at(usize::try_from(first).unwrap_or(0), key, Failure::invalid(failure.message, AS_AN_ARGUMENT));
        }
    }
    Failure::invalid(message, AS_AN_ARGUMENT)
}

pub fn definition(spec: Spec) -> Result<Definition, (&'static str, Failure)> {
    let given = |key: &'static str, value: Option<String>| required(key, value).map_err(|failure| (key, failure));
    let base = defaults(
        given("schedule_name", spec.schedule_name)?,
        given("clock", spec.clock)?,
        given("job_name", spec.job_name)?,
        spec.time_zone,
        spec.scope_id,
    );
    Ok(Definition {
        payload: spec.payload.unwrap_or(base.payload),
        scope_kind: spec.scope_kind.unwrap_or(base.scope_kind),
        catch_up: spec.catch_up.unwrap_or(base.catch_up),
        catch_up_window: spec.catch_up_window,
        max_plans_per_tick: spec.max_plans_per_tick.unwrap_or(base.max_plans_per_tick),
        rearm: spec.rearm.unwrap_or(base.rearm),
        overlap: spec.overlap.unwrap_or(base.overlap),
        delay: spec.delay.unwrap_or(base.delay),
        jitter: spec.jitter.unwrap_or(base.jitter),
        starts_at: spec.starts_at,
        ends_at: spec.ends_at,
        ownership: spec.ownership.unwrap_or(base.ownership),
        enabled: spec.enabled.unwrap_or(base.enabled),
        alerts: spec.alerts,
        ..base
    })
}

/// Every job that is named exists and is the caller's; each is looked at once.
fn check_jobs(session: &Session, schedules: &[Definition], caller: pg_sys::Oid) -> Outcome<()> {
    let mut seen = HashSet::new();
    let mut notifying = HashSet::new();
    for (index, schedule) in schedules.iter().enumerate() {
        let alert_job = schedule.alerts.alert_job.as_ref().map(|job| ("alert_job", job));
        for (key, job) in [("job_name", &schedule.job_name)].into_iter().chain(alert_job) {
            if seen.insert(job.as_str()) {
                let known = check_job(session, job, caller).map_err(|failure| at(index + 1, key, failure))?;
                if known.notifies {
                    notifying.insert(job.as_str());
                }
            }
        }
        let notifies = notifying.contains(schedule.job_name.as_str());
        jobs::check_payload(notifies, &schedule.job_name, &schedule.payload)
            .map_err(|failure| at(index + 1, "payload", failure))?;
    }
    Ok(())
}

/// All scopes are this server's, and stay so.
fn check_shard(session: &Session, schedules: &[Definition]) -> Outcome<()> {
    shard::lock();
    let found = shard::first_elsewhere(|| session, schedules.iter().map(Definition::scope))?;
    found.map_or(Ok(()), |(index, failure)| Err(at(index + 1, "scope_id", failure)))
}

/// The first name that was not free, in the table or in the array itself.
fn taken(names: &[String], inserted: Vec<(String, i64)>) -> Failure {
    let mut free: HashSet<String> = inserted.into_iter().map(|(name, _)| name).collect();
    let place = names.iter().position(|name| !free.remove(name)).unwrap_or(0);
    at(place + 1, "schedule_name", duplicate(names.get(place).map_or("", String::as_str)))
}
