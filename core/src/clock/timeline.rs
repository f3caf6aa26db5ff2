//! A clock in a zone, from an anchor: the two questions that everything else is made of, next and previous.
//!
//! Fixed cron clocks need no loop. Let M(t) be the latest reading that the wall clock has shown up to t. A reading
//! L becomes the first instant whose reading is at least L, so it lies after t exactly when L > M(t): the next plan
//! time is that of the first matching L after M(t), and the previous one that of the last matching L up to M(t).
//! Wild clocks follow the wall clock stretch by stretch, and jump over what the calendar says is empty.

use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::cron::Cron;
use super::datetime::DateTime;
use super::definition::Clock;
use super::every::{Anchor, Every, Grid, RunEdge};
use super::zone::zone_cache::{ResolvedReading, ZoneCache, MAX_OFFSET};
use super::zone::{Local, Zone};

/// The calendar and the rule that a zone ends with repeat every 400 years, so a wild clock is followed that far.
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// The hard bound on stretches of constant offset that one search looks at; real zones need 1,700 at most.
const MOST_STEPS: usize = 20_000;
/// 1800-01-01: no zone has a transition on record before it.
const BEFORE_ALL_ZONES: i64 = -5_364_662_400;
/// 2100-01-01: from here on every zone keeps to its last rule.
const AFTER_ALL_EXCEPTIONS: i64 = 4_102_444_800;

/// A clock bound to a zone and an anchor. It remembers what the zone said, so keep it while you ask more.
#[derive(Debug)]
pub struct Timeline<'a, Z: Zone> {
    pub(crate) clock: &'a Clock,
    pub(crate) anchor: Instant,
    /// When an `at` clock fires; `None` when that cannot be stored.
    pub(crate) once: Option<Instant>,
    /// The `from` of an `every` clock, in this zone, is past the last instant: nothing fires.
    out_of_range: bool,
    pub(crate) zone: ZoneCache<'a, Z>,
}

impl Clock {
    /// This clock in a zone. `anchor` is where an `every` clock's grid begins unless its text says `from`; the zone
    /// is also that of an `at` or `from` without an offset.
    #[must_use]
    pub fn bind<'a, Z: Zone>(&'a self, zone: &'a Z, anchor: Instant) -> Timeline<'a, Z> {
        Timeline::new(self, zone, anchor)
    }
}

impl<'a, Z: Zone> Timeline<'a, Z> {
    fn new(clock: &'a Clock, zone: &'a Z, anchor: Instant) -> Self {
        let zone = ZoneCache::new(zone);
        let mut timeline = Timeline { clock, anchor, once: None, out_of_range: false, zone };
        match clock {
            Clock::Cron(_) | Clock::Never => {}
            Clock::At(at) => timeline.once = timeline.instant_of(*at),
            Clock::Every(every) => {
                timeline.anchor = match every.anchor {
                    Anchor::Given | Anchor::Run(_) => anchor,
                    Anchor::Epoch => Instant::UNIX_EPOCH,
                    Anchor::From(at) => timeline.instant_of(at).unwrap_or_else(|| {
                        timeline.out_of_range = true;
                        Instant::MAX
                    }),
                }
            }
        }
        timeline
    }

    /// The instant of a date-time: a reading without an offset is resolved by docs/reference/clocks.md, rule 8.
    fn instant_of(&self, at: DateTime) -> Option<Instant> {
        match at {
            DateTime::Fixed(instant) => Some(instant),
            DateTime::Local(micros) => {
                let reading = micros.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS;
                match self.zone.resolve(reading) {
                    ResolvedReading::Exact(second) => {
                        Instant::from_unix_seconds(second)?.checked_add_micros(micros.rem_euclid(MICROS_PER_SECOND))
                    }
                    ResolvedReading::AfterGap { end, .. } => Instant::from_unix_seconds(end),
                }
            }
        }
    }

    /// What of a run the clock counts from, where its plan times depend on the schedule's runs: then `next_after` answers for a
    /// run at `after`, and no plan time lies before anything.
    #[must_use]
    pub const fn counts_from(&self) -> Option<RunEdge> {
        self.clock.counts_from()
    }

