//! What a clock change did to a plan time, in plain words (docs/reference/clocks.md, rule 10).

use std::fmt;

use crate::time::civil::SECONDS_PER_DAY;
use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::datetime::{DateTime, LocalDisplay};
use super::definition::Clock;
use super::every::Anchor;
use super::timeline::Timeline;
use super::zone::zone_cache::ResolvedReading;
use super::zone::Zone;

/// What happened to a plan time; readings are microseconds since 2000-01-01 00:00 on the zone's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DstNote {
    /// The wanted reading does not exist, so it fires at the end of the gap.
    Skipped {
        /// The first wanted reading that is missing.
        wanted: i64,
        /// What the clock shows when it fires.
        fires: i64,
        /// How many other wanted readings are in the gap (counted to 1,000).
        others: u32,
    },
    /// The reading exists twice; this is the first.
    Repeated {
        /// The reading.
        reading: i64,
    },
}

impl fmt::Display for DstNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DstNote::Skipped { wanted, fires, others } => {
                let day = |micros: i64| micros.div_euclid(SECONDS_PER_DAY * MICROS_PER_SECOND);
                let (wanted_text, fires_text) = if day(wanted) == day(fires) {
                    (short(wanted), short(fires))
                } else {
                    (minutes(&LocalDisplay(wanted).to_string()), minutes(&LocalDisplay(fires).to_string()))
                };
                write!(f, "skipped by DST: fires at {fires_text} instead of {wanted_text}")?;
                match others {
                    0 => Ok(()),
                    1 => f.write_str(" and of 1 other time in the gap"),
                    others if others >= MOST_OTHERS => f.write_str(" and of many other times in the gap"),
                    others => write!(f, " and of {others} other times in the gap"),
                }
            }
            DstNote::Repeated { reading } => {
                write!(f, "{} comes twice: fires in the first pass; second pass, not repeated", short(reading))
            }
        }
    }
}

const MOST_OTHERS: u32 = 1_000;

/// The time of day of a reading.
fn short(micros: i64) -> String {
    let text = LocalDisplay(micros).to_string();
    minutes(text.split_once(' ').map_or(text.as_str(), |(_, time)| time))
}

/// Without seconds that are zero.
fn minutes(text: &str) -> String {
    text.strip_suffix(":00").unwrap_or(text).to_owned()
}

/// A Unix-second reading in microseconds since 2000-01-01.
const fn micros(reading: i64) -> i64 {
    (reading - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND
}

impl<Z: Zone> Timeline<'_, Z> {
    /// What a clock change did to this plan time: `None` when nothing, and for wild clocks and grids of elapsed time,
    /// which no change touches. `plan` must be a plan time of this timeline.
    #[must_use]
    pub fn dst_note(&self, plan: Instant) -> Option<DstNote> {
        match self.clock {
            Clock::Cron(cron) if cron.is_wild() => None,
            Clock::Cron(cron) => {
                let second = plan.unix_seconds();
                let shown = self.zone.reading(second);
                let before = self.zone.latest_reading(second - 1);
                // Readings from before + 1 to shown − 1 were skipped at this second.
                let wanted = cron.reading_at_or_after(before + 1)?;
                if wanted < shown {
                    let mut others = 0;
                    let mut last = wanted;
                    while others < MOST_OTHERS {
                        match cron.reading_at_or_after(last + 1) {
                            Some(next) if next < shown => last = next,
                            Some(_) | None => break,
                        }
                        others += 1;
                    }
                    return Some(DstNote::Skipped { wanted: micros(wanted), fires: micros(shown), others });
                }
                self.repeated(shown, second, 0)
            }
            Clock::Every(every) => {
                if every.interval.is_elapsed() || self.counts_from().is_some() {
                    return None;
                }
                let grid = self.grid(every);
                let (n, _) = grid.previous_at_or_before(plan)?;
                if n == 0 {
                    return match every.anchor {
                        Anchor::Given | Anchor::Epoch | Anchor::Run(_) => None,
                        Anchor::From(at) => self.note_of_reading(at),
                    };
                }
                let (reading, rest) = grid.reading(n)?;
                self.note_at(reading, rest)
            }
            Clock::At(at) => self.note_of_reading(*at),
            Clock::Never => None,
        }
    }

    fn note_of_reading(&self, at: DateTime) -> Option<DstNote> {
        match at {
            DateTime::Fixed(_) => None,
            DateTime::Local(micros) => self.note_at(
                micros.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS,
                micros.rem_euclid(MICROS_PER_SECOND),
            ),
        }
    }

    fn note_at(&self, reading: i64, rest: i64) -> Option<DstNote> {
        match self.zone.resolve(reading) {
            ResolvedReading::Exact(second) => self.repeated(reading, second, rest),
            ResolvedReading::AfterGap { end, .. } => Some(DstNote::Skipped {
                wanted: micros(reading) + rest,
                fires: micros(self.zone.reading(end)),
                others: 0,
            }),
        }
    }

    fn repeated(&self, reading: i64, first: i64, rest: i64) -> Option<DstNote> {
        let again = self.zone.last_pass(reading, first) != first;
        again.then_some(DstNote::Repeated { reading: micros(reading) + rest })
    }
}
