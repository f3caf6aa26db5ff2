//! What runners of SQL jobs, and the dispatchers that see to them, read and write beside what every claimer does. By statements, but for
//! where the next run is (`queue::runner_heads`): none of it is on the way of anybody else.

pub mod current;

use pgrx::datum::{Interval, Uuid};
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::heap::layouts::job;
use crate::pg::jsonb::Jsonb;
use crate::pg::record::Record;
use crate::pg::session::Row;
use crate::pg::Session;
use crate::store::fast_path;
use crate::store::lease::end::{End, EndedRun, Failing};
use crate::store::lease::sql as leases;
use crate::store::queue::{runner_heads, runner_queue};
use crate::{arguments, statement};

/// An owner for whom something waits.
pub struct OwnerWaiting {
    pub owner: Oid,
    /// How much, as far as was counted.
    pub count: usize,
}

/// The owners for whom something waits that is not paused, each counted up to `most`.
pub fn owners_waiting(session: &Session, most: usize) -> Vec<OwnerWaiting> {
    let mut owners: Vec<OwnerWaiting> = Vec::new();
    for (queue, waiting) in waiting(session, None, most) {
        let Some(owner) = runner_queue::owner(&queue) else { continue };
        match owners.iter_mut().find(|known| known.owner == owner) {
            Some(known) => known.count = known.count.saturating_add(waiting).min(most),
            None => owners.push(OwnerWaiting { owner, count: waiting }),
        }
    }
    owners
}

/// The queues in which something waits for this owner's runners that is not paused, the one with what comes first before the others.
pub fn queues_waiting(session: &Session, owner: Oid, now: Instant) -> Vec<String> {
    let found = fast_path::open_in(session, |schema| runner_heads::queues_waiting(schema, owner, now));
    found.unwrap_or_else(|| waiting(session, Some(owner), 0).into_iter().map(|(queue, _)| queue).collect())
}

/// The queues of all runners in which something waits that is not paused.
pub fn all_waiting(session: &Session) -> Vec<String> {
    waiting(session, None, 0).into_iter().map(|(queue, _)| queue).collect()
}

/// Queues of runners in which something waits, of one owner or of all, and how much, up to `most`.
fn waiting(session: &Session, owner: Option<Oid>, most: usize) -> Vec<(String, usize)> {
    statement!(OWNERS_WAITING = "runner/owners_waiting"(TEXTOID, TEXTOID, TEXTOID, INT8OID));
    let [least, greatest] = runner_queue::bounds(owner);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = OWNERS_WAITING.run(session, arguments![prefix_of(owner), least, greatest, most]);
    let count = |waiting: i64| usize::try_from(waiting).unwrap_or(0);
    rows.iter().map(|row| (row.get_required("queue"), count(row.get_required("waiting")))).collect()
}

fn prefix_of(owner: Option<Oid>) -> String {
    owner.map_or_else(|| runner_queue::PREFIX.to_owned(), runner_queue::prefix_of)
}

/// What a runner has to know of an execution that it has claimed.
pub struct RunRow {
    pub owner: Oid,
    pub schedule_name: Option<String>,
    /// Its job, if it still exists.
    pub job: Option<RunJob>,
}

/// The job of a run, as it is now.
pub struct RunJob {
    pub kind: String,
    pub owner: Oid,
    pub command: Option<String>,
    /// An object of scalars.
    pub settings: Jsonb,
    pub own_transactions: bool,
    pub run_timeout: Option<Interval>,
}

/// The execution and its job.
pub fn read_run(session: &Session, execution_id: Uuid) -> Option<RunRow> {
    statement!(RUN_READ = "runner/run_read"(UUIDOID));
    RUN_READ.run(session, arguments![execution_id]).first().map(|row| RunRow {
        owner: row.get_required("owner"),
        schedule_name: row.get("schedule_name"),
        job: RunJob::of(&row),
    })
}

/// Says of a run that was just claimed that what it does may be committed before its end.
pub fn commits_by_itself(session: &Session, execution_id: Uuid) {
    statement!(RUN_COMMITS = "runner/run_commits"(UUIDOID));
    RUN_COMMITS.run(session, arguments![execution_id]);
}

/// The job of this name.
pub fn read_job(session: &Session, job_name: &str) -> Option<RunJob> {
    statement!(JOB_COMMAND = "runner/job_command"(TEXTOID));
    JOB_COMMAND.run(session, arguments![job_name]).first().and_then(|row| RunJob::of(&row))
}

impl RunJob {
    fn of(row: &Row) -> Option<RunJob> {
        row.get::<Oid>("job_owner").map(|owner| RunJob {
            owner,
            kind: row.get_required("kind"),
            command: row.get("command"),
            settings: row.get_required("settings"),
            own_transactions: row.get_required("own_transactions"),
            run_timeout: row.get("run_timeout"),
        })
    }
}

/// The runs that have a lease of a runner, and whether each was asked to stop.
pub fn runs(session: &Session) -> Vec<(Uuid, bool)> {
    statement!(RUNS = "runner/runs"());
    let rows = RUNS.run(session, arguments![]);
    rows.iter().map(|row| (row.get_required("execution_id"), row.get_required("cancel_requested"))).collect()
}

/// Locks those of these runs that nobody has in hand.
pub fn lock_runs(session: &Session, execution_ids: Vec<Uuid>) -> Vec<Failing> {
    statement!(RUNS_LOCK = "runner/runs_lock"(UUIDARRAYOID));
    let rows = RUNS_LOCK.run(session, arguments![execution_ids]);
    rows.iter().map(|row| Failing::of(&row, &row, row.get(job::RETRY_BACKOFF))).collect()
}

/// Locks up to `limit` executions that wait for a runner of this owner.
pub fn lock_waiting(session: &Session, owner: Oid, limit: i64) -> Vec<Failing> {
    statement!(REFUSABLE = "runner/refusable"(TEXTOID, TEXTOID, TEXTOID, INT8OID));
    let [least, greatest] = runner_queue::bounds(Some(owner));
    let rows = REFUSABLE.run(session, arguments![runner_queue::prefix_of(owner), least, greatest, limit]);
    rows.iter().map(|row| Failing::of(&row, &row, row.get(job::RETRY_BACKOFF))).collect()
}

/// Fails executions that wait, without a run.
pub fn refuse(
    session: &Session,
    runs: &[(Uuid, End)],
    error_code: &str,
    error_msg: &str,
    now: Instant,
) -> Vec<EndedRun> {
    statement!(
        REFUSE = "runner/refuse"(UUIDARRAYOID, TIMESTAMPTZARRAYOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTARRAYOID)
    );
    leases::end_failed(&REFUSE, session, runs, [error_code, error_msg], now)
}
