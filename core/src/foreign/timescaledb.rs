//! TimescaleDB's jobs, by the rules of its `job_stat.c` (2.0 and later): what drifts counts from the end of the last run, and what has a
//! fixed schedule is a grid of buckets from its first start on.

use crate::clock::zone::Zone;
use crate::clock::Clock;
use crate::time::civil::{civil_from_days, SECONDS_PER_DAY};
use crate::time::{Instant, MICROS_PER_SECOND, UNIX_TO_POSTGRES_SECONDS};

use super::{ForeignClock, CALENDAR_YEARS, YEAR_MICROS};

/// An interval of Postgres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Months.
    pub months: i64,
    /// Days.
    pub days: i64,
    /// The rest, in microseconds.
    pub micros: i64,
}

/// When a job is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a, Z> {
    /// From one run to the next.
    pub every: Length,
    /// The first slot of a fixed schedule; `None`: it drifts.
    pub fixed_from: Option<Instant>,
    /// The zone of its own, by name and as it is.
    pub own_zone: Option<(&'a str, &'a Z)>,
    /// That of the database.
    pub zone: (&'a str, &'a Z),
}

/// The clock and its zone; the reason where no clock of ours does the same.
pub fn read<Z: Zone>(rule: &Rule<'_, Z>, now: Instant) -> Result<(ForeignClock, String), String> {
    let Length { months, days, micros } = rule.every;
    if months < 0 || days < 0 || micros < 0 || months == 0 && days == 0 && micros == 0 {
        return Err("its interval is not positive".to_owned());
    }
    let length = words(rule.every);
    let (name, zone) = rule.zone;
    let is_of_calendar = months > 0 || days > 0;
    // Changes of clocks matter from the first slot on, or from now.
    let since = rule.fixed_from.map_or(now, |first| first.min(now));
    let until = now.checked_add_micros(CALENDAR_YEARS * YEAR_MICROS).unwrap_or(Instant::MAX);
    let changes = |zone: &Z| Clock::Never.bind(zone, now).first_change(since, until);
    let Some(first) = rule.fixed_from else {
        if let Some(change) = is_of_calendar.then(|| changes(zone)).flatten() {
            return Err(format!(
                "it counts days from the end of its last run: where the clocks of zone {name} skip that time of the day ({change}) it runs as much later as they skip, and here when they have"
            ));
        }
        return Ok((ForeignClock::plain(format!("every {length} after end")), name.to_owned()));
    };
    if months > 0 && (days, micros) != (0, 0) {
        return Err("months beside days or hours make no slots".to_owned());
    }
    if let Some((own_name, own)) = rule.own_zone.filter(|(own_name, _)| *own_name != name) {
        if months > 0 {
            return Err(format!(
                "its slots are counted in months of zone {own_name}, and TimescaleDB adds the months in the database's zone {name}: at the end of a month it runs on another day"
            ));
        }
        let change = changes(own).or_else(|| is_of_calendar.then(|| changes(zone)).flatten());
        if let Some(change) = change {
            return Err(format!(
                "its slots are those of zone {own_name}, and TimescaleDB steps from slot to slot in the database's zone {name}: where clocks change ({change}) it runs at another time of the day"
            ));
        }
    }
    let (zone_name, zone) = rule.own_zone.unwrap_or((name, zone));
    if let Some(change) = changes(zone) {
        if micros > 0 && (days > 0 || rule.own_zone.is_some()) {
            return Err(format!("it counts hours as its wall clock shows them, and the clocks change at {change}"));
        }
        if is_of_calendar && rule.own_zone.is_none() {
            return Err(format!(
                "it has days or months and no zone of its own: where the clocks of the database's zone {name} change ({change}) TimescaleDB steps by the wall clock from slots that it counts in UTC"
            ));
        }
        if is_of_calendar {
            if let Some(reading) = at_a_change(zone, first, now, until) {
                return Err(format!(
                    "the clocks of its zone change at {reading}: there it runs at another time of the day"
                ));
            }
        }
    }
    let text = format!("every {length} from {}", moment(first));
    Ok((ForeignClock::plain(text), zone_name.to_owned()))
}

/// Where the time of the day of `first` is skipped or repeated.
fn at_a_change<Z: Zone>(zone: &Z, first: Instant, now: Instant, until: Instant) -> Option<impl std::fmt::Display> {
    let (reading, _) = Clock::Never.bind(zone, now).local_at(first);
    let second = reading.div_euclid(MICROS_PER_SECOND).rem_euclid(SECONDS_PER_DAY);
    let text = format!("{} {} {} * * *", second % 60, second / 60 % 60, second / 3600);
    let clock = Clock::parse(&text).ok()?;
    clock.bind(zone, now).reading_at_a_change(first.min(now), until)
}

fn words(Length { months, days, micros }: Length) -> String {
    const UNITS: [(i64, &str); 4] =
        [(3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second"), (1, "microsecond")];
    let said = |count: i64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    let rest = UNITS.iter().find(|(size, _)| micros % size == 0).filter(|_| micros > 0);
    let parts = [(months, "month"), (days, "day")].into_iter().filter(|(count, _)| *count > 0);
    let parts = parts.chain(rest.map(|(size, unit)| (micros / size, *unit)));
    parts.map(|(count, unit)| said(count, unit)).collect::<Vec<_>>().join(" ")
}

/// A date-time in UTC.
fn moment(at: Instant) -> String {
    let second = at.unix_seconds();
    let (year, month, day) = civil_from_days(second.div_euclid(SECONDS_PER_DAY));
    let time = second.rem_euclid(SECONDS_PER_DAY);
    let micros = (at.as_micros() + UNIX_TO_POSTGRES_SECONDS * MICROS_PER_SECOND).rem_euclid(MICROS_PER_SECOND);
    let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}").trim_end_matches('0').to_owned() };
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}{fraction}+00", time / 3600, time / 60 % 60, time % 60)
}
