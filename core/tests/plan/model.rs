//! What the words of docs/reference/policies.md call for, over a list of all plans: no search, no cursor, no arithmetic on clocks.

use scheduler_core::schedule::jitter;
use scheduler_core::schedule::CatchUp;
use scheduler_core::schedule::Overlap;
use scheduler_core::schedule::{Policy, Rearm};
use scheduler_core::time::Instant;

/// A plan, when it may be dispatched, and whether its fate is decided.
struct Plan {
    at: Instant,
    fire_at: Instant,
    decided: bool,
}

/// A schedule as a person would keep it on paper.
pub struct Model<'a> {
    policy: &'a Policy,
    plans: Vec<Plan>,
    buffered: Option<Instant>,
    backlog: Vec<Instant>,
}

impl<'a> Model<'a> {
    /// `all` is every plan of the clock, in order; the last one only bounds the one before it.
    pub fn new(policy: &'a Policy, all: &[Instant]) -> Self {
        let plans = all
            .windows(2)
            .filter(|pair| pair[0] > policy.baseline)
            .filter(|pair| policy.starts_at.is_none_or(|starts| pair[0] >= starts))
            .filter(|pair| policy.ends_at.is_none_or(|ends| pair[0] < ends))
            .map(|pair| {
                let wait = policy.delay + jitter::offset(policy.jitter, policy.jitter_seed, pair[0]);
                let fire_at = pair[0].checked_add_micros(wait).unwrap().min(pair[1]);
                Plan { at: pair[0], fire_at, decided: false }
            })
            .collect();
        Model { policy, plans, buffered: None, backlog: Vec::new() }
    }

    fn decide(&mut self, up_to: Instant) {
        self.plans.iter_mut().filter(|plan| plan.at <= up_to).for_each(|plan| plan.decided = true);
    }

    /// Whether it could be dispatched no longer ago than the window.
    fn young(&self, plan: Instant, now: Instant) -> bool {
        let fire_at = self.plans.iter().find(|known| known.at == plan).unwrap().fire_at;
        self.policy.window.is_none_or(|window| fire_at.checked_add_micros(window).unwrap() >= now)
    }

    /// Which plans become executions at `now`. `busy`: one that was dispatched has not ended; `ended`: when the last
    /// one ended, told once.
    pub fn tick(&mut self, now: Instant, busy: bool, ended: Option<Instant>) -> Vec<Instant> {
        let on_terminal = self.policy.rearm == Rearm::OnTerminal;
        if on_terminal {
            if busy {
                return Vec::new();
            }
            let backlog = std::mem::take(&mut self.backlog);
            self.backlog = backlog.into_iter().filter(|plan| self.young(*plan, now)).collect();
            if !self.backlog.is_empty() {
                let first = self.backlog.remove(0);
                self.decide(first);
                return vec![first];
            }
            if let Some(ended) = ended {
                self.decide(ended);
            }
        }
        let due: Vec<Instant> =
            self.plans.iter().filter(|plan| !plan.decided && plan.fire_at <= now).map(|plan| plan.at).collect();
        let all_due = |model: &mut Self| due.last().into_iter().for_each(|last| model.decide(*last));
        let young: Vec<Instant> = due.iter().copied().filter(|plan| self.young(*plan, now)).collect();
        if busy && self.policy.overlap != Overlap::Allow {
            if self.policy.overlap == Overlap::BufferOne && self.buffered.is_none() {
                self.buffered = young.first().copied();
            }
            all_due(self);
            return Vec::new();
        }
        if let Some(plan) = self.buffered.take() {
            all_due(self);
            return vec![plan];
        }
        let grace = self.policy.delay + self.policy.misfire_grace;
        let mut run: Vec<Instant> = match self.policy.catch_up {
            CatchUp::LatestOnly => due.last().into_iter().copied().filter(|plan| young.contains(plan)).collect(),
            CatchUp::SkipMissed => due
                .last()
                .into_iter()
                .copied()
                .filter(|plan| young.contains(plan) && plan.checked_add_micros(grace).unwrap() >= now)
                .collect(),
            CatchUp::EveryPlan => young.clone(),
        };
        if self.policy.catch_up == CatchUp::EveryPlan {
            if on_terminal {
                self.backlog = run.split_off(run.len().min(1));
                match run.first() {
                    Some(first) => self.decide(*first),
                    None => all_due(self),
                }
                return run;
            }
            if self.policy.overlap != Overlap::Allow {
                let others = run.split_off(run.len().min(1));
                if self.policy.overlap == Overlap::BufferOne {
                    self.buffered = others.first().copied();
                }
            } else {
                run.truncate(self.policy.max_plans_per_tick);
                if let Some(last) = run.last() {
                    self.decide(*last);
                    return run;
                }
            }
        }
        all_due(self);
        run
    }
}
