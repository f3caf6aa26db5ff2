//! `enqueue`, `enqueue_many`.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::prelude::*;
use pgrx::PgSqlErrorCode;

use crate::dispatch;
use crate::pg::convert::{self, required};
use crate::pg::error::{or_raise, Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::utf8_text::Text;
use crate::pg::{as_owner, role, Owner};
use crate::store::execution::{ids, NewExecution};
use crate::store::job;
use crate::store::lease::Ledger;
use crate::store::queue::draw::PlanTimeDraw;
use crate::store::queue::enqueue::{self as store, EnqueueBatch};

use crate::api::claim::{job_for_caller, new_execution};
use crate::api::lease::all_given;
use crate::api::sql_support::{scope_key, uuid_v7};

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn enqueue(
    job_name: Option<Text>,
    payload: default!(Option<Jsonb>, "'{}'"),
    plan_time: default!(Option<TimestampWithTimeZone>, "NULL"),
    scope_kind: default!(Option<Text>, "'adhoc'"),
    scope_id: default!(Option<Text>, "NULL"),
) -> Uuid {
    or_raise((|| {
        let uniqueness = Uniqueness::of(scope_id.is_some(), plan_time.is_some());
        let names = [
            convert::name("job_name", job_name)?,
            convert::name("scope_kind", scope_kind)?,
            convert::name("scope_id", Some(scope_id.map_or_else(|| uuid_v7().to_string(), String::from)))?,
        ];
        let payload = required("payload", payload)?;
        let plan_time = convert::optional_instant("plan_time", plan_time)?.unwrap_or_else(convert::now);
        let [job_name, scope_kind, scope_id] = names;
        let batch = EnqueueBatch {
            job_name: &job_name,
            scope_kind: &scope_kind,
            caller: role::caller(),
            keys: vec![scope_key(&job_name, &scope_kind, &scope_id)],
            scope_ids: vec![scope_id],
            plan_times: vec![convert::timestamp(plan_time)],
            payloads: vec![payload],
        };
        as_owner(|owner| put(owner, batch, uniqueness))?.first().copied().ok_or_else(being_enqueued)
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

/// Puts executions into the ledger, and into their job's queue; the ids of all, in their order, those that had been there before
/// included.
fn put(owner: &Owner, batch: EnqueueBatch, uniqueness: Uniqueness) -> Outcome<Vec<Uuid>> {
    let (job_name, caller) = (batch.job_name, batch.caller);
    let ledger = Ledger::open(owner);
    let job = job_for_caller(ledger.job(job_name), job_name, caller)?;
    let mut draw = (uniqueness == Uniqueness::PlanTime).then(|| PlanTimeDraw::begin(convert::now(), convert::now));
    if uniqueness != Uniqueness::None {
        let new = batch.keys.iter().zip(&batch.scope_ids).zip(&batch.plan_times).zip(&batch.payloads);
        let new = new.map(|(((key, scope_id), plan_time), payload)| {
            let names = [job_name, batch.scope_kind, scope_id.as_str()];
            (new_execution(job.as_ref(), *key, names, *plan_time, caller), payload)
        });
        if let Some(ids) = put_new(owner, &ledger, job_name, new.collect(), draw.as_mut()) {
            return Ok(ids);
        }
    }
    let session = owner.session();
    // Not inserted and not there: its transaction is open, or somebody has just defined a job of this name.
    let missing = || {
        job_for_caller(job::read(session, job_name), job_name, caller)
            .map_or_else(|failure| failure, |_| being_enqueued())
    };
    if let Some(draw) = &mut draw {
        let drawn = store::insert_drawn(session, &batch, draw, convert::now()).ok_or_else(missing)?;
        dispatch::notify(session, drawn.queues);
        return Ok(drawn.ids);
    }
    dispatch::notify(session, store::insert(session, &batch, convert::now()));
    let found = store::find(session, &batch);
    if found.len() < batch.keys.len() {
        return Err(missing());
    }
    if found.iter().any(|(_, owner)| !role::may_act_for(caller, *owner)) {
        return Err(Failure::not_owner("an execution of job", job_name));
    }
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

/// Puts executions into their job's queue whose keys are new for certain or drawn, and says so; `None` where a statement has to do it.
fn put_new(
    owner: &Owner,
    ledger: &Ledger,
    job_name: &str,
    new: Vec<(NewExecution, &Jsonb)>,
    draw: Option<&mut PlanTimeDraw>,
) -> Option<Vec<Uuid>> {
    let queue = new.first().map(|(new, _)| new.queue.to_owned());
    let ids = ledger.enqueue(job_name, &new, draw, convert::now())?;
    if let Some(queue) = queue {
        dispatch::notify_queue(owner, &queue);
    }
    Some(ids)
}

fn being_enqueued() -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
        "Another transaction has just enqueued this execution: try the transaction again.",
    )
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn enqueue_many(
    job_name: Option<Text>,
    payloads: Option<Vec<Option<Jsonb>>>,
    plan_times: default!(Option<Vec<Option<TimestampWithTimeZone>>>, "NULL"),
    scope_kind: default!(Option<Text>, "'adhoc'"),
    scope_ids: default!(Option<Vec<Option<Text>>>, "NULL"),
) -> SetOfIterator<'static, Uuid> {
    let ids = or_raise((|| {
        let (job_name, scope_kind) = (convert::name("job_name", job_name)?, convert::name("scope_kind", scope_kind)?);
        let payloads = all_given("payloads", required("payloads", payloads)?)?;
        let uniqueness = Uniqueness::of(scope_ids.is_some(), plan_times.is_some());
        let plan_times = match plan_times {
            None => vec![convert::timestamp(convert::now()); payloads.len()],
            Some(times) => same_length("plan_times", times, payloads.len())?
                .into_iter()
                .map(|time| convert::instant("plan_times", time).map(convert::timestamp))
                .collect::<Outcome<Vec<_>>>()?,
        };
        let scope_ids: Vec<String> = match scope_ids {
            None => ids::execution_ids(payloads.len(), convert::now()).iter().map(Uuid::to_string).collect(),
            Some(ids) => same_length("scope_ids", ids, payloads.len())?
                .into_iter()
                .map(|id| convert::name("scope_ids", Some(id)))
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
        };
        as_owner(|owner| put(owner, batch, uniqueness))
    })());
    SetOfIterator::new(ids)
}

/// An array without NULLs and with an element for each payload; `22023`.
fn same_length<T>(argument: &str, values: Vec<Option<T>>, payloads: usize) -> Outcome<Vec<T>> {
    if values.len() != payloads {
        return Err(Failure::invalid(
            format!("payloads has {payloads} elements, but {argument} has {}", values.len()),
            "Pass one for each payload, in the same order, or leave the argument out.",
        ));
    }
    all_given(argument, values)
}
