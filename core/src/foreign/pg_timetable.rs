//! pg_timetable's `run_at`, as its SQL reads it (`timetable.is_cron_in_time`, `timetable.cron_split_to_arrays`, version 6).
//!
//! Once a minute it looks whether the wall clock of its zone matches, so its clocks follow the wall clock through clock changes. A day
//! must match all fields. Intervals count from the last start (`@every`) or end (`@after`).

use super::{list, shortest, starred, values, ForeignClock};

/// The fields in order: what they are called, the least and the greatest value.
const FIELDS: [(&str, u32, u32); 5] =
    [("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7)];

const EVERY_DAY: u64 = 0xffff_fffe;
const EVERY_MONTH: u64 = 0x1ffe;
const EVERY_WEEKDAY: u64 = 0x7f;

/// A cron text; the reason where pg_timetable would not run it, or where no clock of ours does what it does.
pub fn cron(text: &str) -> Result<ForeignClock, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let Ok(words) = <[&str; 5]>::try_from(words) else {
        return Err("it has not five fields".to_owned());
    };
    let mut sets = [0; 5];
    for ((set, word), (name, low, high)) in sets.iter_mut().zip(words).zip(FIELDS) {
        *set = read_field(word, low, high).map_err(|reason| format!("{reason} in the {name} field"))?;
    }
    let [minutes, hours, days, months, week] = sets;
    // 7 is Sunday too.
    let week = (week | week >> 7) & EVERY_WEEKDAY;
    let star = |set: u64, all: u64| if set == all { "*".to_owned() } else { list(values(set)) };
    let week_text = match (days == EVERY_DAY, star(week, EVERY_WEEKDAY)) {
        (false, text) if text != "*" => format!("+{text}"),
        (_, text) => text,
    };
    let rest = format!("{} {} {week_text}", star(days, EVERY_DAY), star(months, EVERY_MONTH));
    let (minute_text, hour_text) = (shortest(minutes, 59), shortest(hours, 23));
    let follows_wall_clock = !minute_text.starts_with('*') && !hour_text.starts_with('*');
    let wild = match (starred(minutes, 59), starred(hours, 23)) {
        (Some(minutes), _) => Some(format!("{minutes} {hour_text} {rest}")),
        (None, Some(hours)) => Some(format!("{minute_text} {hours} {rest}")),
        (None, None) => None,
    };
    Ok(ForeignClock {
        follows_wall_clock,
        wild: wild.filter(|_| follows_wall_clock),
        ..ForeignClock::plain(format!("{minute_text} {hour_text} {rest}"))
    })
}

fn read_field(text: &str, low: u32, high: u32) -> Result<u64, String> {
    text.split(',').try_fold(0, |set, item| Ok(set | read_item(item, low, high)?))
}

/// `*`, `*/2`, `5`, `1-5`, `1-10/3`, and `5/10`, which goes to the end of the field.
fn read_item(item: &str, low: u32, high: u32) -> Result<u64, String> {
    let unknown = || format!("\"{item}\" is none of pg_timetable's items");
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(number(step).filter(|step| *step > 0).ok_or_else(unknown)?)),
        None => (item, None),
    };
    let (first, last) = match range.split_once('-') {
        _ if range == "*" => (low, high),
        Some((first, last)) => number(first).zip(number(last)).ok_or_else(unknown)?,
        None => {
            let first = number(range).ok_or_else(unknown)?;
            (first, if step.is_some() { high } else { first })
        }
    };
    if first < low || last > high || first > last {
        return Err(format!("{first}-{last} is out of range"));
    }
    Ok((first..=last).step_by(step.unwrap_or(1) as usize).fold(0, |set, value| set | 1 << value))
}

fn number(word: &str) -> Option<u32> {
    let is_number = !word.is_empty() && word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_number)
}

/// An interval of so many seconds, which it cuts to whole ones, from the last start or end.
pub fn interval(seconds: i64, after_end: bool) -> Result<ForeignClock, String> {
    if seconds < 1 {
        return Err("its interval is shorter than a second".to_owned());
    }
    let unit = if seconds == 1 { "second" } else { "seconds" };
    let edge = if after_end { "end" } else { "start" };
    Ok(ForeignClock::plain(format!("every {seconds} {unit} after {edge}")))
}
