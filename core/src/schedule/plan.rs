//! What a due timer calls for: which plan times run, which are passed over, and when the schedule is looked at next.
//! A pure function of the schedule's policy, its clock, the timer and `now`; the shell only reads and writes rows.

use crate::catch_up::{self, CatchUp};
use crate::clock::Timeline;
use crate::instant::Instant;
use crate::jitter;
use crate::overlap::Overlap;
use crate::skip::{self, Reason, Skip};
use crate::zone::Zone;

/// A clock bound to its zone and anchor: the plan times of one schedule, in order.
pub trait PlanTimes {
    /// The least plan time strictly after `after`; `None` when there is none.
    fn next_after(&self, after: Instant) -> Option<Instant>;
    /// The greatest plan time at or before `at`; `None` when there is none.
    fn previous_at_or_before(&self, at: Instant) -> Option<Instant>;
    /// How many plan times lie in (after, to].
    fn count_between(&self, after: Instant, to: Instant) -> u64 {
        let plans = std::iter::successors(self.next_after(after), |plan| self.next_after(*plan));
        plans.take_while(|plan| *plan <= to).fold(0, |count, _| count + 1)
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

/// When the next plan is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rearm {
    /// As soon as this plan is dispatched.
    OnDispatch,
    /// When the dispatched execution has ended; the next plan is the clock's next after that moment.
    OnTerminal,
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

/// What the timer remembers between ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Every plan time up to here is decided.
    pub cursor: Option<Instant>,
    /// The plan that waits for a running execution to end (`buffer_one`).
    pub buffered: Option<Instant>,
    /// `every_plan` with `on_terminal`: missed plans up to here run one at a time.
    pub backlog_until: Option<Instant>,
}

/// What the schedule does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Fires `plan` at `fire_at`.
    Armed {
        /// The nominal time.
        plan: Instant,
        /// When it is to be dispatched: never before `plan`, never after the plan that follows it.
        fire_at: Instant,
    },
    /// Nothing until a running execution ends.
    Waiting,
    /// Its clock has no time left.
    Done,
}

/// The outcome of one due timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The plan times that become executions, oldest first.
    pub run: Vec<Instant>,
    /// The plan times that are passed over for good.
    pub skipped: Vec<Skip>,
    /// What the timer remembers from now on.
    pub progress: Progress,
    /// What comes next, given that the plans in `run` were inserted.
    pub next: Next,
}

/// What there is to know when a schedule is armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// When a run that it waited for ended, if one did.
    pub terminal_at: Option<Instant>,
    /// An awaited execution of the schedule has not ended.
    pub busy: bool,
    /// It could not be used until now.
    pub unparked: bool,
}

/// The outcome of arming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Armed {
    /// What the timer remembers from now on.
    pub progress: Progress,
    /// What comes next.
    pub next: Next,
    /// The plan times that are passed over for good.
    pub skipped: Vec<Skip>,
}

/// What a schedule does next after it was written, a run that it waited for ended, or it can be used again.
pub fn arm(policy: &Policy, clock: &impl PlanTimes, mut progress: Progress, news: News, now: Instant) -> Armed {
    let mut skipped = Vec::new();
    let busy = news.busy;
    if let Some(plan) = progress.buffered {
        let replaced = plan <= policy.baseline;
        if replaced || (busy && policy.overlap == Overlap::Skip) {
            skipped.push(skip::one(clock, plan, if replaced { Reason::Replaced } else { Reason::Overlap }));
            progress.buffered = None;
        }
    }
    if policy.rearm == Rearm::OnTerminal {
        if busy {
            return Armed { progress, next: Next::Waiting, skipped };
        }
        if let Some(ended) = news.terminal_at {
            if rest_of_backlog(policy, clock, &progress, now).is_none() {
                let from = undecided_after(policy, progress.cursor);
                // What is left of a backlog is too old; the others came while it ran.
                let backlog = progress.backlog_until.map_or(from, |until| until.clamp(from, ended.max(from)));
                let until = policy.ends_at.map_or(ended, |end| ended.min(end.just_before()));
                skipped.extend(skip::between(clock, from, backlog.min(until), Reason::Window));
                skipped.extend(skip::between(clock, backlog, until, Reason::Overlap));
                progress.cursor = progress.cursor.max(Some(ended));
            }
        }
    }
    let next = match progress.buffered {
        Some(_) if busy && policy.overlap != Overlap::Allow => Next::Waiting,
        Some(plan) => Next::Armed { plan, fire_at: now.max(plan) },
        None => {
            let free = !busy || policy.overlap == Overlap::Allow;
            if news.unparked && free {
                if let Some(passed) = passed_while_parked(policy, clock, &progress, now) {
                    progress.cursor = Some(passed.to);
                    skipped.push(passed);
                }
            }
            next_armed(policy, clock, progress.cursor)
        }
    };
    Armed { progress, next, skipped }
}

