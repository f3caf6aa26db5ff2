//! Intervals in words, in SQL-standard numbers and as `hh:mm:ss`: what PostgreSQL's `interval` input accepts, read as
//! it reads it (from right to left, so that a unit is known before its number), whatever IntervalStyle is set.

use super::interval::{Interval, IntervalFault, IntervalSum, MICROS_PER_DAY};
use super::interval_iso;

/// PostgreSQL's limits on a text it will take apart.
const MAX_TOKENS: usize = 25;

/// A token, as PostgreSQL cuts a date-time text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// `2:03`, `2:03:04.5`.
    Time(&'a str),
    /// `5`, `1.5`, `.5`.
    Number(&'a str),
    /// `1-2`.
    Date(&'a str),
    /// `+5`, `-1.5`, `+2:03`: the sign, then the rest without blanks between.
    Signed(bool, &'a str),
    /// A word in lower case.
    Word(&'a str),
}

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    /// Years, with how many of them.
    Years(i64),
}

/// Reads any interval that PostgreSQL does; `lower` is the same text in ASCII lower case.
pub(crate) fn parse(text: &str, lower: &str) -> Result<Interval, IntervalFault> {
    let worded = tokens(lower).and_then(|tokens| decode(&tokens));
    match worded {
        Err(IntervalFault::BadFormat) => interval_iso::parse(text.trim_matches([' ', '\t'])),
        Ok(_) | Err(IntervalFault::Overflow | IntervalFault::NoUnit) => worded,
    }
}

fn tokens(lower: &str) -> Result<Vec<Token<'_>>, IntervalFault> {
    let bytes = lower.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    let run =
        |from: usize, accept: &dyn Fn(u8) -> bool| from + bytes[from..].iter().take_while(|&&b| accept(b)).count();
    let digit = |b: u8| b.is_ascii_digit();
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b' ' | b'\t' => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                at = run(at, &digit);
                match bytes.get(at) {
                    Some(b':') => {
                        at = run(at, &|b| digit(b) || b == b':' || b == b'.');
                        out.push(Token::Time(&lower[start..at]));
                    }
                    Some(&delimiter @ (b'-' | b'/' | b'.')) => {
                        at += 1;
                        let mut is_date = delimiter != b'.';
                        if bytes.get(at).is_some_and(u8::is_ascii_digit) {
                            at = run(at, &digit);
                            if bytes.get(at) == Some(&delimiter) {
                                is_date = true;
                                at = run(at, &|b| digit(b) || b == delimiter);
                            }
                        } else {
                            is_date = true;
                            at = run(at, &|b| b.is_ascii_alphanumeric() || b == delimiter);
                        }
                        let token = &lower[start..at];
                        out.push(if is_date { Token::Date(token) } else { Token::Number(token) });
                    }
                    Some(_) | None => out.push(Token::Number(&lower[start..at])),
                }
            }
            b'.' => {
                at = run(at + 1, &digit);
                out.push(Token::Number(&lower[start..at]));
            }
            b'a'..=b'z' => {
                at = run(at, &|b| b.is_ascii_lowercase());
                let word = &lower[start..at];
                // PostgreSQL takes a word with these behind it for a date, which no interval has; but before
                // digits it spares words that are also its words of dates, so that `1d12h30m` is an interval.
                let is_date = match bytes.get(at) {
                    Some(b'-' | b'/' | b'.') => true,
                    Some(b'+' | b'0'..=b'9') => !matches!(word, "d" | "h" | "m" | "s" | "y" | "mon" | "dec"),
                    Some(_) | None => false,
                };
                if is_date {
                    return Err(IntervalFault::BadFormat);
                }
                out.push(Token::Word(word));
            }
            sign @ (b'+' | b'-') => {
                let number = run(at + 1, &|b| b == b' ' || b == b'\t');
                at = run(number, &|b| digit(b) || matches!(b, b':' | b'.' | b'-'));
                if !bytes.get(number).is_some_and(u8::is_ascii_digit) {
                    return Err(IntervalFault::BadFormat);
                }
                out.push(Token::Signed(sign == b'-', &lower[number..at]));
            }
            // Cron's own signs are no punctuation here: `every 5 * * * *` is not five seconds.
            b'*' | b'?' => return Err(IntervalFault::BadFormat),
            other if other.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return Err(IntervalFault::BadFormat),
        }
        if out.len() > MAX_TOKENS {
            return Err(IntervalFault::BadFormat);
        }
    }
    Ok(out)
}

