//! `alter_execution`, `alter_many`, `cancel_many`: what waits is changed, or does not run.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;

use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{role, session, Session};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::execution::{self, history};
use crate::store::job;
use crate::store::lease::sql as leases;
use crate::store::queue::waiting::{self, Change, Wanted};

use crate::api::enqueue_unique::announce;
use crate::api::job::{self as jobs, at_least_one};

#[pg_extern(schema = "sched", name = "alter_execution", volatile, parallel_unsafe)]
fn alter_waiting_execution(
    execution_id: Option<Uuid>,
    payload: default!(Option<Jsonb>, "NULL"),
    run_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    priority: default!(Option<i32>, "NULL"),
    queue: default!(Option<Text>, "NULL"),
    max_attempts: default!(Option<i32>, "NULL"),
) -> bool {
    or_raise((|| {
        let id = required("execution_id", execution_id)?;
        let queue = given(queue, |queue| convert::queue(Some(queue)))?;
        let max_attempts = max_attempts.map(|most| at_least_one("max_attempts", most)).transpose()?;
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
            check_attempts(session, id, max_attempts)?;
            let change = Change {
                execution_ids: vec![id],
                payloads: vec![payload],
                run_ats: vec![run_at],
                no_time_is_at_once: false,
                priority,
                queue: queue.as_deref(),
                max_attempts,
            };
            announce(session, waiting::change(session, change, database_clock::now()));
            Ok(true)
        })
    })())
}

/// `22023` where no attempt would be left.
fn check_attempts(session: &Session, execution_id: Uuid, max_attempts: Option<i32>) -> Outcome<()> {
    let Some(most) = max_attempts else { return Ok(()) };
    let used = waiting::attempts_used(session, execution_id);
    if used < most {
        return Ok(());
    }
    Err(Failure::invalid(
        format!("max_attempts must be more than the attempts used, which are {used}, not {most}"),
        format!("Pass {} or more, or end the execution with sched.cancel.", used.saturating_add(1)),
    ))
}

/// How many executions one statement changes.
const AT_A_TIME: usize = 10_000;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn alter_many(
    job_name: default!(Option<Text>, "NULL"),
    queue: default!(Option<Text>, "NULL"),
    new_queue: default!(Option<Text>, "NULL"),
    priority: default!(Option<i32>, "NULL"),
    max_executions: default!(Option<i32>, "NULL"),
) -> i64 {
    or_raise((|| {
        let job_name = given(job_name, |name| convert::name("job_name", Some(name)))?;
        let queue = given(queue, |queue| convert::queue(Some(queue)))?;
        let new_queue = given(new_queue, |queue| convert::queue(Some(queue)))?;
        let limit = max_executions.map(|most| at_least_one("max_executions", most)).transpose()?;
        if job_name.is_none() && queue.is_none() {
            return Err(Failure::invalid(
                "neither job_name nor queue is given",
                "Name the executions that are to be changed.",
            ));
        }
        if new_queue.is_none() && priority.is_none() {
            return Err(Failure::invalid("nothing is to be changed", "Pass new_queue, or priority, or both."));
        }
        let caller = role::caller();
        let wanted = Wanted {
            job_name: job_name.as_deref(),
            queue: queue.as_deref(),
            scope_id: None,
            limit: limit.map_or(i64::MAX, i64::from),
            caller,
        };
        let found = session(|session| waiting::find(session, &wanted));
        let mut count = 0;
        for some in found.chunks(AT_A_TIME) {
            count += session(|session| {
                let locked: Vec<Uuid> = waiting::lock(session, some.to_vec()).iter().map(|one| one.id).collect();
                let changed = locked.len();
                let change = Change {
                    payloads: vec![None; changed],
                    run_ats: vec![None; changed],
                    execution_ids: locked,
                    priority,
                    queue: new_queue.as_deref(),
                    ..Change::default()
                };
                announce(session, waiting::change(session, change, database_clock::now()));
                i64::try_from(changed).unwrap_or(i64::MAX)
            });
            pgrx::check_for_interrupts!();
        }
        Ok(count)
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
