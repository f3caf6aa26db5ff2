//! Which days of a month match: the two day fields and the star rule, as bit sets of one month at a time.
//!
//! A month is 31 bits, so `L`, `LW`, `15W`, `5L` and `5#2` cost a few operations each and no day is looked at singly.

use crate::time::civil;

/// The two day fields, compiled. In the sets of days bit d is day d; in those of weekdays bit 0 is Sunday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Days {
    /// Plain days of the month.
    pub plain: u32,
    /// `nW`: the weekday nearest to day n.
    pub nearest: u32,
    /// `L`.
    pub last: bool,
    /// `LW`.
    pub last_weekday: bool,
    /// Plain days of the week.
    pub week: u8,
    /// `dL`: the last d of the month.
    pub week_last: u8,
    /// `d#k`: index k − 1 holds the weekdays.
    pub week_nth: [u8; 5],
    /// The day-of-month text begins with a star.
    pub month_star: bool,
    /// The day-of-week text begins with a star.
    pub week_star: bool,
    /// A `+` stands before the day of the week and neither field begins with a star: a day must match both.
    pub both: bool,
}

/// The bits of days 1 to n.
const fn first_days(n: u32) -> u32 {
    ((1u64 << (n + 1)) - 2) as u32
}

impl Days {
    /// True when every day of every month matches.
    pub(crate) const fn is_every_day(&self) -> bool {
        let (month, week) = (self.plain == first_days(31), self.week == 0x7f);
        month && week || !self.needs_both() && (month || week)
    }

    /// True when a day must match both fields (docs/reference/clocks.md, rule 3).
    const fn needs_both(&self) -> bool {
        self.month_star || self.week_star || self.both
    }

    /// The matching days of a month of `length` days whose first is `first_weekday`.
    #[inline]
    pub(crate) fn in_month(&self, length: u32, first_weekday: u32) -> u32 {
        let all = first_days(length);
        let mut by_month = self.plain & all;
        if self.last {
            by_month |= 1 << length;
        }
        if self.last_weekday {
            by_month |= 1 << nearest_weekday(length, length, first_weekday);
        }
        let mut nearest = self.nearest & all;
        while nearest != 0 {
            by_month |= 1 << nearest_weekday(nearest.trailing_zeros(), length, first_weekday);
            nearest &= nearest - 1;
        }
        let mut by_week = spread(self.week, first_weekday) & all;
        if self.week_last != 0 {
            by_week |= spread(self.week_last, first_weekday) & all & !first_days(length - 7);
        }
        for (k, &days) in (0u32..).zip(&self.week_nth) {
            if days != 0 {
                by_week |= spread(days, first_weekday) & all & first_days(7 * k + 7) & !first_days(7 * k);
            }
        }
        if self.needs_both() {
            by_month & by_week
        } else {
            by_month | by_week
        }
    }

    /// The matching days of a month of the calendar.
    pub(crate) fn of(&self, year: i64, month: u32) -> u32 {
        let first = civil::weekday(civil::days_from_civil(year, month, 1));
        self.in_month(civil::days_in_month(year, month), first)
    }
}

/// The days (bits 1–35) that fall on these weekdays when day 1 is `first_weekday`.
#[inline]
const fn spread(weekdays: u8, first_weekday: u32) -> u32 {
    const WEEKS: u64 = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29;
    let twice = weekdays as u64 | (weekdays as u64) << 7;
    (((twice >> first_weekday) & 0x7f) * WEEKS) as u32
}

/// The Monday–Friday nearest to `day` within the month.
const fn nearest_weekday(day: u32, length: u32, first_weekday: u32) -> u32 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}
