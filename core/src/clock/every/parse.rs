//! The text of an `every` clock: an interval, and perhaps `from` a date-time, `after start` or `after end`.

use crate::clock::datetime;
use crate::clock::error::{quoted, ClockError, ErrorKind, Hint, Source};
use crate::clock::pasted::phrase;
use crate::clock::suggest;
use crate::clock::text::BLANKS;

use super::interval::{Interval, IntervalFault};
use super::interval_words;
use super::{Anchor, Every, RunEdge};

const EXAMPLE: &str = "every 5 minutes";

/// Reads what follows `every`; `rest` is a slice of the source without blanks around it.
pub(crate) fn parse(source: &Source<'_>, rest: &str) -> Result<Every, ClockError> {
    if let Some((interval, edge)) = split(rest, "after") {
        return after_run(source, interval, edge, rest);
    }
    let (interval, from) = match split(rest, "from") {
        Some((interval, from)) => (interval, Some(from)),
        None => (rest, None),
    };
    let interval = read_interval(source, interval, rest)?;
    let anchor = match from {
        None => Anchor::Given,
        Some("") => {
            let hint = Hint::new(None, "a date-time follows from", "every 1 day from 2027-01-01 09:00+00");
            return Err(source.error(ErrorKind::DateTimeSyntax, "clock", rest, "no date-time after from", hint));
        }
        Some("epoch") => Anchor::Epoch,
        Some(at) => Anchor::From(datetime::parse(source, at)?),
    };
    Ok(Every { interval, anchor })
}

/// `after start` and `after end`.
fn after_run(source: &Source<'_>, interval: &str, edge: &str, rest: &str) -> Result<Every, ClockError> {
    let edge = match edge {
        "start" => RunEdge::Start,
        "end" => RunEdge::End,
        _ => {
            let rule = "start or end of the last run follows after, and nothing else";
            let proposed = |word: &str| source.repaired(rest, &format!("{} after {word}", source.original(interval)));
            let proposal = match edge.split(BLANKS).next().unwrap_or_default() {
                "finish" | "finished" | "completion" | "stop" | "ended" | "end" => Some(proposed("end")),
                "begin" | "beginning" | "started" | "start" => Some(proposed("start")),
                _ => None,
            };
            let hint = Hint::new(proposal, rule, "every 30 seconds after end");
            return Err(source.error(ErrorKind::IntervalSyntax, "clock", rest, "no start or end after after", hint));
        }
    };
    Ok(Every { interval: read_interval(source, interval, rest)?, anchor: Anchor::Run(edge) })
}

/// The interval, and what follows this word.
fn split<'r>(rest: &'r str, word: &str) -> Option<(&'r str, &'r str)> {
    rest.match_indices(word).find_map(|(at, _)| {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let alone = (before.is_empty() || before.ends_with(BLANKS)) && (after.is_empty() || after.starts_with(BLANKS));
        alone.then(|| (before.trim_matches(BLANKS), after.trim_matches(BLANKS)))
    })
}

fn read_interval(source: &Source<'_>, piece: &str, rest: &str) -> Result<Interval, ClockError> {
    if piece.is_empty() {
        let hint = Hint::new(None, "an interval follows every", EXAMPLE);
        return Err(source.error(ErrorKind::IntervalSyntax, "clock", rest, "no interval after every", hint));
    }
    let read = |text: &str| interval_words::parse(text, &text.to_ascii_lowercase());
    let interval = read(source.original(piece)).map_err(|fault| {
        let (kind, reason, rule) = match fault {
            IntervalFault::NoUnit => (ErrorKind::IntervalSyntax, "a number has no unit", "each number has a unit"),
            IntervalFault::BadFormat => (
                ErrorKind::IntervalSyntax,
                "not an interval",
                "an interval is numbers with units, hh:mm:ss, or ISO 8601 such as PT5M",
            ),
            IntervalFault::Overflow => {
                (ErrorKind::IntervalOverflow, "the interval is out of range", "the numbers of an interval are smaller")
            }
        };
        let hint = match suggest::every(source, piece, rest).filter(|_| fault != IntervalFault::Overflow) {
            Some((text, rule)) => Hint::new(Some(text), rule, EXAMPLE),
            None => Hint::new(None, rule, with_unit(piece)),
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
    let unsigned = piece.replace(['-', '+'], "").replace("ago", "");
    let turned = read(&unsigned).ok().filter(Interval::is_positive);
    let turned = turned.map(|interval| source.repaired(piece, &interval.to_string()));
    let rule = "a clock only runs forwards";
    let hint = match turned {
        // Of parts of different signs either may be the slip.
        Some(text) if positive => Hint::new(None, rule, text),
        turned => Hint::new(turned, rule, EXAMPLE),
    };
    Err(source.error(ErrorKind::IntervalSign, "interval", piece, reason, hint))
}

/// The error of a day with a time behind it, which may be meant as a time of day. PostgreSQL takes no notice of a unit without a number.
pub(crate) fn time_of_day(source: &Source<'_>, every: &Every) -> Option<ClockError> {
    let rest = source.lower.trim_matches(BLANKS).strip_prefix("every")?.trim_matches(BLANKS);
    let piece = ["after", "from"].iter().find_map(|word| split(rest, word)).map_or(rest, |(piece, _)| piece);
    let word = interval_words::unit_before_time(piece)?;
    let interval = quoted(&format!("every {}", every.interval.in_units()));
    let crontab = phrase::crontab(piece).filter(|_| every.anchor == Anchor::Given);
    let rule = crontab.map_or_else(
        || format!("each unit has a number before it, and an interval of so many hours is {interval}"),
        |crontab| format!("a time of day is {}, and an interval of so many hours is {interval}", quoted(&crontab)),
    );
    let hint = Hint::new(None, rule, "");
    Some(source.error(ErrorKind::IntervalSyntax, "interval", piece, format!("{word} has no number"), hint))
}

/// An example with the number that the text is about, where it is about one.
fn with_unit(piece: &str) -> String {
    let number = piece.split(BLANKS).next().unwrap_or_default();
    match number.parse::<u32>() {
        Ok(n) if n > 1 && !piece.contains(char::is_alphabetic) => format!("every {n} minutes"),
        Ok(_) | Err(_) => EXAMPLE.to_owned(),
    }
}