/// Of the plans that came while the schedule was parked, those that are not made up: all before the first that is.
fn passed_while_parked(policy: &Policy, clock: &impl PlanTimes, progress: &Progress, now: Instant) -> Option<Skip> {
    let Next::Armed { plan, fire_at } = next_armed(policy, clock, progress.cursor) else { return None };
    if fire_at > now || progress.backlog_until >= Some(plan) {
        return None;
    }
    let latest = latest_eligible(policy, clock, plan, now);
    let run = catch_up::plans_to_run(policy, clock, plan, latest, now);
    skip::between(clock, plan.just_before(), run.first().map_or(latest, |first| first.just_before()), Reason::Parked)
}

/// Decides what the timer armed for `plan` calls for at `now`. The caller has seen that it is due.
pub fn fire(
    policy: &Policy,
    clock: &impl PlanTimes,
    progress: Progress,
    plan: Instant,
    busy: bool,
    now: Instant,
) -> Fired {
    let latest = latest_eligible(policy, clock, plan, now);
    let buffered = progress.buffered == Some(plan);
    if busy && (policy.rearm == Rearm::OnTerminal || (buffered && policy.overlap != Overlap::Allow)) {
        return Fired { run: Vec::new(), skipped: Vec::new(), progress, next: Next::Waiting };
    }
    let mut after = Progress { cursor: progress.cursor.max(Some(latest)), ..progress };
    let due = Due { policy, clock, first: plan, now };
    if busy && !buffered && policy.overlap != Overlap::Allow {
        let first = catch_up::first_in_window(policy, clock, plan, now).filter(|first| *first <= latest);
        if let (Overlap::BufferOne, Some(first)) = (policy.overlap, first) {
            after.buffered = Some(first);
            let skipped = due.all_but(Some((first, first)), latest, Reason::Overlap);
            return Fired { run: Vec::new(), skipped, progress: after, next: Next::Waiting };
        }
        let reason = if policy.overlap == Overlap::BufferOne { Reason::Window } else { Reason::Overlap };
        let skipped = Vec::from_iter(skip::between(clock, plan.just_before(), latest, reason));
        return Fired { run: Vec::new(), skipped, progress: after, next: next_armed(policy, clock, after.cursor) };
    }
    // What came while a backlog was run is not part of it.
    let in_backlog = policy.catch_up == CatchUp::EveryPlan && policy.rearm == Rearm::OnTerminal;
    let last = progress.backlog_until.filter(|end| in_backlog && plan <= *end).map_or(latest, |end| latest.min(end));
    let mut run = if buffered { vec![plan] } else { catch_up::plans_to_run(policy, clock, plan, last, now) };
    after.buffered = None;
    if policy.catch_up == CatchUp::EveryPlan && !buffered {
        if policy.rearm == Rearm::OnTerminal {
            run.truncate(1);
            if progress.backlog_until < Some(plan) {
                after.backlog_until = Some(latest);
            }
        } else if policy.overlap != Overlap::Allow {
            // The first of them runs; the others came while it had not ended.
            run.truncate(1);
            let second = run.first().and_then(|first| clock.next_after(*first)).filter(|plan| *plan <= latest);
            after.buffered = second.filter(|_| policy.overlap == Overlap::BufferOne);
        }
        if after.buffered.is_none() && (policy.rearm == Rearm::OnTerminal || policy.overlap == Overlap::Allow) {
            // The rest of the backlog is still to come.
            if let Some(last) = run.last() {
                after.cursor = progress.cursor.max(Some(*last));
            }
        }
    }
    let decided = after.cursor.unwrap_or(latest);
    let skipped = if buffered {
        // What came while it waited.
        let from = undecided_after(policy, progress.cursor);
        Vec::from_iter(skip::between(clock, from, decided, Reason::Overlap))
    } else {
        let kept = run.first().zip(after.buffered.or(run.last().copied())).map(|(first, last)| (*first, last));
        let reason = if policy.catch_up == CatchUp::EveryPlan { Reason::Overlap } else { Reason::Missed };
        due.all_but(kept, decided, reason)
    };
    let next = if after.buffered.is_some() || (policy.rearm == Rearm::OnTerminal && !run.is_empty()) {
        Next::Waiting
    } else {
        next_armed(policy, clock, after.cursor)
    };
    Fired { run, skipped, progress: after, next }
}

