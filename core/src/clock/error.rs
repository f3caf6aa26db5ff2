//! Why a clock's text was refused: data first, then one line and a hint made of it.
//!
//! The hint shows the text as it should have been written wherever that is plain (docs/reference/clocks.md, rule 15), and otherwise the
//! rule with an example. What it shows can be read: a proposal that has faults of its own is mended further.

use std::cell::Cell;
use std::fmt;

use super::cron::field::Field;
use super::text::words;

/// How much of a text is shown, in characters.
pub(crate) const LONGEST_SHOWN: usize = 120;

/// The family of a fault. (All are one SQLSTATE, `22023`; `postgres_sqlstate` says what Postgres would call it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A cron text, a macro or a form that is not known.
    Cron,
    /// An interval that cannot be read.
    IntervalSyntax,
    /// An interval that is zero, negative or of mixed signs.
    IntervalSign,
    /// An interval too large to be stored.
    IntervalOverflow,
    /// A date-time that cannot be read.
    DateTimeSyntax,
    /// A date or time that does not exist, or outside of the range that can be stored.
    FieldOverflow,
    /// An offset from UTC that is out of range.
    ZoneDisplacement,
}

impl ErrorKind {
    /// The SQLSTATE with which Postgres refuses such a text as an `interval` or a `timestamptz`: to compare what it refuses and what we do.
    #[must_use]
    pub const fn postgres_sqlstate(self) -> &'static str {
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
    hint: Box<Hint>,
    position: Option<usize>,
}

/// What to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The whole clock that was plainly meant, if one was.
    proposal: Option<String>,
    /// What holds for the place at fault, as a clause.
    rule: String,
    /// A clock that keeps the rule, for texts that mean nothing plain; empty where the rule shows some.
    example: String,
}

impl Hint {
    pub(crate) fn new(proposal: Option<String>, rule: impl Into<String>, example: impl Into<String>) -> Hint {
        Hint { proposal, rule: rule.into(), example: example.into() }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(proposal) = &self.proposal {
            return write!(f, "Write {}: {}.", quoted(proposal), self.rule);
        }
        let mut rule = self.rule.chars();
        let first = rule.next().map_or(' ', |first| first.to_ascii_uppercase());
        if self.example.is_empty() {
            return write!(f, "{first}{}.", rule.as_str());
        }
        write!(f, "{first}{}, for example {}.", rule.as_str(), quoted(&self.example))
    }
}

/// Makes clocks that can be read of texts with faults. Texts that stand for one another are without end: so many are read, and no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mend<'a> {
    /// The error of a text, if it has one.
    read: fn(&str, Mend<'_>) -> Option<ClockError>,
    /// How many texts may be read yet.
    left: &'a Cell<u32>,
}

impl<'a> Mend<'a> {
    /// How many texts are read for the sake of one.
    pub(crate) const MOST: u32 = 100;

    pub(crate) const fn new(read: fn(&str, Mend<'_>) -> Option<ClockError>, left: &'a Cell<u32>) -> Mend<'a> {
        Mend { read, left }
    }

    /// The clock that a text with faults plainly stands for: each fault is mended in turn. `None` where one cannot be, and
    /// where the clock is too long to be shown.
    pub(crate) fn clock(self, text: &str) -> Option<String> {
        self.settle(text).ok().filter(|text| text.chars().count() <= LONGEST_SHOWN && !text.contains('"'))
    }

    /// The sentence of the error that is left, where its text is one that no one clock means.
    pub(crate) fn sentence(self, text: &str) -> Option<String> {
        self.settle(text).err()??.sentence().map(str::to_owned)
    }

