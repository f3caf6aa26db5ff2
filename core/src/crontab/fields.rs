//! The fields of an entry: the clock, and what follows it word by word.

use super::entry::{quote, LineError, BLANKS};

/// The clock's text and what follows it.
pub(super) fn split_clock(line: &str) -> Result<(String, &str), LineError> {
    if line.starts_with('@') {
        let (word, rest) = split_word(line);
        return if word.eq_ignore_ascii_case("@reboot") { Err(reboot(word)) } else { Ok((word.to_owned(), rest)) };
    }
    if line.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(LineError::new(
            format!("{} is neither an entry nor an assignment", quote(line)),
            "A crontab entry begins with five time fields or a macro such as @daily; an assignment is NAME=value.",
        ));
    }
    let mut fields = Vec::with_capacity(5);
    let mut rest = line;
    while fields.len() < 5 {
        let (word, after) = split_word(rest);
        if word.is_empty() {
            return Err(LineError::new(
                format!("{} has {} of the five time fields", quote(line), fields.len()),
                "An entry is minute, hour, day of month, month and day of week, then the command.",
            ));
        }
        fields.push(word);
        rest = after;
    }
    Ok((fields.join(" "), rest))
}

/// The first word and what follows it; an empty word when there is none.
pub(super) fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(BLANKS);
    text.find(BLANKS).map_or((text, ""), |end| text.split_at(end))
}

fn reboot(word: &str) -> LineError {
    LineError::new(
        format!("{} never happens: there is no boot event in a database", quote(word)),
        "Run it once with a clock such as \"at 2030-01-01 00:00+00\", or by hand with the clock \"never\" and fire_now.",
    )
}
