//! Known sequences, each with its source. Where the source is the tz database, the transition can be seen with
//! `zdump -v` of the zone, and the release note that introduced it is named.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use clock_support::{instant, show, upcoming, zone, Rule};
use scheduler_core::clock::zone::{Utc, Zone};
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

/// The first plan times after an instant, as the zone's own wall clock shows them.
#[track_caller]
fn check_in(zone: &impl Zone, clock: &str, after: &str, expected: &[&str]) {
    let parsed = Clock::parse(clock).unwrap_or_else(|error| panic!("{clock}: {error}"));
    let timeline = parsed.bind(zone, Instant::UNIX_EPOCH);
    let times = upcoming(&timeline, instant(after), expected.len());
    let shown: Vec<String> = times.iter().map(|&t| show(&timeline, t)).collect();
    assert_eq!(shown, expected, "{clock} after {after}");
    // The same backwards.
    for pair in times.windows(2) {
        assert_eq!(timeline.previous_at_or_before(pair[1].checked_add_micros(-1).unwrap()), Some(pair[0]), "{clock}");
    }
}

#[track_caller]
fn check(name: &str, clock: &str, after: &str, expected: &[&str]) {
    check_in(zone(name), clock, after, expected);
}

#[track_caller]
fn note(name: &str, clock: &str, after: &str, expected: Option<&str>) {
    let parsed = Clock::parse(clock).unwrap();
    let timeline = parsed.bind(zone(name), Instant::UNIX_EPOCH);
    let plan = timeline.next_after(instant(after)).unwrap();
    assert_eq!(timeline.dst_note(plan).map(|note| note.to_string()).as_deref(), expected, "{clock} after {after}");
}

#[track_caller]
fn never(clock: &str, after: &str) {
    let parsed = Clock::parse(clock).unwrap();
    assert_eq!(parsed.bind(&Utc, Instant::UNIX_EPOCH).next_after(instant(after)), None, "{clock}");
}

/// Source: US Energy Policy Act of 2005 (second Sunday of March, first of November); docs/reference/clocks.md, rules 7–9.
#[test]
fn new_york() {
    let spring = "2026-03-08 00:00-05";
    let zone = "America/New_York";
    check(zone, "30 2 * * *", spring, &["2026-03-08 03:00:00-04", "2026-03-09 02:30:00-04"]);
    check(zone, "0 2,3 * * *", spring, &["2026-03-08 03:00:00-04", "2026-03-09 02:00:00-04"]);
    check(
        zone,
        "30 2,3 * * *",
        spring,
        &["2026-03-08 03:00:00-04", "2026-03-08 03:30:00-04", "2026-03-09 02:30:00-04"],
    );
    check(zone, "0-59 2 * * *", spring, &["2026-03-08 03:00:00-04", "2026-03-09 02:00:00-04"]);
    check(zone, "*/15 2 * * *", spring, &["2026-03-09 02:00:00-04"]);
    check(zone, "0 */2 * * *", "2026-03-07 23:00-05", &["2026-03-08 00:00:00-05", "2026-03-08 04:00:00-04"]);
    let autumn = "2026-11-01 00:45-04";
    check(zone, "30 1 * * *", autumn, &["2026-11-01 01:30:00-04", "2026-11-02 01:30:00-05"]);
    check(zone, "30 1 * * *", "2026-11-01 01:10-05", &["2026-11-02 01:30:00-05"]);
    check(zone, "30 * * * *", autumn, &["2026-11-01 01:30:00-04", "2026-11-01 01:30:00-05", "2026-11-01 02:30:00-05"]);
    check(
        zone,
        "0-59/30 0-23 * * *",
        autumn,
        &["2026-11-01 01:00:00-04", "2026-11-01 01:30:00-04", "2026-11-01 02:00:00-05"],
    );
    note(zone, "30 2 * * *", spring, Some("skipped by DST: fires at 03:00 instead of 02:30"));
    note(zone, "0 2,3 * * *", spring, Some("skipped by DST: fires at 03:00 instead of 02:00"));
    note(zone, "30 2,3 * * *", spring, Some("skipped by DST: fires at 03:00 instead of 02:30"));
    note(
        zone,
        "0-59 2 * * *",
        spring,
        Some("skipped by DST: fires at 03:00 instead of 02:00 and of 59 other times in the gap"),
    );
    note(zone, "0 3 * * *", spring, None);
    note(zone, "30 1 * * *", autumn, Some("01:30 comes twice: fires in the first pass; second pass, not repeated"));
    note(zone, "30 * * * *", autumn, None);
    note(zone, "30 3 * * *", autumn, None);
    // The wall clock of `every 1 day` stays, that of `every 24 hours` does not (docs/reference/clocks.md, rule 12).
    check(
        zone,
        "every 1 day from 2026-03-07 09:00",
        "2026-03-07 09:00-05",
        &["2026-03-08 09:00:00-04", "2026-03-09 09:00:00-04"],
    );
    check(
        zone,
        "every 24 hours from 2026-03-07 09:00",
        "2026-03-07 09:00-05",
        &["2026-03-08 10:00:00-04", "2026-03-09 10:00:00-04"],
    );
    check(
        zone,
        "every 1 day from 2026-03-07 02:30",
        "2026-03-07 02:30-05",
        &["2026-03-08 03:00:00-04", "2026-03-09 02:30:00-04"],
    );
    note(
        zone,
        "every 1 day from 2026-03-07 02:30",
        "2026-03-07 02:30-05",
        Some("skipped by DST: fires at 03:00 instead of 02:30"),
    );
    // The end of a gap is a whole second, whatever the fraction of the time that is missing.
    check(
        zone,
        "every 1 day from 2026-03-07 02:30:00.5",
        "2026-03-07 12:00-05",
        &["2026-03-08 03:00:00-04", "2026-03-09 02:30:00.5-04"],
    );
}

