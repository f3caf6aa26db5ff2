//! Against a brute-force walk: every minute around every transition, the patterns written as plain Rust conditions
//! and the rules applied to the letter, with chrono-tz asked directly. Nothing of the core's walk is used here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use chrono_tz::{Tz, TZ_VARIANTS};
use clock_support::{modern_zone, offset_of, Noisy, Random, Table};
use scheduler_core::clock::zone::Zone;
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

/// A pattern, whether it is wild, and what it says, once more, as a condition.
struct Pattern {
    text: &'static str,
    wild: bool,
    matches: fn(&NaiveDateTime) -> bool,
}

/// Sunday = 0.
fn dow(t: &NaiveDateTime) -> u32 {
    t.weekday().num_days_from_sunday()
}

fn last_day(t: &NaiveDateTime) -> bool {
    (t.date() + chrono::Duration::days(1)).month() != t.month()
}

const PATTERNS: &[Pattern] = &[
    Pattern { text: "* * * * *", wild: true, matches: |_| true },
    Pattern { text: "*/5 * * * *", wild: true, matches: |t| t.minute() % 5 == 0 },
    Pattern { text: "0-59 * * * *", wild: true, matches: |_| true },
    Pattern { text: "30 * * * *", wild: true, matches: |t| t.minute() == 30 },
    Pattern { text: "@hourly", wild: true, matches: |t| t.minute() == 0 },
    Pattern { text: "*/15 2 * * *", wild: true, matches: |t| t.minute() % 15 == 0 && t.hour() == 2 },
    Pattern { text: "* 0-3 * * *", wild: true, matches: |t| t.hour() <= 3 },
    Pattern { text: "0 */2 * * *", wild: true, matches: |t| t.minute() == 0 && t.hour() % 2 == 0 },
    Pattern { text: "17 *,5 * * *", wild: true, matches: |t| t.minute() == 17 },
    Pattern {
        text: "*/20 1,2 * * sun",
        wild: true,
        matches: |t| t.minute() % 20 == 0 && (1..=2).contains(&t.hour()) && dow(t) == 0,
    },
    Pattern { text: "0-59/15 0-23 * * *", wild: false, matches: |t| t.minute() % 15 == 0 },
    Pattern { text: "0-59 2 * * *", wild: false, matches: |t| t.hour() == 2 },
    Pattern { text: "0-59 0-23 * * *", wild: false, matches: |_| true },
    Pattern { text: "30 2 * * *", wild: false, matches: |t| t.minute() == 30 && t.hour() == 2 },
    Pattern { text: "30 1 * * *", wild: false, matches: |t| t.minute() == 30 && t.hour() == 1 },
    Pattern { text: "0 2,3 * * *", wild: false, matches: |t| t.minute() == 0 && (2..=3).contains(&t.hour()) },
    Pattern { text: "30 2,3 * * *", wild: false, matches: |t| t.minute() == 30 && (2..=3).contains(&t.hour()) },
    Pattern { text: "@daily", wild: false, matches: |t| t.minute() == 0 && t.hour() == 0 },
    Pattern { text: "0 9 * * *", wild: false, matches: |t| t.minute() == 0 && t.hour() == 9 },
    Pattern {
        text: "15,45 0-4 * * *",
        wild: false,
        matches: |t| (t.minute() == 15 || t.minute() == 45) && t.hour() <= 4,
    },
    Pattern {
        text: "1 0,1,2,3,23 * * 0",
        wild: false,
        matches: |t| t.minute() == 1 && (t.hour() <= 3 || t.hour() == 23) && dow(t) == 0,
    },
    Pattern { text: "59 23 L * *", wild: false, matches: |t| t.minute() == 59 && t.hour() == 23 && last_day(t) },
    Pattern {
        text: "0 1-3 * 3,10 sunL",
        wild: false,
        matches: |t| {
            t.minute() == 0
                && (1..=3).contains(&t.hour())
                && (t.month() == 3 || t.month() == 10)
                && dow(t) == 0
                && (t.date() + chrono::Duration::days(7)).month() != t.month()
        },
    },
    Pattern {
        text: "30 2 8-14 3 0",
        wild: false,
        matches: |t| {
            t.minute() == 30 && t.hour() == 2 && t.month() == 3 && ((8..=14).contains(&t.day()) || dow(t) == 0)
        },
    },
    Pattern {
        text: "30 2 8-14 3 +0",
        wild: false,
        matches: |t| t.minute() == 30 && t.hour() == 2 && t.month() == 3 && (8..=14).contains(&t.day()) && dow(t) == 0,
    },
    Pattern {
        text: "*/30 * 20-31 3,10 +sun,6L",
        wild: true,
        matches: |t| {
            let last_saturday = dow(t) == 6 && (t.date() + chrono::Duration::days(7)).month() != t.month();
            t.minute() % 30 == 0
                && t.day() >= 20
                && (t.month() == 3 || t.month() == 10)
                && (dow(t) == 0 || last_saturday)
        },
    },
    Pattern { text: "30 2 */2 * 0-6", wild: false, matches: |t| t.minute() == 30 && t.hour() == 2 && t.day() % 2 == 1 },
];

