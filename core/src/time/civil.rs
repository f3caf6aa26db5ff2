//! Calendar arithmetic on plain integers, because chrono ends at year 262142 and Postgres at 294276.
//!
//! Days are counted from 1970-01-01 in the proleptic Gregorian calendar with a year 0, as Postgres does. The two
//! conversions are the published algorithms of Howard Hinnant, "chrono-compatible low-level date algorithms".

/// Seconds in a day that has no clock change.
pub const SECONDS_PER_DAY: i64 = 86_400;

/// The days from 1970-01-01 to this date; the day may be past the month's end.
#[must_use]
pub const fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let shifted = (month as i64 + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day as i64 - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month (1–12) and day (1–31) of a day counted from 1970-01-01.
#[must_use]
pub const fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097) as u32;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era as i64 + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// True for a year of 366 days.
#[must_use]
pub const fn is_leap_year(year: i64) -> bool {
    year & 3 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days the month (1–12) has.
#[must_use]
pub const fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap_year(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The day of the week of a day counted from 1970-01-01: 0 is Sunday.
#[must_use]
pub const fn weekday(days: i64) -> u32 {
    (days + 4).rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_converts_both_ways() {
        for days in days_from_civil(1899, 1, 1)..days_from_civil(2301, 1, 1) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
            assert!(day >= 1 && day <= days_in_month(year, month));
        }
    }

    #[test]
    fn the_ends_of_the_range_are_known() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2000, 1, 1), 10_957);
        assert_eq!(civil_from_days(days_from_civil(294_276, 12, 31)), (294_276, 12, 31));
        assert_eq!(civil_from_days(days_from_civil(-4_713, 11, 24)), (-4_713, 11, 24));
        assert_eq!(weekday(0), 4);
        assert_eq!(weekday(days_from_civil(2000, 2, 29)), 2);
    }
}
