//! Memory for data whose size a user chooses. An allocation of Rust's that fails aborts the process, and the postmaster then restarts all
//! others. So that much is asked for before such data is copied, where a failure is an error of the statement. What no question foresaw ends the
//! session (`allocator`).

use std::cell::Cell;

use pgrx::{pg_sys, FromDatum, PgSqlErrorCode};

use crate::pg::allocator;
use crate::pg::error::{raise, Failure};

/// After so many bytes the allocator is asked: values add up, each of which is small.
const SMALL: usize = 256 * 1024;

/// What is asked for where many small parts add up.
pub const ALWAYS: usize = SMALL;

/// What has to be left beside it, for all small allocations until the next question.
const HEADROOM: usize = 8 * 1024 * 1024;

thread_local! {
    /// How many bytes were copied since the allocator was asked.
    static COPIED: Cell<usize> = const { Cell::new(0) };
}

/// To be called before so many bytes of a user's data are copied. `53200` where the allocator has not this many, and some to spare.
pub fn require(bytes: usize) {
    let copied = COPIED.get().saturating_add(bytes);
    if copied < SMALL {
        COPIED.set(copied);
        return;
    }
    COPIED.set(0);
    if !allocator::has(copied.saturating_add(HEADROOM)) {
        raise(Failure::new(
            PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
            format!("out of memory: {copied} bytes are needed at once"),
            "Pass less data at a time.",
        ));
    }
}

/// How many bytes a value of variable length has when it is neither compressed nor stored elsewhere.
///
/// # Safety
/// The datum has to be of a type of variable length.
pub unsafe fn plain_size(datum: pg_sys::Datum) -> usize {
    pg_sys::toast_raw_datum_size(datum)
}

/// The same of a value of a row, of which nothing is copied.
pub struct PlainSize(pub usize);

impl FromDatum for PlainSize {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<PlainSize> {
        (!is_null).then(|| PlainSize(plain_size(datum)))
    }
}