/// The plans from `first` on that a due timer decides.
struct Due<'a, C> {
    policy: &'a Policy,
    clock: &'a C,
    first: Instant,
    now: Instant,
}

impl<C: PlanTimes> Due<'_, C> {
    /// The plans up to `last` but those that are kept (from one to the other): what is older than the window is passed over for
    /// that, the others for `reason`.
    fn all_but(&self, kept: Option<(Instant, Instant)>, last: Instant, reason: Reason) -> Vec<Skip> {
        // On time, which is nearly always: there are no others.
        if kept == Some((self.first, last)) {
            return Vec::new();
        }
        let young = catch_up::first_in_window(self.policy, self.clock, self.first, self.now);
        let oldest = young.map_or(Instant::MAX, |plan| plan.just_before());
        let start = self.first.just_before();
        let parts = match kept {
            Some((from, to)) => [(start, from.just_before()), (to, last)],
            None => [(start, last), (last, last)],
        };
        let mut skipped = Vec::new();
        for (from, to) in parts {
            let edge = oldest.clamp(from, to.max(from));
            skipped.extend(skip::between(self.clock, from, edge, Reason::Window));
            skipped.extend(skip::between(self.clock, edge, to, reason));
        }
        skipped
    }
}

/// The next plan of a backlog that is run one at a time, if one is left that is not too old.
fn rest_of_backlog(policy: &Policy, clock: &impl PlanTimes, progress: &Progress, now: Instant) -> Option<Instant> {
    let until = progress.backlog_until?;
    let next = clock.next_after(progress.cursor?)?;
    catch_up::first_in_window(policy, clock, next, now).filter(|plan| *plan <= until)
}

/// The first plan after the cursor (and the baseline) within the schedule's window, with its fire time.
fn next_armed(policy: &Policy, clock: &impl PlanTimes, cursor: Option<Instant>) -> Next {
    match clock.next_after(undecided_after(policy, cursor)) {
        Some(plan) if policy.ends_at.is_none_or(|end| plan < end) => {
            Next::Armed { plan, fire_at: fire_time(policy, clock, plan) }
        }
        Some(_) | None => Next::Done,
    }
}

/// The instant after which no plan is decided: the cursor, but no plan belongs to the schedule before its baseline and its window.
fn undecided_after(policy: &Policy, cursor: Option<Instant>) -> Instant {
    let from = cursor.map_or(policy.baseline, |cursor| cursor.max(policy.baseline));
    // starts_at is inclusive: from just before it.
    policy.starts_at.map_or(from, |starts_at| from.max(starts_at.just_before()))
}

/// When `plan` is dispatched: after its delay and jitter, but never later than the plan that follows it.
pub fn fire_time(policy: &Policy, clock: &impl PlanTimes, plan: Instant) -> Instant {
    if policy.delay == 0 && policy.jitter == 0 {
        return plan;
    }
    let wait = policy.delay.saturating_add(jitter::offset(policy.jitter, policy.jitter_seed, plan));
    let wanted = plan.checked_add_micros(wait).unwrap_or(Instant::MAX);
    clock.next_after(plan).map_or(wanted, |next| wanted.min(next))
}

/// The latest plan whose fire time has come; `armed` (which is due) or a later one.
fn latest_eligible(policy: &Policy, clock: &impl PlanTimes, armed: Instant, now: Instant) -> Instant {
    let in_window = |plan: Instant| policy.ends_at.is_none_or(|end| plan < end);
    // On time, which is nearly always: nothing else has come since.
    match clock.next_after(armed) {
        Some(next) if next <= now && in_window(next) => {}
        Some(_) | None => return armed,
    }
    let last = match policy.ends_at {
        Some(end) => now.min(end.just_before()),
        None => now,
    };
    let Some(latest) = clock.previous_at_or_before(last) else { return armed };
    if fire_time(policy, clock, latest) <= now {
        return latest.max(armed);
    }
    // Its predecessor fires at the latest when this one is planned, and that has passed.
    let before = clock.previous_at_or_before(latest.just_before());
    before.map_or(armed, |plan| plan.max(armed))
}
