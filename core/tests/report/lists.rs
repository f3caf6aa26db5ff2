//! The lists of what is and went wrong, the alerts, and the head.

use roxmltree::Document;
use scheduler_core::lease::Status;
use scheduler_core::report::{page, Alert, Attempt, Mark, Report, Run, Schedule, Verdict};

use crate::document::{counts, marks, of_class, parse, row, text};
use crate::page::{one, with};
use crate::sample::{
    alert, at, cause, failure, later, report, run, schedule, success, view, Berlin, DAY, HOUR, MINUTE, NOVEMBER,
};

/// The rows of the list of a section.
fn rows(document: &Document, section: &str) -> Vec<String> {
    let Some(section) = of_class(document, section).first().copied() else { return Vec::new() };
    let of_row = |row: roxmltree::Node| row.children().map(text).collect::<Vec<_>>().join(" | ");
    section.descendants().filter(|node| node.tag_name().name() == "tr").skip(1).map(of_row).collect()
}

#[test]
fn what_is_wrong_and_what_went_wrong_are_two_lists_newest_first() {
    let plan = at(NOVEMBER - 3 * HOUR);
    let attempts = (0..3).map(|number| failure(later(plan, number * 60_000), 5_000)).collect();
    let failed = Run { cause: Some(cause("smtp", "connection refused")), ..run(attempts) };
    let late = at(NOVEMBER - 4 * HOUR);
    let long = Attempt { started_at: at(NOVEMBER - 2 * HOUR), ended_at: None, status: Status::Running };
    let marks = vec![
        Mark::one(late, Verdict::Late).with_run(run(vec![success(later(late, 600_000), 1_000)])),
        Mark::one(plan, Verdict::Failed).with_run(failed),
        Mark::one(at(NOVEMBER - 2 * HOUR), Verdict::Running).with_run(Run { is_long: true, ..run(vec![long]) }),
        Mark::one(at(NOVEMBER - 90 * MINUTE), Verdict::Ran),
        Mark::one(at(NOVEMBER - HOUR), Verdict::Late),
    ];
    let html = page(&one(marks), &Berlin);
    let document = parse(&html);
    assert_eq!(
        rows(&document, "wrong-now"),
        [
            "Mon 23 Nov 09:20 | nightly | late: due for 1 h | ",
            "Mon 23 Nov 08:20 | nightly | running, began under 1 ms after the plan, running for 2 h, longer than its max_duration | ",
        ]
    );
    assert_eq!(
        rows(&document, "went-wrong"),
        [
            "Mon 23 Nov 07:20 | nightly | failed after 3 attempts, began under 1 ms after the plan, took 5 s | smtp: connection refused",
            "Mon 23 Nov 06:20 | nightly | late, began 10 min after the plan, took 1 s | ",
        ]
    );
    // A run that takes too long is drawn otherwise.
    assert_eq!(of_class(&document, "long").len(), 1 + 1, "its bar, and one in the legend");
}

#[test]
fn what_is_parked_is_wrong_now_and_says_why() {
    let broken = |name: &str, state: &str| Schedule {
        state: state.to_owned(),
        last_error: Some("time zone \"Mars\" is not known".into()),
        ..schedule(name, "@daily", vec![Mark::one(at(NOVEMBER + HOUR), Verdict::Planned)])
    };
    let html = page(&with(vec![broken("a", "parked"), broken("b", "failing"), broken("c", "paused")]), &Berlin);
    let document = parse(&html);
    assert_eq!(
        rows(&document, "wrong-now"),
        [
            " | a | parked: it fires nothing | time zone \"Mars\" is not known",
            " | b | cannot be fired, and is tried again | time zone \"Mars\" is not known",
        ]
    );
    assert!(rows(&document, "went-wrong").is_empty());
    // What is not to fire has no planned plan time.
    for (name, planned) in [("a", 0), ("b", 1), ("c", 0)] {
        let row = row(&document, name);
        assert_eq!((marks(row).count(), counts(row).len()), (planned, planned), "{name}");
    }
}

#[test]
fn alerts_are_told_in_the_zone_and_units_of_the_page() {
    let kinds = ["late", "long", "no_success", "failed", "parked", "failing", "something"];
    let alerts = kinds.iter().map(|kind| Alert {
        kind: (*kind).into(),
        schedule_name: "nightly".into(),
        since: at(NOVEMBER - HOUR),
        plan_time: Some(at(NOVEMBER - 2 * HOUR)),
        limit: Some(5_400_000_000),
        cause: (*kind == "failed").then(|| cause("smtp", "refused")),
        message: "as it was, at 2026-11-23 07:20:00+00".into(),
        ..alert()
    });
    let resolved = Alert { kind: "late".into(), resolved_at: Some(at(NOVEMBER - MINUTE)), ..alert() };
    let report = Report { alerts: Some(alerts.chain([resolved]).collect()), ..one(Vec::new()) };
    let html = page(&report, &Berlin);
    let document = parse(&html);
    let aside = text(document.descendants().find(|node| node.tag_name().name() == "aside").unwrap());
    for part in [
        "Open alerts 7",
        "the run of Mon 23 Nov 08:20 had not begun in time: max_lateness is 1 h 30 min",
        "the run of Mon 23 Nov 08:20 took longer than it may: max_duration is 1 h 30 min",
        "no run has succeeded for 1 h 30 min",
        "the run of Mon 23 Nov 08:20 has failed for good. smtp: refused",
        "it fires nothing before somebody puts it right",
        "it cannot be fired, and is tried again",
        "as it was, at 2026-11-23 07:20:00+00",
        "Resolved alerts 1",
        "since Mon 23 Nov 10:20, resolved Mon 23 Nov 10:19",
    ] {
        assert!(aside.contains(part), "{part}: {aside}");
    }
}

#[test]
fn an_alert_that_was_resolved_brings_nothing_to_the_top() {
    let resolved = Alert { schedule_name: "nightly".into(), resolved_at: Some(at(NOVEMBER)), ..alert() };
    let html = page(&Report { alerts: Some(vec![resolved]), ..one(Vec::new()) }, &Berlin);
    assert!(html.contains("<h1>The schedule runs as planned</h1>"));
}

#[test]
fn the_head_says_what_and_of_when_it_is() {
    let mut report = report(view(NOVEMBER, DAY, DAY), 3, true);
    let head = |report: &Report| {
        let html = page(report, &Berlin);
        let document = parse(&html);
        text(document.descendants().find(|node| node.tag_name().name() == "header").unwrap())
    };
    let words = head(&report);
    assert!(words.contains("Database shop on db1:5432, as of Mon 23 Nov 10:20."), "{words}");
    assert!(words.contains("Europe/Berlin (UTC+1)") && !words.contains("Only schedules like"), "{words}");
    report.like = Some("mail%".into());
    assert!(head(&report).contains("Only schedules like mail%."));
}

#[test]
fn the_legend_explains_what_is_drawn() {
    let html = page(&report(view(NOVEMBER, DAY, DAY), 50, false), &Berlin);
    let document = parse(&html);
    let legend = text(of_class(&document, "legend")[0]);
    for part in ["run longer than its max_duration", "wait before a run, or between attempts", "running"] {
        assert!(legend.contains(part), "{part}: {legend}");
    }
}
