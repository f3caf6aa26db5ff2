//! What a clock of ours says beside what another scheduler has run.

use crate::clock::RunEdge;
use crate::keyword::keywords;
use crate::schedule::PlanTimes;
use crate::time::Instant;

keywords! {
    /// How a plan time of ours and a run of theirs go together.
    pub enum Difference {
        /// They ran what we would have run.
        Both = "both",
        /// We would have run, and they did not.
        OnlyHere = "only_here",
        /// They ran, and our clock says nothing of it.
        OnlyThere = "only_there",
        /// They ran what we would have run, later than is tolerated.
        Late = "late",
    }
}

/// A run of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When it began.
    pub began: Instant,
    /// When it ended, as far as that is known.
    pub ended: Option<Instant>,
}

/// One line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Our plan time; of a run that we would not have had, when it began.
    pub plan_time: Instant,
    /// How the two go together.
    pub difference: Difference,
    /// When we would have run.
    pub ours: Option<Instant>,
    /// When they did.
    pub theirs: Option<Instant>,
}

/// A clock of theirs may be so much ahead of what it has written down, in microseconds.
const SLACK: i64 = 1_000_000;

/// A clock between the first instant that may be a plan time and the first that may no longer be one.
#[derive(Clone, Copy, Debug)]
pub struct Between<C> {
    /// The clock.
    pub clock: C,
    /// The first instant; `None`: no limit.
    pub starts_at: Option<Instant>,
    /// The first after it; `None`: no limit.
    pub ends_at: Option<Instant>,
}

impl<C: PlanTimes> PlanTimes for Between<C> {
    fn counts_from(&self) -> Option<RunEdge> {
        self.clock.counts_from()
    }

    fn next_after(&self, after: Instant) -> Option<Instant> {
        let from = self.starts_at.map_or(after, |starts_at| after.max(starts_at.just_before()));
        self.clock.next_after(from).filter(|plan| self.ends_at.is_none_or(|ends_at| *plan < ends_at))
    }

    fn previous_at_or_before(&self, at: Instant) -> Option<Instant> {
        let to = self.ends_at.map_or(at, |ends_at| at.min(ends_at.just_before()));
        self.clock.previous_at_or_before(to).filter(|plan| self.starts_at.is_none_or(|starts_at| *plan >= starts_at))
    }
}

/// Clocks of which one that is due is enough. One that counts from runs stands alone.
#[derive(Clone, Debug)]
pub struct Together<C>(pub Vec<C>);

impl<C: PlanTimes> PlanTimes for Together<C> {
    fn counts_from(&self) -> Option<RunEdge> {
        match self.0.as_slice() {
            [one] => one.counts_from(),
            _ => None,
        }
    }

    fn next_after(&self, after: Instant) -> Option<Instant> {
        self.0.iter().filter_map(|clock| clock.next_after(after)).min()
    }

    fn previous_at_or_before(&self, at: Instant) -> Option<Instant> {
        self.0.iter().filter_map(|clock| clock.previous_at_or_before(at)).max()
    }
}

/// Compares in order: `runs` of theirs, from the first on that they have written down, with the plan times after that run's. What comes
/// after their last run is no difference yet. A run that lasts has theirs wait; what waited is late, not missing.
pub fn compare(clock: &impl PlanTimes, runs: &[Run], tolerance: i64) -> Vec<Compared> {
    match clock.counts_from() {
        Some(edge) => counted(clock, edge, runs, tolerance),
        None => planned(clock, runs, tolerance),
    }
}

fn plus(at: Instant, micros: i64) -> Instant {
    at.checked_add_micros(micros).unwrap_or(if micros < 0 { Instant::MIN } else { Instant::MAX })
}

fn line(plan_time: Instant, difference: Difference, ours: Option<Instant>, theirs: Option<Instant>) -> Compared {
    Compared { plan_time, difference, ours, theirs }
}

/// Each run by the one before it; none is started while another goes on.
fn counted(clock: &impl PlanTimes, edge: RunEdge, runs: &[Run], tolerance: i64) -> Vec<Compared> {
    let pairs = runs.iter().zip(runs.iter().skip(1));
    let compared = pairs.filter_map(|(before, run)| {
        let ended = before.ended.unwrap_or(before.began);
        let from = match edge {
            RunEdge::Start => before.began,
            RunEdge::End => ended,
        };
        let plan = clock.next_after(from)?.max(ended);
        let (early, late) = (plus(plan, -tolerance.max(SLACK)), plus(plan, tolerance));
        Some(if run.began < early {
            line(run.began, Difference::OnlyThere, None, Some(run.began))
        } else {
            let difference = if run.began > late { Difference::Late } else { Difference::Both };
            line(plan, difference, Some(plan), Some(run.began))
        })
    });
    compared.collect()
}

/// Plan times and runs, both in order.
fn planned(clock: &impl PlanTimes, runs: &[Run], tolerance: i64) -> Vec<Compared> {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Vec::new() };
    // Of the first run nobody knows how late it was: it stands for the last plan time that it can be for.
    let anchor =
        clock.previous_at_or_before(plus(first.began, SLACK)).filter(|plan| plus(*plan, tolerance) >= first.began);
    let start = anchor.map_or(first.began, |plan| plan.just_before());
    let plans = std::iter::successors(clock.next_after(start), |plan| clock.next_after(*plan));
    let mut plans = plans.take_while(|plan| *plan <= last.began).peekable();
    let mut rest = runs.iter().peekable();
    let (mut compared, mut busy_until) = (Vec::new(), None);
    while let Some(plan) = plans.next() {
        while let Some(run) = rest.next_if(|run| plus(run.began, SLACK) < plan) {
            compared.push(line(run.began, Difference::OnlyThere, None, Some(run.began)));
        }
        let next = plans.peek().copied();
        let is_for_next = |run: &Run| next.is_some_and(|next| plus(run.began, SLACK) >= next);
        let Some(run) = rest.peek().copied() else {
            compared.push(line(plan, Difference::OnlyHere, Some(plan), None));
            continue;
        };
        // It waited for the run before to end.
        let waited = busy_until > Some(plan);
        if !is_for_next(run) || waited {
            rest.next();
            busy_until = run.ended;
            let difference = if run.began > plus(plan, tolerance) { Difference::Late } else { Difference::Both };
            compared.push(line(plan, difference, Some(plan), Some(run.began)));
        } else {
            compared.push(line(plan, Difference::OnlyHere, Some(plan), None));
        }
    }
    compared.extend(rest.map(|run| line(run.began, Difference::OnlyThere, None, Some(run.began))));
    compared
}