/// The parts of an interval that may be given only once.
mod seen {
    pub const MICRO: u16 = 1;
    pub const MILLI: u16 = 2;
    pub const SECOND: u16 = 4;
    pub const ALL_SECONDS: u16 = MICRO | MILLI | SECOND;
    pub const MINUTE: u16 = 8;
    pub const HOUR: u16 = 16;
    pub const TIME: u16 = ALL_SECONDS | MINUTE | HOUR;
    pub const DAY: u16 = 32;
    pub const WEEK: u16 = 64;
    pub const MONTH: u16 = 128;
    pub const YEAR: u16 = 256;
    pub const DECADE: u16 = 512;
    pub const CENTURY: u16 = 1024;
    pub const MILLENNIUM: u16 = 2048;
}

fn decode(tokens: &[Token<'_>]) -> Result<Interval, IntervalFault> {
    let mut sum = IntervalSum::default();
    let mut unit = None;
    let mut ago = false;
    let mut done = 0u16;
    for &token in tokens.iter().rev() {
        let mask = match token {
            Token::Time(text) => {
                sum.micros = time(text)?;
                unit = Some(Unit::Day);
                seen::TIME
            }
            Token::Signed(negative, text) if text.contains(':') && time(text).is_ok() => {
                sum.micros = if negative { -time(text)? } else { time(text)? };
                unit = Some(Unit::Day);
                seen::TIME
            }
            Token::Signed(negative, text) => number(&mut sum, &mut unit, negative, text)?,
            Token::Number(text) | Token::Date(text) => number(&mut sum, &mut unit, false, text)?,
            Token::Word("ago") => {
                (ago, unit) = (true, None);
                0
            }
            Token::Word(word) => {
                unit = Some(word_unit(word).ok_or(IntervalFault::BadFormat)?);
                0
            }
        };
        if mask & done != 0 {
            return Err(IntervalFault::BadFormat);
        }
        done |= mask;
    }
    if done == 0 {
        return Err(IntervalFault::BadFormat);
    }
    if ago { sum.negated()? } else { sum }.total()
}

/// The day, or a longer unit, that has no number and what may be a time of day behind it, if the text is that: `day 05:15`.
pub(crate) fn unit_before_time(lower: &str) -> Option<&str> {
    let [Token::Word(word), Token::Time(text)] = tokens(lower).ok()?[..] else { return None };
    if text.contains('.') || time(text).ok()? >= MICROS_PER_DAY {
        return None;
    }
    match word_unit(word)? {
        Unit::Day | Unit::Week | Unit::Month | Unit::Years(_) => Some(word),
        Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour => None,
    }
}

/// Adds one number with the unit that stands to its right.
fn number(sum: &mut IntervalSum, unit: &mut Option<Unit>, negative: bool, text: &str) -> Result<u16, IntervalFault> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits);
    let magnitude: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| IntervalFault::Overflow)? };
    let count = if negative { -magnitude } else { magnitude };
    let mut fraction = 0.0;
    if let Some(months) = rest.strip_prefix('-') {
        // SQL-standard years-months.
        if !months.bytes().all(|b| b.is_ascii_digit()) {
            return Err(IntervalFault::BadFormat);
        }
        let months: i64 = if months.is_empty() { 0 } else { months.parse().map_err(|_| IntervalFault::Overflow)? };
        if months >= 12 {
            return Err(IntervalFault::Overflow);
        }
        *unit = Some(Unit::Month);
        let months = count.checked_mul(12).and_then(|n| n.checked_add(if negative { -months } else { months }));
        return match months {
            Some(months) => sum.add_months(months, 0.0).map(|()| seen::MONTH),
            None => Err(IntervalFault::Overflow),
        };
    }
    if rest.starts_with('.') {
        let value = fraction_of(rest)?;
        fraction = if negative { -value } else { value };
    } else if !rest.is_empty() {
        return Err(IntervalFault::BadFormat);
    }
    match unit.ok_or(IntervalFault::NoUnit)? {
        Unit::Microsecond => sum.add_micros(count, fraction, 1).map(|()| seen::MICRO),
        Unit::Millisecond => sum.add_micros(count, fraction, 1_000).map(|()| seen::MILLI),
        Unit::Second => {
            let mask = if fraction == 0.0 { seen::SECOND } else { seen::ALL_SECONDS };
            sum.add_micros(count, fraction, 1_000_000).map(|()| mask)
        }
        Unit::Minute => sum.add_micros(count, fraction, 60_000_000).map(|()| seen::MINUTE),
        Unit::Hour => {
            *unit = Some(Unit::Day);
            sum.add_micros(count, fraction, 3_600_000_000).map(|()| seen::HOUR)
        }
        Unit::Day => sum.add_days(count, fraction, 1).map(|()| seen::DAY),
        Unit::Week => sum.add_days(count, fraction, 7).map(|()| seen::WEEK),
        Unit::Month => sum.add_months(count, fraction).map(|()| seen::MONTH),
        Unit::Years(years) => sum.add_years(count, fraction, years).map(|()| match years {
            1 => seen::YEAR,
            10 => seen::DECADE,
            100 => seen::CENTURY,
            _ => seen::MILLENNIUM,
        }),
    }
}

