//! Plan times that did not run, and why: ranges of neighbours on the clock with one reason.

use crate::keyword::keywords;
use crate::time::Instant;

use super::plan_times::PlanTimes;

keywords! {
    /// Why a plan did not run.
    pub enum SkipReason {
        /// Nothing dispatched it in time, and `latest_only` or `skip_missed` does not make it up.
        Missed = "missed",
        /// An earlier execution of the schedule had not ended.
        Overlap = "overlap",
        /// It was older than the catch-up window.
        Window = "window",
        /// The schedule was paused.
        Paused = "paused",
        /// The schedule could not be used when it came, and is not made up for it.
        Parked = "parked",
        /// The clock, the zone or the schedule's window was changed before it was dispatched.
        Replaced = "replaced",
    }
}

/// A range of plan times that did not run: neighbours on the clock, with one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The first of them.
    pub from: Instant,
    /// The last of them.
    pub to: Instant,
    /// How many there are.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
    /// The clock's plan time before the first: a range that ends there goes on with this one.
    pub previous: Option<Instant>,
}

/// The plan times in (after, to] as one range; `None` when there are none.
pub fn between(clock: &impl PlanTimes, after: Instant, to: Instant, reason: SkipReason) -> Option<Skip> {
    let from = clock.next_after(after).filter(|from| *from <= to)?;
    let last = clock.previous_at_or_before(to)?.max(from);
    let before = from.just_before();
    let count = if last == from { 1 } else { clock.count_between(before, last) };
    Some(Skip { from, to: last, count, reason, previous: clock.previous_at_or_before(before) })
}

/// One plan time.
pub fn one(clock: &impl PlanTimes, plan_time: Instant, reason: SkipReason) -> Skip {
    Skip {
        from: plan_time,
        to: plan_time,
        count: 1,
        reason,
        previous: clock.previous_at_or_before(plan_time.just_before()),
    }
}
