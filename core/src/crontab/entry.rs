//! What a line of a crontab is: an entry, or a fault.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What cron calls a blank: it separates fields and is ignored at the start of a line.
pub(super) const BLANKS: [char; 2] = [' ', '\t'];

/// The longest excerpt of a line that a message repeats, in characters.
const EXCERPT: usize = 60;

/// Whether entries name the user who runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A user's own table (`crontab -l`): the command follows the time.
    User,
    /// `/etc/crontab` and `/etc/cron.d/*`: a user name stands between time and command.
    System,
}

/// One line that is an entry, or was meant to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line's number in the text, from 1.
    pub number: usize,
    /// The entry, or why it cannot be read.
    pub entry: Result<CrontabEntry, LineError>,
}

/// A command and all that was in force where it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrontabEntry {
    /// The name that releases before 0.3.1 gave it. ASCII, at most 200 bytes: the same entry has it in every text, on every line.
    pub old_name: String,
    /// Which of the identical entries of its text it is, from 1.
    pub nth: u64,
    /// The clock as a schedule takes it: five fields with one space between them, or a macro, otherwise as written.
    pub clock: String,
    /// The zone of the clock: `CRON_TZ` if set, else `TZ`, without a leading `:`; `None` when neither is set or both are empty.
    pub time_zone: Option<String>,
    /// Who runs the command; always given in a system table, never in a user's.
    pub user: Option<String>,
    /// The command for the shell, as cron passes it on: up to the first bare `%`, with `\%` and `\\` unescaped.
    pub command: String,
    /// What the command reads: the text after the first bare `%`, further ones as newlines, ended by a newline; `None` when there is none.
    pub stdin: Option<String>,
    /// The assignments above this line, a later one over an earlier one; `LOGNAME` never, for cron does not let a table set it.
    pub environment: Arc<BTreeMap<String, String>>,
}

/// Why a line is not an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The fault: lowercase, no full stop.
    pub message: String,
    /// What to write instead, as a sentence.
    pub hint: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LineError {}

impl LineError {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// A piece of the text for a message, on one line, cut where it is long.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for (count, c) in text.trim_end().chars().enumerate() {
        if count == EXCERPT {
            quoted.push_str("...");
            break;
        }
        if c.is_control() {
            quoted.extend(c.escape_default());
        } else {
            quoted.push(c);
        }
    }
    quoted.push('"');
    quoted
}
