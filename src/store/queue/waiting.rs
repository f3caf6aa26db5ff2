//! Executions that wait, in `ready` or `retry`: they are locked, changed, cancelled.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::counted;
use crate::store::low_water_marks;
use crate::store::queue::enqueue::Added;
use crate::{arguments, statement};

/// An execution that waits, locked.
pub struct WaitingExecution {
    /// Which.
    pub id: Uuid,
    /// The hash of its job and scope.
    pub key: Uuid,
    /// Who owns it.
    pub owner: Oid,
    queue: String,
    retry_at: Option<TimestampWithTimeZone>,
}

/// Where these wait, for those who are to hear of them when they are not locked any more: who passed over one meanwhile may wait for it.
pub fn places<'a>(waiting: impl Iterator<Item = &'a WaitingExecution>) -> Added {
    let mut places = Added::default();
    waiting.for_each(|one| places.add(one.queue.clone(), one.retry_at));
    places
}

/// Locks those of these executions that wait and that nobody has in hand, to the end of the transaction.
pub fn lock(session: &Session, execution_ids: Vec<Uuid>) -> Vec<WaitingExecution> {
    statement!(WAITING_LOCK = "queue/waiting_lock"(UUIDARRAYOID));
    let rows = WAITING_LOCK.run(session, arguments![execution_ids]);
    rows.iter()
        .map(|row| WaitingExecution {
            id: row.get_required("id"),
            key: row.get_required("key"),
            owner: row.get_required("owner"),
            queue: row.get_required("queue"),
            retry_at: row.get("retry_at"),
        })
        .collect()
}

/// What executions that wait are to be.
#[derive(Default)]
pub struct Change<'a> {
    /// Which, each once.
    pub execution_ids: Vec<Uuid>,
    /// What each carries; `None` = as it was.
    pub payloads: Vec<Option<Jsonb>>,
    /// When each can be claimed; `None`: see `no_time_is_at_once`.
    pub run_ats: Vec<Option<TimestampWithTimeZone>>,
    /// No time means at once; else it means as it was.
    pub no_time_is_at_once: bool,
    /// The priority of all; `None` = as it was.
    pub priority: Option<i32>,
    /// The queue of all, as users see it; `None` = as it was.
    pub queue: Option<&'a str>,
    /// How many attempts each may have; `None` = as it was.
    pub max_attempts: Option<i32>,
}

/// Changes executions that are locked; where they wait then.
pub fn change(session: &Session, change: Change, now: Instant) -> Added {
    statement!(
        WAITING_CHANGE = "queue/waiting_change"(
            UUIDARRAYOID,
            JSONBARRAYOID,
            TIMESTAMPTZARRAYOID,
            BOOLOID,
            INT4OID,
            TIMESTAMPTZOID,
            TEXTOID,
            INT4OID
        )
    );
    let Change { execution_ids, payloads, run_ats, no_time_is_at_once, priority, queue, max_attempts } = change;
    let arguments =
        arguments![execution_ids, payloads, run_ats, no_time_is_at_once, priority, timestamp(now), queue, max_attempts];
    let rows = WAITING_CHANGE.run(session, arguments);
    let mut added = Added::default();
    for row in rows.iter() {
        let (queue, retry_at): (String, Option<TimestampWithTimeZone>) =
            (row.get_required("queue"), row.get("retry_at"));
        match retry_at {
            None => low_water_marks::added_ready(&queue, &row),
            Some(retry_at) => low_water_marks::added_retry(retry_at),
        }
        added.add(queue, retry_at);
    }
    added
}

/// Which of the executions that wait are meant.
pub struct Wanted<'a> {
    /// Of this job; `None` = of all.
    pub job_name: Option<&'a str>,
    /// Of this queue, as users see it; `None` = of all.
    pub queue: Option<&'a str>,
    /// Of this scope; `None` = of all.
    pub scope_id: Option<&'a str>,
    /// How many at most.
    pub limit: i64,
    /// Whose executions these may be.
    pub caller: Oid,
}

/// What came of cancelling what waits.
#[derive(Default)]
pub struct CancelledExecutions {
    /// How many.
    pub count: i64,
    /// Those that a schedule waits for, with the schedule.
    pub awaited: Vec<(i64, Uuid)>,
}

/// How many attempts an execution has had.
pub fn attempts_used(session: &Session, execution_id: Uuid) -> i32 {
    statement!(WAITING_ATTEMPTS = "queue/waiting_attempts"(UUIDOID));
    WAITING_ATTEMPTS.run(session, arguments![execution_id]).first().map_or(0, |row| row.get_required("attempt"))
}

/// What waits and nobody has in hand, locked.
pub fn find(session: &Session, wanted: &Wanted) -> Vec<Uuid> {
    statement!(WAITING_FIND = "queue/waiting_find"(TEXTOID, TEXTOID, TEXTOID, INT8OID, OIDOID));
    let arguments = arguments![wanted.job_name, wanted.queue, wanted.scope_id, wanted.limit, wanted.caller];
    let found = WAITING_FIND.run(session, arguments);
    found.first().and_then(|row| row.get("execution_ids")).unwrap_or_default()
}

/// Cancels what waits and nobody has in hand.
pub fn cancel(session: &Session, wanted: &Wanted, now: Instant) -> CancelledExecutions {
    let found = find(session, wanted);
    statement!(WAITING_CANCEL = "queue/waiting_cancel"(UUIDARRAYOID, TIMESTAMPTZOID));
    let rows = WAITING_CANCEL.run(session, arguments![found, timestamp(now)]);
    counted::of_rows(&rows);
    rows.first().map_or_else(CancelledExecutions::default, |row| {
        let (ids, schedules): (Vec<Uuid>, Vec<i64>) =
            (row.get("awaited").unwrap_or_default(), row.get("awaited_by").unwrap_or_default());
        CancelledExecutions { count: row.get_required("count"), awaited: schedules.into_iter().zip(ids).collect() }
    })
}
