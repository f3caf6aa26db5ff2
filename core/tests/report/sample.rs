//! Schedules as a database has them: most run as planned, some fail, are retried, late, skipped for every reason.
//! The same arguments give the same rows.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use scheduler_core::clock::zone::{Span, Zone};
use scheduler_core::lease::Status;
use scheduler_core::report::{
    lateness_class, Alert, Attempt, Cause, Health, LatenessColumn, LoadHour, Mark, Report, Run, Schedule, Severity,
    UserText, Verdict, View, LATENESS_CLASSES,
};
use scheduler_core::schedule::SkipReason;
use scheduler_core::{Instant, Keyword};

pub const MINUTE: i64 = 60;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;
/// 2026-11-23 09:20 UTC.
pub const NOVEMBER: i64 = 1_795_425_600;
/// 2026-10-25 00:40 UTC: at 01:00 the clocks of Berlin are put back.
pub const AUTUMN: i64 = 1_792_888_800;
/// 2026-03-29 00:40 UTC: at 01:00 they are put forward.
pub const SPRING: i64 = 1_774_744_800;

/// Berlin in 2026.
pub struct Berlin;

impl Zone for Berlin {
    fn span_at(&self, second: i64) -> Span {
        let (spring, autumn) = (1_774_746_000, 1_792_890_000);
        let span = |utc_offset_seconds, until| Span { utc_offset_seconds, until };
        match second {
            ..1_774_746_000 => span(3_600, Some(spring)),
            1_774_746_000..1_792_890_000 => span(7_200, Some(autumn)),
            _ => span(3_600, None),
        }
    }
}

pub fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second).unwrap()
}

pub fn later(at: Instant, millis: i64) -> Instant {
    at.checked_add_micros(millis * 1_000).unwrap()
}

pub fn view(now: i64, back: i64, ahead: i64) -> View {
    View {
        from: at(now - back),
        to: at(now + ahead),
        now: at(now),
        time_zone: "Europe/Berlin".into(),
        ascii_only: false,
    }
}

/// A number that is as good as random.
pub fn noise(seed: i64) -> i64 {
    let mut x = (seed as u64).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 29;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 8) as i64
}

pub fn success(start: Instant, millis: i64) -> Attempt {
    Attempt { started_at: start, ended_at: Some(later(start, millis)), status: Status::Success }
}

pub fn failure(start: Instant, millis: i64) -> Attempt {
    Attempt { started_at: start, ended_at: Some(later(start, millis)), status: Status::Failed }
}

pub fn run(attempts: Vec<Attempt>) -> Run {
    Run { attempt: attempts.len() as u32, attempts, ..Run::default() }
}

/// What a schedule is like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Good,
    Retries,
    Fails,
    Late,
    Overlaps,
    Paused,
    Parked,
    EveryReason,
}

pub fn schedule(name: impl Into<UserText>, clock: &str, marks: Vec<Mark>) -> Schedule {
    Schedule {
        name: name.into(),
        clock: clock.into(),
        time_zone: "Europe/Berlin".into(),
        state: "armed".to_owned(),
        next_plan_time: None,
        last_error: None,
        marks,
    }
}

const CLOCKS: [(&str, i64, i64, i64); 8] = [
    // The text, its step, its phase, and how many milliseconds a run takes.
    ("0 * * * *", HOUR, 0, 2_400),
    ("30 2 * * *", DAY, 90 * MINUTE, 2_700_000),
    ("*/15 * * * *", 15 * MINUTE, 0, 900),
    ("0 */6 * * *", 6 * HOUR, 0, 5_400_000),
    ("* * * * *", MINUTE, 0, 300),
    ("20 * * * *", HOUR, 20 * MINUTE, 1_500_000),
    ("every 2 hours", 2 * HOUR, 25 * MINUTE, 41_000),
    ("0 9 * * 1-5", DAY, 8 * HOUR, 600_000),
];
const NAMES: [&str; 16] = [
    "nightly-report",
    "invoices",
    "sync-crm",
    "vacuum-audit",
    "heartbeat",
    "rollup-hourly",
    "mail-digest",
    "morning-brief",
    "import-prices",
    "expire-sessions",
    "export-ledger",
    "rebuild-search",
    "check-stock",
    "archive-orders",
    "rates",
    "billing-run",
];

