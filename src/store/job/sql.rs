//! `sched.job`, by statements.

use pgrx::datum::Interval;
use pgrx::pg_sys::Oid;
use scheduler_core::job::Kind;
use scheduler_core::{Instant, Keyword};

use crate::heap::layouts::job;
use crate::pg::convert::timestamp;
use crate::pg::error::{raise, Failure};
use crate::pg::jsonb::Jsonb;
use crate::pg::record::{Column, Record};
use crate::pg::Session;
use crate::store::queue::runner_queue::is_runner_queue;
use crate::store::{counted, identity, low_water_marks};
use crate::{arguments, statement};

/// Whether runs of a job of this kind are done by whoever dispatches them.
pub fn is_delivered_when_fired(kind: &str) -> bool {
    Kind::parse(kind).is_some_and(Kind::is_delivered_when_fired)
}

/// What a claim needs to know of a job.
#[derive(Clone)]
pub struct Job {
    /// The role that defined it.
    pub owner: Oid,
    /// Where its executions wait: its queue, or that of the runners for its owner.
    pub ready_queue: String,
    /// Higher goes first.
    pub priority: i32,
    /// Attempts an execution may have.
    pub max_attempts: i32,
    /// Whether a stale run may be taken over.
    pub allow_stale_reentry: bool,
    /// Length of a lease; `None` = the setting.
    pub stale_timeout: Option<Interval>,
    /// Longest run.
    pub run_timeout: Option<Interval>,
    /// Its runs are done by whoever dispatches them.
    pub delivered_when_fired: bool,
    /// Its payload is what a notification carries.
    pub notifies: bool,
    /// Its runs are done by a runner of the server.
    pub run_by_server: bool,
}

/// A job as define_job writes it.
#[derive(Clone)]
pub struct Definition {
    /// Its name.
    pub job_name: String,
    /// How it is run.
    pub kind: Kind,
    /// What is run, where the kind needs it.
    pub command: Option<String>,
    /// Where its executions wait.
    pub queue: String,
    /// Attempts an execution may have.
    pub max_attempts: i32,
    /// Waits after each failed attempt.
    pub retry_backoff: Vec<Interval>,
    /// Longest run.
    pub run_timeout: Option<Interval>,
    /// Length of a lease; `None` = the setting.
    pub stale_timeout: Option<Interval>,
    /// Whether a stale run may be taken over.
    pub allow_stale_reentry: bool,
    /// Higher goes first.
    pub priority: i32,
    /// Of kind sql: whether each statement is a transaction of its own.
    pub own_transactions: bool,
    /// Of kind sql: settings for a run.
    pub settings: Jsonb,
}

/// The job of this name.
pub fn read(session: &Session, job_name: &str) -> Option<Job> {
    statement!(JOB_READ = "job/job_read"(TEXTOID));
    JOB_READ.run(session, arguments![job_name]).first().map(|row| Job::of(&row))
}

/// The job of this name, which nobody can drop before the transaction ends.
pub fn read_and_keep(session: &Session, job_name: &str) -> Option<Job> {
    statement!(JOB_KEEP = "job/job_keep"(TEXTOID));
    JOB_KEEP.run(session, arguments![job_name]).first().map(|row| Job::of(&row))
}

/// Names of jobs that the caller may use, as long as a name but for so many letters.
pub fn names_near(session: &Session, name: &str, letters: i32, caller: Oid) -> Vec<String> {
    statement!(JOB_NAMES_NEAR = "job/job_names_near"(TEXTOID, INT4OID, OIDOID));
    JOB_NAMES_NEAR
        .run(session, arguments![name, letters, caller])
        .iter()
        .map(|row| row.get_required("job_name"))
        .collect()
}

impl Job {
    /// A row of `sched.job`.
    pub fn of(row: &impl Record<Column>) -> Job {
        let kind: String = row.get_required(job::KIND);
        Job {
            owner: row.get_required(job::OWNER),
            ready_queue: row.get_required(job::READY_QUEUE),
            priority: row.get_required(job::PRIORITY),
            max_attempts: row.get_required(job::MAX_ATTEMPTS),
            allow_stale_reentry: row.get_required(job::ALLOW_STALE_REENTRY),
            stale_timeout: row.get(job::STALE_TIMEOUT),
            run_timeout: row.get(job::RUN_TIMEOUT),
            delivered_when_fired: is_delivered_when_fired(&kind),
            notifies: kind == Kind::Notify.as_str(),
            run_by_server: Kind::parse(&kind).is_some_and(Kind::is_run_by_server),
        }
    }
}