const HOUR: i64 = 3_600;

/// The plan times in [from + 40 h, to − 40 h], by the letter of docs/reference/clocks.md, rules 7 and 8.
fn expected(tz: Tz, pattern: &Pattern, minutes: &[(i64, NaiveDateTime)], from: i64, to: i64) -> BTreeSet<i64> {
    let inner = from + 40 * HOUR..=to - 40 * HOUR;
    let mut out = BTreeSet::new();
    if pattern.wild {
        out.extend(minutes.iter().filter(|(u, local)| inner.contains(u) && (pattern.matches)(local)).map(|(u, _)| *u));
        return out;
    }
    let mut local = minutes[0].1;
    let end = minutes[minutes.len() - 1].1;
    while local <= end {
        if (pattern.matches)(&local) {
            let reading = local.and_utc().timestamp();
            let exists: Vec<i64> = (-16..=16)
                .map(|hours| offset_of(tz, reading - hours * HOUR))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .map(|offset| reading - i64::from(offset))
                .filter(|&u| u + i64::from(offset_of(tz, u)) == reading)
                .collect();
            let at = match exists.iter().min() {
                Some(&first) => Some(first),
                None => minutes.iter().find(|(_, shown)| *shown > local).map(|(u, _)| *u),
            };
            out.extend(at.filter(|at| inner.contains(at)));
        }
        local += chrono::Duration::minutes(1);
    }
    out
}

fn check_zone(tz: Tz, zone: &impl Zone, transitions: &[i64], patterns: &[Pattern], stats: &mut (usize, usize)) {
    let clocks: Vec<Clock> = patterns.iter().map(|pattern| Clock::parse(pattern.text).unwrap()).collect();
    for &transition in transitions {
        let (from, to) = (transition - 70 * HOUR, transition + 70 * HOUR);
        let minutes: Vec<(i64, NaiveDateTime)> = (from..=to)
            .step_by(60)
            .map(|u| (u, DateTime::from_timestamp(u + i64::from(offset_of(tz, u)), 0).unwrap().naive_utc()))
            .collect();
        for (pattern, clock) in patterns.iter().zip(&clocks) {
            let expected = expected(tz, pattern, &minutes, from, to);
            let timeline = clock.bind(zone, Instant::UNIX_EPOCH);
            let start = Instant::from_unix_seconds(from + 40 * HOUR - 1).unwrap();
            let end = to - 40 * HOUR;
            let mut actual = BTreeSet::new();
            let mut at = start;
            while let Some(next) = timeline.next_after(at).filter(|next| next.unix_seconds() <= end) {
                assert!(next > at);
                actual.insert(next.unix_seconds());
                at = next;
            }
            assert_eq!(actual, expected, "next: {} in {tz} at {transition}", pattern.text);
            let mut backwards = BTreeSet::new();
            let mut at = Instant::from_unix_seconds(end).unwrap();
            while let Some(previous) = timeline.previous_at_or_before(at).filter(|p| *p > start) {
                assert!(previous <= at);
                backwards.insert(previous.unix_seconds());
                at = previous.checked_add_micros(-1).unwrap();
            }
            assert_eq!(backwards, expected, "previous: {} in {tz} at {transition}", pattern.text);
            stats.0 += 1;
            stats.1 += expected.len();
        }
    }
}

fn transitions(table: &Table) -> Vec<i64> {
    let (from, to) = (946_684_800, 2_145_916_800);
    table.transitions.iter().map(|&(at, _)| at).filter(|at| (from..to).contains(at)).collect()
}

#[test]
fn minute_walk_around_chosen_transitions() {
    // One transition each: every kind of change the vectors name, plus a few at random.
    let mut random = Random(20_261_120);
    let mut stats = (0, 0);
    for name in [
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Antarctica/Troll",
        "Africa/Casablanca",
        "Asia/Beirut",
        "Pacific/Chatham",
        "America/Santiago",
        "America/Nuuk",
    ] {
        let table = modern_zone(name);
        let all = transitions(table);
        let mut chosen = vec![*random.pick(&all), *random.pick(&all)];
        if name == "Pacific/Apia" {
            chosen.push(1_325_239_200);
        }
        let noisy = Noisy(table, 7 * 86_400 + 3_600);
        check_zone(name.parse().unwrap(), table, &chosen[..1], PATTERNS, &mut stats);
        check_zone(name.parse().unwrap(), &noisy, &chosen[1..], PATTERNS, &mut stats);
    }
    assert!(stats.0 >= 500 && stats.1 > 10_000, "{stats:?}");
}

#[test]
#[ignore = "long: all zones, all transitions 2000-2037"]
fn long_minute_walk_around_every_transition() {
    let mut stats = (0, 0);
    let mut seen = BTreeSet::new();
    for tz in TZ_VARIANTS {
        let table = modern_zone(tz.name());
        let all = transitions(table);
        // Aliases have the same table: once is enough.
        if !seen.insert(format!("{table:?}")) {
            continue;
        }
        check_zone(tz, table, &all, PATTERNS, &mut stats);
    }
    println!("{} distinct zones, {} checks, {} plan times", seen.len(), stats.0, stats.1);
}
