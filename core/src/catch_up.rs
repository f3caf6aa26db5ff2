//! Missed plans → the plans to run. A plan is missed when its successor is due as well.

use crate::instant::Instant;
use crate::plan::{PlanTimes, Policy};

/// What becomes of plans that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// One execution, of the latest due plan.
    LatestOnly,
    /// Each of them, oldest first, at most `max_plans_per_tick` a tick.
    EveryPlan,
    /// As `LatestOnly`, but a plan later than the misfire grace does not run.
    SkipMissed,
}

/// The plan times from `first` to `latest` (both due at `now`) that are to run, oldest first.
pub fn plans_to_run(
    policy: &Policy,
    clock: &impl PlanTimes,
    first: Instant,
    latest: Instant,
    now: Instant,
) -> Vec<Instant> {
    // The oldest plan that may still run; a window that reaches before all time is no limit.
    let oldest = policy.window.and_then(|window| now.checked_add_micros(-window)).unwrap_or(Instant::MIN);
    match policy.catch_up {
        CatchUp::LatestOnly => Vec::from_iter((latest >= oldest).then_some(latest)),
        CatchUp::SkipMissed => {
            let limit = policy.delay.saturating_add(policy.misfire_grace);
            let in_time = latest.checked_add_micros(limit).is_none_or(|deadline| now <= deadline);
            Vec::from_iter((in_time && latest >= oldest).then_some(latest))
        }
        CatchUp::EveryPlan => {
            let start = if first >= oldest {
                Some(first)
            } else {
                clock.next_after(oldest.checked_add_micros(-1).unwrap_or(Instant::MIN))
            };
            std::iter::successors(start, |plan| clock.next_after(*plan))
                .take_while(|plan| *plan <= latest)
                .take(policy.max_plans_per_tick)
                .collect()
        }
    }
}
