//! What is legal but probably not meant: the warnings of `sched.validate`.

use crate::time::civil::SECONDS_PER_DAY;
use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::cron::field::Field;
use super::cron::Cron;
use super::datetime::LocalDisplay;
use super::definition::Clock;
use super::dst_note::DstNote;
use super::error::quoted;
use super::timeline::Timeline;
use super::zone::Zone;

/// Something to tell the author of a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// A stable name: `never_fires`, `both_day_fields`, `dst_gap`, `dst_overlap`, `seconds_field`, `uneven_step`.
    pub code: &'static str,
    /// One line, lowercase, no full stop.
    pub message: String,
    /// What to do about it, as a sentence.
    pub hint: String,
}

impl Lint {
    fn new(code: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Lint {
        Lint { code, message: message.into(), hint: hint.into() }
    }
}

/// The year that is looked at for clock changes, in seconds.
const YEAR: i64 = 366 * SECONDS_PER_DAY;

/// What is worth a warning in this clock, written as `text`, in the zone, in the year after `now`. A grid without
/// `from` is taken from `now`.
#[must_use]
pub fn lint(clock: &Clock, text: &str, zone: &impl Zone, now: Instant) -> Vec<Lint> {
    let timeline = clock.bind(zone, now);
    if let Some(warning) = none_ahead(&timeline, text, now, [None, None]) {
        return vec![warning];
    }
    let mut out = Vec::new();
    match clock {
        Clock::Cron(cron) => {
            let fields: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
            out.extend(seconds_field(cron, &fields));
            out.extend(both_day_fields(cron));
            out.extend(uneven_steps(&fields));
            cron_changes(&timeline, cron, now, &mut out);
        }
        Clock::Every(_) | Clock::At(_) => noted_changes(&timeline, now, &mut out),
        Clock::Never => {}
    }
    out
}

/// That a clock, written as `text`, has no plan time after `now` in the window [`starts_at`, `ends_at`). Of `never` that is no news.
#[must_use]
pub fn none_ahead<Z: Zone>(
    timeline: &Timeline<'_, Z>,
    text: &str,
    now: Instant,
    [starts_at, ends_at]: [Option<Instant>; 2],
) -> Option<Lint> {
    let next = timeline.next_after(starts_at.map_or(now, |start| now.max(start.just_before())));
    let fires = next.is_some_and(|next| ends_at.is_none_or(|end| next < end));
    if fires || *timeline.clock == Clock::Never {
        return None;
    }
    let (within, hint) = if next.is_none() && timeline.next_after(now).is_none() {
        ("", "Check the date, the year and the combination of day and month.")
    } else {
        (" within starts_at and ends_at", "Check both: starts_at is the first instant that may be a plan time, ends_at the first that may no longer be one.")
    };
    Some(Lint::new("never_fires", format!("the clock {} has no time ahead{within}", quoted(text)), hint))
}

/// `*/5 * * * * *` fires every five seconds, `0 9 * * * *` at nine minutes past each hour, and `0 9 * * 1-5 *` does that from January to May.
fn seconds_field(cron: &Cron, fields: &[&str]) -> Option<Lint> {
    let [second, minute, rest @ ..] = fields else {
        return None;
    };
    if fields.len() < 6 {
        return None;
    }
    let is_hour = |text: &str| text.parse::<u32>().is_ok_and(|hour| hour < 24);
    let are_hours = minute.split([',', '-']).all(is_hour);
    // Numbers that are hours as well, of each hour. Where nothing else is said only a lone one: `0 5,20 * * * *` is usual, and so is minute 0, but
    // for a month that may be a day of the week.
    let looks_like_hours = match rest {
        ["*", _, month, "*", ..] if *month != "*" => are_hours,
        ["*", rest @ ..] if rest.iter().any(|field| *field != "*") => are_hours && *minute != "0",
        _ => is_hour(minute) && *minute != "0" && rest.iter().all(|field| *field == "*"),
    };
    let looks_like_minute = second.parse::<u32>().is_ok() && looks_like_hours;
    if !second.starts_with('*') && !looks_like_minute {
        return None;
    }
    let times = cron.seconds.count_ones();
    let message = if times > 1 {
        format!("six fields begin with seconds: this fires {times} times in each minute that matches")
    } else {
        format!(
            "six fields begin with seconds: {} is the second and {} the minute, of each hour",
            quoted(second),
            quoted(minute)
        )
    };
    let five: Vec<&str> = fields.iter().take(5).copied().collect();
    let hint = format!("Write {} if minutes come first.", quoted(&five.join(" ")));
    Some(Lint::new("seconds_field", message, hint))
}

fn both_day_fields(cron: &Cron) -> Option<Lint> {
    let days = &cron.days;
    let month_set = !(days.month_star && days.plain == 0xffff_fffe);
    let week_set = !(days.week_star && days.week == 0x7f);
    if !month_set || !week_set || days.both {
        return None;
    }
    let (message, hint) = if days.month_star || days.week_star {
        (
            "day-of-month and day-of-week are both set and one begins with a star: a day must match both",
            "Write a range such as 1-31/2 instead of */2 if a day should match either.",
        )
    } else {
        (
            "day-of-month and day-of-week are both set: a day that matches either of them fires",
            "Write * in the one that should not count, or + before the day of the week if a day must match both.",
        )
    };
    Some(Lint::new("both_day_fields", message, hint))
}

/// `*/n` where n does not divide the field: the last interval is shorter.
fn uneven_steps(fields: &[&str]) -> Vec<Lint> {
    let names: &[Field] = match fields.len() {
        5 => &Field::ALL[1..6],
        6 => &Field::ALL[..6],
        7 => &Field::ALL,
        _ => &[],
    };
    let mut out = Vec::new();
    for (&field, text) in names.iter().zip(fields) {
        let (size, round) = match field {
            Field::Second => (60, "minute"),
            Field::Minute => (60, "hour"),
            Field::Hour => (24, "day"),
            Field::DayOfMonth => (31, "month"),
            Field::Month => (12, "year"),
            Field::DayOfWeek => (7, "week"),
            Field::Year => continue,
        };
        for item in text.split(',') {
            let Some(step) = item.strip_prefix("*/").and_then(|step| step.parse::<u64>().ok()) else {
                continue;
            };
            if step <= 1 || size % step == 0 {
                continue;
            }
            let message = format!(
                "the step of the {} field {} does not divide {size}: it begins again with each {round}",
                field.name(),
                quoted(item)
            );
            let hint = match field {
                Field::Second => format!("Write \"every {step} seconds\" for even intervals."),
                Field::Minute => format!("Write \"every {step} minutes\" for even intervals."),
                Field::Hour => format!("Write \"every {step} hours\" for even intervals."),
                Field::Month => format!("Write \"every {step} months\" for even intervals."),
                Field::DayOfMonth | Field::DayOfWeek | Field::Year => {
                    format!("Write \"every {step} days\" for even intervals.")
                }
            };
            out.push(Lint::new("uneven_step", message, hint));
        }
    }
    out
}

/// The changes of the coming year that a cron clock's readings fall into. Clocks whose hour field begins with a star
/// run on through a change and are not warned about.
fn cron_changes<Z: Zone>(timeline: &Timeline<'_, Z>, cron: &Cron, now: Instant, out: &mut Vec<Lint>) {
    if cron.hour_star {
        return;
    }
    let from = now.unix_seconds();
    let mut span = timeline.zone.at(from);
    // A year has a handful of boundaries; the bound is for a zone that claims more.
    for _ in 0..100 {
        let change = span.until;
        if change > from + YEAR {
            return;
        }
        let after = timeline.zone.at(change);
        let (old, new) = (change + span.offset, change + after.offset);
        span = after;
        let (first, end) = (old.min(new), old.max(new));
        let Some(hit) = cron.reading_at_or_after(first).filter(|&reading| reading < end) else {
            continue;
        };
        let (day, start, hit, until) = (date(first), time(first), time(hit), time(end));
        if new > old {
            let message = if cron.is_wild() {
                format!("falls into a DST gap on {day}: {hit} does not exist then and does not fire")
            } else {
                format!("falls into a DST gap on {day}: {hit} does not exist then and fires at {until}")
            };
            let hint = format!("Choose a time outside of {start} to {until} if that matters.");
            out.push(Lint::new("dst_gap", message, hint));
        } else {
            let message = if cron.is_wild() {
                format!("falls into a DST overlap on {day}: {hit} comes twice and fires twice")
            } else {
                format!("falls into a DST overlap on {day}: {hit} comes twice and fires once, in the first pass")
            };
            let hint = format!("Choose a time outside of {start} to {until} if that matters.");
            out.push(Lint::new("dst_overlap", message, hint));
        }
    }
}

/// The same for clocks whose plan times can be asked for their notes one by one (at most one a day).
fn noted_changes<Z: Zone>(timeline: &Timeline<'_, Z>, now: Instant, out: &mut Vec<Lint>) {
    if let Clock::Every(every) = timeline.clock {
        if every.interval.is_elapsed() || timeline.counts_from().is_some() {
            return;
        }
    }
    let end = now.checked_add_micros(YEAR * MICROS_PER_SECOND).unwrap_or(Instant::MAX);
    let once = matches!(timeline.clock, Clock::At(_));
    let mut at = now;
    for _ in 0..400 {
        let Some(plan) = timeline.next_after(at).filter(|&plan| once || plan <= end) else {
            return;
        };
        at = plan;
        match timeline.dst_note(plan) {
            Some(DstNote::Skipped { wanted, fires, .. }) => out.push(Lint::new(
                "dst_gap",
                format!(
                    "falls into a DST gap on {}: {} does not exist then and fires at {}",
                    date(seconds(wanted)),
                    time(seconds(wanted)),
                    time(seconds(fires))
                ),
                "Choose another time of day, or give the offset, if that matters.",
            )),
            Some(DstNote::Repeated { reading }) => out.push(Lint::new(
                "dst_overlap",
                format!(
                    "falls into a DST overlap on {}: {} comes twice and fires once, in the first pass",
                    date(seconds(reading)),
                    time(seconds(reading))
                ),
                "Choose another time of day, or give the offset, if that matters.",
            )),
            None => {}
        }
    }
}

/// A reading in microseconds since 2000-01-01 as Unix seconds.
const fn seconds(micros: i64) -> i64 {
    micros.div_euclid(MICROS_PER_SECOND) + UNIX_TO_POSTGRES_SECONDS
}

fn text_of(reading: i64) -> String {
    LocalDisplay((reading - UNIX_TO_POSTGRES_SECONDS) * MICROS_PER_SECOND).to_string()
}

fn date(reading: i64) -> String {
    let text = text_of(reading);
    text.split_once(' ').map_or(text.clone(), |(date, _)| date.to_owned())
}

fn time(reading: i64) -> String {
    let text = text_of(reading);
    let time = text.split_once(' ').map_or(text.as_str(), |(_, time)| time);
    time.strip_suffix(":00").unwrap_or(time).to_owned()
}
