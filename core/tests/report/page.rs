//! What is on the page.

use scheduler_core::lease::Status;
use scheduler_core::report::{page, Attempt, Mark, Report, Schedule, Verdict};
use scheduler_core::schedule::SkipReason;
use scheduler_core::Keyword;

use crate::document::{counts, having, marks, of_class, parse, row, text};
use crate::sample::{
    at, failure, later, of_kind, report, run, schedule, success, view, Berlin, Kind, AUTUMN, DAY, HOUR, MINUTE,
    NOVEMBER, SPRING,
};

pub fn with(schedules: Vec<Schedule>) -> Report {
    Report { schedules, alerts: Some(Vec::new()), ..report(view(NOVEMBER, DAY, DAY), 0, true) }
}

pub fn one(marks: Vec<Mark>) -> Report {
    with(vec![schedule("nightly", "30 2 * * *", marks)])
}

fn every_half_hour(count: i64, verdict: Verdict) -> Vec<Mark> {
    (0..count).map(|index| Mark::one(at(NOVEMBER - DAY + index * 30 * MINUTE), verdict)).collect()
}

#[test]
fn each_plan_time_has_a_mark_with_its_verdict() {
    let hours = [-6, -5, -4, -3, -2, -1, 1];
    let all = Verdict::ALL.iter().zip(hours).map(|(verdict, hour)| Mark::one(at(NOVEMBER + hour * HOUR), *verdict));
    let html = page(&one(all.collect()), &Berlin);
    let document = parse(&html);
    let row = row(&document, "nightly");
    for (verdict, hour) in Verdict::ALL.iter().zip(hours) {
        let found: Vec<_> =
            marks(row).filter(|mark| mark.attribute("data-verdict") == Some(verdict.as_str())).collect();
        assert_eq!(found.len(), 1, "{verdict:?}");
        let plan = format!("2026-11-23T{:02}:20+01:00", 10 + hour);
        assert_eq!(found[0].attribute("data-plan"), Some(plan.as_str()));
        assert_eq!(found[0].attribute("data-count"), None);
        let place = format!("{:.2}", (24 + hour) as f64 * 100.0 / 48.0 - 0.005);
        let shown = found[0].attribute("x").unwrap().trim_end_matches('%').parse::<f64>().unwrap();
        assert!((shown - place.parse::<f64>().unwrap()).abs() < 0.02, "{shown} {place}");
    }
}

#[test]
fn a_skip_says_its_reason() {
    for (index, reason) in SkipReason::ALL.iter().enumerate() {
        let skipped = Mark::one(at(NOVEMBER - HOUR), Verdict::Skipped).because(*reason);
        let html = page(&one(vec![skipped]), &Berlin);
        let document = parse(&html);
        let mark = marks(row(&document, "nightly")).next().unwrap();
        assert_eq!(mark.attribute("data-reason"), Some(reason.as_str()), "{index}");
        assert!(html.contains(&format!("1 skipped ({})", reason.as_str())));
        assert!(html.contains(&format!("skipped: {}", reason.as_str())));
    }
}

#[test]
fn a_run_has_a_bar_for_each_attempt_and_a_line_for_the_waits() {
    let plan = at(NOVEMBER - 6 * HOUR);
    let (first, second) = (later(plan, 10), later(plan, 3_600_000));
    let attempts = vec![failure(first, 600_000), success(second, 1_800_000)];
    let html = page(&one(vec![Mark::one(plan, Verdict::Ran).with_run(run(attempts))]), &Berlin);
    let document = parse(&html);
    let row = row(&document, "nightly");
    let lines: Vec<_> = row
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "line")))
        .map(|line| [line.attribute("class").unwrap(), line.attribute("x1").unwrap(), line.attribute("x2").unwrap()])
        .collect();
    assert_eq!(
        lines,
        [["wait", "37.5%", "40.62%"], ["run f", "37.5%", "37.84%"], ["run s", "39.58%", "40.62%"]],
        "from 18/48 of the width on"
    );
    assert!(html.contains("ran, began 10 ms after the plan, took 30 min, attempt 2"));
}

#[test]
fn what_runs_ends_at_now() {
    let plan = at(NOVEMBER - 2 * HOUR);
    let attempt = Attempt { started_at: plan, ended_at: None, status: Status::Running };
    let running = Mark::one(plan, Verdict::Running).with_run(run(vec![attempt]));
    let html = page(&one(vec![running]), &Berlin);
    let document = parse(&html);
    let bar = of_class(&document, "run").into_iter().find(|bar| bar.attribute("x1") == Some("45.83%")).unwrap();
    assert_eq!((bar.attribute("class"), bar.attribute("x2")), (Some("run w"), Some("50%")));
    assert!(html.contains("running for 2 h") && html.contains(">1 running</td>"));
}

