//! Values of type json as jsonb takes them. The one keeps whatever can be parsed; the other refuses some of that, and no row may spoil a result.

use crate::pg::utf8_text::counts_bytes;

/// Deeper values are shown as texts: nobody reads them, and reading them costs stack.
const MAX_DEPTH: usize = 128;
/// So are numbers with a larger exponent, which a numeric would write out,
const MAX_EXPONENT: usize = 1000;
/// and those with more digits than a numeric may have after the point.
const MAX_DIGITS: usize = 16_000;

/// The value itself, if jsonb takes it, with U+FFFD for null characters; else its text as a string.
pub fn storable(value: &str) -> String {
    as_jsonb(value).unwrap_or_else(|| serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
}

/// `value` is valid JSON.
fn as_jsonb(value: &str) -> Option<String> {
    let mut taken = String::with_capacity(value.len());
    let (mut rest, mut depth) = (value, 0_usize);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                rest = string(rest, &mut taken)?;
                continue;
            }
            '-' | '0'..='9' => number(rest)?,
            '[' | '{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
                1
            }
            ']' | '}' => {
                depth = depth.saturating_sub(1);
                1
            }
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        taken.push_str(token);
        rest = after;
    }
    Some(taken)
}

/// How long the number is that this begins with.
fn number(text: &str) -> Option<usize> {
    let length = text.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(text.len());
    let (mantissa, exponent) = text[..length].split_once(['e', 'E']).unwrap_or((&text[..length], "0"));
    let exponent: usize = exponent.trim_start_matches(['+', '-']).parse().ok()?;
    (exponent <= MAX_EXPONENT && mantissa.len() + exponent <= MAX_DIGITS).then_some(length)
}

/// Takes over the string that this begins with; what comes after it.
fn string<'a>(text: &'a str, taken: &mut String) -> Option<&'a str> {
    taken.push('"');
    let mut rest = &text[1..];
    loop {
        let plain = rest.find(['"', '\\'])?;
        taken.push_str(&rest[..plain]);
        rest = &rest[plain..];
        if let Some(after) = rest.strip_prefix('"') {
            taken.push('"');
            return Some(after);
        }
        let Some(unit) = unit(rest) else {
            // Two characters of ASCII.
            taken.push_str(rest.get(..2)?);
            rest = &rest[2..];
            continue;
        };
        let is_pair = (0xD800..0xDC00).contains(&unit);
        let length = if is_pair { 12 } else { 6 };
        let stands_alone = if is_pair {
            !self::unit(&rest[6..]).is_some_and(|second| (0xDC00..0xE000).contains(&second))
        } else {
            (0xDC00..0xE000).contains(&unit)
        };
        if stands_alone || (counts_bytes() && !(1..0x80).contains(&unit)) {
            return None;
        }
        taken.push_str(if unit == 0 { "\u{fffd}" } else { &rest[..length] });
        rest = &rest[length..];
    }
}

/// The code unit of the escape that this begins with, if it is one with digits.
fn unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}
