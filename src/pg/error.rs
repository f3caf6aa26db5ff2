//! Every error that a user can see: a SQLSTATE, one lowercase line with the value quoted, and a hint that is a sentence.

use std::borrow::Cow;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};
use scheduler_core::clock::ClockError;

/// An error on its way to the user.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What a program reads.
    pub code: PgSqlErrorCode,
    /// What went wrong, with the value.
    pub message: String,
    /// More about it, where it helps: a clock's text with a caret under the fault.
    pub detail: Option<String>,
    /// How to put it right; empty where there is nothing to say.
    pub hint: String,
}

/// What our functions return before they cross into Postgres.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// An error with this SQLSTATE, message and hint.
    pub fn new(code: PgSqlErrorCode, message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), detail: None, hint: hint.into() }
    }

    /// The five characters of its SQLSTATE.
    pub fn sqlstate(&self) -> String {
        unpacked_sqlstate(self.code as i32)
    }

    /// What the ledger has of it: the message, and the hint in a line of its own.
    pub fn text(&self) -> String {
        format!("{}\nHINT:  {}", self.message, self.hint)
    }

    /// 22023: an argument has a value that it may not have.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message, hint)
    }

    /// 22004: NULL where a value is needed.
    pub fn null(argument: &str) -> Failure {
        Failure::new(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("{argument} must not be NULL"),
            format!("Pass a value for {argument}, or leave it out where it has a default."),
        )
    }

    /// 22008: a time or a length of time out of range.
    pub fn out_of_range(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::new(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, message, hint)
    }

    /// 42704: there is no such thing.
    pub fn unknown(noun: &str, name: &str, hint: impl Into<String>) -> Failure {
        Failure::new(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, format!("{noun} \"{name}\" does not exist"), hint)
    }

    /// 42501: it belongs to somebody else.
    pub fn not_owner(noun: &str, name: &str) -> Failure {
        Failure::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("must be a member of the owner of {noun} \"{name}\""),
            "Ask its owner, or a superuser, to do it or to make you a member.",
        )
    }

    /// A line for the server's log: 00000.
    pub fn note(message: impl Into<String>) -> Failure {
        Failure::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message, "")
    }

    /// A warning for the server's log that has no hint: 01000.
    pub fn warning(message: impl Into<String>) -> Failure {
        Failure::new(PgSqlErrorCode::ERRCODE_WARNING, message, "")
    }

    /// XX000: something that cannot happen, did.
    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, message, "")
    }
}

/// The five characters of a SQLSTATE, which Postgres packs into six bits each, the first in the lowest.
pub fn unpacked_sqlstate(packed: i32) -> String {
    (0..5).map(|place| char::from((((packed >> (6 * place)) & 0x3F) as u8) + b'0')).collect()
}

impl From<ClockError> for Failure {
    /// 22023, whatever form the clock has.
    fn from(error: ClockError) -> Failure {
        Failure::invalid(error.to_string(), error.hint())
    }
}

/// Reports the failure as Postgres reports errors: the statement ends here.
pub fn raise(failure: Failure) -> ! {
    report(PgLogLevel::ERROR, failure);
    unreachable!("an ERROR does not return")
}

/// A text for the server's log, of which a user may have chosen the length: the first 4,000 characters.
pub fn cut(text: &str) -> Cow<'_, str> {
    const CHARACTERS: usize = 4000;
    match text.char_indices().nth(CHARACTERS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// Reports at any level; only ERROR and above do not return.
pub fn report(level: PgLogLevel, failure: Failure) {
    let report = ErrorReport::new(failure.code, failure.message, "scheduler");
    let report = match failure.detail {
        Some(detail) => report.set_detail(detail),
        None => report,
    };
    let report = if failure.hint.is_empty() { report } else { report.set_hint(failure.hint) };
    report.report(level);
}

/// Tells the session of a warning, if there is one.
pub fn warn(warning: Option<Failure>) {
    if let Some(warning) = warning {
        report(PgLogLevel::WARNING, warning);
    }
}

/// Turns a refusal into an error of the statement.
pub fn or_raise<T>(outcome: Outcome<T>) -> T {
    outcome.unwrap_or_else(|failure| raise(failure))
}
