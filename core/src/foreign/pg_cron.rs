//! pg_cron's schedules, by the rules of its `entry.c` and `job_metadata.c` (1.4 to 1.6).
//!
//! It looks once a minute whether the wall clock of its zone matches. So all of its clocks follow the wall clock, also those without
//! a star. What follows an item up to the next blank it ignores, and what follows the fifth field as well.

use super::{list, shortest, starred, values, ForeignClock};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 8] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// One of the five fields: its values as bits, and whether it begins with a star.
#[derive(Clone, Copy, Debug, Default)]
struct ReadField {
    set: u64,
    star: bool,
    last_day: bool,
}

/// The fields in order: what they are called, the least and the greatest value, their names.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day of month", 1, 31, &[]),
    ("month", 1, 12, &MONTHS),
    ("day of week", 0, 7, &DAYS),
];

/// Reads a schedule; the reason where pg_cron would not run it, or where no clock of ours does what it does. `both_days`: the setting
/// by which a day must always match both day fields.
pub fn read(schedule: &str, both_days: bool) -> Result<ForeignClock, String> {
    if let Some(seconds) = seconds(schedule) {
        let unit = if seconds == 1 { "second" } else { "seconds" };
        return Ok(ForeignClock::plain(format!("every {seconds} {unit} after start")));
    }
    let text = schedule.trim_start_matches([' ', '\t', '\n']);
    if text.starts_with('#') && text.contains('\n') {
        return Err("a comment before the schedule".to_owned());
    }
    if let Some(name) = text.strip_prefix('@') {
        let name = name.split([' ', '\t', '\n']).next().unwrap_or_default();
        return match name {
            "monthly" => Ok(at_midnight("1 * *")),
            "weekly" => Ok(at_midnight("* * 0")),
            "daily" | "midnight" => Ok(at_midnight("* * *")),
            "hourly" => Ok(ForeignClock::plain("@hourly")),
            // It sets the bit of a month 0, which none is.
            "yearly" | "annually" => Err(format!("pg_cron never runs @{name}: schedule 0 0 1 1 * there")),
            "reboot" | "restart" => Err("nothing here is run when the server starts".to_owned()),
            _ => Err(format!("pg_cron does not know @{name}")),
        };
    }
    let mut rest = text;
    let mut fields = [ReadField::default(); 5];
    for (field, (name, low, high, names)) in fields.iter_mut().zip(FIELDS) {
        *field = read_field(&mut rest, (low, high), names, name == "day of month")
            .map_err(|reason| format!("{reason} in the {name} field"))?;
    }
    render(fields, both_days)
}

fn at_midnight(days: &str) -> ForeignClock {
    let wild = Some(format!("*/60 0 {days}"));
    ForeignClock { follows_wall_clock: true, wild, ..ForeignClock::plain(format!("0 0 {days}")) }
}

