//! What a client would be told while a command runs. The server hands messages to the methods of its connection; for the time of a command these
//! are ours. A NOTICE reaches no hook of the server's log at the usual settings.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr};

use pgrx::pg_sys;
use serde::Serialize;

/// How many bytes of messages are kept.
const MOST_BYTES: usize = 12_000;

// libpq/libpq.h, which pgrx does not bind.
#[repr(C)]
struct Methods {
    comm_reset: unsafe extern "C-unwind" fn(),
    flush: unsafe extern "C-unwind" fn() -> c_int,
    flush_if_writable: unsafe extern "C-unwind" fn() -> c_int,
    is_send_pending: unsafe extern "C-unwind" fn() -> bool,
    putmessage: unsafe extern "C-unwind" fn(kind: c_char, bytes: *const c_char, length: usize) -> c_int,
    putmessage_noblock: unsafe extern "C-unwind" fn(kind: c_char, bytes: *const c_char, length: usize),
}

unsafe extern "C" {
    static mut PqCommMethods: *const Methods;
    static mut FrontendProtocol: u32;
}

static OURS: Methods = Methods {
    comm_reset: nothing,
    flush: none,
    flush_if_writable: none,
    is_send_pending: no,
    putmessage: take,
    putmessage_noblock: take_without_answer,
};

/// One message.
#[derive(Clone, Serialize)]
pub struct Message {
    /// NOTICE, WARNING, INFO and so on.
    pub severity: String,
    /// What it says, its detail and hint in lines of their own.
    pub text: String,
}

#[derive(Default)]
struct Kept {
    messages: Vec<Message>,
    bytes: usize,
    truncated: bool,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// While it lives, messages are kept here and go to no client.
pub struct Captured {
    methods: *const Methods,
    protocol: u32,
    destination: pg_sys::CommandDest::Type,
    /// What the session's client reads: a text that it could not read would be an error.
    encoding: c_int,
    /// Of the command that the one which begins is part of.
    kept: Kept,
}

impl Captured {
    pub fn begin() -> Captured {
        // SAFETY: the process' only thread; the methods are static.
        unsafe {
            let before = Captured {
                methods: PqCommMethods,
                protocol: FrontendProtocol,
                destination: pg_sys::whereToSendOutput,
                encoding: pg_sys::pg_get_client_encoding(),
                kept: KEPT.take(),
            };
            PqCommMethods = &raw const OURS;
            // 3.0: what messages are made of since.
            FrontendProtocol = 3 << 16;
            pg_sys::whereToSendOutput = pg_sys::CommandDest::DestRemote;
            pg_sys::SetClientEncoding(pg_sys::GetDatabaseEncoding());
            before
        }
    }

    /// What was said up to now, and whether that is not all.
    pub fn messages() -> (Vec<Message>, bool) {
        KEPT.with_borrow(|kept| (kept.messages.clone(), kept.truncated))
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        KEPT.replace(std::mem::take(&mut self.kept));
        // SAFETY: what was there before.
        unsafe {
            PqCommMethods = self.methods;
            FrontendProtocol = self.protocol;
            pg_sys::whereToSendOutput = self.destination;
            pg_sys::SetClientEncoding(self.encoding);
        }
    }
}

unsafe extern "C-unwind" fn nothing() {}

unsafe extern "C-unwind" fn none() -> c_int {
    0
}

unsafe extern "C-unwind" fn no() -> bool {
    false
}

unsafe extern "C-unwind" fn take(kind: c_char, bytes: *const c_char, length: usize) -> c_int {
    if kind as u8 == b'N' {
        keep(std::slice::from_raw_parts(bytes.cast(), length));
    }
    0
}

unsafe extern "C-unwind" fn take_without_answer(kind: c_char, bytes: *const c_char, length: usize) {
    take(kind, bytes, length);
}

/// A text of a message, cut before it is copied. The command may have chosen another client encoding for itself.
fn in_database_encoding(whole: &CStr) -> String {
    // SAFETY: a text that the server has made in this encoding, cut between two characters; what it is converted to goes with the message's
    // memory.
    unsafe {
        let encoding = pg_sys::pg_get_client_encoding();
        let (text, most) = (whole.as_ptr(), 2 * MOST_BYTES as c_int);
        let length = pg_sys::pg_encoding_mbcliplen(
            encoding,
            text,
            c_int::try_from(whole.count_bytes()).unwrap_or(c_int::MAX),
            most,
        );
        let cut = pg_sys::pnstrdup(text, length as pg_sys::Size);
        CStr::from_ptr(pg_sys::pg_client_to_server(cut, length)).to_string_lossy().into_owned()
    }
}

/// Keeps a message: fields of a letter and a text each, with a NUL after each and one at the end.
fn keep(mut fields: &[u8]) {
    let mut message = Message { severity: String::new(), text: String::new() };
    while let Some((letter, rest)) = fields.split_first().filter(|(letter, _)| **letter != 0) {
        let Ok(text) = CStr::from_bytes_until_nul(rest) else { break };
        fields = &rest[text.to_bytes_with_nul().len()..];
        let text = in_database_encoding(text);
        match letter {
            // The severity in English, whatever lc_messages says.
            b'V' => message.severity = text,
            b'M' => message.text.insert_str(0, &text),
            b'D' => message.text.push_str(&format!("\nDETAIL:  {text}")),
            b'H' => message.text.push_str(&format!("\nHINT:  {text}")),
            _ => {}
        }
    }
    KEPT.with_borrow_mut(|kept| {
        if kept.truncated {
            return;
        }
        let room = MOST_BYTES.saturating_sub(kept.bytes + message.severity.len());
        if message.text.len() > room {
            kept.truncated = true;
            let end = (0..=room.saturating_sub(3)).rev().find(|end| message.text.is_char_boundary(*end));
            message.text.truncate(end.unwrap_or(0));
            message.text.push_str("...");
        }
        kept.bytes += message.severity.len() + message.text.len();
        kept.messages.push(message);
    });
}
