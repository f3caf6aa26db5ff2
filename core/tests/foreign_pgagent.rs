//! pgAgent's schedules as clocks of ours, by hand. (In a cluster random ones are compared with pgAgent's own function.)
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use scheduler_core::clock::Clock;
use scheduler_core::foreign::pgagent::{bits, bounds, exceptions, read, Fields, Window};
use scheduler_core::time::Instant;

fn set(bits: &[u32]) -> u64 {
    bits.iter().fold(0, |set, bit| set | 1 << bit)
}

const NOW: &str = "2026-11-23";

fn day(text: &str) -> i64 {
    let clock = Clock::parse(&format!("at {text}")).unwrap();
    let Clock::At(scheduler_core::clock::DateTime::Local(micros)) = clock else { panic!("{text}") };
    micros / 86_400_000_000
}

fn at(text: &str) -> Instant {
    Instant::from_micros(day(text) * 86_400_000_000).unwrap()
}

const PAST: Window = Window { start: Instant::MIN, end: None, start_minute: 0 };

/// Minutes, hours, days of the week, days, months.
fn fields(minutes: &[u32], hours: &[u32], week: &[u32], days: &[u32], months: &[u32]) -> Fields {
    let [minutes, hours, days_of_week, days, months] = [minutes, hours, week, days, months].map(set);
    Fields { minutes, hours, days_of_week, days, months }
}

fn text(fields: Fields, except: &str) -> Result<String, String> {
    read(fields, &exceptions(except).unwrap(), PAST, at(NOW)).map(|clock| clock.text)
}

#[test]
fn texts() {
    let all: Vec<u32> = (0..60).collect();
    for (fields, ours) in [
        (fields(&[0], &[9], &[], &[], &[]), "0 9 * * *"),
        (fields(&[0, 30], &[], &[], &[], &[]), "0,30 * * * *"),
        (fields(&all, &all[..24], &all[..7], &all[1..32], &all[1..13]), "* * * * *"),
        (fields(&[], &[9], &[], &[], &[]), "* 9 * * *"),
        (fields(&[0], &[9], &[0, 6], &[], &[]), "0 9 * * 0,6"),
        (fields(&[0], &[9], &[5], &[13], &[]), "0 9 13 * +5"),
        (fields(&[0], &[9], &[5], &[32], &[2]), "0 9 L 2 +5"),
        // The last day counts alone.
        (fields(&[0], &[9], &[], &[15, 32], &[]), "0 9 15 * *"),
        (fields(&[0], &[9], &[], &[31], &[1, 3]), "0 9 31 1,3 *"),
    ] {
        assert_eq!(text(fields, "").unwrap(), ours);
        Clock::parse(ours).unwrap();
    }
    let noted = read(fields(&[0], &[9], &[], &[15, 32], &[]), &[], PAST, at(NOW)).unwrap();
    assert!(noted.note.is_some() && noted.follows_wall_clock);
}

#[test]
fn what_pgagent_does_not_do_as_it_says_is_refused() {
    for (fields, reason) in [
        (fields(&[], &[], &[1], &[], &[]), "no minute, hour, day or month"),
        (fields(&[0], &[9], &[], &[31], &[]), "day 31 of month 2"),
        (fields(&[0], &[9], &[], &[30], &[1]), "day 30 of month 2"),
        (fields(&[0], &[9], &[], &[29], &[2]), "day 29 of month 2"),
        (fields(&[0], &[9], &[], &[31, 32], &[]), "day 31 of month 2"),
    ] {
        let refused = text(fields, "").unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    let jumping = fields(&[15, 45], &[12], &[], &[], &[]);
    let window = |start, start_minute| Window { start: at(start), end: None, start_minute };
    assert!(read(jumping, &[], window("2027-01-01", 30), at(NOW)).unwrap_err().contains("past the full hour"));
    for harmless in [window("2026-01-01", 30), window("2027-01-01", 0)] {
        read(jumping, &[], harmless, at(NOW)).unwrap();
    }
    let each_hour = fields(&[15, 45], &[], &[], &[], &[]);
    read(each_hour, &[], window("2027-01-01", 30), at(NOW)).unwrap();
}

#[test]
fn exceptions_that_leave_whole_hours_are_said() {
    let some = fields(&[0, 30], &[9, 10], &[1], &[], &[]);
    let time = |hour: i64, minute: i64| format!(" {}", (hour * 60 + minute) * 60_000_000);
    assert_eq!(text(some, &format!("{},{}", time(9, 0), time(9, 30))).unwrap(), "0,30 10 * * 1");
    assert_eq!(text(some, &format!("{},{}", time(9, 30), time(10, 30))).unwrap(), "0 9,10 * * 1");
    assert!(text(some, &time(9, 30)).unwrap_err().contains("single times"));
    assert!(text(fields(&[0], &[9], &[], &[], &[]), &time(9, 0)).unwrap_err().contains("no time of the day"));
    // A Monday to come, and what hits nothing: the past, a Tuesday, another time, a time with seconds.
    let monday = day("2026-11-30");
    assert!(text(some, &format!("{monday} ")).unwrap_err().contains("2026-11-30"));
    assert!(text(some, &format!("{monday}{}", time(9, 30))).unwrap_err().contains("2026-11-30"));
    for harmless in [
        format!("{} ", day("2026-11-16")),
        format!("{} ", monday + 1),
        format!("{monday}{}", time(9, 31)),
        " 32400000001".to_owned(),
        " 86400000000".to_owned(),
    ] {
        assert_eq!(text(some, &harmless).unwrap(), "0,30 9,10 * * 1", "{harmless}");
    }
}

#[test]
fn arrays_and_windows() {
    assert_eq!(bits("{t,f,t}", 3, 1), Ok(0b1010));
    for wrong in ["", "{t,f}", "{t,f,t,t}", "{t,NULL,t}", "[0:2]={t,f,t}", "{{t,f,t}}"] {
        bits(wrong, 3, 0).unwrap_err();
    }
    exceptions("a b").unwrap_err();
    let start = Instant::from_micros(61_000_000).unwrap();
    let (from, until) = bounds(Window { start, end: Some(start), start_minute: 1 });
    assert_eq!((from.as_micros(), until.map(Instant::as_micros)), (60_000_000, Some(61_000_001)));
}
