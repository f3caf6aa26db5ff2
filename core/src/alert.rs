//! Which alerts a schedule calls for, and when to look at it again. What is so is read elsewhere, at one moment; nothing here remembers anything,
//! so a look that is made twice, or made late, comes to the same.

use crate::keyword::{keywords, Keyword};
use crate::time::Instant;

keywords! {
    /// What an alert is about.
    pub enum Kind {
        /// A run has not begun so long after its plan time.
        Late = "late",
        /// A run goes on for longer than it may.
        Long = "long",
        /// No run has succeeded for so long.
        NoSuccess = "no_success",
        /// A run has failed for good, and none has succeeded since.
        Failed = "failed",
        /// The schedule cannot be used.
        Parked = "parked",
        /// The schedule cannot be fired.
        Failing = "failing",
    }
}

/// What a schedule asks to be told of, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// From plan time to the begin of its run.
    pub max_lateness: Option<i64>,
    /// Of a run.
    pub max_duration: Option<i64>,
    /// Between two runs that succeed.
    pub expect_success_within: Option<i64>,
}

impl Limits {
    /// Whether it asks for anything.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.max_lateness.is_none() && self.max_duration.is_none() && self.expect_success_within.is_none()
    }
}

/// Which run: an execution.
pub type RunId = u128;

/// A run that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which.
    pub id: RunId,
    /// Its plan time.
    pub plan_time: Instant,
    /// How far it is.
    pub stage: Stage,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nobody has claimed it, and it may be late.
    New,
    /// It waits for a time, or nobody minds when it begins: a retry, what was snoozed, a backfill.
    Waits,
    /// It runs since then.
    Runs(Instant),
}

/// A run that has ended, as far as alerts ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Which.
    pub id: RunId,
    /// Its plan time.
    pub plan_time: Instant,
    /// When.
    pub at: Instant,
    /// As SUCCESS; else it failed for good.
    pub is_success: bool,
}

/// What dispatchers make of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing of it is to fire here: it is paused, or another scheduler's.
    Silent,
    /// It fires.
    Fires,
    /// It cannot be used.
    Parked,
    /// It cannot be fired, and is tried again.
    Failing,
}

/// What is so with a schedule at one moment.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// This moment.
    pub now: Instant,
    /// What it asks for.
    pub limits: Limits,
    /// What dispatchers make of it.
    pub state: State,
    /// When it was last edited: from then on a SUCCESS is expected.
    pub edited_at: Instant,
    /// The plan times that are to be fired next: the one that it is armed for, one that waits for a run to end.
    pub coming: &'a [Instant],
    /// What comes next is not known before a run has ended, or before its last edit is applied.
    pub waits: bool,
    /// When its last run succeeded, as far as is known.
    pub last_success: Option<Instant>,
    /// Its runs that have not ended.
    pub runs: &'a [Run],
    /// Its ends that no look has seen before, in any order: each failure, and the successes.
    pub ends: &'a [End],
    /// The alerts that are open.
    pub open: &'a [Open],
}

/// An alert that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// What it is about.
    pub kind: Kind,
    /// Since when that is so.
    pub since: Instant,
    /// The plan time that it is about, if it is.
    pub plan_time: Option<Instant>,
    /// The run that it is about, if it is.
    pub run: Option<RunId>,
}

/// What becomes of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// One is opened.
    Opens(Open),
    /// The one of this kind is resolved.
    Resolves(Kind),
}

/// A length of time between two looks, in microseconds.
const SECOND: i64 = 1_000_000;
/// While an alert can be resolved at any moment, looks are so far apart at most.
const LONGEST_POLL: i64 = 5 * SECOND;
/// What is open is looked at again after so long whatever is known of it: a superuser's hand tells nobody.
const SAFE: i64 = 600 * SECOND;

/// What becomes of a schedule's alerts, in order, and when to look again; `None` where something else has to happen first, which says so.
#[must_use]
pub fn judge(of: &Situation<'_>) -> (Vec<Transition>, Option<Instant>) {
    let mut transitions = Vec::new();
    if of.state == State::Silent {
        transitions.extend(of.open.iter().map(|open| Transition::Resolves(open.kind)));
        return (transitions, None);
    }
    let mut look = Look { now: of.now, next: None };
    settle(&mut transitions, of, Kind::Late, &late(of, &mut look));
    settle(&mut transitions, of, Kind::Long, &long(of, &mut look));
    settle(&mut transitions, of, Kind::NoSuccess, &no_success(of, &mut look));
    let failed_since = failures(&mut transitions, of);
    for (kind, state) in [(Kind::Parked, State::Parked), (Kind::Failing, State::Failing)] {
        let found = (of.state == state).then_some(Open { kind, since: of.now, plan_time: None, run: None });
        settle(&mut transitions, of, kind, found.as_slice());
    }
    let is_open = |kind| remains_open(of, &transitions, kind);
    if let Some(since) = failed_since.or_else(|| is_open(Kind::NoSuccess)) {
        look.for_success(of, since);
    }
    for since in [Kind::Late, Kind::Long].into_iter().filter_map(is_open) {
        look.poll(since);
    }
    if <Kind as Keyword>::ALL.iter().any(|kind| is_open(*kind).is_some()) {
        look.after(SAFE);
    }
    (transitions, look.next)
}

/// Since when an alert of this kind is open once the transitions are made.
fn remains_open(of: &Situation<'_>, transitions: &[Transition], kind: Kind) -> Option<Instant> {
    let before = of.open.iter().find(|open| open.kind == kind).map(|open| open.since);
    transitions.iter().fold(before, |open, transition| match transition {
        Transition::Opens(new) if new.kind == kind => Some(new.since),
        Transition::Resolves(of) if *of == kind => None,
        Transition::Opens(_) | Transition::Resolves(_) => open,
    })
}

