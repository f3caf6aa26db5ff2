//! What the views say beside their tables, so that they agree with `explain`: what is in the ledger was fired, and is neither skipped
//! nor to come.

use scheduler_core::schedule::{Next, PlanTimes, Skip, SkipReason};
use scheduler_core::Instant;

use crate::dispatch::apply_changes::{armed, ended_definitions, is_edited};
use crate::dispatch::compile::CompiledSchedule;
use crate::dispatch::definition_history::{BoundedClock, EndedDefinitions};
use crate::pg::{convert, Session};
use crate::store::schedule::skipped_plans::{self, Taken};
use crate::store::timer::{self, ScheduleRow, ScheduleState};

/// A run of plan times: the first, the last, how many.
pub type Run = (Instant, Instant, i64);

/// What is left of a run of skips without the plan times that are `taken` and those after its definition's end: a dispatcher that had not
/// heard of the edit passed over them.
pub fn skip_parts(definition: &BoundedClock, run: Run, until: Option<Instant>, taken: &[Taken]) -> Vec<Run> {
    let (from, to, count) = run;
    let last = until.map_or(to, |until| to.min(until));
    let parts = definition.skipped_but(from.just_before(), last, SkipReason::Missed, taken);
    let counted = |part: Skip| {
        let whole = (part.from, part.to) == (from, to);
        (part.from, part.to, if whole { count } else { i64::try_from(part.count).unwrap_or(i64::MAX) })
    };
    parts.into_iter().map(counted).collect()
}

/// The first plan time of an armed schedule that the ledger lacks, and when it fires; `None` where its clock has none.
pub fn next_open(session: &Session, schedule_id: i64) -> Option<(Instant, Instant)> {
    let snapshots = timer::read(session, vec![schedule_id], timer::timers(session, vec![schedule_id]));
    let (row, timer) = snapshots.first().and_then(|s| s.schedule.as_ref().zip(s.timer.as_ref()))?;
    let compiled = CompiledSchedule::compile_without_job(schedule_id, row).ok()?;
    let clock = compiled.clock.bind(&compiled.zone, compiled.anchor);
    let before_end = |plan: &Instant| compiled.policy.ends_at.is_none_or(|end| *plan < end);
    let (first, cursor) = (timer.next_plan_time?, timer.progress.as_ref().ok()?.cursor);
    // A plan that was buffered lies before others that are decided.
    let later = std::iter::successors(PlanTimes::next_after(&clock, first.max(cursor.unwrap_or(first))), |plan| {
        PlanTimes::next_after(&clock, *plan)
    });
    let mut plans = std::iter::once(first).chain(later.take_while(before_end));
    for at_once in [10, 100].into_iter().chain(std::iter::repeat(1000)) {
        pgrx::check_for_interrupts!();
        let some: Vec<Instant> = plans.by_ref().take(at_once).collect();
        let taken = skipped_plans::fired(session, schedule_id, some.iter().copied().map(convert::timestamp).collect());
        let is_taken = |plan: &Instant| {
            let found =
                taken.binary_search_by_key(plan, |(taken, _)| taken.plan).ok().and_then(|found| taken.get(found));
            found.is_some_and(|(taken, _)| taken.here)
        };
        let ends = some.len() < at_once;
        match some.into_iter().find(|plan| !is_taken(plan)) {
            Some(plan) => return Some((plan, compiled.policy.fire_time(&clock, plan))),
            None if ends => return None,
            None => {}
        }
    }
    None
}

/// When those of these schedules should have fired whose change nobody has applied, and that are due.
pub fn due_once_applied(session: &Session, schedule_ids: Vec<i64>, now: Instant) -> Vec<Instant> {
    if schedule_ids.is_empty() {
        return Vec::new();
    }
    let snapshots = timer::read(session, schedule_ids.clone(), timer::timers(session, schedule_ids));
    let past = ended_definitions(session, &snapshots, now);
    let due = |snapshot: &ScheduleState| {
        let row = snapshot.schedule.as_ref().filter(|_| is_edited(snapshot))?;
        match armed(snapshot, row, past.get(&snapshot.schedule_id), None, now).next? {
            Next::Armed { fire_at, .. } => Some(fire_at).filter(|fire_at| *fire_at <= now),
            Next::Waiting | Next::Done => None,
        }
    };
    snapshots.iter().filter_map(due).collect()
}

/// Plan times of one definition that did not run so far.
struct SoFar {
    definition: BoundedClock,
    after: Instant,
    to: Instant,
    reason: SkipReason,
}

/// What schedules that are paused or parked have passed over, or keep waiting, so far, and what an edit passes over that nobody has applied
/// yet: the plan times and the reason.
pub fn so_far(session: &Session, snapshots: &[ScheduleState], now: Instant) -> Vec<(i64, Skip)> {
    let mut all: Vec<(i64, SoFar)> = Vec::new();
    let past = ended_definitions(session, snapshots, now);
    for snapshot in snapshots {
        let Some(row) = &snapshot.schedule else { continue };
        let mut runs = Vec::from_iter(stopped(snapshot, row, now));
        if is_edited(snapshot) {
            runs.extend(passed_over(snapshot, row, past.get(&snapshot.schedule_id), now));
        }
        all.extend(runs.into_iter().map(|run| (snapshot.schedule_id, run)));
    }
    let ranges: Vec<_> = all.iter().map(|(id, run)| (*id, run.after, run.to)).collect();
    let taken = skipped_plans::fired_between(session, &ranges);
    let mut skips = Vec::new();
    for (schedule_id, SoFar { definition, after, to, reason }) in all {
        pgrx::check_for_interrupts!();
        let mut taken = taken.get(&schedule_id).cloned().unwrap_or_default();
        // What is parked may run yet.
        taken.retain(|taken| taken.here || reason != SkipReason::Parked);
        let runs = definition.skipped_but(after, to, reason, &taken);
        skips.extend(runs.into_iter().map(|skip| (schedule_id, skip)));
    }
    skips
}

/// What a schedule passes over now, or keeps waiting: it is paused or parked.
fn stopped(snapshot: &ScheduleState, row: &ScheduleRow, now: Instant) -> Option<SoFar> {
    let timer = snapshot.timer.as_ref().filter(|timer| timer.version == row.version);
    let (reason, cursor) = match (row.enabled, timer.filter(|timer| timer.parked.is_some())) {
        (false, _) => (SkipReason::Paused, None),
        (true, Some(timer)) => (SkipReason::Parked, timer.progress_or_all(now).cursor),
        (true, None) => return None,
    };
    let definition = BoundedClock::of_row(row).ok().filter(|_| row.owned)?;
    let after = row.defined_at.max(cursor.unwrap_or(row.defined_at));
    Some(SoFar { definition, after, to: now, reason })
}

/// What the next dispatcher will find passed over by an edit.
fn passed_over(
    snapshot: &ScheduleState,
    row: &ScheduleRow,
    ended: Option<&EndedDefinitions>,
    now: Instant,
) -> Vec<SoFar> {
    let skipped = armed(snapshot, row, ended, None, now).skipped;
    let past = |defined_at: Instant| ended?.definitions.iter().find(|past| past.valid_from == defined_at);
    let definition = |defined_at: Instant| match past(defined_at) {
        Some(past) => BoundedClock::of_past(past, row.created_at).ok(),
        None => BoundedClock::of_row(row).ok(),
    };
    let runs = skipped.into_iter().filter_map(|(defined_at, skip)| {
        Some(SoFar {
            definition: definition(defined_at)?,
            after: skip.from.just_before(),
            to: skip.to,
            reason: skip.reason,
        })
    });
    runs.collect()
}
