//! `compare`: what our rules say beside what the other scheduler has run.

use std::collections::BTreeMap;

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::prelude::*;
use scheduler_core::foreign::comparison::{self, Between, Compared, Difference, Run, Together};
use scheduler_core::schedule::PlanTimes as _;
use scheduler_core::{Instant, Keyword};

use crate::dispatch::{too_many, MOST_PLANS};
use crate::pg::convert::{self, required, Zero};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::zone::ServerZone;
use crate::pg::{role, session, Session};
use crate::store::handover::{self, taken, Imported, ImportedSchedule};

use crate::api::result::TableIterator;

use super::before::first_part;
use super::known::known;
use super::source::add_reported;

type ResultRow = (
    String,
    TimestampWithTimeZone,
    &'static str,
    Option<TimestampWithTimeZone>,
    Option<TimestampWithTimeZone>,
    Option<String>,
);

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn compare(
    source: Option<Text>,
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
    tolerance: default!(Option<Interval>, "'60 seconds'"),
) -> TableIterator<
    'static,
    (
        name!(schedule_name, String),
        name!(plan_time, TimestampWithTimeZone),
        name!(verdict, &'static str),
        name!(ours_at, Option<TimestampWithTimeZone>),
        name!(theirs_at, Option<TimestampWithTimeZone>),
        name!(note, Option<String>),
    ),
> {
    let rows = or_raise((|| {
        let source = known(&required("source", source)?)?;
        let range = convert::range(from_time, to_time)?;
        let tolerance = convert::duration("tolerance", required("tolerance", tolerance)?, Zero::Allowed)?;
        let caller = role::caller();
        let mut rows = Vec::new();
        for name in session(|session| handover::schemas(session, source.name())) {
            let mut imported = session(|session| handover::read(session, source.name(), &name));
            imported.retain(|one| one.schedule.as_ref().is_some_and(|schedule| schedule.is_of(caller)));
            let is_own = |one: &Imported| one.schedule.as_ref().and_then(|schedule| schedule.owner) == Some(caller);
            let schema = match source.find(Some(name.clone()), caller) {
                Ok(schema) => schema,
                // What others have imported, from where the caller trusts nothing, or what has gone since, is no reason to say nothing.
                Err(_) if !imported.iter().any(is_own) => continue,
                Err(failure) => return Err(failure),
            };
            let mut runs = source.runs(&schema, ahead(range.0, -REACH), ahead(range.1, REACH), caller)?;
            for (id, schedules) in by_job(imported, |schedule| schedule.is_of(caller)) {
                pgrx::check_for_interrupts!();
                let mut runs = runs.remove(&id).unwrap_or_default();
                let (from, to) = (ahead(range.0, -REACH), ahead(range.1, REACH));
                for schedule in &schedules {
                    let fires = session(|session| taken::reported_fires(session, schedule.schedule_id, from, to));
                    add_reported(&mut runs, fires);
                }
                rows.extend(session(|session| compared(session, &schedules, &runs, range, tolerance))?);
                if u64::try_from(rows.len()).is_ok_and(|count| count > MOST_PLANS) {
                    return Err(too_many("Compare a shorter range, and then the next one."));
                }
            }
        }
        rows.sort_by(|a, b| (&a.0, i64::from(a.1)).cmp(&(&b.0, i64::from(b.1))));
        Ok(rows)
    })());
    TableIterator::new(rows)
}

/// How far beyond the range runs are looked at, in microseconds: one in it may be for a plan time before, and one after it for one in it.
const REACH: i64 = 86_400_000_000;

fn ahead(at: Instant, micros: i64) -> Instant {
    at.checked_add_micros(micros).unwrap_or(if micros < 0 { Instant::MIN } else { Instant::MAX })
}

/// The schedules of each of their jobs, as far as the caller may hear of them. What is off beside others that are on has no part in the runs of
/// their job.
pub fn by_job(
    imported: Vec<Imported>,
    may_hear: impl Fn(&ImportedSchedule) -> bool,
) -> BTreeMap<String, Vec<ImportedSchedule>> {
    let mut jobs: BTreeMap<String, Vec<ImportedSchedule>> = BTreeMap::new();
    for one in imported {
        if let Some(schedule) = one.schedule.filter(&may_hear) {
            jobs.entry(first_part(&one.source_id).to_owned()).or_default().push(schedule);
        }
    }
    for schedules in jobs.values_mut().filter(|all| all.iter().any(|schedule| schedule.enabled)) {
        schedules.retain(|schedule| schedule.enabled);
    }
    jobs
}

/// The lines in [from, to) of the schedules of one of their jobs: of a run they do not say which schedule it was for. What was fired here meanwhile,
/// between a take-over and a hand-back, is not theirs to have run.
pub fn compared(
    session: &Session,
    schedules: &[ImportedSchedule],
    runs: &[Run],
    (from, to): (Instant, Instant),
    tolerance: i64,
) -> Outcome<Vec<ResultRow>> {
    let (Some(first), Some(last), Some(one)) = (runs.first(), runs.last(), schedules.first()) else {
        return Ok(Vec::new());
    };
    let read = schedules.iter().map(|schedule| {
        let both = (|| Ok((convert::clock(&schedule.clock)?, ServerZone::stored(&schedule.time_zone)?)))();
        both.map_err(|failure: Failure| {
            let message = format!("schedule \"{}\" cannot be compared: {}", schedule.name, failure.message);
            Failure { message, ..failure }
        })
    });
    let read = read.collect::<Outcome<Vec<_>>>()?;
    let mut clocks = Vec::with_capacity(read.len());
    for ((clock, zone), schedule) in read.iter().zip(schedules) {
        let timeline = clock.bind(zone, convert::instant("created_at", schedule.created_at)?);
        if timeline.count_between(first.began, last.began, 4 * MOST_PLANS + 1) > 4 * MOST_PLANS {
            return Err(too_many("Compare a shorter range, and then the next one."));
        }
        clocks.push(Between {
            clock: timeline,
            starts_at: convert::optional_instant("starts_at", schedule.starts_at)?,
            ends_at: convert::optional_instant("ends_at", schedule.ends_at)?,
        });
    }
    let clocks = Together(clocks);
    let lines = comparison::compare(&clocks, runs, tolerance);
    let time = |at: Option<Instant>| at.map(convert::timestamp);
    let name = |plan: Option<Instant>| {
        let is_due = |clock: &Between<_>| plan.is_some_and(|at| clock.next_after(at.just_before()) == plan);
        clocks.0.iter().zip(schedules).find(|(clock, _)| is_due(clock)).map_or(&one.name, |(_, due)| &due.name).clone()
    };
    let row = |line: Compared| {
        let Compared { plan_time, difference, ours, theirs } = line;
        let note = note(difference, ours, theirs);
        (name(ours), convert::timestamp(plan_time), difference.as_str(), time(ours), time(theirs), note)
    };
    let counts = clocks.counts_from().is_some();
    let is_ours = |line: &Compared| {
        let (Some(plan), until) = (line.ours, line.theirs.or(line.ours)) else { return false };
        let may_be = line.difference == Difference::OnlyHere || counts && line.difference == Difference::Late;
        let was_fired = |one: &ImportedSchedule| taken::is_ours(session, one.schedule_id, plan, until.unwrap_or(plan));
        may_be && schedules.iter().any(was_fired)
    };
    let in_range = |line: &Compared| (from..to).contains(&line.plan_time);
    Ok(lines.into_iter().filter(|line| in_range(line) && !is_ours(line)).map(row).collect())
}

fn note(difference: Difference, ours: Option<Instant>, theirs: Option<Instant>) -> Option<String> {
    match (difference, ours, theirs) {
        (Difference::Late, Some(ours), Some(theirs)) => {
            let seconds = (theirs.as_micros() - ours.as_micros()) / 1_000_000;
            Some(format!("they ran it {seconds} seconds later"))
        }
        (Difference::OnlyHere, ..) => Some("they have no run of it".to_owned()),
        (Difference::OnlyThere, ..) => Some("no plan time of ours is for it".to_owned()),
        (Difference::Both | Difference::Late, ..) => None,
    }
}
