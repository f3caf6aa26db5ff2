//! Texts that people paste: each is read as it is meant, or told a clock with the same plan times, or a sentence says that no one clock means it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod clock_support;

use std::time::{Duration, Instant as Moment};

use clock_support::{instant, upcoming, zone};
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

/// One line: the text, with `\n` for the end of a line, and the clock that means it; `?` where no one clock does.
const PASTED: &str = include_str!("data/pasted_clocks.txt");

/// The plan times of two clocks, also around the changes of a zone.
fn same_times(a: &Clock, b: &Clock) -> bool {
    if a.counts_from().is_some() || b.counts_from().is_some() {
        return a == b;
    }
    let zones = ["UTC", "America/New_York", "Australia/Lord_Howe"];
    let moments = ["2026-11-20 11:59:59+00", "2027-03-13 12:00+00", "2027-10-30 12:00+00", "2031-12-31 23:00+00"];
    zones.iter().all(|name| {
        moments.iter().all(|after| {
            // An anchor that is on no round minute.
            let anchor = instant("2026-11-17 08:13:27+00");
            let times =
                |clock: &Clock| -> Vec<Instant> { upcoming(&clock.bind(zone(name), anchor), instant(after), 80) };
            times(a) == times(b)
        })
    })
}

#[test]
fn pasted_texts_mean_their_clock_or_none() {
    let (mut accepted, mut proposed, mut refused) = (0, 0, 0);
    let mut wrong = Vec::new();
    for line in PASTED.lines() {
        let (text, meaning) = line.split_once('\t').unwrap();
        let text = text.replace("\\n", "\n");
        let wanted =
            (meaning != "?").then(|| Clock::parse(meaning).unwrap_or_else(|error| panic!("{meaning}: {error}")));
        match (Clock::parse(&text), wanted) {
            (Ok(clock), Some(wanted)) if same_times(&clock, &wanted) => accepted += 1,
            (Ok(clock), _) => wrong.push(format!("{text:?} is read as {clock}, and means {meaning}")),
            (Err(error), wanted) => {
                let hint = error.hint();
                let proposal = error.proposal().map(|proposal| Clock::parse(proposal).unwrap());
                match (proposal, wanted) {
                    (Some(proposal), Some(wanted)) if same_times(&proposal, &wanted) => proposed += 1,
                    // One sentence, which is no proposal.
                    (None, None) if !hint.contains("Write \"") && hint.ends_with('.') && !hint.contains(". ") => {
                        refused += 1;
                    }
                    (_, _) => wrong.push(format!("{text:?} means {meaning}: {error}: {hint}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(accepted > 15 && proposed > 80 && refused > 40, "{accepted} {proposed} {refused}");
}

/// Where a text has two readings the hint shows both.
#[test]
fn texts_with_two_readings_are_told_both() {
    for (text, readings) in [
        ("every day 05:15", ["15 5 * * *", "every 5 hours 15 minutes"]),
        ("EVERY  Day\t05:15", ["15 5 * * *", "every 5 hours 15 minutes"]),
        ("every day 9:00:00", ["0 9 * * *", "every 9 hours"]),
        ("every mon 17:45", ["45 17 * * 1", "every 17 hours 45 minutes"]),
        ("0 0 9 ? * 1-5", ["0 0 9 * * 0-4", "0 0 9 * * 1-5"]),
        ("0 15 10 ? * 6#3 2027", ["0 15 10 * * 5#3 2027", "0 15 10 * * 6#3 2027"]),
        ("weekly", ["0 0 * * 1", "@weekly"]),
        ("6M", ["every 6 months", "every 6 minutes"]),
    ] {
        let error = Clock::parse(text).expect_err(text);
        let hint = error.hint();
        let shown: Vec<&str> = hint.split('"').skip(1).step_by(2).collect();
        assert_eq!(error.proposal(), None, "{text}: {hint}");
        assert_eq!(shown, readings, "{text}: {hint}");
    }
}

/// What earlier releases took is read as they read it where it is stored, and refused where it is new.
#[test]
fn a_day_and_a_time_are_read_where_they_are_stored() {
    for (text, interval) in [
        ("every day 05:15", "every 5 hours 15 minutes"),
        ("EVERY  Day,\t05:15:30", "every 5 hours 15 minutes 30 seconds"),
        ("every mon 01:00", "every 1 hour"),
        ("every week 00:01:05 from 2027-01-01", "every 1 minute 5 seconds from 2027-01-01"),
        ("every d 00:30 after end", "every 30 minutes after end"),
    ] {
        assert_eq!(Clock::parse_stored(text), Clock::parse(interval), "{text}");
        let error = Clock::parse(text).expect_err(text);
        assert!(error.to_string().ends_with("has no number"), "{text}: {error}");
    }
    for text in [
        "every 1 day 05:15",
        "every 1 day 05:15:00",
        "every 1d2h",
        "every 05:15",
        "every month 5 days",
        "every hour 1:30",
    ] {
        assert_eq!(Clock::parse(text), Clock::parse_stored(text), "{text}");
        Clock::parse(text).unwrap();
    }
}

/// A text may stand for another one, which stands for another one: no more of them are read than has an end.
#[test]
fn texts_within_texts_are_read_quickly() {
    let within =
        |before: &str, inner: &str, after: &str, n: usize| format!("{}{inner}{}", before.repeat(n), after.repeat(n));
    for n in [1, 2, 4, 8, 16, 80] {
        for inner in
            ["0 9 * * 1-5", "0 9 * * x", "5/15 22-2 ? * *", "0 7 * * ? * /bin/true", "H H * * *", "every day 05:15", ""]
        {
            for text in [
                within("TZ=a ", inner, "", n),
                within("cron: TZ=a ", inner, ";", n),
                within("TZ=a\n", inner, "\n", n),
                within("TZ=a cron: '", inner, "'", n),
                within("\"'", inner, "'\"", n),
                within("cron(", inner, ")", n),
                within("crontab(", inner, ")", n),
                within("at(", inner, ")", n),
                within("@after ", inner, "", n),
                within("interval ", inner, "", n),
                within("every ", inner, "", n),
                within("", inner, " /bin/true", n),
                within("", inner, " UTC", n),
            ] {
                let quickest = (0..3).map(|_| {
                    let start = Moment::now();
                    let _ = Clock::parse(&text);
                    start.elapsed()
                });
                assert!(quickest.min().unwrap() < Duration::from_millis(100), "{text:?} is slow");
            }
        }
    }
    let proposal = |text: &str| Clock::parse(text).unwrap_err().proposal().map(str::to_owned);
    assert_eq!(proposal("- cron: 'TZ=UTC 0/15 22-2 ? * *'; # nightly").as_deref(), Some("0-59/15 22-23,0-2 * * *"));
}
