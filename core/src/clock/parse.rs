//! From a clock's text to the clock, or to the error that shows what to write instead.
//!
//! A hint shows only clocks that can be read. So what an error proposes is read in turn, and mended where it has faults of
//! its own.

use std::cell::Cell;

use super::error::{ClockError, ErrorKind, Hint, Mend, Source};
use super::pasted::{self, Meant};
use super::text::{BLANKS, LONGEST_NEW_TEXT, LONGEST_TEXT};
use super::{cron, datetime, every, Clock};

impl Clock {
    /// Reads a clock's text; the error says what is wrong, where, and what to write instead.
    pub fn parse(text: &str) -> Result<Clock, ClockError> {
        parse(text, read)
    }

    /// The same of a text that is stored: releases before 0.3.1 took `every day 05:15`, as 5 hours 15 minutes.
    pub fn parse_stored(text: &str) -> Result<Clock, ClockError> {
        parse(text, read_stored)
    }
}

impl std::str::FromStr for Clock {
    type Err = ClockError;

    fn from_str(text: &str) -> Result<Clock, ClockError> {
        Clock::parse(text)
    }
}

fn parse(text: &str, read: fn(&str, Mend<'_>) -> Result<Clock, ClockError>) -> Result<Clock, ClockError> {
    let left = || Cell::new(Mend::MOST);
    read(text, Mend::new(fault, &left())).map_err(|error| error.settled(Mend::new(fault, &left())))
}

/// The error of a text that a hint may propose.
fn fault(text: &str, mend: Mend<'_>) -> Option<ClockError> {
    read(text, mend).err()
}

/// The same as [`Clock::parse`]; what an error's hint shows may have faults of its own.
fn read(text: &str, mend: Mend<'_>) -> Result<Clock, ClockError> {
    let clock = read_stored(text, mend)?;
    if let Clock::Every(every) = &clock {
        let lower = text.to_ascii_lowercase();
        if let Some(error) = every::parse::time_of_day(&Source { text, lower: &lower }, every) {
            return Err(error);
        }
    }
    Ok(clock)
}

/// The same as [`Clock::parse_stored`], as `read`.
fn read_stored(text: &str, mend: Mend<'_>) -> Result<Clock, ClockError> {
    if text.len() > LONGEST_TEXT {
        let source = Source { text: "", lower: "" };
        let hint = Hint::new(None, format!("a clock has at most {LONGEST_NEW_TEXT} bytes"), "*/5 * * * *");
        return Err(source.error(ErrorKind::Cron, "clock", "", "the text is too long", hint));
    }
    let lower = text.to_ascii_lowercase();
    let source = Source { text, lower: &lower };
    let trimmed = lower.trim_matches(BLANKS);
    let (word, rest) = match trimmed.find(BLANKS) {
        Some(end) => (&trimmed[..end], trimmed[end..].trim_matches(BLANKS)),
        None => (trimmed, &trimmed[trimmed.len()..]),
    };
    let clock = match word {
        "every" => every::parse::parse(&source, rest).map(Clock::Every),
        "at" if rest.is_empty() => {
            let hint = Hint::new(None, "a date-time follows at", "at 2027-01-01 09:00+00");
            Err(source.error(ErrorKind::DateTimeSyntax, "clock", trimmed, "no date-time after at", hint))
        }
        "at" => datetime::parse(&source, rest).map(Clock::At),
        "never" if rest.is_empty() => Ok(Clock::Never),
        "never" => {
            let hint = Hint::new(Some("never".to_owned()), "it takes nothing after it", "never");
            Err(source.error(ErrorKind::Cron, "clock", trimmed, "text after never", hint))
        }
        _ => cron::parse::parse(&source, mend).map(Clock::Cron),
    };
    clock.map_err(|error| match pasted::meant(text).filter(|_| error.sentence().is_none()) {
        Some(Meant::Sentence(sentence)) => error.saying(&sentence),
        Some(Meant::Clock(meant, rule)) if meant != text => match mend.clock(&meant) {
            Some(clock) => error.meaning(clock, rule),
            None => match mend.sentence(&meant) {
                Some(sentence) => error.saying(&sentence),
                None => source.odd_blank(error.kind()).unwrap_or(error),
            },
        },
        Some(Meant::Clock(..)) | None => source.odd_blank(error.kind()).unwrap_or(error),
    })
}