fn past(kind: Kind, plan: Instant, index: i64, millis: i64, now: Instant) -> Mark {
    let start = later(plan, 4 + noise(index) % 60);
    let good = |verdict| {
        let attempt = success(start, millis + noise(index + 1) % (millis / 2 + 1));
        if attempt.ended_at.unwrap() > now {
            let running = Attempt { ended_at: None, status: Status::Running, ..attempt };
            return Mark::one(plan, Verdict::Running).with_run(run(vec![running]));
        }
        Mark::one(plan, verdict).with_run(run(vec![attempt]))
    };
    let again = |first: Instant, wait: i64| later(first, millis / 3 + wait);
    match kind {
        Kind::Retries if noise(index) % 4 == 0 => {
            let second = again(start, 400_000);
            let attempts = vec![failure(start, millis / 3), success(second, millis)];
            if later(second, millis) > now {
                return good(Verdict::Ran);
            }
            Mark::one(plan, Verdict::Ran).with_run(run(attempts))
        }
        Kind::Fails if noise(index) % 5 == 0 => {
            let (second, third) = (again(start, 300_000), again(again(start, 300_000), 900_000));
            if later(third, millis / 4) > now {
                return good(Verdict::Ran);
            }
            let attempts = vec![failure(start, millis / 3), failure(second, millis / 3), failure(third, millis / 4)];
            Mark::one(plan, Verdict::Failed).with_run(run(attempts))
        }
        Kind::Late if noise(index) % 3 == 0 => {
            let start = later(plan, 700_000 + noise(index) % 900_000);
            if later(start, millis) > now {
                return Mark::one(plan, Verdict::Late);
            }
            Mark::one(plan, Verdict::Late).with_run(run(vec![success(start, millis)]))
        }
        Kind::Overlaps if noise(index) % 3 == 0 => Mark::one(plan, Verdict::Skipped).because(SkipReason::Overlap),
        Kind::Paused if later(plan, 9 * 3_600_000) > now => {
            Mark::one(plan, Verdict::Skipped).because(SkipReason::Paused)
        }
        Kind::Parked if later(plan, 14 * 3_600_000) > now => {
            Mark::one(plan, Verdict::Skipped).because(SkipReason::Parked)
        }
        Kind::EveryReason => match SkipReason::ALL.get((noise(index) % 9) as usize) {
            Some(reason) => Mark::one(plan, Verdict::Skipped).because(*reason),
            None => good(Verdict::Ran),
        },
        Kind::Good | Kind::Retries | Kind::Fails | Kind::Late | Kind::Overlaps | Kind::Paused | Kind::Parked => {
            good(Verdict::Ran)
        }
    }
}

/// A schedule of this kind with the clock of this number.
pub fn of_kind(name: String, kind: Kind, clock: usize, view: &View) -> Schedule {
    let (text, step, phase, millis) = CLOCKS[clock % CLOCKS.len()];
    let (from, to) = (view.from.unix_seconds(), view.to.unix_seconds());
    let mut marks = Vec::new();
    let mut next = None;
    let mut second = (from - phase).div_euclid(step) * step + phase;
    while second <= to || next.is_none() {
        let plan = at(second);
        if plan >= view.from {
            if plan > view.now {
                next = next.or(Some(plan));
                if second <= to && kind != Kind::Paused && kind != Kind::Parked {
                    marks.push(Mark::one(plan, Verdict::Planned));
                }
            } else {
                marks.push(past(kind, plan, second / 60 + clock as i64 * 7_919, millis, view.now));
            }
        }
        second += step;
    }
    let state = match kind {
        Kind::Paused => "paused",
        Kind::Parked => "parked",
        Kind::Good | Kind::Retries | Kind::Fails | Kind::Late | Kind::Overlaps | Kind::EveryReason => "armed",
    };
    let next_plan_time = next.filter(|_| state == "armed");
    Schedule { state: state.to_owned(), next_plan_time, ..schedule(name, text, marks) }
}

fn load(view: &View, schedules: usize) -> Vec<LoadHour> {
    let first = view.now.unix_seconds().div_euclid(HOUR) * HOUR;
    (0..168)
        .map(|hour| {
            let from = first + hour * HOUR;
            let of_day = (from / HOUR + 1) % 24;
            let night = if of_day == 2 { 60 } else { 0 };
            let day = if (8..18).contains(&of_day) && (from / DAY + 4) % 7 < 5 { 25 } else { 8 };
            LoadHour { from: at(from), count: (schedules as i64 * (night + day + noise(hour) % 6) / 10) as u64 }
        })
        .collect()
}

/// Lateness of all runs, in 48 columns.
pub fn lateness(view: &View, schedules: &[Schedule]) -> Vec<LatenessColumn> {
    let (from, to) = (view.from.as_micros(), view.to.as_micros());
    let width = ((to - from) / 48).max(1);
    let edge = |index: i64| Instant::from_micros(from + index * width).unwrap();
    let mut columns: Vec<LatenessColumn> = (0..48)
        .map(|index| LatenessColumn { from: edge(index), to: edge(index + 1), counts: [0; LATENESS_CLASSES] })
        .collect();
    for mark in schedules.iter().flat_map(|schedule| &schedule.marks) {
        if let Some(first) = mark.run.as_ref().and_then(|run| run.attempts.first()) {
            let index = ((mark.first.as_micros() - from) / width).clamp(0, 47) as usize;
            let late = first.started_at.as_micros() - mark.first.as_micros();
            columns[index].counts[lateness_class(late)] += 1;
        }
    }
    columns
}

