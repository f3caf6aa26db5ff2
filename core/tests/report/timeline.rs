//! What a terminal shows.

use scheduler_core::report::{timeline, Mark, Verdict};
use scheduler_core::Keyword;

use crate::sample::{at, failure, later, run, schedule, success, view, Berlin, HOUR, MINUTE, NOVEMBER, SPRING};

fn lines(now: i64, marks: Vec<Mark>) -> Vec<String> {
    timeline(&schedule("nightly", "*/15 * * * *", marks), &view(now, HOUR, HOUR), &Berlin)
}

#[test]
fn a_column_has_the_loudest_verdict() {
    for (index, loud) in Verdict::ALL.iter().enumerate() {
        let marks = Verdict::ALL[index..].iter().map(|verdict| Mark::one(at(NOVEMBER), *verdict)).collect();
        let lines = lines(NOVEMBER, marks);
        let alone = timeline(
            &schedule("nightly", "*/15 * * * *", vec![Mark::one(at(NOVEMBER), *loud)]),
            &view(NOVEMBER, HOUR, HOUR),
            &Berlin,
        );
        assert_eq!(lines[4], alone[4], "{loud:?}");
        assert_eq!(lines[4].chars().count(), 41);
    }
}

#[test]
fn now_and_a_clock_change_are_in_the_ruler() {
    let ruler = &lines(SPRING, Vec::new())[3];
    let columns: Vec<char> = ruler.chars().collect();
    assert_eq!(columns.len(), 80);
    assert_eq!(columns[40], '\u{2503}', "now");
    assert_eq!(columns.iter().filter(|c| **c == '\u{2592}').count(), 79 - 13, "from 20 minutes before now to the end");
    assert!(lines(NOVEMBER, Vec::new())[3].chars().all(|c| c != '\u{2592}'));
}

#[test]
fn runs_are_bars() {
    let plan = at(NOVEMBER - 30 * MINUTE);
    let attempts = vec![failure(plan, 300_000), success(later(plan, 600_000), 600_000)];
    let lines = lines(NOVEMBER, vec![Mark::one(plan, Verdict::Ran).with_run(run(attempts))]);
    assert_eq!(
        lines[5].trim_start(),
        "\u{2591}\u{2591}\u{2591}\u{2591}  \u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}\u{2588}"
    );
    assert_eq!(lines[5].chars().take_while(|c| *c == ' ').count(), 20);
}

#[test]
fn nothing_is_said_to_be_nothing() {
    assert_eq!(lines(NOVEMBER, Vec::new()).last().map(String::as_str), Some("no plan time"));
}
