//! The search in the calendar: the next and the previous matching wall-clock reading of a cron clock.
//!
//! Readings are seconds since 1970-01-01 00:00 on a wall clock that never changes. Zones come later, in the timeline.
//! The Gregorian calendar repeats every 400 years (146,097 days, a whole number of weeks). So a search over 400 years
//! that finds nothing proves that there is nothing.

use crate::time::civil::{civil_from_days, days_from_civil, days_in_month, weekday, SECONDS_PER_DAY};

use super::Cron;

/// The bound of a search.
const CYCLE_YEARS: i64 = 400;

impl Cron {
    /// The first matching reading at or after `reading`.
    #[inline]
    pub(crate) fn reading_at_or_after(&self, reading: i64) -> Option<i64> {
        let today = reading.div_euclid(SECONDS_PER_DAY);
        let second_of_day = reading.rem_euclid(SECONDS_PER_DAY) as u32;
        if self.every_day {
            let (day, time) = match self.time_at_or_after(second_of_day) {
                Some(time) => (today, time),
                None => (today + 1, self.first_time),
            };
            return Some(day * SECONDS_PER_DAY + i64::from(time));
        }
        let (year, month, day) = civil_from_days(today);
        let first_of_month = today - i64::from(day) + 1;
        if self.months >> month & 1 != 0 && self.has_year(year) {
            let matching = self.days.in_month(days_in_month(year, month), weekday(first_of_month));
            if matching >> day & 1 != 0 {
                if let Some(time) = self.time_at_or_after(second_of_day) {
                    return Some(today * SECONDS_PER_DAY + i64::from(time));
                }
            }
            let later = matching >> day >> 1;
            if later != 0 {
                let day = today + 1 + i64::from(later.trailing_zeros());
                return Some(day * SECONDS_PER_DAY + i64::from(self.first_time));
            }
        }
        let day = self.first_day_after_month(year, month)?;
        Some(day * SECONDS_PER_DAY + i64::from(self.first_time))
    }

    /// The last matching reading at or before `reading`.
    pub(crate) fn reading_at_or_before(&self, reading: i64) -> Option<i64> {
        let today = reading.div_euclid(SECONDS_PER_DAY);
        let second_of_day = reading.rem_euclid(SECONDS_PER_DAY) as u32;
        let (year, month, day) = civil_from_days(today);
        if self.months >> month & 1 != 0 && self.has_year(year) {
            let matching = self.days.of(year, month);
            if matching >> day & 1 != 0 {
                if let Some(time) = self.time_at_or_before(second_of_day) {
                    return Some(today * SECONDS_PER_DAY + i64::from(time));
                }
            }
            let earlier = matching & ((1 << day) - 1);
            if earlier != 0 {
                let day = today - i64::from(day) + i64::from(earlier.ilog2());
                return Some(day * SECONDS_PER_DAY + i64::from(self.last_time));
            }
        }
        let day = self.last_day_before_month(year, month)?;
        Some(day * SECONDS_PER_DAY + i64::from(self.last_time))
    }

    fn first_day_after_month(&self, mut year: i64, month: u32) -> Option<i64> {
        let end = year + CYCLE_YEARS;
        // Bits of the months that are still ahead in this year.
        let mut months = u32::from(self.months) >> month >> 1 << month << 1;
        loop {
            if self.has_year(year) {
                while months != 0 {
                    let month = months.trailing_zeros();
                    let first = days_from_civil(year, month, 1);
                    let matching = self.days.in_month(days_in_month(year, month), weekday(first));
                    if matching != 0 {
                        return Some(first - 1 + i64::from(matching.trailing_zeros()));
                    }
                    months &= months - 1;
                }
            }
            year += 1;
            if year > end {
                return None;
            }
            if let Some(years) = &self.years {
                year = years.at_or_after(year)?;
            }
            months = u32::from(self.months);
        }
    }

    fn last_day_before_month(&self, mut year: i64, month: u32) -> Option<i64> {
        let end = year - CYCLE_YEARS;
        let mut months = u32::from(self.months) & ((1 << month) - 1);
        loop {
            if self.has_year(year) {
                while months != 0 {
                    let month = months.ilog2();
                    let first = days_from_civil(year, month, 1);
                    let matching = self.days.in_month(days_in_month(year, month), weekday(first));
                    if matching != 0 {
                        return Some(first - 1 + i64::from(matching.ilog2()));
                    }
                    months &= !(1 << month);
                }
            }
            year -= 1;
            if year < end {
                return None;
            }
            if let Some(years) = &self.years {
                year = years.at_or_before(year)?;
            }
            months = u32::from(self.months);
        }
    }

    fn has_year(&self, year: i64) -> bool {
        self.years.as_ref().is_none_or(|years| years.contains(year))
    }

    /// The first matching second of the day at or after `second_of_day`.
    #[inline]
    fn time_at_or_after(&self, second_of_day: u32) -> Option<u32> {
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        if self.hours >> hour & 1 != 0 {
            if self.minutes >> minute & 1 != 0 {
                let seconds = self.seconds >> second << second;
                if seconds != 0 {
                    return Some(hour * 3600 + minute * 60 + seconds.trailing_zeros());
                }
            }
            let minutes = self.minutes >> minute >> 1 << minute << 1;
            if minutes != 0 {
                return Some(hour * 3600 + minutes.trailing_zeros() * 60 + self.seconds.trailing_zeros());
            }
        }
        let hours = self.hours >> hour >> 1 << hour << 1;
        if hours == 0 {
            return None;
        }
        Some(hours.trailing_zeros() * 3600 + self.first_time % 3600)
    }

    /// The last matching second of the day at or before `second_of_day`.
    fn time_at_or_before(&self, second_of_day: u32) -> Option<u32> {
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        if self.hours >> hour & 1 != 0 {
            if self.minutes >> minute & 1 != 0 {
                let seconds = self.seconds & ((2 << second) - 1);
                if seconds != 0 {
                    return Some(hour * 3600 + minute * 60 + seconds.ilog2());
                }
            }
            let minutes = self.minutes & ((1 << minute) - 1);
            if minutes != 0 {
                return Some(hour * 3600 + minutes.ilog2() * 60 + self.last_time % 60);
            }
        }
        let hours = self.hours & ((1 << hour) - 1);
        if hours == 0 {
            return None;
        }
        Some(hours.ilog2() * 3600 + self.last_time % 3600)
    }
}
