//! Writes a sample of the report page, to look at it: `cargo run -p scheduler-core --example report -- 50 > page.html`.
//!
//! Arguments: how many schedules; `good` (nothing went wrong); `autumn` or `spring` (a clock change); `minute`, `hour`,
//! `week` or `year` (the range); `hostile` (names that want to be more); `text` (timelines instead of the page).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "an example")]

#[path = "../tests/report/sample.rs"]
mod sample;

use std::io::Write as _;

use sample::{Berlin, AUTUMN, DAY, HOUR, MINUTE, NOVEMBER, SPRING};
use scheduler_core::report::{page, timeline};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    let count = words.iter().find_map(|word| word.parse().ok()).unwrap_or(50);
    let now = match (has("autumn"), has("spring")) {
        (true, _) => AUTUMN,
        (_, true) => SPRING,
        (false, false) => NOVEMBER,
    };
    let half = [("minute", 30), ("hour", 30 * MINUTE), ("week", 84 * HOUR), ("year", 182 * DAY)]
        .iter()
        .find_map(|(word, half)| has(word).then_some(*half))
        .unwrap_or(DAY);
    let view = sample::view(now, half, half);
    let mut report = sample::report(view, count, has("good"));
    if has("hostile") {
        for (row, name) in report.schedules.iter_mut().zip(sample::hostile_names()) {
            row.name = name.clone().into();
            row.clock = name.into();
        }
    }
    let started = std::time::Instant::now();
    let text = if has("text") {
        report
            .schedules
            .iter()
            .map(|row| timeline(row, &report.view, &Berlin).join("\n"))
            .collect::<Vec<_>>()
            .join("\n\n")
    } else {
        page(&report, &Berlin)
    };
    eprintln!("{} bytes in {:?}", text.len(), started.elapsed());
    std::io::stdout().write_all(text.as_bytes()).unwrap();
}
