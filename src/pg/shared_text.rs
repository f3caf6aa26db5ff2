//! Texts that many rows of a result have.

use pgrx::{pg_sys, IntoDatum};

use crate::pg::sql_type::named_type;

/// A `text` result that is made once for all rows: each row copies it into itself.
#[derive(Clone, Copy, Debug)]
pub struct SharedText(pg_sys::Datum);

impl SharedText {
    /// In the current memory context, which has to last as long as the rows are made.
    pub fn of(text: &str) -> SharedText {
        SharedText(text.into_datum().unwrap_or(pg_sys::Datum::null()))
    }
}

impl IntoDatum for SharedText {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        (!self.0.is_null()).then_some(self.0)
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TEXTOID
    }
}

named_type!(SharedText, "text");