    fn settle(self, text: &str) -> Result<String, Option<ClockError>> {
        const MOST_FAULTS: usize = 16;
        let mut text = words(text).join(" ");
        for _ in 0..MOST_FAULTS {
            self.left.set(self.left.get().checked_sub(1).ok_or(None)?);
            let Some(error) = (self.read)(&text, self) else { return Ok(text) };
            let Some(proposal) = error.proposal() else { return Err(Some(error)) };
            text = words(proposal).join(" ");
        }
        Err(None)
    }
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
        self.hint.to_string()
    }

    /// The clock that was plainly meant, if one was: the hint says to write it.
    #[must_use]
    pub fn proposal(&self) -> Option<&str> {
        self.hint.proposal.as_deref()
    }

    /// The same error with another example of the rule.
    pub(crate) fn with_example(mut self, example: &str) -> ClockError {
        example.clone_into(&mut self.hint.example);
        self
    }

    /// The same error with the clock that was plainly meant.
    pub(crate) fn proposing(mut self, text: String) -> ClockError {
        self.hint.proposal = Some(text);
        self
    }

    /// The same error of a text that was plainly meant to be another one, by this rule.
    pub(crate) fn meaning(mut self, text: String, rule: &str) -> ClockError {
        (self.hint.proposal, self.hint.rule) = (Some(text), rule.to_owned());
        self
    }

    /// The same error with a sentence for a hint: no one clock means the text.
    pub(crate) fn saying(mut self, sentence: &str) -> ClockError {
        *self.hint = Hint::new(None, sentence, "");
        self
    }

    /// The sentence of the hint, where no one clock means the text.
    pub(crate) fn sentence(&self) -> Option<&str> {
        (self.hint.proposal.is_none() && self.hint.example.is_empty()).then_some(self.hint.rule.as_str())
    }

    /// The same error with a hint that shows only what can be read. Where no one clock means what it proposes, that is what it says.
    pub(crate) fn settled(self, mend: Mend<'_>) -> ClockError {
        let sentence = self.proposal().filter(|text| mend.clock(text).is_none()).and_then(|text| mend.sentence(text));
        if let Some(sentence) = sentence {
            return self.saying(&sentence);
        }
        let Hint { proposal, rule, example } = *self.hint;
        let proposal = proposal.and_then(|text| mend.clock(&text));
        let has_none = example.is_empty();
        let example = mend.clock(&example).filter(|_| !has_none);
        let example = example.unwrap_or_else(|| if has_none { "" } else { Field::DayOfWeek.example() }.to_owned());
        ClockError { hint: Box::new(Hint { proposal, rule, example }), ..self }
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
    let mut out = String::from("\"");
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST_SHOWN {
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

    /// The same of several pieces.
    pub(crate) fn originals(&self, pieces: &[&str]) -> Vec<&'a str> {
        pieces.iter().map(|piece| self.original(piece)).collect()
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
        hint: Hint,
    ) -> ClockError {
        let position = self.offset(piece).and_then(|at| self.text.get(..at)).map(|before| before.chars().count() + 1);
        ClockError {
            kind,
            field: None,
            subject,
            text: self.original(piece).to_owned(),
            reason: reason.into(),
            hint: Box::new(hint),
            position,
        }
    }

    /// An error about the first blank that separates nothing, such as a no-break space, which looks like one that does.
    pub(crate) fn odd_blank(&self, kind: ErrorKind) -> Option<ClockError> {
        let (at, blank) = self.text.char_indices().find(|(_, c)| c.is_whitespace() && !c.is_ascii())?;
        let reason = format!("U+{:04X} is not a space or tab", u32::from(blank));
        let piece = &self.text[at..at + blank.len_utf8()];
        let hint = Hint::new(Some(self.text.replace(blank, " ")), "blanks are spaces and tabs", "0 9 * * *");
        Some(self.error(kind, "blank", piece, reason, hint))
    }

    /// An error about a piece of a cron field; the hint says the rule.
    pub(crate) fn field_error(
        &self,
        field: Field,
        piece: &str,
        reason: impl Into<String>,
        rule: impl Into<String>,
    ) -> ClockError {
        let hint = Hint::new(None, rule, field.example());
        ClockError { field: Some(field), ..self.error(ErrorKind::Cron, "clock", piece, reason, hint) }
    }

    /// An error about a piece of a cron field that was plainly meant to be another one.
    pub(crate) fn repairable(
        &self,
        field: Field,
        piece: &str,
        reason: impl Into<String>,
        with: &str,
        rule: impl Into<String>,
    ) -> ClockError {
        let mut error = self.field_error(field, piece, reason, rule);
        error.hint.proposal = Some(self.repaired(piece, with));
        error
    }
}
