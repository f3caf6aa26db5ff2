//! The `%` of a crontab. Command and input follow different rules for the backslash, as they do in cron.

/// The command for the shell, and its input when it has any.
pub(super) fn split(text: &str) -> (String, Option<String>) {
    let mut command = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => return (command, input(chars.as_str())),
            '\\' => match chars.next() {
                Some(escaped @ ('%' | '\\')) => command.push(escaped),
                Some(other) => command.extend([c, other]),
                None => command.push(c),
            },
            other => command.push(other),
        }
    }
    (command, None)
}

/// Turns `%` into newlines and `\%` into `%`, leaves any other backslash alone, and ends the text with a newline.
fn input(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut input = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c != '%' {
            input.push(c);
        } else if input.ends_with('\\') {
            input.pop();
            input.push('%');
        } else {
            input.push('\n');
        }
    }
    if !input.ends_with('\n') {
        input.push('\n');
    }
    Some(input)
}
