//! pg_timetable's clocks as clocks of ours: by hand, and random ones against a minute walk by its own rule.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod clock_support;

use clock_support::{upcoming, zone, Random, Table};
use scheduler_core::clock::zone::Zone as _;
use scheduler_core::clock::Clock;
use scheduler_core::foreign::pg_timetable::{cron, interval};
use scheduler_core::foreign::settled;
use scheduler_core::time::civil::{civil_from_days, weekday};
use scheduler_core::time::Instant;

#[test]
fn texts() {
    for (theirs, ours) in [
        ("* * * * *", "* * * * *"),
        ("*/5 * * * *", "*/5 * * * *"),
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("0 9 13 * 5", "0 9 13 * +5"),
        ("0 9 13 * *", "0 9 13 * *"),
        ("0 9 1-31 * 5", "0 9 * * 5"),
        ("0 9 * * 0,7", "0 9 * * 0"),
        ("0 9 */2 * 5", "0 9 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * +5"),
        ("50/5 9 * * *", "50,55 9 * * *"),
        ("10-40/10 9 * 1,12 7", "10,20,30,40 9 * 1,12 0"),
        ("0  9 * * * ", "0 9 * * *"),
    ] {
        let read = cron(theirs).unwrap_or_else(|reason| panic!("{theirs}: {reason}"));
        assert_eq!(read.text, ours, "{theirs}");
        Clock::parse(&read.text).unwrap();
    }
    for theirs in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "1,,2 * * * *",
        "* * * * mon",
        "*5 * * * *",
        "@daily",
        "* * L * *",
        "99999 * * * *",
    ] {
        assert!(cron(theirs).is_err(), "{theirs}: {:?}", cron(theirs));
    }
    assert_eq!(interval(90, false).unwrap().text, "every 90 seconds after start");
    assert_eq!(interval(1, true).unwrap().text, "every 1 second after end");
    assert!(interval(0, true).is_err());
}

/// An item as a random text has it, and the values that it stands for.
fn item(random: &mut Random, low: u64, high: u64) -> (String, Vec<u64>) {
    let a = low + random.below(high - low + 1);
    let b = a + random.below(high - a + 1);
    let step = 1 + random.below(high);
    match random.below(7) {
        0 => ("*".to_owned(), (low..=high).collect()),
        1 => (format!("*/{step}"), (low..=high).step_by(step as usize).collect()),
        2 => (format!("{a}-{b}"), (a..=b).collect()),
        3 => (format!("{a}-{b}/{step}"), (a..=b).step_by(step as usize).collect()),
        4 => (format!("{a}/{step}"), (a..=high).step_by(step as usize).collect()),
        _ => (a.to_string(), vec![a]),
    }
}

fn field(random: &mut Random, low: u64, high: u64, stars: u64) -> (String, Vec<u64>) {
    if random.below(10) < stars {
        return ("*".to_owned(), (low..=high).collect());
    }
    let items: Vec<_> = (0..=random.below(3)).map(|_| item(random, low, high)).collect();
    let text = items.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
    (text, items.into_iter().flat_map(|(_, values)| values).collect())
}

/// The minutes in (from, to] whose reading in the zone is in all of the sets; a day of the week may be counted either way.
fn minutes(sets: [u64; 5], table: &Table, from: i64, to: i64) -> Vec<i64> {
    let [of_minute, of_hour, of_day, of_month, of_week] = sets;
    let has = |set: u64, value: u64| set >> value & 1 != 0;
    let mut found = Vec::new();
    let mut minute = (from.div_euclid(60) + 1) * 60;
    while minute <= to {
        let span = table.span_at(minute);
        let end = span.until.unwrap_or(i64::MAX).min(to + 1);
        let offset = i64::from(span.utc_offset_seconds);
        while minute < end {
            let reading = minute + offset;
            let (days, second) = (reading.div_euclid(86_400), reading.rem_euclid(86_400));
            let (_, month, day) = civil_from_days(days);
            let week = u64::from(weekday(days));
            let iso = if week == 0 { 7 } else { week };
            let is_day = has(of_month, u64::from(month))
                && (has(of_week, week) || has(of_week, iso))
                && has(of_day, u64::from(day));
            let is_hour = is_day && has(of_hour, second as u64 / 3_600);
            if is_hour && has(of_minute, second as u64 / 60 % 60) {
                found.push(minute);
            }
            // What does not match is left by the next reading that could.
            let step = if !is_day {
                86_400 - second
            } else if !is_hour {
                3_600 - second % 3_600
            } else {
                60
            };
            minute =
                if step == 60 { minute + 60 } else { (minute + step).min((end.div_euclid(60) * 60).max(minute + 60)) };
        }
    }
    found
}

const YEAR: i64 = 31_556_952;

/// Random texts in random zones: how many were equal, and how many were refused.
fn compare(rounds: usize, seed: u64, length: i64) -> (usize, usize) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let names =
        ["UTC", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"];
    let (mut equal, mut refused) = (0, 0);
    for round in 0..rounds {
        let fields = [(0, 59, 1), (0, 23, 3), (1, 31, 4), (1, 12, 6), (0, 7, 4)]
            .map(|(low, high, stars)| field(&mut random, low, high, stars));
        let text = fields.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(" ");
        let sets = fields.map(|(_, values)| values.into_iter().fold(0, |set, value| set | 1 << value));
        let name = *random.pick(&names);
        let table = zone(name);
        let from = 1_767_225_600 + random.below(3 * 31_556_952) as i64;
        let now = Instant::from_unix_seconds(from).unwrap();
        let read = cron(&text).unwrap_or_else(|reason| panic!("{text}: {reason}"));
        let ours = match settled(&read, table, now) {
            Ok(ours) => ours,
            Err(reason) => {
                assert!(name != "UTC" && name != "Asia/Kolkata", "{text} in {name}: {reason}");
                refused += 1;
                continue;
            }
        };
        let clock = Clock::parse(&ours).unwrap();
        let timeline = clock.bind(table, now);
        let theirs = minutes(sets, table, from, from + length);
        let ours: Vec<i64> = upcoming(&timeline, now, theirs.len() + 1).iter().map(|at| at.unix_seconds()).collect();
        let same = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours);
        assert_eq!(same, None, "seed {seed}, round {round}: {text} in {name} from {from}");
        assert!(
            ours.len() >= theirs.len() && ours.get(theirs.len()).is_none_or(|next| *next > from + length),
            "seed {seed}, round {round}: {text} in {name}"
        );
        equal += 1;
    }
    (equal, refused)
}

#[test]
fn random_texts_over_half_a_year() {
    let (equal, refused) = compare(40, 20_261_123, YEAR / 2);
    println!("{equal} equal, {refused} refused");
    assert!(equal > 25);
}

#[test]
#[ignore = "long: 10,000 texts over five years each"]
fn long_random_texts_over_five_years() {
    let (equal, refused) = compare(10_000, 42, 5 * YEAR);
    println!("{equal} equal, {refused} refused");
    assert!(equal > 8_000, "{equal}");
}
