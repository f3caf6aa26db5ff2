//! The model agrees with docs/reference/policies.md, too: what a server does with that table is the business of
//! pgrx-tests/in_server/schedule_docs.rs.

use super::model::{CatchUp, Definition, Overlap, Policy, Schedule};

const HOUR: i64 = 3600;

/// Dispatches until there is nothing more to do; runs end at once but for that of one plan.
fn dispatch_all(schedule: &mut Schedule, now: i64, but: Option<i64>) {
    // Each of the few plans costs a round or two.
    for _ in 0..20 {
        schedule.tick(now);
        for plan in schedule.runs.iter().map(|run| run.plan).filter(|plan| Some(*plan) != but).collect::<Vec<_>>() {
            schedule.end(plan, now);
        }
    }
}

#[test]
fn the_model_says_what_the_page_says() {
    let page = include_str!("../../../../docs/reference/policies.md");
    let section = page.split("\n## Every combination\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut rows = 0;
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let text = line.replace('`', "");
        let cells: Vec<&str> = text.trim_matches('|').split('|').map(str::trim).collect();
        let policy = Policy {
            catch_up: match cells[0] {
                "latest_only" => CatchUp::LatestOnly,
                "every_plan" => CatchUp::EveryPlan,
                _ => CatchUp::SkipMissed,
            },
            on_terminal: cells[1] == "on_terminal",
            overlap: match cells[2] {
                "allow" => Overlap::Allow,
                "skip" => Overlap::Skip,
                _ => Overlap::BufferOne,
            },
            window: (cells[3] == "2 hours").then_some(2 * HOUR),
            delay: 0,
            most: 100,
        };
        let definition = Definition { every: HOUR, starts: None, ends: None, enabled: true, owned: true };
        let mut schedule = Schedule::new(policy, definition, false, 60);
        for hour in 1..=3 {
            dispatch_all(&mut schedule, hour * HOUR + 30, Some(HOUR));
        }
        schedule.end(HOUR, 3 * HOUR + 1800);
        for now in [3 * HOUR + 1800, 7 * HOUR + 1800, 8 * HOUR + 30] {
            dispatch_all(&mut schedule, now, None);
        }
        let words = (1..=8).map(|hour| match schedule.decided(hour * HOUR).unwrap().split_once('|').unwrap() {
            ("skipped", reason) => reason.to_owned(),
            _ => "run".to_owned(),
        });
        assert_eq!(words.collect::<Vec<_>>(), cells[4..], "{line}");
        rows += 1;
    }
    assert_eq!(rows, 36);
}
