//! What a time zone is to the core, and how a wall-clock reading becomes an instant in it.
//!
//! A zone only answers one question, asked forwards: which offset holds at this second, and until when. Everything
//! about gaps and overlaps is derived from the answers here, once, so that every zone is treated the same way.
//! A boundary at which nothing changes is harmless (Postgres reports some).

use crate::instant::Instant;

/// What the zone's clock shows at an instant, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Seconds to add to UTC to get the wall clock; east is positive.
    pub utc_offset_seconds: i32,
    /// The first Unix second at which another offset may apply; `None` = never again.
    pub until: Option<i64>,
}

/// A time zone: in the server Postgres' own tz database, in tests chrono-tz.
pub trait Zone {
    /// The offset at a Unix second, whatever the year, and the next boundary after it.
    fn span_at(&self, unix_seconds: i64) -> Span;
}

impl<Z: Zone + ?Sized> Zone for &Z {
    fn span_at(&self, unix_seconds: i64) -> Span {
        (**self).span_at(unix_seconds)
    }
}

/// Coordinated Universal Time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utc;

impl Zone for Utc {
    fn span_at(&self, _unix_seconds: i64) -> Span {
        Span { utc_offset_seconds: 0, until: None }
    }
}

/// A zone whose clock never changes: seconds east of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedOffset(pub i32);

impl Zone for FixedOffset {
    fn span_at(&self, _unix_seconds: i64) -> Span {
        Span { utc_offset_seconds: self.0, until: None }
    }
}

/// What became of a wall-clock reading in a zone (CLOCKS.md rule 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// The reading exists once.
    Single(Instant),
    /// The reading exists twice.
    Ambiguous {
        /// The first pass, the one that counts.
        earlier: Instant,
        /// The last pass.
        later: Instant,
    },
    /// The reading does not exist.
    Gap {
        /// The first instant after the gap.
        end: Instant,
        /// Seconds of wall clock that are missing.
        length: i64,
    },
}

impl Local {
    /// The instant that the rules choose: the only one, the earlier, or the first after the gap.
    #[must_use]
    pub const fn chosen(self) -> Instant {
        match self {
            Local::Single(instant) => instant,
            Local::Ambiguous { earlier, .. } => earlier,
            Local::Gap { end, .. } => end,
        }
    }
}