/// Source: EU directive 2000/84/EC (01:00 UTC on the last Sunday of March and October).
#[test]
fn berlin() {
    let zone = "Europe/Berlin";
    check(zone, "30 2 * * *", "2026-03-28 12:00+01", &["2026-03-29 03:00:00+02", "2026-03-30 02:30:00+02"]);
    check(zone, "30 2 * * *", "2026-10-25 00:00+02", &["2026-10-25 02:30:00+02", "2026-10-26 02:30:00+01"]);
    check(
        zone,
        "*/30 * * * *",
        "2026-10-25 01:59+02",
        &[
            "2026-10-25 02:00:00+02",
            "2026-10-25 02:30:00+02",
            "2026-10-25 02:00:00+01",
            "2026-10-25 02:30:00+01",
            "2026-10-25 03:00:00+01",
        ],
    );
    check(zone, "at 2026-03-29 02:30", "2026-01-01 00:00+00", &["2026-03-29 03:00:00+02"]);
    check(zone, "at 2026-10-25 02:30", "2026-01-01 00:00+00", &["2026-10-25 02:30:00+02"]);
}

/// Source: tz database, half an hour since 1985; docs/reference/clocks.md, rule 7.
#[test]
fn lord_howe() {
    let zone = "Australia/Lord_Howe";
    check(
        zone,
        "45 * * * *",
        "2026-04-05 01:00+11",
        &["2026-04-05 01:45:00+11", "2026-04-05 01:45:00+10:30", "2026-04-05 02:45:00+10:30"],
    );
    check(zone, "45 1 * * *", "2026-04-05 01:00+11", &["2026-04-05 01:45:00+11", "2026-04-06 01:45:00+10:30"]);
    check(zone, "15 2 * * *", "2026-10-04 00:00+10:30", &["2026-10-04 02:30:00+11", "2026-10-05 02:15:00+11"]);
}

/// Source: tz database 2011i: Samoa left out 2011-12-30; docs/reference/clocks.md, rule 8.
#[test]
fn apia_lost_a_day() {
    let zone = "Pacific/Apia";
    check(
        zone,
        "0 9 * * *",
        "2011-12-29 00:00-10",
        &["2011-12-29 09:00:00-10", "2011-12-31 00:00:00+14", "2011-12-31 09:00:00+14"],
    );
    check(zone, "0 9 30 12 *", "2011-01-01 00:00+00", &["2011-12-31 00:00:00+14", "2012-12-30 09:00:00+14"]);
    check(zone, "0 */12 * * *", "2011-12-29 00:00-10", &["2011-12-29 12:00:00-10", "2011-12-31 00:00:00+14"]);
    check(
        zone,
        "every 1 day from 2011-12-28 09:00",
        "2011-12-29 00:00-10",
        &["2011-12-29 09:00:00-10", "2011-12-31 00:00:00+14", "2011-12-31 09:00:00+14"],
    );
    note(
        zone,
        "0 9 * * *",
        "2011-12-29 12:00-10",
        Some("skipped by DST: fires at 2011-12-31 00:00 instead of 2011-12-30 09:00"),
    );
}

