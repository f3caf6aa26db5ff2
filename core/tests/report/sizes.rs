//! How large a page may be, and how long it may take.

use scheduler_core::report::{page, Mark, Report, Schedule, Verdict};
use scheduler_core::Keyword;

use crate::document::{counts, having, marks, read};
use crate::sample::{at, of_kind, report, schedule, view, Berlin, Kind, DAY, MINUTE, NOVEMBER};

const MOST: usize = 600_000;

fn thousand(kind: impl Fn(usize) -> (Kind, usize)) -> Report {
    let view = view(NOVEMBER, DAY, DAY);
    let schedules: Vec<Schedule> = (0..1_000)
        .map(|index| {
            let (kind, clock) = kind(index);
            of_kind(format!("schedule-{index:04}"), kind, clock, &view)
        })
        .collect();
    Report { schedules, ..report(view, 0, false) }
}

fn check(report: &Report) {
    check_size(report, MOST);
}

fn check_size(report: &Report, most: usize) {
    let html = page(report, &Berlin);
    assert!(html.len() <= most, "{} bytes", html.len());
    let document = read(&html);
    let rows = having(&document, "data-schedule");
    assert_eq!(rows.len(), 1_000);
    let shown: u64 = rows.iter().flat_map(|row| counts(*row).into_values()).sum();
    let given: u64 = report.schedules.iter().flat_map(|row| &row.marks).map(|mark| mark.count).sum();
    assert_eq!(shown, given);
}

#[test]
fn a_thousand_schedules_fit() {
    check(&report(view(NOVEMBER, DAY, DAY), 1_000, false));
    check(&report(view(NOVEMBER, DAY, DAY), 1_000, true));
}

#[test]
fn a_thousand_schedules_that_run_each_hour_fit() {
    check(&thousand(|_| (Kind::Good, 0)));
    check(&thousand(|_| (Kind::Retries, 5)));
}

#[test]
fn a_thousand_broken_schedules_fit() {
    check(&thousand(|_| (Kind::Fails, 0)));
    check(&thousand(|_| (Kind::Late, 2)));
    check(&thousand(|_| (Kind::EveryReason, 2)));
}

/// Each row has a block for each of its verdicts, and no row fewer: so a page of nothing else is larger.
#[test]
fn a_thousand_schedules_of_five_verdicts_almost_fit() {
    let marks = |index: i64| {
        let verdict = Verdict::ALL[(index % 5) as usize];
        Mark::one(at(NOVEMBER - DAY + index * MINUTE), verdict)
    };
    let schedules =
        (0..1_000).map(|index| schedule(format!("schedule-{index:04}"), "* * * * *", (0..300).map(marks).collect()));
    check_size(&Report { schedules: schedules.collect(), ..report(view(NOVEMBER, DAY, DAY), 0, false) }, 900_000);
}

#[test]
fn of_a_large_page_the_broken_rows_keep_their_detail() {
    let report = thousand(|index| (if index == 500 { Kind::Fails } else { Kind::Good }, 0));
    let html = page(&report, &Berlin);
    let document = read(&html);
    let broken = having(&document, "data-schedule")[0];
    assert_eq!(broken.attribute("data-schedule"), Some("schedule-0500"));
    let failed = counts(broken)["failed"];
    assert!(marks(broken).all(|mark| mark.attribute("data-count").is_none()), "each of its plan times is a mark");
    let symbols = broken.descendants().filter(|node| node.attribute("href") == Some("#f")).count();
    assert!(failed > 0 && symbols as u64 == failed, "{symbols} of {failed}");
}

/// With the compiler's optimizations only: `make test-long`.
#[test]
#[ignore = "measures time"]
fn long_a_page_of_a_thousand_schedules_takes_300_ms() {
    let report = report(view(NOVEMBER, DAY, DAY), 1_000, false);
    let fastest = (0..5)
        .map(|_| {
            let started = std::time::Instant::now();
            assert!(page(&report, &Berlin).len() <= MOST);
            started.elapsed()
        })
        .min()
        .unwrap();
    assert!(fastest.as_millis() <= 300, "{fastest:?}");
}
