//! The words for people: counts, durations, and what became of a plan time.

use std::fmt::Write as _;

use crate::keyword::Keyword;
use crate::lease::Status;
use crate::time::units::duration;
use crate::time::Instant;

use super::rows::{Attempt, Mark, Run};
use super::verdict::Verdict;

/// `1,234,567`.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index != 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 schedule`, `2 schedules`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

/// A word of ours as it came from a row: letters and underscores, so that it can be a class.
pub(super) fn word(word: &str) -> String {
    word.chars().filter(|c| c.is_ascii_lowercase() || *c == '_').collect()
}

fn between(from: Instant, to: Instant) -> i64 {
    to.as_micros().saturating_sub(from.as_micros())
}

impl Mark {
    /// What became of it: `failed after 3 attempts`, `skipped: overlap`, `12 ran`.
    pub(super) fn words(&self, now: Instant) -> String {
        let mut words = match (self.count, self.verdict, &self.run) {
            (1, Verdict::Failed, Some(run)) if run.attempt > 1 => format!("failed after {} attempts", run.attempt),
            (1, Verdict::Late, None) => format!("late: due for {}", duration(between(self.first, now))),
            (1, verdict, _) => verdict.as_str().to_owned(),
            (count, verdict, _) => format!("{} {}", number(count), verdict.as_str()),
        };
        if let Some(reason) = self.reason {
            let _ = write!(words, ": {}", reason.as_str());
        }
        if let Some(run) = &self.run {
            self.add_run(&mut words, run, now);
        }
        words
    }

    fn add_run(&self, words: &mut String, run: &Run, now: Instant) {
        let (Some(first), Some(last)) = (run.attempts.first(), run.attempts.last()) else { return };
        // Of earlier attempts that nobody knows any more, the first one's delay is not known either.
        if usize::try_from(run.attempt).is_ok_and(|attempt| attempt <= run.attempts.len()) {
            let _ = write!(words, ", began {} after the plan", duration(between(self.first, first.started_at)));
        }
        let _ = match (last.ended_at, last.status) {
            (None, _) => write!(words, ", running for {}", duration(between(last.started_at, now))),
            (Some(end), Status::Cancelled) => {
                write!(words, ", cancelled after {}", duration(between(last.started_at, end)))
            }
            (Some(end), Status::Pending | Status::Running | Status::Success | Status::Failed) => {
                write!(words, ", took {}", duration(between(last.started_at, end)))
            }
        };
        if run.attempt > 1 && self.verdict != Verdict::Failed {
            let _ = write!(words, ", attempt {}", run.attempt);
        }
        if run.is_long {
            words.push_str(", longer than its max_duration");
        }
    }
}

impl Attempt {
    /// The class of its bar.
    pub(super) const fn class(&self) -> char {
        match self.status {
            Status::Success => 's',
            Status::Failed => 'f',
            Status::Cancelled => 'c',
            Status::Pending | Status::Running => 'w',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(count), text);
        }
        assert_eq!((counted(1, "schedule"), counted(2, "schedule")), ("1 schedule".into(), "2 schedules".into()));
    }
}
