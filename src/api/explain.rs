//! `explain`, and the part of the view `sched.skipped` that is still going on.

use std::collections::HashMap;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use scheduler_core::Keyword;

use crate::dispatch;
use crate::pg::error::{or_raise, Failure};
use crate::pg::utf8_text::Text;
use crate::pg::{convert, role, session};
use crate::store::schedule::skipped_plans;
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
        session(|session| match skipped_plans::seen_by(session, &name, caller) {
            None => Err(Failure::unknown("schedule", &name, "Look for its name in the view sched.schedules.")),
            Some((_, false)) => Err(Failure::not_owner("schedule", &name)),
            Some((schedule_id, true)) => dispatch::explain(session, schedule_id, from, to, convert::now()),
        })
    })());
    TableIterator::new(
        verdicts
            .into_iter()
            .map(|verdict| (convert::timestamp(verdict.plan), verdict.verdict, verdict.execution_id, verdict.reason)),
    )
}

/// What paused and parked schedules that the caller may read about have passed over so far; sched.skipped reads it.
#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
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
        let so_far = dispatch::so_far(session, &snapshots, convert::now());
        so_far.into_iter().filter_map(|(id, skip)| Some((names.get(&id)?.clone(), skip))).collect()
    });
    TableIterator::new(rows.into_iter().map(|(name, found)| {
        let count = i64::try_from(found.count).unwrap_or(i64::MAX);
        (name, convert::timestamp(found.from), convert::timestamp(found.to), count, found.reason.as_str())
    }))
}