    pub(crate) fn grid<'t>(&'t self, every: &Every) -> Grid<'t, 'a, Z> {
        Grid { interval: every.interval, anchor: self.anchor, zone: &self.zone }
    }

    /// Where an `every` clock's grid begins; for other clocks the anchor that was given.
    #[must_use]
    pub const fn anchor(&self) -> Instant {
        self.anchor
    }

    /// The least plan time strictly after `after`; `None` when there is none that can be stored.
    #[must_use]
    pub fn next_after(&self, after: Instant) -> Option<Instant> {
        match self.clock {
            Clock::Cron(cron) if cron.is_wild() => self.next_wild(cron, after),
            Clock::Cron(cron) => {
                let shown = self.zone.latest_reading(after.unix_seconds());
                let reading = cron.reading_at_or_after(shown + 1)?;
                Instant::from_unix_seconds(self.zone.resolve(reading).second())
            }
            Clock::Every(_) if self.out_of_range => None,
            Clock::Every(every) if self.counts_from().is_some() => {
                let from_run = Grid { interval: every.interval, anchor: after, zone: &self.zone };
                from_run.next_after(after).map(|(_, instant)| instant)
            }
            Clock::Every(every) => self.grid(every).next_after(after).map(|(_, instant)| instant),
            Clock::At(_) => self.once.filter(|&once| once > after),
            Clock::Never => None,
        }
    }

    /// Whether this instant is a plan time.
    #[must_use]
    pub fn is_plan(&self, t: Instant) -> bool {
        self.counts_from().is_none() && self.next_after(t.just_before()) == Some(t)
    }

    /// The greatest plan time at or before `t`; `None` when there is none.
    #[must_use]
    pub fn previous_at_or_before(&self, t: Instant) -> Option<Instant> {
        match self.clock {
            Clock::Every(_) if self.counts_from().is_some() => None,
            Clock::Cron(cron) if cron.is_wild() => self.previous_wild(cron, t),
            Clock::Cron(cron) => {
                let shown = self.zone.latest_reading(t.unix_seconds());
                let reading = cron.reading_at_or_before(shown)?;
                Instant::from_unix_seconds(self.zone.resolve(reading).second())
            }
            Clock::Every(_) if self.out_of_range => None,
            Clock::Every(every) => self.grid(every).previous_at_or_before(t).map(|(_, instant)| instant),
            Clock::At(_) => self.once.filter(|&once| once <= t),
            Clock::Never => None,
        }
    }

    fn next_wild(&self, cron: &Cron, after: Instant) -> Option<Instant> {
        let mut second = after.unix_seconds() + 1;
        let horizon = second.max(AFTER_ALL_EXCEPTIONS) + CYCLE_SECONDS;
        for _ in 0..MOST_STEPS {
            if second >= horizon {
                break;
            }
            let span = self.zone.at(second);
            let reading = cron.reading_at_or_after(second + span.offset)?;
            let candidate = reading - span.offset;
            if candidate < span.until {
                return Instant::from_unix_seconds(candidate);
            }
            // From two offsets on no reading is earlier than those searched, so the gap up to the match is empty.
            let empty_until = if span.until >= second + 2 * MAX_OFFSET { reading - MAX_OFFSET } else { i64::MIN };
            second = span.until.max(empty_until);
        }
        None
    }

    fn previous_wild(&self, cron: &Cron, t: Instant) -> Option<Instant> {
        let mut end = t.unix_seconds();
        let horizon = end.min(BEFORE_ALL_ZONES) - CYCLE_SECONDS;
        let mut steps = 0;
        while end > horizon && steps < MOST_STEPS {
            let span = self.zone.at(end);
            let reading = cron.reading_at_or_before(end + span.offset)?;
            if reading - span.offset >= span.from {
                return Instant::from_unix_seconds(reading - span.offset);
            }
            // Ask from two offsets earlier, and keep the last match of the stretches up to `end`.
            let start = end - 2 * MAX_OFFSET;
            let mut second = start;
            let mut last = None;
            let mut greatest = i64::MIN;
            while second <= end && steps < MOST_STEPS {
                steps += 1;
                let span = self.zone.at(second);
                let shown = (span.until - 1).min(end) + span.offset;
                greatest = greatest.max(shown);
                if let Some(reading) = cron.reading_at_or_before(shown) {
                    if reading - span.offset >= second {
                        last = Some(reading - span.offset);
                    }
                }
                second = span.until;
            }
            if let Some(last) = last {
                return Instant::from_unix_seconds(last);
            }
            // No reading before `start` is greater than this, so nothing matches between.
            let reading = cron.reading_at_or_before(greatest)?;
            end = (start - 1).min(reading + MAX_OFFSET);
        }
        None
    }

    /// How many plan times lie in (from, to], but no more than `limit`; all but `every` with months or days, which come once a day
    /// at most, are counted without walking.
    #[must_use]
    pub fn count_between(&self, from: Instant, to: Instant, limit: u64) -> u64 {
        if to <= from || self.counts_from().is_some() {
            return 0;
        }
        if let Clock::Every(every) = self.clock {
            if every.interval.is_elapsed() && !self.out_of_range {
                return self.grid(every).count_elapsed(from, to).min(limit);
            }
        }
        if let Clock::Cron(cron) = self.clock {
            return cron.count_between(&self.zone, from.unix_seconds(), to.unix_seconds()).min(limit);
        }
        let mut count = 0;
        let mut at = from;
        while count < limit {
            match self.next_after(at) {
                Some(next) if next <= to => {
                    count += 1;
                    at = next;
                }
                Some(_) | None => break,
            }
        }
        count
    }

    /// What the zone's wall clock shows at `t`: microseconds since 2000-01-01 00:00 of the reading, and the offset
    /// from UTC in seconds.
    #[must_use]
    pub fn local_at(&self, t: Instant) -> (i64, i32) {
        let offset = self.zone.at(t.unix_seconds()).offset;
        (t.as_micros().saturating_add(offset * MICROS_PER_SECOND), offset as i32)
    }

    /// What became of a reading (microseconds since 2000-01-01 00:00, whole seconds count) in the zone; `None`
    /// when the instant cannot be stored.
    #[must_use]
    pub fn local(&self, reading_micros: i64) -> Option<Local> {
        self.zone.local(reading_micros.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS)
    }
}
