//! The time axis: which part of the width an instant has, where labels stand, and where the zone's clocks change.

use std::fmt;

use crate::time::civil::{days_from_civil, SECONDS_PER_DAY};
use crate::time::{Instant, MICROS_PER_SECOND};

use super::rows::View;
use super::wall::Wall;

/// A place on the axis or a width, in hundredths of a percent of the whole: the page is as wide as its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub i64);

/// The right edge.
pub(super) const WHOLE: i64 = 10_000;
/// At most so many labels fit side by side on a narrow page.
const MOST_LABELS: i64 = 9;
/// Between the two, a label has room for half of itself.
const LABELLED: std::ops::RangeInclusive<i64> = 500..=9_500;
/// The width of a label with a date and half of another, on a narrow page.
const LABEL: i64 = 1_100;
/// Of more clock changes than this one sees nothing.
const MOST_CHANGES: usize = 200;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// Steps within a day, in seconds of the wall clock.
const STEPS: [i64; 17] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
];
const DAYS: [i64; 4] = [1, 2, 7, 14];
const MONTHS: [i64; 4] = [1, 2, 3, 6];

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, of) = if self.0 < 0 { ("-", -self.0) } else { ("", self.0) };
        match (of / 100, of % 100) {
            (0, 0) => f.write_str("0"),
            (whole, 0) => write!(f, "{sign}{whole}%"),
            (whole, part) if part % 10 == 0 => write!(f, "{sign}{whole}.{}%", part / 10),
            (whole, part) => write!(f, "{sign}{whole}.{part:02}%"),
        }
    }
}

/// The axis of a view.
pub(super) struct Axis<'a> {
    pub view: &'a View,
    pub wall: &'a Wall<'a>,
    micros: i128,
}

/// A label under a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tick {
    pub place: Place,
    /// `None` where the page's edge would cut it.
    pub label: Option<String>,
    /// The first of a larger unit: a day among hours, a year among months.
    pub is_strong: bool,
}

/// A change of the zone's clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub at: Instant,
    /// By how many seconds the clocks are put forward.
    pub seconds: i64,
}

impl<'a> Axis<'a> {
    pub fn new(view: &'a View, wall: &'a Wall<'a>) -> Self {
        // An empty range is refused long before; here it only must not divide.
        let micros = (i128::from(view.to.as_micros()) - i128::from(view.from.as_micros())).max(1);
        Axis { view, wall, micros }
    }

    /// The place of an instant; less than 0 or more than the whole outside of the view.
    pub fn place(&self, at: Instant) -> Place {
        let whole = |past: i64| past.checked_mul(WHOLE)?.checked_div(i64::try_from(self.micros).ok()?);
        // A page of some years needs no wider numbers.
        if let Some(place) = at.as_micros().checked_sub(self.view.from.as_micros()).and_then(whole) {
            return Place(place);
        }
        let past = i128::from(at.as_micros()) - i128::from(self.view.from.as_micros());
        Place(i64::try_from(past * i128::from(WHOLE) / self.micros).unwrap_or(WHOLE))
    }

    /// The place of an instant, within the axis.
    pub fn clipped(&self, at: Instant) -> Place {
        Place(self.place(at).0.clamp(0, WHOLE))
    }

    /// True where the view has this instant.
    pub fn shows(&self, at: Instant) -> bool {
        self.view.from <= at && at <= self.view.to
    }

    /// How many hundredths of a percent so many microseconds are wide.
    pub fn width(&self, micros: i64) -> i64 {
        i64::try_from(i128::from(micros) * i128::from(WHOLE) / self.micros).unwrap_or(i64::MAX)
    }

    /// How many microseconds so many hundredths of a percent are.
    pub fn span(&self, width: i64) -> i64 {
        i64::try_from(self.micros * i128::from(width) / i128::from(WHOLE)).unwrap_or(i64::MAX)
    }

    /// Lines with labels, at round readings of the wall clock; where clocks change, a label may have no room.
    pub fn ticks(&self) -> Vec<Tick> {
        let mut ticks = self.round_times();
        let strong: Vec<i64> = ticks.iter().filter(|tick| tick.is_strong).map(|tick| tick.place.0).collect();
        for tick in ticks.iter_mut().filter(|tick| !tick.is_strong) {
            if strong.iter().any(|place| (place - tick.place.0).abs() < LABEL) {
                tick.label = None;
            }
        }
        ticks
    }

    fn round_times(&self) -> Vec<Tick> {
        let seconds = i64::try_from(self.micros / i128::from(MICROS_PER_SECOND)).unwrap_or(i64::MAX);
        let fits = |step: &&i64| seconds / **step < MOST_LABELS;
        if let Some(step) = STEPS.iter().find(fits) {
            return self.readings(*step, |reading| reading + step);
        }
        if let Some(days) = DAYS.iter().find(|days| seconds / (**days * SECONDS_PER_DAY) < MOST_LABELS) {
            // Weeks begin on Mondays, and 1970-01-05 was one.
            let monday = if days % 7 == 0 { 4 * SECONDS_PER_DAY } else { 0 };
            let step = days * SECONDS_PER_DAY;
            return self.readings_from(monday, step, |reading| reading + step);
        }
        let month = 31 * SECONDS_PER_DAY;
        let months =
            MONTHS.iter().copied().find(|months| seconds / (months * month) < MOST_LABELS).unwrap_or_else(|| {
                let mut years = 1;
                for factor in [2, 5, 10].iter().cycle().take(18) {
                    if seconds / (years * 366 * SECONDS_PER_DAY) < MOST_LABELS {
                        break;
                    }
                    let decade = 10_i64.pow(years.ilog10());
                    years = decade * factor;
                }
                years * 12
            });
        self.months(months)
    }

