//! What an error of a command says, all of it: pgrx keeps neither the context nor a SQLSTATE that it has no name for. An error context callback
//! that stands below all others is called last, when the server has everything together.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::fmt::Write;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::{self, panic::CaughtError};
use pgrx::prelude::*;
use pgrx::{PgLogLevel, PgTryBuilder};

use crate::pg::error::unpacked_sqlstate;
use crate::pg::error_context::ErrorContext;
use crate::pg::error_room;
use crate::pg::subtransaction::describe;

/// Longer messages are cut.
const MAX_CHARACTERS: usize = 4000;

/// How many bytes of each text of an error are copied: as many as `MAX_CHARACTERS` can have, and far more.
const MOST_BYTES: usize = 262_144;

/// Why a command failed.
#[derive(Clone, Debug)]
pub struct CommandError {
    /// Its SQLSTATE.
    pub sqlstate: String,
    /// What the server says.
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub context: Option<String>,
    /// The character of the command that it is about, from 1.
    pub position: Option<usize>,
}

impl CommandError {
    /// Message, detail, hint, context and where it was, in lines.
    pub fn text(&self, command: &str, place: &str) -> String {
        let mut text = self.message.clone();
        let parts = [("DETAIL", &self.detail), ("HINT", &self.hint), ("CONTEXT", &self.context)];
        for (name, part) in parts {
            if let Some(part) = part {
                let _ = write!(text, "\n{name}:  {part}");
            }
        }
        if let Some(position) = self.position {
            let before: String = command.chars().take(position.saturating_sub(1)).collect();
            let (line, column) =
                (before.matches('\n').count() + 1, before.chars().rev().take_while(|c| *c != '\n').count() + 1);
            let _ = write!(text, "\nPOSITION:  line {line}, column {column}");
        }
        let room = MAX_CHARACTERS.saturating_sub(place.chars().count() + 1);
        if text.chars().count() > room {
            text = text.chars().take(room.saturating_sub(3)).collect::<String>() + "...";
        }
        if !place.is_empty() {
            let _ = write!(text, "\n{place}");
        }
        text
    }
}

// utils/elog.h, which pgrx binds without it.
unsafe extern "C-unwind" {
    fn errhint(format: *const c_char, ...) -> c_int;
}

thread_local! {
    /// The last error that the server has put together.
    static LAST: RefCell<Option<CommandError>> = const { RefCell::new(None) };
    static FATAL: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The SQLSTATE of the error that ends this process, if one does.
pub fn fatal_sqlstate() -> Option<String> {
    FATAL.with_borrow(Clone::clone)
}

/// Runs `body`; an error of it, or a panic, is returned. The caller rolls back what it has done.
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R, Box<CommandError>> {
    LAST.take();
    let _context = ErrorContext::push(remember);
    let body = || error_room::with_room(body);
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(body()))).catch_others(|error| Err(Box::new(whole(&error)))).execute()
}

/// What was remembered of the error that was caught, which need not be the last that there was.
fn whole(error: &CaughtError) -> CommandError {
    let (code, message) = describe(error);
    let remembered = LAST.take().filter(|remembered| remembered.message == message);
    remembered.unwrap_or_else(|| CommandError {
        sqlstate: unpacked_sqlstate(code as i32),
        message,
        detail: None,
        hint: None,
        context: None,
        position: None,
    })
}

/// How many bytes of a text are kept: all, or `MOST_BYTES` at most, cut between two characters.
unsafe fn clipped(text: *const c_char) -> usize {
    let length = c_int::try_from(CStr::from_ptr(text).count_bytes()).unwrap_or(c_int::MAX);
    usize::try_from(pg_sys::pg_mbcliplen(text, length, MOST_BYTES as c_int)).unwrap_or(0)
}

/// Cuts what an error says that is on its way: whoever catches it copies all of it.
unsafe fn shorten(error: &pg_sys::ErrorData) {
    type Say = unsafe extern "C-unwind" fn(*const c_char, ...) -> c_int;
    let texts: [(*const c_char, Say); 3] =
        [(error.message, pg_sys::errmsg_internal), (error.detail, pg_sys::errdetail_internal), (error.hint, errhint)];
    for (text, say) in texts {
        if !text.is_null() && CStr::from_ptr(text).count_bytes() > MOST_BYTES {
            say(c"%.*s".as_ptr(), clipped(text) as c_int, text);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn remember(_argument: *mut c_void) {
    if !error_room::is_there() {
        return;
    }
    let before = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
    let data = pg_sys::CopyErrorData();
    pg_sys::MemoryContextSwitchTo(before);
    let error = &*data;
    if error.elevel >= PgLogLevel::ERROR as i32 {
        shorten(error);
        let text = |text: *const c_char| {
            (!text.is_null()).then(|| {
                let kept = std::slice::from_raw_parts(text.cast::<u8>(), clipped(text));
                String::from_utf8_lossy(kept).into_owned()
            })
        };
        let remembered = CommandError {
            sqlstate: unpacked_sqlstate(error.sqlerrcode),
            message: text(error.message).unwrap_or_default(),
            detail: text(error.detail),
            hint: text(error.hint),
            context: text(error.context),
            position: usize::try_from(error.cursorpos).ok().filter(|position| *position > 0),
        };
        if error.elevel >= PgLogLevel::FATAL as i32 {
            FATAL.set(Some(remembered.sqlstate.clone()));
        }
        LAST.set(Some(remembered));
    }
    pg_sys::FreeErrorData(data);
}
