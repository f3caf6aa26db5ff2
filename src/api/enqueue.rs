//! `enqueue`, `enqueue_many`.

use std::cell::Cell;

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;
use scheduler_core::enqueue::{IfExists, UniqueBy};

use crate::dispatch;
use crate::pg::array::Many;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, warn, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{as_owner, memory, role, Owner};
use crate::store::database_clock;
use crate::store::execution::{ids, NewExecution};
use crate::store::identity;
use crate::store::job;
use crate::store::lease::Ledger;
use crate::store::queue::draw::PlanTimeDraw;
use crate::store::queue::enqueue::{self as store, EnqueueBatch};
use crate::store::shard;

use crate::api::claim::new_execution;
use crate::api::enqueue_right::{check_granted, job_to_enqueue};
use crate::api::enqueue_unique::{self, announce, Put, Same};
use crate::api::job::check_payload;
use crate::api::lease::all_given;
use crate::api::sql_support::{scope_key, uuid_v7};
use crate::api::undefined_job;

#[pg_extern(schema = "sched", name = "enqueue", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn enqueue_at(
    job_name: Option<Text>,
    payload: default!(Option<Jsonb>, "'{}'"),
    plan_time: default!(Option<TimestampWithTimeZone>, "NULL"),
    scope_kind: default!(Option<Text>, "'adhoc'"),
    scope_id: default!(Option<Text>, "NULL"),
    run_at: default!(Option<TimestampWithTimeZone>, "NULL"),
    priority: default!(Option<i32>, "NULL"),
    unique_by: default!(Option<Text>, "'plan'"),
    if_exists: default!(Option<Text>, "'keep'"),
) -> Uuid {
    or_raise((|| {
        let uniqueness = Uniqueness::of(scope_id.is_some(), plan_time.is_some());
        let same =
            Same::of(unique_by, if_exists, ("scope_id", scope_id.is_some()), ("plan_time", plan_time.is_some()))?;
        let names = [
            convert::name("job_name", job_name)?,
            convert::name("scope_kind", scope_kind)?,
            convert::name("scope_id", Some(scope_id.map_or_else(|| uuid_v7().to_string(), String::from)))?,
        ];
        let payload = required("payload", payload)?;
        let plan_time = convert::optional_instant("plan_time", plan_time)?.unwrap_or_else(database_clock::now);
        let run_at = convert::optional_instant("run_at", run_at)?.map(convert::timestamp);
        let [job_name, scope_kind, scope_id] = names;
        let batch = EnqueueBatch {
            job_name: &job_name,
            scope_kind: &scope_kind,
            caller: role::caller(),
            keys: vec![scope_key(&job_name, &scope_kind, &scope_id)],
            scope_ids: vec![scope_id],
            plan_times: vec![convert::timestamp(plan_time)],
            payloads: vec![payload],
            run_ats: vec![run_at],
            priority,
        };
        let warning = Cell::new(None);
        let ids = as_owner(|owner| put(owner, &batch, uniqueness, same, &warning))?;
        warn(warning.take());
        ids.first().copied().ok_or_else(being_enqueued)
    })())
}

/// What makes executions different from all others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uniqueness {
    /// Their scopes: nobody else can come upon those, for they are made here.
    Scope,
    /// Their plan times, which are drawn.
    PlanTime,
    /// Nothing: scope and plan time are named, and may be named again.
    None,
}

impl Uniqueness {
    fn of(names_scopes: bool, names_plan_times: bool) -> Uniqueness {
        match (names_scopes, names_plan_times) {
            (false, _) => Uniqueness::Scope,
            (true, false) => Uniqueness::PlanTime,
            (true, true) => Uniqueness::None,
        }
    }
}

/// Puts executions into the ledger, and into their job's queue; the ids of all, in their order, those that are the same as one that there
/// was included. A job that was never defined leaves a warning.
fn put(
    owner: &Owner,
    batch: &EnqueueBatch,
    uniqueness: Uniqueness,
    same: Same,
    warning: &Cell<Option<Failure>>,
) -> Outcome<Vec<Uuid>> {
    identity::refuse_distributed(|| owner.session())?;
    if same.unique_by == UniqueBy::Scope {
        // What waits in the scopes is looked for before anything is put there.
        shard::require_to_write(|| owner.session(), batch.scopes())?;
    }
    if same.if_exists == IfExists::Replace {
        let notifies = job::read(owner.session(), batch.job_name).is_some_and(|job| job.notifies);
        batch.payloads.iter().try_for_each(|payload| check_payload(notifies, batch.job_name, payload))?;
    }
    let put_unless_known = |batch: &EnqueueBatch| put_unless_known(owner, batch, uniqueness, same.if_exists, warning);
    match (same.unique_by, same.if_exists, uniqueness) {
        // Of what has a scope or a plan time of its own there is none that is the same.
        (UniqueBy::Plan, _, Uniqueness::Scope | Uniqueness::PlanTime) | (UniqueBy::Plan, IfExists::Keep, _) => {
            put_unless_known(batch).map(|put| put.ids)
        }
        (UniqueBy::Plan, IfExists::Replace | IfExists::Error, Uniqueness::None) => {
            enqueue_unique::by_plan(owner, batch, same.if_exists, put_unless_known)
        }
        (UniqueBy::Scope, _, _) => enqueue_unique::by_scope(owner, batch, same.if_exists, warning, put_unless_known),
    }
}

