//! Definitions that have ended: a plan time of one that nobody had dispatched when it ended never will be, and this says so.

use std::rc::Rc;

use pgrx::datum::TimestampWithTimeZone;
use scheduler_core::schedule::Progress;
use scheduler_core::schedule::{skipped_plans, Skip, SkipReason};
use scheduler_core::{Clock, Instant};

use crate::dispatch::compile;
use crate::pg::convert;
use crate::pg::error::Outcome;
use crate::pg::zone::ServerZone;
use crate::store::schedule::skipped_plans::{PastDefinition, Taken};
use crate::store::timer::ScheduleRow;

/// A clock in its zone with the instants between which its plan times count.
pub struct BoundedClock {
    clock: Rc<Clock>,
    zone: ServerZone,
    anchor: Instant,
    starts_at: Option<Instant>,
    ends_at: Option<Instant>,
}

impl BoundedClock {
    /// What a definition of the past said; the error where it cannot be read.
    pub fn of_past(past: &PastDefinition, anchor: Instant) -> Outcome<BoundedClock> {
        BoundedClock::read(&past.clock, &past.time_zone, anchor, (past.starts_at, past.ends_at))
    }

    /// What a schedule says now; the error where it cannot be read.
    pub fn of_row(row: &ScheduleRow) -> Outcome<BoundedClock> {
        BoundedClock::read(&row.clock, &row.time_zone, row.created_at, (row.starts_at, row.ends_at))
    }

    /// The same of a clock, its zone and the anchor of its grid, from `starts_at` to `ends_at`.
    pub fn read(
        clock: &str,
        time_zone: &str,
        anchor: Instant,
        (starts_at, ends_at): (Option<TimestampWithTimeZone>, Option<TimestampWithTimeZone>),
    ) -> Outcome<BoundedClock> {
        Ok(BoundedClock {
            clock: compile::parsed(clock)?,
            zone: ServerZone::stored(time_zone)?,
            anchor,
            starts_at: convert::optional_instant("starts_at", starts_at)?,
            ends_at: convert::optional_instant("ends_at", ends_at)?,
        })
    }

    /// The part of (after, to] that lies between starts_at and ends_at.
    fn within(&self, after: Instant, to: Instant) -> (Instant, Instant) {
        let from = self.starts_at.map_or(after, |at| after.max(at.just_before()));
        (from, self.ends_at.map_or(to, |at| to.min(at.just_before())))
    }

    /// Whether its plan times depend on runs: then only what was armed, fired or skipped tells which there were.
    pub fn counts_from_runs(&self) -> bool {
        self.clock.counts_from().is_some()
    }

    /// The plan times in (after, to] as one run.
    pub fn skipped(&self, after: Instant, to: Instant, reason: SkipReason) -> Option<Skip> {
        let (after, to) = self.within(after, to);
        if self.counts_from_runs() {
            // Skips of such a clock are of one plan time each, and who asks for one has it from there.
            let one = Skip { from: to, to, count: 1, reason, previous: None };
            return (after == to.just_before()).then_some(one);
        }
        skipped_plans::between(&self.clock.bind(&self.zone, self.anchor), after, to, reason)
    }

    /// The plan times in (after, to] but for those that are `taken` (in order), as runs, which go past no execution of the schedule's own.
    pub fn skipped_but(&self, after: Instant, to: Instant, reason: SkipReason, taken: &[Taken]) -> Vec<Skip> {
        let (mut skips, mut after) = (Vec::new(), after);
        for Taken { plan, own, here: _ } in taken.iter().copied().filter(|taken| taken.plan <= to) {
            // What others put there may be no plan time.
            if plan > after && (own || self.count(plan.just_before(), plan, 1) == 1) {
                skips.extend(self.skipped(after, plan.just_before(), reason));
                after = plan;
            }
        }
        skips.extend(self.skipped(after, to, reason));
        skips
    }

    /// How many plan times lie in (after, to], at most `limit`.
    pub fn count(&self, after: Instant, to: Instant, limit: u64) -> u64 {
        let (after, to) = self.within(after, to);
        self.clock.bind(&self.zone, self.anchor).count_between(after, to, limit)
    }

    /// The plan times in (after, to], oldest first.
    pub fn plans(&self, after: Instant, to: Instant) -> Vec<Instant> {
        if self.counts_from_runs() {
            return Vec::new();
        }
        let (after, to) = self.within(after, to);
        let timeline = self.clock.bind(&self.zone, self.anchor);
        std::iter::successors(timeline.next_after(after), |plan| timeline.next_after(*plan))
            .take_while(|plan| *plan <= to)
            .collect()
    }
}

/// What becomes of a timer when definitions have ended since it was made.
pub struct SettledProgress {
    /// What it remembers under the definition that holds now.
    pub progress: Progress,
    /// What was passed over, with the definition whose plan times they are.
    pub skipped: Vec<(Instant, Skip)>,
    /// Which definitions are settled with it.
    pub definition_ids: Vec<i64>,
}

