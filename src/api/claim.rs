//! `try_claim`, `claim`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use pgrx::datum::{Interval, TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::{PgLogLevel, PgSqlErrorCode};
use scheduler_core::lease::{self, Claim, CONFLICTED};
use scheduler_core::{Instant, Keyword};

use crate::guc;
use crate::pg::convert::{self, required, Zero};
use crate::pg::error::{self, or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{acknowledge_durably, as_owner, role, Owner};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::execution::{KeyLookup, Lease, LeaseOptions, NewExecution, QueueClaim};
use crate::store::identity::{self, Home};
use crate::store::job;
use crate::store::lease::Ledger;
use crate::store::queue::{self, QueueClaimed};
use crate::store::shard;

use crate::api::job::{at_least_one, job_for_caller};
use crate::api::result::TableIterator;
use crate::api::sql_support::scope_key;

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
        wakeup::at_commit(time);
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
    Option<Interval>,
    Option<String>,
);

#[pg_extern(schema = "sched", name = "try_claim", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn try_claim_with_limits(
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
        name!(run_timeout, Option<Interval>),
        name!(queue, Option<String>),
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
        let wanted = ClaimOptions {
            caller: role::caller(),
            runner_id: runner(runner_id)?,
            stale_timeout,
            max_attempts,
            allow_stale_reentry,
        };
        let claim = |owner: &Owner| claim_key(&Ledger::open(owner), &names, plan_time, wanted);
        let claimed = as_owner(|owner| at_home(owner, claim, Option::is_some))?;
        Ok(match claimed {
            None => (CONFLICTED.to_owned(), None, None, None, None, None, None, None, None, None),
            Some((claim, lease)) => {
                acknowledge_durably();
                wake_at(lease.stale_after);
                (
                    claim.as_str().to_owned(),
                    Some(lease.execution_id),
                    Some(lease.lease_token),
                    Some(lease.fence),
                    Some(lease.attempt),
                    Some(lease.max_attempts),
                    Some(lease.stale_after),
                    Some(lease.payload),
                    lease.run_timeout,
                    Some(lease.queue),
                )
            }
        })
    })());
    TableIterator::once(row)
}

/// Hands out leases where this database may: `55000` in a copy. The first leases of a new extension make it the home.
fn at_home<R>(owner: &Owner, claim: impl FnOnce(&Owner) -> Outcome<R>, any: impl FnOnce(&R) -> bool) -> Outcome<R> {
    let home = identity::require(|| owner.session())?;
    let claimed = claim(owner)?;
    if home == Home::Nowhere && any(&claimed) {
        identity::settle(owner.session());
    }
    Ok(claimed)
}

/// What a caller of try_claim asked for.
struct ClaimOptions {
    caller: pg_sys::Oid,
    runner_id: String,
    stale_timeout: Option<i64>,
    max_attempts: Option<i32>,
    allow_stale_reentry: Option<bool>,
}

/// An execution as its job would have it; without one the caller owns it.
pub fn new_execution<'a>(
    job: Option<&'a job::Job>,
    key: Uuid,
    [job_name, scope_kind, scope_id]: [&'a str; 3],
    plan_time: TimestampWithTimeZone,
    caller: pg_sys::Oid,
) -> NewExecution<'a> {
    NewExecution {
        key,
        job_name,
        scope_kind,
        scope_id,
        plan_time,
        queue: job.map_or("default", |job| job.ready_queue.as_str()),
        priority: job.map_or(0, |job| job.priority),
        max_attempts: job.map_or(1, |job| job.max_attempts),
        allow_stale_reentry: job.is_none_or(|job| job.allow_stale_reentry),
        owner: job.map_or(caller, |job| job.owner),
        run_at: None,
    }
}

fn run_by_server(job_name: &str) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("job \"{}\" is of kind \"sql\": the server runs it itself", convert::shown(job_name)),
        "Call sched.enqueue to have it run once more.",
    )
}

