//! Names that an entry keeps for years, whatever else happens to its table: `crontab:<user>:<program>:<hash>`.
//!
//! Whoever may see a schedule sees its name, and a command may hold a password. So the name has the program's base name and no argument, and
//! the hash of what the entry says is keyed with a secret that the core does not know.
//!
//! Before 0.3.1 the name had words of the command, and a hash without a key. Both are part of the contract with databases
//! that hold such names: another hash or another choice of words would import every crontab a second time.

use super::entry::{CrontabEntry, BLANKS};

/// Words that end a command, so that the next begins.
const BETWEEN_COMMANDS: [&str; 9] = ["&&", "||", ";", "|", "&", "then", "elif", "else", "do"];

/// Words that may stand where a command begins, before it.
const BEFORE_COMMANDS: [&str; 7] = ["if", "while", "until", "!", "{", "(", "exec"];

/// Commands that only prepare or guard the one that matters.
const GUARDS: [&str; 8] = ["[", "[[", "test", "cd", "command", ".", ":", "umask"];

/// The longest user name and the longest single word kept, in characters, all ASCII.
const LONGEST_WORD: usize = 32;

/// The name of an entry up to its hash.
pub(super) fn label(entry: &CrontabEntry) -> String {
    format!("crontab:{}:{}", user(entry), program(&entry.command))
}

/// The name that an entry had before 0.3.1, before identical ones are told apart: with a hash of 48 bits, FNV-1a 64, xor-folded as its authors
/// advise.
pub(super) fn before_0_3_1(entry: &CrontabEntry) -> String {
    let mut state = Fnv::new();
    state.write(&said(entry));
    let hash = (state.0 >> 48) ^ (state.0 & 0xffff_ffff_ffff);
    format!("crontab:{}:{}:{hash:012x}", user(entry), words(&entry.command))
}

fn user(entry: &CrontabEntry) -> String {
    entry.user.as_deref().map_or_else(|| "-".to_owned(), plain)
}

/// What an entry says. Each field is one byte, 0 for absent and 1 for present, then its length in bytes as a little-endian `u64`, then its
/// bytes.
pub(super) fn said(entry: &CrontabEntry) -> Vec<u8> {
    let fields = [
        Some(entry.clock.as_str()),
        entry.time_zone.as_deref(),
        entry.user.as_deref(),
        Some(entry.command.as_str()),
        entry.stdin.as_deref(),
    ];
    let mut bytes = Vec::new();
    for field in fields {
        let text = field.unwrap_or_default();
        bytes.push(u8::from(field.is_some()));
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// FNV-1a with 64 bits, written out because the standard library's hashers may change.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The base name of the first command that does something; `command` where that is not a plain word. A value that is assigned before it, or
/// an argument, may be a secret. So it is `command` as well where a shell would take what looks like a word for part of another: after a quote
/// or an escape, or in a substitution.
fn program(command: &str) -> String {
    let mut before = "";
    let name = first_command(command, |word, _| {
        before = command.get(..word.as_ptr() as usize - command.as_ptr() as usize).unwrap_or(command);
        word.to_owned()
    });
    let word = name.as_deref().unwrap_or_else(|| command.split(BLANKS).next().unwrap_or_default());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/@+-".contains(c);
    let is_a_word =
        word.trim_end_matches(';').chars().all(is_plain) && !before.contains(['\'', '"', '\\', '`', '$', '(']);
    plain(if is_a_word { word } else { "" })
}

/// The base name of the first command that does something, and of up to two arguments that say something.
fn words(command: &str) -> String {
    first_command(command, with_arguments).unwrap_or_else(|| plain(command.split(BLANKS).next().unwrap_or_default()))
}

/// What `of` makes of the first command that does something, and of the words after it.
fn first_command<'a>(
    command: &'a str,
    of: impl FnOnce(&'a str, &mut dyn Iterator<Item = &'a str>) -> String,
) -> Option<String> {
    let mut words = command.split(BLANKS).filter(|word| !word.is_empty());
    let mut at_command = true;
    while let Some(word) = words.next() {
        if BETWEEN_COMMANDS.contains(&word) || word.ends_with(';') && !at_command {
            at_command = true;
        } else if at_command && !BEFORE_COMMANDS.contains(&word) && !is_assignment(word) {
            if !GUARDS.contains(&base(word)) {
                return Some(of(word, &mut words));
            }
            at_command = false;
        }
    }
    None
}

fn with_arguments<'a>(command: &'a str, arguments: &mut dyn Iterator<Item = &'a str>) -> String {
    let mut name = plain(command);
    let mut kept = 0;
    let mut last = command;
    for argument in arguments {
        let word = argument.trim_end_matches(';');
        let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._/@:+,=-".contains(c));
        if kept == 2 || last.ends_with(';') || word.is_empty() || !is_plain {
            break;
        }
        if !word.starts_with('-') && !word.chars().all(|c| c.is_ascii_digit()) {
            name.push('-');
            name.push_str(&plain(word));
            kept += 1;
        }
        last = argument;
    }
    name
}

/// Whether a word sets a variable for the command after it.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The last part of a path.
fn base(word: &str) -> &str {
    word.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default()
}

/// The last part of a path with only the letters, digits and marks that are safe anywhere, cut to [`LONGEST_WORD`].
fn plain(word: &str) -> String {
    let safe = |c: char| match c {
        ':' => Some('-'),
        c => (c.is_ascii_alphanumeric() || "._+@-".contains(c)).then_some(c),
    };
    let kept: String = base(word).chars().filter_map(safe).take(LONGEST_WORD).collect();
    if kept.is_empty() {
        "command".to_owned()
    } else {
        kept
    }
}
