//! How long a failed attempt waits for the next one.

/// The wait in microseconds after failed attempt `attempt` (1-based): the entry of that number, the last entry for all
/// later ones, 0 where the list is empty.
#[must_use]
pub fn after_attempt(waits: &[i64], attempt: i32) -> i64 {
    let index = usize::try_from(attempt.max(1) - 1).unwrap_or(0);
    waits.get(index).or(waits.last()).copied().unwrap_or(0)
}

/// The longest wait after failures of that kind, in microseconds.
pub const LONGEST: i64 = 300_000_000;

/// The wait in microseconds before a schedule whose fire failed `failures` times in a row (1-based) is tried again: 1 s,
/// doubling, at most 5 min.
#[must_use]
pub fn after_fire_failures(failures: i32) -> i64 {
    let doublings = u32::try_from(failures.clamp(1, 10) - 1).unwrap_or(0);
    (1_000_000_i64 << doublings).min(LONGEST)
}
