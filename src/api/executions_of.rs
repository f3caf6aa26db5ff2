//! The ids that `sched.executions_of` and `sched.runs_of` read the ledger by. The ledger is unique by a hash of the job and the scope, which a
//! condition on a view's columns cannot use; these look the hash up, and the view decides what the reader sees of each row.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;

use crate::pg::convert;
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::role;
use crate::pg::session::session;
use crate::pg::utf8_text::Text;
use crate::store::execution::{history, ids};
use crate::store::schedule::skipped_plans;
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
        let job_name = convert::name("job_name", job_name)?;
        let scope_kind = convert::name("scope_kind", scope_kind)?;
        let scope_id = convert::name("scope_id", scope_id)?;
        let part = part(from_time, to_time)?;
        let (key, reader) = (ids::scope_key(&job_name, &scope_kind, &scope_id), role::caller());
        session(|session| {
            shard::require_to_read(session, &scope_kind, &scope_id)?;
            Ok(history::ids_of_key(session, key, part, reader))
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
        let part = part(from_time, to_time)?;
        let caller = role::caller();
        session(|session| match skipped_plans::seen_by(session, &name, caller) {
            None => Err(Failure::unknown("schedule", &name, "Look for its name in the view sched.schedules.")),
            Some((_, false)) => Err(Failure::not_owner("schedule", &name)),
            Some((schedule_id, true)) => {
                shard::require_schedule(session, &name)?;
                Ok(history::ids_of_schedule(session, schedule_id, part, caller))
            }
        })
    })());
    SetOfIterator::new(found)
}

/// A range of plan times of which each end may be left out; `22008`, `22023`.
fn part(from_time: Option<TimestampWithTimeZone>, to_time: Option<TimestampWithTimeZone>) -> Outcome<history::Part> {
    let from = convert::optional_instant("from_time", from_time)?;
    let to = convert::optional_instant("to_time", to_time)?;
    if let Some((from, to)) = from.zip(to) {
        let hint = "The range begins at from_time and ends just before to_time.";
        convert::in_order(["from_time", "to_time"], [from, to], hint)?;
    }
    Ok([from_time, to_time])
}
