//! `text` arguments that may hold any bytes: in a SQL_ASCII database Postgres checks none, and in one whose encoding is not UTF8 they mean
//! something else. pgrx' `String` panics there, which reaches the user as an internal error.

use std::ops::Deref;

use pgrx::{pg_sys, FromDatum, PgSqlErrorCode};

use crate::pg::error::{raise, Failure};
use crate::pg::sql_type::{argument_type, element_type};

/// A `text` argument as Rust has it; `22021` where it cannot be.
#[derive(Clone, Debug)]
pub struct Text(String);

fn encoding() -> u32 {
    // SAFETY: reads a global of the backend.
    unsafe { pg_sys::GetDatabaseEncoding() as u32 }
}

/// Whether a character is a byte for SQL here, whatever the bytes mean.
pub fn counts_bytes() -> bool {
    encoding() == pg_sys::pg_enc::PG_SQL_ASCII
}

/// `22021` where a `text` is not what Rust takes for one. In a database whose encoding is UTF8, Postgres has seen to that.
///
/// # Safety
/// The datum has to be a `text`.
pub unsafe fn check(datum: pg_sys::Datum) {
    if encoding() != pg_sys::pg_enc::PG_UTF8 {
        with_bytes(datum, |bytes| {
            checked(bytes);
        });
    }
}

/// A `text` to be read by people only.
///
/// # Safety
/// The datum has to be a `text`.
pub unsafe fn lossy(datum: pg_sys::Datum) -> String {
    with_bytes(datum, |bytes| String::from_utf8_lossy(bytes).into_owned())
}

unsafe fn with_bytes<R>(datum: pg_sys::Datum, read: impl FnOnce(&[u8]) -> R) -> R {
    let stored = datum.cast_mut_ptr::<pg_sys::varlena>();
    let plain = pg_sys::pg_detoast_datum_packed(stored);
    let result =
        read(std::slice::from_raw_parts(pgrx::vardata_any(plain).cast::<u8>(), pgrx::varsize_any_exhdr(plain)));
    if plain != stored {
        pg_sys::pfree(plain.cast());
    }
    result
}

/// What this database's bytes say; `None` where Rust cannot take them for text.
pub fn readable(bytes: &[u8]) -> Option<&str> {
    let encoding = encoding();
    let is_ours = encoding == pg_sys::pg_enc::PG_UTF8 || encoding == pg_sys::pg_enc::PG_SQL_ASCII || bytes.is_ascii();
    std::str::from_utf8(bytes).ok().filter(|_| is_ours)
}

fn checked(bytes: &[u8]) -> &str {
    readable(bytes).unwrap_or_else(|| {
        raise(Failure::new(
            PgSqlErrorCode::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE,
            format!(
                "text is not valid UTF-8: \"{}\"",
                bytes.escape_ascii().take(80).map(char::from).collect::<String>()
            ),
            "The scheduler reads text as UTF-8: use ASCII, or a database whose encoding is UTF8.",
        ))
    })
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.0
    }
}

impl FromDatum for Text {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Text> {
        if is_null {
            return None;
        }
        Some(with_bytes(datum, |bytes| Text(checked(bytes).to_owned())))
    }
}

argument_type!(Text, "text", Text(String::new()));
element_type!(Text, Text(String::new()));
