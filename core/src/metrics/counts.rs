//! What the executions of one job and queue come to: numbers in a row, which can be added wherever they stand.

use crate::keyword::Keyword;
use crate::lease::{Claim, Status};
use crate::schedule::SkipReason;

use super::family::Family;
use super::sample::Sample;

/// The upper bounds of both histograms in microseconds, as OpenMetrics writes them in seconds.
const BOUNDS: [(u64, &str); 12] = [
    (10_000, "0.01"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1.0"),
    (5_000_000, "5.0"),
    (10_000_000, "10.0"),
    (60_000_000, "60.0"),
    (300_000_000, "300.0"),
    (900_000_000, "900.0"),
    (3_600_000_000, "3600.0"),
];

const FIRED: usize = 0;
const ENQUEUED: usize = 1;
const RETRIED: usize = 2;
const CLAIMED: usize = 3;
const ENDED: usize = 5;
const SKIPPED: usize = 8;
const LATENESS: usize = 14;
/// A number for each bound, one for what is beyond all of them, and the sum.
const HISTOGRAM: usize = BOUNDS.len() + 2;
const DURATION: usize = LATENESS + HISTOGRAM;

/// How many numbers there are.
pub const WIDTH: usize = DURATION + HISTOGRAM;

const _: () = assert!(ENDED == CLAIMED + Claim::ALL.len() && LATENESS == SKIPPED + SkipReason::ALL.len());

/// How attempts and executions end, with what is counted of each.
const ENDS: [Status; 3] = [Status::Success, Status::Failed, Status::Cancelled];

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A schedule has put executions into the ledger.
    Fired(u64),
    /// An application has.
    Enqueued(u64),
    /// A lease was given.
    Claimed(Claim),
    /// Attempts have ended, or executions without one; PENDING is no end and counts nothing.
    Ended(Status, u64),
    /// An attempt has failed that another one follows.
    Retried,
    /// Plan times were passed over.
    Skipped(SkipReason, u64),
    /// A first attempt began so many microseconds after it was planned.
    Late(i64),
    /// An attempt took so many microseconds.
    Lasted(i64),
}

/// How much there was of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub [u64; WIDTH]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; WIDTH])
    }
}

impl Counts {
    /// Counts something.
    pub fn add(&mut self, event: Event) {
        match event {
            Event::Fired(count) => self.raise(FIRED, count),
            Event::Enqueued(count) => self.raise(ENQUEUED, count),
            Event::Claimed(Claim::Won) => self.raise(CLAIMED, 1),
            Event::Claimed(Claim::Stole) => self.raise(CLAIMED + 1, 1),
            Event::Ended(Status::Success, count) => self.raise(ENDED, count),
            Event::Ended(Status::Failed, count) => self.raise(ENDED + 1, count),
            Event::Ended(Status::Cancelled, count) => self.raise(ENDED + 2, count),
            Event::Ended(Status::Pending | Status::Running, _) => {}
            Event::Retried => self.raise(RETRIED, 1),
            Event::Skipped(reason, count) => {
                let place = SkipReason::ALL.iter().position(|known| *known == reason);
                self.raise(SKIPPED + place.unwrap_or(0), count);
            }
            Event::Late(micros) => self.observe(LATENESS, micros),
            Event::Lasted(micros) => self.observe(DURATION, micros),
        }
    }

    fn raise(&mut self, place: usize, by: u64) {
        self.0[place] = self.0[place].saturating_add(by);
    }

    /// A clock that was set back makes it negative: that counts as none.
    fn observe(&mut self, histogram: usize, micros: i64) {
        let micros = u64::try_from(micros).unwrap_or(0);
        let bucket = BOUNDS.iter().position(|(bound, _)| micros <= *bound).unwrap_or(BOUNDS.len());
        self.raise(histogram + bucket, 1);
        self.raise(histogram + HISTOGRAM - 1, micros);
    }

    /// Adds what was counted elsewhere.
    pub fn absorb(&mut self, other: &Counts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    /// What `family` says of it. Of skips only the reasons that there were; an empty
    /// histogram has no sample.
    pub fn samples(&self, family: Family, labels: &[(&'static str, String)], out: &mut Vec<Sample>) {
        let mut total = |more: Option<(&'static str, &str)>, place: usize| {
            let mut labels = labels.to_vec();
            labels.extend(more.map(|(name, value)| (name, value.to_owned())));
            out.push(Sample { family, suffix: "_total", labels, value: self.0[place] as f64 });
        };
        match family {
            Family::Fires => total(None, FIRED),
            Family::Enqueued => total(None, ENQUEUED),
            Family::Retries => total(None, RETRIED),
            Family::Claims => {
                for (number, outcome) in Claim::ALL.iter().enumerate() {
                    total(Some(("outcome", outcome.as_str())), CLAIMED + number);
                }
            }
            Family::Finishes => {
                for (number, outcome) in ENDS.iter().enumerate() {
                    total(Some(("outcome", outcome.as_str())), ENDED + number);
                }
            }
            Family::Skips => {
                for (number, reason) in SkipReason::ALL.iter().enumerate() {
                    if self.0[SKIPPED + number] > 0 {
                        total(Some(("reason", reason.as_str())), SKIPPED + number);
                    }
                }
            }
            Family::Lateness => self.histogram(family, LATENESS, labels, out),
            Family::Duration => self.histogram(family, DURATION, labels, out),
            Family::Ticks
            | Family::QueueDepth
            | Family::QueueOldest
            | Family::QueuePaused
            | Family::Running
            | Family::TimersDue
            | Family::TimersArmed
            | Family::SchedulesParked
            | Family::SchedulesFailing
            | Family::AlertsOpen
            | Family::Enabled
            | Family::NextFire
            | Family::CountersReset => {}
        }
    }

    fn histogram(&self, family: Family, first: usize, labels: &[(&'static str, String)], out: &mut Vec<Sample>) {
        let bounds = BOUNDS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
        let buckets = &self.0[first..first + HISTOGRAM - 1];
        if buckets.iter().all(|count| *count == 0) {
            return;
        }
        let mut count = 0_u64;
        for (bound, more) in bounds.zip(buckets) {
            count = count.saturating_add(*more);
            let mut labels = labels.to_vec();
            labels.push(("le", bound.to_owned()));
            out.push(Sample { family, suffix: "_bucket", labels, value: count as f64 });
        }
        let sum = self.0[first + HISTOGRAM - 1] as f64 / 1e6;
        out.push(Sample { family, suffix: "_sum", labels: labels.to_vec(), value: sum });
        out.push(Sample { family, suffix: "_count", labels: labels.to_vec(), value: count as f64 });
    }
}
