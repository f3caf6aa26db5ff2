//! Executions of schedules that were dropped with all that they had pending, as long as somebody still had something of that in hand
//! (`store/schedule/dropped.rs`): nobody claims them. Mostly there is no such schedule.

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::{Condition, Index};
use crate::store::rare_rows;

/// Such schedules, as they are now.
pub struct Dropped<'i, 't>(&'i mut Index<'t>);

/// Runs `body` with what there is of them (`rare_rows::with`).
pub fn with<R>(schema: Oid, now: Instant, body: impl FnOnce(Option<&mut Dropped>) -> R) -> R {
    rare_rows::with(schema, c"schedule_dropped", c"schedule_dropped_pkey", now, |index| {
        body(index.map(Dropped).as_mut())
    })
}

impl Dropped<'_, '_> {
    /// Whether this is one.
    pub fn has(&mut self, schedule_id: i64) -> bool {
        self.0.find(&[Condition::equal(pg_sys::F_INT8EQ, schedule_id)])
    }
}