#[test]
fn what_is_too_dense_is_counted() {
    let sparse = page(&one(every_half_hour(48, Verdict::Ran)), &Berlin);
    let document = parse(&sparse);
    assert_eq!(marks(row(&document, "nightly")).count(), 48);

    let minutes = (0..1_440).map(|index| Mark::one(at(NOVEMBER - DAY + index * MINUTE), Verdict::Ran)).collect();
    let dense = page(&one(minutes), &Berlin);
    let document = parse(&dense);
    let found: Vec<_> = marks(row(&document, "nightly")).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].attribute("data-count"), Some("1440"));
    assert_eq!(found[0].attribute("data-plan"), Some("2026-11-22T10:20+01:00"));
}

#[test]
fn one_failure_among_many_has_a_symbol_of_its_own() {
    let mut minutes: Vec<Mark> =
        (0..1_440).map(|index| Mark::one(at(NOVEMBER - DAY + index * MINUTE), Verdict::Ran)).collect();
    minutes[700].verdict = Verdict::Failed;
    let html = page(&one(minutes), &Berlin);
    let document = parse(&html);
    let row = row(&document, "nightly");
    assert_eq!(counts(row), [("failed".to_owned(), 1), ("ran".to_owned(), 1_439)].into());
    let failed = marks(row).last().unwrap();
    assert_eq!(failed.attribute("data-verdict"), Some("failed"), "drawn last, so above the rest");
    assert_eq!(failed.attribute("href"), Some("#f"));
}

#[test]
fn verdicts_that_alternate_share_the_height() {
    let marks_of = |index: i64| {
        let verdict = if index % 3 == 0 { Verdict::Failed } else { Verdict::Ran };
        Mark::one(at(NOVEMBER - DAY + index * MINUTE), verdict)
    };
    let html = page(&one((0..1_440).map(marks_of).collect()), &Berlin);
    let document = parse(&html);
    let row = row(&document, "nightly");
    assert_eq!(counts(row), [("failed".to_owned(), 480), ("ran".to_owned(), 960)].into());
    assert!(marks(row).count() < 150);
    let height = |verdict| {
        let mark = marks(row).find(|mark| mark.attribute("data-verdict") == Some(verdict)).unwrap();
        mark.attribute("height").unwrap().parse::<u32>().unwrap()
    };
    assert!(height("ran") > height("failed") && height("failed") >= 5);
}

#[test]
fn what_the_caller_has_counted_stays_counted() {
    let (from, to) = (at(NOVEMBER - DAY), at(NOVEMBER - HOUR));
    let html = page(&one(vec![Mark::many(from, to, 80_000, Verdict::Ran)]), &Berlin);
    let document = parse(&html);
    let found: Vec<_> = marks(row(&document, "nightly")).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].attribute("data-count"), Some("80000"));
    assert!(html.contains("80,000 ran"));
}

/// Half hours of a schedule of each minute, as a database counts them.
fn buckets(verdicts: &[(Verdict, u64)]) -> Vec<Mark> {
    let bucket = |index: i64| {
        let from = NOVEMBER - DAY + index * 30 * MINUTE;
        verdicts.iter().map(move |(verdict, count)| Mark::many(at(from), at(from + 29 * MINUTE), *count, *verdict))
    };
    (0..48).flat_map(bucket).collect()
}

#[test]
fn neighbours_that_the_caller_has_counted_are_one_piece() {
    let html = page(&one(buckets(&[(Verdict::Ran, 30)])), &Berlin);
    let document = parse(&html);
    let found: Vec<_> = marks(row(&document, "nightly")).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].attribute("data-count"), Some("1440"));
    // Two in each half hour are a quarter of an hour apart, and so are those of neighbours.
    let quarters = (0..48).map(|index| {
        let from = NOVEMBER - DAY + index * 30 * MINUTE;
        Mark::many(at(from), at(from + 15 * MINUTE), 2, Verdict::Ran)
    });
    let html = page(&one(quarters.collect()), &Berlin);
    let document = parse(&html);
    let comb = marks(row(&document, "nightly")).next().unwrap();
    assert_eq!((comb.attribute("data-count"), comb.attribute("class")), (Some("96"), Some("k1")));
}

