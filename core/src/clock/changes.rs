//! Where a clock meets the clock changes of its zone: for those who compare it with other schedulers, which treat them otherwise.

use crate::time::civil::{civil_from_days, days_in_month, SECONDS_PER_DAY};
use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::datetime::LocalDisplay;
use super::timeline::Timeline;
use super::zone::Zone;
use super::Clock;

/// More changes than any zone has in the years that are looked at.
const MOST_CHANGES: usize = 1_000;

impl<Z: Zone> Timeline<'_, Z> {
    /// The clock changes in (from, until]: when, and the offsets before and after.
    fn changes(&self, from: Instant, until: Instant) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        let mut second = from.unix_seconds();
        let last = until.unix_seconds();
        let next = move || {
            let before = self.zone.at(second);
            second = before.until;
            (second <= last).then(|| (second, before.offset, self.zone.at(second).offset))
        };
        std::iter::from_fn(next).take(MOST_CHANGES).filter(|(_, before, after)| before != after)
    }

    /// A cron clock that follows the wall clock.
    #[must_use]
    pub const fn is_wild(&self) -> bool {
        matches!(self.clock, Clock::Cron(cron) if cron.is_wild())
    }

    /// What the wall clock shows at the first change in (from, until], just before it.
    #[must_use]
    pub fn first_change(&self, from: Instant, until: Instant) -> Option<LocalDisplay> {
        let (at, before, _) = self.changes(from, until).next()?;
        Some(LocalDisplay((at + before - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND))
    }

    /// The first matching reading of a cron clock that a change in (from, until] skips or repeats.
    #[must_use]
    pub fn reading_at_a_change(&self, from: Instant, until: Instant) -> Option<LocalDisplay> {
        let Clock::Cron(cron) = self.clock else { return None };
        self.changes(from, until).find_map(|(at, before, after)| {
            let (first, end) = (at + before.min(after), at + before.max(after));
            let hit = cron.reading_at_or_after(first).filter(|&reading| reading < end)?;
            Some(LocalDisplay((hit - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND))
        })
    }

    /// The first matching reading of a cron clock that a change in (from, until] skips, where it is not that of the change itself: those
    /// all become the end of the gap here, however far in it they are.
    #[must_use]
    pub fn reading_inside_a_gap(&self, from: Instant, until: Instant) -> Option<LocalDisplay> {
        let Clock::Cron(cron) = self.clock else { return None };
        self.changes(from, until).find_map(|(at, before, after)| {
            let (first, end) = (at + before, at + after);
            let hit = cron.reading_at_or_after(first).filter(|&reading| first < reading && reading < end)?;
            Some(LocalDisplay((hit - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND))
        })
    }

    /// Whether a cron clock that follows the wall clock has, for the first reading that a change in (from, until] skips, a time as much
    /// later as the gap is long and none before that, and nothing that is repeated.
    #[must_use]
    pub fn as_much_later_after_gaps(&self, from: Instant, until: Instant) -> bool {
        let Clock::Cron(cron) = self.clock else { return false };
        self.changes(from, until).all(|(at, before, after)| {
            let (first, end) = (at + before.min(after), at + before.max(after));
            match cron.reading_at_or_after(first).filter(|&reading| reading < end) {
                None => true,
                Some(hit) => after > before && cron.reading_at_or_after(end) == Some(hit + after - before),
            }
        })
    }

    /// The first change in (from, until] within two days of a month's end.
    #[must_use]
    pub fn change_beside_a_months_edge(&self, from: Instant, until: Instant) -> Option<LocalDisplay> {
        self.changes(from, until).find_map(|(at, before, _)| {
            let reading = at + before;
            let (year, month, day) = civil_from_days(reading.div_euclid(SECONDS_PER_DAY));
            let beside = day <= 2 || day + 2 > days_in_month(year, month);
            beside.then_some(LocalDisplay((reading - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND))
        })
    }
}
