//! Backoff and jitter: how long things wait.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use proptest::prelude::*;
use scheduler_core::runtime::backoff::{after_attempt, after_fire_failures};
use scheduler_core::schedule::jitter::offset;
use scheduler_core::time::Instant;

#[test]
fn the_wait_after_a_failed_attempt() {
    let check =
        |waits: &[i64], attempt, expected| assert_eq!(after_attempt(waits, attempt), expected, "{waits:?} {attempt}");
    check(&[], 1, 0);
    check(&[], i32::MAX, 0);
    check(&[7], 1, 7);
    check(&[7], 2, 7);
    check(&[1, 5, 30], 1, 1);
    check(&[1, 5, 30], 2, 5);
    check(&[1, 5, 30], 3, 30);
    check(&[1, 5, 30], 4, 30);
    check(&[1, 5, 30], i32::MAX, 30);
    check(&[0, 5, 0], 3, 0);
    // No attempt has such a number; it must not panic.
    for attempt in [0, -1, i32::MIN] {
        check(&[1, 5, 30], attempt, 1);
    }
    check(&[i64::MAX], 9, i64::MAX);
}

#[test]
fn the_wait_after_failed_fires() {
    let seconds: Vec<i64> = (1..=12).map(|failures| after_fire_failures(failures) / 1_000_000).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    for (failures, expected) in [(i32::MAX, 300_000_000), (0, 1_000_000), (i32::MIN, 1_000_000)] {
        assert_eq!(after_fire_failures(failures), expected, "{failures}");
    }
}

const MINUTE: i64 = 60_000_000;

fn at(micros: i64) -> Instant {
    Instant::from_micros(micros).unwrap()
}

/// Computed with another implementation. Other numbers would move the fires of every schedule in every database.
#[test]
fn jitter_is_pinned() {
    let plans = [at(0), at(MINUTE), at(-1), Instant::UNIX_EPOCH, Instant::MIN, Instant::MAX];
    let shown: Vec<i64> = plans.iter().map(|plan| offset(MINUTE, 1, *plan)).collect();
    assert_eq!(shown, PINNED_SEED_1);
    let shown: Vec<i64> = plans.iter().map(|plan| offset(MINUTE, u64::MAX, *plan)).collect();
    assert_eq!(shown, PINNED_SEED_MAX);
}

const PINNED_SEED_1: [i64; 6] = [2_040_702, 21_311_295, 24_465_743, 16_411_759, 34_471_400, 43_216_657];
const PINNED_SEED_MAX: [i64; 6] = [10_744_788, 23_902_101, 23_211_437, 11_075_575, 17_664_161, 4_461_142];

/// The constants of `jitter_is_pinned` come from the published SplitMix64, not from our copy: its first outputs for
/// seed 0 are known, and a bound of 2^64 - 1 would show them.
#[test]
fn jitter_uses_split_mix() {
    // split_mix(0) = 0xE220A8397B1DCDAF. With plan 0 the inner hash is that; a seed of the same value cancels it, so the
    // outer one is the same number again, and the largest bound shows its upper 63 bits.
    assert_eq!(offset(i64::MAX, 0xE220_A839_7B1D_CDAF, at(0)), (0xE220_A839_7B1D_CDAF_u64 >> 1).cast_signed());
}

#[test]
fn jitter_of_no_length_is_none() {
    for bound in [0, -1, i64::MIN] {
        assert_eq!(offset(bound, 5, at(MINUTE)), 0);
    }
}

#[test]
fn jitter_spreads_over_plans_and_over_schedules() {
    let even = |offsets: Vec<i64>, what: &str| {
        let mut tenths = [0_usize; 10];
        offsets.iter().for_each(|offset| tenths[usize::try_from(offset * 10 / (MINUTE + 1)).unwrap()] += 1);
        for count in tenths {
            assert!((850..1150).contains(&count), "{what}: {tenths:?}");
        }
    };
    even((0..10_000).map(|n| offset(MINUTE, 1, at(n * MINUTE))).collect(), "a plan each minute");
    even((0..10_000).map(|n| offset(MINUTE, 1, at(n))).collect(), "a plan each microsecond");
    even((0..10_000).map(|seed| offset(MINUTE, seed, at(0))).collect(), "schedules in a row");
    // Both ends can be had.
    let seen: std::collections::BTreeSet<i64> = (0..100).map(|n| offset(2, 1, at(n))).collect();
    assert_eq!(seen, [0, 1, 2].into());
}

proptest! {
    #[test]
    fn jitter_keeps_its_bounds(bound in any::<i64>(), seed in any::<u64>(), micros in Instant::MIN.as_micros()..Instant::MAX.as_micros()) {
        let wait = offset(bound, seed, at(micros));
        prop_assert!((0..=bound.max(0)).contains(&wait));
        prop_assert_eq!(wait, offset(bound, seed, at(micros)));
    }
}
