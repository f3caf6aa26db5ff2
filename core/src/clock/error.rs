//! Why a clock's text was refused: data first, then one line and a hint made of it.
//!
//! The hint shows the text as it should have been written wherever that can be known (CLOCKS.md rule 15).

use std::fmt;

use super::field::Field;

/// The family of a fault, and with it the SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A cron text, a macro or a form that is not known: `22023`.
    Cron,
    /// An interval that cannot be read: `22007`.
    IntervalSyntax,
    /// An interval that is zero, negative or of mixed signs: `22023`.
    IntervalSign,
    /// An interval too large to be stored: `22015`.
    IntervalOverflow,
    /// A date-time that cannot be read: `22007`.
    DateTimeSyntax,
    /// A date or time that does not exist, or outside of the range that can be stored: `22008`.
    FieldOverflow,
    /// An offset from UTC that is out of range: `22009`.
    ZoneDisplacement,
}

impl ErrorKind {
    /// The five characters of the SQLSTATE.
    #[must_use]
    pub const fn sqlstate(self) -> &'static str {
        match self {
            ErrorKind::Cron | ErrorKind::IntervalSign => "22023",
            ErrorKind::IntervalSyntax | ErrorKind::DateTimeSyntax => "22007",
            ErrorKind::IntervalOverflow => "22015",
            ErrorKind::FieldOverflow => "22008",
            ErrorKind::ZoneDisplacement => "22009",
        }
    }

    /// The variant's name, as the lists of good and bad texts spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Cron => "Cron",
            ErrorKind::IntervalSyntax => "IntervalSyntax",
            ErrorKind::IntervalSign => "IntervalSign",
            ErrorKind::IntervalOverflow => "IntervalOverflow",
            ErrorKind::DateTimeSyntax => "DateTimeSyntax",
            ErrorKind::FieldOverflow => "FieldOverflow",
            ErrorKind::ZoneDisplacement => "ZoneDisplacement",
        }
    }
}

/// A clock's text that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockError {
    kind: ErrorKind,
    field: Option<Field>,
    subject: &'static str,
    text: String,
    reason: String,
    hint: String,
    position: Option<usize>,
}

impl ClockError {
    /// The family of the fault.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The cron field at fault, if one is.
    #[must_use]
    pub const fn field(&self) -> Option<Field> {
        self.field
    }

    /// The piece of the text that is at fault.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong with it, without the text.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What to write instead, as a sentence.
    #[must_use]
    pub fn hint(&self) -> String {
        self.hint.clone()
    }

    /// The 1-based character of the clock's text at which the fault begins.
    #[must_use]
    pub const fn position(&self) -> Option<usize> {
        self.position
    }
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "invalid {} field {}: {}", field.name(), quoted(&self.text), self.reason),
            None => write!(f, "invalid {} {}: {}", self.subject, quoted(&self.text), self.reason),
        }
    }
}

impl std::error::Error for ClockError {}

/// The text in quotes, on one line and not longer than is useful.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut out = String::from("\"");
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('"');
    out
}

/// A clock's text while it is being read: knows where each piece of it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// The text as it was given.
    pub text: &'a str,
    /// The same in ASCII lower case; pieces are slices of this one (or of `text`).
    pub lower: &'a str,
}

impl<'a> Source<'a> {
    /// Where a piece of either text begins, in bytes.
    fn offset(&self, piece: &str) -> Option<usize> {
        [self.lower, self.text].iter().find_map(|whole| {
            let offset = (piece.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
            (offset + piece.len() <= whole.len()).then_some(offset)
        })
    }

    /// The same piece of the text as it was given.
    pub(crate) fn original(&self, piece: &str) -> &'a str {
        self.offset(piece).and_then(|at| self.text.get(at..at + piece.len())).unwrap_or(self.text)
    }

    /// The whole text with one piece replaced, without the blanks around it.
    pub(crate) fn repaired(&self, piece: &str, with: &str) -> String {
        match self.offset(piece) {
            Some(at) => {
                let before = self.text.get(..at).unwrap_or_default();
                let after = self.text.get(at + piece.len()..).unwrap_or_default();
                format!("{before}{with}{after}").trim().to_owned()
            }
            None => with.to_owned(),
        }
    }

    /// An error about a piece of this text.
    pub(crate) fn error(
        &self,
        kind: ErrorKind,
        subject: &'static str,
        piece: &str,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> ClockError {
        let position = self.offset(piece).and_then(|at| self.text.get(..at)).map(|before| before.chars().count() + 1);
        ClockError {
            kind,
            field: None,
            subject,
            text: self.original(piece).to_owned(),
            reason: reason.into(),
            hint: hint.into(),
            position,
        }
    }

    /// An error about a piece of a cron field.
    pub(crate) fn field_error(
        &self,
        field: Field,
        piece: &str,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> ClockError {
        ClockError { field: Some(field), ..self.error(ErrorKind::Cron, "clock", piece, reason, hint) }
    }

    /// An error about a cron field whose hint shows the whole text with the piece replaced.
    pub(crate) fn repairable(
        &self,
        field: Field,
        piece: &str,
        reason: impl Into<String>,
        with: &str,
        because: &str,
    ) -> ClockError {
        let hint = format!("Write {}{because}.", quoted(&self.repaired(piece, with)));
        self.field_error(field, piece, reason, hint)
    }
}
