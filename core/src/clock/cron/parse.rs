//! From the text of a cron clock to its sets: our dialect around the `cron` crate's parser of numeric fields.
//!
//! The crate reads lists, ranges and steps of numbers. What it does not know, or knows otherwise (Sunday is 1, no
//! star rule, no `L`, `W`, `#`, years to 2100), is taken off or rewritten before the crate sees it. Days of the week
//! go through its hour field, whose numbers mean what they say.

use std::str::FromStr;

use cron::{Schedule, TimeUnitSpec};

use crate::clock::error::{ClockError, ErrorKind, Hint, Mend, Source};
use crate::clock::every;
use crate::clock::suggest::{foreign, ZONE};
use crate::clock::text::{words, BLANKS, LONGEST_TEXT};

use super::cron_item;
use super::days::Days;
use super::dialect;
use super::field::Field;
use super::years::Years;
use super::{Cron, Sets};

const EXAMPLE: &str = "0 9 * * 1-5";
const COUNTS: &str =
    "a clock is minute, hour, day of month, month and day of week (seconds may come first, then the year \
    last), or every, at, never or a macro such as @daily";

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
struct ReadField {
    /// The plain items, as the crate reads them.
    numeric: Vec<String>,
    /// The field begins with a star.
    star: bool,
    /// The field is nothing but a star.
    only_star: bool,
    days: Days,
}

/// Reads five, six or seven fields, or a macro. `mend` reads what stands before a zone or a command.
pub(crate) fn parse(source: &Source<'_>, mend: Mend<'_>) -> Result<Cron, ClockError> {
    let fields = words(source.lower);
    let Some(&first) = fields.first() else { return Err(wrong_count(source, &fields, mend)) };
    if first.starts_with('@') {
        return parse_macro(source, first, &fields[1..], mend);
    }
    if first.starts_with("tz=") || first.starts_with("cron_tz=") {
        let hint = Hint::new(Some(source.repaired(first, "")), ZONE.rule, EXAMPLE);
        return Err(source.error(ErrorKind::Cron, "clock", first, ZONE.reason, hint));
    }
    if let Some(error) = in_parentheses(source, mend).or_else(|| followed(source, &fields, mend)) {
        return Err(error);
    }
    let names: &[Field] = match fields.len() {
        5 => &Field::ALL[1..6],
        6 => &Field::ALL[..6],
        7 => &Field::ALL,
        _ => return Err(wrong_count(source, &fields, mend)),
    };
    if let Some(error) = dialect::other(source, &fields, mend) {
        return Err(error);
    }
    let mut read: [ReadField; 7] = Default::default();
    let mut both = false;
    for (&field, &text) in names.iter().zip(&fields) {
        let items = match text.strip_prefix('+').filter(|items| field == Field::DayOfWeek && !items.is_empty()) {
            Some(items) => {
                both = true;
                items
            }
            None => text,
        };
        read[field as usize] = read_field(source, field, items)?;
    }
    if fields.len() == 5 {
        read[Field::Second as usize].numeric.push("0".to_owned());
    }
    let has_year = fields.len() == 7 && !read[Field::Year as usize].only_star;
    compile(&read, has_year, both).ok_or_else(|| {
        let hint = Hint::new(None, COUNTS, EXAMPLE);
        source.error(ErrorKind::Cron, "clock", source.text, "the fields cannot be read", hint)
    })
}

