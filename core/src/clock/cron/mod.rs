//! A cron clock, compiled to sets of bits. Whether the minute or the hour begins with a star is kept beside them: it
//! decides what the clock does at a clock change.

mod calendar_search;
pub(crate) mod count;
mod cron_item;
mod days;
mod dialect;
mod display;
pub(crate) mod field;
pub(crate) mod parse;
mod years;

use days::Days;
use years::Years;

/// A cron clock. Two texts that mean the same are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u32,
    /// Bits 1–12.
    pub(crate) months: u16,
    pub(crate) days: Days,
    /// `None` = every year.
    pub(crate) years: Option<Years>,
    pub(crate) minute_star: bool,
    pub(crate) hour_star: bool,
    /// No day is left out: the calendar does not have to be asked.
    pub(crate) every_day: bool,
    /// The first and the last matching second of a day.
    pub(crate) first_time: u32,
    pub(crate) last_time: u32,
}

/// What the fields say, before the derived parts are added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sets {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u32,
    pub months: u16,
    pub days: Days,
    pub years: Option<Years>,
    pub minute_star: bool,
    pub hour_star: bool,
}

impl Cron {
    /// The clock of these sets; the sets of seconds, minutes, hours and months must not be empty.
    pub(crate) fn new(sets: Sets) -> Cron {
        let Sets { seconds, minutes, hours, months, days, years, minute_star, hour_star } = sets;
        let first = hours.trailing_zeros() * 3600 + minutes.trailing_zeros() * 60 + seconds.trailing_zeros();
        let last = hours.checked_ilog2().unwrap_or(0) * 3600
            + minutes.checked_ilog2().unwrap_or(0) * 60
            + seconds.checked_ilog2().unwrap_or(0);
        let every_day = years.is_none() && months == 0x1ffe && days.is_every_day();
        Cron {
            seconds,
            minutes,
            hours,
            months,
            days,
            years,
            minute_star,
            hour_star,
            every_day,
            first_time: first,
            last_time: last,
        }
    }

    /// True when the clock follows the wall clock through every change (docs/reference/clocks.md, rule 6): its minute or its hour
    /// field begins with a star. Otherwise it is fixed.
    #[must_use]
    pub const fn is_wild(&self) -> bool {
        self.minute_star || self.hour_star
    }
}
