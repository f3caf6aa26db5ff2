//! `sched.lease`: what holders of a lease do with it, and what becomes of a run without one.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::{Limits, Status};
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::{lease, ledger};
use crate::pg::convert::timestamp;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::{Column, Record};
use crate::pg::session::{Row, Rows};
use crate::pg::Session;
use crate::store::low_water_marks;
use crate::{arguments, statement};

/// Makes retries claimable whose time has come and that `caller` may act for; how many, and in which queues.
pub fn promote_retries(session: &Session, now: Instant, limit: i64, caller: Oid) -> (i64, Vec<String>) {
    statement!(RETRIES_DUE = "queue/retries_due"(TIMESTAMPTZOID, INT8OID, OIDOID));
    let rows = RETRIES_DUE.run(session, arguments![timestamp(now), limit, caller]);
    let Some(row) = rows.first() else { return (0, Vec::new()) };
    let queues: Vec<String> = row.get("queues").unwrap_or_default();
    let (priorities, plan_times): (Vec<i32>, Vec<TimestampWithTimeZone>) =
        (row.get("priorities").unwrap_or_default(), row.get("plan_times").unwrap_or_default());
    for (queue, (priority, plan_time)) in queues.iter().zip(priorities.into_iter().zip(plan_times)) {
        low_water_marks::added_to_queue(queue, priority, plan_time);
    }
    (row.get_required("count"), queues)
}

/// The same for those of one queue that a claim of `limit` executions would take first.
pub fn promote_retries_of(session: &Session, now: Instant, queue: &str, limit: i64, caller: Oid) {
    statement!(RETRIES_CLAIMABLE = "queue/retries_claimable"(TIMESTAMPTZOID, INT8OID, TEXTOID, OIDOID));
    for row in RETRIES_CLAIMABLE.run(session, arguments![timestamp(now), limit, queue, caller]).iter() {
        low_water_marks::added_ready(queue, &row);
    }
}

/// When leases that a statement has written are to be looked at.
fn sweep_times<'r>(rows: &'r Rows) -> impl Iterator<Item = TimestampWithTimeZone> + 'r {
    rows.iter().map(move |row| row.get_required("sweep_at"))
}

/// Extends a lease; the execution's owner and whether it was asked to stop, or `None` where the lease is lost.
pub fn heartbeat(
    session: &Session,
    execution_id: Uuid,
    lease_token: Uuid,
    stale_timeout: Option<Interval>,
    progress: Option<Jsonb>,
    now: Instant,
) -> Option<(Oid, bool)> {
    statement!(HEARTBEAT = "lease/heartbeat"(UUIDOID, UUIDOID, INTERVALOID, JSONBOID, TIMESTAMPTZOID));
    let rows = HEARTBEAT.run(session, arguments![execution_id, lease_token, stale_timeout, progress, timestamp(now)]);
    low_water_marks::added_leases(sweep_times(&rows));
    rows.first().map(|row| heartbeat_answer(&row))
}

/// Of a lease that was extended: the execution's owner and whether it was asked to stop.
pub fn heartbeat_answer(lease: &impl Record<Column>) -> (Oid, bool) {
    (lease.get_required(lease::OWNER), lease.get_required(lease::CANCEL_REQUESTED))
}

/// An execution that has just ended.
pub struct EndedRun {
    /// Who owns it.
    pub owner: Oid,
    /// The schedule that waits for its end.
    pub awaited_by: Option<i64>,
}

impl EndedRun {
    /// Its row of the ledger.
    pub fn of(entry: &impl Record<Column>) -> EndedRun {
        EndedRun { owner: entry.get_required(ledger::OWNER), awaited_by: awaited_by(entry) }
    }
}

/// The schedule that waits for an execution's end.
fn awaited_by(entry: &impl Record<Column>) -> Option<i64> {
    let awaited = entry.get_required(ledger::AWAITED);
    entry.get(ledger::SCHEDULE_ID).filter(|_| awaited)
}

/// Ends a run as SUCCESS; `None` where the lease is lost.
pub fn finish_success(
    session: &Session,
    execution_id: Uuid,
    lease_token: Uuid,
    rows_affected: Option<i64>,
    result: Jsonb,
    now: Instant,
) -> Option<EndedRun> {
    statement!(FINISH_SUCCESS = "lease/finish_success"(UUIDOID, UUIDOID, INT8OID, JSONBOID, TIMESTAMPTZOID));
    let rows =
        FINISH_SUCCESS.run(session, arguments![execution_id, lease_token, rows_affected, result, timestamp(now)]);
    rows.first().map(|row| EndedRun::of(&row))
}