/// Puts executions into the ledger whose keys it lacks, and into their job's queue.
fn put_unless_known(
    owner: &Owner,
    batch: &EnqueueBatch,
    uniqueness: Uniqueness,
    if_exists: IfExists,
    warning: &Cell<Option<Failure>>,
) -> Outcome<Put> {
    let (job_name, caller) = (batch.job_name, batch.caller);
    let ledger = Ledger::open(owner);
    let drawn = if uniqueness == Uniqueness::Scope {
        ledger.keep_buckets();
        shard::draw_scopes(|| owner.session(), batch)?
    } else {
        ledger.require_here(batch.scopes())?;
        None
    };
    let batch = drawn.as_ref().unwrap_or(batch);
    let job = job_to_enqueue(|| owner.session(), ledger.job(job_name), job_name, caller)?;
    if job.is_none() {
        warning.set(undefined_job::warning(owner.session(), job_name, caller)?);
    }
    let granted_by = job.as_ref().map(|job| job.owner).filter(|owner| !role::may_act_for(caller, *owner));
    if granted_by.is_some() {
        check_granted(|| owner.session(), batch, if_exists, uniqueness != Uniqueness::Scope)?;
    }
    let role = granted_by.unwrap_or(caller);
    if job.as_ref().is_some_and(|job| job.notifies) {
        batch.payloads.iter().try_for_each(|payload| check_payload(true, job_name, payload))?;
    }
    let mut draw =
        (uniqueness == Uniqueness::PlanTime).then(|| PlanTimeDraw::begin(database_clock::now(), database_clock::now));
    if uniqueness != Uniqueness::None {
        let new =
            batch.keys.iter().zip(&batch.scope_ids).zip(&batch.plan_times).zip(&batch.payloads).zip(&batch.run_ats);
        let new = new.map(|((((key, scope_id), plan_time), payload), run_at)| {
            let names = [job_name, batch.scope_kind, scope_id.as_str()];
            let mut new = new_execution(job.as_ref(), *key, names, *plan_time, caller);
            new.run_at = *run_at;
            new.priority = batch.priority.unwrap_or(new.priority);
            (new, payload)
        });
        let new: Vec<_> = new.collect();
        if let Some(ids) = put_new(owner, &ledger, job_name, &new, batch.priority, draw.as_mut()) {
            return Ok(Put::all_new(ids));
        }
    }
    let session = owner.session();
    // Not inserted and not there: its transaction is open, or somebody has just defined a job of this name.
    let missing = || {
        job_to_enqueue(|| session, job::read(session, job_name), job_name, caller)
            .map_or_else(|failure| failure, |_| being_enqueued())
    };
    if let Some(draw) = &mut draw {
        let drawn = store::insert_drawn(session, batch, role, draw, database_clock::now()).ok_or_else(missing)?;
        announce(session, drawn.added);
        return Ok(Put::all_new(drawn.ids));
    }
    let inserted = store::insert(session, batch, role, database_clock::now());
    announce(session, inserted.added);
    let found = store::find(session, batch);
    if found.len() < batch.keys.len() {
        return Err(missing());
    }
    let of_job = job.as_ref().map(|job| job.owner);
    if found.iter().any(|(_, owner)| Some(*owner) != of_job && !role::may_act_for(caller, *owner)) {
        return Err(Failure::not_owner("an execution of job", job_name));
    }
    let ids: Vec<Uuid> = found.into_iter().map(|(id, _)| id).collect();
    let is_new = ids.iter().zip(&inserted.ids).map(|(found, inserted)| found == inserted).collect();
    Ok(Put { ids, is_new })
}

