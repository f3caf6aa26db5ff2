//! What a clock's text says, not yet bound to a zone.

use std::fmt;

use super::cron::Cron;
use super::datetime::DateTime;
use super::every::{Anchor, Every, RunEdge};

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
