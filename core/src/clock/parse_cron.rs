//! From the text of a cron clock to its sets: our dialect around the `cron` crate's parser of numeric fields.
//!
//! The crate reads lists, ranges and steps of numbers. What it does not know, or knows otherwise (Sunday is 1, no
//! star rule, no `L`, `W`, `#`, years to 2100), is taken off or rewritten before the crate sees it. Days of the week
//! go through its hour field, whose numbers mean what they say.

use std::str::FromStr;

use cron::{Schedule, TimeUnitSpec};

use super::cron::{Cron, Sets};
use super::days::Days;
use super::error::{quoted, ClockError, ErrorKind, Source};
use super::field::Field;
use super::item;
use super::years::Years;

/// The macros and what they stand for.
pub(crate) const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// One field on its way to the crate.
#[derive(Default)]
struct Read {
    /// The plain items, as the crate reads them.
    numeric: Vec<String>,
    /// The field begins with a star.
    star: bool,
    /// The field is nothing but a star.
    only_star: bool,
    days: Days,
}

/// Reads five, six or seven fields, or a macro.
pub(crate) fn parse(source: &Source<'_>) -> Result<Cron, ClockError> {
    let fields: Vec<&str> = source.lower.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
    if let Some(first) = fields.first().filter(|first| first.starts_with('@')) {
        return parse_macro(source, first, fields.len());
    }
    if let Some(first) = fields.first().filter(|first| first.starts_with("tz=") || first.starts_with("cron_tz=")) {
        let hint = format!("Write {} and give the zone as time_zone.", quoted(&source.repaired(first, "")));
        return Err(source.error(ErrorKind::Cron, "clock", first, "the zone is not part of a clock", hint));
    }
    let names: &[Field] = match fields.len() {
        5 => &Field::ALL[1..6],
        6 => &Field::ALL[..6],
        7 => &Field::ALL,
        count => return Err(wrong_count(source, &fields, count)),
    };
    let mut read: [Read; 7] = Default::default();
    for (&field, text) in names.iter().zip(&fields) {
        let slot = &mut read[field as usize];
        *slot = read_field(source, field, text)?;
    }
    if fields.len() == 5 {
        read[Field::Second as usize].numeric.push("0".to_owned());
    }
    let has_year = fields.len() == 7 && !read[Field::Year as usize].only_star;
    compile(&read, has_year).ok_or_else(|| {
        let hint = "Write \"0 9 * * *\", for example: minute, hour, day of month, month, day of week.";
        source.error(ErrorKind::Cron, "clock", source.text, "the fields cannot be read", hint)
    })
}

fn parse_macro(source: &Source<'_>, name: &str, words: usize) -> Result<Cron, ClockError> {
    let known = MACROS.iter().find(|(known, _)| *known == name);
    match known {
        Some((_, fields)) if words == 1 => parse(&Source { text: fields, lower: fields }),
        Some((_, _)) => {
            let hint = format!("Write {}: a macro stands alone.", quoted(name));
            Err(source.error(ErrorKind::Cron, "clock", source.text.trim(), "text after a macro", hint))
        }
        None if name == "@reboot" => {
            let hint = "Write \"never\" and call fire_now, or \"@hourly\": a database has no boot to wait for.";
            Err(source.error(ErrorKind::Cron, "macro", name, "not supported", hint))
        }
        None if name == "@every" => {
            let hint = "Write \"every 5 minutes\", with the interval as PostgreSQL reads it.";
            Err(source.error(ErrorKind::Cron, "macro", name, "not supported", hint))
        }
        None => {
            let closest = MACROS.iter().find(|(known, _)| known.chars().nth(1) == name.chars().nth(1));
            let closest = closest.map_or("@daily", |(known, _)| known);
            let hint = format!(
                "Write \"{closest}\" or another of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly."
            );
            Err(source.error(ErrorKind::Cron, "macro", name, "not known", hint))
        }
    }
}

fn wrong_count(source: &Source<'_>, fields: &[&str], count: usize) -> ClockError {
    // The text made to fit: padded to five fields or cut to seven or five, whichever is a clock.
    let resized = |length: usize| {
        let mut kept: Vec<&str> = fields.iter().map(|field| source.original(field)).collect();
        kept.resize(length, "*");
        kept.join(" ")
    };
    let is_clock = |text: &String| parse(&Source { text, lower: &text.to_ascii_lowercase() }).is_ok();
    let candidates: &[usize] = match count {
        0 => &[],
        1..=4 => &[5],
        _ => &[7, 5],
    };
    let suggestion =
        candidates.iter().map(|&length| resized(length)).find(is_clock).unwrap_or_else(|| "0 9 * * 1-5".to_owned());
    let reason = match count {
        0 => "the clock is empty".to_owned(),
        1 => "one field where five, six or seven are needed".to_owned(),
        count => format!("{count} fields where five, six or seven are needed"),
    };
    let hint = format!(
        "Write {}, with minute, hour, day of month, month and day of week (seconds may come first, then the year last), \
         or \"every …\", \"at …\", \"never\" or a macro such as \"@daily\".",
        quoted(&suggestion)
    );
    source.error(ErrorKind::Cron, "clock", source.text.trim(), reason, hint)
}