fn parse_macro(source: &Source<'_>, name: &str, rest: &[&str], mend: Mend<'_>) -> Result<Cron, ClockError> {
    let known = MACROS.iter().find(|(known, _)| *known == name);
    let (subject, piece, reason, hint) = match (known, rest) {
        (Some((_, fields)), []) => return parse(&Source { text: fields, lower: fields }, mend),
        (Some(_), [_, ..]) => {
            let foreign = foreign(rest);
            let proposal = foreign.is_some().then(|| name.to_owned());
            let rule = foreign.map_or("a macro stands alone", |foreign| foreign.rule);
            ("clock", source.text.trim(), "text after a macro", Hint::new(proposal, rule, EXAMPLE))
        }
        (None, _) if name == "@reboot" => {
            let hint =
                Hint::new(Some("never".to_owned()), "a database has no boot to wait for; call fire_now", "never");
            ("macro", name, "not supported", hint)
        }
        (None, _) if name == "@every" => {
            let interval = rest.join(" ");
            let every = every::parse::parse(&Source { text: &interval, lower: &interval }, &interval);
            let every = every.ok().map(|every| every.to_string());
            let hint = Hint::new(every, "every takes PostgreSQL's intervals", "every 5 minutes");
            ("macro", name, "not supported", hint)
        }
        (None, _) => {
            let cut = |known: &&(&str, &str)| name.len() > 3 && known.0.starts_with(name) && rest.is_empty();
            let proposal = MACROS.iter().find(cut).map(|(known, _)| (*known).to_owned());
            let rule = "macros are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly";
            ("macro", name, "not known", Hint::new(proposal, rule, "@daily"))
        }
    };
    Err(source.error(ErrorKind::Cron, subject, piece, reason, hint))
}

/// `cron(0 9 * * *)` and `rate(5 minutes)`.
fn in_parentheses(source: &Source<'_>, mend: Mend<'_>) -> Option<ClockError> {
    let whole = source.lower.trim_matches(BLANKS);
    let (word, inside) = whole.strip_suffix(')')?.split_once('(')?;
    let hint = match word {
        "cron" => {
            let fields = words(inside);
            let rule = "seconds are the first of six fields, the year is the last of seven, and Sunday is 0 or 7";
            // (Numbers of days beside a ? may be counted from 1 for Sunday.)
            let counts = |week: &&str| week.contains(|c: char| c.is_ascii_digit()) && inside.contains('?');
            let is_plain = matches!(fields.len(), 5 | 7) && !fields.get(4).is_some_and(counts);
            match dialect::other(source, &fields, mend) {
                Some(error) => return Some(error),
                None => Hint::new(is_plain.then(|| source.original(inside).to_owned()), rule, EXAMPLE),
            }
        }
        "rate" => Hint::new(Some(format!("every {inside}")), "an interval follows every", EXAMPLE),
        _ => return None,
    };
    Some(source.error(ErrorKind::Cron, "clock", whole, "a clock stands without parentheses", hint))
}

/// A clock with a zone or a command behind it.
fn followed(source: &Source<'_>, fields: &[&str], mend: Mend<'_>) -> Option<ClockError> {
    let (at, foreign) = (5..=7).find_map(|at| Some((at, foreign(fields.get(at..)?)?)))?;
    let clock = mend.clock(&source.originals(&fields[..at]).join(" "))?;
    let hint = Hint::new(Some(clock), foreign.rule, EXAMPLE);
    Some(source.error(ErrorKind::Cron, "clock", fields[at], foreign.reason, hint))
}

fn wrong_count(source: &Source<'_>, fields: &[&str], mend: Mend<'_>) -> ClockError {
    let is_clock = |text: &String| {
        let lower = text.to_ascii_lowercase();
        text.len() <= LONGEST_TEXT && parse(&Source { text, lower: &lower }, mend).is_ok()
    };
    let resized = |length: usize| {
        let mut kept = source.originals(fields);
        kept.resize(length, "*");
        Some(kept.join(" ")).filter(is_clock)
    };
    // Of four fields the last is missing. Of eight one is too many, but which is plain only where the seventh is a year, or all are stars.
    let is_year = |field: &&str| field.parse::<u32>().is_ok_and(|year| (1970..=2099).contains(&year));
    let proposal = match fields.len() {
        4 => resized(5),
        8.. if is_year(&fields[6]) || fields.iter().all(|field| *field == "*") => resized(7),
        _ => None,
    };
    let reason = match fields.len() {
        0 => "the clock is empty".to_owned(),
        1 => "one field where five, six or seven are needed".to_owned(),
        count => format!("{count} fields where five, six or seven are needed"),
    };
    source.error(ErrorKind::Cron, "clock", source.text.trim(), reason, Hint::new(proposal, COUNTS, EXAMPLE))
}

