//! What a time zone is to the core, and how a wall-clock reading becomes an instant in it.
//!
//! A zone only answers one question, asked forwards: which offset holds at this second, and until when. Everything
//! about gaps and overlaps is derived from the answers here, once, so that every zone is treated the same way.
//! A boundary at which nothing changes is harmless (Postgres reports some).

pub(crate) mod zone_cache;

use crate::time::Instant;

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

/// What became of a wall-clock reading in a zone (docs/reference/clocks.md, rule 8).
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

/// True when what PostgreSQL may accept for a zone is no name of the tz database but a POSIX text, whose offset counts westwards
/// (`UTC+3`, `EST5`, `Berlin1`, `<+03>-3`): no such text lacks a number, and few names have one. A colon says that a name follows.
#[must_use]
pub fn is_posix(name: &str) -> bool {
    const NUMBERED: [&str; 4] = ["est5edt", "cst6cdt", "mst7mdt", "pst8pdt"];
    let lower = name.to_ascii_lowercase();
    let lower = lower.strip_prefix("posix/").unwrap_or(&lower);
    // Etc/GMT+12 to Etc/GMT-14, and GMT0 in four spellings.
    let is_hour = |hour: &str, most: u32| {
        hour.starts_with(|c| matches!(c, '1'..='9')) && hour.parse().is_ok_and(|n: u32| n <= most)
    };
    let is_etc = |offset: &str| match offset.split_at_checked(1) {
        Some(("+", hour)) => hour == "0" || is_hour(hour, 12),
        Some(("-", hour)) => hour == "0" || is_hour(hour, 14),
        Some(_) | None => offset == "0",
    };
    let is_name = NUMBERED.contains(&lower)
        || matches!(lower, "gmt0" | "gmt+0" | "gmt-0")
        || lower.strip_prefix("etc/gmt").is_some_and(is_etc);
    lower.starts_with(':') || (lower.contains(|c: char| c.is_ascii_digit()) && !is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posix_texts_are_told_from_names() {
        for text in [
            "UTC3",
            "UTC+3",
            "GMT3",
            "GMT-5",
            "EST5",
            "EST5EDT4",
            "EST5EDT,M3.2.0,M11.1.0",
            "Berlin1",
            "foo/bar12",
            "Europe/Berlin+1",
            "<+03>-3",
            "+03",
            "3",
            "Etc/GMT+13",
            "Etc/GMT-15",
            "Etc/GMT+05",
            "Etc/UTC+1",
            "Etc/GMT++5",
            "right/EST5EDT",
            ":Europe/Berlin",
        ] {
            assert!(is_posix(text), "{text}");
        }
        for name in chrono_tz::TZ_VARIANTS.map(|zone| zone.name()).iter().chain(&["posix/EST5EDT", "est5edt"]) {
            assert!(!is_posix(name), "{name}");
        }
    }
}
