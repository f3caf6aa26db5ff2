//! Celery Beat's schedules as clocks of ours. What Celery itself says of random ones: `pgrx-tests/cluster/tests/import_celery_beat.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod clock_support;

use clock_support::zone;
use scheduler_core::clock::Clock;
use scheduler_core::foreign::celery_beat::{clocked, crontab, interval, of_task, Task};
use scheduler_core::foreign::{settled, ForeignClock};
use scheduler_core::time::Instant;

/// minute, hour, day of month, month, day of week
fn fields(text: &str) -> [&str; 5] {
    text.split('|').collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn texts() {
    for (theirs, ours) in [
        ("*|*|*|*|*", "* * * * *"),
        ("*/5|*|*|*|*", "*/5 * * * *"),
        ("0|9|*|*|*", "0 9 * * *"),
        ("0,30|*/6|*|*|*", "*/30 */6 * * *"),
        ("0, 30|09|*|*|*", "*/30 9 * * *"),
        ("0|0|13|*|5", "0 0 13 * +5"),
        ("0|0|13|*|fri", "0 0 13 * +5"),
        ("0|0|13|*|*", "0 0 13 * *"),
        ("0|0|*|*|5", "0 0 * * 5"),
        ("0|0|1-31|1-12|0-6", "0 0 * * *"),
        ("0|0|*/3|*/2|*", "0 0 1,4,7,10,13,16,19,22,25,28,31 1,3,5,7,9,11 *"),
        ("0|0|*|*|fri-mon", "0 0 * * 0,1,5,6"),
        ("0|0|*|*|fri-mon/2", "0 0 * * 0,5"),
        ("50-10/10|22-2|*|nov-feb|Sunday", "0,10,50 0-2,22,23 * 1,2,11,12 0"),
        ("*/100|0|*|*|*", "0 0 * * *"),
        ("0|0|*|January,dec|*", "0 0 * 1,12 *"),
    ] {
        let read = crontab(fields(theirs)).unwrap_or_else(|reason| panic!("{theirs}: {reason}"));
        assert_eq!(read.text, ours, "{theirs}");
        Clock::parse(&read.text).unwrap();
        Clock::parse(&read.after_gap.unwrap()).unwrap();
    }
    for theirs in [
        "|*|*|*|*",
        "*,|*|*|*|*",
        "60|*|*|*|*",
        "*|24|*|*|*",
        "*|*|0|*|*",
        "*|*|32|*|*",
        "*|*|*|13|*",
        "*|*|*|*|7",
        "*|*|*|*|0-7",
        "5/10|*|*|*|*",
        "*/0|*|*|*|*",
        "*/|*|*|*|*",
        "*5|*|*|*|*",
        "1-5-7|*|*|*|*",
        "-5|*|*|*|*",
        " 1-5|*|*|*|*",
        "x|*|*|*|*",
        "*|*|*|*|mond ay",
        "*|*|30,31|2|*",
        "*|*|31|apr,jun|*",
        "99999999999|*|*|*|*",
    ] {
        assert!(crontab(fields(theirs)).is_err(), "{theirs}: {:?}", crontab(fields(theirs)));
    }
}

#[test]
fn intervals() {
    for (every, period, ours) in [
        (1, "days", "every 24 hours after start"),
        (2, "hours", "every 2 hours after start"),
        (1, "hours", "every 1 hour after start"),
        (90, "seconds", "every 90 seconds after start"),
        (2_000_000, "microseconds", "every 2 seconds after start"),
    ] {
        assert_eq!(interval(every, period).unwrap().text, ours);
        Clock::parse(ours).unwrap();
    }
    for (every, period) in [
        (0, "seconds"),
        (-1, "days"),
        (1, "microseconds"),
        (1_500_000, "microseconds"),
        (1, "weeks"),
        (i64::MAX, "days"),
    ] {
        assert!(interval(every, period).is_err(), "{every} {period}");
    }
}

const NOW: i64 = 1_790_000_000;

fn instant(second: i64) -> Instant {
    Instant::from_unix_seconds(second).unwrap()
}

/// Berlin goes forward at 02:00 to 03:00, Lord Howe by half an hour.
#[test]
fn clock_changes() {
    let ours = |theirs: &str, name: &str| settled(&crontab(fields(theirs)).unwrap(), zone(name), instant(NOW));
    for (theirs, name, text) in [
        ("*/15|*|*|*|*", "UTC", "*/15 * * * *"),
        // What is repeated is run once, as by a clock that names times of day.
        ("*/15|*|*|*|*", "Europe/Berlin", "0,15,30,45 0-23 * * *"),
        ("0|*|*|*|*", "Europe/Berlin", "0 0-23 * * *"),
        ("0|2|*|*|*", "Europe/Berlin", "0 2 * * *"),
        ("0,30|2|*|*|*", "Europe/Berlin", "0,30 2 * * *"),
        ("30|9|*|*|*", "Europe/Berlin", "30 9 * * *"),
        ("*/15|9-17|*|*|*", "Europe/Berlin", "*/15 9-17 * * *"),
        ("*/10|2|*|6|*", "Europe/Berlin", "*/10 2 * 6 *"),
    ] {
        assert_eq!(ours(theirs, name).as_deref(), Ok(text), "{theirs}");
    }
    // It would be run at 03:30 when there is no 02:30.
    for (theirs, name) in [
        ("30|2|*|*|*", "Europe/Berlin"),
        ("15|*|*|*|*", "Europe/Berlin"),
        ("5-59/15|*|*|*|*", "Europe/Berlin"),
        ("15|2|*|*|*", "Australia/Lord_Howe"),
    ] {
        assert!(ours(theirs, name).is_err(), "{theirs}: {:?}", ours(theirs, name));
    }
}

#[test]
fn tasks() {
    let (now, utc) = (instant(NOW), zone("UTC"));
    let nine = || crontab(["0", "9", "*", "*", "*"]).unwrap();
    let ten_minutes = || interval(10, "minutes").unwrap();
    let text = |clock: ForeignClock, is_clocked: bool, task: Task| {
        of_task(clock, is_clocked, &task, now).and_then(|clock| settled(&clock, utc, now))
    };
    let on = Task { enabled: true, changed: Some(now), ..Task::default() };
    let once = Task { one_off: true, ..on };
    // 2026-09-21 14:13:20
    let (nine_tomorrow, later) = (instant(NOW + 67_600), instant(NOW + 60_000));
    assert_eq!(text(nine(), false, on).as_deref(), Ok("0 9 * * *"));
    assert_eq!(text(nine(), false, once).as_deref(), Ok("at 2026-09-22 09:00:00+00"));
    assert_eq!(text(ten_minutes(), false, once).as_deref(), Ok("at 2026-09-21 14:23:20+00"));
    let before = instant(NOW - 90_000);
    assert!(text(nine(), false, Task { changed: Some(before), ..once }).is_err(), "due now");
    assert!(text(nine(), false, Task { starts: Some(before), ..once }).is_err(), "due now");
    assert!(text(nine(), false, Task { runs: 1, ..once }).is_err(), "was run");
    assert!(text(nine(), false, Task { enabled: false, ..once }).is_err());
    assert_eq!(text(nine(), false, Task { starts: Some(later), ..once }).as_deref(), Ok("at 2026-09-22 06:53:20+00"));
    // The first run is at start_time, whatever the clock says.
    assert_eq!(text(nine(), false, Task { starts: Some(before), ..on }).as_deref(), Ok("0 9 * * *"));
    assert_eq!(text(nine(), false, Task { starts: Some(nine_tomorrow), ..on }).as_deref(), Ok("0 9 * * *"));
    assert!(text(nine(), false, Task { starts: Some(later), ..on }).is_err());
    assert!(text(ten_minutes(), false, Task { starts: Some(later), ..on }).is_err());
    assert_eq!(text(clocked(later), true, once).as_deref(), Ok("at 2026-09-22 06:53:20+00"));
    assert!(text(clocked(later), true, on).is_err());
    assert!(text(clocked(later), true, Task { starts: Some(later), ..once }).is_err());
    // Beat does not look at one that has passed.
    let passed = text(clocked(later), true, Task { starts: Some(before), ..once });
    assert_eq!(passed.as_deref(), Ok("at 2026-09-22 06:53:20+00"));
}
