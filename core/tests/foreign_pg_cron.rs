//! pg_cron's schedules as clocks of ours: by hand, and random ones against a minute walk by pg_cron's own rule.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use clock_support::{upcoming, zone, Random, Table};
use scheduler_core::clock::zone::Zone as _;
use scheduler_core::clock::Clock;
use scheduler_core::foreign::{pg_cron, settled};
use scheduler_core::time::civil::{civil_from_days, weekday};
use scheduler_core::time::Instant;

#[test]
fn texts() {
    for (theirs, ours) in [
        ("* * * * *", "* * * * *"),
        ("*/5 * * * *", "*/5 * * * *"),
        ("0 9 * * *", "0 9 * * *"),
        ("0,30 */6 * * *", "*/30 */6 * * *"),
        ("30 9 * * 1-5", "30 9 * * 1-5"),
        ("30 9 13 * 5", "30 9 13 * 5"),
        ("30 9 */2 * 5", "30 9 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31 * +5"),
        ("30 9 1-31 * 5", "30 9 * * *"),
        ("30 9 * * 0-6", "30 9 * * *"),
        ("30 9 13 * sun,7", "30 9 13 * 0"),
        ("30 9 $ * *", "30 9 L * *"),
        ("30 9 $ * mon", "30 9 L * 1"),
        ("30 9 1 Jan,dec *", "30 9 1 1,12 *"),
        // What follows is ignored, as there.
        ("*5 9 * * * and more", "* 9 * * *"),
        ("30;9 9 * * *", "30 9 * * *"),
        ("\n  30\t9 * * *", "30 9 * * *"),
        ("0 0 9 * * 1-5", "0 0 9 * *"),
        ("@daily", "0 0 * * *"),
        ("@hourly", "@hourly"),
        ("30 seconds", "every 30 seconds after start"),
        (" 1 SECOND", "every 1 second after start"),
    ] {
        let read = pg_cron::read(theirs, false).unwrap_or_else(|reason| panic!("{theirs}: {reason}"));
        assert_eq!(read.text, ours, "{theirs}");
        Clock::parse(&read.text).unwrap();
    }
    assert_eq!(pg_cron::read("30 9 13 * 5", true).unwrap().text, "30 9 13 * +5");
    assert_eq!(pg_cron::read("30 9 1-31 * 5", true).unwrap().text, "30 9 * * 5");
    for theirs in [
        "",
        "* * * *",
        "61 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "5/10 * * * *",
        "*/60 * * * *",
        "*/0 * * * *",
        "50-10 * * * *",
        "* * * * fri-sun",
        "* * * * monday",
        "* * L * *",
        "* * $5 * *",
        "* * $ *",
        "1, * * * *",
        "@reboot",
        "@yearly",
        "@annually",
        "@often",
        "60 seconds",
        "0 seconds",
        "5 minutes",
        "1.5 seconds",
        "99999999999 * * * *",
        "-5 * * * *",
    ] {
        assert!(pg_cron::read(theirs, false).is_err(), "{theirs}: {:?}", pg_cron::read(theirs, false));
    }
}

fn has(set: u64, value: impl Into<i64>) -> bool {
    set >> value.into() & 1 != 0
}

/// An item as a random schedule has it, and the values that it stands for.
fn item(random: &mut Random, low: u64, high: u64) -> (String, Vec<u64>) {
    let a = low + random.below(high - low + 1);
    let b = a + random.below(high - a + 1);
    let step = 1 + random.below(high);
    match random.below(6) {
        0 => ("*".to_owned(), (low..=high).collect()),
        1 => (format!("*/{step}"), (low..=high).step_by(step as usize).collect()),
        2 => (format!("{a}-{b}"), (a..=b).collect()),
        3 => (format!("{a}-{b}/{step}"), (a..=b).step_by(step as usize).collect()),
        _ => (a.to_string(), vec![a]),
    }
}

fn field(random: &mut Random, low: u64, high: u64, stars: u64) -> (String, u64) {
    if random.below(10) < stars {
        return ("*".to_owned(), (low..=high).fold(0, |set, value| set | 1 << value));
    }
    let items: Vec<_> = (0..=random.below(3)).map(|_| item(random, low, high)).collect();
    let text = items.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
    (text, items.into_iter().flat_map(|(_, values)| values).fold(0, |set, value| set | 1 << value))
}

/// A random schedule and what it says, as pg_cron keeps it.
struct Spec {
    text: String,
    minute: u64,
    hour: u64,
    day: u64,
    last_day: bool,
    month: u64,
    week: u64,
    both: bool,
}

fn spec(random: &mut Random) -> Spec {
    let (minute_text, minute) = field(random, 0, 59, 1);
    let (hour_text, hour) = field(random, 0, 23, 3);
    let last_day = random.below(8) == 0;
    let (day_text, day) = if last_day { ("$".to_owned(), 0) } else { field(random, 1, 31, 4) };
    let (month_text, month) = field(random, 1, 12, 6);
    let (week_text, week) = field(random, 0, 7, 4);
    let both = day_text.starts_with('*') || week_text.starts_with('*');
    let text = format!("{minute_text} {hour_text} {day_text} {month_text} {week_text}");
    Spec { text, minute, hour, day, last_day, month, week, both }
}

/// The offsets of a zone, asked in order.
struct Offsets<'t> {
    table: &'t Table,
    until: i64,
    offset: i64,
}