/// The job of this name, locked so that no schedule can begin to use it.
pub fn lock(session: &Session, job_name: &str) -> Option<Job> {
    statement!(JOB_LOCK = "job/job_lock"(TEXTOID));
    JOB_LOCK.run(session, arguments![job_name]).first().map(|row| Job::of(&row))
}

/// The job of this name, locked against other changes, and whether schedule_sql knows it.
pub fn lock_of_pair(session: &Session, job_name: &str) -> Option<(Job, bool)> {
    statement!(JOB_LOCK_PAIR = "job/job_lock_pair"(TEXTOID));
    JOB_LOCK_PAIR.run(session, arguments![job_name]).first().map(|row| (Job::of(&row), row.get_required("sql_pair")))
}

/// Has schedule_sql know the job.
pub fn set_pair(session: &Session, job_name: &str) {
    statement!(JOB_PAIR_SET = "job/job_pair_set"(TEXTOID));
    JOB_PAIR_SET.run(session, arguments![job_name]);
}

/// Owner and definition of the job of this name, locked against other definitions.
pub fn lock_definition(session: &Session, job_name: &str) -> Option<(Oid, Definition)> {
    statement!(JOB_DEFINITION = "job/job_definition"(TEXTOID));
    JOB_DEFINITION.run(session, arguments![job_name]).first().map(|row| {
        let kind: String = row.get_required("kind");
        let waits: Vec<Option<Interval>> = row.get_required("retry_backoff");
        let definition = Definition {
            job_name: job_name.to_owned(),
            kind: Kind::parse(&kind).unwrap_or_else(|| raise(Failure::internal(format!("unknown kind \"{kind}\"")))),
            command: row.get("command"),
            queue: row.get_required("queue"),
            max_attempts: row.get_required("max_attempts"),
            retry_backoff: waits.into_iter().flatten().collect(),
            run_timeout: row.get("run_timeout"),
            stale_timeout: row.get("stale_timeout"),
            allow_stale_reentry: row.get_required("allow_stale_reentry"),
            priority: row.get_required("priority"),
            own_transactions: row.get_required("own_transactions"),
            settings: row.get_required("settings"),
        };
        (row.get_required("owner"), definition)
    })
}

/// A job that is locked, to be written.
pub struct Before {
    /// Its owner, who may have been dropped.
    pub owner: Oid,
    ready_queue: String,
    kind: String,
}

impl Before {
    /// Whether it is of this kind.
    pub fn is_of(&self, kind: Kind) -> bool {
        self.kind == kind.as_str()
    }
}

/// A schedule of the job whose payload has more bytes than this, and how many.
pub fn long_payload(session: &Session, job_name: &str, most: usize) -> Option<(String, i32)> {
    statement!(JOB_LONG_PAYLOAD = "job/job_long_payload"(TEXTOID, INT4OID));
    let rows = JOB_LONG_PAYLOAD.run(session, arguments![job_name, i32::try_from(most).ok()]);
    rows.first().map(|row| (row.get_required("schedule_name"), row.get_required("size")))
}

/// The job of this name, locked against other definitions, if `caller` may change it.
pub fn lock_own(session: &Session, job_name: &str, caller: Oid) -> Option<Before> {
    statement!(JOB_READY_QUEUE = "job/job_ready_queue"(TEXTOID, OIDOID));
    JOB_READY_QUEUE.run(session, arguments![job_name, caller]).first().map(|row| Before {
        owner: row.get_required("owner"),
        ready_queue: row.get_required("ready_queue"),
        kind: row.get_required("kind"),
    })
}

/// What writing a job led to.
pub struct Written {
    /// How many schedules are looked at again because of it.
    pub rearmed: usize,
    /// Queues in which something became claimable.
    pub queues: Vec<String>,
}

