//! What a schedule asks its clock: the plan times in order, forwards, backwards and counted.

use crate::clock::zone::Zone;
use crate::clock::{RunEdge, Timeline};
use crate::time::Instant;

/// A clock bound to its zone and anchor: the plan times of one schedule, in order.
pub trait PlanTimes {
    /// What of a run the clock counts from, where the next plan time depends on the schedule's runs. `next_after` answers for a
    /// run at `after` then, and nothing lies before anything.
    fn counts_from(&self) -> Option<RunEdge> {
        None
    }
    /// The least plan time strictly after `after`; `None` when there is none.
    fn next_after(&self, after: Instant) -> Option<Instant>;
    /// The greatest plan time at or before `at`; `None` when there is none.
    fn previous_at_or_before(&self, at: Instant) -> Option<Instant>;
    /// How many plan times lie in (after, to].
    fn count_between(&self, after: Instant, to: Instant) -> u64 {
        let plans = std::iter::successors(self.next_after(after), |plan_time| self.next_after(*plan_time));
        plans.take_while(|plan_time| *plan_time <= to).fold(0, |count, _| count + 1)
    }
}

/// A clock that counts from runs, as a timer sees it that is armed: the plan time that it is armed for, and what would follow a run then.
pub struct ArmedOnce<'c, C> {
    /// The clock.
    pub clock: &'c C,
    /// The plan time.
    pub plan_time: Instant,
}

impl<C: PlanTimes> PlanTimes for ArmedOnce<'_, C> {
    fn next_after(&self, after: Instant) -> Option<Instant> {
        if after < self.plan_time {
            Some(self.plan_time)
        } else {
            self.clock.next_after(after)
        }
    }

    fn previous_at_or_before(&self, at: Instant) -> Option<Instant> {
        (self.plan_time <= at).then_some(self.plan_time)
    }

    fn count_between(&self, after: Instant, to: Instant) -> u64 {
        u64::from(after < self.plan_time && self.plan_time <= to)
    }
}

impl<Z: Zone> PlanTimes for Timeline<'_, Z> {
    fn counts_from(&self) -> Option<RunEdge> {
        Timeline::counts_from(self)
    }

    fn next_after(&self, after: Instant) -> Option<Instant> {
        Timeline::next_after(self, after)
    }

    fn previous_at_or_before(&self, at: Instant) -> Option<Instant> {
        Timeline::previous_at_or_before(self, at)
    }

    fn count_between(&self, after: Instant, to: Instant) -> u64 {
        Timeline::count_between(self, after, to, u64::MAX)
    }
}
