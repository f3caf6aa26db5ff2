//! Which of several due plan times run. A plan time is missed when its successor is due as well.

use crate::time::Instant;

use super::plan_times::PlanTimes;
use super::policy::{CatchUp, Policy};

/// Whether `now` is later than plan + delay + grace (both in microseconds).
#[must_use]
pub fn is_misfire(plan_time: Instant, delay: i64, grace: i64, now: Instant) -> bool {
    plan_time.checked_add_micros(delay.saturating_add(grace)).is_some_and(|deadline| now > deadline)
}

/// The plan times from `first` to `latest` (both due at `now`) that are to run, oldest first.
pub fn plans_to_run(
    policy: &Policy,
    clock: &impl PlanTimes,
    first: Instant,
    latest: Instant,
    now: Instant,
) -> Vec<Instant> {
    match policy.catch_up {
        CatchUp::LatestOnly => Vec::from_iter(is_in_window(policy, clock, latest, now).then_some(latest)),
        CatchUp::SkipMissed => {
            let late = is_misfire(latest, policy.delay, policy.misfire_grace, now);
            Vec::from_iter((!late && is_in_window(policy, clock, latest, now)).then_some(latest))
        }
        CatchUp::EveryPlan => {
            let start = first_in_window(policy, clock, first, now);
            std::iter::successors(start, |plan_time| clock.next_after(*plan_time))
                .take_while(|plan_time| *plan_time <= latest)
                .take(policy.max_plans_per_tick)
                .collect()
        }
    }
}

/// The first plan that is not older than the window, from the plan `first` on.
pub fn first_in_window(policy: &Policy, clock: &impl PlanTimes, first: Instant, now: Instant) -> Option<Instant> {
    if is_in_window(policy, clock, first, now) {
        return Some(first);
    }
    // No plan is dispatched after the next one is planned: of those before the window's edge at most the last one waited into it.
    let before = edge_of_window(policy, now).just_before();
    let waited = clock.previous_at_or_before(before).filter(|plan_time| is_in_window(policy, clock, *plan_time, now));
    waited.or_else(|| clock.next_after(before))
}

/// Whether a plan could still be dispatched within the window: it begins when the plan may be dispatched, after its delay and jitter.
fn is_in_window(policy: &Policy, clock: &impl PlanTimes, plan_time: Instant, now: Instant) -> bool {
    let edge = edge_of_window(policy, now);
    plan_time >= edge || policy.fire_time(clock, plan_time) >= edge
}

/// What could be dispatched before this instant is too old to run; a window that reaches before all time is no limit.
fn edge_of_window(policy: &Policy, now: Instant) -> Instant {
    policy.window.and_then(|window| now.checked_add_micros(-window)).unwrap_or(Instant::MIN)
}