/// `30 seconds`: 1 to 59, in any case, and nothing after it.
fn seconds(schedule: &str) -> Option<u32> {
    let text = schedule.trim_start().to_ascii_lowercase();
    let digits = text.trim_start_matches('+');
    let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
    let rest = text.trim_start_matches('+').strip_prefix(digits)?.trim_start();
    let rest = rest.strip_prefix("second")?;
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    let seconds: u32 = digits.parse().ok()?;
    ((1..60).contains(&seconds) && rest.trim_start().is_empty()).then_some(seconds)
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Takes one field and the blanks behind it.
fn read_field(rest: &mut &str, range: (u32, u32), names: &[&str], is_day: bool) -> Result<ReadField, String> {
    let mut field = ReadField { star: rest.starts_with('*'), ..ReadField::default() };
    if is_day && rest.starts_with('$') {
        let after = &rest[1..];
        if !after.starts_with(is_blank) {
            return Err("something after $".to_owned());
        }
        *rest = after.trim_start_matches(is_blank);
        field.last_day = true;
        return Ok(field);
    }
    loop {
        field.set |= read_item(rest, range, names)?;
        match rest.strip_prefix(',') {
            Some(after) => *rest = after,
            None => break,
        }
    }
    let end = rest.find([' ', '\t', '\n']).unwrap_or(rest.len());
    *rest = rest[end..].trim_start_matches(is_blank);
    Ok(field)
}

fn read_item(rest: &mut &str, (low, high): (u32, u32), names: &[&str]) -> Result<u64, String> {
    let (first, last) = match rest.strip_prefix('*') {
        Some(after) => {
            *rest = after;
            (low, high)
        }
        None => {
            let first = number(rest, low, names)?;
            match rest.strip_prefix('-') {
                None if rest.starts_with('/') => return Err(format!("a step without a range after {first}")),
                None if !(low..=high).contains(&first) => return Err(format!("{first} is out of range")),
                None => return Ok(1 << first),
                Some(after) => {
                    *rest = after;
                    (first, number(rest, low, names)?)
                }
            }
        }
    };
    let step = match rest.strip_prefix('/') {
        Some(after) => {
            *rest = after;
            number(rest, 0, &[])?
        }
        None => 1,
    };
    if step > high {
        return Err(format!("the step {step} is longer than the field, which versions of pg_cron read differently"));
    }
    if step == 0 || ![first, last].iter().all(|value| (low..=high).contains(value)) {
        return Err(format!("{first}-{last}/{step} is out of range"));
    }
    if first > last {
        return Err(format!("the range {first}-{last} runs backwards, which versions of pg_cron read differently"));
    }
    Ok((first..=last).step_by(step as usize).fold(0, |set, value| set | 1 << value))
}

/// Letters and digits: a name of the field, or a number.
fn number(rest: &mut &str, low: u32, names: &[&str]) -> Result<u32, String> {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    *rest = after;
    if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(word)) {
        return Ok(low + index as u32);
    }
    // More digits than a number of C has mean something else in each version.
    if word.is_empty() || word.len() > 9 || !word.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("\"{word}\" is no number"));
    }
    word.parse().map_err(|_| format!("\"{word}\" is no number"))
}

/// The fields as a clock of ours. All of theirs follow the wall clock, as ours do where the minute or the hour begins with a star.
fn render(fields: [ReadField; 5], both_days: bool) -> Result<ForeignClock, String> {
    let [minute, hour, day, month, week] = fields;
    let (minutes, hours) = (shortest(minute.set, 59), shortest(hour.set, 23));
    let follows_wall_clock = !minutes.starts_with('*') && !hours.starts_with('*');
    // 7 is Sunday too.
    let days_of_week = (week.set | week.set >> 7) & 0x7f;
    let both = both_days || day.star || week.star;
    let all_days = day.set == 0xffff_fffe;
    let all_week = days_of_week == 0x7f;
    // A field of all days says nothing where both must match, and everything where one is enough.
    let any_day = if both { all_days && all_week } else { all_days || all_week };
    let (days, weeks) = if any_day {
        ("*".to_owned(), "*".to_owned())
    } else {
        let days = if day.last_day { "L".to_owned() } else { list(values(day.set)) };
        let weeks = list((0..7).filter(|day| days_of_week >> day & 1 != 0));
        match (both, all_days, all_week) {
            (true, true, _) => ("*".to_owned(), weeks),
            (true, _, true) => (days, "*".to_owned()),
            (true, ..) => (days, format!("+{weeks}")),
            (false, ..) => (days, weeks),
        }
    };
    let months = if month.set == 0x1ffe { "*".to_owned() } else { list(values(month.set)) };
    let wild = match (starred(minute.set, 59), starred(hour.set, 23)) {
        (Some(minutes), _) => Some(format!("{minutes} {hours} {days} {months} {weeks}")),
        (None, Some(hours)) => Some(format!("{minutes} {hours} {days} {months} {weeks}")),
        (None, None) => None,
    };
    Ok(ForeignClock {
        follows_wall_clock,
        wild: wild.filter(|_| follows_wall_clock),
        asks_for_tomorrow: day.last_day && !any_day,
        ..ForeignClock::plain(format!("{minutes} {hours} {days} {months} {weeks}"))
    })
}
