//! PostgreSQL's interval as a value: months, days and microseconds kept apart, because none is a number of another.

use std::fmt;

/// A positive interval: no part is negative and one is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Months, years included.
    pub months: i32,
    /// Days, weeks included.
    pub days: i32,
    /// Microseconds of elapsed time.
    pub micros: i64,
}

impl Interval {
    /// True when the interval is elapsed time only, so that no zone enters.
    #[must_use]
    pub const fn is_elapsed(&self) -> bool {
        self.months == 0 && self.days == 0
    }

    /// True when no part is negative and one is not zero.
    pub(crate) fn is_positive(&self) -> bool {
        let Interval { months, days, micros } = *self;
        months >= 0 && days >= 0 && micros >= 0 && (months > 0 || days > 0 || micros > 0)
    }

    /// The same interval with hours, minutes and seconds apart, as it is easily read.
    pub(crate) fn in_units(&self) -> String {
        let (hours, minutes) = (self.micros / 3_600_000_000, self.micros / 60_000_000 % 60);
        let parts = [(self.months, self.days, 0), (0, 0, hours * 3_600_000_000), (0, 0, minutes * 60_000_000)];
        let rest = (0, 0, self.micros % 60_000_000);
        let text = |(months, days, micros)| Interval { months, days, micros }.to_string();
        let parts: Vec<String> = parts.into_iter().chain([rest]).map(text).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }
}

impl fmt::Display for Interval {
    /// A text that PostgreSQL reads back exactly, whatever IntervalStyle says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(i64, &str); 5] = [
            (3_600_000_000, "hour"),
            (60_000_000, "minute"),
            (1_000_000, "second"),
            (1_000, "millisecond"),
            (1, "microsecond"),
        ];
        let micros = UNITS.iter().find(|(size, _)| self.micros % size == 0).unwrap_or(&UNITS[4]);
        let months = if self.months % 12 == 0 { (self.months / 12, "year") } else { (self.months, "month") };
        let parts =
            [(i64::from(months.0), months.1), (i64::from(self.days), "day"), (self.micros / micros.0, micros.1)];
        let mut separator = "";
        for (count, unit) in parts {
            if count != 0 {
                write!(f, "{separator}{count} {unit}{}", if count == 1 { "" } else { "s" })?;
                separator = " ";
            }
        }
        Ok(())
    }
}

/// Why a text is no interval, in PostgreSQL's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntervalFault {
    /// PostgreSQL: invalid input syntax for type interval.
    BadFormat,
    /// PostgreSQL: interval field value out of range, or interval out of range.
    Overflow,
    /// A number at the end that PostgreSQL would take for seconds.
    NoUnit,
}

/// An interval that is being added up, as PostgreSQL's `pg_itm_in`. Fractions cascade downwards exactly as there
/// (`src/backend/utils/adt/datetime.c` of PostgreSQL 15): of years to months, of months and weeks to days and time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IntervalSum {
    pub micros: i64,
    pub days: i32,
    pub months: i32,
    pub years: i32,
}

pub(crate) const MICROS_PER_DAY: i64 = 86_400_000_000;
const DAYS_PER_MONTH: i64 = 30;

impl IntervalSum {
    pub(crate) fn add_micros(&mut self, count: i64, fraction: f64, scale: i64) -> Result<(), IntervalFault> {
        let whole = count.checked_mul(scale).ok_or(IntervalFault::Overflow)?;
        self.micros = self.micros.checked_add(whole).ok_or(IntervalFault::Overflow)?;
        self.add_fraction_of_micros(fraction, scale)
    }

    pub(crate) fn add_fraction_of_micros(&mut self, fraction: f64, scale: i64) -> Result<(), IntervalFault> {
        if fraction == 0.0 {
            return Ok(());
        }
        let scaled = fraction * scale as f64;
        let mut whole = scaled as i64;
        let rest = scaled - whole as f64;
        if rest > 0.5 {
            whole += 1;
        } else if rest < -0.5 {
            whole -= 1;
        }
        self.micros = self.micros.checked_add(whole).ok_or(IntervalFault::Overflow)?;
        Ok(())
    }

    pub(crate) fn add_days(&mut self, count: i64, fraction: f64, scale: i64) -> Result<(), IntervalFault> {
        self.days = add_scaled(self.days, count, scale)?;
        if scale == 1 {
            return self.add_fraction_of_micros(fraction, MICROS_PER_DAY);
        }
        self.add_fraction_of_days(fraction, scale)
    }

    fn add_fraction_of_days(&mut self, fraction: f64, scale: i64) -> Result<(), IntervalFault> {
        if fraction == 0.0 {
            return Ok(());
        }
        let scaled = fraction * scale as f64;
        let whole = scaled as i32;
        self.days = self.days.checked_add(whole).ok_or(IntervalFault::Overflow)?;
        self.add_fraction_of_micros(scaled - f64::from(whole), MICROS_PER_DAY)
    }

    pub(crate) fn add_months(&mut self, count: i64, fraction: f64) -> Result<(), IntervalFault> {
        self.months = add_scaled(self.months, count, 1)?;
        self.add_fraction_of_days(fraction, DAYS_PER_MONTH)
    }

    pub(crate) fn add_years(&mut self, count: i64, fraction: f64, scale: i64) -> Result<(), IntervalFault> {
        self.years = add_scaled(self.years, count, scale)?;
        let months = (fraction * scale as f64 * 12.0).round_ties_even() as i32;
        self.months = self.months.checked_add(months).ok_or(IntervalFault::Overflow)?;
        Ok(())
    }

    /// `ago` turns every part round.
    pub(crate) fn negated(self) -> Result<IntervalSum, IntervalFault> {
        Ok(IntervalSum {
            micros: self.micros.checked_neg().ok_or(IntervalFault::Overflow)?,
            days: self.days.checked_neg().ok_or(IntervalFault::Overflow)?,
            months: self.months.checked_neg().ok_or(IntervalFault::Overflow)?,
            years: self.years.checked_neg().ok_or(IntervalFault::Overflow)?,
        })
    }

    /// The three parts; the signs are not judged here.
    pub(crate) fn total(self) -> Result<Interval, IntervalFault> {
        let months = i64::from(self.years) * 12 + i64::from(self.months);
        let months = i32::try_from(months).map_err(|_| IntervalFault::Overflow)?;
        Ok(Interval { months, days: self.days, micros: self.micros })
    }
}

fn add_scaled(sum: i32, count: i64, scale: i64) -> Result<i32, IntervalFault> {
    let count = i32::try_from(count).map_err(|_| IntervalFault::Overflow)?;
    let scaled = i32::try_from(i64::from(count) * scale).map_err(|_| IntervalFault::Overflow)?;
    sum.checked_add(scaled).ok_or(IntervalFault::Overflow)
}
