//! Memory for data whose size a user chooses. An allocation of Rust's that fails aborts the process, and the postmaster then restarts all
//! others. So that much is asked for before such data is copied, where a failure is an error of the statement.

use pgrx::{pg_sys, FromDatum, PgSqlErrorCode};

use crate::pg::error::{raise, Failure};

/// Below this many bytes nothing is asked for: what a call needs in any case is more.
const SMALL: usize = 256 * 1024;

/// What is asked for where many small parts add up.
pub const ALWAYS: usize = SMALL;

/// What has to be left beside it, for all small allocations until the call ends.
const HEADROOM: usize = 8 * 1024 * 1024;

/// `53200` where the allocator has not this many bytes, and some to spare.
pub fn require(bytes: usize) {
    if bytes < SMALL {
        return;
    }
    let mut probe = Vec::<u8>::new();
    let result = probe.try_reserve_exact(bytes.saturating_add(HEADROOM));
    // The compiler may leave out an allocation that nobody looks at.
    std::hint::black_box(&probe);
    if result.is_err() {
        raise(Failure::new(
            PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
            format!("out of memory: {bytes} bytes are needed at once"),
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
