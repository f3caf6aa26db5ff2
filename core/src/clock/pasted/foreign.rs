//! Texts that other programs have for what no one clock here says.

use super::Meant;

/// The sentence or the clock for a text of another program; `None` where it is none.
pub(super) fn meant(text: &str, lower: &str) -> Option<Meant> {
    let sentence = |said: &str| Some(Meant::Sentence(said.to_owned()));
    match lower {
        "-" => return sentence("a schedule that must not fire is paused, or its clock is \"never\""),
        "weekly" => {
            return sentence("weekly is Monday for systemd, \"0 0 * * 1\", and Sunday for cron, \"@weekly\"");
        }
        "oncalendar=weekly" => return Some(Meant::Clock("0 0 * * 1".to_owned(), "systemd's weeks begin on Monday")),
        "@once" | "once" => return sentence("what runs once has a clock of at and the time, or none and fire_now"),
        "@continuous" => {
            return sentence("no clock begins a run at once when the last one ends: there is a wait between them");
        }
        _ => {}
    }
    if let Some(wait) = lower.strip_prefix("@after ") {
        return Some(Meant::Clock(format!("every {wait} after end"), "after end counts from the end of the last run"));
    }
    if let Some(interval) = lower.strip_prefix("interval ") {
        let interval = interval.trim().trim_matches('\'');
        return Some(Meant::Clock(format!("every {interval}"), "an interval follows every"));
    }
    if lower.starts_with("rrule") || lower.starts_with("freq=") || lower.starts_with("dtstart") {
        return sentence(
            "a recurrence rule is no clock: write its days and times in the fields of a crontab, and its limits as starts_at and ends_at",
        );
    }
    let repeats = lower.strip_prefix('r').and_then(|rest| rest.split_once('/'));
    if repeats.is_some_and(|(count, rest)| count.bytes().all(|b| b.is_ascii_digit()) && rest.contains('p')) {
        return sentence(
            "a repeating interval is no clock: every has its interval, from its beginning, and ends_at its end",
        );
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = text.trim_start_matches("->").trim_start_matches('.');
    let after = name.trim_start_matches(is_name);
    let has_capital =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.contains(|c: char| c.is_ascii_uppercase());
    let is_call = after.starts_with('(') && after.ends_with(')') && name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !name.starts_with("cron(") && !name.starts_with("rate(") && (is_call || (after.is_empty() && has_capital)) {
        return sentence(
            "a program's method is no clock: write the times that it stands for in the fields of a crontab",
        );
    }
    None
}
