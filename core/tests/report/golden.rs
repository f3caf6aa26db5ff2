//! Whole pages and timelines against files, so that a change of the drawing is read before it is committed.
//! `UPDATE_GOLDEN=1 cargo test -p scheduler-core --test report` writes them anew.

use std::fs;
use std::path::Path;

use scheduler_core::report::{page, timeline, View};

use crate::sample::{report, view, Berlin, AUTUMN, DAY, HOUR, NOVEMBER};

fn compare(name: &str, found: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/report").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(&golden, found).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}:{}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}");
}

/// The page without its style and script, an element a line.
fn body(html: &str) -> String {
    let without = |html: &str, tag: &str| {
        let (before, rest) = html.split_once(&format!("<{tag}>")).unwrap();
        let (_, after) = rest.split_once(&format!("</{tag}>")).unwrap();
        format!("{before}{after}")
    };
    let html = without(&without(html, "style"), "script");
    let mut lines = String::new();
    for tag in
        ["<tr", "<use", "<line", "<rect", "<text", "<section", "<li", "<svg", "<table", "<header", "<aside", "</"]
    {
        lines = if lines.is_empty() { html.clone() } else { lines };
        lines = lines.replace(tag, &format!("\n{tag}"));
    }
    let closed = lines.lines().fold(String::new(), |all, line| {
        // What closes stays on the line of what it closes.
        let joined = line.starts_with("</");
        if joined || all.is_empty() {
            all + line
        } else {
            all + "\n" + line
        }
    });
    closed + "\n"
}

#[test]
fn pages_look_as_recorded() {
    compare("seven-kinds.html", &body(&page(&report(view(NOVEMBER, 6 * HOUR, 6 * HOUR), 7, false), &Berlin)));
    compare("all-well.html", &body(&page(&report(view(NOVEMBER, DAY, DAY), 3, true), &Berlin)));
    compare("clocks-put-back.html", &body(&page(&report(view(AUTUMN, 6 * HOUR, 6 * HOUR), 2, false), &Berlin)));
}

#[test]
fn timelines_look_as_recorded() {
    let mut text = String::new();
    for (now, half, ascii_only) in [(NOVEMBER, HOUR, false), (NOVEMBER, DAY, true), (AUTUMN, 6 * HOUR, false)] {
        let view = View { ascii_only, ..view(now, half, half) };
        for row in &report(view.clone(), 7, false).schedules {
            text += &timeline(row, &view, &Berlin).join("\n");
            text += "\n\n";
        }
    }
    compare("timelines.txt", &text);
}
