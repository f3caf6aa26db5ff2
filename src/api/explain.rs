//! `explain`; what the views `sched.skipped` and `sched.schedules` cannot say in SQL.

use std::collections::HashMap;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use scheduler_core::Keyword;

use crate::dispatch;
use crate::pg::array::GatheredTimes;
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{convert, role, session, Session};
use crate::store::database_clock;
use crate::store::schedule::skipped_plans;
use crate::store::shard;
use crate::store::timer;

use crate::api::result::TableIterator;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn explain(
    schedule_name: Option<Text>,
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
) -> TableIterator<
    'static,
    (
        name!(plan_time, TimestampWithTimeZone),
        name!(verdict, &'static str),
        name!(execution_id, Option<Uuid>),
        name!(reason, Option<String>),
    ),
> {
    let verdicts = or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let (from, to) = convert::range(from_time, to_time)?;
        let caller = role::caller();
        session(|session| {
            let schedule_id = readable_schedule(session, &name, caller)?;
            dispatch::explain(session, schedule_id, from, to, database_clock::now())
        })
    })());
    TableIterator::new(
        verdicts
            .into_iter()
            .map(|verdict| (convert::timestamp(verdict.plan), verdict.verdict, verdict.execution_id, verdict.reason)),
    )
}

/// A schedule of this server that the caller may read about; `42704`, `42501`, `55000`.
pub fn readable_schedule(session: &Session, name: &str, caller: pg_sys::Oid) -> Outcome<i64> {
    match skipped_plans::seen_by(session, name, caller) {
        None => Err(Failure::unknown("schedule", name, "Look for its name in the view sched.schedules.")),
        Some((_, false)) => Err(Failure::not_owner("schedule", name)),
        Some((schedule_id, true)) => shard::require_schedule(session, name).map(|()| schedule_id),
    }
}

/// What paused and parked schedules that the caller may read about have passed over so far, and an edit that nobody has applied yet;
/// sched.skipped reads it.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
pub fn skipped_so_far() -> TableIterator<
    'static,
    (
        name!(schedule_name, String),
        name!(plan_from, TimestampWithTimeZone),
        name!(plan_to, TimestampWithTimeZone),
        name!(count, i64),
        name!(reason, &'static str),
    ),
> {
    let caller = role::caller();
    let rows: Vec<_> = session(|session| {
        let names: HashMap<i64, String> = skipped_plans::stopped(session, caller).into_iter().collect();
        let mut ids: Vec<i64> = names.keys().copied().collect();
        ids.sort_unstable();
        let snapshots = timer::read(session, ids.clone(), timer::timers(session, ids));
        let so_far = dispatch::so_far(session, &snapshots, database_clock::now());
        so_far.into_iter().filter_map(|(id, skip)| Some((names.get(&id)?.clone(), skip))).collect()
    });
    TableIterator::new(rows.into_iter().map(|(name, found)| {
        let count = i64::try_from(found.count).unwrap_or(i64::MAX);
        (name, convert::timestamp(found.from), convert::timestamp(found.to), count, found.reason.as_str())
    }))
}

/// A run of skips without the plan times that the ledger has (`own`: the schedule's executions; `others`: what there is else in its scopes)
/// and those after its definition's end; sched.skipped reads it. A function of its arguments alone.
#[pg_extern(schema = "sched_internal", stable, parallel_safe)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
pub fn skip_parts(
    clock: Option<Text>,
    time_zone: Option<Text>,
    anchor: Option<TimestampWithTimeZone>,
    starts_at: Option<TimestampWithTimeZone>,
    ends_at: Option<TimestampWithTimeZone>,
    valid_to: Option<TimestampWithTimeZone>,
    plan_from: Option<TimestampWithTimeZone>,
    plan_to: Option<TimestampWithTimeZone>,
    count: Option<i64>,
    own: Option<GatheredTimes>,
    others: Option<GatheredTimes>,
) -> TableIterator<
    'static,
    (name!(plan_from, TimestampWithTimeZone), name!(plan_to, TimestampWithTimeZone), name!(count, i64)),
> {
    let (Some(from), Some(to), Some(count)) = (plan_from, plan_to, count) else { return TableIterator::new([]) };
    let finite =
        |value: Option<TimestampWithTimeZone>| value.and_then(|value| convert::instant("a stored time", value).ok());
    let taken = |plans: Option<GatheredTimes>, own: bool| {
        let taken = move |plan| Some(skipped_plans::Taken { plan: finite(plan)?, own, here: own });
        plans.unwrap_or_default().into_iter().filter_map(taken)
    };
    let mut taken: Vec<_> = taken(own, true).chain(taken(others, false)).collect();
    taken.sort_by_key(|taken| taken.plan);
    // What cannot be read was not written by a dispatcher of today: it stays as it is.
    let definition =
        clock.zip(time_zone).filter(|(_, zone)| ServerZone::told(zone).is_ok()).zip(finite(anchor)).and_then(
            |((clock, zone), anchor)| dispatch::BoundedClock::read(&clock, &zone, anchor, (starts_at, ends_at)).ok(),
        );
    let run = finite(plan_from).zip(finite(plan_to)).map(|(from, to)| (from, to, count));
    let Some((run, definition)) = run.zip(definition) else { return TableIterator::once((from, to, count)) };
    let parts = dispatch::skip_parts(&definition, run, finite(valid_to), &taken);
    let timestamp = convert::timestamp;
    TableIterator::new(parts.into_iter().map(move |(from, to, count)| (timestamp(from), timestamp(to), count)))
}

/// The first plan time of an armed schedule that the ledger lacks, and when it fires; sched.schedules reads it. Nothing of a schedule that the
/// caller may not read about.
#[pg_extern(schema = "sched_internal", stable, parallel_unsafe)]
pub fn next_open(schedule_name: Option<Text>) -> Option<Vec<TimestampWithTimeZone>> {
    let (name, caller) = (schedule_name?, role::caller());
    session(|session| {
        let (schedule_id, _) = skipped_plans::seen_by(session, &name, caller).filter(|(_, seen)| *seen)?;
        let (plan, fire_at) = dispatch::next_open(session, schedule_id)?;
        Some(vec![convert::timestamp(plan), convert::timestamp(fire_at)])
    })
}
