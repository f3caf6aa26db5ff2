//! pgAgent's schedules, by the rules of its function `pga_next_schedule` (3.4 to 4.2), faults included.
//!
//! It looks from the minute after the last run on for the next one that matches. What is said here is what it does when it is asked
//! within the minute of each run.

use crate::time::civil::days_in_month;
use crate::time::{Instant, MICROS_PER_SECOND};

use super::{list, ForeignClock};

/// The fields of a schedule as bits. A field without any is one that matches always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Bits 0–59.
    pub minutes: u64,
    /// Bits 0–23.
    pub hours: u64,
    /// Bits 0–6, from Sunday on.
    pub days_of_week: u64,
    /// Bits 1–31, and 32 for the last day.
    pub days: u64,
    /// Bits 1–12.
    pub months: u64,
}

/// When a schedule is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// On this day, counted from 2000-01-01; `None`: on each.
    pub day: Option<i64>,
    /// At this time of the day, in microseconds; `None`: at each.
    pub time: Option<i64>,
}

/// Between which times a schedule is run, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub start: Instant,
    /// The last.
    pub end: Option<Instant>,
    /// What the wall clock shows at `start`, past the full hour, in minutes.
    pub start_minute: u32,
}

const LAST_DAY: u64 = 1 << 32;
const ALL_MINUTES: u64 = (1 << 60) - 1;
const ALL_HOURS: u64 = (1 << 24) - 1;
const ALL_WEEK: u64 = 0x7f;
const ALL_DAYS: u64 = 0xffff_fffe;
const ALL_MONTHS: u64 = 0x1ffe;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// The bits of an array of booleans as Postgres prints it; the first has the number `first`.
pub fn bits(array: &str, length: usize, first: u32) -> Result<u64, String> {
    let fault = || format!("\"{}\" is no array of {length} booleans", array.chars().take(80).collect::<String>());
    let inner = array.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(fault)?;
    let mut set = 0;
    let mut count = 0;
    for (item, bit) in inner.split(',').zip(first..64) {
        count += 1;
        match item {
            "t" => set |= 1 << bit,
            "f" => {}
            _ => return Err(fault()),
        }
    }
    if count == length && inner.split(',').count() == length {
        Ok(set)
    } else {
        Err(fault())
    }
}

/// Exceptions as `day time` separated by commas, each of both a number or nothing.
pub fn exceptions(text: &str) -> Result<Vec<Exception>, String> {
    let number = |text: &str| match text {
        "" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| format!("\"{digits}\" is no number in an exception")),
    };
    text.split(',')
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (day, time) = item.split_once(' ').unwrap_or((item, ""));
            Ok(Exception { day: number(day)?, time: number(time)? })
        })
        .collect()
}

/// The clock of a schedule; the reason where no clock of ours does what pgAgent does with it.
pub fn read(fields: Fields, exceptions: &[Exception], window: Window, now: Instant) -> Result<ForeignClock, String> {
    if fields.minutes | fields.hours | fields.days | fields.months == 0 {
        return Err(
            "it names no minute, hour, day or month, and pgAgent passes over a minute after each run of such a schedule: choose all minutes there"
                .to_owned(),
        );
    }
    check_days(fields.days, fields.months)?;
    let is_to_come = window.start.as_micros() > now.as_micros().saturating_add(MICROS_PER_MINUTE);
    if is_to_come && has_false_start(fields, window.start_minute) {
        return Err(format!(
            "it starts in the future and past the full hour: pgAgent then begins a later hour at minute {} instead of its first one. Let it start at a full hour there",
            window.start_minute.saturating_sub(1)
        ));
    }
    let (minutes, hours) = times(fields, exceptions)?;
    let days = if fields.days == 0 || fields.days & ALL_DAYS == ALL_DAYS { 0 } else { fields.days };
    check_exceptions(Fields { minutes, hours, days, ..fields }, exceptions, window, now)?;
    let field = |set: u64, all: u64| {
        if set == 0 || set & all == all {
            "*".to_owned()
        } else {
            list((0..60).filter(|bit| set >> bit & 1 != 0))
        }
    };
    // Beside other days the last one counts for nothing.
    let is_last = days == LAST_DAY;
    let days_text = if is_last { "L".to_owned() } else { field(days & !LAST_DAY, ALL_DAYS) };
    let week = field(fields.days_of_week, ALL_WEEK);
    let plus = if days_text != "*" && week != "*" { "+" } else { "" };
    let text = format!(
        "{} {} {days_text} {} {plus}{week}",
        field(minutes, ALL_MINUTES),
        field(hours, ALL_HOURS),
        field(fields.months, ALL_MONTHS)
    );
    let note = (days & LAST_DAY != 0 && !is_last)
        .then(|| "beside other days of the month pgAgent does not know the last one".to_owned());
    Ok(ForeignClock { follows_wall_clock: true, note, ..ForeignClock::plain(text) })
}

