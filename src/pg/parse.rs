//! The command of a job of kind `sql`: its statements, by the server's own parser, and which statements it may not have. Names are not
//! looked up: what a command needs may come later.

use std::cell::Cell;
use std::ffi::{c_int, c_void, CStr, CString};

use pgrx::pg_sys::{self, NodeTag};
use pgrx::{pg_guard, PgList, PgMemoryContexts, PgSqlErrorCode};

use crate::pg::catch::catch;
use crate::pg::error::{Failure, Outcome};
use crate::pg::error_context::ErrorContext;
use crate::pg::utf8_text::counts_bytes;

/// The longest command, in bytes.
pub const MAX_COMMAND_BYTES: usize = 1_048_576;

/// How a command's strings are read: `standard_conforming_strings` and `backslash_quote`. It is a property of the stored command, and not of the
/// session that stores, runs or tests it: what one takes for a string another would run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strings {
    /// A backslash is a character like others, but in E''.
    pub standard: bool,
    /// Whether a backslash may stand before a quote, where it escapes.
    pub quote: pg_sys::BackslashQuoteType::Type,
}

/// Puts the session's way back.
struct SessionStrings(bool, c_int);

impl Strings {
    /// Those of a server as it is shipped.
    pub const STANDARD: Strings =
        Strings { standard: true, quote: pg_sys::BackslashQuoteType::BACKSLASH_QUOTE_SAFE_ENCODING };

    /// Has the parser read strings so until the result is dropped.
    fn apply(self) -> SessionStrings {
        // SAFETY: the backend's only thread; the parser reads them when it begins.
        unsafe {
            let before = SessionStrings(pg_sys::standard_conforming_strings, pg_sys::backslash_quote);
            pg_sys::standard_conforming_strings = self.standard;
            pg_sys::backslash_quote = self.quote as c_int;
            before
        }
    }
}

impl Drop for SessionStrings {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { (pg_sys::standard_conforming_strings, pg_sys::backslash_quote) = (self.0, self.1) }
    }
}

/// `22023`, `54000`, `42601`, `0A000` where a command could not run. Nothing of it stays in memory.
pub fn check(command: &str, strings: Strings) -> Outcome<()> {
    if command.len() > MAX_COMMAND_BYTES {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("command is too large: {} bytes", command.len()),
            format!("A command has at most {MAX_COMMAND_BYTES} bytes: put the rest into a function."),
        ));
    }
    let text = CString::new(command).unwrap_or_default();
    let mut memory = PgMemoryContexts::new("scheduler command");
    // SAFETY: what is parsed is not used after the context.
    unsafe { memory.switch_to(|_| statements(&text, strings).map(drop)) }
}

/// How many statements a command has. Nothing of it stays in memory.
pub fn count(command: &CStr, strings: Strings) -> Outcome<usize> {
    let mut memory = PgMemoryContexts::new("scheduler command");
    // SAFETY: what is parsed is not used after the context.
    unsafe { memory.switch_to(|_| statements(command, strings).map(|all| all.len())) }
}

/// The statements of a command, in the current memory context.
pub fn statements(command: &CStr, strings: Strings) -> Outcome<PgList<pg_sys::RawStmt>> {
    let shown = command.to_string_lossy();
    POSITION.set(0);
    let context = ErrorContext::push(note_position);
    let session_strings = strings.apply();
    // SAFETY: a C string; the trees are in the current memory context.
    let parsed = catch(|| unsafe { pg_sys::raw_parser(command.as_ptr(), pg_sys::RawParseMode::RAW_PARSE_DEFAULT) });
    drop(session_strings);
    drop(context);
    let list = parsed.map_err(|failure| locate(&shown, POSITION.get(), failure))?;
    // SAFETY: a list of RawStmt.
    let statements = unsafe { PgList::<pg_sys::RawStmt>::from_pg(list) };
    if statements.is_empty() {
        return Err(Failure::invalid(
            "command is blank",
            "Pass one or more SQL statements, for example command => 'REFRESH MATERIALIZED VIEW sales'.",
        ));
    }
    let count = statements.len();
    for (index, statement) in statements.iter_ptr().enumerate() {
        // SAFETY: a statement that the parser has made.
        unsafe { check_statement((*statement).stmt, index + 1, count)? };
    }
    Ok(statements)
}

/// `0A000` for what no run can do.
///
/// # Safety
/// A statement of a raw parse tree.
unsafe fn check_statement(statement: *mut pg_sys::Node, number: usize, count: usize) -> Outcome<()> {
    let is = |tag| (*statement).type_ == tag;
    let (name, hint) = if is(NodeTag::T_TransactionStmt) {
        let name = CStr::from_ptr(pg_sys::GetCommandTagName(pg_sys::CreateCommandTag(statement)));
        let hint =
            "The run begins and ends its transaction itself; with own_transactions each statement has one of its own.";
        (name.to_string_lossy().into_owned(), hint)
    } else if is(NodeTag::T_CopyStmt) && (*statement.cast::<pg_sys::CopyStmt>()).filename.is_null() {
        let copy = statement.cast::<pg_sys::CopyStmt>();
        let name = if (*copy).is_from { "COPY FROM STDIN" } else { "COPY TO STDOUT" };
        (name.to_owned(), "Nobody is connected to a run: copy from or to a file or program, or use INSERT.")
    } else if is(NodeTag::T_ListenStmt) {
        ("LISTEN".to_owned(), "Nobody is connected to a run who could hear it: have a client listen; a run may NOTIFY.")
    } else {
        return Ok(());
    };
    let place = if count == 1 { String::new() } else { format!(" (statement {number} of {count})") };
    let message = format!("command may not contain {name}{place}");
    Err(Failure::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message, hint))
}

/// A failure of the parser with its place in the command: a character from 1 on, 0 where it has none.
fn locate(command: &str, position: i32, failure: Failure) -> Failure {
    let Some(before) = usize::try_from(position).ok().and_then(|position| position.checked_sub(1)) else {
        return Failure { hint: hinted(&failure, "Correct the command."), ..failure };
    };
    let offset = if counts_bytes() {
        (0..=before.min(command.len())).rev().find(|at| command.is_char_boundary(*at)).unwrap_or(0)
    } else {
        command.char_indices().nth(before).map_or(command.len(), |(at, _)| at)
    };
    let (read, rest) = command.split_at(offset);
    let line = read.matches('\n').count() + 1;
    let line_start = read.rfind('\n').map_or(0, |at| at + 1);
    let column = read[line_start..].chars().count() + 1;
    let after: String = rest.lines().next().unwrap_or_default().chars().take(40).collect();
    let advice = if after.trim().is_empty() {
        "The command ends there: complete it.".to_owned()
    } else {
        format!("Correct the command at \"{after}\".")
    };
    let message = format!("{} at line {line}, column {column} of command", failure.message);
    Failure { message, hint: hinted(&failure, &advice), ..failure }
}

fn hinted(failure: &Failure, advice: &str) -> String {
    if failure.hint.is_empty() {
        advice.to_owned()
    } else {
        format!("{advice} {}", failure.hint)
    }
}

thread_local! {
    /// Where the last error was.
    static POSITION: Cell<i32> = const { Cell::new(0) };
}

#[pg_guard]
unsafe extern "C-unwind" fn note_position(_argument: *mut c_void) {
    POSITION.set(pg_sys::geterrposition());
}
