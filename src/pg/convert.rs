//! Postgres values ↔ core values, with the checks that belong to the crossing: no infinity, no NULL, no empty or endless
//! name, no length of time that is zero, negative or too long.

use std::borrow::Cow;

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::pg_sys;
use pgrx::{IntoDatum, PgSqlErrorCode};
use scheduler_core::clock::{ClockError, DateTime, LONGEST_NEW_TEXT};
use scheduler_core::{Clock, Instant};

use crate::pg::error::{or_raise, raise, Failure, Outcome};

/// Names are at most this many bytes.
pub const MAX_NAME_BYTES: usize = 1000;
/// Queue names are shorter, so that `sched:<queue>` is a channel that LISTEN accepts.
pub const MAX_QUEUE_BYTES: usize = 57;

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Lengths of time are at most 1,000 years, so that no sum with a present time leaves Postgres' range.
const MAX_DURATION: i64 = 365_250 * MICROS_PER_DAY;

/// The database's clock, now: `clock_timestamp()`, which moves within a transaction.
pub fn now() -> Instant {
    // SAFETY: reads the system clock.
    let micros = unsafe { pg_sys::GetCurrentTimestamp() };
    Instant::from_micros(micros).unwrap_or_else(|| raise(Failure::internal("the server's clock is out of range")))
}

/// A finite time as the core has it; `22008` for an infinity.
pub fn instant(argument: &str, value: TimestampWithTimeZone) -> Outcome<Instant> {
    Instant::from_micros(value.into()).ok_or_else(|| {
        Failure::out_of_range(
            format!("{argument} must be a finite time"),
            "Infinity is not a time that a clock can show.",
        )
    })
}

/// A time that one of our tables holds; `22008` where somebody has put an infinity there.
pub fn stored_instant(value: TimestampWithTimeZone) -> Instant {
    or_raise(instant("a stored time", value))
}

/// The same for an argument that may be left out.
pub fn optional_instant(argument: &str, value: Option<TimestampWithTimeZone>) -> Outcome<Option<Instant>> {
    value.map(|value| instant(argument, value)).transpose()
}

/// Any time: an infinite one, which only a superuser's hand writes where this is asked, is the first or the last instant.
pub fn saturated(value: TimestampWithTimeZone) -> Instant {
    let micros = i64::from(value).clamp(Instant::MIN.as_micros(), Instant::MAX.as_micros());
    Instant::from_micros(micros).unwrap_or(Instant::MAX)
}

/// Two times of which the first has to come before the second; `22023`.
pub fn in_order(names: [&str; 2], times: [Instant; 2], hint: &str) -> Outcome<()> {
    if times[0] < times[1] {
        return Ok(());
    }
    let [first, second] = times.map(DateTime::Fixed);
    let message = format!("{} must be before {}: {first} is not before {second}", names[0], names[1]);
    Err(Failure::invalid(message, hint))
}

/// The range of plan times from `from_time` to just before `to_time`; `22004`, `22008`, `22023`.
pub fn range(
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
) -> Outcome<(Instant, Instant)> {
    let from = instant("from_time", required("from_time", from_time)?)?;
    let to = instant("to_time", required("to_time", to_time)?)?;
    range_in_order([from, to])?;
    Ok((from, to))
}

/// The same where each end may be left out; `22008`, `22023`.
pub fn open_range(
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
) -> Outcome<[Option<Instant>; 2]> {
    let range = [optional_instant("from_time", from_time)?, optional_instant("to_time", to_time)?];
    if let [Some(from), Some(to)] = range {
        range_in_order([from, to])?;
    }
    Ok(range)
}

fn range_in_order(range: [Instant; 2]) -> Outcome<()> {
    in_order(["from_time", "to_time"], range, "The range begins at from_time and ends just before to_time.")
}

/// A time of the core as Postgres has it.
pub fn timestamp(value: Instant) -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(value.as_micros())
        .unwrap_or_else(|_| raise(Failure::internal("a time is out of Postgres' range")))
}

/// Whether a length of time may be zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// It may.
    Allowed,
    /// It may not.
    Refused,
}

/// An interval as microseconds, days counted as 24 hours; `22023` where it is negative, has months (whose length
/// nobody knows) or is zero where that makes no sense, `22008` above 1,000 years.
pub fn duration(argument: &str, value: Interval, zero: Zero) -> Outcome<i64> {
    if value.months() != 0 {
        return Err(Failure::invalid(
            format!("{argument} must not contain months or years, but has {} months", value.months()),
            "A month has no fixed length; say it in days, for example '30 days'.",
        ));
    }
    let micros = i128::from(value.days()) * i128::from(MICROS_PER_DAY) + i128::from(value.micros());
    let Some(micros) = i64::try_from(micros).ok().filter(|micros| *micros <= MAX_DURATION) else {
        return Err(Failure::out_of_range(
            format!("{argument} is out of range: {} days", micros / i128::from(MICROS_PER_DAY)),
            "Lengths of time are at most 1000 years.",
        ));
    };
    if micros < 0 || (micros == 0 && zero == Zero::Refused) {
        let wanted = if zero == Zero::Refused { "positive" } else { "zero or more" };
        return Err(Failure::invalid(
            format!("{argument} must be {wanted}, not {} seconds", micros as f64 / 1e6),
            format!("Pass an interval that is {wanted}, for example '30 seconds'."),
        ));
    }
    Ok(micros)
}