/// Where its search meets a day that a month lacks, pgAgent fails: the job is never run again.
fn check_days(days: u64, months: u64) -> Result<(), String> {
    if days == 0 || days == LAST_DAY {
        return Ok(());
    }
    let has = |day: u32| days >> day & 1 != 0;
    let is_any = months == 0 || months == ALL_MONTHS;
    let of = |month: u32| is_any || months >> month & 1 != 0;
    let Some(lowest) = (1..=32).find(|day| has(*day)) else { return Ok(()) };
    // Of the last day it knows in each month which it is.
    let fails = |day: u32, length: u32| day <= 31 && day > length;
    for month in (1..=12).filter(|month| of(*month)) {
        let next = month % 12 + 1;
        for year in [2023, 2024] {
            let (length, length_of_next) = (days_in_month(year, month), days_in_month(year, next));
            let jumps_onto_it = !is_any && fails(lowest, length);
            let looks_for_it = !has(length) && (length + 1..=31).any(has);
            // With none left in a month it takes the first of the next one.
            let turns_over = !has(32) && !(length..=31).any(has) && fails(lowest, length_of_next);
            if jumps_onto_it || looks_for_it || turns_over {
                let day = if looks_for_it { (length + 1..=31).find(|day| has(*day)).unwrap_or(lowest) } else { lowest };
                let where_to = if turns_over && !looks_for_it && !jumps_onto_it { next } else { month };
                return Err(format!(
                    "pgAgent fails when it comes to day {day} of month {where_to}, which lacks that day"
                ));
            }
        }
    }
    Ok(())
}

/// From a start past the full hour on it looks for the first minute of a later hour at that minute only.
fn has_false_start(fields: Fields, start_minute: u32) -> bool {
    let Fields { minutes, hours, days_of_week, days, months } = fields;
    let goes_on = [(hours, ALL_HOURS), (days_of_week, ALL_WEEK), (days & ALL_DAYS, ALL_DAYS), (months, ALL_MONTHS)];
    let may_jump = days & LAST_DAY != 0 || goes_on.iter().any(|(set, all)| *set != 0 && set != all);
    let from = start_minute.saturating_sub(1);
    may_jump && minutes & ((1 << from) - 1) != 0 && minutes >> from != 0
}

/// Minutes and hours without those that an exception takes out on each day; 0 stands for all of a kind.
fn times(fields: Fields, exceptions: &[Exception]) -> Result<(u64, u64), String> {
    let all = |set: u64, all: u64| if set == 0 { all } else { set };
    let (minutes, hours) = (all(fields.minutes, ALL_MINUTES), all(fields.hours, ALL_HOURS));
    let mut rows = [0_u64; 24];
    for (hour, row) in rows.iter_mut().enumerate().filter(|(hour, _)| hours >> hour & 1 != 0) {
        *row = minutes & !taken_out(hour as i64, exceptions);
    }
    let kept = rows.iter().copied().find(|row| *row != 0).ok_or("its exceptions leave no time of the day")?;
    if rows.iter().any(|row| *row != 0 && *row != kept) {
        return Err("its exceptions take single times out of its hours, which no clock here can say".to_owned());
    }
    let hours = rows.iter().enumerate().filter(|(_, row)| **row != 0).fold(0, |set, (hour, _)| set | 1 << hour);
    Ok((kept, hours))
}

/// The minutes of an hour that exceptions take out on each day.
fn taken_out(hour: i64, exceptions: &[Exception]) -> u64 {
    exceptions.iter().filter(|exception| exception.day.is_none()).filter_map(minute_of_day).fold(0, |set, minute| {
        if minute / 60 == hour {
            set | 1 << (minute % 60)
        } else {
            set
        }
    })
}

/// Plan times have no seconds, so an exception that has some is none.
fn minute_of_day(exception: &Exception) -> Option<i64> {
    exception
        .time
        .filter(|time| time % MICROS_PER_MINUTE == 0)
        .map(|time| time / MICROS_PER_MINUTE)
        .filter(|m| *m < 1440)
}

/// Refuses exceptions of single days that are to come and take something out.
fn check_exceptions(fields: Fields, exceptions: &[Exception], window: Window, now: Instant) -> Result<(), String> {
    let day_of = |at: Instant| at.as_micros().div_euclid(MICROS_PER_DAY);
    // One day more on both sides, whatever the zone.
    let first = day_of(now).max(day_of(window.start)) - 1;
    let last = window.end.map_or(i64::MAX, |end| day_of(end) + 1);
    let hit = exceptions.iter().find_map(|exception| {
        let day = exception.day.filter(|day| (first..=last).contains(day))?;
        let is_at_a_time = match exception.time {
            None => true,
            Some(_) => minute_of_day(exception).is_some_and(|minute| {
                fields.hours >> (minute / 60) & 1 != 0 && fields.minutes >> (minute % 60) & 1 != 0
            }),
        };
        (is_at_a_time && matches_day(fields, day)).then_some(day)
    });
    match hit {
        None => Ok(()),
        Some(day) => {
            let (year, month, day) = crate::time::civil::civil_from_days(day + DAYS_TO_2000);
            Err(format!("it has an exception on {year}-{month:02}-{day:02}, and no clock here can leave out a day"))
        }
    }
}

/// From 1970-01-01 to 2000-01-01.
const DAYS_TO_2000: i64 = 10_957;

fn matches_day(fields: Fields, day: i64) -> bool {
    let (year, month, of_month) = crate::time::civil::civil_from_days(day + DAYS_TO_2000);
    let has = |set: u64, bit: u32| set == 0 || set >> bit & 1 != 0;
    let is_last = fields.days == LAST_DAY && of_month == days_in_month(year, month);
    has(fields.months, month)
        && (is_last || has(fields.days & !LAST_DAY, of_month) && fields.days != LAST_DAY)
        && has(fields.days_of_week, crate::time::civil::weekday(day + DAYS_TO_2000))
}

/// The window as ours has it: the first instant that may be a plan time, and the first that may no longer be one.
#[must_use]
pub fn bounds(window: Window) -> (Instant, Option<Instant>) {
    let minute = window.start.as_micros().div_euclid(MICROS_PER_MINUTE) * MICROS_PER_MINUTE;
    (Instant::from_micros(minute).unwrap_or(window.start), window.end.and_then(|end| end.checked_add_micros(1)))
}
