//! Deterministic jitter: the same plan of the same schedule always waits the same time, on every server, so that a restart or
//! a second dispatcher never changes a fire time (the idea is that of Temporal's schedule spec).

use crate::time::Instant;

/// A wait in `0..=bound` microseconds for this plan of the schedule with this seed; 0 where `bound` is not positive.
/// The hash is SplitMix64 (Steele, Lea, Flood 2014).
#[must_use]
pub fn offset(bound: i64, seed: u64, plan_time: Instant) -> i64 {
    let Ok(bound) = u64::try_from(bound) else { return 0 };
    let hash = split_mix(seed ^ split_mix(plan_time.as_micros().cast_unsigned()));
    // Multiply and shift instead of a remainder: no bias towards small values.
    let scaled = (u128::from(hash) * (u128::from(bound) + 1)) >> 64;
    i64::try_from(scaled).unwrap_or(0)
}

fn split_mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