#[test]
fn what_the_caller_has_counted_of_one_time_shares_the_height() {
    let html = page(&one(buckets(&[(Verdict::Ran, 20), (Verdict::Failed, 10)])), &Berlin);
    let document = parse(&html);
    let row = row(&document, "nightly");
    assert_eq!(counts(row), [("failed".to_owned(), 480), ("ran".to_owned(), 960)].into());
    assert!(marks(row).all(|mark| mark.tag_name().name() == "rect" && mark.has_attribute("height")));
    // A whole day in one bucket lies on itself, too.
    let (from, to) = (at(NOVEMBER - DAY), at(NOVEMBER));
    let day = [Verdict::Ran, Verdict::Late].map(|verdict| Mark::many(from, to, 700, verdict));
    let html = page(&one(day.into()), &Berlin);
    let document = parse(&html);
    let row = crate::document::row(&document, "nightly");
    for mark in marks(row) {
        assert_eq!((mark.attribute("x"), mark.attribute("width")), (Some("0"), Some("50%")));
    }
    assert_eq!(marks(row).count(), 2);
}

#[test]
fn what_is_wrong_comes_first() {
    let view = view(NOVEMBER, DAY, DAY);
    let kinds = [
        ("a-good", Kind::Good),
        ("b-late", Kind::Late),
        ("c-parked", Kind::Parked),
        ("d-fails", Kind::Fails),
        ("e-paused", Kind::Paused),
    ];
    let rows = kinds.map(|(name, kind)| of_kind(name.to_owned(), kind, 0, &view));
    let html = page(&with(rows.into()), &Berlin);
    let document = parse(&html);
    let names: Vec<_> =
        having(&document, "data-schedule").iter().map(|row| row.attribute("data-schedule").unwrap()).collect();
    assert_eq!(names, ["c-parked", "d-fails", "b-late", "a-good", "e-paused"]);
    assert!(html.contains("<h1>3 of 5 schedules need a look</h1>"));
    let groups: Vec<String> = of_class(&document, "group").into_iter().map(text).collect();
    assert_eq!(groups, ["Needs a look 3", "As planned 2"]);
}

