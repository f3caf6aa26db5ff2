//! `NAME = value` lines, by cron's own automaton rather than by a pattern: it decides what is an assignment at all
//! (`* = x` is one, `A B=c` and `A=` are not), and a table that worked under cron must not read differently here.

use super::entry::{quote, LineError};

/// Where the automaton stands, in the order of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Name,
    BeforeEquals,
    BeforeValue,
    Value,
    End,
}

/// The name and value of an assignment; `None` when cron would try the line as an entry.
pub(super) fn read(line: &str) -> Option<(String, String)> {
    let (mut name, mut value) = (String::new(), String::new());
    let mut at = At::Name;
    let mut chars = line.chars().peekable();
    let mut quote = chars.next_if(|c| is_quote(*c));
    while let Some(&c) = chars.peek() {
        match at {
            At::Name if quote == Some(c) => at = At::BeforeEquals,
            At::Name if quote.is_some() && c == '=' => return None,
            At::Name if quote.is_none() && c == '=' => {
                at = At::BeforeEquals;
                continue;
            }
            At::Name if quote.is_none() && is_space(c) => at = At::BeforeEquals,
            At::Name => name.push(c),
            At::BeforeEquals if c == '=' => at = At::BeforeValue,
            At::BeforeValue if !is_space(c) => {
                at = At::Value;
                quote = chars.next_if(|c| is_quote(*c));
                continue;
            }
            At::Value if quote == Some(c) => at = At::End,
            At::Value => value.push(c),
            At::BeforeEquals | At::BeforeValue | At::End if is_space(c) => {}
            At::BeforeEquals | At::BeforeValue | At::End => return None,
        }
        chars.next();
    }
    match at {
        At::Value if quote.is_none() => value.truncate(value.trim_end_matches(is_space).len()),
        At::End => {}
        At::Name | At::BeforeEquals | At::BeforeValue | At::Value => return None,
    }
    Some((name, value))
}

/// What is wrong with a line that is no assignment but was clearly meant to be one.
pub(super) fn fault(line: &str) -> Option<LineError> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_matches(|c| is_space(c) || is_quote(c));
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hint = if name.is_empty() {
        "An assignment is NAME=value.".to_owned()
    } else if value.chars().all(is_space) {
        format!("An empty value needs quotes: {name}=\"\".")
    } else {
        "A quote that opens a value closes it as well, and nothing follows.".to_owned()
    };
    Some(LineError::new(format!("broken assignment {}", quote(line)), hint))
}

fn is_quote(c: char) -> bool {
    c == '"' || c == '\''
}

/// C's `isspace`, which cron uses here and nowhere else.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
