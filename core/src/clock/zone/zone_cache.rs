//! The wall clock of one zone, with a cache of the zone's last answers.
//!
//! A zone look-up costs far more than the arithmetic around it, and schedules ask about the same weeks again and
//! again. Two questions are answered exactly for every zone, however strange: which instant is the first whose reading is
//! at least L, and what is the latest reading up to an instant.

use std::cell::Cell;

use crate::time::Instant;

use super::{Local, Span, Zone};

/// No offset is larger than this many seconds, so that an instant and its reading are never further apart
/// (POSIX zone texts go to 167 hours).
pub(crate) const MAX_OFFSET: i64 = 7 * 86_400;
/// The bound on spans looked at around one reading; real zones need three.
const MAX_SPANS: usize = 64;
const SLOTS: usize = 4;

/// A stretch of time, in Unix seconds, in which the offset is known to be constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedSpan {
    pub from: i64,
    /// Exclusive; `i64::MAX` = for ever.
    pub until: i64,
    pub offset: i64,
}

impl CachedSpan {
    const NOTHING: CachedSpan = CachedSpan { from: i64::MAX, until: i64::MIN, offset: 0 };
}

/// How a reading was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolvedReading {
    /// At this Unix second the clock shows the reading.
    Exact(i64),
    /// The reading is missing; this Unix second is the first after the gap, whose first missing reading is given.
    AfterGap { end: i64, first_missing: i64 },
}

impl ResolvedReading {
    pub(crate) const fn second(self) -> i64 {
        match self {
            ResolvedReading::Exact(second) => second,
            ResolvedReading::AfterGap { end, .. } => end,
        }
    }
}

/// A zone and what it said lately.
#[derive(Debug)]
pub(crate) struct ZoneCache<'a, Z: Zone> {
    zone: &'a Z,
    slots: [Cell<CachedSpan>; SLOTS],
    next_slot: Cell<usize>,
}

impl<'a, Z: Zone> ZoneCache<'a, Z> {
    pub(crate) fn new(zone: &'a Z) -> Self {
        ZoneCache { zone, slots: [const { Cell::new(CachedSpan::NOTHING) }; SLOTS], next_slot: Cell::new(0) }
    }

    /// What is known around a Unix second.
    #[inline]
    pub(crate) fn at(&self, second: i64) -> CachedSpan {
        for slot in &self.slots {
            let span = slot.get();
            if span.from <= second && second < span.until {
                return span;
            }
        }
        self.look_up(second)
    }

    #[cold]
    fn look_up(&self, second: i64) -> CachedSpan {
        let Span { utc_offset_seconds, until } = self.zone.span_at(second);
        // A zone that names a boundary in the past would stop every search: move on by at least a second.
        let until = until.map_or(i64::MAX, |boundary| boundary.max(second.saturating_add(1)));
        let answer =
            CachedSpan { from: second, until, offset: i64::from(utc_offset_seconds).clamp(-MAX_OFFSET, MAX_OFFSET) };
        for slot in &self.slots {
            let span = slot.get();
            if span.until == until && span.from > second {
                slot.set(answer);
                return answer;
            }
        }
        let slot = self.next_slot.get() % SLOTS;
        self.slots[slot].set(answer);
        self.next_slot.set(slot + 1);
        answer
    }

    /// The first instant whose reading is at least `reading` (both in seconds): the reading's only instant, the
    /// earlier of two, or the first after the gap that holds it. Never decreases as the reading grows.
    #[inline]
    pub(crate) fn resolve(&self, reading: i64) -> ResolvedReading {
        let (low, high) = (reading - 2 * MAX_OFFSET, reading + 2 * MAX_OFFSET);
        for slot in &self.slots {
            let span = slot.get();
            if span.from <= low && high < span.until {
                return ResolvedReading::Exact(reading - span.offset);
            }
        }
        self.resolve_slowly(reading, low)
    }

    fn resolve_slowly(&self, reading: i64, low: i64) -> ResolvedReading {
        let mut second = low;
        let mut shown_before = i64::MIN;
        for _ in 0..MAX_SPANS {
            let span = self.at(second);
            if second + span.offset > reading {
                return ResolvedReading::AfterGap { end: second, first_missing: shown_before };
            }
            if span.until == i64::MAX || span.until + span.offset > reading {
                return ResolvedReading::Exact(reading - span.offset);
            }
            shown_before = shown_before.max(span.until + span.offset);
            second = span.until;
        }
        ResolvedReading::Exact(reading - self.at(reading).offset)
    }

    /// The last second at which the clock shows `reading`, which it shows at `first` too.
    pub(crate) fn last_pass(&self, reading: i64, first: i64) -> i64 {
        let mut last = first;
        let mut second = first;
        for _ in 0..MAX_SPANS {
            let span = self.at(second);
            let candidate = reading - span.offset;
            if second <= candidate && candidate < span.until {
                last = candidate;
            }
            if span.until == i64::MAX || span.until > first + 2 * MAX_OFFSET {
                break;
            }
            second = span.until;
        }
        last
    }

    /// The latest reading shown at any second up to `second`: the reading then, or, in the second pass of an
    /// overlap, the last of the first pass.
    #[inline]
    pub(crate) fn latest_reading(&self, second: i64) -> i64 {
        let low = second - 2 * MAX_OFFSET;
        for slot in &self.slots {
            let span = slot.get();
            if span.from <= low && second < span.until {
                return second + span.offset;
            }
        }
        let mut latest = i64::MIN;
        let mut from = low;
        for _ in 0..MAX_SPANS {
            let span = self.at(from);
            latest = latest.max((span.until - 1).min(second) + span.offset);
            if span.until > second {
                return latest;
            }
            from = span.until;
        }
        latest.max(second + self.at(second).offset)
    }

    /// The reading, in whole seconds, at a Unix second.
    pub(crate) fn reading(&self, second: i64) -> i64 {
        second + self.at(second).offset
    }

    /// What became of a reading, in seconds.
    pub(crate) fn local(&self, reading: i64) -> Option<Local> {
        Some(match self.resolve(reading) {
            ResolvedReading::Exact(first) => {
                let last = self.last_pass(reading, first);
                let earlier = Instant::from_unix_seconds(first)?;
                if last == first {
                    Local::Single(earlier)
                } else {
                    Local::Ambiguous { earlier, later: Instant::from_unix_seconds(last)? }
                }
            }
            ResolvedReading::AfterGap { end, first_missing } => {
                let length = self.reading(end) - first_missing;
                Local::Gap { end: Instant::from_unix_seconds(end)?, length }
            }
        })
    }
}
