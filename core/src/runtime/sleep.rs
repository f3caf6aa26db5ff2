//! A sleep in parts. Linux ends a wait with a timeout late by up to a thousandth of it (a two-hundredth for a process of low priority), and by a
//! tenth of a second at most. So the first part of a sleep ends early by more than that; the rest is short enough to be slept exactly.

const EARLY_BY: i64 = 128;
const EARLY_AT_MOST: i64 = 150_000;

/// What comes next in a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// So many milliseconds, at least one, on a latch. Then it is asked how much is left.
    Milliseconds(i64),
    /// So many microseconds, too few for a latch, which counts in milliseconds. Then it is over.
    Last(i64),
}

/// The next part of a sleep of which so many microseconds are left.
#[must_use]
pub fn next_part(left: i64) -> Part {
    let millis = (left - (left / EARLY_BY).min(EARLY_AT_MOST)) / 1000;
    if millis > 0 {
        Part::Milliseconds(millis)
    } else {
        Part::Last(left.max(0))
    }
}
