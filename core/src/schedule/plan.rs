//! What arming a schedule and firing a due timer call for: which plan times run, which are skipped, and what comes next.
//!
//! Both are pure functions of the schedule's policy, its clock, the timer and `now`. The shell only reads and writes rows.

use crate::clock::RunEdge;
use crate::time::Instant;

use super::catch_up;
use super::plan_times::{ArmedOnce, PlanTimes};
use super::policy::{CatchUp, Overlap, Policy, Rearm};
use super::skipped_plans::{self, Skip, SkipReason};

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
    /// Fires `plan_time` at `fire_at`.
    Armed {
        /// The nominal time.
        plan_time: Instant,
        /// When it is to be dispatched: never before `plan_time`, never after the plan that follows it.
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
    pub plan_times: Vec<Instant>,
    /// The plan times that are passed over for good.
    pub skipped: Vec<Skip>,
    /// What the timer remembers from now on.
    pub progress: Progress,
    /// What comes next, given that `plan_times` were inserted.
    pub next: Next,
}

/// What there is to know when a schedule is armed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArmEvent {
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
pub fn arm(policy: &Policy, clock: &impl PlanTimes, mut progress: Progress, event: ArmEvent, now: Instant) -> Armed {
    let mut skipped = Vec::new();
    let busy = event.busy;
    if let Some(plan_time) = progress.buffered {
        let replaced = plan_time <= policy.baseline;
        if replaced || (busy && policy.overlap == Overlap::Skip) {
            skipped.push(skipped_plans::one(
                clock,
                plan_time,
                if replaced { SkipReason::Replaced } else { SkipReason::Overlap },
            ));
            progress.buffered = None;
        }
    }
    if policy.rearm == Rearm::OnTerminal {
        if busy {
            return Armed { progress, next: Next::Waiting, skipped };
        }
        if let Some(ended) = event.terminal_at {
            if rest_of_backlog(policy, clock, &progress, now).is_none() {
                let from = undecided_after(policy, progress.cursor);
                // What is left of a backlog is too old; the others came while it ran.
                let backlog = progress.backlog_until.map_or(from, |until| until.clamp(from, ended.max(from)));
                let until = policy.ends_at.map_or(ended, |end| ended.min(end.just_before()));
                skipped.extend(skipped_plans::between(clock, from, backlog.min(until), SkipReason::Window));
                skipped.extend(skipped_plans::between(clock, backlog, until, SkipReason::Overlap));
                // Of an interval that counts from starts the end tells only that the next run may start.
                if clock.counts_from() != Some(RunEdge::Start) {
                    progress.cursor = progress.cursor.max(Some(ended));
                }
            }
        }
    }
    let next = match progress.buffered {
        Some(_) if busy && policy.overlap != Overlap::Allow => Next::Waiting,
        Some(plan_time) => Next::Armed { plan_time, fire_at: now.max(plan_time) },
        None => {
            let free = !busy || policy.overlap == Overlap::Allow;
            if event.unparked && free {
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
    let Next::Armed { plan_time, fire_at } = next_armed(policy, clock, progress.cursor) else { return None };
    if fire_at > now || progress.backlog_until >= Some(plan_time) {
        return None;
    }
    let latest = latest_eligible(policy, clock, plan_time, now);
    let plan_times = catch_up::plans_to_run(policy, clock, plan_time, latest, now);
    skipped_plans::between(
        clock,
        plan_time.just_before(),
        plan_times.first().map_or(latest, |first| first.just_before()),
        SkipReason::Parked,
    )
}

/// Decides what the timer armed for `plan_time` calls for at `now`. The caller has seen that it is due.
pub fn fire(
    policy: &Policy,
    clock: &impl PlanTimes,
    progress: Progress,
    plan_time: Instant,
    busy: bool,
    now: Instant,
) -> Fired {
    if clock.counts_from().is_none() {
        return fire_on(policy, clock, progress, plan_time, busy, now);
    }
    let mut fired = fire_on(policy, &ArmedOnce { clock, plan_time }, progress, plan_time, busy, now);
    if !fired.plan_times.is_empty() || !fired.skipped.is_empty() {
        // What is dispatched now starts now, however late. What is passed over counts as a run, or a long standstill would be walked through.
        fired.progress.cursor = fired.progress.cursor.max(Some(now));
        if !matches!(fired.next, Next::Waiting) {
            fired.next = next_armed(policy, clock, fired.progress.cursor);
        }
    }
    fired
}

/// The same of a clock whose plan times are as they are, whatever runs.
fn fire_on(
    policy: &Policy,
    clock: &impl PlanTimes,
    progress: Progress,
    plan_time: Instant,
    busy: bool,
    now: Instant,
) -> Fired {
    let latest = latest_eligible(policy, clock, plan_time, now);
    let buffered = progress.buffered == Some(plan_time);
    if busy && (policy.rearm == Rearm::OnTerminal || (buffered && policy.overlap != Overlap::Allow)) {
        return Fired { plan_times: Vec::new(), skipped: Vec::new(), progress, next: Next::Waiting };
    }
    let mut after = Progress { cursor: progress.cursor.max(Some(latest)), ..progress };
    let due = Due { policy, clock, first: plan_time, now };
    if busy && !buffered && policy.overlap != Overlap::Allow {
        let first = catch_up::first_in_window(policy, clock, plan_time, now).filter(|first| *first <= latest);
        if let (Overlap::BufferOne, Some(first)) = (policy.overlap, first) {
            after.buffered = Some(first);
            let skipped = due.all_but(Some((first, first)), latest, SkipReason::Overlap);
            return Fired { plan_times: Vec::new(), skipped, progress: after, next: Next::Waiting };
        }
        let reason = if policy.overlap == Overlap::BufferOne { SkipReason::Window } else { SkipReason::Overlap };
        let skipped = Vec::from_iter(skipped_plans::between(clock, plan_time.just_before(), latest, reason));
        return Fired {
            plan_times: Vec::new(),
            skipped,
            progress: after,
            next: next_armed(policy, clock, after.cursor),
        };
    }
    // What came while a backlog was run is not part of it.
    let in_backlog = policy.catch_up == CatchUp::EveryPlan && policy.rearm == Rearm::OnTerminal;
    let last =
        progress.backlog_until.filter(|end| in_backlog && plan_time <= *end).map_or(latest, |end| latest.min(end));
    let mut plan_times =
        if buffered { vec![plan_time] } else { catch_up::plans_to_run(policy, clock, plan_time, last, now) };
    after.buffered = None;
    if policy.catch_up == CatchUp::EveryPlan && !buffered {
        if policy.rearm == Rearm::OnTerminal {
            plan_times.truncate(1);
            if progress.backlog_until < Some(plan_time) {
                after.backlog_until = Some(latest);
            }
        } else if policy.overlap != Overlap::Allow {
            // The first of them runs; the others came while it had not ended.
            plan_times.truncate(1);
            let second =
                plan_times.first().and_then(|first| clock.next_after(*first)).filter(|plan_time| *plan_time <= latest);
            after.buffered = second.filter(|_| policy.overlap == Overlap::BufferOne);
        }
        if after.buffered.is_none() && (policy.rearm == Rearm::OnTerminal || policy.overlap == Overlap::Allow) {
            // The rest of the backlog is still to come.
            if let Some(last) = plan_times.last() {
                after.cursor = progress.cursor.max(Some(*last));
            }
        }
    }
    let decided = after.cursor.unwrap_or(latest);
    let skipped = if buffered {
        // What came while it waited.
        let from = undecided_after(policy, progress.cursor);
        Vec::from_iter(skipped_plans::between(clock, from, decided, SkipReason::Overlap))
    } else {
        let kept =
            plan_times.first().zip(after.buffered.or(plan_times.last().copied())).map(|(first, last)| (*first, last));
        let reason = if policy.catch_up == CatchUp::EveryPlan { SkipReason::Overlap } else { SkipReason::Missed };
        due.all_but(kept, decided, reason)
    };
    let next = if after.buffered.is_some() || (policy.rearm == Rearm::OnTerminal && !plan_times.is_empty()) {
        Next::Waiting
    } else {
        next_armed(policy, clock, after.cursor)
    };
    Fired { plan_times, skipped, progress: after, next }
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
    fn all_but(&self, kept: Option<(Instant, Instant)>, last: Instant, reason: SkipReason) -> Vec<Skip> {
        // On time, which is nearly always: there are no others.
        if kept == Some((self.first, last)) {
            return Vec::new();
        }
        let young = catch_up::first_in_window(self.policy, self.clock, self.first, self.now);
        let oldest = young.map_or(Instant::MAX, |plan_time| plan_time.just_before());
        let start = self.first.just_before();
        let parts = match kept {
            Some((from, to)) => [(start, from.just_before()), (to, last)],
            None => [(start, last), (last, last)],
        };
        let mut skipped = Vec::new();
        for (from, to) in parts {
            let edge = oldest.clamp(from, to.max(from));
            skipped.extend(skipped_plans::between(self.clock, from, edge, SkipReason::Window));
            skipped.extend(skipped_plans::between(self.clock, edge, to, reason));
        }
        skipped
    }
}

/// The next plan of a backlog that is run one at a time, if one is left that is not too old.
fn rest_of_backlog(policy: &Policy, clock: &impl PlanTimes, progress: &Progress, now: Instant) -> Option<Instant> {
    let until = progress.backlog_until?;
    let next = clock.next_after(progress.cursor?)?;
    catch_up::first_in_window(policy, clock, next, now).filter(|plan_time| *plan_time <= until)
}

/// The first plan after the cursor (and the baseline) within the schedule's window, with its fire time.
fn next_armed(policy: &Policy, clock: &impl PlanTimes, cursor: Option<Instant>) -> Next {
    let from = undecided_after(policy, cursor);
    let from = match policy.starts_at {
        // An interval that counts from runs begins at the window's first instant, not just before it.
        Some(starts_at) if clock.counts_from().is_some() => from.max(starts_at),
        Some(_) | None => from,
    };
    match clock.next_after(from) {
        Some(plan_time) if policy.ends_at.is_none_or(|end| plan_time < end) => {
            Next::Armed { plan_time, fire_at: policy.fire_time(clock, plan_time) }
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

/// The latest plan whose fire time has come; `armed` (which is due) or a later one.
fn latest_eligible(policy: &Policy, clock: &impl PlanTimes, armed: Instant, now: Instant) -> Instant {
    let in_window = |plan_time: Instant| policy.ends_at.is_none_or(|end| plan_time < end);
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
    if policy.fire_time(clock, latest) <= now {
        return latest.max(armed);
    }
    // Its predecessor fires at the latest when this one is planned, and that has passed.
    let before = clock.previous_at_or_before(latest.just_before());
    before.map_or(armed, |plan_time| plan_time.max(armed))
}
