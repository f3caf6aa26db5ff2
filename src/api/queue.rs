//! `pause_queue`, `resume_queue`.

use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::dispatch;
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::{acknowledge_durably, convert, role, session};
use crate::shmem::wakeup;
use crate::store::queue::pause::{self, Rights};
use crate::store::queue::runner_queue::user_queue;
use crate::store::runner;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn pause_queue(queue: Option<Text>) {
    or_raise((|| {
        let (queue, caller) = (convert::queue(queue)?, role::caller());
        session(|session| {
            let may = |rights: Rights| rights.has_all_jobs && !rights.has_others_work;
            if !role::is_superuser(caller) && !may(pause::rights(session, &queue, caller)) {
                return Err(others_use(&queue));
            }
            pause::pause(session, &queue, caller);
            Ok(())
        })?;
        acknowledge_durably();
        Ok(())
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn resume_queue(queue: Option<Text>) {
    or_raise((|| -> Outcome<()> {
        let (queue, caller) = (convert::queue(queue)?, role::caller());
        session(|session| {
            if !role::is_superuser(caller) && !pause::rights(session, &queue, caller).has_all_jobs {
                return Err(others_use(&queue));
            }
            if pause::resume(session, &queue) {
                let mut queues = runner::all_waiting(session);
                queues.retain(|waiting| user_queue(waiting) == queue);
                queues.push(queue);
                dispatch::notify(session, queues);
                wakeup::at_commit(convert::now());
            }
            Ok(())
        })
    })());
}

fn others_use(queue: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("queue \"{queue}\" is not used by your own jobs only"),
        "Define jobs with a queue of their own, or ask a superuser.",
    )
}