/// The same for an argument that may be NULL.
pub fn optional_duration(argument: &str, value: Option<Interval>, zero: Zero) -> Outcome<Option<i64>> {
    value.map(|value| duration(argument, value, zero)).transpose()
}

/// Microseconds as an interval.
pub fn interval(micros: i64) -> Interval {
    // Not `from_micros`, which goes through seconds in floating point.
    Interval::new(0, 0, micros).unwrap_or_else(|_| raise(Failure::internal("microseconds are no interval")))
}

/// The clock of a text that a call has passed: at most 1,000 bytes (`54000`), which one that is stored may exceed.
pub fn new_clock(text: &str) -> Outcome<Clock> {
    if text.len() > LONGEST_NEW_TEXT {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("clock \"{}\" is too long: {} bytes", shown(text), text.len()),
            format!("A clock's text has at most {LONGEST_NEW_TEXT} bytes."),
        ));
    }
    read(text, Clock::parse)
}

/// The clock of a text that is stored, of which earlier releases took more.
pub fn clock(text: &str) -> Outcome<Clock> {
    read(text, Clock::parse_stored)
}

/// A clock's text as the core has it; the error points at the fault as psql points at a syntax error.
fn read(text: &str, parse: fn(&str) -> Result<Clock, ClockError>) -> Outcome<Clock> {
    const LABEL: usize = "DETAIL:  ".len();
    const LONGEST_SHOWN: usize = 200;
    parse(text).map_err(|error| {
        let fits = text.len() <= LONGEST_SHOWN && !text.contains(char::is_control);
        let caret = |position| format!("{text}\n{:>width$}", "^", width = LABEL + position);
        let detail = error.position().filter(|_| fits).map(caret);
        Failure { detail, ..Failure::from(error) }
    })
}

/// A value that must be given; `22004`.
pub fn required<T>(argument: &str, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| Failure::null(argument))
}

/// A name: given, not empty, at most 1,000 bytes.
pub fn name(argument: &str, value: Option<impl Into<String>>) -> Outcome<String> {
    bounded_name(argument, value, MAX_NAME_BYTES)
}

/// The name of a queue: at most 57 bytes.
pub fn queue(value: Option<impl Into<String>>) -> Outcome<String> {
    bounded_name("queue", value, MAX_QUEUE_BYTES)
}

/// A value as a message shows it: the beginning of a long one.
pub fn shown(value: &str) -> Cow<'_, str> {
    const LONGEST: usize = 40;
    match value.char_indices().nth(LONGEST) {
        None => Cow::Borrowed(value),
        Some((end, _)) => Cow::Owned(format!("{}…", &value[..end])),
    }
}

/// A time as a message shows it.
pub fn shown_time(value: TimestampWithTimeZone) -> String {
    DateTime::Fixed(saturated(value)).to_string()
}

/// A length of time as a message shows it.
pub fn shown_interval(value: Interval) -> String {
    value.to_string()
}

fn bounded_name(argument: &str, value: Option<impl Into<String>>, limit: usize) -> Outcome<String> {
    let value: String = required(argument, value)?.into();
    if value.is_empty() {
        return Err(Failure::invalid(format!("{argument} must not be empty"), format!("Pass a non-empty {argument}.")));
    }
    if value.len() > limit {
        return Err(Failure::invalid(
            format!("{argument} \"{}\" is too long: {} bytes", shown(&value), value.len()),
            format!("Use at most {limit} bytes."),
        ));
    }
    Ok(value)
}

/// Whether a time has come.
pub fn is_due(time: TimestampWithTimeZone, now: Instant) -> bool {
    i64::from(time) <= now.as_micros()
}

/// `now + length` as the statements have it, `(now AT TIME ZONE 'UTC' + length) AT TIME ZONE 'UTC'`: days have 24 hours, whatever the
/// session's zone. (A time and a time of UTC are the same number.)
pub fn later(now: Instant, length: Interval) -> TimestampWithTimeZone {
    let arguments = [timestamp(now).into_datum(), length.into_datum()];
    // SAFETY: the types that this function of Postgres takes, and none is NULL.
    let sum = unsafe { pgrx::direct_function_call(pg_sys::timestamp_pl_interval, &arguments) };
    sum.unwrap_or_else(|| raise(Failure::internal("a time has no sum with a length of time")))
}
