//! Days and times as somebody would say them, or App Engine's scheduler has them: `every monday 09:00`, `1st monday of month`.

use crate::clock::cron::field::Field;

/// The rule that the clocks of such phrases keep.
pub(crate) const RULE: &str = "days of the week and times of day are said in the fields of a crontab";

const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// The fields of the days: day of month, month, day of week.
struct Days {
    month_day: String,
    month: String,
    week_day: String,
    /// `every day` alone says no time.
    needs_time: bool,
}

/// The crontab that a phrase in lower case means, if it means one.
pub(crate) fn crontab(lower: &str) -> Option<String> {
    let spaced = lower.replace(',', " and ").replace('@', " at ");
    let mut words: Vec<&str> = spaced.split_ascii_whitespace().collect();
    // An `and` twice is what a comma before it leaves.
    words.dedup_by(|a, b| *a == "and" && *b == "and");
    let mut rest = words.as_slice();
    skip(&mut rest, &["every", "each", "on"]);
    let is_bare = words.len() == rest.len() && words.len() == 1;
    let days = days(&mut rest)?;
    skip(&mut rest, &["and", "at"]);
    let says_at = words.len() > rest.len() && words[words.len() - rest.len() - 1] == "at";
    let (hours, minute) = match rest {
        [] if days.needs_time || says_at || is_bare => return None,
        [] => ("0".to_owned(), 0),
        times => times_of_day(times, says_at)?,
    };
    Some(format!("{minute} {hours} {} {} {}", days.month_day, days.month, days.week_day))
}

/// Leaves the words out with which the rest begins, each once.
fn skip(rest: &mut &[&str], known: &[&str]) {
    for word in known {
        if rest.first() == Some(word) {
            *rest = &rest[1..];
        }
    }
}

fn days(rest: &mut &[&str]) -> Option<Days> {
    let star = || "*".to_owned();
    let weekly = |week_day: String| Days { month_day: star(), month: star(), week_day, needs_time: false };
    // `every 1 day at 09:00`
    if let ["1", "day" | "days", "at", ..] = rest {
        *rest = &rest[1..];
    }
    let (&first, after) = rest.split_first()?;
    if matches!(first, "day" | "days" | "daily") {
        *rest = after;
        let month = months(rest)?;
        return Some(Days { month, needs_time: true, ..weekly(star()) });
    }
    if matches!(first, "weekday" | "weekdays" | "weekend" | "weekends") {
        *rest = after;
        return Some(weekly(if first.starts_with("weekd") { "1-5" } else { "0,6" }.to_owned()));
    }
    if let Some(week_days) = listed(rest, week_day) {
        let month = months(rest)?;
        return Some(Days { month, ..weekly(week_days.join(",")) });
    }
    let nth = listed(rest, ordinal)?;
    let (&what, after) = rest.split_first()?;
    let monthly = |month_day: String, month: String| Days { month_day, month, week_day: star(), needs_time: false };
    match what {
        "day" | "of" => {
            *rest = if what == "day" { after } else { rest };
            let month = required_months(rest)?;
            Some(monthly(nth.join(","), month))
        }
        "weekday" => {
            *rest = after;
            let month = required_months(rest)?;
            // The Monday to Friday nearest to the 1st, and in its month, is the first of them.
            match nth.as_slice() {
                [one] if one == "1" => Some(monthly("1W".to_owned(), month)),
                [last] if last == "L" => Some(monthly("LW".to_owned(), month)),
                _ => None,
            }
        }
        _ => {
            let week_days = listed(rest, week_day)?;
            let month = required_months(rest)?;
            let mut all = Vec::new();
            for n in &nth {
                for day in &week_days {
                    all.push(match n.as_str() {
                        "L" => format!("{day}L"),
                        n if n.parse().is_ok_and(|n: u32| n <= 5) => format!("{day}#{n}"),
                        _ => return None,
                    });
                }
            }
            Some(Days { month, ..weekly(all.join(",")) })
        }
    }
}

