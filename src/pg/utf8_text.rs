//! `text` arguments that may hold any bytes: in a SQL_ASCII database Postgres checks none, and in one whose encoding is not UTF8 they mean
//! something else. pgrx' `String` panics there, which reaches the user as an internal error.

use std::cell::Cell;
use std::ops::Deref;

use pgrx::{pg_sys, FromDatum, PgSqlErrorCode};

use crate::pg::convert::shown;
use crate::pg::error::{raise, Failure};
use crate::pg::memory;
use crate::pg::sql_type::{argument_type, element_type};

/// The longest `text` argument, in bytes. What has a limit of its own has a lower one.
pub const MAX_TEXT_BYTES: usize = 2 * 1_048_576;

/// A `text` argument as Rust has it; `22021` where it cannot be, `54000` where it is longer than any argument may be.
#[derive(Clone, Debug)]
pub struct Text(String);

/// A `text` argument of any length, of which the first [`Self::CHARACTERS`] characters are read; `22021` as for [`Text`].
#[derive(Clone, Debug)]
pub struct BeginningOfText(String);

impl BeginningOfText {
    /// How many characters are kept.
    pub const CHARACTERS: usize = 4000;
}

fn encoding() -> u32 {
    thread_local! {
        static OF_DATABASE: Cell<Option<u32>> = const { Cell::new(None) };
    }
    // A process stays in its database. (Before it is in one, as the postmaster, nothing is kept: its children would inherit it.)
    OF_DATABASE.get().unwrap_or_else(|| {
        // SAFETY: reads globals of the backend.
        let (encoding, database) = unsafe { (pg_sys::GetDatabaseEncoding() as u32, pg_sys::MyDatabaseId) };
        OF_DATABASE.set(Some(encoding).filter(|_| database != pg_sys::InvalidOid));
        encoding
    })
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
    memory::require(memory::plain_size(datum));
    with_bytes(datum, |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// A `text` that is stored; `None` where Rust cannot take it for text.
///
/// # Safety
/// The datum has to be a `text`.
pub unsafe fn stored(datum: pg_sys::Datum) -> Option<String> {
    with_bytes(datum, |bytes| readable(bytes).map(str::to_owned))
}

/// The first bytes of a `text`.
unsafe fn beginning(datum: pg_sys::Datum, count: usize) -> Vec<u8> {
    let slice = pg_sys::pg_detoast_datum_slice(datum.cast_mut_ptr(), 0, i32::try_from(count).unwrap_or(i32::MAX));
    let bytes = std::slice::from_raw_parts(pgrx::vardata_any(slice).cast::<u8>(), pgrx::varsize_any_exhdr(slice));
    bytes.to_vec()
}

unsafe fn refuse_too_long(datum: pg_sys::Datum) {
    const SHOWN: usize = 200;
    let size = memory::plain_size(datum).saturating_sub(pg_sys::VARHDRSZ);
    if size > MAX_TEXT_BYTES {
        let begins = String::from_utf8_lossy(&beginning(datum, SHOWN)).into_owned();
        raise(Failure::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("text \"{}\" is too long: {size} bytes", shown(&begins)),
            format!("A text that the scheduler is given has at most {MAX_TEXT_BYTES} bytes, and most have fewer."),
        ));
    }
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
        refuse_too_long(datum);
        memory::require(memory::plain_size(datum));
        Some(with_bytes(datum, |bytes| Text(checked(bytes).to_owned())))
    }
}

impl From<BeginningOfText> for String {
    fn from(text: BeginningOfText) -> String {
        text.0
    }
}

impl FromDatum for BeginningOfText {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<BeginningOfText> {
        const LONGEST_CHARACTER: usize = 4;
        if is_null {
            return None;
        }
        const LONGEST: usize = BeginningOfText::CHARACTERS * LONGEST_CHARACTER;
        let mut bytes = beginning(datum, LONGEST);
        // The last character may have been cut, where there is more of the text.
        let cut =
            std::str::from_utf8(&bytes).err().filter(|error| bytes.len() == LONGEST && error.error_len().is_none());
        if let Some(error) = cut {
            bytes.truncate(error.valid_up_to());
        }
        Some(BeginningOfText(checked(&bytes).chars().take(Self::CHARACTERS).collect()))
    }
}

argument_type!(Text, "text", Text(String::new()));
argument_type!(BeginningOfText, "text", BeginningOfText(String::new()));
element_type!(Text, Text(String::new()));