/// A fraction that begins with its point; a point alone is 0.
fn fraction_of(text: &str) -> Result<f64, IntervalFault> {
    let digits = text.get(1..).unwrap_or_default();
    if digits.is_empty() {
        return Ok(0.0);
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IntervalFault::BadFormat);
    }
    text.parse().map_err(|_| IntervalFault::BadFormat)
}

/// `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff` or `mm:ss.fff`, in microseconds.
fn time(text: &str) -> Result<i64, IntervalFault> {
    let mut parts = text.splitn(3, ':');
    let whole = |part: &str| -> Result<i64, IntervalFault> {
        if !part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(IntervalFault::BadFormat);
        }
        if part.is_empty() {
            return Ok(0);
        }
        part.parse().map_err(|_| IntervalFault::Overflow)
    };
    let split = |part: &str| -> Result<(i64, f64), IntervalFault> {
        match part.find('.') {
            Some(at) => Ok((whole(&part[..at])?, fraction_of(&part[at..])?)),
            None => Ok((whole(part)?, 0.0)),
        }
    };
    let first = whole(parts.next().unwrap_or_default())?;
    let second = parts.next().ok_or(IntervalFault::BadFormat)?;
    let (hour, minute, second, fraction) = match parts.next() {
        Some(third) => {
            let (second_of, fraction) = split(third)?;
            (first, whole(second)?, second_of, fraction)
        }
        None if second.contains('.') => {
            let (seconds, fraction) = split(second)?;
            (0, first, seconds, fraction)
        }
        None => (first, whole(second)?, 0, 0.0),
    };
    let micros = (fraction * 1_000_000.0).round_ties_even() as i64;
    if minute > 59 || second > 60 {
        return Err(IntervalFault::Overflow);
    }
    let rest = minute * 60_000_000 + second * 1_000_000 + micros;
    hour.checked_mul(3_600_000_000).and_then(|hours| hours.checked_add(rest)).ok_or(IntervalFault::Overflow)
}

/// PostgreSQL's table of units; it compares no more than ten characters.
fn word_unit(word: &str) -> Option<Unit> {
    let key = word.get(..10).unwrap_or(word);
    Some(match key {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Years(1),
        "dec" | "decs" | "decade" | "decades" => Unit::Years(10),
        "c" | "cent" | "century" | "centuries" => Unit::Years(100),
        "mil" | "mils" | "millennia" | "millennium" => Unit::Years(1000),
        _ => return None,
    })
}
