//! The date-times of `at` and `from`: ISO 8601, absolute, so that a clock's text means the same whenever it is read.

use std::fmt;

use crate::time::civil::{civil_from_days, days_from_civil, days_in_month, SECONDS_PER_DAY};
use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::error::{ClockError, ErrorKind, Hint, Source};

/// A date-time of a clock's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateTime {
    /// With an offset: an instant.
    Fixed(Instant),
    /// Without: a reading of the schedule's own wall clock, in microseconds since 2000-01-01 00:00.
    Local(i64),
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DateTime::Fixed(instant) => write!(f, "{}+00", LocalDisplay(instant.as_micros())),
            DateTime::Local(micros) => write!(f, "{}", LocalDisplay(*micros)),
        }
    }
}

/// A reading in microseconds since 2000-01-01 00:00, as `2027-01-01 09:00:00.5`.
#[derive(Clone, Copy, Debug)]
pub struct LocalDisplay(pub i64);

impl fmt::Display for LocalDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS;
        let micros = self.0.rem_euclid(MICROS_PER_SECOND);
        let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        let second = seconds.rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
        if micros != 0 {
            let fraction = format!("{micros:06}");
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        Ok(())
    }
}

/// The first reading that a text may name: 0001-01-01 00:00.
const FIRST: i64 = (days_from_civil(1, 1, 1) * SECONDS_PER_DAY - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND;

/// What is wrong, before it is put into words.
enum Fault {
    Syntax(&'static str),
    Field(&'static str),
    Offset,
}

/// Reads one date-time; `piece` is a slice of the source without blanks around it.
pub(crate) fn parse(source: &Source<'_>, piece: &str) -> Result<DateTime, ClockError> {
    read(piece).map_err(|fault| {
        let (kind, reason, rule) = match fault {
            Fault::Syntax(reason) => (
                ErrorKind::DateTimeSyntax,
                reason,
                "a date-time is ISO 8601, with an offset or in the schedule's own zone",
            ),
            Fault::Field(reason) => {
                (ErrorKind::FieldOverflow, reason, "a date-time is one that exists, in the years 0001 to 294276")
            }
            Fault::Offset => (
                ErrorKind::ZoneDisplacement,
                "the offset from UTC is out of range",
                "an offset is between -15:59 and +15:59",
            ),
        };
        let proposal = repaired(piece).map(|text| source.repaired(piece, &text));
        let hint = Hint::new(proposal, rule, source.repaired(piece, "2027-01-01 09:00+00"));
        source.error(kind, "date-time", piece, reason, hint)
    })
}

/// The text that a common other way of writing a date was meant to be.
fn repaired(piece: &str) -> Option<String> {
    let mut candidates = vec![piece.replace('/', "-")];
    for suffix in [" utc", " gmt", "utc", "gmt"] {
        if let Some(rest) = piece.strip_suffix(suffix) {
            candidates.push(format!("{rest}Z"));
        }
    }
    if let Some((date, time)) = piece.split_once([' ', 't']) {
        let parts: Vec<&str> = date.split('-').collect();
        if let [year, month, day] = parts[..] {
            candidates.push(format!("{year}-{month:0>2}-{day:0>2} {time:0>5}"));
        }
    }
    candidates.into_iter().find(|candidate| candidate != piece && read(&candidate.to_ascii_lowercase()).is_ok())
}

/// Reads digits off the front of a text.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        digits.parse().ok()
    }

    fn take(&mut self, c: char) -> bool {
        match self.0.strip_prefix(c) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn count_digits(&self) -> usize {
        self.0.bytes().take_while(u8::is_ascii_digit).count()
    }

    fn blanks(&mut self) -> bool {
        let rest = self.0.trim_start_matches([' ', '\t']);
        let any = rest.len() < self.0.len();
        self.0 = rest;
        any
    }
}

fn read(lower: &str) -> Result<DateTime, Fault> {
    const RELATIVE: [&str; 8] = ["now", "today", "tomorrow", "yesterday", "infinity", "-infinity", "epoch", "allballs"];
    if lower.is_empty() {
        return Err(Fault::Syntax("no date-time"));
    }
    if RELATIVE.iter().any(|word| lower == *word || lower.strip_prefix(word).is_some_and(|r| r.starts_with(' '))) {
        return Err(Fault::Syntax("the word is not a date-time that always means the same"));
    }
    let mut text = Cursor(lower);
    let days = date(&mut text)?;
    let has_time = text.take('t') || (text.blanks() && text.count_digits() > 0);
    let mut micros = if has_time { time(&mut text)? } else { 0 };
    let seconds = days * SECONDS_PER_DAY - UNIX_TO_POSTGRES_SECONDS;
    const OUT_OF_RANGE: Fault = Fault::Field("out of the range of times");
    micros = seconds.checked_mul(MICROS_PER_SECOND).and_then(|s| s.checked_add(micros)).ok_or(OUT_OF_RANGE)?;
    let offset = offset(&mut text)?;
    if !text.0.is_empty() {
        return Err(Fault::Syntax("characters after the date-time"));
    }
    let instant = micros
        .checked_sub(offset.unwrap_or(0) * MICROS_PER_SECOND)
        .and_then(Instant::from_micros)
        .filter(|instant| instant.as_micros() >= FIRST)
        .ok_or(OUT_OF_RANGE)?;
    Ok(match offset {
        Some(_) => DateTime::Fixed(instant),
        None => DateTime::Local(micros),
    })
}

/// `yyyy-mm-dd` or `yyyymmdd`, as days since 1970-01-01.
fn date(text: &mut Cursor<'_>) -> Result<i64, Fault> {
    const NO_DATE: Fault = Fault::Syntax("not an ISO 8601 date-time");
    let plus = text.take('+');
    let basic = !plus && text.count_digits() == 8 && !text.0[8..].starts_with('-');
    let year = if basic { text.digits(4, 4) } else { text.digits(4, 6) }.ok_or(NO_DATE)?;
    if !basic && !text.take('-') {
        return Err(NO_DATE);
    }
    let month = text.digits(2, 2).ok_or(NO_DATE)?;
    if !basic && !text.take('-') {
        return Err(NO_DATE);
    }
    let day = text.digits(2, 2).ok_or(NO_DATE)?;
    if year < 1 {
        return Err(Fault::Field("there is no year 0"));
    }
    if !(1..=12).contains(&month) {
        return Err(Fault::Field("there is no such month"));
    }
    let (month, day) = (month as u32, day as u32);
    if day < 1 || day > days_in_month(year, month) {
        return Err(Fault::Field("there is no such day"));
    }
    Ok(days_from_civil(year, month, day))
}

/// `hh`, `hh:mm`, `hh:mm:ss` with a fraction, or the same without colons, as microseconds.
fn time(text: &mut Cursor<'_>) -> Result<i64, Fault> {
    const NO_TIME: Fault = Fault::Syntax("not an ISO 8601 time of day");
    let basic = text.count_digits() > 2;
    let more = |text: &mut Cursor<'_>| -> Result<Option<i64>, Fault> {
        let present = if basic { text.count_digits() > 0 } else { text.take(':') };
        if present {
            text.digits(2, 2).ok_or(NO_TIME).map(Some)
        } else {
            Ok(None)
        }
    };
    let hour = text.digits(2, 2).ok_or(NO_TIME)?;
    let minute = more(text)?;
    let second = if minute.is_some() { more(text)? } else { None };
    let mut micros = 0;
    if text.take('.') || text.take(',') {
        if second.is_none() {
            return Err(Fault::Syntax("a fraction belongs to the seconds"));
        }
        let digits = text.count_digits();
        micros = text.digits(1, 6).ok_or(NO_TIME)? * 10_i64.pow(6 - digits.min(6) as u32);
        if digits > 6 {
            micros += i64::from(text.0.as_bytes()[0] >= b'5');
            text.0 = text.0.trim_start_matches(|c: char| c.is_ascii_digit());
        }
    }
    let (minute, second) = (minute.unwrap_or(0), second.unwrap_or(0));
    let whole = hour * 3600 + minute * 60 + second;
    if hour > 24 || minute > 59 || second > 60 || (hour == 24 && (whole > SECONDS_PER_DAY || micros > 0)) {
        return Err(Fault::Field("there is no such time of day"));
    }
    Ok(whole * MICROS_PER_SECOND + micros)
}

/// `Z`, `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss`, in seconds east.
fn offset(text: &mut Cursor<'_>) -> Result<Option<i64>, Fault> {
    const NO_OFFSET: Fault = Fault::Syntax("not an offset from UTC");
    text.blanks();
    if text.take('z') {
        return Ok(Some(0));
    }
    let sign = if text.take('+') {
        1
    } else if text.take('-') {
        -1
    } else {
        return Ok(None);
    };
    let hours = text.digits(2, 2).ok_or(NO_OFFSET)?;
    let (mut minutes, mut seconds) = (0, 0);
    if text.take(':') {
        minutes = text.digits(2, 2).ok_or(NO_OFFSET)?;
        if text.take(':') {
            seconds = text.digits(2, 2).ok_or(NO_OFFSET)?;
        }
    } else if text.count_digits() > 0 {
        minutes = text.digits(2, 2).ok_or(NO_OFFSET)?;
    }
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(Fault::Offset);
    }
    Ok(Some(sign * (hours * 3600 + minutes * 60 + seconds)))
}