/// Source: tz database 2016a and later: two hours, at 01:00 UTC on the EU's dates.
#[test]
fn troll() {
    let zone = "Antarctica/Troll";
    check(zone, "30 1,2 * * *", "2026-03-28 23:00+00", &["2026-03-29 03:00:00+02", "2026-03-30 01:30:00+02"]);
    check(
        zone,
        "30 1,2 * * *",
        "2026-10-25 00:00+02",
        &["2026-10-25 01:30:00+02", "2026-10-25 02:30:00+02", "2026-10-26 01:30:00+00"],
    );
    check(
        zone,
        "30 * * * *",
        "2026-10-25 00:59+02",
        &["2026-10-25 01:30:00+02", "2026-10-25 02:30:00+02", "2026-10-25 01:30:00+00", "2026-10-25 02:30:00+00"],
    );
}

/// Source: tz database 2018g: +01 with a return to +00 for Ramadan (03:00 → 02:00 on 2026-02-15, back on 2026-03-22).
#[test]
fn casablanca() {
    let zone = "Africa/Casablanca";
    check(zone, "30 2 * * *", "2026-02-14 12:00+01", &["2026-02-15 02:30:00+01", "2026-02-16 02:30:00+00"]);
    check(zone, "30 2 * * *", "2026-03-21 12:00+00", &["2026-03-22 03:00:00+01", "2026-03-23 02:30:00+01"]);
}

/// Source: tz database: Lebanon changes at midnight, forwards on the last Sunday of March.
#[test]
fn beirut_has_no_midnight() {
    let zone = "Asia/Beirut";
    check(zone, "@daily", "2026-03-28 12:00+02", &["2026-03-29 01:00:00+03", "2026-03-30 00:00:00+03"]);
    check(zone, "@daily", "2026-10-24 12:00+03", &["2026-10-25 00:00:00+02", "2026-10-26 00:00:00+02"]);
    check(zone, "30 23 * * *", "2026-10-24 12:00+03", &["2026-10-24 23:30:00+03", "2026-10-25 23:30:00+02"]);
    check(zone, "@hourly", "2026-03-28 22:30+02", &["2026-03-28 23:00:00+02", "2026-03-29 01:00:00+03"]);
}

/// Source: tz database: 45 minutes, at 02:45 standard time.
#[test]
fn chatham() {
    let zone = "Pacific/Chatham";
    check(zone, "0 3 * * *", "2026-09-26 12:00+12:45", &["2026-09-27 03:45:00+13:45", "2026-09-28 03:00:00+13:45"]);
    check(zone, "0 3 * * *", "2026-04-04 12:00+13:45", &["2026-04-05 03:00:00+13:45", "2026-04-06 03:00:00+12:45"]);
}

/// Source: tz database 2022c: Chile goes forward at 24:00 on a Saturday in September.
#[test]
fn santiago_has_no_midnight() {
    let zone = "America/Santiago";
    check(zone, "@daily", "2026-09-05 12:00-04", &["2026-09-06 01:00:00-03", "2026-09-07 00:00:00-03"]);
    check(zone, "30 23 * * *", "2026-04-04 12:00-03", &["2026-04-04 23:30:00-03", "2026-04-05 23:30:00-04"]);
}

/// Source: tz database 2023g: Nuuk is at −02 since 2023 and changes at 00:00 (−01) on the EU's dates from 2024.
#[test]
fn nuuk() {
    let zone = "America/Nuuk";
    check(zone, "30 23 * * *", "2026-03-27 23:30-02", &["2026-03-29 00:00:00-01", "2026-03-29 23:30:00-01"]);
    check(zone, "30 23 * * *", "2026-10-24 12:00-01", &["2026-10-24 23:30:00-01", "2026-10-25 23:30:00-02"]);
}

