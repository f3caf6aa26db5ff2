//! Instants as a person in the page's zone reads them.

use std::fmt;

use crate::clock::zone::zone_cache::ZoneCache;
use crate::clock::zone::Zone;
use crate::time::civil::{civil_from_days, weekday, SECONDS_PER_DAY};
use crate::time::Instant;

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The wall clock of the page's zone.
pub(super) struct Wall<'a> {
    pub zone: ZoneCache<'a, &'a dyn Zone>,
    /// The year that goes without saying.
    this_year: i64,
}

impl<'a> Wall<'a> {
    pub fn new(zone: &'a &'a dyn Zone, now: Instant) -> Self {
        let zone = ZoneCache::new(zone);
        let this_year = Reading::new(&zone, now).year;
        Wall { zone, this_year }
    }

    pub fn reading(&self, at: Instant) -> Reading {
        Reading::new(&self.zone, at)
    }

    /// `Mon 23 Nov 09:00`, with the year where it is another, and with what there is of seconds.
    pub fn moment(&self, at: Instant) -> Moment {
        let reading = self.reading(at);
        Moment { with_year: reading.year != self.this_year, reading }
    }

    /// A time to come: `09:00` today, `Tue 09:00` within a week, `3 Dec` after it.
    pub fn soon(&self, at: Instant, now: Instant) -> String {
        let (reading, today) = (self.reading(at), self.reading(now));
        match reading.days - today.days {
            0 => reading.whole().time().to_string(),
            1..=6 => format!("{} {}", reading.weekday(), reading.whole().time()),
            _ if reading.year == self.this_year => format!("{} {}", reading.day, reading.month_name()),
            _ => format!("{} {} {}", reading.day, reading.month_name(), reading.year),
        }
    }
}

/// What the wall clock shows at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub year: i64,
    /// 1–12.
    pub month: u32,
    /// 1–31.
    pub day: u32,
    days: i64,
    second_of_day: i64,
    micros: i64,
    offset: i64,
}

impl Reading {
    fn new(zone: &ZoneCache<'_, &dyn Zone>, at: Instant) -> Reading {
        let second = at.unix_seconds();
        let offset = zone.at(second).offset;
        let local = second + offset;
        let days = local.div_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let second_of_day = local.rem_euclid(SECONDS_PER_DAY);
        Reading { year, month, day, days, second_of_day, micros: at.subsecond_micros(), offset }
    }

    /// Seconds since 1970-01-01 00:00 on this wall clock.
    pub const fn seconds(&self) -> i64 {
        self.days * SECONDS_PER_DAY + self.second_of_day
    }

    /// `Mon 23 Nov`.
    pub fn date(&self) -> String {
        format!("{} {} {}", self.weekday(), self.day, self.month_name())
    }

    fn weekday(&self) -> &'static str {
        WEEKDAYS[weekday(self.days) as usize % 7]
    }

    pub fn month_name(&self) -> &'static str {
        MONTHS[(self.month as usize).saturating_sub(1) % 12]
    }

    /// The same without what there is of a second.
    fn whole(&self) -> Reading {
        Reading { micros: 0, ..*self }
    }

    /// `09:00`, or with what there is of seconds: `09:00:30.5`.
    pub fn time(&self) -> Time {
        Time(*self)
    }

    /// `09:00`, whatever the second.
    pub fn time_of_minute(&self) -> Time {
        Time(Reading { second_of_day: self.second_of_day / 60 * 60, micros: 0, ..*self })
    }

    /// `2026-11-23T09:00+01:00`, as ISO 8601 and PostgreSQL read it, with what there is of seconds.
    pub fn iso(&self) -> Iso {
        Iso(*self)
    }

    /// `UTC+1`, `UTC-03:30`, `UTC`.
    pub fn offset(&self) -> String {
        let minutes = self.offset.abs() / 60;
        let sign = if self.offset < 0 { '-' } else { '+' };
        match (minutes / 60, minutes % 60) {
            (0, 0) => "UTC".to_owned(),
            (hours, 0) => format!("UTC{sign}{hours}"),
            (hours, minutes) => format!("UTC{sign}{hours:02}:{minutes:02}"),
        }
    }
}