/// Puts executions into their job's queue whose keys are new for certain or drawn, and says so; `None` where a statement has to do it.
fn put_new(
    owner: &Owner,
    ledger: &Ledger,
    job_name: &str,
    new: &[(NewExecution, &Jsonb)],
    priority: Option<i32>,
    draw: Option<&mut PlanTimeDraw>,
) -> Option<Vec<Uuid>> {
    let now = database_clock::now();
    let ids = ledger.enqueue(job_name, new, priority, draw, now)?;
    if let Some((first, _)) = new.iter().find(|(new, _)| new.waits_until(now).is_none()) {
        dispatch::notify_queue(owner, first.queue);
    }
    dispatch::wake_for_first(new.iter().filter_map(|(new, _)| new.waits_until(now)));
    Some(ids)
}

fn being_enqueued() -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
        "Another transaction has just enqueued this execution: try the transaction again.",
    )
}

/// What an execution takes until it is written, beside its payload: scope, key, times and id, as text and as a row.
const BYTES_FOR_EACH: usize = 640;

#[pg_extern(schema = "sched", name = "enqueue_many", volatile, parallel_unsafe)]
#[allow(clippy::too_many_arguments)]
fn enqueue_many_at(
    job_name: Option<Text>,
    payloads: Option<Many<Jsonb>>,
    plan_times: default!(Option<Many<TimestampWithTimeZone>>, "NULL"),
    scope_kind: default!(Option<Text>, "'adhoc'"),
    scope_ids: default!(Option<Many<Text>>, "NULL"),
    run_ats: default!(Option<Many<TimestampWithTimeZone>>, "NULL"),
    priority: default!(Option<i32>, "NULL"),
    unique_by: default!(Option<Text>, "'plan'"),
    if_exists: default!(Option<Text>, "'keep'"),
) -> SetOfIterator<'static, Uuid> {
    let ids = or_raise((|| {
        let (job_name, scope_kind) = (convert::name("job_name", job_name)?, convert::name("scope_kind", scope_kind)?);
        let payloads = all_given("payloads", required("payloads", payloads)?)?;
        memory::require(payloads.len().saturating_mul(BYTES_FOR_EACH));
        let uniqueness = Uniqueness::of(scope_ids.is_some(), plan_times.is_some());
        let same =
            Same::of(unique_by, if_exists, ("scope_ids", scope_ids.is_some()), ("plan_times", plan_times.is_some()))?;
        let plan_times = match plan_times {
            None => vec![convert::timestamp(database_clock::now()); payloads.len()],
            Some(times) => same_length("plan_times", times, payloads.len())?
                .into_iter()
                .map(|time| convert::instant("plan_times", time).map(convert::timestamp))
                .collect::<Outcome<Vec<_>>>()?,
        };
        let scope_ids: Vec<String> = match scope_ids {
            None => ids::execution_ids(payloads.len(), database_clock::now()).iter().map(Uuid::to_string).collect(),
            Some(ids) => same_length("scope_ids", ids, payloads.len())?
                .into_iter()
                .map(|id| convert::name("scope_ids", Some(id)))
                .collect::<Outcome<Vec<_>>>()?,
        };
        let run_ats = match run_ats {
            None => vec![None; payloads.len()],
            Some(times) => as_many("run_ats", times, payloads.len())?
                .into_iter()
                .map(|time| Ok(convert::optional_instant("run_ats", time)?.map(convert::timestamp)))
                .collect::<Outcome<Vec<_>>>()?,
        };
        let caller = role::caller();
        let keys = scope_ids.iter().map(|id| scope_key(&job_name, &scope_kind, id)).collect();
        let batch = EnqueueBatch {
            job_name: &job_name,
            scope_kind: &scope_kind,
            caller,
            keys,
            scope_ids,
            plan_times,
            payloads,
            run_ats,
            priority,
        };
        let warning = Cell::new(None);
        let ids = as_owner(|owner| put(owner, &batch, uniqueness, same, &warning))?;
        warn(warning.take());
        Ok(ids)
    })());
    SetOfIterator::new(ids)
}

/// An array without NULLs and with an element for each payload; `22023`.
fn same_length<T>(argument: &str, values: Many<T>, payloads: usize) -> Outcome<Vec<T>> {
    all_given(argument, as_many(argument, values, payloads)?)
}

/// An array with an element for each payload; `22023`.
fn as_many<T>(argument: &str, values: Many<T>, payloads: usize) -> Outcome<Many<T>> {
    if values.len() != payloads {
        return Err(Failure::invalid(
            format!("payloads has {payloads} elements, but {argument} has {}", values.len()),
            "Pass one for each payload, in the same order, or leave the argument out.",
        ));
    }
    Ok(values)
}
