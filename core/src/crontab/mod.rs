//! Crontabs as Debian's cron reads them, so that a machine's tables can move into the database without an edit.
//!
//! The rules were compared with the real program (Debian's cron 3.0pl1-162) on thousands of random lines. Where a fault
//! there loses the whole table, here it loses its line. Differences, all on purpose:
//!
//! - An entry without a command and an assignment without a name are faults; `@reboot` is one, for a database has no boot event.
//! - An assignment that is followed by an entry on the same line, and an entry with a sixth time field, are faults.
//! - Carriage returns at line ends, a byte order mark and a missing last newline are forgiven.
//! - Quotes keep trailing blanks and inner quotes of a value, as crontab(5) says and the program does not.
//! - Input always ends with a newline; the program forgets it after a last backslash in some cases.
//! - `CRON_TZ` and `TZ` set the zone of the clock. The clock itself is judged by [`Clock::parse`].
//!
//! Nothing here runs, expands or looks up anything: users, commands and zones are text.

mod assignment;
mod command;
mod doubt;
mod entry;
mod fields;
mod name;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::clock::Clock;

pub use doubt::doubt;
pub use entry::{CrontabEntry, Line, LineError, Style};

use entry::{quote, BLANKS};
use fields::{split_clock, split_word};

/// Reads a crontab: an item for each line but blank ones, comments and assignments, in the order of the text.
pub fn read(text: &str, style: Style) -> impl Iterator<Item = Line> + '_ {
    Reader::new(text, style)
}

/// The state that one line leaves to the next.
struct Reader<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    style: Style,
    environment: Arc<BTreeMap<String, String>>,
    names: HashMap<String, u64>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, style: Style) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { lines: text.lines().enumerate(), style, environment: Arc::default(), names: HashMap::new() }
    }

    fn assign(&mut self, name: String, value: String) {
        if name != "LOGNAME" {
            Arc::make_mut(&mut self.environment).insert(name, value);
        }
    }

    fn entry(&mut self, line: &str) -> Result<CrontabEntry, LineError> {
        let (clock, rest) = split_clock(line)?;
        check_clock(&clock)?;
        refuse_sixth_time_field(&clock, rest)?;
        let (user, rest) = match self.style {
            Style::User => (None, rest),
            Style::System => split_user(&clock, rest).map(|(user, rest)| (Some(user), rest))?,
        };
        let (command, stdin) = command::split(rest.trim_start_matches(BLANKS));
        if command.trim().is_empty() {
            return Err(no_command(&clock, user.as_deref()));
        }
        let mut entry = CrontabEntry {
            old_name: String::new(),
            nth: 1,
            clock,
            time_zone: self.time_zone(),
            user,
            command,
            stdin,
            environment: Arc::clone(&self.environment),
        };
        (entry.old_name, entry.nth) = self.unused(name::before_0_3_1(&entry));
        Ok(entry)
    }

    fn time_zone(&self) -> Option<String> {
        let zone = |name| {
            let value: &String = self.environment.get(name)?;
            let zone = value.strip_prefix(':').unwrap_or(value);
            (!zone.is_empty()).then(|| zone.to_owned())
        };
        zone("CRON_TZ").or_else(|| zone("TZ"))
    }

    /// Tells the second and later of identical entries apart, by their order among themselves.
    fn unused(&mut self, name: String) -> (String, u64) {
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        (numbered(name, *count), *count)
    }
}

/// A name for the second and later of identical entries.
fn numbered(name: String, nth: u64) -> String {
    if nth == 1 {
        name
    } else {
        format!("{name} #{nth}")
    }
}

impl CrontabEntry {
    /// Its name: `hash` makes of what the entry says a text that tells entries apart, and tells nobody what they say.
    pub fn name(&self, hash: impl FnOnce(&[u8]) -> String) -> String {
        numbered(format!("{}:{}", name::label(self), hash(&name::said(self))), self.nth)
    }
}

impl Iterator for Reader<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let (index, line) = self.lines.next()?;
            let line = line.trim_end_matches('\r').trim_start_matches(BLANKS);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = match assignment::read(line) {
                Some((name, value)) if !name.is_empty() && has_entry(&value) => Err(entry_behind(&name, &value)),
                Some((name, value)) if !name.is_empty() => {
                    self.assign(name, value);
                    continue;
                }
                Some(_) | None => self.entry(line).map_err(|error| assignment::fault(line).unwrap_or(error)),
            };
            return Some(Line { number: index + 1, entry });
        }
    }
}

/// Lets the clock's own reader judge a clock, so that an entry is never accepted here and refused there.
fn check_clock(clock: &str) -> Result<(), LineError> {
    match Clock::parse(clock) {
        Ok(_) => Ok(()),
        Err(error) => Err(LineError::new(error.to_string(), error.hint())),
    }
}

/// No command is a number or a star: such a field is a sixth one of a time.
fn refuse_sixth_time_field(clock: &str, rest: &str) -> Result<(), LineError> {
    let (sixth, command) = split_word(rest);
    let is_time = !clock.starts_with('@')
        && !sixth.is_empty()
        && sixth.chars().all(|c| c.is_ascii_digit() || "*/,-?".contains(c));
    if !is_time {
        return Ok(());
    }
    let with_seconds = format!("{clock} {sixth}");
    let hint = if Clock::parse(&with_seconds).is_ok() {
        format!(
            "Cron has five. Where the first is of seconds, make the schedule by create_schedule with the clock {}; else leave one out.",
            quote(&with_seconds)
        )
    } else {
        "Cron has five: minute, hour, day of month, month and day of week. Leave one out.".to_owned()
    };
    Err(LineError::new(format!("six time fields before {}", quote(command.trim())), hint))
}

/// Whether behind its first word a value is an entry.
fn has_entry(value: &str) -> bool {
    let (_, rest) = split_word(value);
    let rest = rest.trim_start_matches(BLANKS);
    split_clock(rest).is_ok_and(|(clock, command)| !command.trim().is_empty() && Clock::parse(&clock).is_ok())
}

fn entry_behind(name: &str, value: &str) -> LineError {
    let (first, rest) = split_word(value);
    LineError::new(
        format!("{} is an assignment to cron, with all that follows as its value", quote(&format!("{name}={value}"))),
        format!("Write {} on a line of its own, above {}.", quote(&format!("{name}={first}")), quote(rest.trim())),
    )
}

/// The user name of a system table's entry, and what follows it.
fn split_user<'a>(clock: &str, rest: &'a str) -> Result<(String, &'a str), LineError> {
    let (user, rest) = split_word(rest);
    if user.is_empty() {
        return Err(no_command(clock, None));
    }
    if user.contains(|c: char| c.is_control() || "/:[](){}<>|&;$*?!=%\"'`".contains(c)) {
        return Err(LineError::new(
            format!("{} is not a user name", quote(user)),
            "An entry of a system crontab names a user before the command; a user's own crontab does not, and is read as such.",
        ));
    }
    Ok((user.to_owned(), rest))
}

fn no_command(clock: &str, user: Option<&str>) -> LineError {
    match user {
        None => LineError::new(
            format!("no command after {}", quote(clock)),
            "An entry is a time, in a system crontab a user name, and a command.",
        ),
        Some(user) => LineError::new(
            format!("no command after the user name {}", quote(user)),
            "An entry of a system crontab names a user before the command; a user's own crontab does not, and is read as such.",
        ),
    }
}
