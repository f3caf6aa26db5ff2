//! Texts of six or seven fields with a `?`, which no field has here: what they mean depends on where it stands.
//!
//! EventBridge has minute, hour, day of month, month, day of week and year; the `?` is the third or the fifth of them. Quartz and Spring have
//! seconds first; the `?` is the fourth or the sixth. EventBridge and Quartz count days of the week from 1 for Sunday, Spring from 0 or 7.
//! Sources: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html>,
//! <https://www.quartz-scheduler.org/documentation/quartz-2.3.0/tutorials/crontrigger.html> and the documentation of Spring's `CronExpression`.

use crate::clock::error::{quoted, ClockError, ErrorKind, Hint, Mend, Source};

use super::field::Field;

const REASON: &str = "? is not used here";

/// The error of such fields: the clock that means the same, both where there are two, or that the mark says nothing.
pub(super) fn other(source: &Source<'_>, fields: &[&str], mend: Mend<'_>) -> Option<ClockError> {
    let marked = fields.iter().position(|field| field.contains('?')).filter(|_| fields.len() > 5)?;
    let mark = fields[marked];
    if fields.iter().any(|field| field.starts_with("l-")) {
        let rule = "L is the last day of the month, and no clock counts back from it";
        return Some(source.error(ErrorKind::Cron, "clock", mark, REASON, Hint::new(None, rule, "")));
    }
    if let Some(meant) = event_bridge(source, fields) {
        let field = if fields[2] == "?" { Field::DayOfMonth } else { Field::DayOfWeek };
        let error = |rule| source.field_error(field, fields[if fields[2] == "?" { 2 } else { 4 }], REASON, rule);
        return Some(match meant {
            Ok(clock) => {
                let rule =
                    "a star means every value; seconds are the first of six fields, and the year is the last of seven";
                error(rule).proposing(clock)
            }
            Err(sentence) => error(sentence).with_example(""),
        });
    }
    let are_quartz =
        (0..fields.len()).all(|at| !fields[at].contains('?') || (fields[at] == "?" && (at == 3 || at == 5)));
    if !are_quartz {
        let rule = "the ? is third or fifth of EventBridge's six fields, and fourth or sixth of Quartz': here a star says the same";
        let hint = Hint::new(None, rule, "");
        return Some(source.error(ErrorKind::Cron, "clock", mark, REASON, hint));
    }
    let with = |week: &str| {
        let mut kept: Vec<&str> = source.originals(fields);
        (kept[3], kept[5]) = (if kept[3] == "?" { "*" } else { kept[3] }, week);
        kept.join(" ")
    };
    let field = if fields[3] == "?" { Field::DayOfMonth } else { Field::DayOfWeek };
    let error = |rule: String| source.field_error(field, mark, REASON, rule);
    if fields[5] == "?" {
        return Some(error("a star means every value".to_owned()).proposing(with("*")));
    }
    // By Quartz' numbers and by Spring's.
    let quartz = days_from_zero(fields[5]).map(|week| with(&week));
    let spring = with(&days_to_sunday(source, fields[5]));
    let has_number = fields[5].contains(|c: char| c.is_ascii_digit());
    let rule = if has_number { "a star means every value, and Sunday is 0 or 7" } else { "a star means every value" };
    let rule = rule.to_owned();
    let Some(quartz) = quartz else { return Some(error(rule).proposing(spring)) };
    match (mend.clock(&quartz), mend.clock(&spring)) {
        (Some(quartz), Some(spring)) if !quartz.eq_ignore_ascii_case(&spring) => {
            let rule = format!(
                "Quartz counts Sunday as 1 and means {}; Spring counts Monday as 1 and means {}",
                quoted(&quartz),
                quoted(&spring)
            );
            Some(error(rule).with_example(""))
        }
        // (Where another field is at fault, its error comes first.)
        (None, None) => None,
        (Some(_), Some(_)) => Some(error(rule).proposing(spring)),
        (quartz, spring) => Some(error(rule).proposing(quartz.or(spring)?)),
    }
}

/// The clock that means the same as six fields of EventBridge, or why there is none; `None` where they are none of its.
pub(super) fn event_bridge(source: &Source<'_>, fields: &[&str]) -> Option<Result<String, &'static str>> {
    let &[minute, hour, day, month, week, year] = fields else { return None };
    if (day == "?") == (week == "?") || [minute, hour, month, year].iter().any(|field| field.contains('?')) {
        return None;
    }
    let mut kept: Vec<String> =
        source.originals(fields).into_iter().map(|field| if field == "?" { "*" } else { field }.to_owned()).collect();
    if week != "?" && week != "*" {
        match days_from_zero(week) {
            Some(week) => kept[4] = week,
            None => return Some(Err("EventBridge's days of the week are 1, for Sunday, to 7, or SUN to SAT")),
        }
    }
    if year == "*" {
        kept.pop();
    } else if year.split([',', '-', '/']).any(|number| number.parse::<u32>().is_ok_and(|number| number > 2099)) {
        return Some(Err("the years of a clock are from 1970 to 2099"));
    } else {
        kept.insert(0, "0".to_owned());
    }
    Some(Ok(kept.join(" ")))
}

/// Days of the week that were counted from 1 for Sunday, counted from 0; `None` where one is something else.
fn days_from_zero(week: &str) -> Option<String> {
    let items = week.split(',').map(|item| {
        let (base, step) = item.split_once('/').map_or((item, None), |(base, step)| (base, Some(step)));
        let whole = match base.split_once('-') {
            Some((first, last)) => format!("{}-{}", day_from_zero(first)?, day_from_zero(last)?),
            None if base == "*" => base.to_owned(),
            None => match (step, base.split_once('#'), base.strip_suffix('l')) {
                // A step goes on to Saturday, and an L alone is that.
                (Some(_), ..) => format!("{}-6", day_from_zero(base)?),
                (None, Some((day, nth)), _) => format!("{}#{nth}", day_from_zero(day)?),
                (None, None, Some("")) => "6".to_owned(),
                (None, None, Some(day)) => format!("{}L", day_from_zero(day)?),
                (None, None, None) => day_from_zero(base)?,
            },
        };
        Some(step.map_or(whole.clone(), |step| format!("{whole}/{step}")))
    });
    items.collect::<Option<Vec<_>>>().map(|items| items.join(","))
}

/// Spring's days of the week, whose steps go on to Sunday and count from Monday.
fn days_to_sunday(source: &Source<'_>, week: &str) -> String {
    let items = week.split(',').map(|item| match item.split_once('/') {
        Some((base, step)) if !base.contains('-') && base != "?" => {
            let first = match base {
                "*" => "1",
                "sun" => "7",
                day => source.original(day),
            };
            format!("{first}-7/{step}")
        }
        Some(_) | None => source.original(item).to_owned(),
    });
    items.collect::<Vec<_>>().join(",")
}

fn day_from_zero(day: &str) -> Option<String> {
    match day.as_bytes() {
        [digit @ b'1'..=b'7'] => Some((digit - b'1').to_string()),
        _ => Field::DayOfWeek
            .number_of(day)
            .or_else(|| Field::DayOfWeek.number_of(Field::DayOfWeek.shortened(day)?))
            .map(|_| day.to_uppercase()),
    }
}
