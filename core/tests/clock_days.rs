//! Every special day (`L`, `LW`, `nW`, `dL`, `d#k`) and the star rule, against plain conditions on every day of forty
//! years, century included.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use chrono::{Datelike, Days, NaiveDate};
use scheduler_core::clock::zone::Utc;
use scheduler_core::clock::Clock;
use scheduler_core::time::Instant;

/// Sunday = 0.
fn weekday(day: NaiveDate) -> u32 {
    day.weekday().num_days_from_sunday()
}

fn last_of_month(day: NaiveDate) -> u32 {
    (28..=31).rev().find(|&n| day.with_day(n).is_some()).unwrap()
}

/// The day that `nW` names in the month of `day`, by looking at the neighbours.
fn nearest(day: NaiveDate, n: u32) -> Option<u32> {
    let wanted = day.with_day(n)?;
    let is_working = |candidate: NaiveDate| candidate.month() == day.month() && (1..=5).contains(&weekday(candidate));
    for distance in 0..4 {
        let (before, after) = (wanted - Days::new(distance), wanted + Days::new(distance));
        if is_working(before) {
            return Some(before.day());
        }
        if is_working(after) {
            return Some(after.day());
        }
    }
    None
}

fn check(days: &str, matches: impl Fn(NaiveDate) -> bool) {
    let (dom, dow) = days.split_once(' ').unwrap();
    let text = format!("0 0 {dom} * {dow}");
    let clock = Clock::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let timeline = clock.bind(&Utc, Instant::UNIX_EPOCH);
    let first = NaiveDate::from_ymd_opt(2072, 1, 1).unwrap();
    let end = NaiveDate::from_ymd_opt(2112, 1, 1).unwrap();
    let midnight = |day: NaiveDate| day.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp();
    let expected: Vec<i64> =
        first.iter_days().take_while(|&day| day < end).filter(|&d| matches(d)).map(midnight).collect();
    assert!(!expected.is_empty(), "{text}");
    let mut at = Instant::from_unix_seconds(midnight(first) - 1).unwrap();
    for &expected in &expected {
        at = timeline.next_after(at).unwrap();
        assert_eq!(at.unix_seconds(), expected, "next: {text}");
    }
    assert!(timeline.next_after(at).unwrap().unix_seconds() >= midnight(end), "{text}");
    let mut at = Instant::from_unix_seconds(midnight(end) - 1).unwrap();
    for &expected in expected.iter().rev() {
        at = timeline.previous_at_or_before(at).unwrap();
        assert_eq!(at.unix_seconds(), expected, "previous: {text}");
        at = at.checked_add_micros(-1).unwrap();
    }
}

#[test]
fn last_days() {
    check("L *", |day| day.day() == last_of_month(day));
    check("1,L *", |day| day.day() == 1 || day.day() == last_of_month(day));
    check("LW *", |day| Some(day.day()) == nearest(day, last_of_month(day)));
    check("LW,L,15 *", |day| {
        day.day() == 15 || day.day() == last_of_month(day) || Some(day.day()) == nearest(day, last_of_month(day))
    });
}

#[test]
fn nearest_weekdays() {
    for n in 1..=31 {
        check(&format!("{n}W *"), |day| Some(day.day()) == nearest(day, n));
    }
    check("1W,31W *", |day| Some(day.day()) == nearest(day, 1) || Some(day.day()) == nearest(day, 31));
}

#[test]
fn last_and_nth_days_of_the_week() {
    for d in 0..=6 {
        check(&format!("* {d}L"), |day| weekday(day) == d && day.day() + 7 > last_of_month(day));
        for k in 1..=5 {
            check(&format!("* {d}#{k}"), |day| weekday(day) == d && day.day().div_ceil(7) == k);
        }
    }
    check("* mon#1,fri#3,7L", |day| match weekday(day) {
        1 => day.day() <= 7,
        5 => (15..=21).contains(&day.day()),
        0 => day.day() + 7 > last_of_month(day),
        _ => false,
    });
}

#[test]
fn the_star_rule() {
    check("13 5", |day| day.day() == 13 || weekday(day) == 5);
    check("*/2 5", |day| day.day() % 2 == 1 && weekday(day) == 5);
    check("1-31/2 5", |day| day.day() % 2 == 1 || weekday(day) == 5);
    check("13 */2", |day| day.day() == 13 && [0, 2, 4, 6].contains(&weekday(day)));
    check("13 0-7/2", |day| day.day() == 13 || [0, 2, 4, 6].contains(&weekday(day)));
    check("5,*/7 5", |day| [1, 5, 8, 15, 22, 29].contains(&day.day()) || weekday(day) == 5);
    check("*,5 5", |day| weekday(day) == 5);
    check("1-31 5", |_| true);
    check("13 0-7", |_| true);
    check("* *", |_| true);
    check("L 5L", |day| day.day() == last_of_month(day) || (weekday(day) == 5 && day.day() + 7 > last_of_month(day)));
    check("*/31 1", |day| day.day() == 1 && weekday(day) == 1);
    check("* */7", |day| weekday(day) == 0);
    check("* 1-7/6", |day| weekday(day) <= 1);
    check("* fri-sun", |day| weekday(day) == 0 || weekday(day) >= 5);
    check("* 5-7/2", |day| weekday(day) == 0 || weekday(day) == 5);
}

#[test]
fn both_must_match_behind_a_plus() {
    check("13 +5", |day| day.day() == 13 && weekday(day) == 5);
    check("13 +5,0", |day| day.day() == 13 && [0, 5].contains(&weekday(day)));
    check("1-31 +mon", |day| weekday(day) == 1);
    check("29,L +0-7", |day| day.day() == 29 || day.day() == last_of_month(day));
    check("1-10 +5#2", |day| (8..=10).contains(&day.day()) && weekday(day) == 5);
    check("15W +mon", |day| Some(day.day()) == nearest(day, 15) && weekday(day) == 1);
    check("1-31/2 +*/2", |day| day.day() % 2 == 1 && [0, 2, 4, 6].contains(&weekday(day)));
}
