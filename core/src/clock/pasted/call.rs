//! Calls that stand for a clock: `at(…)` of EventBridge, Python's `timedelta(…)` and Celery's `crontab(…)`.

use super::Meant;

/// The clock of such a call.
pub(super) fn meant(text: &str) -> Option<Meant> {
    let (name, inside) = text.strip_suffix(')')?.split_once('(')?;
    let name = name.rsplit('.').next().unwrap_or(name).trim().to_ascii_lowercase();
    match name.as_str() {
        // (Without a zone it is in UTC.)
        "at" => {
            let at = inside.trim();
            let zone = if at.contains('T') && !at.contains(['+', 'Z']) { "+00" } else { "" };
            Some(Meant::Clock(format!("at {at}{zone}"), "a date-time follows at"))
        }
        "timedelta" => Some(Meant::Clock(timedelta(inside)?, "an interval follows every")),
        "crontab" => {
            Some(Meant::Clock(crontab(inside)?, "the fields are minute, hour, day of month, month and day of week"))
        }
        _ => None,
    }
}

/// The arguments with their names; one that has none has that of its place.
fn arguments<'a>(inside: &'a str, places: &[&'a str]) -> Option<Vec<(&'a str, &'a str)>> {
    let mut found = Vec::new();
    let mut rest = inside.trim().trim_end_matches(',');
    while !rest.is_empty() {
        // A comma inside of quotes belongs to the value.
        let mut quoted = false;
        let end = rest.find(|c: char| {
            quoted ^= c == '\'' || c == '"';
            c == ',' && !quoted
        });
        let (argument, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name.trim(), value),
            None => (*places.get(found.len())?, argument),
        };
        if !places.contains(&name) || found.iter().any(|(known, _)| *known == name) {
            return None;
        }
        found.push((name, value.trim().trim_matches(['\'', '"'])));
        rest = after.trim();
    }
    Some(found)
}

fn timedelta(inside: &str) -> Option<String> {
    const UNITS: [&str; 7] = ["days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks"];
    let mut parts = arguments(inside, &UNITS)?;
    let is_number = |text: &str| text.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0);
    if parts.is_empty() || !parts.iter().all(|(_, number)| is_number(number)) {
        return None;
    }
    // In the order in which intervals are said.
    let rank = |unit: &str| ["weeks", "days", "hours", "minutes"].iter().position(|known| *known == unit).unwrap_or(4);
    parts.sort_by_key(|(unit, _)| rank(unit));
    let parts: Vec<String> = parts
        .iter()
        .map(|(unit, number)| {
            let unit = if *number == "1" { unit.trim_end_matches('s') } else { *unit };
            format!("{number} {unit}")
        })
        .collect();
    Some(format!("every {}", parts.join(" ")))
}

/// Celery's: what is left out is a star, and a day must match both of its fields.
fn crontab(inside: &str) -> Option<String> {
    const FIELDS: [&str; 5] = ["minute", "hour", "day_of_week", "day_of_month", "month_of_year"];
    let given = arguments(inside, &FIELDS)?;
    let field =
        |name: &str| given.iter().find(|(known, _)| *known == name).map_or("*", |(_, value)| *value).replace(' ', "");
    let [minute, hour, week, day, month] = FIELDS.map(field);
    let both = if week.starts_with('*') || day.starts_with('*') { "" } else { "+" };
    Some(format!("{minute} {hour} {day} {month} {both}{week}"))
}
