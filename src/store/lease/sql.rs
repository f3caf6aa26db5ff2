//! `sched.lease`: what holders of a lease do with it, and what becomes of a run without one.

use std::collections::HashSet;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::lease::Status;
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::{job, lease, ledger};
use crate::pg::convert::{is_due, timestamp};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::{Column, Record};
use crate::pg::session::{Row, Rows, Statement};
use crate::pg::Session;
use crate::shmem::wakeup;
use crate::store::counted;
use crate::store::lease::end::{awaited_by, End, EndedRun, Ending, Failing, FinishResult};
use crate::store::low_water_marks;
use crate::store::timer::first_times;
use crate::{arguments, statement};

/// Makes retries claimable whose time, later than `after`, has come and that `caller` may act for, those with a time later than `since` before others;
/// how many, and in which queues.
pub fn promote_retries(
    session: &Session,
    after: Instant,
    since: Instant,
    now: Instant,
    limit: i64,
    caller: Oid,
) -> (i64, Vec<String>) {
    statement!(
        RETRIES_DUE = "queue/retries_due"(TIMESTAMPTZOID, INT8OID, OIDOID, TIMESTAMPTZOID, UUIDOID, TIMESTAMPTZOID)
    );
    let (time, id) = first_times::retries_behind(after, first_times::first_retry(session, now));
    let since = timestamp(since.max(time));
    let rows = RETRIES_DUE.run(session, arguments![timestamp(now), limit, caller, timestamp(time), id, since]);
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
    rows.first().map(|row| heartbeat_answer(&row, now))
}

/// Extends the leases that hold and whose owner `caller` may act for; each with whether its run was asked to stop.
pub fn heartbeat_many(
    session: &Session,
    runs: &[(Uuid, Uuid)],
    now: Instant,
    caller: Oid,
) -> Vec<((Uuid, Uuid), bool)> {
    statement!(HEARTBEAT_MANY = "lease/heartbeat_many"(UUIDARRAYOID, UUIDARRAYOID, TIMESTAMPTZOID, OIDOID));
    let (execution_ids, lease_tokens): (Vec<Uuid>, Vec<Uuid>) = runs.iter().copied().unzip();
    let rows = HEARTBEAT_MANY.run(session, arguments![execution_ids, lease_tokens, timestamp(now), caller]);
    low_water_marks::added_leases(sweep_times(&rows));
    let beaten =
        |row: Row| ((row.get_required("execution_id"), row.get_required("lease_token")), heartbeat_answer(&row, now).1);
    rows.iter().map(beaten).collect()
}

/// Of a lease that was extended: the execution's owner and whether the run is to stop: it was asked to, or has lasted too long.
pub fn heartbeat_answer(lease: &impl Record<Column>, now: Instant) -> (Oid, bool) {
    let is_over = lease.get(lease::RUN_UNTIL).is_some_and(|until| is_due(until, now));
    (lease.get_required(lease::OWNER), is_over || lease.get_required(lease::CANCEL_REQUESTED))
}

/// Ends the attempt that this lease is for; `None` where the lease is lost.
pub fn end(
    session: &Session,
    (execution_id, lease_token): (Uuid, Uuid),
    ending: Ending,
    now: Instant,
) -> Option<EndedRun> {
    match ending {
        Ending::Success { rows_affected, result } => {
            finish_success(session, execution_id, lease_token, rows_affected, result, now)
        }
        Ending::Failure { error_code, error_msg, decide } => {
            let run = read_lease(session, execution_id, lease_token)?;
            finish_failed(session, &[(execution_id, decide(&run))], error_code, error_msg, now).pop()
        }
    }
}

fn finish_success(
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
    rows.first().map(|row| ended_run(&row, now))
}

