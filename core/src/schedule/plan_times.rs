//! What a schedule asks its clock: the plan times in order, forwards, backwards and counted.

use crate::clock::zone::Zone;
use crate::clock::Timeline;
use crate::time::Instant;

/// A clock bound to its zone and anchor: the plan times of one schedule, in order.
pub trait PlanTimes {
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

impl<Z: Zone> PlanTimes for Timeline<'_, Z> {
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