pub(super) struct Time(Reading);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0.second_of_day;
        write!(f, "{:02}:{:02}", second / 3_600, second / 60 % 60)?;
        if second % 60 != 0 || self.0.micros != 0 {
            write!(f, ":{:02}", second % 60)?;
        }
        if self.0.micros != 0 {
            write!(f, ".{}", format!("{:06}", self.0.micros).trim_end_matches('0'))?;
        }
        Ok(())
    }
}

pub(super) struct Iso(Reading);

impl fmt::Display for Iso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { year, month, day, offset, .. } = self.0;
        write!(f, "{year:04}-{month:02}-{day:02}T{}", self.0.time())?;
        if offset == 0 {
            return f.write_str("Z");
        }
        let sign = if offset < 0 { '-' } else { '+' };
        let seconds = offset.abs();
        write!(f, "{sign}{:02}:{:02}", seconds / 3_600, seconds / 60 % 60)?;
        // Local mean times of the nineteenth century.
        if seconds % 60 != 0 {
            write!(f, ":{:02}", seconds % 60)?;
        }
        Ok(())
    }
}

/// A day and a time for people.
pub(super) struct Moment {
    reading: Reading,
    with_year: bool,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reading.date())?;
        if self.with_year {
            write!(f, " {}", self.reading.year)?;
        }
        // Nobody reads microseconds; `data-plan` has them.
        write!(f, " {}", self.reading.whole().time())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::zone::{FixedOffset, Utc};

    fn reads(seconds: i64, micros: i64, zone: &dyn Zone) -> (String, String, String) {
        let at = Instant::from_unix_seconds(seconds).and_then(|at| at.checked_add_micros(micros));
        let at = at.unwrap_or(Instant::MIN);
        let now = Instant::from_unix_seconds(1_795_422_000).unwrap_or(Instant::MIN);
        let wall = Wall::new(&zone, now);
        (wall.reading(at).iso().to_string(), wall.moment(at).to_string(), wall.reading(at).offset())
    }

    #[test]
    fn a_moment_is_read_in_the_zone() {
        let owned = |iso: &str, moment: &str, offset: &str| (iso.to_owned(), moment.to_owned(), offset.to_owned());
        let nine = 1_795_424_400;
        assert_eq!(reads(nine, 0, &Utc), owned("2026-11-23T09:00Z", "Mon 23 Nov 09:00", "UTC"));
        let berlin = FixedOffset(3_600);
        assert_eq!(reads(nine, 0, &berlin), owned("2026-11-23T10:00+01:00", "Mon 23 Nov 10:00", "UTC+1"));
        let west = FixedOffset(-12_600);
        assert_eq!(reads(nine + 5, 0, &west), owned("2026-11-23T05:30:05-03:30", "Mon 23 Nov 05:30:05", "UTC-03:30"));
        let fraction = reads(nine, 250_000, &Utc);
        assert_eq!(fraction, owned("2026-11-23T09:00:00.25Z", "Mon 23 Nov 09:00", "UTC"));
        assert_eq!(reads(0, 0, &Utc), owned("1970-01-01T00:00Z", "Thu 1 Jan 1970 00:00", "UTC"));
        // Nor has what comes next.
        let at = |second: i64| Instant::from_unix_seconds(second).and_then(|at| at.checked_add_micros(250_000));
        let (now, next) = (at(nine).unwrap_or(Instant::MIN), at(nine + 5).unwrap_or(Instant::MIN));
        assert_eq!(Wall::new(&(&Utc as &dyn Zone), now).soon(next, now), "09:00:05");
        let mean_time = FixedOffset(3_208);
        assert_eq!(reads(0, 0, &mean_time).0, "1970-01-01T00:53:28+00:53:28");
    }
}
