//! `enqueue`, `try_claim`, `claim`.

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::lease::{self, Claim};
use scheduler_core::Instant;

use crate::convert::{self, required, Zero};
use crate::dispatch;
use crate::error::{or_raise, Failure, Outcome};
use crate::guc;
use crate::jsonb::Jsonb;
use crate::store::execution::{self, Batch, Lease, NewExecution, QueueClaim, Terms};
use crate::store::home::{self, Home};
use crate::store::{job, key_lock, role, session, Session};
use crate::text::Text;
use crate::worker::wake;

use super::internal::{scope_key, uuid_v7};
use super::job::at_least_one;

/// An acknowledged claim or finish survives a crash, whatever `synchronous_commit` the client chose.
pub fn acknowledge_durably() {
    // SAFETY: sets a flag of the current transaction.
    unsafe { pg_sys::ForceSyncCommit() }
}

fn runner(runner_id: Option<Text>) -> Outcome<String> {
    match runner_id {
        Some(runner_id) => convert::name("runner_id", Some(runner_id)),
        // SAFETY: application_name is a C string that Postgres keeps.
        None => Ok(unsafe {
            let application = std::ffi::CStr::from_ptr(pg_sys::application_name).to_string_lossy();
            let pid = pg_sys::MyProcPid;
            format!("{application}/{pid}")
        }),
    }
}

/// The dispatcher is up when the lease may have gone stale.
fn wake_at(time: TimestampWithTimeZone) {
    if let Ok(time) = convert::instant("stale_after", time) {
        wake::at_commit(time);
    }
}

type ClaimRow = (
    String,
    Option<Uuid>,
    Option<Uuid>,
    Option<i64>,
    Option<i32>,
    Option<i32>,
    Option<TimestampWithTimeZone>,
    Option<Jsonb>,
);

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn try_claim(
    job_name: Option<Text>,
    plan_time: Option<TimestampWithTimeZone>,
    scope_kind: default!(Option<Text>, "'global'"),
    scope_id: default!(Option<Text>, "'global'"),
    runner_id: default!(Option<Text>, "NULL"),
    stale_timeout: default!(Option<Interval>, "NULL"),
    max_attempts: default!(Option<i32>, "NULL"),
    allow_stale_reentry: default!(Option<bool>, "NULL"),
) -> TableIterator<
    'static,
    (
        name!(outcome, String),
        name!(execution_id, Option<Uuid>),
        name!(lease_token, Option<Uuid>),
        name!(fence, Option<i64>),
        name!(attempt, Option<i32>),
        name!(max_attempts, Option<i32>),
        name!(stale_after, Option<TimestampWithTimeZone>),
        name!(payload, Option<Jsonb>),
    ),
> {
    let row: ClaimRow = or_raise((|| {
        let names = [
            convert::name("job_name", job_name)?,
            convert::name("scope_kind", scope_kind)?,
            convert::name("scope_id", scope_id)?,
        ];
        let plan_time = convert::instant("plan_time", required("plan_time", plan_time)?)?;
        let stale_timeout = convert::optional_duration("stale_timeout", stale_timeout, Zero::Refused)?;
        let max_attempts = max_attempts.map(|value| at_least_one("max_attempts", value)).transpose()?;
        let wish = Wish {
            caller: role::caller(),
            runner_id: runner(runner_id)?,
            stale_timeout,
            max_attempts,
            allow_stale_reentry,
        };
        let claimed = session(|session| {
            at_home(session, |session| claim_key(session, &names, plan_time, wish), Option::is_some)
        })?;
        Ok(match claimed {
            None => ("conflicted".to_owned(), None, None, None, None, None, None, None),
            Some((outcome, lease)) => {
                acknowledge_durably();
                wake_at(lease.stale_after);
                (
                    outcome.to_owned(),
                    Some(lease.execution_id),
                    Some(lease.lease_token),
                    Some(lease.fence),
                    Some(lease.attempt),
                    Some(lease.max_attempts),
                    Some(lease.stale_after),
                    Some(lease.payload),
                )
            }
        })
    })());
    TableIterator::once(row)
}

