//! Any schedules in any range: parsers read the page, and every plan time is on it once.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use scheduler_core::lease::Status;
use scheduler_core::report::{page, timeline, Attempt, Mark, Report, Run, Schedule, Verdict, View};
use scheduler_core::schedule::SkipReason;
use scheduler_core::{Instant, Keyword};

use crate::document::{count, counts, having, marks, parse, places};
use crate::sample::{at, later, report, schedule, view, Berlin, DAY, MINUTE, NOVEMBER};

/// A mark: where it is in the range (somewhat beyond it too), how many and what.
#[derive(Clone, Debug)]
struct Drawn {
    place: f64,
    length: f64,
    count: u64,
    verdict: usize,
    reason: usize,
    attempts: Vec<(f64, bool)>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let counts = prop_oneof![9 => Just(1_u64), 1 => 2_u64..1_000_000];
    (-0.1..1.1, 0.0..0.3, counts, 0..Verdict::ALL.len(), 0..SkipReason::ALL.len(), vec((0.0..0.2, any::<bool>()), 0..3))
        .prop_map(|(place, length, count, verdict, reason, attempts)| Drawn {
            place,
            length,
            count,
            verdict,
            reason,
            attempts,
        })
}

fn mark(drawn: &Drawn, view: &View) -> Mark {
    let span = (view.to.as_micros() - view.from.as_micros()) as f64;
    let instant = |place: f64| Instant::from_micros(view.from.as_micros() + (place * span) as i64).unwrap();
    let first = instant(drawn.place);
    let last = if drawn.count == 1 { first } else { instant(drawn.place + drawn.length) };
    let verdict = Verdict::ALL[drawn.verdict];
    let mut mark = Mark::many(first, last, drawn.count, verdict);
    if verdict == Verdict::Skipped {
        mark = mark.because(SkipReason::ALL[drawn.reason]);
    }
    let attempts: Vec<Attempt> = drawn
        .attempts
        .iter()
        .scan(drawn.place, |start, (length, ended)| {
            let started_at = instant(*start);
            *start += length;
            let status = if *ended { Status::Failed } else { Status::Running };
            Some(Attempt { started_at, ended_at: ended.then(|| instant(*start)), status })
        })
        .collect();
    if !attempts.is_empty() {
        mark = mark.with_run(Run { attempt: attempts.len() as u32, attempts, ..Run::default() });
    }
    mark
}

fn range() -> impl Strategy<Value = View> {
    let now = prop_oneof![Just(NOVEMBER), NOVEMBER - 400 * DAY..NOVEMBER];
    (now, prop_oneof![Just(30), MINUTE..DAY, DAY..183 * DAY], 0..=2_i64).prop_map(|(now, half, ahead)| View {
        from: at(now - half),
        to: at(now + half * ahead + 1),
        ..view(now, half, half)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, rng_seed: prop::test_runner::RngSeed::Fixed(20_261_123), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_time_is_drawn_once_or_counted(
        view in range(),
        rows in vec((any::<String>(), vec(drawn(), 0..60)), 0..12),
        copies in 1_usize..20,
        ascii_only in any::<bool>(),
    ) {
        let view = View { ascii_only, ..view };
        let mut schedules: Vec<Schedule> = Vec::new();
        for copy in 0..copies {
            for (index, (name, drawn)) in rows.iter().enumerate() {
                let marks = drawn.iter().map(|drawn| mark(drawn, &view)).collect();
                schedules.push(schedule(format!("{copy}.{index} {name}"), "* * * * *", marks));
            }
        }
        let html = page(&Report { schedules: schedules.clone(), view: view.clone(), ..report(view.clone(), 0, false) }, &Berlin);
        let document = parse(&html);
        prop_assert_eq!(having(&document, "data-schedule").len(), schedules.len());
        for row in having(&document, "data-schedule") {
            let (number, _) = row.attribute("data-schedule").unwrap().split_once(' ').unwrap();
            let (copy, index) = number.split_once('.').unwrap();
            let schedule = &schedules[copy.parse::<usize>().unwrap() * rows.len() + index.parse::<usize>().unwrap()];
            let seen = |mark: &&Mark| view.from <= mark.first && mark.last <= view.to;
            let mut given = BTreeMap::new();
            for mark in schedule.marks.iter().filter(seen) {
                *given.entry(mark.verdict.as_str().to_owned()).or_insert(0) += mark.count;
            }
            prop_assert_eq!(counts(row), given);
            for mark in marks(row) {
                prop_assert!(!mark.has_attribute("data-reason") || mark.attribute("data-verdict") == Some("skipped"));
                prop_assert!(count(mark) >= 1);
            }
        }
        for place in places(&document) {
            // A comb begins half a tick before its first plan time.
            prop_assert!((-2.0..=102.0).contains(&place), "{}", place);
        }
        if let Some(schedule) = schedules.first() {
            for line in timeline(schedule, &view, &Berlin) {
                prop_assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= 80, "{:?}", line);
                prop_assert!(!line.contains(char::is_control));
                prop_assert!(line.is_ascii() || !ascii_only);
            }
        }
    }

    #[test]
    fn a_single_mark_says_its_plan_time_exactly(micros in 0_i64..1_000_000, second in -DAY + 1..DAY) {
        let plan = Instant::from_micros(later(at(NOVEMBER + second), 0).as_micros() + micros).unwrap();
        let rows = vec![schedule("a", "@daily", vec![Mark::one(plan, Verdict::Waiting)])];
        let empty = report(view(NOVEMBER, DAY, DAY), 0, true);
        let html = page(&Report { schedules: rows, ..empty }, &Berlin);
        let document = parse(&html);
        let text = marks(having(&document, "data-schedule")[0]).next().unwrap().attribute("data-plan").unwrap().to_owned();
        let read = text.strip_suffix("+01:00").unwrap();
        let format = if read.len() > 16 { "%Y-%m-%dT%H:%M:%S%.f" } else { "%Y-%m-%dT%H:%M" };
        let read = chrono::NaiveDateTime::parse_from_str(read, format).unwrap().and_utc();
        prop_assert_eq!(read.timestamp() - 3_600, plan.unix_seconds());
        prop_assert_eq!(i64::from(read.timestamp_subsec_micros()), plan.subsecond_micros());
    }
}
