//! `alter_execution`, `cancel_many`: what waits is changed, or does not run.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::execution::{self, history};
use crate::store::job;
use crate::store::lease::sql as leases;
use crate::store::queue::waiting::{self, Change, Wanted};

use crate::api::enqueue_unique::announce;
use crate::api::job::{self as jobs, at_least_one};

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn alter_execution(
    execution_id: Option<Uuid>,
    payload: default!(Option<Jsonb>, "NULL"),
    run_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    priority: default!(Option<i32>, "NULL"),
) -> bool {
    or_raise((|| {
        let id = required("execution_id", execution_id)?;
        let run_at = convert::optional_instant("run_at", run_at)?.map(convert::timestamp);
        let (caller, now) = (role::caller(), database_clock::now());
        session(|session| {
            let Some((_, owner)) = execution::state(session, id, now) else { return Ok(false) };
            if !role::may_act_for(caller, owner) {
                return Err(Failure::not_owner("execution", &id.to_string()));
            }
            if waiting::lock(session, vec![id]).is_empty() {
                return Ok(false);
            }
            if let (Some(payload), Some(job_name)) = (&payload, history::job_of(session, id)) {
                let notifies = job::read(session, &job_name).is_some_and(|job| job.notifies);
                jobs::check_payload(notifies, &job_name, payload)?;
            }
            let change = Change {
                execution_ids: vec![id],
                payloads: vec![payload],
                run_ats: vec![run_at],
                no_time_is_at_once: false,
                priority,
            };
            announce(session, waiting::change(session, change, database_clock::now()));
            Ok(true)
        })
    })())
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn cancel_many(
    job_name: default!(Option<Text>, "NULL"),
    queue: default!(Option<Text>, "NULL"),
    scope_id: default!(Option<Text>, "NULL"),
    max_executions: default!(Option<i32>, "10000"),
) -> i64 {
    or_raise((|| {
        let job_name = given(job_name, |name| convert::name("job_name", Some(name)))?;
        let queue = given(queue, |queue| convert::queue(Some(queue)))?;
        let scope_id = given(scope_id, |id| convert::name("scope_id", Some(id)))?;
        let limit = i64::from(at_least_one("max_executions", required("max_executions", max_executions)?)?);
        let (caller, now) = (role::caller(), database_clock::now());
        session(|session| {
            let wanted = Wanted {
                job_name: job_name.as_deref(),
                queue: queue.as_deref(),
                scope_id: scope_id.as_deref(),
                limit,
                caller,
            };
            let cancelled = waiting::cancel(session, &wanted, now);
            for (schedule_id, execution_id) in cancelled.awaited {
                leases::run_ended(session, schedule_id, execution_id, now);
                wakeup::at_commit(now);
            }
            Ok(cancelled.count)
        })
    })())
}

/// An argument that may be left out.
fn given(value: Option<Text>, check: impl FnOnce(Text) -> Outcome<String>) -> Outcome<Option<String>> {
    value.map(check).transpose()
}