/// A run that is about to fail: what decides its fate.
pub struct Failing {
    /// Which.
    pub execution_id: Uuid,
    /// What its attempts allow.
    pub limits: Limits,
    /// Who owns it.
    pub owner: Oid,
    /// Waits after each failed attempt.
    pub retry_backoff: Vec<Option<Interval>>,
    /// It was asked to stop.
    pub cancel_requested: bool,
}

impl Failing {
    fn of(row: &Row, execution_id: Uuid) -> Failing {
        Failing {
            execution_id,
            limits: Limits {
                attempt: row.get_required("attempt"),
                max_attempts: row.get_required("max_attempts"),
                allow_stale_reentry: row.get_required("allow_stale_reentry"),
            },
            owner: row.get_required("owner"),
            retry_backoff: row.get("retry_backoff").unwrap_or_default(),
            cancel_requested: row.get_required("cancel_requested"),
        }
    }
}

/// Locks a lease; `None` where it is lost.
pub fn read_lease(session: &Session, execution_id: Uuid, lease_token: Uuid) -> Option<Failing> {
    statement!(LEASE_READ = "lease/lease_read"(UUIDOID, UUIDOID));
    let rows = LEASE_READ.run(session, arguments![execution_id, lease_token]);
    rows.first().map(|row| Failing::of(&row, execution_id))
}

/// Leases that ran out.
pub struct Stale {
    /// Those that can be ended, locked.
    pub free: Vec<Failing>,
    /// How many were looked at: also those that somebody has in hand.
    pub seen: usize,
}

/// Locks up to `limit` leases that ran out, of a job or of all, that `caller` may end.
pub fn pick_stale(session: &Session, job_name: Option<&str>, now: Instant, limit: i64, caller: Oid) -> Stale {
    statement!(LEASES_STALE = "lease/leases_stale"(TEXTOID, TIMESTAMPTZOID, INT8OID, OIDOID));
    let rows = LEASES_STALE.run(session, arguments![job_name, timestamp(now), limit, caller]);
    // Those that are not free come again later.
    low_water_marks::added_leases(
        rows.iter().filter(|row| !row.get_required::<bool>("is_free")).map(|_| now.as_micros()),
    );
    let free = rows
        .iter()
        .filter(|row| row.get_required("is_free"))
        .map(|row| Failing::of(&row, row.get_required("execution_id")))
        .collect();
    Stale { free, seen: rows.len() }
}

/// Moves on leases that heartbeats have kept alive.
pub fn postpone_sweep(session: &Session, now: Instant) {
    statement!(LEASES_POSTPONE = "lease/leases_postpone"(TIMESTAMPTZOID));
    low_water_marks::added_leases(sweep_times(&LEASES_POSTPONE.run(session, arguments![timestamp(now)])));
}

/// Has a stale run that could not be ended looked at again later.
pub fn postpone(session: &Session, execution_id: Uuid, now: Instant) {
    statement!(LEASE_POSTPONE = "lease/lease_postpone"(UUIDOID, TIMESTAMPTZOID));
    low_water_marks::added_leases(sweep_times(&LEASE_POSTPONE.run(session, arguments![execution_id, timestamp(now)])));
}

/// A run that has just failed.
pub struct Failed {
    /// Which.
    pub execution_id: Uuid,
    /// The schedule that waits for its end, where this was the end.
    pub awaited_by: Option<i64>,
    /// The queue where it is claimable at once.
    pub claimable_in: Option<String>,
    /// When it is tried again.
    pub retry_at: Option<TimestampWithTimeZone>,
}

/// How a run ends that does not succeed.
#[derive(Clone, Copy)]
pub enum End {
    /// FAILED, to be tried again.
    Retry(Instant),
    /// FAILED for good.
    Terminal,
    /// CANCELLED.
    Cancelled,
}

