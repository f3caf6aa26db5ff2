//! A schedule with more plan times in the range than anybody could look at: what the ledger has of it is counted by parts of the range, what it
//! passed over is in runs of skips already, and what is to come is counted by arithmetic.

use scheduler_core::report::{Mark, Verdict};
use scheduler_core::schedule::SkipReason;
use scheduler_core::{Instant, Keyword};

use crate::dispatch::BoundedClock;
use crate::pg::Session;
use crate::report::{late_after, Request};
use crate::store::report as store;
use crate::store::schedule::skipped_plans;
use crate::store::timer::{ScheduleRow, ScheduleState};

/// In how many parts the range is counted.
const PARTS: i64 = 400;

/// The marks of a schedule, each of which stands for many plan times.
pub fn marks(session: &Session, state: &ScheduleState, request: &Request) -> Vec<Mark> {
    let Some(row) = &state.schedule else { return Vec::new() };
    let (schedule_id, range) = (state.schedule_id, [request.from, request.to]);
    let width = (request.to.as_micros().saturating_sub(request.from.as_micros()) / PARTS).max(1);
    let mut marks: Vec<Mark> = Vec::new();
    for runs in store::runs_counted(session, schedule_id, range, width as f64 / 1e6) {
        let count = u64::try_from(runs.count).unwrap_or(0);
        marks.extend(runs.verdict.map(|verdict| Mark::many(runs.first, runs.last, count, verdict)));
    }
    let past = skipped_plans::definitions_between(session, schedule_id, request.from, request.to);
    for skip in skipped_plans::between(session, schedule_id, request.from, request.to) {
        let (first, last) = (skip.from.max(request.from), skip.to.min(request.to.just_before()));
        let of = past.iter().find(|past| past.valid_from == skip.defined_at);
        let its_clock =
            of.map_or_else(|| BoundedClock::of_row(row), |past| BoundedClock::of_past(past, row.created_at));
        let count = its_clock.map_or(1, |clock| clock.count(first.just_before(), last, u64::MAX).max(1));
        let mark = Mark::many(first, last, count, Verdict::Skipped);
        marks.push(match SkipReason::parse(&skip.reason) {
            Some(reason) => mark.because(reason),
            None => mark,
        });
    }
    let Ok(clock) = BoundedClock::of_row(row) else { return marks };
    marks.extend(open(state, row, &clock, request));
    let is_parked = state.timer.as_ref().is_some_and(|timer| timer.parked.is_some());
    if row.owned && row.enabled && !is_parked {
        let mut from = request.now.max(request.from).max(row.defined_at);
        while from < request.to {
            pgrx::check_for_interrupts!();
            let to = from.checked_add_micros(width).unwrap_or(Instant::MAX).min(request.to);
            let planned = clock.count(from, to.just_before(), u64::MAX);
            if planned > 0 {
                marks.push(Mark::many(from, to.just_before(), planned, Verdict::Planned));
            }
            from = to;
        }
    }
    marks
}

/// What has come and is not decided: it waits, is late, or was passed over by a schedule that is paused.
fn open(state: &ScheduleState, row: &ScheduleRow, clock: &BoundedClock, request: &Request) -> Option<Mark> {
    let timer = state.timer.as_ref();
    let cursor = timer.and_then(|timer| timer.progress_or_all(request.now).cursor).unwrap_or(row.defined_at);
    let after = cursor.max(row.defined_at).max(request.from.just_before());
    let to = request.now.min(request.to.just_before());
    let count = if row.owned && after < to { clock.count(after, to, u64::MAX) } else { 0 };
    if count == 0 {
        return None;
    }
    let first = after.checked_add_micros(1).unwrap_or(after);
    let many = |verdict| Mark::many(first, to, count, verdict);
    let is_parked = timer.is_some_and(|timer| timer.parked.is_some());
    Some(match (row.enabled, is_parked || timer.is_some_and(|timer| timer.waiting)) {
        (false, _) => many(Verdict::Skipped).because(SkipReason::Paused),
        (true, true) => many(Verdict::Waiting),
        (true, false) if to.as_micros().saturating_sub(after.as_micros()) > late_after(row) => many(Verdict::Late),
        (true, false) => many(Verdict::Waiting),
    })
}
