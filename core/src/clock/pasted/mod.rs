//! What was plainly meant by texts that are pasted from elsewhere: with quotes around them, with a printer's dashes, as an interval alone, in
//! the words of another scheduler, or as somebody would say it.
//!
//! A text is told a clock only where that has the same plan times. Where it has none, or two meanings, a sentence says so.

mod call;
mod foreign;
mod jenkins;
mod on_calendar;
pub(crate) mod phrase;
mod wrapping;

use super::text::BLANKS;

/// The meaning of a text that is no clock here.
#[derive(Debug)]
pub(crate) enum Meant {
    /// A clock, which has to be read yet, and the rule that it keeps.
    Clock(String, &'static str),
    /// No one clock: a sentence without its full stop.
    Sentence(String),
}

/// Words of systemd, Rundeck and others that mean one thing everywhere. (`weekly` is Monday for one and Sunday for the other.)
const WORDS: [(&str, &str); 15] = [
    ("hourly", "@hourly"),
    ("daily", "@daily"),
    ("midnight", "@midnight"),
    ("monthly", "@monthly"),
    ("yearly", "@yearly"),
    ("annually", "@annually"),
    ("minutely", "* * * * *"),
    ("@minutely", "* * * * *"),
    ("@every_minute", "* * * * *"),
    ("everyminute", "* * * * *"),
    ("every minute", "* * * * *"),
    ("quarterly", "0 0 1 */3 *"),
    ("@quarterly", "0 0 1 */3 *"),
    ("semiannually", "0 0 1 */6 *"),
    ("@semiannually", "0 0 1 */6 *"),
];

/// The meaning of a text, if it is one of these kinds.
pub(crate) fn meant(text: &str) -> Option<Meant> {
    let whole = text.trim_matches(BLANKS);
    let text = text.trim();
    if text != whole && !text.is_empty() {
        return Some(Meant::Clock(text.to_owned(), "a clock is one line"));
    }
    if let Some((inside, rule)) = wrapping::unwrapped(text) {
        return Some(Meant::Clock(inside, rule));
    }
    if let Some((zone, clock)) = wrapping::zone_before(text) {
        // (On one line a macro or an interval may follow the zone.)
        return Some(if jenkins::is_hashed(clock) {
            Meant::Sentence(format!("give {zone} as time_zone, and a value for each H: jitter spreads the runs"))
        } else {
            Meant::Clock(clock.to_owned(), "give the zone as time_zone")
        });
    }
    if text.contains(['\n', '\r']) {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let is_clock = |line: &&str| line.split_ascii_whitespace().count() >= 5;
        return Some(if lines.len() > 1 && lines.iter().all(is_clock) {
            Meant::Sentence("each line is a clock of its own: make a schedule for each".to_owned())
        } else {
            Meant::Clock(lines.join(" "), "a clock is one line")
        });
    }
    let lower = text.to_ascii_lowercase();
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if let Some((_, clock)) = WORDS.iter().find(|(word, _)| *word == fields.join(" ").to_ascii_lowercase()) {
        return Some(Meant::Clock((*clock).to_owned(), "so it is written here"));
    }
    if let Some(meant) = call::meant(text).or_else(|| jenkins::meant(&fields)).or_else(|| foreign::meant(text, &lower))
    {
        return Some(meant);
    }
    if let Some(clock) = phrase::crontab(&lower) {
        return Some(Meant::Clock(clock, phrase::RULE));
    }
    if is_interval(&lower) {
        return Some(interval(text));
    }
    if let Some(meant) = on_calendar::meant(text) {
        return Some(meant);
    }
    if let [minute, hour, "$", month, week] = fields[..] {
        return Some(Meant::Clock(format!("{minute} {hour} L {month} {week}"), "L is the last day of the month"));
    }
    let joined = joined(&fields);
    let count = joined.split(' ').count();
    ((5..=7).contains(&count) && count < fields.len())
        .then_some(Meant::Clock(joined, "a list and a range have no blanks"))
}

/// A number with a unit, an ISO 8601 interval, or hours, minutes and seconds: no time of day has its seconds said.
fn is_interval(lower: &str) -> bool {
    let begins = lower.starts_with(|c: char| c.is_ascii_digit()) || lower.starts_with('p');
    let has_unit = lower.contains(|c: char| c.is_ascii_alphabetic()) || lower.matches(':').count() == 2;
    let is_plain = lower.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ' || c == ':' || c == '.');
    begins && has_unit && is_plain
}

fn interval(text: &str) -> Meant {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    if &text[number.len()..] == "M" && number.bytes().all(|b| b.is_ascii_digit()) {
        return Meant::Sentence(format!(
            "M is a month in some programs and a minute in others: \"every {number} months\" or \"every {number} minutes\""
        ));
    }
    // .NET's TimeSpan of so many hours is days.
    if text.split_once(':').is_some_and(|(hours, _)| hours.parse().is_ok_and(|hours: u32| hours > 23)) {
        return Meant::Sentence("some programs read 24:00:00 as 24 days: write the unit of each number".to_owned());
    }
    Meant::Clock(format!("every {text}"), "an interval follows every")
}

/// The fields without blanks in lists, ranges and steps. (A word that begins with a slash is a command.)
fn joined(fields: &[&str]) -> String {
    let mut out = String::new();
    for field in fields {
        let goes_on = out.ends_with([',', '-', '/']) || field.starts_with([',', '-']) || *field == "/";
        if !out.is_empty() && !goes_on {
            out.push(' ');
        }
        out.push_str(field);
    }
    out
}
