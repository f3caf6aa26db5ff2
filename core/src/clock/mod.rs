//! Clocks: when a schedule is due. A text is parsed once, bound to a zone and an anchor, and then asked.
//!
//! `docs/reference/clocks.md` has the exact rules, and shows them by example.
//!
//! - `parse` reads a text, `error` says what is wrong with it, and `suggest` what it was meant to be.
//! - `cron` is our cron dialect around the `cron` crate, and the search in the calendar.
//! - `every` is the grid of intervals, `datetime` the date-times of `at` and `from`.
//! - `zone` is a wall clock with its gaps and overlaps.
//! - `timeline` puts a clock into a zone and finds plan times.
//! - `dst_note` and `lint` tell people what a clock does that they may not expect.

mod changes;
mod cron;
mod datetime;
mod dst_note;
mod error;
mod every;
mod lint;
mod parse;
mod suggest;
mod text;
mod timeline;
pub mod zone;

use std::fmt;

pub use cron::field::Field;
pub use cron::Cron;
pub use datetime::{DateTime, LocalDisplay};
pub use dst_note::DstNote;
pub use error::{ClockError, ErrorKind};
pub use every::interval::Interval;
pub use every::{Anchor, Every, RunEdge};
pub use lint::{lint, none_ahead, Lint};
pub use text::LONGEST_TEXT;
pub use timeline::Timeline;

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
    /// What of a run the clock counts from, where its plan times depend on the runs of its schedule.
    #[must_use]
    pub const fn counts_from(&self) -> Option<RunEdge> {
        match self {
            Clock::Every(Every { anchor: Anchor::Run(edge), .. }) => Some(*edge),
            Clock::Every(_) | Clock::Cron(_) | Clock::At(_) | Clock::Never => None,
        }
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