/// Locks a lease; `None` where it is lost.
fn read_lease(session: &Session, execution_id: Uuid, lease_token: Uuid) -> Option<Failing> {
    statement!(LEASE_READ = "lease/lease_read"(UUIDOID, UUIDOID));
    let rows = LEASE_READ.run(session, arguments![execution_id, lease_token]);
    rows.first().map(|row| Failing::of(&row, &row, row.get(job::RETRY_BACKOFF)))
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
    statement!(LEASES_STALE = "lease/leases_stale"(TEXTOID, TIMESTAMPTZOID, INT8OID, OIDOID, TIMESTAMPTZOID));
    let none_before = timestamp(first_times::before_leases(session, now));
    let rows = LEASES_STALE.run(session, arguments![job_name, timestamp(now), limit, caller, none_before]);
    // Those that are not free come again later.
    low_water_marks::added_leases(
        rows.iter().filter(|row| !row.get_required::<bool>("is_free")).map(|_| now.as_micros()),
    );
    let free = rows
        .iter()
        .filter(|row| row.get_required("is_free"))
        .map(|row| Failing::of(&row, &row, row.get(job::RETRY_BACKOFF)))
        .collect();
    Stale { free, seen: rows.len() }
}

/// Moves on leases that heartbeats have kept alive.
pub fn postpone_sweep(session: &Session, now: Instant) {
    statement!(LEASES_POSTPONE = "lease/leases_postpone"(TIMESTAMPTZOID, TIMESTAMPTZOID));
    let none_before = timestamp(first_times::before_leases(session, now));
    low_water_marks::added_leases(sweep_times(&LEASES_POSTPONE.run(session, arguments![timestamp(now), none_before])));
}

/// Has a stale run that could not be ended looked at again later.
pub fn postpone(session: &Session, execution_id: Uuid, now: Instant) {
    statement!(LEASE_POSTPONE = "lease/lease_postpone"(UUIDOID, TIMESTAMPTZOID));
    low_water_marks::added_leases(sweep_times(&LEASE_POSTPONE.run(session, arguments![execution_id, timestamp(now)])));
}

/// Ends runs as FAILED or CANCELLED.
pub fn finish_failed(
    session: &Session,
    runs: &[(Uuid, End)],
    error_code: &str,
    error_msg: &str,
    now: Instant,
) -> Vec<EndedRun> {
    statement!(
        FINISH_FAILED =
            "lease/finish_failed"(UUIDARRAYOID, TIMESTAMPTZARRAYOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTARRAYOID)
    );
    end_failed(&FINISH_FAILED, session, runs, [error_code, error_msg], now)
}

/// The same by a statement that takes these arguments and returns what finish_failed.sql does.
pub(in crate::store) fn end_failed(
    statement: &Statement,
    session: &Session,
    runs: &[(Uuid, End)],
    [error_code, error_msg]: [&str; 2],
    now: Instant,
) -> Vec<EndedRun> {
    let ids: Vec<Uuid> = runs.iter().map(|run| run.0).collect();
    let (retries, statuses): (Vec<Option<TimestampWithTimeZone>>, Vec<&str>) =
        runs.iter().map(|(_, end)| (end.retry_at(), end.status().as_str())).unzip();
    let rows = statement.run(session, arguments![ids, retries, error_code, error_msg, timestamp(now), statuses]);
    let terminal: HashSet<[u8; 16]> =
        runs.iter().filter(|(_, end)| matches!(end, End::Terminal)).map(|(id, _)| *id.as_bytes()).collect();
    let of = |row: Row| {
        let ended = ended_run(&row, now);
        let is_terminal = terminal.contains(ended.execution_id.as_bytes());
        if is_terminal {
            ended.failed_for_good(&row)
        } else {
            ended
        }
    };
    let ended: Vec<EndedRun> = rows.iter().map(of).collect();
    ended.iter().for_each(EndedRun::mark_retry);
    ended
}

/// A run that a statement has ended, by its row of the ledger as that is now.
fn ended_run(row: &Row, now: Instant) -> EndedRun {
    let retry_at = row.get(ledger::NEXT_RETRY_AT);
    let status: String = row.get_required(ledger::STATUS);
    counted::ended(
        row,
        Status::parse(&status).unwrap_or(Status::Failed),
        row.get(ledger::STARTED_AT),
        retry_at.is_some(),
        now,
    );
    EndedRun::of(row, retry_at, now)
}

