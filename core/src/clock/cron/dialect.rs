//! Texts with a `?`, which no field has here: what six fields mean by them depends on where it stands.
//!
//! EventBridge has minute, hour, day of month, month, day of week and year; the `?` is the third or the fifth of them. Quartz and Spring have
//! seconds first; the `?` is the fourth or the sixth. EventBridge and Quartz count days of the week from 1 for Sunday, Spring from 0 or 7.
//! Sources: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html>,
//! <https://www.quartz-scheduler.org/documentation/quartz-2.3.0/tutorials/crontrigger.html> and the documentation of Spring's `CronExpression`.

use crate::clock::error::{quoted, ClockError, Mend, Source};

use super::field::Field;

/// The error of such fields, where the mark alone says what is meant; all else is the fault of a field.
pub(super) fn other(source: &Source<'_>, fields: &[&str], mend: Mend) -> Option<ClockError> {
    if let Some(clock) = event_bridge(source, fields) {
        let (field, mark) =
            if fields[2] == "?" { (Field::DayOfMonth, fields[2]) } else { (Field::DayOfWeek, fields[4]) };
        let rule = "a star means every value; seconds are the first of six fields, and the year is the last of seven";
        return Some(source.field_error(field, mark, "? is not used here", rule).proposing(clock));
    }
    let [_, _, _, day @ "?", _, week, ..] = fields[..] else { return None };
    if !week.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // By Quartz' numbers and by Spring's.
    let with = |week: &str| {
        let mut kept = source.originals(fields);
        (kept[3], kept[5]) = ("*", week);
        kept.join(" ")
    };
    let spring = with(source.original(week));
    let Some(quartz) = days_from_zero(week).map(|week| with(&week)) else {
        let rule = "a star means every value, and Sunday is 0 or 7";
        return Some(source.field_error(Field::DayOfMonth, day, "? is not used here", rule).proposing(spring));
    };
    // (Where another field is at fault, its error comes first.)
    let (quartz, spring) = (mend(&quartz)?, mend(&spring)?);
    let rule = format!(
        "Quartz counts Sunday as 1 and means {}; Spring counts Monday as 1 and means {}",
        quoted(&quartz),
        quoted(&spring)
    );
    Some(source.field_error(Field::DayOfMonth, day, "? is not used here", rule).with_example(""))
}

/// The clock that means the same as six fields of EventBridge.
pub(super) fn event_bridge(source: &Source<'_>, fields: &[&str]) -> Option<String> {
    let [_, _, day, _, week, year] = fields else { return None };
    if !(*day == "?" || *week == "?") || fields[3] == "?" || *year == "?" {
        return None;
    }
    let mut kept: Vec<String> =
        source.originals(fields).into_iter().map(|field| if field == "?" { "*" } else { field }.to_owned()).collect();
    if week.contains(|c: char| c.is_ascii_digit()) {
        kept[4] = days_from_zero(week)?;
    }
    if *year == "*" {
        kept.pop();
    } else {
        kept.insert(0, "0".to_owned());
    }
    Some(kept.join(" "))
}

/// Days of the week that were counted from 1 for Sunday, counted from 0; `None` where a number is something else.
fn days_from_zero(week: &str) -> Option<String> {
    let (days, nth) = week.split_once('#').map_or((week, None), |(days, nth)| (days, Some(nth)));
    let ours = |c: char| match c {
        '1'..='7' => char::from_digit(c.to_digit(10)? - 1, 10),
        '-' | ',' | 'l' => Some(c),
        _ => None,
    };
    let days: String = days.chars().map(ours).collect::<Option<_>>()?;
    Some(nth.map_or_else(|| days.to_uppercase(), |nth| format!("{days}#{nth}")))
}