/// Creates the job, or replaces the one that is locked; `None` where somebody has made it meanwhile. With its first job a database is a home.
/// Where `takes`, the caller becomes the owner of the one that is replaced.
pub fn write(session: &Session, job: &Definition, caller: Oid, takes: bool, before: Option<Before>) -> Option<Written> {
    let is_delivered = job.kind.is_delivered_when_fired();
    statement!(
        JOB_WRITE = "job/job_write"(
            TEXTOID,
            TEXTOID,
            TEXTOID,
            TEXTOID,
            INT4OID,
            INTERVALARRAYOID,
            INTERVALOID,
            INTERVALOID,
            BOOLOID,
            INT4OID,
            REGROLEOID,
            BOOLOID,
            JSONBOID,
            OIDOID,
            BOOLOID
        )
    );
    let rows = JOB_WRITE.run(
        session,
        arguments![
            job.job_name.as_str(),
            job.kind.as_str(),
            job.command.clone(),
            job.queue.as_str(),
            job.max_attempts,
            job.retry_backoff.clone(),
            job.run_timeout,
            job.stale_timeout,
            job.allow_stale_reentry,
            job.priority,
            caller,
            job.own_transactions,
            job.settings.clone(),
            before.as_ref().map(|before| before.owner),
            takes
        ],
    );
    let (was_unusable, now_in): (bool, String) =
        rows.first().map(|row| (row.get_required("was_unusable"), row.get_required("ready_queue")))?;
    identity::settle(session);
    if takes {
        forget_users(session, &job.job_name, caller);
    }
    let rearmed = rearm(session, &job.job_name, was_unusable);
    let is_other_room = match before {
        None => is_runner_queue(&now_in),
        Some(Before { ready_queue: queue, kind, .. }) => {
            let was_delivered = is_delivered_when_fired(&kind);
            (queue != now_in && (is_runner_queue(&now_in) || is_runner_queue(&queue)))
                || (was_delivered && !is_delivered)
        }
    };
    let queues = if is_other_room { reroute(session, Some(&job.job_name)) } else { Vec::new() };
    Some(Written { rearmed, queues })
}

/// Has schedules of a job looked at again, those that are parked or all; how many.
fn rearm(session: &Session, job_name: &str, all: bool) -> usize {
    statement!(JOB_REARM = "job/job_rearm"(TEXTOID, BOOLOID));
    let changes = JOB_REARM.run(session, arguments![job_name, all]);
    low_water_marks::added_changes(changes.iter().map(|row| row.get_required("change_id")));
    changes.len()
}

/// Gives a job that is locked, and what waits of it, to another role.
pub fn hand_over(session: &Session, job_name: &str, before: Oid, owner: Oid) -> HandedOver {
    statement!(JOB_HAND_OVER = "job/job_hand_over"(TEXTOID, REGROLEOID, REGROLEOID));
    let rows = JOB_HAND_OVER.run(session, arguments![job_name, owner, before]);
    let left = rows.first().map_or(0, |row| row.get_required("left_over"));
    forget_users(session, job_name, owner);
    HandedOver {
        written: Written { rearmed: rearm(session, job_name, true), queues: reroute(session, Some(job_name)) },
        left,
    }
}

/// The owner of a job, which stays that until the end of the transaction.
pub fn share(session: &Session, job_name: &str) -> Option<Oid> {
    statement!(JOB_SHARE = "job/job_share"(TEXTOID));
    JOB_SHARE.run(session, arguments![job_name]).first().map(|row| row.get_required("owner"))
}

/// A job that another role has got.
pub struct HandedOver {
    /// What that leads to.
    pub written: Written,
    /// How many executions keep their owner.
    pub left: i64,
}

/// Takes from other roles what they were given by the owner that a job had: grants to enqueue it, and alerts that it gets of their schedules.
fn forget_users(session: &Session, job_name: &str, owner: Oid) {
    statement!(JOB_FORGET_USERS = "job/job_forget_users"(TEXTOID, OIDOID));
    JOB_FORGET_USERS.run(session, arguments![job_name, owner]);
}

/// Moves what waits between the queues of users and those of runners, of a job or of all, to where its job is now; in which queues something
/// became claimable.
pub fn reroute(session: &Session, job_name: Option<&str>) -> Vec<String> {
    statement!(JOB_REROUTE = "job/job_reroute"(TEXTOID));
    low_water_marks::added_rows(&JOB_REROUTE.run(session, arguments![job_name]))
}

/// Deletes the job.
pub fn delete(session: &Session, job_name: &str) {
    statement!(JOB_DROP = "job/job_drop"(TEXTOID));
    JOB_DROP.run(session, arguments![job_name]);
}

/// Cancels executions of a job that nobody runs, and has those that somebody runs be the last of theirs.
pub fn cancel_pending(session: &Session, job_name: &str, now: Instant) {
    statement!(JOB_CANCEL_PENDING = "job/job_cancel_pending"(TEXTOID, TIMESTAMPTZOID));
    counted::of_rows(&JOB_CANCEL_PENDING.run(session, arguments![job_name, timestamp(now)]));
}

/// One schedule that uses the job.
pub fn user(session: &Session, job_name: &str) -> Option<String> {
    statement!(JOB_USERS = "job/job_users"(TEXTOID));
    JOB_USERS.run(session, arguments![job_name]).first().map(|row| row.get_required("schedule_name"))
}
