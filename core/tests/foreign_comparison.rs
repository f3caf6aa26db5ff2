//! What a clock of ours says beside what another scheduler has run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

use scheduler_core::clock::zone::Utc;
use scheduler_core::clock::Clock;
use scheduler_core::foreign::comparison::{compare, Run};
use scheduler_core::time::Instant;
use scheduler_core::Keyword;

fn at(second: i64) -> Instant {
    Instant::from_micros(second * 1_000_000).unwrap()
}

/// `65+10`: begins at second 65 and lasts 10 seconds; each with what it is compared to.
fn check(clock: &str, tolerance: i64, runs: &str, expected: &str) {
    let read: Vec<Run> = runs
        .split_whitespace()
        .map(|run| {
            let (began, length) = run.split_once('+').unwrap_or((run, "0"));
            let began: i64 = began.parse().unwrap();
            Run { began: at(began), ended: Some(at(began + length.parse::<i64>().unwrap())) }
        })
        .collect();
    let parsed = Clock::parse(clock).unwrap();
    let timeline = parsed.bind(&Utc, Instant::UNIX_EPOCH);
    let second = |at: Instant| at.as_micros() / 1_000_000;
    let shown: Vec<String> = compare(&timeline, &read, tolerance * 1_000_000)
        .iter()
        .map(|line| {
            let theirs = line.theirs.map_or_else(|| "-".to_owned(), |at| second(at).to_string());
            format!("{}/{theirs} {}", second(line.plan_time), line.difference.as_str())
        })
        .collect();
    assert_eq!(shown.join(", "), expected, "{clock}: {runs}");
}

#[test]
fn each_minute() {
    let clock = "* * * * *";
    check(clock, 30, "", "");
    check(clock, 30, "60 121 180", "60/60 both, 120/121 both, 180/180 both");
    check(clock, 30, "60 180", "60/60 both, 120/- only_here, 180/180 both");
    check(clock, 30, "60 160 180", "60/60 both, 120/160 late, 180/180 both");
    check(clock, 30, "60 121 130 180", "60/60 both, 120/121 both, 130/130 only_there, 180/180 both");
    // The first run lasted; what waited for it came after the next minute had begun.
    check(clock, 30, "60+125 185 190 240", "60/60 both, 120/185 late, 180/190 both, 240/240 both");
    // However wide the tolerance, a run is for the minute that it is in.
    check(clock, 90, "60 180 240", "60/60 both, 120/- only_here, 180/180 both, 240/240 both");
    // What is due after their last run is no difference yet, nor what was before the first.
    check(clock, 30, "600", "600/600 both");
}

#[test]
fn a_rule_that_is_another() {
    check("*/2 * * * *", 30, "60 120 180 240", "60/60 only_there, 120/120 both, 180/180 only_there, 240/240 both");
    check("0 0 * * *", 60, "3600 90000", "3600/3600 only_there, 86400/90000 late");
}

#[test]
fn intervals_from_the_last_run() {
    check("every 30 seconds after start", 5, "0 30 61 91", "30/30 both, 60/61 both, 91/91 both");
    check("every 30 seconds after start", 5, "0+40 41 71", "40/41 both, 71/71 both");
    check("every 30 seconds after start", 5, "0 10 90", "10/10 only_there, 40/90 late");
    check("every 30 seconds after end", 5, "0+40 71 110", "70/71 both, 101/110 late");
}
