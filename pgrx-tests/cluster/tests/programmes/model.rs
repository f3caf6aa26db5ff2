//! What a schedule has to do, from the words of docs/reference/policies.md alone: lists of plan times that are walked one by one. Nothing of it
//! is shared with the extension. Times are seconds after the schedule's creation; plan times are multiples of `every`.

mod verdict;

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    LatestOnly,
    EveryPlan,
    SkipMissed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    Allow,
    Skip,
    BufferOne,
}

/// What becomes of plans.
#[derive(Clone, Debug)]
pub struct Policy {
    pub catch_up: CatchUp,
    pub overlap: Overlap,
    pub on_terminal: bool,
    pub window: Option<i64>,
    pub delay: i64,
    pub most: usize,
}

/// Which plan times there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    pub every: i64,
    pub starts: Option<i64>,
    pub ends: Option<i64>,
    pub enabled: bool,
    pub owned: bool,
}

/// What an edit says.
#[derive(Clone, Debug)]
pub enum Change {
    Definition(Definition),
    Policy(Policy),
    Scope(usize),
    Payload,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Fired,
    Skipped(&'static str),
}

#[derive(Clone, Debug)]
pub struct Run {
    pub plan: i64,
    awaited: bool,
}

/// A schedule as a person would keep it on paper.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub policy: Policy,
    pub definition: Definition,
    since: i64,
    past: Vec<(i64, i64, Definition)>,
    fates: BTreeMap<i64, Fate>,
    buffered: Option<i64>,
    backlog_until: Option<i64>,
    pub runs: Vec<Run>,
    ended: Option<i64>,
    /// The end of a run that a rebuild has heard of.
    heard: Option<i64>,
    edited: bool,
    /// Plan times that somebody else put into the ledger, by scope.
    held: BTreeSet<(usize, i64)>,
    /// Those that the schedule put there, dispatched or made up for, under whichever definition.
    own: BTreeSet<(usize, i64)>,
    /// How many edits came to be known after the old clock had decided later plan times.
    pub overtaken: usize,
    pub scope: usize,
    /// The runs of its job are over when they are dispatched.
    pub done_at_once: bool,
    pub job_is_gone: bool,
    pub parked: bool,
    unparked: bool,
    grace: i64,
}

fn plans(definition: &Definition, since: i64, until: i64) -> Vec<i64> {
    (1..)
        .map(|n| n * definition.every)
        .take_while(|plan| *plan <= until)
        .filter(|plan| *plan > since)
        .filter(|plan| definition.starts.is_none_or(|starts| *plan >= starts))
        .filter(|plan| definition.ends.is_none_or(|ends| *plan < ends))
        .collect()
}

impl Schedule {
    pub fn new(policy: Policy, definition: Definition, done_at_once: bool, grace: i64) -> Schedule {
        Schedule {
            policy,
            definition,
            since: 0,
            past: Vec::new(),
            fates: BTreeMap::new(),
            buffered: None,
            backlog_until: None,
            runs: Vec::new(),
            ended: None,
            heard: None,
            edited: true,
            held: BTreeSet::new(),
            own: BTreeSet::new(),
            overtaken: 0,
            scope: 0,
            done_at_once,
            job_is_gone: false,
            parked: false,
            unparked: false,
            grace,
        }
    }

    fn waits_for_runs(&self) -> bool {
        self.policy.on_terminal || self.policy.overlap != Overlap::Allow
    }

    fn busy(&self) -> bool {
        self.runs.iter().any(|run| run.awaited)
    }

    fn skip(&mut self, plan: i64, reason: &'static str) {
        assert_eq!(self.fates.insert(plan, Fate::Skipped(reason)), None, "{plan} was decided before");
    }

    /// Plans of the present definition up to `until` whose fate is open, but for a buffered one.
    fn open(&self, until: i64) -> Vec<i64> {
        let mut open = plans(&self.definition, self.since, until);
        open.retain(|plan| !self.fates.contains_key(plan) && self.buffered != Some(*plan));
        open
    }

    /// Those whose time to be dispatched has come. The delay never goes past the clock's next time.
    fn due(&self, now: i64) -> Vec<i64> {
        let mut due = self.open(now);
        due.retain(|plan| self.dispatched_from(*plan) <= now);
        due
    }

    fn dispatched_from(&self, plan: i64) -> i64 {
        plan + self.policy.delay.min(self.definition.every)
    }

    fn young(&self, plan: i64, now: i64) -> bool {
        self.policy.window.is_none_or(|window| self.dispatched_from(plan) >= now - window)
    }

