//! Executions of schedules that were dropped with all that they had pending, as long as somebody still had something of that in hand
//! (`store/dropped.rs`): nobody claims them. Mostly there is no such schedule, and shared memory knows: then no table is opened.

use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use super::begin;
use crate::store::names;
use crate::store::table::{Condition, Index, Present, Table};

const TABLE: &CStr = c"schedule_dropped";
const KEY: &CStr = c"schedule_dropped_pkey";

/// Whether it is known that there is no such schedule. (Objects of 0.1.0 have no such table.)
///
/// Said after what is claimed was seen: who drops a schedule says so before he commits.
pub fn are_none(schema: Oid, now: Instant) -> bool {
    names::relation(schema, TABLE).is_none_or(|table| begin::is_known_to_be_empty(table, now))
}

/// The table of these schedules, opened; `None` where there is none of them.
pub fn open(schema: Oid, now: Instant) -> Option<Table> {
    // Of any shape: only its index is asked.
    (!are_none(schema, now)).then(|| Table::open_any(schema, TABLE))
}

/// Such schedules, as of what somebody sees who claims.
pub struct Dropped<'t>(Index<'t>);

impl<'t> Dropped<'t> {
    /// `None` where there is none.
    pub fn look(table: &'t Table, present: &'t Present, now: Instant) -> Option<Dropped<'t>> {
        (!begin::is_empty(table, KEY, now)).then(|| Dropped(Index::open(table, KEY, present)))
    }

    /// Whether this is one.
    pub fn has(&mut self, schedule_id: i64) -> bool {
        self.0.find(&[Condition::equal(pg_sys::F_INT8EQ, schedule_id)])
    }
}
