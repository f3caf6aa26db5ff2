//! How many plan times a clock has between two instants, without walking from one to the next: an outage of a day is
//! 86,400 plans of a clock that fires each second, and whoever counts them has other schedules to fire.
//!
//! A cron clock is followed from one change of its zone's offset to the next; between two changes the plan times are the
//! matching readings of the calendar, which are counted a month at a time. The rules are those of `timeline`.

use crate::clock::zone::zone_cache::ZoneCache;
use crate::clock::zone::Zone;
use crate::time::civil::{civil_from_days, days_from_civil, days_in_month, SECONDS_PER_DAY};

use super::Cron;

impl Cron {
    /// How many plan times lie in (from, to], in Unix seconds.
    pub(crate) fn count_between<Z: Zone>(&self, zone: &ZoneCache<'_, Z>, from: i64, to: i64) -> u64 {
        let mut count = 0;
        let mut at = from;
        while at < to {
            let first = at + 1;
            let span = zone.at(first);
            let end = to.min(span.until.saturating_sub(1)).max(first);
            let (first_shown, last_shown) = (first + span.offset, end + span.offset);
            count += if self.is_wild() {
                self.count_readings(first_shown - 1, last_shown)
            } else {
                // Readings that have been shown before do not fire again; those that the clock jumped over fire together.
                let shown = zone.latest_reading(at);
                let jumped = self.reading_at_or_after(shown + 1).is_some_and(|reading| reading <= first_shown);
                u64::from(jumped) + self.count_readings(shown.max(first_shown), last_shown)
            };
            at = end;
        }
        count
    }

    /// How many matching readings lie in (after, to].
    fn count_readings(&self, after: i64, to: i64) -> u64 {
        if to <= after {
            return 0;
        }
        let (first_day, last_day) = (after.div_euclid(SECONDS_PER_DAY), to.div_euclid(SECONDS_PER_DAY));
        let part = |day: i64, reading: i64| match self.count_days(day, day) {
            0 => 0,
            _ => self.times_up_to(reading.rem_euclid(SECONDS_PER_DAY) as u32),
        };
        let a_day = u64::from(self.hours.count_ones() * self.minutes.count_ones() * self.seconds.count_ones());
        // All of the days from the first to the one before the last, without what the first had shown, and the last one's part.
        self.count_days(first_day, last_day - 1) * a_day + part(last_day, to) - part(first_day, after)
    }

    /// How many days match from the day `first` to the day `last` (since 1970-01-01).
    fn count_days(&self, first: i64, last: i64) -> u64 {
        if last < first {
            return 0;
        }
        if self.every_day {
            return (last - first + 1).unsigned_abs();
        }
        let (mut year, mut month, from) = civil_from_days(first);
        let (last_year, last_month, to) = civil_from_days(last);
        let mut skipped = (1_u64 << from) - 1;
        let mut count = 0;
        while (year, month) <= (last_year, last_month) {
            if self.months >> month & 1 != 0 && self.years.as_ref().is_none_or(|years| years.contains(year)) {
                let mut days = u64::from(self.days.of(year, month)) & !skipped;
                if (year, month) == (last_year, last_month) {
                    days &= (1 << (to + 1)) - 1;
                }
                count += u64::from(days.count_ones());
            }
            skipped = 0;
            let next = days_from_civil(year, month, 1) + i64::from(days_in_month(year, month));
            (year, month, _) = civil_from_days(next);
        }
        count
    }

    /// How many times of a matching day come at or before this second of the day.
    fn times_up_to(&self, second_of_day: u32) -> u64 {
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let below = |set: u64, n: u32| (set & ((1 << n) - 1)).count_ones();
        let (minutes, seconds) = (self.minutes.count_ones(), self.seconds.count_ones());
        let mut count = below(u64::from(self.hours), hour) * minutes * seconds;
        if self.hours >> hour & 1 != 0 {
            count += below(self.minutes, minute) * seconds;
            if self.minutes >> minute & 1 != 0 {
                count += below(self.seconds, second + 1);
            }
        }
        u64::from(count)
    }
}
