//! `sched.paused_queue`: queues of which nobody claims anything. A claim asks whether there is such a queue
//! (`is_any_paused_now`), which costs nothing while none is paused, and leaves the rest to statements.

use pgrx::pg_sys::{self, Oid};
use scheduler_core::Instant;

use crate::heap::Condition;
use crate::pg::Session;
use crate::store::queue::runner_queue::user_queue;
use crate::store::{low_water_marks, rare_rows};
use crate::{arguments, statement};

/// Whether a queue, or that of the jobs whose executions wait in it, is paused for anybody.
pub fn is_any_paused_now(schema: Oid, queue: &str, now: Instant) -> bool {
    rare_rows::with(schema, c"paused_queue", c"paused_queue_key", now, |paused| {
        paused.is_some_and(|paused| paused.find(&[Condition::equal(pg_sys::F_TEXTEQ, user_queue(queue))]))
    })
}

/// Whether executions of an owner are paused there; `None` = whether all are.
pub fn is_paused(session: &Session, queue: &str, owner: Option<Oid>) -> bool {
    statement!(QUEUE_PAUSED = "queue/queue_paused"(TEXTOID, OIDOID));
    QUEUE_PAUSED.run(session, arguments![user_queue(queue), owner]).len() > 0
}

/// Whether a pause by `caller`, who is no superuser, holds for all.
pub fn is_granted(session: &Session, queue: &str, caller: Oid) -> bool {
    statement!(QUEUE_GRANTED = "queue/queue_granted"(TEXTOID, OIDOID));
    QUEUE_GRANTED.run(session, arguments![queue, caller]).len() > 0
}

/// Whether a pause holds for all.
pub fn is_paused_for_all(session: &Session, queue: &str) -> bool {
    statement!(QUEUE_PAUSED_FOR_ALL = "queue/queue_paused_for_all"(TEXTOID));
    QUEUE_PAUSED_FOR_ALL.run(session, arguments![queue]).len() > 0
}

/// Has nobody claim from it any more: anything, or what belongs to those for whom the caller may act.
pub fn pause(session: &Session, queue: &str, caller: Oid, for_all: bool) {
    statement!(QUEUE_PAUSE = "queue/queue_pause"(TEXTOID, OIDOID, BOOLOID));
    QUEUE_PAUSE.run(session, arguments![queue, caller, for_all]);
    low_water_marks::added_pause();
}

/// Takes back what the caller may take back; whether there was something.
pub fn resume(session: &Session, queue: &str, caller: Oid, for_all: bool) -> bool {
    statement!(QUEUE_RESUME = "queue/queue_resume"(TEXTOID, OIDOID, BOOLOID));
    QUEUE_RESUME.run(session, arguments![queue, caller, for_all]).len() > 0
}