/// Hands out leases where this database may: `55000` in a copy. The first leases of a new extension make it the home.
fn at_home<R>(
    session: &Session,
    claim: impl FnOnce(&Session) -> Outcome<R>,
    any: impl FnOnce(&R) -> bool,
) -> Outcome<R> {
    let home = home::require(session)?;
    let claimed = claim(session)?;
    if home == Home::Nowhere && any(&claimed) {
        home::settle(session);
    }
    Ok(claimed)
}

/// What a caller of try_claim asked for.
struct Wish {
    caller: pg_sys::Oid,
    runner_id: String,
    stale_timeout: Option<i64>,
    max_attempts: Option<i32>,
    allow_stale_reentry: Option<bool>,
}

/// An execution as its job would have it; without one the caller owns it.
fn new_execution<'a>(
    job: Option<&'a job::Job>,
    key: Uuid,
    names: &'a [String; 3],
    plan_time: TimestampWithTimeZone,
    caller: pg_sys::Oid,
) -> NewExecution<'a> {
    let [job_name, scope_kind, scope_id] = names;
    NewExecution {
        key,
        job_name,
        scope_kind,
        scope_id,
        plan_time,
        queue: job.map_or("default", |job| job.queue.as_str()),
        priority: job.map_or(0, |job| job.priority),
        max_attempts: job.map_or(1, |job| job.max_attempts),
        allow_stale_reentry: job.is_none_or(|job| job.allow_stale_reentry),
        owner: job.map_or(caller, |job| job.owner),
    }
}

