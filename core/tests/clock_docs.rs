//! `docs/reference/clocks.md` is true: every row of every table is run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "test code"
)]

mod clock_support;

use clock_support::{instant, show, upcoming, zone};
use scheduler_core::clock::{lint, Clock};
use scheduler_core::time::Instant;

const PAGE: &str = include_str!("../../docs/reference/clocks.md");

/// The cells of a table's line, without the backquotes.
fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
}

fn parse(text: &str) -> Clock {
    Clock::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The times of a row, as many as it lists, the way the page writes them.
fn times(clock: &str, name: &str, after: &str, written: &str) -> String {
    let count = written.strip_prefix('?').map_or(written.split(", ").count(), |count| count.parse().unwrap());
    let clock = parse(clock);
    let timeline = clock.bind(zone(name), Instant::UNIX_EPOCH);
    let found = upcoming(&timeline, instant(after), count);
    if found.is_empty() {
        return "never".to_owned();
    }
    let shown: Vec<String> = found
        .iter()
        .map(|&t| {
            let text = show(&timeline, t);
            let (time, offset) = text.split_at(text.rfind(['+', '-']).unwrap());
            format!("{}{offset}", time.strip_suffix(":00").unwrap_or(time))
        })
        .collect();
    shown.join(", ")
}

/// What the last cell of a row should say, under its table's header.
fn expected(header: &[String], row: &[String]) -> String {
    let last = header.last().unwrap();
    if let Some(rest) = last.strip_prefix("next times in ") {
        let (name, after) = rest.split_once(" after ").unwrap();
        if let ("fixed" | "wild", Clock::Cron(cron)) = (row[1].as_str(), parse(&row[0])) {
            assert_eq!(cron.is_wild(), row[1] == "wild", "{row:?}");
        }
        return times(&row[0], name, after, &row[2]);
    }
    match last.as_str() {
        "same as" => {
            assert_eq!(parse(&row[0]), parse(&row[1]), "{row:?}");
            row[1].clone()
        }
        "note" => {
            let clock = parse(&row[0]);
            let timeline = clock.bind(zone("America/New_York"), Instant::UNIX_EPOCH);
            let plan = timeline.next_after(instant(&row[1])).unwrap();
            timeline.dst_note(plan).map_or("nothing".to_owned(), |note| note.to_string())
        }
        "the hint shows" => {
            let error = Clock::parse(&row[0]).expect_err(&row[0]);
            error.hint().split('"').nth(1).unwrap().to_owned()
        }
        "warning" => {
            let found = lint(&parse(&row[0]), &row[0], zone(&row[1]), instant("2026-11-20 12:00+00"));
            found.iter().map(|warning| warning.code).collect::<Vec<_>>().join(", ")
        }
        other => panic!("no check for a table that ends in {other:?}"),
    }
}

#[test]
fn every_row_of_the_page_is_true() {
    let mut header: Option<Vec<String>> = None;
    let mut rows = 0;
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(PAGE.lines()) {
        if !line.starts_with('|') {
            header = None;
            continue;
        }
        match &header {
            None => header = Some(cells(line)),
            Some(_) if line.starts_with("| ---") => {}
            Some(header) => {
                let row = cells(line);
                assert_eq!(row.len(), header.len(), "line {number}");
                let right = expected(header, &row);
                if row.last() != Some(&right) {
                    wrong.push(format!("line {number}\t{right}"));
                }
                rows += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "the page is wrong:\n{}", wrong.join("\n"));
    assert!(rows > 80, "{rows}");
}