#[test]
fn an_alert_brings_its_schedule_to_the_top() {
    let mut report = report(view(NOVEMBER, DAY, DAY), 0, false);
    report.schedules = vec![schedule("a", "@daily", Vec::new()), schedule("export-ledger", "@daily", Vec::new())];
    let html = page(&report, &Berlin);
    let document = parse(&html);
    assert_eq!(having(&document, "data-schedule")[0].attribute("data-schedule"), Some("export-ledger"));
    let aside = document.descendants().find(|node| node.tag_name().name() == "aside").unwrap();
    let words = text(aside);
    for part in [
        "Open alerts 2",
        "acknowledged until",
        "schedules critical",
        "queues warning",
        "Start more workers",
        "wraparound",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn now_is_a_line_where_it_is_in_view() {
    for (from, to, place) in
        [(-DAY, DAY, Some("50%")), (-DAY, -HOUR, None), (HOUR, DAY, None), (-HOUR, 3 * HOUR, Some("25%"))]
    {
        let view = scheduler_core::report::View {
            from: at(NOVEMBER + from),
            to: at(NOVEMBER + to),
            ..view(NOVEMBER, DAY, DAY)
        };
        let html = page(&Report { view, ..one(Vec::new()) }, &Berlin);
        let document = parse(&html);
        let lines = of_class(&document, "now");
        assert_eq!(lines.first().and_then(|line| line.attribute("x1")), place);
    }
}

#[test]
fn clock_changes_are_bands() {
    for (now, change) in [
        (AUTUMN, "clocks change by \u{2212}1 h: UTC+2 becomes UTC+1"),
        (SPRING, "clocks change by +1 h: UTC+1 becomes UTC+2"),
    ] {
        let html = page(&Report { view: view(now, DAY, DAY), ..one(Vec::new()) }, &Berlin);
        let document = parse(&html);
        let bands = of_class(&document, "dst");
        assert_eq!(bands.len(), 1);
        assert_eq!(bands[0].attribute("x"), Some("48.61%"), "an hour before the change, which is 20 minutes after now");
        assert_eq!(bands[0].attribute("width"), Some("4.16%"));
        assert!(html.contains(change));
    }
    let html = page(&one(Vec::new()), &Berlin);
    assert!(of_class(&parse(&html), "dst").is_empty());
    let html = page(&Report { view: view(NOVEMBER, 364 * DAY, DAY), ..one(Vec::new()) }, &Berlin);
    assert_eq!(of_class(&parse(&html), "dst").len(), 2);
}

#[test]
fn labels_are_readings_of_the_wall_clock() {
    let labels = |now, back, ahead| {
        let html = page(&Report { view: view(now, back, ahead), ..one(Vec::new()) }, &Berlin);
        let document = parse(&html);
        let axis = of_class(&document, "axis")[0];
        let shown: Vec<String> = axis.children().filter(|label| label.attribute("y") == Some("30")).map(text).collect();
        shown.join(" | ")
    };
    assert_eq!(labels(NOVEMBER, DAY, DAY), "18:00 | Mon 23 Nov | 06:00 | 12:00 | 18:00 | Tue 24 Nov | 06:00");
    assert_eq!(labels(NOVEMBER, 30, 30), "10:19:40 | 10:19:50 | 10:20 | 10:20:10 | 10:20:20");
    assert_eq!(labels(NOVEMBER, HOUR, HOUR), "09:30 | 09:45 | 10:00 | 10:15 | 10:30 | 10:45 | 11:00");
    assert_eq!(
        labels(NOVEMBER, 3 * DAY, 4 * DAY),
        "Sat 21 Nov | Sun 22 Nov | Mon 23 Nov | Tue 24 Nov | Wed 25 Nov | Thu 26 Nov | Fri 27 Nov"
    );
    assert_eq!(labels(NOVEMBER, 364 * DAY, DAY), "Jan | Mar | May | Jul | Sep | Nov".replace("Jan", "2026"));
    // 02:00 is no reading on the day on which summer time begins.
    assert_eq!(labels(SPRING, 6 * HOUR, 6 * HOUR), "22:00 | Sun 29 Mar | 04:00 | 06:00 | 08:00");
    assert_eq!(labels(AUTUMN, 6 * HOUR, 6 * HOUR), "22:00 | Sun 25 Oct | 02:00 | 04:00 | 06:00");
}

#[test]
fn the_load_and_the_lateness_are_told() {
    let html = page(&report(view(NOVEMBER, DAY, DAY), 20, false), &Berlin);
    let document = parse(&html);
    let load = of_class(&document, "load")[0];
    assert_eq!(load.children().filter(|bar| bar.tag_name().name() == "rect").count(), 168);
    assert_eq!(of_class(&document, "peak").len(), 1);
    let heat = text(of_class(&document, "heat")[0]);
    for part in ["within 0.1 s", "within 10 min", "over 10 min"] {
        assert!(heat.contains(part), "{heat}");
    }
}

#[test]
fn nothing_is_nothing_and_says_so() {
    let mut empty = report(view(NOVEMBER, DAY, DAY), 0, true);
    (empty.load, empty.lateness, empty.health) = (Vec::new(), Vec::new(), Vec::new());
    let html = page(&empty, &Berlin);
    parse(&html);
    for words in [
        "No schedule here",
        "There is no schedule, or none that you may see.",
        "Nothing is planned.",
        "No run has begun",
        "None.",
        "Not known.",
    ] {
        assert!(html.contains(words), "{words}");
    }
}

#[test]
fn all_well_is_said_in_one_line() {
    let html = page(&report(view(NOVEMBER, DAY, DAY), 30, true), &Berlin);
    assert!(html.contains("<h1>All 30 schedules run as planned</h1>"));
    assert!(html.contains("All 13 checks are ok."));
    assert!(!html.contains("What went wrong"));
}

#[test]
fn the_page_needs_no_network_and_no_script() {
    let html = page(&report(view(NOVEMBER, DAY, DAY), 50, false), &Berlin);
    let document = parse(&html);
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        for attribute in node.attributes() {
            let is_local = attribute.name() != "href" || attribute.value().starts_with('#');
            assert!(is_local && attribute.name() != "src" && !attribute.name().starts_with("on"), "{attribute:?}");
        }
        assert!(!["link", "img", "iframe", "object"].contains(&node.tag_name().name()));
    }
    assert!(!html.contains("@import") && !html.contains("url(http"));
    // What `<use>` and patterns name is there, once.
    let ids: Vec<_> = having(&document, "id").iter().map(|node| node.attribute("id").unwrap()).collect();
    for node in having(&document, "href") {
        let id = node.attribute("href").unwrap().trim_start_matches('#');
        assert_eq!(ids.iter().filter(|other| **other == id).count(), 1, "{id}");
    }
}

#[test]
fn what_somebody_asked_for_is_nothing_wrong() {
    for reason in SkipReason::ALL {
        let wanted = matches!(reason, SkipReason::Overlap | SkipReason::Paused | SkipReason::Replaced);
        let html = page(&one(vec![Mark::one(at(NOVEMBER - HOUR), Verdict::Skipped).because(*reason)]), &Berlin);
        assert_eq!(html.contains("What went wrong"), !wanted, "{reason:?}");
        assert_eq!(html.contains("<h1>The schedule runs as planned</h1>"), wanted, "{reason:?}");
    }
}