/// Source: tz database, the purchase of Alaska: at 1867-10-19 15:33:32 Juneau went back by a day.
#[test]
fn juneau_had_a_day_twice() {
    let zone = "America/Juneau";
    check(zone, "0 9 * * *", "1867-10-18 00:00+00", &["1867-10-19 09:00:00+15:02:19", "1867-10-20 09:00:00-08:57:41"]);
    check(
        zone,
        "0 */12 * * *",
        "1867-10-18 00:00+00",
        &[
            "1867-10-19 00:00:00+15:02:19",
            "1867-10-19 12:00:00+15:02:19",
            "1867-10-19 00:00:00-08:57:41",
            "1867-10-19 12:00:00-08:57:41",
        ],
    );
}

/// Source: the Gregorian rule (1900 and 2100 are no leap years, 2000 is); docs/reference/clocks.md, rule 5.
#[test]
fn leap_years_and_centuries() {
    let leap = "0 0 29 2 *";
    check_in(&Utc, leap, "2026-01-01 00:00+00", &["2028-02-29 00:00:00+00", "2032-02-29 00:00:00+00"]);
    check_in(&Utc, leap, "2096-03-01 00:00+00", &["2104-02-29 00:00:00+00"]);
    check_in(&Utc, leap, "1896-03-01 00:00+00", &["1904-02-29 00:00:00+00"]);
    check_in(&Utc, leap, "1999-03-01 00:00+00", &["2000-02-29 00:00:00+00"]);
    check_in(
        &Utc,
        "0 0 29 2 */7",
        "2004-03-01 00:00+00",
        &["2032-02-29 00:00:00+00", "2060-02-29 00:00:00+00", "2088-02-29 00:00:00+00", "2128-02-29 00:00:00+00"],
    );
    check_in(&Utc, "0 0 */100,29 2 mon", "2052-03-01 00:00+00", &["2055-02-01 00:00:00+00"]);
    check_in(&Utc, "0 0 L 2 *", "2099-12-01 00:00+00", &["2100-02-28 00:00:00+00", "2101-02-28 00:00:00+00"]);
    never("30 2 31 2 *", "2026-01-01 00:00+00");
    never("0 0 31 2,4,6,9,11 *", "2026-01-01 00:00+00");
    never("0 0 0 29 2 * 2026,2027,2029-2031", "2026-01-01 00:00+00");
    never("0 0 30W 2 *", "2026-01-01 00:00+00");
}

/// Source: 2^31 seconds after 1970 is 2038-01-19 03:14:08 UTC; the last Postgres timestamp is in 294276.
#[test]
fn far_years() {
    check_in(&Utc, "* * * * * *", "2038-01-19 03:14:07+00", &["2038-01-19 03:14:08+00", "2038-01-19 03:14:09+00"]);
    check_in(&Utc, "0 0 1 1 *", "9998-06-01 00:00+00", &["9999-01-01 00:00:00+00", "10000-01-01 00:00:00+00"]);
    check_in(&Utc, "59 23 31 12 *", "294276-01-01 00:00+00", &["294276-12-31 23:59:00+00"]);
    never("59 23 31 12 *", "294276-12-31 23:59+00");
    never("every 1 month from 2000-01-31", "294276-12-31 00:00+00");
    check_in(
        &Utc,
        "every 1 month from 2000-01-31",
        "294276-11-01 00:00+00",
        &["294276-11-30 00:00:00+00", "294276-12-31 00:00:00+00"],
    );
    // The whole range at once, which is wider than 64 bits of microseconds.
    let whole = Clock::parse("every 1 microsecond").unwrap();
    let before_last = Instant::MAX.checked_add_micros(-1).unwrap();
    assert_eq!(whole.bind(&Utc, Instant::MIN).next_after(before_last), Some(Instant::MAX));
    assert_eq!(whole.bind(&Utc, Instant::MIN).next_after(Instant::MAX), None);
    // A `from` that this zone's clock puts past the last instant.
    let west = scheduler_core::clock::zone::FixedOffset(-12 * 3_600);
    let late = Clock::parse("every 1 day from 294276-12-31 23:00").unwrap();
    assert_eq!(late.bind(&west, Instant::MIN).next_after(Instant::MIN), None);
    assert_eq!(late.bind(&west, Instant::MIN).previous_at_or_before(Instant::MAX), None);
    // The rule of New York for ever, as a POSIX zone has it: clock changes of the year 9999.
    check_in(&Rule, "30 2 * * *", "9999-03-14 00:00-05", &["9999-03-14 03:00:00-04", "9999-03-15 02:30:00-04"]);
    check_in(&Rule, "30 1 * * *", "294276-11-01 00:00-04", &["294276-11-01 01:30:00-04"]);
    // Years of a seven-field clock end in 2099; its lone star does not.
    never("0 0 0 1 1 * 2027-2099/2", "2099-06-01 00:00+00");
    check_in(&Utc, "0 0 0 1 1 * *", "2099-06-01 00:00+00", &["2100-01-01 00:00:00+00"]);
}

