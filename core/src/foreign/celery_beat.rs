//! Celery Beat's schedules, by the rules of `celery.schedules` (5.7) and django-celery-beat (2.9).
//!
//! A day must match all of its three fields. Beat looks for the first reading after that of the last run, on the wall clock of the
//! row's zone. So a reading that is repeated is run once. One that a clock change skips is run as much later as the gap is long, and
//! readings up to there are none any more.

use crate::time::Instant;

use super::{list, shortest, values, ForeignClock};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The fields in order: what they are called, the least and the greatest value.
const FIELDS: [(&str, u32, u32); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 6)];

const EVERY_DAY: u64 = 0xffff_fffe;
const EVERY_MONTH: u64 = 0x1ffe;
const EVERY_WEEKDAY: u64 = 0x7f;

/// A crontab, by its fields: minute, hour, day of month, month, day of week. The reason where Celery would not take it, or where no
/// clock of ours does what it does.
pub fn crontab(fields: [&str; 5]) -> Result<ForeignClock, String> {
    let mut sets = [0; 5];
    for ((set, field), (name, low, high)) in sets.iter_mut().zip(fields).zip(FIELDS) {
        *set = read_field(field, low, high).map_err(|reason| format!("{reason} in the {name} field"))?;
    }
    let [minutes, hours, days, months, week] = sets;
    if !fits_a_month(days, months) {
        return Err("Celery refuses it: no month has such a day".to_owned());
    }
    let star = |set: u64, all: u64| if set == all { "*".to_owned() } else { list(values(set)) };
    let (day_text, month_text) = (star(days, EVERY_DAY), star(months, EVERY_MONTH));
    let week_text = match (days == EVERY_DAY, star(week, EVERY_WEEKDAY)) {
        (false, text) if text != "*" => format!("+{text}"),
        (_, text) => text,
    };
    let rest = format!("{day_text} {month_text} {week_text}");
    // Neither begins with a star: it names times of day.
    let fixed = format!("{} {} {rest}", list(values(minutes)), list(values(hours)));
    Ok(ForeignClock {
        after_gap: Some(fixed),
        ..ForeignClock::plain(format!("{} {} {rest}", shortest(minutes, 59), shortest(hours, 23)))
    })
}

/// Whether one of the months has one of the days; February has 29, as Celery counts.
fn fits_a_month(days: u64, months: u64) -> bool {
    const LENGTHS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    values(months).any(|month| {
        let length = LENGTHS.get(month as usize - 1).copied().unwrap_or(31);
        values(days).any(|day| day <= length)
    })
}

fn read_field(text: &str, low: u32, high: u32) -> Result<u64, String> {
    text.split(',').try_fold(0, |set, item| Ok(set | read_item(item, low, high)?))
}

/// `*`, `*/2`, `5`, `mon`, `1-5`, `fri-mon`, `1-10/3`. Of what else Celery makes something of (it ignores what follows a range), this
/// makes nothing.
fn read_item(item: &str, low: u32, high: u32) -> Result<u64, String> {
    let unknown = || format!("\"{item}\" is none of Celery's items");
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, number(step, 1, u32::MAX).ok_or_else(unknown)? as usize),
        None => (item, 1),
    };
    let all: Vec<u32> = if range == "*" {
        (low..=high).collect()
    } else if let Some((first, last)) = range.split_once('-') {
        let (first, last) = (value(first, low, high)?, value(last, low, high)?);
        // It runs on from the first value of the field.
        if last < first {
            (first..=high).chain(low..=last).collect()
        } else {
            (first..=last).collect()
        }
    } else if step == 1 && !item.contains('/') {
        vec![value(range.trim_matches(' '), low, high)?]
    } else {
        return Err(unknown());
    };
    Ok(all.into_iter().step_by(step).fold(0, |set, value| set | 1 << value))
}

/// A number, or a name, of which the first three letters count. Celery knows months in each field, and then days of the week.
fn value(word: &str, low: u32, high: u32) -> Result<u32, String> {
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let known = if is_word {
        let short = word.get(..3).unwrap_or(word).to_ascii_lowercase();
        let month = MONTHS.iter().position(|name| *name == short).map(|index| index as u32 + 1);
        month.or_else(|| DAYS.iter().position(|name| *name == short).map(|index| index as u32))
    } else {
        number(word, 0, u32::MAX)
    };
    let known = known.ok_or_else(|| format!("\"{word}\" is no number"))?;
    if (low..=high).contains(&known) {
        Ok(known)
    } else {
        Err(format!("Celery refuses it: {known} is not in {low}-{high}"))
    }
}

fn number(word: &str, least: u32, most: u32) -> Option<u32> {
    let is_number = !word.is_empty() && word.len() <= 9 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|number| is_number && (least..=most).contains(number))
}

/// An interval, counted from when the last run was sent. Its days are 24 hours long.
pub fn interval(every: i64, period: &str) -> Result<ForeignClock, String> {
    let unknown = || format!("every {every} {period} is no interval");
    let (factor, unit) = match period {
        "days" => (24, "hour"),
        "hours" => (1, "hour"),
        "minutes" => (1, "minute"),
        "seconds" => (1, "second"),
        "microseconds" if every > 0 && every % 1_000_000 == 0 => return interval(every / 1_000_000, "seconds"),
        "microseconds" => return Err(format!("every {every} microseconds: less than a second is not counted here")),
        _ => return Err(unknown()),
    };
    let count = every.checked_mul(factor).filter(|count| *count > 0).ok_or_else(unknown)?;
    let plural = if count == 1 { "" } else { "s" };
    Ok(ForeignClock::plain(format!("every {count} {unit}{plural} after start")))
}

/// A point in time.
#[must_use]
pub fn clocked(at: Instant) -> ForeignClock {
    ForeignClock::plain(super::at(at))
}

/// What of a task bears upon when its clock is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    /// It is on.
    pub enabled: bool,
    /// It is run once only.
    pub one_off: bool,
    /// How often it was run.
    pub runs: i64,
    /// When it was run last.
    pub last_run: Option<Instant>,
    /// When it was edited last.
    pub changed: Option<Instant>,
    /// It is not run before.
    pub starts: Option<Instant>,
}

/// The clock of a task that has this clock.
pub fn of_task(clock: ForeignClock, is_clocked: bool, task: &Task, now: Instant) -> Result<ForeignClock, String> {
    let starts = task.starts.filter(|starts| *starts > now);
    if task.one_off && task.enabled && task.runs > 0 {
        return Err("it is run once only, and was".to_owned());
    }
    if is_clocked {
        return match (task.one_off, starts) {
            (false, _) => Err("a clocked task that is no one-off task is run again and again".to_owned()),
            (true, Some(_)) => Err("a clocked task with a start_time ahead".to_owned()),
            (true, None) => Ok(clock),
        };
    }
    match (task.one_off, starts) {
        // Nothing was run, so it counts as due for long: it is run as soon as it may.
        (true, Some(starts)) if task.last_run.is_none() => Ok(clocked(starts)),
        (true, Some(_)) => Err("a one-off task with a start_time ahead that was run before".to_owned()),
        (true, None) if !task.enabled => {
            Err("a one-off task that is off: it counts from when it is enabled".to_owned())
        }
        (true, None) => match (task.last_run, task.starts, task.changed) {
            (Some(after), ..) | (None, None, Some(after)) => Ok(ForeignClock { once_after: Some(after), ..clock }),
            (None, ..) => Err("its only run is due now".to_owned()),
        },
        (false, Some(starts)) => Ok(ForeignClock { runs_at: Some(starts), ..clock }),
        (false, None) => Ok(clock),
    }
}
