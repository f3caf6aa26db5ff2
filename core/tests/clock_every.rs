//! The grid of `every` against its definition (docs/reference/clocks.md, rules 11 and 12), walked from the anchor with chrono.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use std::collections::BTreeSet;

use chrono::{DateTime, Days, LocalResult, Months, TimeZone};
use chrono_tz::Tz;
use clock_support::{zone, Random, Table};
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

/// Microseconds since 1970 of the n-th time, by the letter.
fn nth(tz: Tz, table: &Table, anchor: i64, (months, days, micros): (u32, u64, i64), n: u32) -> i64 {
    if n == 0 {
        return anchor;
    }
    if months == 0 && days == 0 {
        return anchor + i64::from(n) * micros;
    }
    let local = DateTime::from_timestamp_micros(anchor).unwrap().with_timezone(&tz).naive_local();
    let local = local.checked_add_months(Months::new(months * n)).unwrap();
    let local = local.checked_add_days(Days::new(days * u64::from(n))).unwrap();
    let base = match tz.from_local_datetime(&local) {
        LocalResult::Single(at) => at.timestamp_micros(),
        LocalResult::Ambiguous(earlier, _) => earlier.timestamp_micros(),
        LocalResult::None => {
            let reading = local.and_utc().timestamp();
            let mut before = table.first;
            let gap = table.transitions.iter().find(|&&(at, offset)| {
                let missing = at + i64::from(before)..at + i64::from(offset);
                before = offset;
                missing.contains(&reading)
            });
            gap.unwrap().0 * 1_000_000
        }
    };
    base + i64::from(n) * micros
}

fn check(random: &mut Random, rounds: usize) {
    let names = ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/Santiago"];
    for _ in 0..rounds {
        let name = *random.pick(&names);
        let (tz, table): (Tz, _) = (name.parse().unwrap(), zone(name));
        // Anchors at night, when clocks change, in 2000–2030.
        let day = 946_684_800 + random.below(30 * 365) as i64 * 86_400;
        let anchor = (day + random.below(30 * 60) as i64 * 60) * 1_000_000 + random.below(2) as i64 * 250_000;
        let parts = match random.below(6) {
            0 => (1 + random.below(13) as u32, 0, 0),
            1 => (0, 1 + random.below(9), 0),
            2 => (random.below(3) as u32, 1 + random.below(9), random.below(86_400_000_000) as i64),
            3 => (0, 1, random.below(7_200) as i64 * 1_000_000),
            4 => (0, 0, 1 + random.below(90_000_000_000) as i64),
            _ => (1, 0, random.below(3_600) as i64 * 500_000),
        };
        let text = format!("every {} months {} days {} microseconds", parts.0, parts.1, parts.2);
        let clock = Clock::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let to_instant = |micros: i64| Instant::from_micros(micros - 946_684_800_000_000).unwrap();
        let timeline = clock.bind(table, to_instant(anchor));
        let expected: BTreeSet<i64> =
            (0..400).map(|n| nth(tz, table, anchor, parts, n)).filter(|&at| at >= anchor).collect();
        let mut at = to_instant(anchor - 1);
        for &expected in &expected {
            let next = timeline.next_after(at);
            assert_eq!(next, Some(to_instant(expected)), "{text} in {name} from {anchor} after {at:?}");
            at = to_instant(expected);
        }
        // Anywhere, without a walk from the anchor.
        let list: Vec<i64> = expected.iter().copied().collect();
        for _ in 0..20 {
            let t = anchor + random.below((list[list.len() - 1] - anchor) as u64) as i64;
            let next = list[list.partition_point(|&at| at <= t)];
            let previous = list[list.partition_point(|&at| at <= t) - 1];
            assert_eq!(timeline.next_after(to_instant(t)), Some(to_instant(next)), "{text} in {name} from {anchor}");
            assert_eq!(timeline.previous_at_or_before(to_instant(t)), Some(to_instant(previous)), "{text} in {name}");
        }
        for edge in ["start", "end"] {
            let clock = Clock::parse(&format!("{text} after {edge}")).unwrap();
            let from_runs = clock.bind(table, Instant::UNIX_EPOCH);
            let t = anchor + random.below(86_400_000_000) as i64;
            let next = (1..).map(|n| nth(tz, table, t, parts, n)).find(|at| *at > t).unwrap();
            assert_eq!(
                from_runs.next_after(to_instant(t)),
                Some(to_instant(next)),
                "{text} after {edge} in {name}: {t}"
            );
            assert_eq!(from_runs.previous_at_or_before(to_instant(next)), None);
            assert_eq!(from_runs.count_between(to_instant(t), to_instant(next), 9), 0);
            assert!(!from_runs.is_plan(to_instant(next)));
        }
        let all = timeline.count_between(to_instant(anchor - 1), to_instant(list[list.len() - 1]), u64::MAX);
        assert_eq!(all, list.len() as u64, "{text} in {name}");
    }
}

#[test]
fn the_grid_is_what_its_definition_says() {
    check(&mut Random(311), 120);
}

#[test]
#[ignore = "long: 20,000 grids"]
fn long_the_grid_is_what_its_definition_says() {
    check(&mut Random(2_611), 20_000);
}