/// `* 2 … 0#2` in March lies wholly in New York's gap: it never fires again, and that is found at once.
#[test]
fn a_wild_clock_that_only_names_gaps_ends() {
    let clock = Clock::parse("* 2 * 3 0#2").unwrap();
    let timeline = clock.bind(&Rule, Instant::UNIX_EPOCH);
    assert_eq!(timeline.next_after(instant("2026-01-01 00:00+00")), None);
    assert_eq!(timeline.previous_at_or_before(instant("2026-01-01 00:00+00")), None);
}

/// Source: PostgreSQL 15, `select timestamptz '2026-01-31 09:00+00' + n * interval '1 month'` in UTC.
#[test]
fn months_do_not_drift() {
    check_in(
        &Utc,
        "every 1 month from 2026-01-31 09:00+00",
        "2026-01-01 00:00+00",
        &[
            "2026-01-31 09:00:00+00",
            "2026-02-28 09:00:00+00",
            "2026-03-31 09:00:00+00",
            "2026-04-30 09:00:00+00",
            "2026-05-31 09:00:00+00",
        ],
    );
    check_in(
        &Utc,
        "every 1 year from 2024-02-29",
        "2026-12-31 00:00+00",
        &["2027-02-28 00:00:00+00", "2028-02-29 00:00:00+00"],
    );
    check_in(
        &Utc,
        "every 1 month 1 day 1 hour from 2026-01-30",
        "2026-01-30 00:00+00",
        &["2026-03-01 01:00:00+00", "2026-04-01 02:00:00+00"],
    );
    check_in(
        &Utc,
        "every 0.1 seconds from epoch",
        "2026-01-01 00:00:00.05+00",
        &["2026-01-01 00:00:00.1+00", "2026-01-01 00:00:00.2+00"],
    );
    // Nothing before the anchor, and the anchor itself first.
    check_in(
        &Utc,
        "every 7 days from 2026-05-01 10:00+00",
        "1999-01-01 00:00+00",
        &["2026-05-01 10:00:00+00", "2026-05-08 10:00:00+00"],
    );
}

/// Source: the calendar of 2026 (August 15 is a Saturday, November 15 a Sunday, January 31 a Saturday).
#[test]
fn last_nearest_and_nth() {
    let from = "2026-01-01 00:00+00";
    check_in(&Utc, "0 0 LW * *", from, &["2026-01-30 00:00:00+00", "2026-02-27 00:00:00+00", "2026-03-31 00:00:00+00"]);
    check_in(&Utc, "0 0 15W 8,11 *", from, &["2026-08-14 00:00:00+00", "2026-11-16 00:00:00+00"]);
    check_in(&Utc, "0 0 1W 8 *", from, &["2026-08-03 00:00:00+00", "2027-08-02 00:00:00+00"]);
    check_in(
        &Utc,
        "0 0 31W * *",
        from,
        &["2026-01-30 00:00:00+00", "2026-03-31 00:00:00+00", "2026-05-29 00:00:00+00"],
    );
    check_in(&Utc, "0 0 * * friL", from, &["2026-01-30 00:00:00+00", "2026-02-27 00:00:00+00"]);
    check_in(
        &Utc,
        "0 0 * * 5#5",
        from,
        &["2026-01-30 00:00:00+00", "2026-05-29 00:00:00+00", "2026-07-31 00:00:00+00"],
    );
    check_in(
        &Utc,
        "0 0 L * sun#1",
        from,
        &["2026-01-04 00:00:00+00", "2026-01-31 00:00:00+00", "2026-02-01 00:00:00+00", "2026-02-28 00:00:00+00"],
    );
}
