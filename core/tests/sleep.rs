//! Sleeps come to an end, whatever the clock does meanwhile.

#![allow(clippy::unwrap_used)]

use scheduler_core::runtime::cooldown::Now;
use scheduler_core::runtime::sleep::{next_part, Part};
use scheduler_core::Instant;
use std::time::{Duration, Instant as Moment};

/// The parts of a sleep by a wall clock that stands: what is left is known from what was slept only.
fn parts(mut left: i64) -> Vec<Part> {
    let mut parts = Vec::new();
    loop {
        let part = next_part(left);
        parts.push(part);
        assert!(parts.len() < 20, "{left} left after {parts:?}");
        match part {
            Part::Milliseconds(millis) => left -= millis * 1000,
            Part::Last(_) => return parts,
        }
    }
}

#[test]
fn a_sleep_has_few_parts_which_make_up_its_length() {
    let around = |length: i64| (-1200..1200).map(move |more| length + more);
    let lengths = [0, 1000, 2000, 128_000, 1_000_000, 60_000_000, 3_600_000_000, 1 << 50];
    for length in lengths.into_iter().flat_map(around).filter(|length| *length >= 0) {
        let parts = parts(length);
        let slept: i64 = parts
            .iter()
            .map(|part| match part {
                Part::Milliseconds(millis) => millis * 1000,
                Part::Last(micros) => *micros,
            })
            .sum();
        assert_eq!(slept, length, "{parts:?}");
        let (last, before) = parts.split_last().unwrap();
        assert!(matches!(last, Part::Last(0..=1100)), "{length}: {parts:?}");
        assert!(before.iter().all(|part| matches!(part, Part::Milliseconds(1..))), "{length}: {parts:?}");
        // A thousandth late, the first still ends before the end.
        if let (Some(Part::Milliseconds(millis)), 1_000_000..=60_000_000) = (before.first(), length) {
            assert!(millis * 1001 < length, "{length}: {parts:?}");
        }
    }
    assert_eq!(next_part(-5), Part::Last(0));
}

#[test]
fn a_clock_that_was_set_is_noticed() {
    let (wall, moment) = (Instant::from_micros(1_000_000_000).unwrap(), Moment::now());
    let at = |seconds: i64, slept: u64| Now {
        wall: wall.checked_add_micros(seconds * 1_000_000).unwrap(),
        moment: moment + Duration::from_secs(slept),
    };
    for (seconds, slept, set) in
        [(0, 0, false), (60, 60, false), (61, 60, false), (62, 60, true), (58, 60, true), (-3540, 60, true)]
    {
        assert_eq!(at(0, 0).was_set_until(at(seconds, slept)), set, "{seconds} {slept}");
    }
}
