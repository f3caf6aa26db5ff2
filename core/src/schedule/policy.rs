//! What the author of a schedule chose, and when a plan time is dispatched because of it.

use crate::keyword::keywords;
use crate::time::Instant;

use super::jitter;
use super::plan_times::PlanTimes;

keywords! {
    /// What becomes of plans that were missed.
    pub enum CatchUp {
        /// One execution, of the latest due plan.
        LatestOnly = "latest_only",
        /// Each of them, oldest first, at most `max_plans_per_tick` a tick.
        EveryPlan = "every_plan",
        /// As `LatestOnly`, but a plan later than the misfire grace does not run.
        SkipMissed = "skip_missed",
    }
}

keywords! {
    /// When the next plan is armed.
    pub enum Rearm {
        /// As soon as this plan is dispatched.
        OnDispatch = "on_dispatch",
        /// When the dispatched execution has ended; the next plan is the clock's next after that moment.
        OnTerminal = "on_terminal",
    }
}

keywords! {
    /// What becomes of a plan while an earlier execution of its schedule has not ended.
    pub enum Overlap {
        /// It runs beside it.
        Allow = "allow",
        /// It does not run.
        Skip = "skip",
        /// The first such plan runs when the earlier execution has ended; later ones do not run.
        BufferOne = "buffer_one",
    }
}

keywords! {
    /// Who dispatches a schedule.
    pub enum Ownership {
        /// The dispatchers of this extension.
        Owned = "owned",
        /// Another scheduler; nothing of it is ever dispatched here.
        External = "external",
        /// The dispatchers of another server, which has the bucket of its scope; here it begins anew when that comes back.
        Elsewhere = "elsewhere",
    }
}

/// Everything about a schedule that decides what runs; all lengths of time in microseconds, none negative.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What becomes of plans that were missed.
    pub catch_up: CatchUp,
    /// A plan that could be dispatched longer ago than this does not run.
    pub window: Option<i64>,
    /// A plan later than this, counted from plan + delay, does not run under `skip_missed`.
    pub misfire_grace: i64,
    /// How many plans one tick may run under `every_plan`.
    pub max_plans_per_tick: usize,
    /// When the next plan is armed.
    pub rearm: Rearm,
    /// What becomes of a plan while an earlier execution has not ended.
    pub overlap: Overlap,
    /// Fixed wait between plan and fire.
    pub delay: i64,
    /// Upper bound of the wait that differs from plan to plan.
    pub jitter: i64,
    /// Makes the jitter of this schedule its own; any number that stays the same.
    pub jitter_seed: u64,
    /// The first instant that may be a plan time.
    pub starts_at: Option<Instant>,
    /// The first instant that may no longer be one.
    pub ends_at: Option<Instant>,
    /// Only plans after this instant belong to the schedule as it is now.
    pub baseline: Instant,
}

impl Policy {
    /// When the plan time is dispatched: after its delay and jitter, but never later than the plan time that follows it.
    pub fn fire_time(&self, clock: &impl PlanTimes, plan_time: Instant) -> Instant {
        if self.delay == 0 && self.jitter == 0 {
            return plan_time;
        }
        let wait = self.delay.saturating_add(jitter::offset(self.jitter, self.jitter_seed, plan_time));
        let wanted = plan_time.checked_add_micros(wait).unwrap_or(Instant::MAX);
        clock.next_after(plan_time).map_or(wanted, |next| wanted.min(next))
    }

    /// Whether the schedule waits for its runs, so that their ends have to be told to it.
    #[must_use]
    pub fn tracks_runs(&self) -> bool {
        self.rearm == Rearm::OnTerminal || self.overlap != Overlap::Allow
    }
}
