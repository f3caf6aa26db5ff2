//! Every good and bad text of the lists in `tests/data`, intervals as PostgreSQL 15 reads them, equality, warnings.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use std::time::{Duration, Instant as Moment};

use clock_support::{instant, zone};
use scheduler_core::clock::zone::Utc;
use scheduler_core::clock::{lint, Clock, ErrorKind, Field};

/// One line: the text, the kind, a part of the hint.
const BAD: &str = include_str!("data/bad_clocks.txt");
/// One line: the text, the canonical text.
const GOOD: &str = include_str!("data/good_clocks.txt");
/// One line: an interval, and its months, days and microseconds: `select '…'::interval` in PostgreSQL 15.
const INTERVALS: &str = include_str!("data/intervals.txt");

#[test]
fn bad_texts_are_refused_with_a_hint_that_can_be_followed() {
    let mut count = 0;
    for line in BAD.lines() {
        let [text, kind, hint] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let error = Clock::parse(text).expect_err(text);
        // The best of a few: the machine may be busy, the parser may not.
        let quickest = (0..10).map(|_| {
            let start = Moment::now();
            let _ = Clock::parse(text);
            start.elapsed()
        });
        assert!(quickest.min().unwrap() < Duration::from_millis(10), "{text} is slow");
        assert_eq!(error.kind().name(), kind, "{text}: {error}");
        assert!(error.hint().contains(hint), "{text}: {}", error.hint());
        let message = error.to_string();
        assert!(message.starts_with(char::is_lowercase) && !message.ends_with('.'), "{message}");
        assert!(message.contains('"'), "{message}");
        // Where the hint shows a clock it must be one, so that following the hint helps.
        if let Some(shown) = error.hint().split('"').nth(1) {
            Clock::parse(shown).unwrap_or_else(|again| panic!("{text}: the hint's {shown} is refused: {again}"));
        }
        count += 1;
    }
    assert!(count >= 150, "{count}");
}

#[test]
fn good_texts_are_accepted_and_print_canonically() {
    let mut count = 0;
    for line in GOOD.lines() {
        let (text, canonical) = line.split_once('\t').unwrap();
        let clock = Clock::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(clock.to_string(), canonical, "{text}");
        assert_eq!(Clock::parse(canonical).unwrap(), clock, "{text}");
        // Keywords, names and macros are case-insensitive; ISO 8601 durations are not, as in PostgreSQL.
        if !text.contains(" P") {
            assert_eq!(Clock::parse(&text.to_ascii_uppercase()).unwrap(), clock, "{text}");
        }
        let spaced = format!("\t  {} \t", text.replace(' ', " \t"));
        assert_eq!(Clock::parse(&spaced).unwrap(), clock, "{text}");
        count += 1;
    }
    assert!(count >= 100, "{count}");
}

#[test]
fn intervals_are_read_as_postgres_reads_them() {
    for line in INTERVALS.lines() {
        let (text, expected) = line.split_once('\t').unwrap();
        match Clock::parse(&format!("every {text}")).unwrap_or_else(|error| panic!("{text}: {error}")) {
            Clock::Every(every) => {
                let i = every.interval;
                assert_eq!(format!("{} {} {}", i.months, i.days, i.micros), expected, "{text}");
            }
            other => panic!("{text}: {other}"),
        }
    }
}