/// One open alert of a kind is about one thing: it is resolved when that is over, and the first of what else is so gets one of its own.
fn settle(transitions: &mut Vec<Transition>, of: &Situation<'_>, kind: Kind, found: &[Open]) {
    let open = of.open.iter().find(|open| open.kind == kind);
    let is_same = |open: &Open, found: &Open| match kind {
        Kind::Late => open.plan_time == found.plan_time,
        Kind::Long => open.run == found.run,
        Kind::NoSuccess | Kind::Failed | Kind::Parked | Kind::Failing => true,
    };
    if open.is_some_and(|open| found.iter().any(|found| is_same(open, found))) {
        return;
    }
    if open.is_some() {
        transitions.push(Transition::Resolves(kind));
    }
    if let Some(first) = found.iter().min_by_key(|found| found.since) {
        transitions.push(Transition::Opens(*first));
    }
}

/// What is late, of runs and of what has not been fired.
fn late(of: &Situation<'_>, look: &mut Look) -> Vec<Open> {
    let Some(limit) = of.limits.max_lateness else { return Vec::new() };
    let runs = of.runs.iter().filter(|run| run.stage == Stage::New).map(|run| (run.plan_time, Some(run.id)));
    let plans = runs.chain(of.coming.iter().map(|plan| (*plan, None)));
    let due = plans.filter_map(|(plan, run)| {
        let since = plan.checked_add_micros(limit)?;
        let is_due = look.is_due_or_at(since);
        is_due.then_some(Open { kind: Kind::Late, since, plan_time: Some(plan), run })
    });
    let late = due.collect();
    if of.waits {
        look.after(limit);
    }
    late
}

/// What runs for too long. What has not begun cannot before as long from now.
fn long(of: &Situation<'_>, look: &mut Look) -> Vec<Open> {
    let Some(limit) = of.limits.max_duration else { return Vec::new() };
    let mut found = Vec::new();
    for run in of.runs {
        match run.stage {
            Stage::Runs(since) => match since.checked_add_micros(limit) {
                Some(at) if look.is_due_or_at(at) => {
                    let (plan_time, run) = (Some(run.plan_time), Some(run.id));
                    found.push(Open { kind: Kind::Long, since: at, plan_time, run });
                }
                Some(_) | None => {}
            },
            Stage::New | Stage::Waits => look.after(limit),
        }
    }
    for plan in of.coming {
        look.at(plan.checked_add_micros(limit));
        if *plan <= of.now {
            look.after(limit);
        }
    }
    if of.waits {
        look.after(limit);
    }
    found
}

fn no_success(of: &Situation<'_>, look: &mut Look) -> Vec<Open> {
    let Some(limit) = of.limits.expect_success_within else { return Vec::new() };
    let Some(since) = of.edited_at.max(of.last_success.unwrap_or(of.edited_at)).checked_add_micros(limit) else {
        return Vec::new();
    };
    let is_due = look.is_due_or_at(since);
    is_due.then_some(Open { kind: Kind::NoSuccess, since, plan_time: None, run: None }).into_iter().collect()
}

/// Failures and successes in their order; since when a failure is open after them.
fn failures(transitions: &mut Vec<Transition>, of: &Situation<'_>) -> Option<Instant> {
    let mut open = of.open.iter().find(|open| open.kind == Kind::Failed).map(|open| open.since);
    let mut ends = of.ends.to_vec();
    ends.sort_by_key(|end| (end.at, end.is_success));
    for end in ends {
        match open {
            Some(since) if end.is_success && end.at >= since => {
                transitions.push(Transition::Resolves(Kind::Failed));
                open = None;
            }
            None if !end.is_success => {
                let (plan_time, run) = (Some(end.plan_time), Some(end.id));
                transitions.push(Transition::Opens(Open { kind: Kind::Failed, since: end.at, plan_time, run }));
                open = Some(end.at);
            }
            Some(_) | None => {}
        }
    }
    if open.zip(of.last_success).is_some_and(|(since, success)| success >= since) {
        transitions.push(Transition::Resolves(Kind::Failed));
        open = None;
    }
    open
}

/// When to look again.
struct Look {
    now: Instant,
    next: Option<Instant>,
}

impl Look {
    fn at(&mut self, time: Option<Instant>) {
        let time = time.filter(|time| *time > self.now);
        self.next = [self.next, time].into_iter().flatten().min();
    }

    /// Whether that has come; if not, that is when to look.
    fn is_due_or_at(&mut self, time: Instant) -> bool {
        self.at(Some(time));
        time <= self.now
    }

    /// As long from now, but no sooner than in a second.
    fn after(&mut self, micros: i64) {
        self.at(self.now.checked_add_micros(micros.max(SECOND)));
    }

    /// Soon: what has just begun soon ends, mostly.
    fn poll(&mut self, since: Instant) {
        let age = self.now.as_micros().saturating_sub(since.as_micros());
        self.after((age / 8).clamp(SECOND, LONGEST_POLL));
    }

    /// When a run may have succeeded.
    fn for_success(&mut self, of: &Situation<'_>, since: Instant) {
        if of.waits || !of.runs.is_empty() || of.coming.iter().any(|plan| *plan <= of.now) {
            self.poll(since);
        }
        for plan in of.coming {
            self.at(plan.checked_add_micros(SECOND));
        }
    }
}
