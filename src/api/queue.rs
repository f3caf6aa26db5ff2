//! `pause_queue`, `resume_queue`.

use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::dispatch;
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::{acknowledge_durably, convert, role, session, Session};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::queue::pause;
use crate::store::queue::runner_queue::user_queue;
use crate::store::runner;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn pause_queue(queue: Option<Text>) {
    or_raise((|| {
        let (queue, caller) = (convert::queue(queue)?, role::caller());
        session(|session| pause::pause(session, &queue, caller, may_pause_all(session, &queue, caller)));
        acknowledge_durably();
        Ok(())
    })());
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn resume_queue(queue: Option<Text>) {
    or_raise((|| -> Outcome<()> {
        let (queue, caller) = (convert::queue(queue)?, role::caller());
        session(|session| {
            let for_all = may_pause_all(session, &queue, caller);
            if pause::resume(session, &queue, caller, for_all) {
                let mut queues = runner::all_waiting(session);
                queues.retain(|waiting| user_queue(waiting) == queue);
                queues.push(queue);
                dispatch::notify(session, queues);
                wakeup::at_commit(database_clock::now());
            } else if !for_all && pause::is_paused_for_all(session, &queue) {
                return Err(paused_for_all(&queue));
            }
            Ok(())
        })
    })());
}

/// Whether a pause by this role holds for all executions of the queue.
fn may_pause_all(session: &Session, queue: &str, caller: pg_sys::Oid) -> bool {
    role::is_superuser(caller) || pause::is_granted(session, queue, caller)
}

fn paused_for_all(queue: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("queue \"{queue}\" is paused for all executions"),
        "Ask a superuser, or a role with sched.grant_queue for this queue, to resume it.",
    )
}
