//! The ids that `sched.executions_of` and `sched.runs_of` read the ledger by. The ledger is unique by a hash of the job and the scope, which a
//! condition on a view's columns cannot use; these look the hash up, and the view decides what the reader sees of each row.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;

use crate::api::explain::readable_schedule;
use crate::api::planning::names;
use crate::pg::convert;
use crate::pg::error::or_raise;
use crate::pg::role;
use crate::pg::session::session;
use crate::pg::utf8_text::Text;
use crate::store::execution::{history, ids};
use crate::store::shard;

/// The executions of a job and a scope with a plan time in `[from_time, to_time)`, newest first; `sched.executions_of` reads it.
#[pg_extern(schema = "sched_internal", stable, parallel_unsafe)]
pub fn ids_of_scope(
    job_name: Option<Text>,
    scope_kind: Option<Text>,
    scope_id: Option<Text>,
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
) -> SetOfIterator<'static, Uuid> {
    let found = or_raise((|| {
        let [job_name, scope_kind, scope_id] = names(job_name, scope_kind, scope_id)?;
        let range = convert::open_range(from_time, to_time)?;
        let (key, reader) = (ids::scope_key(&job_name, &scope_kind, &scope_id), role::caller());
        session(|session| {
            shard::require_to_read(session, &scope_kind, &scope_id)?;
            Ok(history::ids_of_key(session, key, range, reader))
        })
    })());
    SetOfIterator::new(found)
}

/// The runs of a schedule with a plan time in `[from_time, to_time)`, newest first; `sched.runs_of` reads it.
#[pg_extern(schema = "sched_internal", stable, parallel_unsafe)]
pub fn ids_of_schedule(
    schedule_name: Option<Text>,
    from_time: Option<TimestampWithTimeZone>,
    to_time: Option<TimestampWithTimeZone>,
) -> SetOfIterator<'static, Uuid> {
    let found = or_raise((|| {
        let name = convert::name("schedule_name", schedule_name)?;
        let range = convert::open_range(from_time, to_time)?;
        let caller = role::caller();
        session(|session| {
            let schedule_id = readable_schedule(session, &name, caller)?;
            Ok(history::ids_of_schedule(session, schedule_id, range, caller))
        })
    })());
    SetOfIterator::new(found)
}