pub fn health(bad: bool, now: Instant) -> Vec<Health> {
    let components = [
        "launcher",
        "dispatcher",
        "dispatch",
        "queues",
        "leases",
        "runners",
        "schedules",
        "home",
        "versions",
        "notify_queue",
        "worker_slots",
        "autovacuum",
        "wraparound",
    ];
    components
        .iter()
        .map(|component| {
            let (severity, message, hint) = match (*component, bad) {
                ("queues", true) => (
                    Severity::Warning,
                    "the oldest claimable execution in queue \"mail\" has waited for 7 minutes",
                    "Start more workers for this queue, or look at what the present ones do.",
                ),
                ("schedules", true) => (
                    Severity::Critical,
                    "1 schedule is parked: \"export-ledger\"",
                    "Alter the schedule: its time zone is unknown.",
                ),
                (_, _) => (Severity::Ok, "", ""),
            };
            let since = (severity != Severity::Ok).then(|| later(now, -437_000));
            Health { component: (*component).into(), severity, since, message: message.into(), hint: hint.into() }
        })
        .collect()
}

/// An alert that says nothing yet.
pub fn alert() -> Alert {
    Alert {
        kind: UserText::default(),
        schedule_name: UserText::default(),
        since: at(NOVEMBER),
        resolved_at: None,
        plan_time: None,
        limit: None,
        cause: None,
        message: UserText::default(),
        acknowledged_until: None,
    }
}

pub fn cause(code: &str, message: &str) -> Cause {
    Cause { code: code.into(), message: message.into() }
}

/// A report of `count` schedules; of a `good` one nothing went wrong.
pub fn report(view: View, count: usize, good: bool) -> Report {
    let kinds = [Kind::Fails, Kind::Late, Kind::Overlaps, Kind::Retries, Kind::Paused, Kind::Parked, Kind::EveryReason];
    let schedules: Vec<Schedule> = (0..count)
        .map(|index| {
            let number = index / NAMES.len();
            let name = NAMES[index % NAMES.len()];
            let name = if number == 0 { name.to_owned() } else { format!("{name}-{number:03}") };
            let is_odd = (index * 7 + 3) % 100 < 14 || count < 10 && index < kinds.len();
            let kind = if is_odd && !good { kinds[(index / 3) % kinds.len()] } else { Kind::Good };
            of_kind(name, kind, index.wrapping_mul(5) % 8, &view)
        })
        .collect();
    let alerts = if good {
        Vec::new()
    } else {
        vec![
            Alert {
                kind: "failed".into(),
                schedule_name: schedules.first().map_or_else(|| "gone".into(), |schedule| schedule.name.clone()),
                since: later(view.now, -5_000_000),
                message: "its execution of 2026-11-23 08:00 failed after 3 attempts".into(),
                plan_time: Some(later(view.now, -5_400_000)),
                cause: Some(cause("smtp", "connection refused")),
                ..alert()
            },
            Alert {
                kind: "parked".into(),
                schedule_name: "export-ledger".into(),
                since: later(view.now, -50_000_000),
                acknowledged_until: Some(later(view.now, 3_600_000)),
                cause: Some(cause("", "unknown time zone \"Europe/Brelin\"")),
                ..alert()
            },
            Alert {
                kind: "late".into(),
                schedule_name: "sync-crm".into(),
                since: later(view.now, -20_000_000),
                plan_time: Some(later(view.now, -20_600_000)),
                resolved_at: Some(later(view.now, -19_000_000)),
                limit: Some(600_000_000),
                ..alert()
            },
        ]
    };
    Report {
        title: "shop".into(),
        server: "db1:5432".into(),
        like: None,
        load: load(&view, count),
        lateness: lateness(&view, &schedules),
        health: health(!good, view.now),
        alerts: Some(alerts),
        schedules,
        view,
    }
}

/// What a name may be: up to 1,000 bytes of anything but NUL.
pub fn hostile_names() -> Vec<String> {
    vec![
        "<script>alert(1)</script>".to_owned(),
        "</style></title></script><img src=x onerror=alert(1)>".to_owned(),
        "\" onmouseover=\"alert(1)".to_owned(),
        "' onfocus='alert(1)".to_owned(),
        "]]> --> <!-- <![CDATA[".to_owned(),
        "&amp; &lt; &#60; &".to_owned(),
        "\u{202e}gnp.exe\u{2066}".to_owned(),
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{645}\u{631}\u{62d}\u{628}\u{627}".to_owned(),
        "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{4e88}\u{5b9a}".to_owned(),
        "a\u{1b}[31mred\u{7}\r\n\tb\u{7f}\u{9b}\u{1}".to_owned(),
        "\u{feff}\u{ffff}\u{fffe}\u{fdd0}\u{10ffff}".to_owned(),
        "x".repeat(1_000),
        "\u{1f600}".repeat(250),
        "e\u{301}\u{327}".repeat(150),
        "${alert(1)} {{7*7}} %s %n \\u003cscript\\u003e".to_owned(),
    ]
}
