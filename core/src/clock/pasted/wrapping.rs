//! What stands around a clock in the place that it was copied from.

/// Names under which configurations have a clock.
const KEYS: [&str; 13] = [
    "cron",
    "crons",
    "crontab",
    "cronexpression",
    "cron_expression",
    "cronspec",
    "schedule",
    "schedule_interval",
    "scheduleexpression",
    "expression",
    "spec",
    "oncalendar",
    "@scheduled(cron",
];

/// Signs that only look like those of a clock, and those.
const LOOKALIKES: [(&[char], &str); 6] = [
    (&['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}', '\u{ff0d}'], "-"),
    (&['\u{2217}', '\u{ff0a}', '\u{204e}'], "*"),
    (&['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{ab}', '\u{bb}', '\u{201e}'], "\""),
    (&['\u{ff0c}'], ","),
    (&['\u{ff0f}'], "/"),
    (&['\u{200b}', '\u{200e}', '\u{200f}', '\u{2060}', '\u{feff}'], ""),
];

/// The text without what is around it, and the rule; `None` where nothing is.
pub(super) fn unwrapped(text: &str) -> Option<(String, &'static str)> {
    let mut plain = text.replace("\\*", "*").replace("\\n", "\n");
    for (signs, sign) in LOOKALIKES {
        plain = plain.replace(signs, sign);
    }
    if plain != text {
        return Some((plain, "a range has a hyphen, and each sign is plain ASCII"));
    }
    let mut rest = text;
    loop {
        let before = rest;
        rest = rest.trim_end_matches([';', ',']).trim();
        let item = rest.strip_prefix("- ").map(str::trim_start);
        rest = item.filter(|item| item.starts_with(['"', '\'']) || after_key(item).is_some()).unwrap_or(rest);
        for quote in ['"', '\'', '`'] {
            let inside = rest.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
            rest = inside.filter(|inside| !inside.contains(quote)).unwrap_or(rest).trim();
        }
        rest = rest.split_once(" # ").map_or(rest, |(clock, _)| clock.trim());
        rest = after_key(rest).unwrap_or(rest);
        if rest == before {
            break;
        }
    }
    (rest != text && !rest.is_empty()).then(|| (rest.to_owned(), "a clock stands alone"))
}

/// The text behind `cron:`, `"schedule" =` and the like.
fn after_key(text: &str) -> Option<&str> {
    let at = text.find([':', '='])?;
    let (key, value) = (text[..at].trim(), text[at + 1..].trim_start_matches(['=', '>']).trim());
    let key = key.trim_matches(['"', '\'']).to_ascii_lowercase();
    // systemd's words mean something else than those of other programs.
    let keeps_key = key == "oncalendar" && value.eq_ignore_ascii_case("weekly");
    let value = if key.contains('(') { value.strip_suffix(')')?.trim() } else { value };
    (KEYS.contains(&key.as_str()) && !value.is_empty() && !keeps_key).then_some(value)
}

/// The zone that is said before a clock, on the same line or on the one before.
pub(super) fn zone_before(text: &str) -> Option<(&str, &str)> {
    let (setting, clock) = text.split_once([' ', '\t', '\n', '\r'])?;
    let (name, zone) = setting.split_once('=')?;
    let is_zone = name.eq_ignore_ascii_case("tz") || name.eq_ignore_ascii_case("cron_tz");
    (is_zone && !zone.is_empty() && !clock.trim().is_empty()).then(|| (zone, clock.trim()))
}
