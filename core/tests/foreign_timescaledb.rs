//! TimescaleDB's jobs as clocks of ours, by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod clock_support;

use clock_support::zone;
use scheduler_core::clock::Clock;
use scheduler_core::foreign::timescaledb::{read, Length, Rule};
use scheduler_core::time::Instant;

const HOUR: i64 = 3_600_000_000;

/// The clock of a job whose first slot is 2026-01-01 at this minute of the day in UTC.
fn text(
    every: (i64, i64, i64),
    first: Option<i64>,
    own: Option<&str>,
    database: &str,
) -> Result<(String, String), String> {
    let (months, days, micros) = every;
    // 2026-01-01 is 9,497 days after 2000-01-01.
    let at = |minute: i64| Instant::from_micros(9_497 * 24 * HOUR + minute * HOUR / 60).unwrap();
    let (own_zone, database_zone) = (own.map(|name| (name, zone(name))), zone(database));
    let rule = Rule {
        every: Length { months, days, micros },
        fixed_from: first.map(at),
        own_zone: own_zone.as_ref().map(|(name, zone)| (*name, zone)),
        zone: (database, &database_zone),
    };
    let (clock, zone) = read(&rule, at(0))?;
    Clock::parse(&clock.text).unwrap();
    Ok((clock.text, zone))
}

#[test]
fn texts() {
    let (utc, berlin) = ("UTC", "Europe/Berlin");
    for (every, first, own, database, clock) in [
        ((0, 0, HOUR), None, None, berlin, "every 1 hour after end"),
        ((1, 2, HOUR / 4), None, None, utc, "every 1 month 2 days 15 minutes after end"),
        ((0, 0, HOUR), Some(5), None, berlin, "every 1 hour from 2026-01-01 00:05:00+00"),
        ((0, 1, 0), Some(570), None, utc, "every 1 day from 2026-01-01 09:30:00+00"),
        ((0, 1, HOUR), Some(570), None, utc, "every 1 day 1 hour from 2026-01-01 09:30:00+00"),
        ((0, 1, 0), Some(570), Some(berlin), berlin, "every 1 day from 2026-01-01 09:30:00+00"),
        ((12, 0, 0), Some(570), Some(utc), utc, "every 12 months from 2026-01-01 09:30:00+00"),
        ((0, 0, 250_001), Some(0), None, utc, "every 250001 microseconds from 2026-01-01 00:00:00+00"),
    ] {
        assert_eq!(text(every, first, own, database).unwrap().0, clock);
    }
    assert_eq!(text((0, 1, 0), Some(570), Some(berlin), berlin).unwrap().1, berlin);
    for (every, first, own, database) in [
        ((0, 0, 0), None, None, utc),
        ((0, -1, HOUR), None, None, utc),
        ((1, 1, 0), Some(0), None, utc),
        // Where the clocks skip that time of the day it is run later.
        ((0, 1, 0), None, None, berlin),
        ((1, 0, 0), Some(0), Some(utc), "Asia/Kolkata"),
        ((0, 1, 0), Some(0), None, berlin),
        ((1, 0, 0), Some(0), None, berlin),
        ((0, 0, HOUR), Some(0), Some(berlin), berlin),
        ((0, 0, HOUR), Some(0), Some(berlin), utc),
        ((0, 1, 0), Some(0), Some(utc), berlin),
        // 02:30 in Berlin, which is skipped once a year.
        ((0, 1, 0), Some(90), Some(berlin), berlin),
    ] {
        assert!(text(every, first, own, database).is_err(), "{every:?} {own:?} {database}");
    }
}
