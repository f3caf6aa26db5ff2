//! What was plainly meant by texts that are pasted from elsewhere: with quotes around them, with a printer's dashes, as an interval alone, or as a
//! word that another scheduler has for a crontab.

/// What stands before a clock in configurations.
const KEYS: [&str; 4] = ["cron:", "schedule:", "cron=", "schedule="];

/// Words of systemd, Rundeck and others that mean one thing everywhere. (`weekly` is Monday for one and Sunday for the other.)
const WORDS: [(&str, &str); 14] = [
    ("hourly", "@hourly"),
    ("daily", "@daily"),
    ("midnight", "@midnight"),
    ("monthly", "@monthly"),
    ("yearly", "@yearly"),
    ("annually", "@annually"),
    ("minutely", "* * * * *"),
    ("@minutely", "* * * * *"),
    ("@every_minute", "* * * * *"),
    ("everyminute", "* * * * *"),
    ("quarterly", "0 0 1 */3 *"),
    ("@quarterly", "0 0 1 */3 *"),
    ("semiannually", "0 0 1 */6 *"),
    ("@semiannually", "0 0 1 */6 *"),
];

/// The text that was meant, which has to be read yet, and the rule that it keeps.
pub(crate) fn meant(text: &str) -> Option<(String, &'static str)> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if let Some(inside) = unwrapped(text) {
        return Some((inside, "a clock stands alone"));
    }
    if let Some((_, clock)) =
        text.split_once(['\n', '\r']).filter(|_| lower.starts_with("cron_tz=") || lower.starts_with("tz="))
    {
        return Some((clock.trim().to_owned(), "give the zone as time_zone"));
    }
    if text.contains(['\n', '\r']) {
        return Some((text.replace(['\n', '\r'], " "), "a clock is one line"));
    }
    const DASHES: [char; 6] = ['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}'];
    if text.contains(DASHES) {
        return Some((text.replace(DASHES, "-"), "a range has a hyphen"));
    }
    if let Some((_, clock)) = WORDS.iter().find(|(word, _)| *word == lower) {
        return Some(((*clock).to_owned(), "so it is written here"));
    }
    if is_interval(&lower) {
        return Some((format!("every {text}"), "an interval follows every"));
    }
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    if let [minute, hour, "$", month, week] = fields[..] {
        return Some((format!("{minute} {hour} L {month} {week}"), "L is the last day of the month"));
    }
    let joined = joined(&fields);
    (joined.split(' ').count() == 5 && fields.len() > 5).then_some((joined, "a list and a range have no blanks"))
}

/// The text without quotes, a key or a semicolon around it; `None` where it has none.
fn unwrapped(text: &str) -> Option<String> {
    let mut rest = text;
    loop {
        let before = rest;
        rest = rest.trim_end_matches([';', ',']).trim();
        for quote in ['"', '\'', '`'] {
            let inside = rest.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
            rest = inside.unwrap_or(rest).trim();
        }
        let key = KEYS.iter().find(|key| rest.get(..key.len()).is_some_and(|start| start.eq_ignore_ascii_case(key)));
        rest = key.map_or(rest, |key| rest[key.len()..].trim());
        if rest == before {
            break;
        }
    }
    (rest != text && !rest.is_empty()).then(|| rest.to_owned())
}

/// A number with a unit, an ISO 8601 interval, or hours, minutes and seconds: no time of day has its seconds said.
fn is_interval(lower: &str) -> bool {
    let begins = lower.starts_with(|c: char| c.is_ascii_digit()) || lower.starts_with('p');
    let has_unit = lower.contains(|c: char| c.is_ascii_alphabetic()) || lower.matches(':').count() == 2;
    let is_plain = lower.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ' || c == ':' || c == '.');
    begins && has_unit && is_plain
}

/// The fields without blanks around the commas and hyphens of lists and ranges.
fn joined(fields: &[&str]) -> String {
    let mut out = String::new();
    for field in fields {
        let goes_on = out.ends_with([',', '-']) || field.starts_with([',', '-']);
        if !out.is_empty() && !goes_on {
            out.push(' ');
        }
        out.push_str(field);
    }
    out
}
