//! How long the next time takes, alone and beside croner on the same work. A plain harness: it prints the median of
//! many batches in nanoseconds, and fails when a limit of the project is broken (`cargo bench`, release only).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "a bench")]

#[path = "../tests/clock_support/mod.rs"]
mod clock_support;

use std::hint::black_box;
use std::time::Instant as Moment;

use chrono::{DateTime, Utc as ChronoUtc};
use chrono_tz::Tz;
use clock_support::{zone, Random, Rule};
use croner::parser::{CronParser, Seconds};
use scheduler_core::clock::zone::{Utc, Zone};
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

const BATCHES: usize = 101;
const BATCH: usize = 512;

/// The median over the batches of the nanoseconds that one call takes; the inputs are the same for everyone.
fn median(inputs: &[i64], mut call: impl FnMut(i64)) -> f64 {
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Moment::now();
            for &input in inputs {
                call(input);
            }
            start.elapsed().as_nanos() as f64 / inputs.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[BATCHES / 2]
}

/// Seconds of one year in any order: nothing is asked twice in a row.
fn scattered() -> Vec<i64> {
    let mut random = Random(7);
    (0..BATCH).map(|_| 1_767_225_600 + random.below(31_536_000) as i64).collect()
}

fn ours(zone: &impl Zone, text: &str, inputs: &[i64]) -> f64 {
    let clock = Clock::parse(text).unwrap();
    let timeline = clock.bind(zone, Instant::UNIX_EPOCH);
    median(inputs, |second| {
        black_box(timeline.next_after(black_box(Instant::from_unix_seconds(second).unwrap())));
    })
}

/// The worst case of a schedule: the timeline is bound afresh for one question.
fn ours_cold(zone: &impl Zone, text: &str, inputs: &[i64]) -> f64 {
    let clock = Clock::parse(text).unwrap();
    median(inputs, |second| {
        let timeline = clock.bind(zone, Instant::UNIX_EPOCH);
        black_box(timeline.next_after(black_box(Instant::from_unix_seconds(second).unwrap())));
    })
}

fn theirs(name: &str, text: &str, inputs: &[i64]) -> f64 {
    let cron = CronParser::builder().seconds(Seconds::Optional).build().parse(text).unwrap();
    let tz: Tz = name.parse().unwrap();
    median(inputs, |second| {
        let at = DateTime::<ChronoUtc>::from_timestamp(second, 0).unwrap().with_timezone(&tz);
        let _ = black_box(cron.find_next_occurrence(black_box(&at), false));
    })
}

fn main() {
    if cfg!(debug_assertions) {
        // `cargo test --benches` runs this too: the numbers mean nothing there.
        return;
    }
    let common = [
        "* * * * *",
        "*/5 * * * *",
        "0 * * * *",
        "0 9 * * *",
        "30 2 * * *",
        "*/5 9-17 * * mon-fri",
        "0 0 1 * *",
        "0 0 * * 0",
        "0 0 1 1 *",
        "0 9 L * *",
        "0 0 13 * 5",
        "15 10 15W * *",
    ];
    let inputs = scattered();
    println!(
        "{:<24} {:>10} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "clock", "UTC ns", "NY ns", "cold NY", "croner NY", "UTC x", "NY x"
    );
    let mut worst: f64 = f64::INFINITY;
    for text in common {
        let new_york = zone("America/New_York");
        let (utc, dst, cold) =
            (ours(&Utc, text, &inputs), ours(new_york, text, &inputs), ours_cold(new_york, text, &inputs));
        let (their_utc, their_dst) = (theirs("UTC", text, &inputs), theirs("America/New_York", text, &inputs));
        let (utc_ratio, dst_ratio) = (their_utc / utc, their_dst / dst);
        worst = worst.min(utc_ratio).min(dst_ratio).min(their_dst / cold);
        println!("{text:<24} {utc:>10.1} {dst:>10.1} {cold:>10.1} {their_dst:>10.1} {utc_ratio:>8.1} {dst_ratio:>8.1}");
        assert!(utc < 500.0 && dst < 1_000.0, "{text} is too slow");
    }
    println!("least ratio to croner, cold ones included: {worst:.1}");
    assert!(worst >= 1.0, "slower than croner");

    println!("\n{:<54} {:>10}", "worst cases", "ns");
    let far = 4_102_444_800; // 2100
    for text in [
        "0 0 29 2 */7",
        "0 0 29 2 *",
        "30 2 31 2 *",
        "0 0 31 2,4,6,9,11 *",
        "* * 31 2 *",
        "0 0 30W 2 *",
        "* 2 * 3 0#2",
        "0 0 0 29 2 * 2097-2099",
        "every 1 second",
        "every 1 microsecond",
        "every 1 month",
        "every 1 day",
        "every 1 month 3 days 7 hours",
    ] {
        for (name, took) in [
            ("UTC", ours_cold(&Utc, text, &[far])),
            ("New_York", ours_cold(zone("America/New_York"), text, &[far])),
            ("New York's rule for ever", ours_cold(&Rule, text, &[far])),
            ("Casablanca", ours_cold(zone("Africa/Casablanca"), text, &[1_767_225_600])),
        ] {
            println!("{:<54} {took:>10.1}", format!("{text} in {name}"));
            assert!(took < 100_000.0, "{text} is too slow");
        }
    }
    for text in [
        "*/5 9-17 * * mon-fri",
        "0 0 9 * * 1-5 2027-2030",
        "every 1 month from 2026-01-31 09:00+00",
        "at 2027-01-01 00:00+00",
        "22-2 * * * *",
    ] {
        let took = median(&[0; 64], |_| {
            let _ = black_box(Clock::parse(black_box(text)));
        });
        println!("{:<54} {took:>10.1}", format!("parse {text}"));
    }
}
