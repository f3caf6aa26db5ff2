//! Clocks: when a schedule is due. Parsed once from a text, bound to a zone and an anchor, then asked.
//!
//! `docs/reference/clocks.md` has the exact rules, and shows them by example. The parts: `parse_cron` and `item` read our cron dialect
//! around the `cron` crate, `walk` and `days` walk the calendar, `spans` knows the zone's wall
//! clock, `every` is the grid of intervals, and `timeline` puts them together.

mod count;
mod cron;
mod datetime;
mod days;
mod error;
mod every;
mod field;
mod interval;
mod interval_iso;
mod interval_words;
mod item;
mod meant;
mod note;
mod parse_cron;
mod parse_every;
mod print;
mod spans;
mod timeline;
mod walk;
mod warning;
mod years;

use std::fmt;

use crate::instant::Instant;
use crate::zone::Zone;

pub use cron::Cron;
pub use datetime::{DateTime, LocalDisplay};
pub use error::{ClockError, ErrorKind};
pub use every::{Anchor, Every};
pub use field::Field;
pub use interval::Interval;
pub use note::Note;
pub use timeline::Timeline;
pub use warning::{warnings, Warning};

use error::{Hint, Source};

/// The longest text that is read, in bytes: seven fields with every value listed fit twice.
pub const LONGEST_TEXT: usize = 4_000;

/// What separates the words of a text.
const BLANKS: [char; 2] = [' ', '\t'];

/// What blanks part in a text.
fn words(text: &str) -> Vec<&str> {
    text.split(BLANKS).filter(|word| !word.is_empty()).collect()
}

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Fields of the calendar and the wall clock.
    Cron(Cron),
    /// A grid of intervals.
    Every(Every),
    /// Once.
    At(DateTime),
    /// No occurrence.
    Never,
}

impl Clock {
    /// Reads a clock's text; the error says what is wrong, where, and what to write instead.
    pub fn parse(text: &str) -> Result<Clock, ClockError> {
        Clock::read(text).map_err(ClockError::settled)
    }

    /// The same; what an error's hint shows may have faults of its own.
    fn read(text: &str) -> Result<Clock, ClockError> {
        let lower = text.to_ascii_lowercase();
        let source = Source { text, lower: &lower };
        if text.len() > LONGEST_TEXT {
            let hint = Hint::new(None, format!("a clock has at most {LONGEST_TEXT} bytes"), "*/5 * * * *");
            return Err(source.error(ErrorKind::Cron, "clock", &lower, "the text is too long", hint));
        }
        let trimmed = lower.trim_matches(BLANKS);
        let (word, rest) = match trimmed.find(BLANKS) {
            Some(end) => (&trimmed[..end], trimmed[end..].trim_matches(BLANKS)),
            None => (trimmed, &trimmed[trimmed.len()..]),
        };
        let clock = match word {
            "every" => parse_every::parse(&source, rest).map(Clock::Every),
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
            _ => parse_cron::parse(&source).map(Clock::Cron),
        };
        clock.map_err(|error| source.odd_blank(error.kind()).unwrap_or(error))
    }

    /// This clock in a zone. `anchor` is where an `every` clock's grid begins unless its text says `from`; the zone
    /// is also that of an `at` or `from` without an offset.
    #[must_use]
    pub fn bind<'a, Z: Zone>(&'a self, zone: &'a Z, anchor: Instant) -> Timeline<'a, Z> {
        Timeline::new(self, zone, anchor)
    }
}

impl fmt::Display for Clock {
    /// The canonical text, which parses to an equal clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Clock::Cron(cron) => write!(f, "{cron}"),
            Clock::Every(every) => write!(f, "{every}"),
            Clock::At(at) => write!(f, "at {at}"),
            Clock::Never => f.write_str("never"),
        }
    }
}

impl std::str::FromStr for Clock {
    type Err = ClockError;

    fn from_str(text: &str) -> Result<Clock, ClockError> {
        Clock::parse(text)
    }
}