fn claim_key(
    ledger: &Ledger,
    names: &[String; 3],
    plan_time: Instant,
    wanted: ClaimOptions,
) -> Outcome<Option<(Claim, Lease)>> {
    let [job_name, scope_kind, scope_id] = names;
    let caller = wanted.caller;
    ledger.require_here([(scope_kind.as_str(), scope_id.as_str())])?;
    let job = job_for_caller(ledger.job(job_name), job_name, caller)?;
    let job = job.as_ref();
    if job.is_some_and(|job| job.run_by_server) {
        return Err(run_by_server(job_name));
    }
    let key = scope_key(job_name, scope_kind, scope_id);
    let now = database_clock::now();
    let default_timeout =
        || job.and_then(|job| job.stale_timeout).unwrap_or_else(|| convert::interval(guc::stale_timeout()));
    let options = LeaseOptions {
        runner_id: wanted.runner_id,
        stale_timeout: wanted.stale_timeout.map_or_else(default_timeout, convert::interval),
        run_timeout: job.and_then(|job| job.run_timeout),
        max_attempts: wanted.max_attempts,
        allow_stale_reentry: wanted.allow_stale_reentry,
    };
    let plan = convert::timestamp(plan_time);
    let claim_new = || {
        let new = new_execution(job, key, [job_name, scope_kind, scope_id], plan, caller);
        ledger.claim_new(&new, &options, now).map(|lease| (Claim::Won, lease))
    };
    if ledger.expects_new() {
        if let Some(won) = claim_new() {
            return Ok(Some(won));
        }
    }
    let mut known = match ledger.by_key(key, plan, now) {
        KeyLookup::Existing(known) => known,
        KeyLookup::InHand => return Ok(None),
        KeyLookup::Free => return Ok(claim_new()),
    };
    if !role::may_act_for(caller, known.owner) {
        return Err(Failure::not_owner("an execution of job", job_name));
    }
    if known.is_delivered() {
        return Ok(None);
    }
    known.limits.max_attempts = options.max_attempts.unwrap_or(known.limits.max_attempts);
    known.limits.allow_stale_reentry = options.allow_stale_reentry.unwrap_or(known.limits.allow_stale_reentry);
    let Ok(claim) = lease::claim(known.state, known.limits) else { return Ok(None) };
    Ok(match claim {
        Claim::Won => ledger.claim_known(known, job_name, plan, options, now).map(|lease| (Claim::Won, lease)),
        Claim::Stole if known.is_running() => {
            ledger.claim_stale(known, job_name, options, now).map(|lease| (claim, lease))
        }
        Claim::Stole => ledger.claim_known(known, job_name, plan, options, now).map(|lease| (claim, lease)),
    })
}

/// How many queues a session remembers as noticed; it is silent about others.
const MOST_NOTICED: usize = 1000;

thread_local! {
    /// The queues for which this session has had the NOTICE.
    static NOTICED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Raises a NOTICE, once for each queue of a session, where a claim returns no row because all that waits belongs to other roles.
fn notice_once(queue: &str, others_only: impl FnOnce() -> bool) {
    let may_be_new = NOTICED.with_borrow(|noticed| noticed.len() < MOST_NOTICED && !noticed.contains(queue));
    if may_be_new && others_only() {
        NOTICED.with_borrow_mut(|noticed| noticed.insert(queue.to_owned()));
        let message = format!("the executions that wait in queue \"{}\" belong to other roles", convert::shown(queue));
        let hint =
            "Claim as a role that is a member of the owner of their jobs, or change the owner with sched.alter_job.";
        error::report(PgLogLevel::NOTICE, Failure::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message, hint));
    }
}

#[pg_extern(schema = "sched", name = "claim", volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)]
fn claim_with_limits(
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
        name!(max_attempts, i32),
        name!(run_timeout, Option<Interval>),
        name!(queue, String),
    ),
> {
    let (queue, rows) = or_raise((|| {
        let stale_timeout = convert::optional_duration("stale_timeout", stale_timeout, Zero::Refused)?;
        let wanted = QueueClaim {
            queue: convert::queue(queue)?,
            limit: i64::from(at_least_one("max_claims", required("max_claims", max_claims)?)?),
            runner_id: runner(runner_id)?,
            stale_timeout: stale_timeout.map(convert::interval),
            default_stale_timeout: convert::interval(guc::stale_timeout()),
            lasts_as_process: false,
            caller: role::caller(),
        };
        let claim = |owner: &Owner| {
            shard::check_snapshot(|| owner.session())?;
            let QueueClaimed { claimed, others_only } = queue::claim(owner, &wanted, database_clock::now);
            if claimed.is_empty() {
                let asked = || queue::waits_for_others_only(owner.session(), &wanted);
                notice_once(&wanted.queue, || others_only.unwrap_or_else(asked));
            }
            Ok(claimed)
        };
        let rows = as_owner(|owner| at_home(owner, claim, |claimed: &Vec<_>| !claimed.is_empty()))?;
        Ok((wanted.queue, rows))
    })());
    if !rows.is_empty() {
        acknowledge_durably();
        rows.iter().for_each(|row| wake_at(row.stale_after));
    }
    TableIterator::new(rows.into_iter().map(move |row| {
        (
            row.execution_id,
            row.lease_token,
            row.fence,
            row.attempt,
            row.job_name,
            row.scope_kind,
            row.scope_id,
            row.plan_time,
            row.payload,
            row.stale_after,
            row.max_attempts,
            row.run_timeout,
            queue.clone(),
        )
    }))
}
