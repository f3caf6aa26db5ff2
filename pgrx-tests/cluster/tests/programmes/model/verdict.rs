//! What the model says of each plan time: which verdict, how many were passed over and why, and what comes next.

use super::{plans, Definition, Fate, Schedule};
use std::collections::{BTreeMap, BTreeSet};

impl Schedule {
    /// How many plan times of each reason are on record at `now`, those of an open pause included.
    pub fn skipped(&self, now: i64) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        let mut add = |reason: &str| *counts.entry(reason.to_owned()).or_insert(0) += 1;
        let lacking = |plan: &i64| !self.is_own(*plan) && !self.is_held(*plan);
        for (_, fate) in self.fates.iter().filter(|(plan, _)| lacking(plan)) {
            match fate {
                Fate::Fired => {}
                Fate::Skipped(reason) => add(reason),
            }
        }
        if self.definition.owned && !self.definition.enabled {
            self.open(now).iter().filter(|plan| lacking(plan)).for_each(|_| add("paused"));
        } else if self.definition.owned && self.parked {
            let waits = |plan: &&i64| self.buffered < Some(**plan) && !self.is_taken(**plan);
            self.open(now).iter().filter(waits).for_each(|_| add("parked"));
        }
        counts
    }

    /// What became of each plan time up to `until`, right after a dispatch at `now`; `|` before the reason.
    pub fn verdicts(&self, until: i64, now: i64) -> Vec<(i64, String)> {
        let mut all = Vec::new();
        for (since, end, definition) in &self.past {
            for plan in plans(definition, *since, (*end).min(until)) {
                let open = if definition.owned { "LOST" } else { "external|" };
                all.push((plan, self.verdict(plan, open)));
            }
        }
        for plan in plans(&self.definition, self.since, until) {
            all.push((plan, self.verdict(plan, self.undecided(plan, now))));
        }
        // What it fired when it had another clock.
        let explained: BTreeSet<i64> = all.iter().map(|(plan, _)| *plan).collect();
        let own: BTreeSet<i64> = self.own.iter().map(|(_, plan)| *plan).collect();
        all.extend(
            own.range(..=until).filter(|plan| !explained.contains(plan)).map(|plan| (*plan, "fired|".to_owned())),
        );
        all.sort_by_key(|(plan, _)| *plan);
        all
    }

    fn verdict(&self, plan: i64, undecided: &str) -> String {
        // What others put into a scope that the schedule has left tells of what is past.
        let over = undecided.starts_with("skipped") || undecided.starts_with("external");
        let undecided = if over && self.is_held(plan) { "fired|" } else { undecided };
        self.decided(plan).unwrap_or_else(|| undecided.to_owned())
    }

    /// What fires next of a schedule that is armed.
    pub fn next(&self, now: i64) -> Option<i64> {
        let later = plans(&self.definition, self.since, now + 100 * self.definition.every);
        let later = later.into_iter().filter(|plan| !self.fates.contains_key(plan) && self.buffered != Some(*plan));
        self.buffered.into_iter().chain(later).find(|plan| !self.is_taken(*plan))
    }

    /// What is known of a plan for good.
    pub fn decided(&self, plan: i64) -> Option<String> {
        let fate = self.fates.get(&plan);
        if self.is_taken(plan) || (fate.is_some() && self.is_held(plan)) {
            return Some("fired|".to_owned());
        }
        fate.map(|fate| match fate {
            Fate::Fired => "fired|".to_owned(),
            Fate::Skipped(reason) => format!("skipped|{reason}"),
        })
    }

    fn undecided(&self, plan: i64, now: i64) -> &'static str {
        let come = plan <= now;
        let Definition { owned, enabled, every, .. } = self.definition;
        match (owned, enabled, self.parked, come) {
            (false, _, _, true) => "external|",
            (false, _, _, false) => "planned|external",
            (true, false, _, true) => "skipped|paused",
            (true, false, _, false) => "planned|paused",
            (true, true, true, true) => "waiting|parked",
            (true, true, true, false) => "planned|parked",
            (true, true, false, false) => "planned|",
            (true, true, false, true) => {
                if self.buffered.is_some() {
                    return if self.buffered == Some(plan) && !self.will_wait() { "due|" } else { "waiting|overlap" };
                }
                if Some(plan) <= self.backlog_until {
                    return if self.will_wait() { "waiting|backlog" } else { "due|" };
                }
                if self.will_wait() {
                    return "waiting|overlap";
                }
                if plan + self.policy.delay.min(every) <= now {
                    "due|"
                } else {
                    "waiting|delay"
                }
            }
        }
    }

    /// It waits for a run, or for the next dispatch to hear that there is none.
    fn will_wait(&self) -> bool {
        self.is_waiting() || self.ended != self.heard
    }
}