#[test]
fn texts_that_mean_the_same_are_equal() {
    for (a, b) in [
        ("@weekly", "0 0 * * sun"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * fri-sun", "0 0 * * 5-7"),
        ("0 0 * * 5-0", "0 0 * * fri,sat,sun"),
        ("0 0 * * */7", "0 0 * * */7,0"),
        ("0 9 * * *", "0 0 9 * * *"),
        ("0 0 9 * * * *", "0 9 * * *"),
        ("every 2 weeks", "every P14D"),
        ("at 2027-01-01 01:00+01", "at 2027-01-01T00:00:00Z"),
    ] {
        assert_eq!(Clock::parse(a), Clock::parse(b), "{a} | {b}");
    }
    for (a, b) in [
        // The star rule and wildness are part of the meaning.
        ("0 0 1-31 * mon", "0 0 * * mon"),
        ("0-59 3 * * *", "* 3 * * *"),
        ("0 0-23 * * *", "0 * * * *"),
        ("every 1 day", "every 24 hours"),
        ("at 2027-01-01 00:00", "at 2027-01-01 00:00Z"),
    ] {
        assert_ne!(Clock::parse(a), Clock::parse(b), "{a} | {b}");
    }
}

#[test]
fn errors_carry_their_data() {
    let error = Clock::parse("  0 0 9 é0 * 61 *").unwrap_err();
    assert_eq!((error.kind(), error.field(), error.position()), (ErrorKind::Cron, Some(Field::DayOfMonth), Some(9)));
    assert_eq!(error.text(), "é0");
    assert_eq!(error.to_string(), "invalid day-of-month field \"é0\": not a number or a name of this field");
    let error = Clock::parse("0 9 * * MON,5/2").unwrap_err();
    assert_eq!((error.field(), error.position()), (Some(Field::DayOfWeek), Some(13)));
    assert_eq!(error.hint(), "Write \"0 9 * * MON,5-6/2\": a step counts over a range, and a lone number has none.");
    let error = Clock::parse("every 5 lightyears").unwrap_err();
    assert_eq!((error.kind(), error.position()), (ErrorKind::IntervalSyntax, Some(7)));
    let error = Clock::parse("at 2027-01-01 09:00\n").unwrap_err();
    assert_eq!(error.to_string(), "invalid date-time \"2027-01-01 09:00\\n\": characters after the date-time");
    let error = Clock::parse(&"*".repeat(1_000_000)).unwrap_err();
    assert!(error.to_string().len() < 400 && error.hint().len() < 400);
}

/// The codes and messages of the warnings.
fn warned(text: &str, name: &str) -> Vec<(&'static str, String)> {
    let clock = Clock::parse(text).unwrap();
    let now = instant("2026-11-20 12:00+00");
    let found = if name == "UTC" { lint(&clock, text, &Utc, now) } else { lint(&clock, text, zone(name), now) };
    found
        .into_iter()
        .map(|warning| {
            assert!(warning.hint.ends_with('.') && !warning.message.ends_with('.'), "{warning:?}");
            (warning.code, warning.message)
        })
        .collect()
}

fn codes(text: &str, name: &str) -> Vec<&'static str> {
    warned(text, name).into_iter().map(|(code, _)| code).collect()
}