fn read_field(source: &Source<'_>, field: Field, text: &str) -> Result<Read, ClockError> {
    let mut read = Read { star: text.starts_with('*'), only_star: text == "*" || text == "*/1", ..Read::default() };
    for part in text.split(',') {
        if part.is_empty() {
            let kept: Vec<&str> =
                text.split(',').filter(|part| !part.is_empty()).map(|part| source.original(part)).collect();
            let with = if kept.is_empty() { "*".to_owned() } else { kept.join(",") };
            return Err(source.repairable(field, text, "an empty item in the list", &with, ""));
        }
        let special = match field {
            Field::DayOfMonth => special_day(source, part, &mut read.days)?,
            Field::DayOfWeek => special_weekday(source, part, &mut read.days)?,
            Field::Second | Field::Minute | Field::Hour | Field::Month | Field::Year => false,
        };
        if !special {
            read.numeric.push(item::read(source, field, part)?.text());
        }
    }
    Ok(read)
}

/// `L`, `LW` and `nW` in day-of-month.
fn special_day(source: &Source<'_>, part: &str, days: &mut Days) -> Result<bool, ClockError> {
    let field = Field::DayOfMonth;
    match part {
        "l" => days.last = true,
        "lw" => days.last_weekday = true,
        "wl" => return Err(source.repairable(field, part, "the letters are the wrong way round", "LW", "")),
        _ => match part.strip_suffix('w') {
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() => {
                match number.parse::<u32>() {
                    Ok(day) if (1..=31).contains(&day) => days.nearest |= 1 << day,
                    Ok(_) | Err(_) => {
                        let because = ": the day before the W is from 1 to 31";
                        return Err(source.repairable(field, part, "out of range", "31W", because));
                    }
                }
            }
            Some(_) => {
                let because = ": W follows one day, as in 15W, or L";
                return Err(source.repairable(field, part, "W without a single day before it", "15W", because));
            }
            None if part.starts_with('l') => {
                let because = ": L stands alone, for the last day of the month";
                return Err(source.repairable(field, part, "characters after L", "L", because));
            }
            None => return Ok(false),
        },
    }
    Ok(true)
}

/// `dL` and `d#k` in day-of-week.
fn special_weekday(source: &Source<'_>, part: &str, days: &mut Days) -> Result<bool, ClockError> {
    let field = Field::DayOfWeek;
    if let Some((day, nth)) = part.split_once('#') {
        let Some(weekday) = weekday(day) else {
            let because = ": one day of the week, 0 to 7 or sun to sat, stands before the #";
            let with = format!("5#{}", if matches!(nth, "1" | "2" | "3" | "4" | "5") { nth } else { "1" });
            return Err(source.repairable(field, part, "no single day of the week before #", &with, because));
        };
        let Some(index) = ["1", "2", "3", "4", "5"].iter().position(|&k| k == nth) else {
            let with = format!("{}#1", source.original(day));
            return Err(source.repairable(field, part, "no number from 1 to 5 after #", &with, ": k is from 1 to 5"));
        };
        days.week_nth[index] |= 1 << weekday;
        return Ok(true);
    }
    if let Some(day) = part.strip_suffix('l') {
        let Some(weekday) = weekday(day) else {
            let because = ": one day of the week stands before the L, as in 5L or friL for the last Friday";
            return Err(source.repairable(field, part, "L without a single day of the week before it", "6L", because));
        };
        days.week_last |= 1 << weekday;
        return Ok(true);
    }
    Ok(false)
}

/// A single day of the week, Sunday = 0.
fn weekday(text: &str) -> Option<u32> {
    let (names, _) = Field::DayOfWeek.names();
    if let Some(index) = names.iter().position(|&name| name == text) {
        return Some(index as u32);
    }
    match text.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(u32::from(digit - b'0') % 7),
        _ => None,
    }
}

/// Hands the plain items to the crate and takes its sets. `None` only if the crate refuses what was checked here.
fn compile(read: &[Read; 7], has_year: bool) -> Option<Cron> {
    let list = |field: Field, none: &str| match read[field as usize].numeric.as_slice() {
        [] => none.to_owned(),
        items => items.join(","),
    };
    let main = format!(
        "{} {} {} {} {} * {}",
        list(Field::Second, "0"),
        list(Field::Minute, "0"),
        list(Field::Hour, "0"),
        list(Field::DayOfMonth, "1"),
        list(Field::Month, "1"),
        if has_year { list(Field::Year, "*") } else { "*".to_owned() },
    );
    let main = Schedule::from_str(&main).ok()?;
    let week = Schedule::from_str(&format!("0 0 {} * * *", list(Field::DayOfWeek, "0"))).ok()?;

    let (month_read, week_read) = (&read[Field::DayOfMonth as usize], &read[Field::DayOfWeek as usize]);
    let mut days = Days { month_star: month_read.star, week_star: week_read.star, ..month_read.days };
    days.week_last = week_read.days.week_last;
    days.week_nth = week_read.days.week_nth;
    if !month_read.numeric.is_empty() {
        days.plain = bits(main.days_of_month()) as u32;
    }
    if !week_read.numeric.is_empty() {
        let set = bits(week.hours());
        // 7 is Sunday too.
        days.week = ((set | set >> 7) & 0x7f) as u8;
    }
    let years = has_year.then(|| {
        let mut years = Years::default();
        main.years().iter().for_each(|year| years.insert(i64::from(year)));
        years
    });
    Some(Cron::new(Sets {
        seconds: bits(main.seconds()),
        minutes: bits(main.minutes()),
        hours: bits(main.hours()) as u32,
        months: bits(main.months()) as u16,
        days,
        years,
        minute_star: read[Field::Minute as usize].star,
        hour_star: read[Field::Hour as usize].star,
    }))
}

fn bits(set: &impl TimeUnitSpec) -> u64 {
    set.iter().fold(0, |bits, n| bits | 1u64 << n)
}
