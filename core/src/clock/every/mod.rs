//! The grid of an `every` clock: the n-th time is computed from the anchor, so months never drift, and it is found
//! by arithmetic instead of walking from the anchor (docs/reference/clocks.md, rules 11 and 12).

pub(crate) mod interval;
mod interval_iso;
pub(crate) mod interval_words;
pub(crate) mod parse;

use std::fmt;

use crate::time::civil::{civil_from_days, days_from_civil, days_in_month, SECONDS_PER_DAY};
use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::datetime::DateTime;
use super::zone::zone_cache::{ResolvedReading, ZoneCache};
use super::zone::Zone;
use interval::{Interval, MICROS_PER_DAY};

/// Where the grid begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// As the schedule says (when it was created).
    Given,
    /// `from epoch`: 1970-01-01 UTC.
    Epoch,
    /// `from` a date-time.
    From(DateTime),
    /// `after start`, `after end`: no grid. The interval counts from the last run of the schedule.
    Run(RunEdge),
}

/// What of a run an interval counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEdge {
    /// When it was dispatched.
    Start,
    /// When it ended.
    End,
}

/// A clock on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    /// The step.
    pub interval: Interval,
    /// Where it begins.
    pub anchor: Anchor,
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {}", self.interval)?;
        match self.anchor {
            Anchor::Given => Ok(()),
            Anchor::Epoch => f.write_str(" from epoch"),
            Anchor::From(at) => write!(f, " from {at}"),
            Anchor::Run(RunEdge::Start) => f.write_str(" after start"),
            Anchor::Run(RunEdge::End) => f.write_str(" after end"),
        }
    }
}

/// A grid with its anchor, in microseconds since 2000-01-01 UTC.
pub(crate) struct Grid<'t, 'a, Z: Zone> {
    pub interval: Interval,
    pub anchor: Instant,
    pub zone: &'t ZoneCache<'a, Z>,
}

/// The mean month, 30.436875 days, for the first guess.
const MEAN_MONTH: i128 = 2_629_746_000_000;

impl<Z: Zone> Grid<'_, '_, Z> {
    /// The index and the instant of the first time after `after`.
    pub(crate) fn next_after(&self, after: Instant) -> Option<(i64, Instant)> {
        if after < self.anchor {
            return Some((0, self.anchor));
        }
        if self.interval.is_elapsed() {
            return self.elapsed_step(self.steps_until(after) + 1);
        }
        let n = self.first_index_after(after);
        Some((n, self.nth(n)?))
    }

    /// The index and the instant of the last time at or before `t`; `None` before the anchor.
    pub(crate) fn previous_at_or_before(&self, t: Instant) -> Option<(i64, Instant)> {
        if t < self.anchor {
            return None;
        }
        if self.interval.is_elapsed() {
            return self.elapsed_step(self.steps_until(t));
        }
        let n = self.first_index_after(t) - 1;
        // Only the anchor itself can be later than a time that follows it (an anchor in a second pass).
        Some((n, self.nth(n)?.max(self.anchor)))
    }

    /// How many whole steps of elapsed time lie between the anchor and `t`; negative before it. Wider than 64 bits:
    /// from the first instant to the last is more microseconds than i64 can hold.
    fn steps_until(&self, t: Instant) -> i128 {
        let passed = i128::from(t.as_micros()) - i128::from(self.anchor.as_micros());
        passed.div_euclid(i128::from(self.interval.micros))
    }

    fn elapsed_step(&self, n: i128) -> Option<(i64, Instant)> {
        let micros = i128::from(self.anchor.as_micros()) + n * i128::from(self.interval.micros);
        let instant = Instant::from_micros(i64::try_from(micros).ok()?)?;
        Some((i64::try_from(n).unwrap_or(i64::MAX), instant))
    }

    /// How many times of a grid of elapsed time lie in (from, to].
    pub(crate) fn count_elapsed(&self, from: Instant, to: Instant) -> u64 {
        let up_to = |t: Instant| (self.steps_until(t) + 1).max(0);
        u64::try_from(up_to(to) - up_to(from)).unwrap_or(0)
    }

    /// The least index from 1 whose time is after `after`, found by a guess and a bisection around it.
    fn first_index_after(&self, after: Instant) -> i64 {
        let Interval { months, days, micros } = self.interval;
        let step = i128::from(months) * MEAN_MONTH + i128::from(days) * i128::from(MICROS_PER_DAY) + i128::from(micros);
        let passed = i128::from(after.as_micros()) - i128::from(self.anchor.as_micros());
        let guess = (passed / step).max(0) as i64;
        let is_after = |n: i64| self.nth(n).is_none_or(|time| time > after);
        // low is never after, high always is; index 0 is the anchor, which is not after.
        let (mut low, mut high);
        let mut width = 1;
        if is_after(guess.max(1)) {
            high = guess.max(1);
            low = high - 1;
            while low > 0 && is_after(low) {
                high = low;
                low = (low - width).max(0);
                width *= 2;
            }
        } else {
            low = guess.max(1);
            high = low + 1;
            while !is_after(high) {
                low = high;
                high += width;
                width *= 2;
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_after(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// The wall-clock reading (Unix seconds) that the n-th time asks for before elapsed time is added, and the
    /// microseconds within that second. `None` beyond the calendar.
    pub(crate) fn reading(&self, n: i64) -> Option<(i64, i64)> {
        let anchor = self.zone.reading(self.anchor.unix_seconds());
        let (day, second_of_day) = (anchor.div_euclid(SECONDS_PER_DAY), anchor.rem_euclid(SECONDS_PER_DAY));
        let mut day = day;
        if self.interval.months != 0 {
            let (year, month, day_of_month) = civil_from_days(day);
            let months = n.checked_mul(i64::from(self.interval.months))?;
            let month0 = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?.checked_add(months)?;
            let (year, month) = (month0.div_euclid(12), month0.rem_euclid(12) as u32 + 1);
            if year > LAST_YEAR {
                return None;
            }
            day = days_from_civil(year, month, day_of_month.min(days_in_month(year, month)));
        }
        day = day.checked_add(n.checked_mul(i64::from(self.interval.days))?)?;
        if day > LAST_DAY {
            return None;
        }
        Some((day * SECONDS_PER_DAY + second_of_day, self.anchor.subsecond_micros()))
    }

    /// What the zone makes of the n-th reading, and the microseconds within its second.
    fn resolved(&self, n: i64) -> Option<(ResolvedReading, i64)> {
        let (reading, micros) = self.reading(n)?;
        Some((self.zone.resolve(reading), micros))
    }

    /// The n-th time of a grid with months or days; `None` when it cannot be stored.
    pub(crate) fn nth(&self, n: i64) -> Option<Instant> {
        if n == 0 {
            return Some(self.anchor);
        }
        let elapsed = n.checked_mul(self.interval.micros)?;
        let (resolved, micros) = self.resolved(n)?;
        let base = match resolved {
            ResolvedReading::Exact(second) => second_micros(second)?.checked_add(micros)?,
            ResolvedReading::AfterGap { end, .. } => second_micros(end)?,
        };
        Instant::from_micros(base.checked_add(elapsed)?)
    }
}

/// Past the last year that can be stored, with room for offsets.
const LAST_YEAR: i64 = 294_278;
const LAST_DAY: i64 = days_from_civil(LAST_YEAR, 12, 31);

/// Microseconds since 2000-01-01 of a Unix second.
fn second_micros(second: i64) -> Option<i64> {
    second.checked_sub(UNIX_TO_POSTGRES_SECONDS)?.checked_mul(MICROS_PER_SECOND)
}