fn read_field(source: &Source<'_>, field: Field, text: &str) -> Result<ReadField, ClockError> {
    let mut read =
        ReadField { star: text.starts_with('*'), only_star: text == "*" || text == "*/1", ..ReadField::default() };
    for part in text.split(',') {
        if part.is_empty() {
            let (reason, rule) = ("an empty item in the list", "a list has no empty items");
            let kept: Vec<&str> =
                text.split(',').filter(|part| !part.is_empty()).map(|part| source.original(part)).collect();
            return Err(match kept.as_slice() {
                [] => source.field_error(field, text, reason, rule),
                kept => source.repairable(field, text, reason, &kept.join(","), rule),
            });
        }
        let special = match field {
            Field::DayOfMonth => special_day(source, part, &mut read.days)?,
            Field::DayOfWeek => special_weekday(source, part, &mut read.days)?,
            Field::Second | Field::Minute | Field::Hour | Field::Month | Field::Year => false,
        };
        if !special {
            read.numeric.push(cron_item::read(source, field, part)?.text());
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
        "wl" => {
            return Err(source.repairable(field, part, "the letters are the wrong way round", "LW", "L comes first"))
        }
        _ => match part.strip_suffix('w') {
            Some(number) if number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() => {
                match number.parse::<u32>() {
                    Ok(day) if (1..=31).contains(&day) => days.nearest |= 1 << day,
                    Ok(_) | Err(_) => {
                        let rule = "the day before the W is from 1 to 31";
                        return Err(source.field_error(field, part, "out of range", rule).with_example("0 9 15W * *"));
                    }
                }
            }
            Some(_) => {
                let rule = "W follows one day or L";
                return Err(source
                    .field_error(field, part, "W without a single day before it", rule)
                    .with_example("0 9 15W * *"));
            }
            None if part.starts_with('l') => {
                let rule = "L stands alone, for the last day of the month, and no clock counts back from it";
                return Err(source.field_error(field, part, "characters after L", rule).with_example("0 9 L * *"));
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
            let rule = "one day of the week, 0 to 7 or sun to sat, stands before the #";
            return Err(source
                .field_error(field, part, "no single day of the week before #", rule)
                .with_example("0 9 * * 5#2"));
        };
        let Some(index) = ["1", "2", "3", "4", "5"].iter().position(|&k| k == nth) else {
            let rule = "the number after the # is from 1 to 5";
            return Err(source
                .field_error(field, part, "no number from 1 to 5 after #", rule)
                .with_example("0 9 * * 5#2"));
        };
        days.week_nth[index] |= 1 << weekday;
        return Ok(true);
    }
    if let Some(day) = part.strip_suffix('l') {
        let Some(weekday) = weekday(day) else {
            let rule = "one day of the week stands before the L";
            return Err(source
                .field_error(field, part, "L without a single day of the week before it", rule)
                .with_example("0 9 * * 5L"));
        };
        days.week_last |= 1 << weekday;
        return Ok(true);
    }
    Ok(false)
}

/// A single day of the week, Sunday = 0.
fn weekday(text: &str) -> Option<u32> {
    if let Some(day) = Field::DayOfWeek.number_of(text) {
        return Some(day);
    }
    match text.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(u32::from(digit - b'0') % 7),
        _ => None,
    }
}

/// Hands the plain items to the crate and takes its sets. `None` only if the crate refuses what was checked here.
fn compile(read: &[ReadField; 7], has_year: bool, both: bool) -> Option<Cron> {
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
    // Where a field begins with a star the + says nothing more, and two texts that mean the same are equal.
    let both = both && !month_read.star && !week_read.star;
    let mut days = Days { month_star: month_read.star, week_star: week_read.star, both, ..month_read.days };
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
