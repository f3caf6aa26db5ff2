//! Arbitrary texts, for stable Rust: seeds from `tests/data` are cut, joined and mutated. Nothing may panic, hang or
//! print what it does not read. The long run is ten million cases.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use std::time::{Duration, Instant as Moment};

use clock_support::{zone, Random, Table};
use scheduler_core::clock::{lint, Clock};
use scheduler_core::time::Instant;

/// The seed corpus: every good and bad text, every interval.
fn seeds() -> Vec<String> {
    let first = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    let good = include_str!("data/good_clocks.txt").lines().map(first);
    let bad = include_str!("data/bad_clocks.txt").lines().map(first);
    let intervals = include_str!("data/intervals.txt").lines().map(|line| format!("every {}", first(line)));
    good.chain(bad).chain(intervals).collect()
}

const PIECES: &[&str] = &[
    "*",
    "/",
    "-",
    ",",
    "#",
    "L",
    "W",
    "LW",
    "?",
    " ",
    "  ",
    "\t",
    "0",
    "7",
    "31",
    "59",
    "60",
    "99999999999999999999",
    "sun",
    "fri",
    "jan",
    "DEC",
    "every ",
    "from ",
    "epoch",
    "at ",
    "never",
    "@daily",
    "P",
    "T",
    "1Y",
    "2M",
    ":",
    ".",
    "+",
    "e9",
    "ago",
    "month",
    "2027-01-01",
    "T09:00",
    "Z",
    "+05:30",
    "294276",
    "\u{0}",
    "\n",
    "é",
    "０",
    "𝟘",
    "\u{202e}",
    "İ",
    "ß",
    "9223372036854775807",
    "-9223372036854775808",
    "*/",
    "1-5/2",
];

fn mutated(random: &mut Random, seeds: &[String]) -> String {
    let mut text: Vec<char> = random.pick(seeds).chars().collect();
    for _ in 0..random.below(4) {
        let at = random.below(text.len() as u64 + 1) as usize;
        match random.below(6) {
            0 if !text.is_empty() => {
                text.remove(at.min(text.len() - 1));
            }
            1 => text.truncate(at),
            2 => {
                let other: Vec<char> = random.pick(seeds).chars().collect();
                let from = random.below(other.len() as u64 + 1) as usize;
                text.truncate(at);
                text.extend(&other[from..]);
            }
            3 => text.insert(at, char::from_u32(random.below(0x250) as u32).unwrap_or(' ')),
            _ => {
                let piece: Vec<char> = random.pick(PIECES).chars().collect();
                text.splice(at..at, piece);
            }
        }
    }
    text.into_iter().collect()
}

fn run(cases: u64, seed: u64) -> (u64, Duration) {
    let seeds = seeds();
    let mut random = Random(seed);
    let zones: Vec<&Table> = ["America/New_York", "Africa/Casablanca", "Pacific/Apia"].map(zone).to_vec();
    let (mut accepted, mut slowest) = (0, Duration::ZERO);
    for _ in 0..cases {
        let text = mutated(&mut random, &seeds);
        let start = Moment::now();
        match Clock::parse(&text) {
            Err(error) => {
                assert!(!error.to_string().contains(['\n', '\r', '\0']), "{text:?}: {error}");
                assert!(
                    error.hint().ends_with('.') && !error.hint().contains(['\n', '\r', '\0']),
                    "{text:?}: {}",
                    error.hint()
                );
            }
            Ok(clock) => {
                accepted += 1;
                let printed = clock.to_string();
                assert_eq!(Clock::parse(&printed).as_ref(), Ok(&clock), "{text:?} printed as {printed}");
                let zone = *random.pick(&zones);
                let t = match random.below(8) {
                    0 => Instant::MIN,
                    1 => Instant::MAX,
                    2 => Instant::from_micros(random.next() as i64).unwrap_or(Instant::MAX),
                    _ => Instant::from_unix_seconds(random.below(4_102_444_800) as i64).unwrap(),
                };
                let timeline = clock.bind(zone, Instant::UNIX_EPOCH);
                let next = timeline.next_after(t);
                assert!(next.is_none_or(|next| next > t), "{text:?} after {t:?}");
                let previous = timeline.previous_at_or_before(t);
                assert!(previous.is_none_or(|previous| previous <= t), "{text:?} before {t:?}");
                if let Some(next) = next.filter(|_| timeline.counts_from().is_none()) {
                    assert_eq!(timeline.previous_at_or_before(next), Some(next), "{text:?} after {t:?}");
                    let _ = timeline.dst_note(next).map(|note| note.to_string());
                }
                if random.below(64) == 0 {
                    let _ = lint(&clock, &text, zone, t);
                }
            }
        }
        let took = start.elapsed();
        slowest = slowest.max(took);
        assert!(took < Duration::from_secs(10), "{text:?} took {took:?}");
    }
    (accepted, slowest)
}

#[test]
fn mutated_texts_do_no_harm() {
    let (accepted, _) = run(20_000, 0xF022);
    assert!(accepted > 2_000, "{accepted}");
}

#[test]
#[ignore = "long: ten million mutated texts"]
fn long_ten_million_mutated_texts() {
    let (accepted, slowest) = run(10_000_000, 0xF0_2222);
    println!("10000000 cases, {accepted} accepted, slowest {slowest:?}");
}
