//! Names and messages that want to be more than text.

use scheduler_core::report::{page, timeline, Alert, Health, Mark, Report, Run, Schedule, Severity, Verdict};

use crate::document::{having, parse, text};
use crate::sample::{
    alert, at, cause, failure, hostile_names, later, report, run, schedule, view, Berlin, DAY, HOUR, NOVEMBER,
};

fn everywhere(name: &str) -> Report {
    let empty = report(view(NOVEMBER, DAY, DAY), 0, true);
    let run = Run { cause: Some(cause(name, name)), ..run(vec![failure(at(NOVEMBER - HOUR), 5)]) };
    let failed = vec![Mark::one(at(NOVEMBER - HOUR), Verdict::Failed).with_run(run)];
    let row = Schedule {
        time_zone: name.into(),
        state: name.to_owned(),
        last_error: Some(name.into()),
        ..schedule(name, name, failed)
    };
    let alert = Alert {
        kind: name.into(),
        schedule_name: name.into(),
        message: name.into(),
        cause: Some(cause(name, name)),
        ..alert()
    };
    let resolved = Alert { resolved_at: Some(at(NOVEMBER)), ..alert.clone() };
    let health = Health {
        component: name.into(),
        severity: Severity::Critical,
        since: Some(later(at(NOVEMBER), -1)),
        message: name.into(),
        hint: name.into(),
    };
    let mut view = empty.view.clone();
    view.time_zone = name.into();
    Report {
        title: name.into(),
        server: name.into(),
        like: Some(name.into()),
        schedules: vec![row],
        alerts: Some(vec![alert, resolved]),
        health: vec![health],
        view,
        ..empty
    }
}

fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{202e}' | '\u{2066}' | '\u{feff}' | '\u{fdd0}')
        && u32::from(c) & 0xfffe != 0xfffe
}

#[test]
fn whatever_a_user_wrote_is_text() {
    let reference = page(&everywhere("harmless"), &Berlin);
    let shape = |html: &str| -> Vec<(String, Vec<String>)> {
        let document = parse(html);
        let shapes = document.descendants().filter(roxmltree::Node::is_element).map(|node| {
            let attributes =
                node.attributes().map(|attribute| attribute.name().to_owned()).filter(|name| name != "title");
            (node.tag_name().name().to_owned(), attributes.collect())
        });
        shapes.collect()
    };
    let expected = shape(&reference);
    for name in hostile_names() {
        let html = page(&everywhere(&name), &Berlin);
        assert_eq!(shape(&html), expected, "{name:?} adds no element and no attribute");
        let document = parse(&html);
        let row = having(&document, "data-schedule")[0];
        let cleaned: String = name
            .chars()
            .map(|c| match c {
                '\t' | '\n' | '\r' => ' ',
                c if is_shown(c) => c,
                _ => '\u{fffd}',
            })
            .collect();
        assert_eq!(
            row.attribute("data-schedule"),
            Some(cleaned.as_str()),
            "a stand-in for each character that is not shown"
        );
        let isolated: Vec<String> =
            document.descendants().filter(|node| node.tag_name().name() == "bdi").map(text).collect();
        assert!(isolated.len() >= 10, "{isolated:?}");
        let short: String = cleaned.chars().take(80).collect();
        for text in isolated {
            let text = text.trim_end_matches('\u{2026}');
            assert!(text == cleaned || text == short, "{text:?}");
        }
    }
}

#[test]
fn ascii_pages_say_the_same() {
    for name in hostile_names() {
        let mut report = everywhere(&name);
        let html = page(&report, &Berlin);
        report.view.ascii_only = true;
        let ascii = page(&report, &Berlin);
        assert!(ascii.is_ascii(), "{name:?}");
        let words = |html: &str| text(parse(html).root_element());
        assert_eq!(words(&html), words(&ascii));
        let attributes = |html: &str| -> Vec<String> {
            let document = parse(html);
            let nodes = document.descendants().filter(roxmltree::Node::is_element);
            nodes
                .flat_map(|node| node.attributes().map(|attribute| attribute.value().to_owned()).collect::<Vec<_>>())
                .collect()
        };
        assert_eq!(attributes(&html), attributes(&ascii));
    }
}

#[test]
fn a_terminal_gets_nothing_that_steers_it() {
    for name in hostile_names() {
        let report = everywhere(&name);
        for ascii_only in [false, true] {
            let view = scheduler_core::report::View { ascii_only, ..report.view.clone() };
            let lines = timeline(&report.schedules[0], &view, &Berlin);
            for line in lines {
                assert!(line.chars().all(is_shown), "{line:?}");
                assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= 80, "{line:?}");
                assert!(line.is_ascii() || !ascii_only, "{line:?}");
            }
        }
    }
}