#[test]
fn warnings_name_what_is_probably_not_meant() {
    for quiet in [
        "* * * * *",
        "0 9 * * 1-5",
        "*/15 * * * *",
        "0 0 1 * *",
        "0 0 9 * * 1-5",
        "@daily",
        "every 1 day",
        "never",
        "0 0 L * *",
    ] {
        assert_eq!(codes(quiet, "UTC"), [""; 0], "{quiet}");
    }
    assert_eq!(codes("30 2 31 2 *", "UTC"), ["never_fires"]);
    assert_eq!(codes("at 2020-01-01", "UTC"), ["never_fires"]);
    assert_eq!(codes("0 0 0 1 1 * 2026", "UTC"), ["never_fires"]);
    assert_eq!(codes("0 0 13 * fri", "UTC"), ["both_day_fields"]);
    assert_eq!(codes("0 0 1-31 * fri", "UTC"), ["both_day_fields"]);
    assert_eq!(codes("0 0 */2 * fri", "UTC"), ["both_day_fields", "uneven_step"]);
    assert_eq!(codes("*/7 * * * *", "UTC"), ["uneven_step"]);
    assert_eq!(codes("0 */5 * * *", "UTC"), ["uneven_step"]);
    assert_eq!(codes("*/5 * * * * *", "UTC"), ["seconds_field"]);
    for (text, warned) in [
        ("0 9 * * * *", true),
        ("0 9 * * 1-5 *", true),
        ("0 0 * * 1-5 *", true),
        ("30 8-18 * * 1-5 *", true),
        ("0 9,17 * * * 1-5", true),
        ("0 9 * * 1-5 * 2027", true),
        ("0 0 * * * *", false),
        ("0 0 * * * MON-FRI", false),
        ("0 5,20 * * * *", false),
        ("0 30 * * 1-5 *", false),
        ("0 0 9 * * 1-5", false),
        ("0 9 8 * 1-5 *", false),
    ] {
        assert_eq!(codes(text, "UTC").contains(&"seconds_field"), warned, "{text}");
    }
    assert_eq!(codes("0 30 * * * *", "UTC"), [""; 0]);
    let (gap, overlap) = ("2027-03-14", "2027-11-07");
    let new_york = warned("30 2 * * *", "America/New_York");
    assert_eq!(new_york.len(), 1);
    assert_eq!(new_york[0].0, "dst_gap");
    assert_eq!(new_york[0].1, format!("falls into a DST gap on {gap}: 02:30 does not exist then and fires at 03:00"));
    let new_york = warned("30 1 * * *", "America/New_York");
    assert_eq!(new_york.len(), 1);
    assert!(new_york[0].0 == "dst_overlap" && new_york[0].1.contains(overlap), "{new_york:?}");
    assert_eq!(codes("*/15 2 * * *", "America/New_York"), ["dst_gap"]);
    assert_eq!(codes("*/15 * * * *", "America/New_York"), [""; 0]);
    assert_eq!(codes("30 2 * * 1-5", "America/New_York"), [""; 0]);
    assert_eq!(codes("every 1 day from 2026-11-19 02:30", "America/New_York"), ["dst_gap"]);
    assert_eq!(codes("every 1 week from 2026-11-16 02:30", "America/New_York"), [""; 0]);
    assert_eq!(codes("every 24 hours from 2026-11-19 02:30", "America/New_York"), [""; 0]);
    assert_eq!(codes("at 2031-03-09 02:30", "America/New_York"), ["dst_gap"]);
    assert_eq!(codes("30 2 * * *", "Africa/Casablanca"), ["dst_overlap", "dst_gap"]);
}

/// Texts from elsewhere, each with the clock that means the same; none where it has two meanings, or none here.
#[test]
fn pasted_texts_are_told_their_clock() {
    for (text, clock) in [
        ("1 hour", Some("every 1 hour")),
        ("30s", Some("every 30 seconds")),
        ("30 seconds", Some("every 30 seconds")),
        ("PT5M", Some("every 5 minutes")),
        ("00:05:00", Some("every 5 minutes")),
        ("1d", Some("every 1 day")),
        ("5m", Some("every 5 minutes")),
        ("\"0 9 * * *\"", Some("0 9 * * *")),
        ("cron: '0 9 * * *'", Some("0 9 * * *")),
        ("0 9 * * *;", Some("0 9 * * *")),
        ("0 9 * * 1\u{2013}5", Some("0 9 * * 1-5")),
        ("0, 30 9 * * *", Some("0,30 9 * * *")),
        ("CRON_TZ=UTC\n0 3 * * *", Some("0 3 * * *")),
        ("0 0 $ * *", Some("0 0 L * *")),
        ("hourly", Some("@hourly")),
        ("daily", Some("@daily")),
        ("@quarterly", Some("0 0 1 */3 *")),
        ("@minutely", Some("* * * * *")),
        ("0 7 * * ? *", Some("0 7 * * *")),
        ("0 10 ? * 2-6 *", Some("0 10 * * 1-5")),
        ("cron(0 0 ? * * *)", Some("0 0 * * *")),
        ("0 15 10 ? * 2-6", None),
        ("09:00", None),
        ("2027-01-01 09:00:00", None),
        ("weekly", None),
        ("5 0", None),
        ("", None),
    ] {
        let error = Clock::parse(text).expect_err(text);
        let proposed = error.proposal().map(|proposal| Clock::parse(proposal).unwrap());
        assert_eq!(proposed, clock.map(|clock| Clock::parse(clock).unwrap()), "{text}: {}", error.hint());
    }
}
