//! Clocks of other schedulers: what they say, as a clock of ours whose plan times are the same, or why there is none.
//!
//! One file for each scheduler. Each reads its texts as that scheduler reads them, faults included, and prints what it has
//! understood. So no text of theirs is ever taken for one of ours.

pub mod celery_beat;
pub mod comparison;
pub mod pg_cron;
pub mod pg_timetable;
pub mod pgagent;
pub mod timescaledb;

use std::fmt::Write as _;

use crate::clock::zone::Zone;
use crate::clock::{Clock, DateTime};
use crate::time::Instant;

/// A clock of ours that stands for one of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForeignClock {
    /// Its text.
    pub text: String,
    /// Theirs follows the wall clock through clock changes, and `text` names times of day.
    pub follows_wall_clock: bool,
    /// A text that means the same and follows the wall clock, where there is one.
    pub wild: Option<String>,
    /// It asks whether the same time tomorrow is the first of a month: a day of 23 or 25 hours beside a month's edge misleads it.
    pub asks_for_tomorrow: bool,
    /// It counts on the wall clock from its last run: what is repeated it runs once, and what is skipped as much later as the gap is long.
    /// A text that means the same and names times of day.
    pub after_gap: Option<String>,
    /// It is run once: at its first time after this.
    pub once_after: Option<Instant>,
    /// It is run at this time, and then as it says.
    pub runs_at: Option<Instant>,
    /// Something to tell about it.
    pub note: Option<String>,
}

impl ForeignClock {
    /// One whose text says all.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> ForeignClock {
        ForeignClock {
            text: text.into(),
            follows_wall_clock: false,
            wild: None,
            asks_for_tomorrow: false,
            after_gap: None,
            once_after: None,
            runs_at: None,
            note: None,
        }
    }
}

/// The values of a field.
fn values(set: u64) -> impl Iterator<Item = u32> {
    (0..=59).filter(move |value| set >> value & 1 != 0)
}

/// Minutes or hours, as short as they can be said.
fn shortest(set: u64, high: u32) -> String {
    let stepped = |step: u32| (0..=high).step_by(step as usize).fold(0, |set, value| set | 1 << value);
    match (1..=high.div_ceil(2)).find(|step| stepped(*step) == set) {
        Some(1) => "*".to_owned(),
        Some(step) => format!("*/{step}"),
        None => list(values(set)),
    }
}

/// The same beginning with a star, which adds nothing to what has the 0.
fn starred(set: u64, high: u32) -> Option<String> {
    let rest = list(values(set & !1));
    let comma = if rest.is_empty() { "" } else { "," };
    (set & 1 != 0).then(|| format!("*/{}{comma}{rest}", high + 1))
}

/// The clock of a point in time.
fn at(at: Instant) -> String {
    format!("at {}", DateTime::Fixed(at))
}

/// Numbers as the list of a cron field.
fn list(numbers: impl Iterator<Item = u32>) -> String {
    let mut text = String::new();
    let mut run: Option<(u32, u32)> = None;
    let mut push = |(first, last): (u32, u32)| {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match last - first {
            0 => write!(text, "{comma}{first}"),
            1 => write!(text, "{comma}{first},{last}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
    };
    for number in numbers {
        run = match run {
            Some((first, last)) if last + 1 == number => Some((first, number)),
            Some(before) => {
                push(before);
                Some((number, number))
            }
            None => Some((number, number)),
        };
    }
    run.into_iter().for_each(&mut push);
    text
}

/// The calendar of days of the week repeats after so many years, but for the turn of a century.
pub(crate) const CALENDAR_YEARS: i64 = 28;
pub(crate) const YEAR_MICROS: i64 = 31_556_952 * 1_000_000;

/// The text of the clock of ours that does in its zone what theirs does, through the clock changes of the next 28 years; the reason where
/// there is none.
pub fn settled<Z: Zone>(foreign: &ForeignClock, zone: &Z, now: Instant) -> Result<String, String> {
    let text = settled_in_its_zone(foreign, zone, now)?;
    let clock = parsed(&text)?;
    let timeline = clock.bind(zone, now);
    if let Some(starts) = foreign.runs_at.filter(|starts| !timeline.is_plan(*starts)) {
        return Err(format!("it is run {} first, which is no time of its clock", at(starts)));
    }
    match foreign.once_after.map(|after| timeline.next_after(after)) {
        None => Ok(text),
        Some(Some(next)) if next > now => Ok(at(next)),
        Some(Some(_)) => Err("its only run is due now".to_owned()),
        Some(None) => Err("its only run is never due".to_owned()),
    }
}

/// The same, of a clock that has no beginning and no end.
fn settled_in_its_zone<Z: Zone>(foreign: &ForeignClock, zone: &Z, now: Instant) -> Result<String, String> {
    let until = now.checked_add_micros(CALENDAR_YEARS * YEAR_MICROS).unwrap_or(Instant::MAX);
    let clock = parsed(&foreign.text)?;
    let timeline = clock.bind(zone, now);
    if foreign.asks_for_tomorrow {
        if let Some(day) = timeline.change_beside_a_months_edge(now, until) {
            return Err(format!(
                "the clocks of its zone change at {day}, beside the end of a month: there $ is another day than the last"
            ));
        }
    }
    if let Some(fixed) = &foreign.after_gap {
        if timeline.reading_at_a_change(now, until).is_none() {
            return Ok(foreign.text.clone());
        }
        let Some(reading) = timeline.reading_inside_a_gap(now, until) else { return Ok(fixed.clone()) };
        if fixed != &foreign.text && timeline.as_much_later_after_gaps(now, until) {
            return Ok(foreign.text.clone());
        }
        return Err(format!(
            "the clocks of its zone change at {reading}: it is run as much later as they go forward, and a clock here is not"
        ));
    }
    match timeline.reading_at_a_change(now, until).filter(|_| foreign.follows_wall_clock) {
        None => Ok(foreign.text.clone()),
        Some(reading) => foreign.wild.clone().ok_or_else(|| {
            let what = if timeline.is_wild() {
                "there it runs at other times than a clock here"
            } else {
                "there it is skipped or repeated, and a clock here that names times of day is neither"
            };
            format!("the clocks of its zone change at {reading}: {what}")
        }),
    }
}

/// The clock of ours, parsed; the reason where what was made of theirs is none.
fn parsed(text: &str) -> Result<Clock, String> {
    Clock::parse(text).map_err(|error| format!("\"{text}\" is no clock here: {error}"))
}