    /// An edit that was made at `at` is committed.
    pub fn apply(&mut self, change: Change, at: i64) {
        self.edited = true;
        match change {
            Change::Definition(new) => self.redefine(new, at),
            Change::Policy(policy) => self.policy = policy,
            Change::Scope(scope) => self.scope = scope,
            Change::Payload => {}
        }
    }

    /// Another definition since `now`: what nobody had dispatched under the old one never will be, and what that one decided later, because the
    /// edit was committed late, is none of its plan times.
    fn redefine(&mut self, new: Definition, now: i64) {
        let old = self.definition;
        if old == new {
            return;
        }
        let known = self.fates.len();
        self.fates.retain(|plan, _| *plan <= now);
        self.overtaken += usize::from(self.fates.len() < known);
        if old.owned {
            let paused = !old.enabled || (new.owned && !new.enabled);
            let reason = if paused { "paused" } else { "replaced" };
            let buffered = self.buffered.take();
            for plan in self.open(now) {
                self.skip(plan, reason);
            }
            if let Some(plan) = buffered.filter(|plan| *plan <= now && !self.fates.contains_key(plan)) {
                self.skip(plan, reason);
            }
        }
        (self.buffered, self.backlog_until) = (None, None);
        self.past.push((self.since, now, old));
        (self.since, self.definition) = (now, new);
    }

    /// Somebody else puts a plan time into the ledger, if it lacks that.
    pub fn hold(&mut self, plan: i64) -> bool {
        !self.own.contains(&(self.scope, plan)) && self.held.insert((self.scope, plan))
    }

    /// What the ledger lacks from one time to just before another is made up for.
    pub fn backfill(&mut self, from: i64, to: i64) {
        for plan in plans(&self.definition, from - 1, to - 1) {
            if !self.held.contains(&(self.scope, plan)) {
                self.own.insert((self.scope, plan));
            }
        }
    }

    fn is_own(&self, plan: i64) -> bool {
        self.own.iter().any(|(_, own)| *own == plan)
    }

    fn is_held(&self, plan: i64) -> bool {
        self.held.iter().any(|(_, held)| *held == plan)
    }

    /// The ledger has it where the schedule would put it, or did.
    fn is_taken(&self, plan: i64) -> bool {
        self.is_own(plan) || self.held.contains(&(self.scope, plan))
    }

    /// A run ends.
    pub fn end(&mut self, plan: i64, now: i64) {
        let index = self.runs.iter().position(|run| run.plan == plan).expect("a run");
        if self.runs.remove(index).awaited {
            self.ended = self.ended.max(Some(now));
        }
    }

    /// The job is defined again.
    pub fn mend(&mut self) {
        self.job_is_gone = false;
        self.unparked |= self.parked;
    }

    /// Its timer is made anew: edits and ends of runs show at once, and whether it can be used not only when it is due. The next
    /// dispatch hears of the ends once more.
    pub fn rebuild(&mut self, now: i64) {
        let ended = self.ended;
        if self.edited || self.ended.is_some() || self.unparked {
            self.arm(now);
        }
        (self.ended, self.heard) = (ended, ended);
        self.parked |= self.job_is_gone;
    }

    /// Plans that run of those that are due, if nothing is running.
    fn made_up(&self, due: &[i64], now: i64) -> Vec<i64> {
        let young: Vec<i64> = due.iter().copied().filter(|plan| self.young(*plan, now)).collect();
        let last = due.last().copied().filter(|plan| self.young(*plan, now));
        match self.policy.catch_up {
            CatchUp::LatestOnly => last.into_iter().collect(),
            CatchUp::SkipMissed => {
                last.into_iter().filter(|plan| now <= plan + self.policy.delay + self.grace).collect()
            }
            CatchUp::EveryPlan => young,
        }
    }

