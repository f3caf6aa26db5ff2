//! Executions of schedules that were dropped with all that they had pending, as long as somebody still had something of that in hand
//! (`store/schedule/dropped.rs`): nobody claims them. Mostly there is no such schedule, and shared memory knows: then no table is opened.

use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::{Condition, Index, LatestSnapshot, Table};
use crate::pg::oid_cache;
use crate::store::queue::scan_start;

const TABLE: &CStr = c"schedule_dropped";
const KEY: &CStr = c"schedule_dropped_pkey";

/// Such schedules, as they are now.
pub struct Dropped<'t>(Index<'t>);

/// Runs `body` with what there is of them; to be asked after what is claimed was seen, since who drops a schedule says so before he commits.
pub fn with<R>(schema: Oid, now: Instant, body: impl FnOnce(Option<&mut Dropped>) -> R) -> R {
    // (Objects of 0.1.0 have no such table.)
    if oid_cache::relation(schema, TABLE).is_none_or(|table| scan_start::is_known_to_be_empty(table, now)) {
        return body(None);
    }
    // Of any shape: only its index is asked.
    let table = Table::open_any(schema, TABLE);
    let latest = LatestSnapshot::take();
    let mut dropped = (!scan_start::is_empty(&table, KEY, now)).then(|| Dropped(Index::open(&table, KEY, &latest)));
    body(dropped.as_mut())
}

impl Dropped<'_> {
    /// Whether this is one.
    pub fn has(&mut self, schedule_id: i64) -> bool {
        self.0.find(&[Condition::equal(pg_sys::F_INT8EQ, schedule_id)])
    }
}
