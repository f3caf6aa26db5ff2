//! What did not run, and why: plans that were passed over, as runs of neighbours with one reason.

use crate::instant::Instant;
use crate::plan::PlanTimes;

/// Why a plan did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing dispatched it in time, and `latest_only` or `skip_missed` does not make it up.
    Missed,
    /// An earlier execution of the schedule had not ended.
    Overlap,
    /// It was older than the catch-up window.
    Window,
    /// The schedule was paused.
    Paused,
    /// The schedule could not be used when it came, and is not made up for it.
    Parked,
    /// The clock, the zone or the schedule's window was changed before it was dispatched.
    Replaced,
}

/// A run of plans that did not run: neighbours on the clock, with one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The first of them.
    pub from: Instant,
    /// The last of them.
    pub to: Instant,
    /// How many there are.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// The clock's plan before the first: a run that ends there goes on with this one.
    pub previous: Option<Instant>,
}

/// The plans in (after, to] as one run; `None` when there are none.
pub fn between(clock: &impl PlanTimes, after: Instant, to: Instant, reason: Reason) -> Option<Skip> {
    let from = clock.next_after(after).filter(|from| *from <= to)?;
    let last = clock.previous_at_or_before(to)?.max(from);
    let before = from.just_before();
    let count = if last == from { 1 } else { clock.count_between(before, last) };
    Some(Skip { from, to: last, count, reason, previous: clock.previous_at_or_before(before) })
}

/// One plan.
pub fn one(clock: &impl PlanTimes, plan: Instant, reason: Reason) -> Skip {
    Skip { from: plan, to: plan, count: 1, reason, previous: clock.previous_at_or_before(plan.just_before()) }
}