    fn readings(&self, step: i64, next: impl Fn(i64) -> i64) -> Vec<Tick> {
        self.readings_from(0, step, next)
    }

    fn readings_from(&self, origin: i64, step: i64, next: impl Fn(i64) -> i64) -> Vec<Tick> {
        let first = self.wall.reading(self.view.from).seconds() - origin;
        self.walk(first.div_euclid(step) * step + origin, next, step < SECONDS_PER_DAY)
    }

    fn months(&self, months: i64) -> Vec<Tick> {
        let start = self.wall.reading(self.view.from);
        let month = (start.year * 12 + i64::from(start.month) - 1).div_euclid(months) * months;
        let seconds = |month: i64| {
            let of_year = u32::try_from(month.rem_euclid(12)).unwrap_or(0) + 1;
            days_from_civil(month.div_euclid(12), of_year, 1) * SECONDS_PER_DAY
        };
        let mut ticks = Vec::new();
        for index in 0..2 * MOST_LABELS {
            let at = self.instant(seconds(month + index * months));
            if at.is_none_or(|at| at > self.view.to) {
                break;
            }
            ticks.extend(at.and_then(|at| {
                let reading = self.wall.reading(at);
                let january = reading.month == 1;
                let label = if january { reading.year.to_string() } else { reading.month_name().to_owned() };
                self.tick(at, label, january && months < 12)
            }));
        }
        ticks
    }

    /// Ticks from a reading on, each after the one before.
    fn walk(&self, first: i64, next: impl Fn(i64) -> i64, by_time: bool) -> Vec<Tick> {
        let mut ticks = Vec::new();
        let mut reading = first;
        // Twice as many as fit: where clocks are put back, a day has more of them.
        for _ in 0..2 * MOST_LABELS + 2 {
            let at = self.instant(reading);
            if at.is_some_and(|at| at > self.view.to) {
                break;
            }
            let midnight = reading.rem_euclid(SECONDS_PER_DAY) == 0;
            // What the clock never shows is no label, but a day has one also where it begins at 01:00.
            let shown = at.map(|at| (at, self.wall.reading(at)));
            ticks.extend(shown.filter(|(_, shown)| midnight || shown.seconds() == reading).and_then(|(at, shown)| {
                let label = if by_time && !midnight { shown.time().to_string() } else { shown.date() };
                self.tick(at, label, by_time && midnight)
            }));
            reading = next(reading);
        }
        ticks
    }

    /// The first instant that shows a reading.
    fn instant(&self, reading: i64) -> Option<Instant> {
        Instant::from_unix_seconds(self.wall.zone.resolve(reading).second())
    }

    fn tick(&self, at: Instant, label: String, is_strong: bool) -> Option<Tick> {
        let place = self.place(at);
        let label = LABELLED.contains(&place.0).then_some(label);
        self.shows(at).then_some(Tick { place, label, is_strong })
    }

    /// The changes of the zone's clocks in the view, oldest first.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut span = self.wall.zone.at(self.view.from.unix_seconds());
        while changes.len() < MOST_CHANGES && span.until <= self.view.to.unix_seconds() {
            let after = self.wall.zone.at(span.until);
            let seconds = after.offset - span.offset;
            changes.extend(
                Instant::from_unix_seconds(span.until).filter(|_| seconds != 0).map(|at| Change { at, seconds }),
            );
            if after.until <= span.until {
                break;
            }
            span = after;
        }
        changes
    }
}

impl Change {
    /// The hour, or what it is, before and after: where plan times are moved, or come twice on the wall clock.
    pub fn band(&self, axis: &Axis<'_>) -> (Place, Place) {
        let micros = self.seconds.abs().saturating_mul(MICROS_PER_SECOND);
        let end = |micros| self.at.checked_add_micros(micros).unwrap_or(self.at);
        (axis.clipped(end(-micros)), axis.clipped(end(micros)))
    }

    /// `+1 h`, `\u{2212}30 min`.
    pub fn amount(&self) -> String {
        let sign = if self.seconds < 0 { '\u{2212}' } else { '+' };
        let minutes = self.seconds.abs() / 60;
        match (minutes / 60, minutes % 60) {
            (0, _) if self.seconds.abs() < 60 => format!("{sign}{} s", self.seconds.abs()),
            (0, minutes) => format!("{sign}{minutes} min"),
            (hours, 0) => format!("{sign}{hours} h"),
            (hours, minutes) => format!("{sign}{hours} h {minutes} min"),
        }
    }
}
