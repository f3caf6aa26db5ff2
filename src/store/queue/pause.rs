//! `sched.paused_queue`: queues of which nobody claims anything. A claim asks row by row (`is_paused_now`), which costs nothing while none is
//! paused, or by its statement.

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::Condition;
use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::queue::runner_queue::user_queue;
use crate::store::{low_water_marks, rare_rows};
use crate::{arguments, statement};

/// Whether a queue, or that of the jobs whose executions wait in it, is paused.
pub fn is_paused_now(schema: Oid, queue: &str, now: Instant) -> bool {
    rare_rows::with(schema, c"paused_queue", c"paused_queue_pkey", now, |paused| {
        paused.is_some_and(|paused| paused.find(&[Condition::equal(pg_sys::F_TEXTEQ, user_queue(queue))]))
    })
}

/// The same by a statement.
pub fn is_paused(session: &Session, queue: &str) -> bool {
    statement!(QUEUE_PAUSED = "queue/queue_paused"(TEXTOID));
    QUEUE_PAUSED.run(session, arguments![user_queue(queue)]).len() > 0
}

/// What a role has to do with a queue.
pub struct Rights {
    /// It may act for the owner of each of its jobs, and there is one.
    pub has_all_jobs: bool,
    /// Something of others waits or runs there.
    pub has_others_work: bool,
}

/// What `caller` has to do with it.
pub fn rights(session: &Session, queue: &str, caller: Oid) -> Rights {
    statement!(QUEUE_RIGHTS = "queue/queue_rights"(TEXTOID, OIDOID));
    let rows = QUEUE_RIGHTS.run(session, arguments![queue, caller]);
    rows.first().map_or(Rights { has_all_jobs: false, has_others_work: true }, |row| Rights {
        has_all_jobs: row.get_required("has_all_jobs"),
        has_others_work: row.get_required("has_others_work"),
    })
}

/// Has nobody claim from it any more.
pub fn pause(session: &Session, queue: &str, caller: Oid) {
    statement!(QUEUE_PAUSE = "queue/queue_pause"(TEXTOID, OIDOID));
    QUEUE_PAUSE.run(session, arguments![queue, caller]);
    low_water_marks::added_pause();
}

/// Has it claimed from again; whether it was paused.
pub fn resume(session: &Session, queue: &str) -> bool {
    statement!(QUEUE_RESUME = "queue/queue_resume"(TEXTOID));
    QUEUE_RESUME.run(session, arguments![queue]).len() > 0
}
