//! The text of an `every` clock: an interval, and perhaps `from` a date-time.

use super::datetime;
use super::error::{quoted, ClockError, ErrorKind, Source};
use super::every::{Anchor, Every};
use super::interval::{Fault, Interval};
use super::interval_words;

const BLANKS: [char; 2] = [' ', '\t'];

/// Reads what follows `every`; `rest` is a slice of the source without blanks around it.
pub(crate) fn parse(source: &Source<'_>, rest: &str) -> Result<Every, ClockError> {
    let (interval, from) = split(rest);
    let interval = read_interval(source, interval, rest)?;
    let anchor = match from {
        None => Anchor::Given,
        Some("") => {
            let hint = "Write \"every 1 day from 2027-01-01 09:00+00\", for example, or leave the from away.";
            return Err(source.error(ErrorKind::DateTimeSyntax, "clock", rest, "no date-time after from", hint));
        }
        Some("epoch") => Anchor::Epoch,
        Some(at) => Anchor::From(datetime::parse(source, at)?),
    };
    Ok(Every { interval, anchor })
}

/// The interval, and what follows the word `from`.
fn split(rest: &str) -> (&str, Option<&str>) {
    for (at, _) in rest.match_indices("from") {
        let (before, after) = (&rest[..at], &rest[at + 4..]);
        if (before.is_empty() || before.ends_with(BLANKS)) && (after.is_empty() || after.starts_with(BLANKS)) {
            return (before.trim_matches(BLANKS), Some(after.trim_matches(BLANKS)));
        }
    }
    (rest, None)
}

fn read_interval(source: &Source<'_>, piece: &str, rest: &str) -> Result<Interval, ClockError> {
    if piece.is_empty() {
        let hint = "Write \"every 5 minutes\", for example.";
        return Err(source.error(ErrorKind::IntervalSyntax, "clock", rest, "no interval after every", hint));
    }
    let original = source.original(piece);
    let interval = interval_words::parse(original, piece).map_err(|fault| {
        let repaired = quoted(&source.repaired(piece, &repair(piece)));
        let (kind, reason, hint) = match fault {
            Fault::NoUnit => {
                (ErrorKind::IntervalSyntax, "a number has no unit", format!("Write {repaired}, for example."))
            }
            Fault::BadFormat => (
                ErrorKind::IntervalSyntax,
                "not an interval",
                format!("Write {repaired}, for example: numbers with units, hh:mm:ss, or ISO 8601 such as PT5M."),
            ),
            Fault::Overflow => (
                ErrorKind::IntervalOverflow,
                "the interval is out of range",
                format!("Write a smaller number, as in {}.", quoted(&source.repaired(piece, "1 day"))),
            ),
        };
        source.error(kind, "interval", piece, reason, hint)
    })?;
    let Interval { months, days, micros } = interval;
    let negative = months < 0 || days < 0 || micros < 0;
    let positive = months > 0 || days > 0 || micros > 0;
    let reason = match (positive, negative) {
        (true, false) => return Ok(interval),
        (true, true) => "the interval has parts of different signs",
        (false, true) => "the interval is negative",
        (false, false) => "the interval is zero",
    };
    let repaired = quoted(&source.repaired(piece, &positive_form(piece)));
    let hint = format!("Write {repaired}, for example: a clock only runs forwards.");
    Err(source.error(ErrorKind::IntervalSign, "interval", piece, reason, hint))
}

/// The interval that an unreadable one was probably meant to be.
fn repair(piece: &str) -> String {
    const UNITS: [&str; 9] =
        ["seconds", "minutes", "hours", "days", "weeks", "months", "years", "milliseconds", "microseconds"];
    let mut words = Vec::new();
    let mut rest = piece;
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphabetic();
        let end = rest.find(|c: char| c.is_alphabetic() != is_word).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let near =
            |length: usize| token.get(..length).and_then(|start| UNITS.iter().find(|unit| unit.starts_with(start)));
        words.push(if is_word { near(3).or(near(2)).map_or(token, |unit| unit) } else { token.trim_matches(BLANKS) });
        rest = after;
    }
    // ISO 8601 in lower case, an unknown spelling of a unit, a unit without its number.
    let upper = piece.to_ascii_uppercase();
    if interval_words::parse(&upper, piece).is_ok_and(is_positive) {
        return upper;
    }
    for candidate in [words.join(" "), format!("1 {}", words.join(" "))] {
        if interval_words::parse(&candidate, &candidate).is_ok_and(is_positive) {
            return candidate;
        }
    }
    let digits: String = piece.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    match digits.parse::<i32>() {
        Ok(n) if n > 0 => format!("{n} minute{}", if n == 1 { "" } else { "s" }),
        Ok(_) | Err(_) => "5 minutes".to_owned(),
    }
}

/// The same interval without its signs, where that makes it positive.
fn positive_form(piece: &str) -> String {
    let candidate = piece.replace(['-', '+'], "").replace("ago", "");
    let candidate = candidate.trim_matches(BLANKS);
    if interval_words::parse(candidate, candidate).is_ok_and(is_positive) {
        candidate.to_owned()
    } else {
        "5 minutes".to_owned()
    }
}

fn is_positive(interval: Interval) -> bool {
    let Interval { months, days, micros } = interval;
    months >= 0 && days >= 0 && micros >= 0 && (months > 0 || days > 0 || micros > 0)
}