impl Offsets<'_> {
    /// The offset at a second that is none of those before the last one asked for, but for a day.
    fn at(&mut self, second: i64) -> i64 {
        if second >= self.until {
            let span = self.table.span_at(second);
            (self.until, self.offset) = (span.until.unwrap_or(i64::MAX), i64::from(span.utc_offset_seconds));
        }
        self.offset
    }
}

impl Spec {
    /// Whether a day of the calendar matches; `tomorrow`: what the wall clock shows 24 hours later.
    fn day_matches(&self, local: i64, tomorrow: i64) -> bool {
        let (_, month, day) = civil_from_days(local.div_euclid(86_400));
        let (_, _, next) = civil_from_days(tomorrow.div_euclid(86_400));
        let of_week = weekday(local.div_euclid(86_400));
        let this_day = has(self.day, day) || (self.last_day && next == 1);
        let this_week = has(self.week, of_week) || (of_week == 0 && has(self.week, 7));
        has(self.month, month) && if self.both { this_day && this_week } else { this_day || this_week }
    }

    /// The minutes in (from, to] at which pg_cron would run it: each minute is asked, as its launcher does, but where an hour without
    /// a clock change matches nothing.
    fn minutes(&self, table: &Table, from: i64, to: i64) -> Vec<i64> {
        let offsets = || Offsets { table, until: i64::MIN, offset: 0 };
        let (mut now, mut later, mut ahead) = (offsets(), offsets(), offsets());
        let mut found = Vec::new();
        let mut minute = (from.div_euclid(60) + 1) * 60;
        while minute <= to {
            let local = minute + now.at(minute);
            let tomorrow = minute + 86_400;
            let (of_hour, hour) = (local.rem_euclid(3_600) / 60, local.rem_euclid(86_400) / 3_600);
            let matches = has(self.hour, hour) && self.day_matches(local, tomorrow + later.at(tomorrow));
            if matches && has(self.minute, of_hour) {
                found.push(minute);
            }
            let next_hour = minute + 3_600 - local.rem_euclid(3_600);
            let stays =
                ahead.at(next_hour) == now.at(minute) && !(self.last_day && later.at(tomorrow) != now.at(minute));
            minute = if !matches && stays { next_hour } else { minute + 60 };
        }
        found
    }
}

const YEAR: i64 = 31_556_952;

/// Random schedules in random zones: how many were equal, and how many were refused.
fn compare(rounds: usize, seed: u64, length: i64) -> (usize, usize) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let names =
        ["UTC", "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"];
    let (mut equal, mut refused) = (0, 0);
    for round in 0..rounds {
        let (spec, name) = (spec(&mut random), *random.pick(&names));
        let table = zone(name);
        let from = 1_767_225_600 + random.below(3 * 31_556_952) as i64;
        let now = Instant::from_unix_seconds(from).unwrap();
        let read = pg_cron::read(&spec.text, false).unwrap_or_else(|reason| panic!("{}: {reason}", spec.text));
        let text = match settled(&read, table, now) {
            Ok(text) => text,
            Err(reason) => {
                assert!(name != "UTC" && name != "Asia/Kolkata", "{} in {name}: {reason}", spec.text);
                refused += 1;
                continue;
            }
        };
        let clock = Clock::parse(&text).unwrap();
        let timeline = clock.bind(table, now);
        let theirs = spec.minutes(table, from, from + length);
        let ours: Vec<i64> = upcoming(&timeline, now, theirs.len() + 1).iter().map(|at| at.unix_seconds()).collect();
        let same = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours);
        assert_eq!(same, None, "seed {seed}, round {round}: {} in {name} from {from}", spec.text);
        assert!(
            ours.len() >= theirs.len() && ours.get(theirs.len()).is_none_or(|next| *next > from + length),
            "seed {seed}, round {round}: {} in {name}",
            spec.text
        );
        equal += 1;
    }
    (equal, refused)
}

#[test]
fn random_schedules_over_half_a_year() {
    let (equal, refused) = compare(40, 20_261_123, YEAR / 2);
    println!("{equal} equal, {refused} refused");
    assert!(equal > 25);
}

#[test]
#[ignore = "long: 10,000 schedules over five years each"]
fn long_random_schedules_over_five_years() {
    let (equal, refused) = compare(10_000, 42, 5 * YEAR);
    println!("{equal} equal, {refused} refused");
    assert!(equal > 8_000, "{equal}");
}

#[test]
fn what_a_clock_change_would_make_another_is_refused() {
    let berlin = zone("Europe/Berlin");
    let now = Instant::from_unix_seconds(1_790_000_000).unwrap();
    let ours = |theirs: &str| settled(&pg_cron::read(theirs, false).unwrap(), berlin, now);
    assert!(ours("30 2 * * *").is_err());
    assert_eq!(ours("0 2 * * *").as_deref(), Ok("*/60 2 * * *"));
    assert_eq!(ours("30 0-4 * * *").as_deref(), Ok("30 */24,1-4 * * *"));
    assert_eq!(ours("30 9 * * *").as_deref(), Ok("30 9 * * *"));
    assert_eq!(ours("30 * * * *").as_deref(), Ok("30 * * * *"));
    assert_eq!(ours("@daily").as_deref(), Ok("0 0 * * *"));
    assert_eq!(
        settled(&pg_cron::read("@daily", false).unwrap(), zone("Africa/Cairo"), now).as_deref(),
        Ok("*/60 0 * * *")
    );
    // Berlin's last Sunday of October is the 31st now and then.
    assert!(ours("30 9 $ * *").is_err());
}