/// The words that `and` joins, each as `read` has it; `None`, and nothing is taken, where the first is none.
fn listed(rest: &mut &[&str], read: fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let mut words = *rest;
    let mut found = vec![read(words.first()?)?];
    words = &words[1..];
    while let ["and", word, ..] = words {
        let Some(one) = read(word) else { break };
        found.push(one);
        words = &words[2..];
    }
    *rest = words;
    Some(found)
}

fn week_day(word: &str) -> Option<String> {
    let field = Field::DayOfWeek;
    let number = |word: &str| field.number_of(word).or_else(|| field.number_of(field.shortened(word)?));
    number(word).or_else(|| number(word.strip_suffix('s')?)).map(|day| day.to_string())
}

fn month(word: &str) -> Option<String> {
    let field = Field::Month;
    field.number_of(word).or_else(|| field.number_of(field.shortened(word)?)).map(|month| month.to_string())
}

/// `1st`, `third`, `last` (`L`).
fn ordinal(word: &str) -> Option<String> {
    if word == "last" {
        return Some("L".to_owned());
    }
    if let Some(at) = ORDINALS.iter().position(|known| *known == word) {
        return Some((at + 1).to_string());
    }
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending))?;
    digits.parse().ok().filter(|n: &u32| (1..=31).contains(n)).map(|n| n.to_string())
}

/// `of march`, `of the month`; a star where nothing of it follows.
fn months(rest: &mut &[&str]) -> Option<String> {
    if matches!(rest.first(), Some(&("of" | "in"))) {
        required_months(rest)
    } else {
        Some("*".to_owned())
    }
}

fn required_months(rest: &mut &[&str]) -> Option<String> {
    let ["of" | "in", ..] = rest else { return None };
    *rest = &rest[1..];
    skip(rest, &["the", "each", "every"]);
    if matches!(rest.first(), Some(&("month" | "months"))) {
        *rest = &rest[1..];
        return Some("*".to_owned());
    }
    listed(rest, month).map(|months| months.join(","))
}

/// Times with one minute: their hours, and that.
fn times_of_day(words: &[&str], says_at: bool) -> Option<(String, u32)> {
    let mut found = Vec::new();
    let mut rest = words;
    loop {
        let (&word, mut after) = rest.split_first()?;
        let half = after.first().filter(|half| matches!(**half, "am" | "pm"));
        let text = format!("{word}{}", half.unwrap_or(&""));
        // A number alone is an hour only where that is said.
        if !says_at && text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        if half.is_some() {
            after = &after[1..];
        }
        found.push(time_of_day(&text)?);
        match after {
            [] => break,
            ["and", "at", next @ ..] | ["and", next @ ..] => rest = next,
            _ => return None,
        }
    }
    let minute = found[0].1;
    let hours: Vec<String> = found.iter().map(|(hour, _)| hour.to_string()).collect();
    found.iter().all(|(_, other)| *other == minute).then(|| (hours.join(","), minute))
}

/// `9`, `09:30`, `5pm`, `noon`.
fn time_of_day(text: &str) -> Option<(u32, u32)> {
    match text {
        "noon" => return Some((12, 0)),
        "midnight" => return Some((0, 0)),
        _ => {}
    }
    let half = |suffix: &str| text.strip_suffix(suffix).map(|time| (time, suffix == "pm"));
    let (time, afternoon) = match half("am").or_else(|| half("pm")) {
        Some((time, afternoon)) => (time, Some(afternoon)),
        None => (text, None),
    };
    let number = |digits: &str| {
        let is_number = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse::<u32>().ok()).flatten()
    };
    let (hour, minute) = match time.split_once(':') {
        Some((hour, minute)) => {
            let minute = minute.strip_suffix(":00").unwrap_or(minute);
            (number(hour)?, number(minute).filter(|_| minute.len() == 2)?)
        }
        None => (number(time)?, 0),
    };
    let hour = match afternoon {
        None => hour,
        Some(afternoon) if (1..=12).contains(&hour) => hour % 12 + if afternoon { 12 } else { 0 },
        Some(_) => return None,
    };
    (hour < 24 && minute < 60).then_some((hour, minute))
}