/// Gives a run back until a time; its attempt does not count. `None` where its lease is lost.
pub fn snooze(
    session: &Session,
    (execution_id, lease_token): (Uuid, Uuid),
    until: Instant,
    now: Instant,
) -> Option<EndedRun> {
    statement!(SNOOZE = "lease/snooze"(UUIDOID, UUIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID));
    let rows = SNOOZE.run(session, arguments![execution_id, lease_token, timestamp(until), timestamp(now)]);
    let given_back = rows.first().map(|row| {
        if row.get_required("ends") {
            ended_run(&row, now)
        } else {
            EndedRun::of(&row, row.get(ledger::NEXT_RETRY_AT), now)
        }
    });
    given_back.iter().for_each(EndedRun::mark_retry);
    given_back
}

/// Tells the dispatcher that a run which `schedule_id` waited for has ended.
pub fn run_ended(session: &Session, schedule_id: i64, execution_id: Uuid, now: Instant) {
    statement!(SCHEDULE_RUN_ENDED = "schedule/schedule_run_ended"(INT8OID, UUIDOID, TIMESTAMPTZOID));
    let rows = SCHEDULE_RUN_ENDED.run(session, arguments![schedule_id, execution_id, timestamp(now)]);
    low_water_marks::added_changes(rows.iter().map(|row| row.get_required("change_id")));
}

/// Ends runs as SUCCESS; those that did not end and those that are awaited.
pub fn finish_success_many(session: &Session, runs: &[(Uuid, Uuid)], now: Instant, caller: Oid) -> Vec<FinishResult> {
    statement!(FINISH_SUCCESS_MANY = "lease/finish_success_many"(UUIDARRAYOID, UUIDARRAYOID, TIMESTAMPTZOID, OIDOID));
    let (execution_ids, lease_tokens): (Vec<Uuid>, Vec<Uuid>) = runs.iter().copied().unzip();
    let rows = FINISH_SUCCESS_MANY.run(session, arguments![execution_ids, lease_tokens, timestamp(now), caller]);
    counted::of_rows(&rows);
    rows.iter()
        .filter_map(|row| {
            let execution_id = row.get("execution_id")?;
            Some(FinishResult { execution_id, ended: row.get_required("ended"), awaited_by: row.get("awaited_by") })
        })
        .collect()
}

/// Locks a lease to the end of the transaction; the execution's owner, or `None` where the lease is lost.
pub fn lock(session: &Session, execution_id: Uuid, lease_token: Uuid) -> Option<Oid> {
    statement!(LEASE_LOCK = "lease/lease_lock"(UUIDOID, UUIDOID));
    LEASE_LOCK.run(session, arguments![execution_id, lease_token]).first().map(|row| row.get_required("owner"))
}

/// Cancels an execution that nobody runs, and tells the schedule that waits for its end; false where it is not waiting, or another
/// transaction has it in hand.
pub fn cancel_waiting(session: &Session, execution_id: Uuid, now: Instant) -> bool {
    statement!(CANCEL_WAITING = "lease/cancel_waiting"(UUIDOID, TIMESTAMPTZOID));
    let rows = CANCEL_WAITING.run(session, arguments![execution_id, timestamp(now)]);
    let Some(row) = rows.first() else { return false };
    counted::ended(&row, Status::Cancelled, None, false, now);
    if let Some(schedule_id) = awaited_by(&row) {
        run_ended(session, schedule_id, execution_id, now);
        wakeup::at_commit(now);
    }
    true
}

/// A run that failed for good although it was to be cancelled has been cancelled.
pub fn cancel_failed(session: &Session, execution_id: Uuid, now: Instant) {
    statement!(CANCEL_FAILED = "lease/cancel_failed"(UUIDOID, TIMESTAMPTZOID));
    CANCEL_FAILED.run(session, arguments![execution_id, timestamp(now)]);
}

/// Asks a run to stop; false where it does not run, or another transaction has it in hand.
pub fn cancel_running(session: &Session, execution_id: Uuid) -> bool {
    statement!(CANCEL_RUNNING = "lease/cancel_running"(UUIDOID));
    let rows = CANCEL_RUNNING.run(session, arguments![execution_id]);
    low_water_marks::added_leases(sweep_times(&rows));
    rows.len() > 0
}
