//! ISO 8601 durations as PostgreSQL reads them: `P1Y2M3DT4H5M6S`, and the alternative format `P0001-02-03T04:05:06`
//! (also without the separators).

use super::interval::{Interval, IntervalFault, IntervalSum, MICROS_PER_DAY};

/// PostgreSQL refuses larger numbers, so that every accepted one has an exact whole part.
const LARGEST: f64 = 1.0e15;

/// Reads a duration that begins with `P`.
pub(crate) fn parse(text: &str) -> Result<Interval, IntervalFault> {
    let mut rest = match text.strip_prefix('P') {
        Some(rest) if !rest.is_empty() => rest,
        Some(_) | None => return Err(IntervalFault::BadFormat),
    };
    let mut sum = IntervalSum::default();
    let mut in_date = true;
    let mut has_field = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (in_date, has_field, rest) = (false, false, after);
            continue;
        }
        let start = rest;
        let (whole, fraction) = number(&mut rest)?;
        let unit = rest.bytes().next();
        rest = rest.get(1..).unwrap_or_default();
        if in_date {
            match unit {
                Some(b'Y') => sum.add_years(whole, fraction, 1)?,
                Some(b'M') => sum.add_months(whole, fraction)?,
                Some(b'W') => sum.add_days(whole, fraction, 7)?,
                Some(b'D') => sum.add_days(whole, fraction, 1)?,
                Some(b'T') | None if digits(start) == 8 && !has_field => {
                    sum.add_years(whole / 10_000, 0.0, 1)?;
                    sum.add_months(whole / 100 % 100, 0.0)?;
                    sum.add_days(whole % 100, 0.0, 1)?;
                    sum.add_fraction_of_micros(fraction, MICROS_PER_DAY)?;
                    (in_date, has_field) = (false, false);
                    continue;
                }
                Some(b'T' | b'-') | None => {
                    if has_field {
                        return Err(IntervalFault::BadFormat);
                    }
                    sum.add_years(whole, fraction, 1)?;
                    if unit == Some(b'-') {
                        date_rest(&mut sum, &mut rest)?;
                    }
                    (in_date, has_field) = (false, false);
                    continue;
                }
                Some(_) => return Err(IntervalFault::BadFormat),
            }
        } else {
            match unit {
                Some(b'H') => sum.add_micros(whole, fraction, 3_600_000_000)?,
                Some(b'M') => sum.add_micros(whole, fraction, 60_000_000)?,
                Some(b'S') => sum.add_micros(whole, fraction, 1_000_000)?,
                None if digits(start) == 6 && !has_field => {
                    sum.add_micros(whole / 10_000, 0.0, 3_600_000_000)?;
                    sum.add_micros(whole / 100 % 100, 0.0, 60_000_000)?;
                    sum.add_micros(whole % 100, 0.0, 1_000_000)?;
                    sum.add_fraction_of_micros(fraction, 1)?;
                    return sum.total();
                }
                Some(b':') | None => {
                    if has_field {
                        return Err(IntervalFault::BadFormat);
                    }
                    sum.add_micros(whole, fraction, 3_600_000_000)?;
                    if unit.is_some() {
                        time_rest(&mut sum, &mut rest)?;
                    }
                    return sum.total();
                }
                Some(_) => return Err(IntervalFault::BadFormat),
            }
        }
        has_field = true;
    }
    sum.total()
}

/// After `yyyy-`: `mm` or `mm-dd`, to the end or to a `T`, which is taken.
fn date_rest(sum: &mut IntervalSum, rest: &mut &str) -> Result<(), IntervalFault> {
    let (months, fraction) = number(rest)?;
    sum.add_months(months, fraction)?;
    if let Some(after) = rest.strip_prefix('-') {
        *rest = after;
        let (days, fraction) = number(rest)?;
        sum.add_days(days, fraction, 1)?;
    }
    match rest.strip_prefix('T') {
        Some(after) => *rest = after,
        None if rest.is_empty() => {}
        None => return Err(IntervalFault::BadFormat),
    }
    Ok(())
}

/// After `hh:`: `mm` or `mm:ss`, to the end.
fn time_rest(sum: &mut IntervalSum, rest: &mut &str) -> Result<(), IntervalFault> {
    let (minutes, fraction) = number(rest)?;
    sum.add_micros(minutes, fraction, 60_000_000)?;
    if let Some(after) = rest.strip_prefix(':') {
        *rest = after;
        let (seconds, fraction) = number(rest)?;
        sum.add_micros(seconds, fraction, 1_000_000)?;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(IntervalFault::BadFormat)
    }
}

/// How many digits a text begins with, after a sign.
fn digits(text: &str) -> usize {
    text.strip_prefix('-').unwrap_or(text).bytes().take_while(u8::is_ascii_digit).count()
}

/// The number at the front, exponents included, cut into its whole part and its fraction.
fn number(rest: &mut &str) -> Result<(i64, f64), IntervalFault> {
    let text = *rest;
    let bytes = text.as_bytes();
    let digits_from = |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits_from(end);
    end += whole;
    let mut seen = whole;
    if bytes.get(end) == Some(&b'.') {
        let after = digits_from(end + 1);
        seen += after;
        end += 1 + after;
    }
    if seen == 0 {
        return Err(IntervalFault::BadFormat);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits_from(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let (taken, after) = text.split_at(end);
    let value: f64 = taken.parse().map_err(|_| IntervalFault::BadFormat)?;
    if !(-LARGEST..=LARGEST).contains(&value) {
        return Err(IntervalFault::Overflow);
    }
    *rest = after;
    let whole = value.trunc();
    Ok((whole as i64, value - whole))
}