/// The job of this name, if it was defined; `42501` where it is another role's.
fn usable_job(session: &Session, job_name: &str, caller: pg_sys::Oid) -> Outcome<Option<job::Job>> {
    let job = job::read(session, job_name);
    if job.as_ref().is_some_and(|job| !role::may_act_for(caller, job.owner)) {
        return Err(Failure::not_owner("job", job_name));
    }
    Ok(job)
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn enqueue(
    job_name: Option<Text>,
    payload: default!(Option<Jsonb>, "'{}'"),
    plan_time: default!(Option<TimestampWithTimeZone>, "NULL"),
    scope_kind: default!(Option<Text>, "'adhoc'"),
    scope_id: default!(Option<Text>, "NULL"),
) -> Uuid {
    or_raise((|| {
        let names = [
            convert::name("job_name", job_name)?,
            convert::name("scope_kind", scope_kind)?,
            convert::name("scope_id", Some(scope_id.map_or_else(|| uuid_v7().to_string(), String::from)))?,
        ];
        let payload = required("payload", payload)?;
        let plan_time = convert::optional_instant("plan_time", plan_time)?.unwrap_or_else(convert::now);
        let caller = role::caller();
        let [job_name, scope_kind, scope_id] = &names;
        session(|session| {
            usable_job(session, job_name, caller)?;
            let key = scope_key(job_name, scope_kind, scope_id);
            let plan = convert::timestamp(plan_time);
            let batch = Batch {
                key,
                job_name,
                scope_kind,
                scope_id,
                plan_times: vec![plan],
                payload,
                origin: "enqueue",
                caller,
                schedule: None,
            };
            if let Some(id) = dispatch::insert(session, batch, convert::now()).ids.first() {
                return Ok(*id);
            }
            let Some(known) = execution::by_key(session, key, plan, convert::now()) else {
                return Err(Failure::new(
                    PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                    "could not serialize access due to concurrent update",
                    "Another transaction has just enqueued this execution: try the transaction again.",
                ));
            };
            if !role::may_act_for(caller, known.owner) {
                return Err(Failure::not_owner("an execution of job", job_name));
            }
            Ok(known.id)
        })
    })())
}

fn claim_key(
    session: &Session,
    names: &[String; 3],
    plan_time: Instant,
    wish: Wish,
) -> Outcome<Option<(&'static str, Lease)>> {
    let [job_name, scope_kind, scope_id] = names;
    let caller = wish.caller;
    let job = usable_job(session, job_name, caller)?;
    let job = job.as_ref();
    let key = scope_key(job_name, scope_kind, scope_id);
    let now = convert::now();
    let default_timeout =
        || job.and_then(|job| job.stale_timeout).unwrap_or_else(|| convert::interval(guc::stale_timeout()));
    let terms = Terms {
        runner_id: wish.runner_id,
        stale_timeout: wish.stale_timeout.map_or_else(default_timeout, convert::interval),
        max_attempts: wish.max_attempts,
        allow_stale_reentry: wish.allow_stale_reentry,
    };
    let plan = convert::timestamp(plan_time);
    let Some(mut known) = execution::by_key(session, key, plan, now) else {
        let Some(_lock) = key_lock::KeyLock::try_take(key, plan) else { return Ok(None) };
        let new = new_execution(job, key, names, plan, caller);
        return Ok(execution::claim_new(session, &new, terms, now).map(|lease| ("won", lease)));
    };
    if !role::may_act_for(caller, known.owner) {
        return Err(Failure::not_owner("an execution of job", job_name));
    }
    known.limits.max_attempts = terms.max_attempts.unwrap_or(known.limits.max_attempts);
    known.limits.allow_stale_reentry = terms.allow_stale_reentry.unwrap_or(known.limits.allow_stale_reentry);
    Ok(match lease::claim(known.state, known.limits) {
        Claim::Won => execution::claim_known(session, known, plan, terms, now).map(|lease| ("won", lease)),
        Claim::Stole if known.is_running() => {
            execution::claim_stale(session, known, terms, now).map(|lease| ("stole", lease))
        }
        Claim::Stole => execution::claim_known(session, known, plan, terms, now).map(|lease| ("stole", lease)),
        Claim::Conflicted => None,
    })
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn claim(
    queue: default!(Option<Text>, "'default'"),
    max_claims: default!(Option<i32>, "1"),
    runner_id: default!(Option<Text>, "NULL"),
    stale_timeout: default!(Option<Interval>, "NULL"),
) -> TableIterator<
    'static,
    (
        name!(execution_id, Uuid),
        name!(lease_token, Uuid),
        name!(fence, i64),
        name!(attempt, i32),
        name!(job_name, String),
        name!(scope_kind, String),
        name!(scope_id, String),
        name!(plan_time, TimestampWithTimeZone),
        name!(payload, Jsonb),
        name!(stale_after, TimestampWithTimeZone),
    ),
> {
    let rows = or_raise((|| {
        let stale_timeout = convert::optional_duration("stale_timeout", stale_timeout, Zero::Refused)?;
        let wanted = QueueClaim {
            queue: convert::queue(queue)?,
            limit: i64::from(at_least_one("max_claims", required("max_claims", max_claims)?)?),
            runner_id: runner(runner_id)?,
            stale_timeout: stale_timeout.map(convert::interval),
            default_stale_timeout: convert::interval(guc::stale_timeout()),
            caller: role::caller(),
        };
        let claim = |session: &Session| {
            dispatch::promote_retries_of(session, convert::now(), &wanted.queue, wanted.limit, wanted.caller);
            let rows = execution::claim(session, wanted, convert::now());
            let claimed: Vec<_> = rows
                .iter()
                .map(|row| {
                    (
                        row.must::<Uuid>(1),
                        row.must::<Uuid>(2),
                        row.must::<i64>(3),
                        row.must::<i32>(4),
                        row.must::<String>(5),
                        row.must::<String>(6),
                        row.must::<String>(7),
                        row.must::<TimestampWithTimeZone>(8),
                        row.must::<Jsonb>(9),
                        row.must::<TimestampWithTimeZone>(10),
                    )
                })
                .collect();
            Ok(claimed)
        };
        session(|session| at_home(session, claim, |claimed| !claimed.is_empty()))
    })());
    if !rows.is_empty() {
        acknowledge_durably();
        rows.iter().for_each(|row| wake_at(row.9));
    }
    TableIterator::new(rows)
}
