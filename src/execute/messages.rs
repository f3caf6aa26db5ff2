//! What a client would be told while a command runs. The server hands messages to the methods of its connection; for the time of a command these
//! are ours. A NOTICE reaches no hook of the server's log at the usual settings.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, CStr};

use pgrx::pg_sys;
use serde::Serialize;

use crate::pg::catch::catch;

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

/// A message as the server has made it for a client, cut. Nothing of it is converted where it comes in: that can fail, and the server is in the middle
/// of a report there, which no other error may leave.
struct RawMessage {
    severity: Vec<u8>,
    text: Vec<u8>,
    /// The client's encoding: the command may have chosen another one for itself.
    encoding: c_int,
    is_cut: bool,
}

#[derive(Default)]
struct Kept {
    messages: Vec<RawMessage>,
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
        KEPT.with_borrow(|kept| (kept.messages.iter().map(RawMessage::read).collect(), kept.truncated))
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

impl RawMessage {
    fn read(&self) -> Message {
        let end = if self.is_cut { "..." } else { "" };
        Message { severity: in_utf8(&self.severity, self.encoding), text: in_utf8(&self.text, self.encoding) + end }
    }
}

/// A text that was cut anywhere, in the encoding of a client.
fn in_utf8(text: &[u8], encoding: c_int) -> String {
    // SAFETY: reads globals of the process; the text is as long as is said, and what it is converted to ends with a NUL.
    let converted = catch(|| unsafe {
        let database = pg_sys::GetDatabaseEncoding();
        if encoding == database || encoding == pg_sys::pg_enc::PG_SQL_ASCII as c_int {
            return None;
        }
        let length = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
        let whole = pg_sys::pg_encoding_mbcliplen(encoding, text.as_ptr().cast(), length, length);
        let converted =
            pg_sys::pg_do_encoding_conversion(text.as_ptr().cast_mut(), whole, encoding, database).cast_const();
        let is_as_it_was = converted == text.as_ptr();
        (!is_as_it_was).then(|| CStr::from_ptr(converted.cast()).to_bytes().to_vec())
    });
    let text = converted.ok().flatten().map_or(Cow::Borrowed(text), Cow::Owned);
    // A character of which the cut has left a part goes.
    let end = match std::str::from_utf8(&text) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => text.len(),
    };
    String::from_utf8_lossy(&text[..end]).into_owned()
}

/// Keeps a message: fields of a letter and a text each, with a NUL after each and one at the end.
fn keep(mut fields: &[u8]) {
    KEPT.with_borrow_mut(|kept| {
        if kept.truncated {
            return;
        }
        // SAFETY: reads a global of the process.
        let encoding = unsafe { pg_sys::pg_get_client_encoding() };
        let mut message = RawMessage { severity: Vec::new(), text: Vec::new(), encoding, is_cut: false };
        let mut room = MOST_BYTES.saturating_sub(kept.bytes);
        let mut add = |to: &mut Vec<u8>, text: &[u8]| {
            let fits = text.len().min(room);
            to.extend_from_slice(&text[..fits]);
            room -= fits;
            kept.truncated |= fits < text.len();
        };
        while let Some((letter, rest)) = fields.split_first().filter(|(letter, _)| **letter != 0) {
            let Some(end) = rest.iter().position(|byte| *byte == 0) else { break };
            let text = &rest[..end];
            fields = &rest[end + 1..];
            // The server sends them in this order. The severity in English, whatever lc_messages says.
            let label: &[u8] = match letter {
                b'V' => {
                    add(&mut message.severity, text);
                    continue;
                }
                b'M' => b"",
                b'D' => b"\nDETAIL:  ",
                b'H' => b"\nHINT:  ",
                _ => continue,
            };
            add(&mut message.text, label);
            add(&mut message.text, text);
        }
        message.is_cut = kept.truncated;
        kept.bytes = MOST_BYTES - room;
        kept.messages.push(message);
    });
}