/// Ends runs as FAILED or CANCELLED.
pub fn finish_failed(
    session: &Session,
    runs: &[(Uuid, End)],
    error_code: &str,
    error_msg: &str,
    now: Instant,
) -> Vec<Failed> {
    statement!(
        FINISH_FAILED =
            "lease/finish_failed"(UUIDARRAYOID, TIMESTAMPTZARRAYOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTARRAYOID)
    );
    let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
    let (retries, statuses): (Vec<Option<TimestampWithTimeZone>>, Vec<&str>) = runs
        .iter()
        .map(|(_, end)| match end {
            End::Retry(at) => (Some(timestamp(*at)), Status::Failed.as_str()),
            End::Terminal => (None, Status::Failed.as_str()),
            End::Cancelled => (None, Status::Cancelled.as_str()),
        })
        .unzip();
    let rows = FINISH_FAILED.run(session, arguments![ids, retries, error_code, error_msg, timestamp(now), statuses]);
    rows.iter()
        .map(|row| {
            let failed = Failed {
                execution_id: row.get_required("execution_id"),
                awaited_by: row.get("awaited_by"),
                claimable_in: row.get("claimable_in"),
                retry_at: row.get("retry_at"),
            };
            match (&failed.claimable_in, failed.retry_at) {
                (Some(queue), _) => low_water_marks::added_to_queue(
                    queue,
                    row.get_required("priority"),
                    row.get_required::<TimestampWithTimeZone>("plan_time"),
                ),
                (None, Some(retry_at)) => low_water_marks::added_retry(retry_at),
                (None, None) => {}
            }
            failed
        })
        .collect()
}

/// Tells the dispatcher that a run which `schedule_id` waited for has ended.
pub fn run_ended(session: &Session, schedule_id: i64, execution_id: Uuid, now: Instant) {
    statement!(SCHEDULE_RUN_ENDED = "schedule/schedule_run_ended"(INT8OID, UUIDOID, TIMESTAMPTZOID));
    SCHEDULE_RUN_ENDED.run(session, arguments![schedule_id, execution_id, timestamp(now)]);
}

/// A run of finish_success_many that needs something: it did not end, or somebody waits for its end.
pub struct FinishResult {
    /// Which.
    pub execution_id: Uuid,
    /// Its lease held, and it has ended.
    pub ended: bool,
    /// The schedule that waits for its end.
    pub awaited_by: Option<i64>,
}

/// Ends runs as SUCCESS; those that did not end and those that are awaited.
pub fn finish_success_many(session: &Session, runs: &[(Uuid, Uuid)], now: Instant, caller: Oid) -> Vec<FinishResult> {
    statement!(FINISH_SUCCESS_MANY = "lease/finish_success_many"(UUIDARRAYOID, UUIDARRAYOID, TIMESTAMPTZOID, OIDOID));
    let (execution_ids, lease_tokens): (Vec<Uuid>, Vec<Uuid>) = runs.iter().copied().unzip();
    let rows = FINISH_SUCCESS_MANY.run(session, arguments![execution_ids, lease_tokens, timestamp(now), caller]);
    rows.iter()
        .map(|row| FinishResult {
            execution_id: row.get_required("execution_id"),
            ended: row.get_required("ended"),
            awaited_by: row.get("awaited_by"),
        })
        .collect()
}

/// Locks a lease to the end of the transaction; the execution's owner, or `None` where the lease is lost.
pub fn lock(session: &Session, execution_id: Uuid, lease_token: Uuid) -> Option<Oid> {
    statement!(LEASE_LOCK = "lease/lease_lock"(UUIDOID, UUIDOID));
    LEASE_LOCK.run(session, arguments![execution_id, lease_token]).first().map(|row| row.get_required("owner"))
}

/// Cancels an execution that nobody runs; the schedule that waits for its end, or `None` where it is not waiting.
pub fn cancel_waiting(session: &Session, execution_id: Uuid, now: Instant) -> Option<Option<i64>> {
    statement!(CANCEL_WAITING = "lease/cancel_waiting"(UUIDOID, TIMESTAMPTZOID));
    let rows = CANCEL_WAITING.run(session, arguments![execution_id, timestamp(now)]);
    rows.first().map(|row| awaited_by(&row))
}

/// Asks a run to stop; false where it does not run.
pub fn cancel_running(session: &Session, execution_id: Uuid) -> bool {
    statement!(CANCEL_RUNNING = "lease/cancel_running"(UUIDOID));
    let rows = CANCEL_RUNNING.run(session, arguments![execution_id]);
    low_water_marks::added_leases(sweep_times(&rows));
    rows.len() > 0
}
