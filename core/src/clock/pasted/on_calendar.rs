//! systemd's `OnCalendar`: days of the week, a date and a time, all of which must match. What is left out of a date is a star, and
//! of a time it is 0. Source: the manual page systemd.time(7).

use super::Meant;
use crate::clock::cron::field::Field;

const RULE: &str = "days, months and times are said in the fields of a crontab";

/// The clock of such a text; a sentence where it is one and no clock here means it.
pub(super) fn meant(text: &str) -> Option<Meant> {
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let is_marked = |word: &str| {
        let plain = word.chars().all(|c| c.is_ascii_digit() || "*~-:./,".contains(c));
        plain
            && (word.contains([':', '~'])
                || (word.contains('-') && (word.contains('*') || word.matches('-').count() > 1)))
    };
    let has_sign = text.contains(['*', '~']) || text.contains("..");
    let is_date = |word: &str| word.contains('-') && word.starts_with(|c: char| c.is_ascii_digit() || c == '*');
    // (A date alone, and a time alone, are something else in other programs.)
    if words.len() > 4 || !words.iter().any(|word| is_marked(word)) || !has_sign {
        return None;
    }
    let zone = words.last().filter(|word| word.chars().all(|c| c.is_ascii_alphabetic() || "/_".contains(c)));
    let has_zone = zone.is_some_and(|zone| words.len() > 1 && week_days(zone).is_none());
    if has_zone {
        words.pop();
    }
    let mut rest = words.as_slice();
    let mut take = |wanted: fn(&str) -> bool| {
        let (&first, after) = rest.split_first()?;
        wanted(first).then(|| {
            rest = after;
            first
        })
    };
    let week = take(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let date = take(|word| word.contains(['-', '~']) && !word.contains(':'));
    let time = take(|word| word.contains(':'));
    let complete = rest.is_empty() && (date.is_none_or(is_date) || date.is_some_and(|date| date.contains('~')));
    let clock = complete.then(|| clock(week, date, time)).flatten();
    Some(match clock {
        Some(clock) if has_zone => Meant::Clock(clock, "give the zone as time_zone"),
        Some(clock) => Meant::Clock(clock, RULE),
        None => Meant::Sentence(
            "this text of systemd has no clock here: write its days and times in the fields of a crontab".to_owned(),
        ),
    })
}

fn clock(week: Option<&str>, date: Option<&str>, time: Option<&str>) -> Option<String> {
    let week = week.map_or_else(|| Some("*".to_owned()), week_days)?;
    let (year, month, day) =
        date.map_or_else(|| Some(("*".to_owned(), "*".to_owned(), "*".to_owned())), fields_of_date)?;
    let parts: Vec<&str> = time.unwrap_or("00:00").split(':').collect();
    let (hour, minute, second) = match parts[..] {
        [hour, minute] => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let [hour, minute, second] = [(hour, 23), (minute, 59), (second, 59)].map(|(text, last)| numbers(text, last));
    let (hour, minute, second) = (hour?, minute?, second?);
    let week = if week == "*" || day.starts_with('*') { week } else { format!("+{week}") };
    // (A star in the minutes would make a clock of times of day follow the wall clock.)
    let step = minute.strip_prefix("0-59/").filter(|step| hour == "*" && !step.contains(','));
    let minute = step.map_or(minute.clone(), |step| format!("*/{step}"));
    let five = format!("{minute} {hour} {day} {month} {week}");
    Some(match (second.as_str(), year.as_str()) {
        ("0", "*") => five,
        (_, "*") => format!("{second} {five}"),
        _ => format!("{second} {five} {year}"),
    })
}

/// Year, month and day.
fn fields_of_date(date: &str) -> Option<(String, String, String)> {
    // The last day of the month.
    let (date, last) = match date.strip_suffix("~1").or_else(|| date.strip_suffix("~01")) {
        Some(before) => (format!("{before}-*"), true),
        None => (date.to_owned(), false),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let (year, month, day) = match parts[..] {
        [month, day] => ("*", month, day),
        [year, month, day] => (year, month, day),
        _ => return None,
    };
    let day = if last { "L".to_owned() } else { numbers(day, 31)? };
    let years = if year == "*" { year.to_owned() } else { numbers(year, 2099).filter(|_| year.len() >= 4)? };
    Some((years, numbers(month, 12)?, day))
}

/// The field of a crontab for systemd's list of numbers, ranges `a..b` and steps `a/n`.
fn numbers(text: &str, last: u32) -> Option<String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let items = text.split(',').map(|item| {
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(number(step).filter(|&step| step > 0)?)),
            None => (item, None),
        };
        let stepped = |range: String| step.map_or(range.clone(), |step| format!("{range}/{step}"));
        if base == "*" {
            return Some(stepped("*".to_owned()));
        }
        if let Some((first, last)) = base.split_once("..") {
            return Some(stepped(format!("{}-{}", number(first)?, number(last)?)));
        }
        let first = number(base)?;
        Some(match step {
            None => first.to_string(),
            Some(step) => format!("{first}-{last}/{step}"),
        })
    });
    items.collect::<Option<Vec<_>>>().map(|items| items.join(","))
}

/// `Mon..Fri`, `Sat,Sun`, `Monday`.
fn week_days(text: &str) -> Option<String> {
    let field = Field::DayOfWeek;
    let day = |name: &str| field.number_of(name).or_else(|| field.number_of(field.shortened(name)?));
    let lower = text.trim_end_matches(',').to_ascii_lowercase();
    let items = lower.split(',').map(|item| match item.split_once("..").or_else(|| item.split_once('-')) {
        Some((first, last)) => {
            let (first, last) = (day(first)?, day(last)?);
            // Its weeks end on Sunday.
            let last = if last == 0 { 7 } else { last };
            (first > 0 && first <= last).then(|| format!("{first}-{last}"))
        }
        None => day(item).map(|day| day.to_string()),
    });
    items.collect::<Option<Vec<_>>>().map(|items| items.join(","))
}
