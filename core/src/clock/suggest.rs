//! What was plainly meant by texts that are no clocks here: clocks with a zone or a command behind them, intervals that
//! are misspelt, and phrases that are crontabs.

use super::cron::field::Field;
use super::error::Source;
use super::every::interval_words;
use super::pasted::phrase;
use super::text::{words, BLANKS};

/// Something that follows a clock and is no part of it.
pub(crate) struct Foreign {
    /// What is wrong.
    pub reason: &'static str,
    /// What to do, as a clause.
    pub rule: &'static str,
}

pub(crate) const ZONE: Foreign =
    Foreign { reason: "the zone is not part of a clock", rule: "give the zone as time_zone" };
pub(crate) const COMMAND: Foreign =
    Foreign { reason: "a command is not part of a clock", rule: "what is run belongs to the job" };

/// Zones that go by letters.
const ZONES: [&str; 26] = [
    "z", "zulu", "utc", "uct", "gmt", "wet", "west", "bst", "cet", "cest", "eet", "eest", "msk", "est", "edt", "cst",
    "cdt", "mst", "mdt", "pst", "pdt", "hst", "jst", "aest", "nzst", "nzdt",
];

/// What the words behind a clock begin with, if they are no fields: a zone, or a command, which a user's name may stand before. A word
/// alone may be a day of the week in somebody's spelling.
pub(crate) fn foreign(words: &[&str]) -> Option<Foreign> {
    let is_path = |text: &str| text.starts_with('/') && text[1..].starts_with(|c: char| c.is_ascii_alphabetic());
    let word = words.first()?.to_ascii_lowercase();
    let letters = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
    let (name, rest) = word.split_at(letters);
    // `UTC`, `EST5EDT`, `GMT+2`.
    let has_offset = rest.is_empty() || rest.starts_with(|c: char| "+-".contains(c) || c.is_ascii_digit());
    if (ZONES.contains(&name) && has_offset) || (letters > 1 && is_path(rest) && !word.contains('.')) {
        Some(ZONE)
    } else {
        let is_day = name.get(..3).is_some_and(|start| Field::DayOfWeek.number_of(start).is_some());
        let is_user = letters > 1 && !is_day && words.get(1).is_some_and(|command| is_path(command));
        (is_path(&word) || is_user).then_some(COMMAND)
    }
}

/// The clock that a text after `every` was plainly meant to be, if PostgreSQL cannot read it as an interval: `piece` is
/// the interval, `rest` all that follows.
pub(crate) fn every(source: &Source<'_>, piece: &str, rest: &str) -> Option<(String, &'static str)> {
    if let Some(text) = begun(source.original(rest)) {
        return Some((text, "the date-time of its beginning stands after from"));
    }
    if let Some(text) = phrase::crontab(piece).filter(|_| piece == rest) {
        return Some((text, phrase::RULE));
    }
    Some((source.repaired(piece, &respelt(piece)?), "an interval is numbers with units"))
}

/// `2 hours starting at 2027-01-01`: other words for `from`.
fn begun(rest: &str) -> Option<String> {
    let words = words(rest);
    let is = |word: &str, known: &[&str]| known.contains(&word.to_ascii_lowercase().as_str());
    let at = words.iter().position(|word| is(word, &["starting", "beginning", "since"]))?;
    let (interval, mut anchor) = (&words[..at], &words[at + 1..]);
    if let [first, after @ ..] = anchor {
        if is(first, &["at", "on", "from"]) {
            anchor = after;
        }
    }
    Some(format!("every {} from {}", interval.join(" "), anchor.join(" ")))
}

/// An interval whose units are misspelt, or that lacks the number 1, or is ISO 8601 in lower case.
fn respelt(piece: &str) -> Option<String> {
    let is_interval =
        |text: &String| interval_words::parse(text, &text.to_ascii_lowercase()).is_ok_and(|found| found.is_positive());
    let upper = Some(piece.to_ascii_uppercase()).filter(|text| text.starts_with('P'));
    if let Some(text) = upper.filter(is_interval) {
        return Some(text);
    }
    let is_calendar = |field: Field| field.number_of(piece).is_some() || field.shortened(piece).is_some();
    let mut rest = piece.to_owned();
    if piece.bytes().all(|b| b.is_ascii_alphabetic())
        && ![Field::DayOfWeek, Field::Month].map(is_calendar).contains(&true)
    {
        rest.insert(0, '1');
    }
    // Numbers and words by turns, and nothing else.
    let mut parts = Vec::new();
    let mut rest = rest.as_str();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|&digits| digits > 0)?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start_matches(BLANKS);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (word, after) = after.split_at(letters);
        let unit = unit(word)?;
        let singular = unit.strip_suffix('s').filter(|unit| number == "1" && unit.len() > 2);
        parts.push(format!("{number} {}", singular.unwrap_or(unit)));
        rest = after.trim_start_matches(BLANKS);
    }
    Some(parts.join(" ")).filter(is_interval)
}

/// The unit that a word is, or is a slip of: one letter in three may be wrong, never the first.
fn unit(word: &str) -> Option<&str> {
    const UNITS: [&str; 9] =
        ["microseconds", "milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "years"];
    if interval_words::parse("", &format!("1 {word}")).is_ok() && !word.is_empty() {
        return Some(word);
    }
    let near = |unit: &&'static str| {
        let slips = slips(word, unit).min(slips(word, &unit[..unit.len() - 1]));
        (word.get(..1) == unit.get(..1) && slips <= 2.min(word.len() / 3)).then_some((slips, *unit))
    };
    let mut found: Vec<_> = UNITS.iter().filter_map(near).collect();
    found.sort_unstable();
    match found[..] {
        [(_, unit)] => Some(unit),
        [(nearest, unit), (second, _), ..] if nearest < second => Some(unit),
        _ => None,
    }
}

/// How many letters have to be put in, left out or exchanged to make one word of the other (Levenshtein).
fn slips(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let least = (corner + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], least);
        }
    }
    row[b.len()]
}