impl SettledProgress {
    /// Where none has ended.
    pub fn nothing(progress: Progress) -> SettledProgress {
        SettledProgress { progress, skipped: Vec::new(), definition_ids: Vec::new() }
    }
}

/// Definitions, which are in the order in which they were written, as they follow each other by the clock as it is now: each ends where a
/// later one begins, at the latest. One that begins only then never was. The row is where the last one ends; those that begin after it belong
/// to a change that is still to come.
pub fn straightened<'p>(
    definitions: impl DoubleEndedIterator<Item = &'p PastDefinition>,
    row: &ScheduleRow,
) -> Vec<PastDefinition> {
    let mut next_at = row.defined_at;
    let mut straight = Vec::new();
    for past in definitions.rev().filter(|past| past.valid_from < row.defined_at) {
        if past.valid_from < next_at {
            straight.push(PastDefinition { valid_to: past.valid_to.min(next_at), ..past.clone() });
            next_at = past.valid_from;
        }
    }
    straight.reverse();
    straight
}

/// What is known of a schedule's definitions that have ended and are not settled.
#[derive(Default)]
pub struct EndedDefinitions {
    /// They, in the order in which they were written, and what else is to be put right among those before the present one.
    pub definitions: Vec<PastDefinition>,
    /// Which of the plan times that nobody seems to have dispatched the ledger has, in order: an edit that was committed late was overtaken
    /// by fires of the definition before it, or somebody made up for them.
    pub fired: Vec<Taken>,
}

impl EndedDefinitions {
    /// Those that ended before this row was read: another one belongs to a change that is still to come.
    fn before(&self, row: &ScheduleRow) -> Vec<PastDefinition> {
        let mut before = straightened(self.definitions.iter(), row);
        before.retain(|past| !past.settled);
        before
    }

    /// Whether a clock that was ahead has written some of them.
    pub fn lie_ahead(&self, row: &ScheduleRow) -> bool {
        let straight = straightened(self.definitions.iter(), row);
        let as_written = |past: &PastDefinition| {
            straight.iter().any(|one| one.definition_id == past.definition_id && one.valid_to == past.valid_to)
        };
        self.definitions.iter().any(|past| past.settled || !as_written(past))
    }

    /// Between which instants nobody seems to have dispatched anything.
    pub fn open(&self, row: &ScheduleRow, known: Progress) -> Option<(Instant, Instant)> {
        let skipped = settle(row, self, known).skipped;
        let first = skipped.iter().map(|(_, skip)| skip.from).min()?;
        Some((first.just_before(), skipped.iter().map(|(_, skip)| skip.to).max()?))
    }
}

/// Settles the definitions of a schedule that have ended since its timer was made.
pub fn settle(row: &ScheduleRow, all: &EndedDefinitions, known: Progress) -> SettledProgress {
    let ended = all.before(row);
    let definition_ids = ended.iter().map(|past| past.definition_id).collect();
    let mut settled = SettledProgress { progress: known, skipped: Vec::new(), definition_ids };
    let what_followed = ended.iter().skip(1).map(|next| (next.enabled, next.owned)).chain([(row.enabled, row.owned)]);
    for (past, (enabled, owned)) in ended.iter().zip(what_followed) {
        // What another scheduler had to fire is not ours to account for.
        if past.owned {
            let reason = if !past.enabled || (owned && !enabled) { SkipReason::Paused } else { SkipReason::Replaced };
            let progress = settled.progress;
            if let Ok(bounded) = BoundedClock::of_past(past, row.created_at) {
                let ours = |at: &Instant| *at > past.valid_from && *at <= past.valid_to;
                if let Some(plan) = progress.buffered.filter(ours) {
                    let one = bounded.skipped_but(plan.just_before(), plan, reason, &all.fired);
                    settled.skipped.extend(one.into_iter().map(|skip| (past.valid_from, skip)));
                }
                let after = progress.cursor.map_or(past.valid_from, |cursor| cursor.max(past.valid_from));
                let rest = bounded.skipped_but(after, past.valid_to, reason, &all.fired);
                settled.skipped.extend(rest.into_iter().map(|skip| (past.valid_from, skip)));
            }
        }
        // Each definition has plan times of its own: what was decided under an older one says nothing about them. An interval that counts from
        // the last run of another scheduler (sched.take_over) has that as its baseline.
        let counts = || BoundedClock::of_row(row).is_ok_and(|bounded| bounded.counts_from_runs());
        let is_taken_over = !past.owned && owned && row.baseline_at < past.valid_to && counts();
        let cursor = if is_taken_over { row.baseline_at } else { past.valid_to };
        settled.progress = Progress { cursor: Some(cursor), buffered: None, backlog_until: None };
    }
    settled
}