    fn arm(&mut self, now: i64) {
        if self.edited && self.waits_for_runs() {
            self.runs.iter_mut().for_each(|run| run.awaited = true);
        }
        let unparked = self.parked && !self.job_is_gone;
        self.parked = self.job_is_gone;
        let ended = self.ended.take();
        self.heard = None;
        (self.edited, self.unparked) = (false, false);
        if !self.definition.owned || !self.definition.enabled {
            return;
        }
        let busy = self.busy();
        if busy && self.policy.overlap == Overlap::Skip {
            if let Some(plan) = self.buffered.take() {
                self.skip(plan, "overlap");
            }
        }
        if self.policy.on_terminal {
            if busy {
                return;
            }
            if let Some(ended) = ended {
                let in_backlog = |plan: &i64| Some(*plan) <= self.backlog_until;
                let rest = self.open(now).into_iter().any(|plan| in_backlog(&plan) && self.young(plan, now));
                if !rest {
                    for plan in self.open(ended) {
                        let reason = if Some(plan) <= self.backlog_until { "window" } else { "overlap" };
                        self.skip(plan, reason);
                    }
                }
            }
        }
        if unparked && self.buffered.is_none() && (!busy || self.policy.overlap == Overlap::Allow) {
            let due = self.due(now);
            if due.first().is_some_and(|first| self.backlog_until < Some(*first)) {
                let first = self.made_up(&due, now).first().copied();
                for plan in due.into_iter().filter(|plan| first.is_none_or(|first| *plan < first)) {
                    self.skip(plan, "parked");
                }
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.busy() && (self.policy.on_terminal || (self.buffered.is_some() && self.policy.overlap != Overlap::Allow))
    }

    /// Dispatches these; returns those that become executions of the schedule.
    fn fire(&mut self, plans: &[i64], now: i64) -> Vec<i64> {
        let mut new = Vec::new();
        for plan in plans {
            assert_eq!(self.fates.insert(*plan, Fate::Fired), None, "{plan} was decided before");
            if !self.is_taken(*plan) {
                new.push(*plan);
                self.own.insert((self.scope, *plan));
                if !self.done_at_once {
                    self.runs.push(Run { plan: *plan, awaited: self.waits_for_runs() });
                }
            }
        }
        let will_wait = self.policy.on_terminal || self.buffered.is_some();
        if will_wait && !plans.is_empty() && (new.is_empty() || self.done_at_once) {
            self.ended = self.ended.max(Some(now));
        }
        new
    }

    /// One call of dispatch_due; the plan times that become executions.
    pub fn tick(&mut self, now: i64) -> Vec<i64> {
        if self.edited || self.ended.is_some() || self.unparked {
            self.arm(now);
        }
        if !self.definition.owned || !self.definition.enabled || self.parked || self.is_waiting() {
            return Vec::new();
        }
        let due = self.due(now);
        if due.is_empty() && self.buffered.is_none() {
            return Vec::new();
        }
        if self.job_is_gone {
            self.parked = true;
            return Vec::new();
        }
        if let Some(plan) = self.buffered.take() {
            due.iter().for_each(|plan| self.skip(*plan, "overlap"));
            return self.fire(&[plan], now);
        }
        let too_old = |plan: &i64| !self.young(*plan, now);
        let (old, young): (Vec<i64>, Vec<i64>) = due.iter().copied().partition(too_old);
        if self.busy() && self.policy.overlap == Overlap::Skip {
            due.iter().for_each(|plan| self.skip(*plan, "overlap"));
            return Vec::new();
        }
        if self.busy() && self.policy.overlap == Overlap::BufferOne {
            old.iter().for_each(|plan| self.skip(*plan, "window"));
            self.buffered = young.first().copied();
            young.iter().skip(1).for_each(|plan| self.skip(*plan, "overlap"));
            return Vec::new();
        }
        if self.policy.catch_up != CatchUp::EveryPlan {
            let run = self.made_up(&due, now);
            old.iter().for_each(|plan| self.skip(*plan, "window"));
            young.iter().filter(|plan| !run.contains(plan)).for_each(|plan| self.skip(*plan, "missed"));
            return self.fire(&run, now);
        }
        if self.policy.on_terminal {
            let ends = due.first().is_some_and(|first| Some(*first) <= self.backlog_until);
            let part = |plan: &&i64| !ends || Some(**plan) <= self.backlog_until;
            let first = young.iter().find(part).copied();
            if !ends {
                self.backlog_until = due.last().copied();
            }
            for plan in due.iter().filter(|plan| first.is_none_or(|first| **plan < first)) {
                self.skip(*plan, if self.young(*plan, now) { "overlap" } else { "window" });
            }
            return self.fire(&first.into_iter().collect::<Vec<_>>(), now);
        }
        old.iter().for_each(|plan| self.skip(*plan, "window"));
        if self.policy.overlap == Overlap::Allow {
            let run: Vec<i64> = young.into_iter().take(self.policy.most).collect();
            return self.fire(&run, now);
        }
        // One of them runs; the others came while it had not ended.
        let mut young = young.into_iter();
        let run: Vec<i64> = young.next().into_iter().collect();
        if self.policy.overlap == Overlap::BufferOne {
            self.buffered = young.next();
        }
        young.for_each(|plan| self.skip(plan, "overlap"));
        self.fire(&run, now)
    }
}
