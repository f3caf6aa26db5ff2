//! `fire_now`, `backfill`: executions of a schedule beside its timer.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use scheduler_core::clock::{DateTime, Timeline};
use scheduler_core::{Clock, Instant};

use crate::dispatch;
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{convert, role, session, Session};
use crate::shmem::wakeup;
use crate::store::alert;
use crate::store::database_clock;
use crate::store::execution::{ExecutionBatch, Inserted};
use crate::store::job;
use crate::store::queue::draw::PlanTimeDraw;
use crate::store::schedule::{Definition, Locked};

use crate::api::schedule;
use crate::api::sql_support::scope_key;

/// How many plan times one statement inserts.
const CHUNK: usize = 10_000;

/// Inserts executions of a schedule at these plan times.
pub fn insert(
    session: &Session,
    schedule: &Locked,
    origin: &str,
    plan_times: Vec<TimestampWithTimeZone>,
    caller: pg_sys::Oid,
) -> Outcome<Inserted> {
    let Definition { schedule_name, job_name, scope_kind, scope_id, payload, .. } = &schedule.definition;
    let Some(job) = job::read(session, job_name) else {
        return Err(Failure::unknown("job", job_name, "Define it again with sched.define_job."));
    };
    if !role::may_act_for(caller, job.owner) {
        return Err(Failure::not_owner("job", job_name));
    }
    let batch = ExecutionBatch {
        key: scope_key(job_name, scope_kind, scope_id),
        job_name,
        scope_kind,
        scope_id,
        plan_times,
        payload: payload.clone(),
        origin,
        caller,
        schedule: Some((schedule.schedule_id, schedule_name)),
    };
    let inserted = dispatch::insert(session, batch, database_clock::now());
    if alert::look_at_runs(session, schedule.schedule_id, inserted.ids.clone()) {
        wakeup::at_commit(database_clock::now());
    }
    Ok(inserted)
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn fire_now(schedule_name: Option<Text>) -> Uuid {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let caller = role::caller();
        session(|session| {
            let schedule = schedule::find(session, &name, caller)?;
            let Definition { job_name, scope_kind, scope_id, .. } = &schedule.definition;
            let key = scope_key(job_name, scope_kind, scope_id);
            // Of a parked one nobody knows when it would fire.
            let own = bound(&schedule).ok();
            let timeline = own.as_ref().map(|(clock, zone, anchor)| clock.bind(zone, *anchor));
            let mut draw = PlanTimeDraw::begin(database_clock::now(), database_clock::now);
            loop {
                let mut passed_over = 0..MOST_PASSED_OVER;
                let is_free = |time| {
                    !timeline.as_ref().is_some_and(|timeline| timeline.is_plan(time)) || passed_over.next().is_none()
                };
                let (plan_time, lock) = draw.hold_if(key, is_free);
                let inserted = insert(session, &schedule, "manual", vec![convert::timestamp(plan_time)], caller)?;
                drop(lock);
                if let Some(id) = inserted.ids.first() {
                    return Ok(*id);
                }
                pgrx::check_for_interrupts!();
            }
        })
    })())
}

/// How many of a schedule's own plan times `fire_now` passes over, where one follows the other: a plan whose time the ledger holds counts as
/// fired, and would not run.
const MOST_PASSED_OVER: u32 = 1000;

/// A schedule's clock, its zone and its anchor.
fn bound(schedule: &Locked) -> Outcome<(Clock, ServerZone, Instant)> {
    let clock = convert::clock(&schedule.definition.clock)?;
    let zone = ServerZone::stored(&schedule.definition.time_zone)?;
    Ok((clock, zone, convert::instant("created_at", schedule.created_at)?))
}

/// `22023` for a clock whose plan times depend on runs: nobody can say which there would have been.
pub fn refuse_counting_from_runs(clock: &Clock, text: &str) -> Outcome<()> {
    if clock.counts_from().is_none() {
        return Ok(());
    }
    Err(Failure::invalid(
        format!("clock \"{}\" has no plan times of the past but those that were fired", convert::shown(text)),
        "It counts from the last run of its schedule. Use sched.fire_now for one more run, or a clock on a grid such as \"every 30 seconds\".",
    ))
}

/// The range of a backfill, which has ended: what is to come would be claimable at once; `22023`.
fn past(range: (Instant, Instant), now: Instant) -> Outcome<(Instant, Instant)> {
    if range.1 <= now {
        return Ok(range);
    }
    let message =
        format!("to_time must not be in the future: {} is after {}", DateTime::Fixed(range.1), DateTime::Fixed(now));
    Err(Failure::invalid(
        message,
        "Backfill is for plan times of the past: end at now() or before, and leave the rest to the schedule.",
    ))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn backfill(
    schedule_name: Option<Text>,
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
) -> i64 {
    or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let (from, to) = past(convert::range(from_time, to_time)?, database_clock::now())?;
        let caller = role::caller();
        session(|session| {
            let schedule = schedule::find(session, &name, caller)?;
            let (clock, zone, anchor) = bound(&schedule)?;
            refuse_counting_from_runs(&clock, &schedule.definition.clock)?;
            let timeline = clock.bind(&zone, anchor);
            let (from, to) = within_window(&schedule.definition, from, to)?;
            let count = timeline.count_between(from.just_before(), to.just_before(), dispatch::MOST_PLANS + 1);
            if count > dispatch::MOST_PLANS {
                return Err(dispatch::too_many("Backfill a shorter range, and then the next one."));
            }
            let mut plans = plans(&timeline, from, to);
            let mut count = 0;
            loop {
                let chunk: Vec<_> = plans.by_ref().take(CHUNK).map(convert::timestamp).collect();
                if chunk.is_empty() {
                    return Ok(count);
                }
                count += insert(session, &schedule, "backfill", chunk, caller)?.count;
                pgrx::check_for_interrupts!();
            }
        })
    })())
}

/// The range cut to the schedule's starts_at and ends_at.
fn within_window(schedule: &Definition, from: Instant, to: Instant) -> Outcome<(Instant, Instant)> {
    let starts_at = convert::optional_instant("starts_at", schedule.starts_at)?;
    let ends_at = convert::optional_instant("ends_at", schedule.ends_at)?;
    Ok((starts_at.map_or(from, |start| start.max(from)), ends_at.map_or(to, |end| end.min(to))))
}

/// The plan times in [from, to), oldest first.
fn plans<'t>(timeline: &'t Timeline<'t, ServerZone>, from: Instant, to: Instant) -> impl Iterator<Item = Instant> + 't {
    let before = from.just_before();
    std::iter::successors(timeline.next_after(before), |plan| timeline.next_after(*plan))
        .take_while(move |plan| *plan < to)
}
