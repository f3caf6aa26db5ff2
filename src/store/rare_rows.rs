//! Tables that every claim has to ask and that are mostly empty: shared memory knows that, and then none is opened.

use std::ffi::CStr;

use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::heap::{Index, LatestSnapshot, Table};
use crate::pg::oid_cache;
use crate::store::queue::scan_start;

/// Runs `body` with an index of such a table, as it is now, if anything is there; to be asked after what is claimed was seen, since who adds
/// a row says so before he commits.
pub fn with<R>(schema: Oid, name: &CStr, key: &CStr, now: Instant, body: impl FnOnce(Option<&mut Index>) -> R) -> R {
    // (Objects of older versions have no such table.)
    if oid_cache::relation(schema, name).is_none_or(|table| scan_start::is_known_to_be_empty(table, now)) {
        return body(None);
    }
    // Of any shape: only its index is asked.
    let table = Table::open_any(schema, name);
    let latest = LatestSnapshot::take();
    let mut index = (!scan_start::is_empty(&table, key, now)).then(|| Index::open(&table, key, &latest));
    body(index.as_mut())
}
