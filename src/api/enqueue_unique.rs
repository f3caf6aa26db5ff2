//! What `enqueue` and `enqueue_many` do where the same execution may be there already: by its plan, or by its scope.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use pgrx::datum::Uuid;
use pgrx::PgSqlErrorCode;
use scheduler_core::enqueue::{IfExists, UniqueBy};
use scheduler_core::Keyword;

use crate::dispatch;
use crate::pg::convert::{self, required};
use crate::pg::error::{Failure, Outcome};
use crate::pg::utf8_text::Text;
use crate::pg::{role, Owner, Session};
use crate::store::database_clock;
use crate::store::job;
use crate::store::queue::enqueue::{Added, EnqueueBatch};
use crate::store::queue::unique_scope;
use crate::store::queue::waiting::{self, Change};

use crate::api::enqueue_right::{check_granted, job_to_enqueue};
use crate::api::undefined_job;

/// What is the same, and what becomes of it.
#[derive(Clone, Copy)]
pub struct Same {
    /// What is the same.
    pub unique_by: UniqueBy,
    /// What becomes of the one that there is.
    pub if_exists: IfExists,
}

impl Same {
    /// As a call says it. `scopes` and `plan_times` are the names of its arguments, and whether they are given; `22023`, `22004`.
    pub fn of(
        unique_by: Option<Text>,
        if_exists: Option<Text>,
        (scopes, names_scopes): (&str, bool),
        (plan_times, names_plan_times): (&str, bool),
    ) -> Outcome<Same> {
        let unique_by: UniqueBy = word("unique_by", unique_by)?;
        let if_exists: IfExists = word("if_exists", if_exists)?;
        if unique_by == UniqueBy::Plan && if_exists != IfExists::Keep && !(names_scopes && names_plan_times) {
            return Err(Failure::invalid(
                format!(
                    "if_exists \"{}\" needs {scopes} and {plan_times} where unique_by is \"plan\"",
                    if_exists.as_str()
                ),
                format!("Pass both, or unique_by => 'scope' with {scopes}."),
            ));
        }
        if unique_by == UniqueBy::Scope && !names_scopes {
            return Err(Failure::invalid(
                format!("unique_by \"scope\" needs {scopes}"),
                format!("Pass {scopes}: one that is made up is never the same."),
            ));
        }
        Ok(Same { unique_by, if_exists })
    }
}

fn word<K: Keyword>(argument: &str, value: Option<Text>) -> Outcome<K> {
    let value: String = required(argument, value)?.into();
    K::parse(&value).ok_or_else(|| {
        let words: Vec<String> = K::ALL.iter().map(|known| format!("'{}'", known.as_str())).collect();
        Failure::invalid(
            format!("unknown {argument} \"{}\"", convert::shown(&value)),
            format!("Use {}.", words.join(", ")),
        )
    })
}

/// Executions that were asked for.
pub struct Put {
    /// Their ids, in the order of the call.
    pub ids: Vec<Uuid>,
    /// Which of them were made now.
    pub is_new: Vec<bool>,
}

impl Put {
    /// All of them were.
    pub fn all_new(ids: Vec<Uuid>) -> Put {
        Put { is_new: vec![true; ids.len()], ids }
    }
}

/// Has all hear of executions that a statement has put where they wait.
pub fn announce(session: &Session, added: Added) {
    dispatch::notify(session, added.queues);
    dispatch::wake_for_first(added.first_due.into_iter());
}

/// Executions of a call without those that are the same as one before.
struct Distinct<'a> {
    batch: EnqueueBatch<'a>,
    /// For each of the call, which of these it is.
    places: Vec<usize>,
}

/// Leaves out what is the same as one before; `23505` where that is an error. Of those that are replaced the last says what it is.
fn distinct<'a, K: Eq + Hash>(
    batch: &EnqueueBatch<'a>,
    if_exists: IfExists,
    key: impl Fn(usize) -> K,
    exists: impl Fn(usize) -> Failure,
) -> Outcome<Distinct<'a>> {
    let (mut known, mut first, mut last) = (HashMap::new(), Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(batch.keys.len());
    for place in 0..batch.keys.len() {
        let number = *known.entry(key(place)).or_insert(first.len());
        if number == first.len() {
            first.push(place);
            last.push(place);
        } else if if_exists == IfExists::Error {
            return Err(exists(place));
        } else {
            last[number] = place;
        }
        places.push(number);
    }
    let mut distinct = batch.part(&first);
    if if_exists == IfExists::Replace {
        let newest = batch.part(&last);
        distinct = EnqueueBatch { payloads: newest.payloads, run_ats: newest.run_ats, ..distinct };
    }
    Ok(Distinct { batch: distinct, places })
}

/// Enqueues by job, scope and plan time, with `put`, which says what was there before.
pub fn by_plan(
    owner: &Owner,
    batch: &EnqueueBatch,
    if_exists: IfExists,
    put: impl FnOnce(&EnqueueBatch) -> Outcome<Put>,
) -> Outcome<Vec<Uuid>> {
    let key = |place: usize| (*batch.keys[place].as_bytes(), i64::from(batch.plan_times[place]));
    let Distinct { batch, places } = distinct(batch, if_exists, key, |place| exists_by_plan(batch, place))?;
    let put = put(&batch)?;
    let known: Vec<usize> = (0..put.ids.len()).filter(|place| !put.is_new[*place]).collect();
    if let Some(place) = known.first().filter(|_| if_exists == IfExists::Error) {
        return Err(exists_by_plan(&batch, *place));
    }
    if if_exists == IfExists::Replace && !known.is_empty() {
        let session = owner.session();
        let locked = waiting::lock(session, known.iter().map(|place| put.ids[*place]).collect());
        let locked: HashSet<[u8; 16]> = locked.iter().map(|locked| *locked.id.as_bytes()).collect();
        let is_locked = |id: Uuid| locked.contains(id.as_bytes());
        let waiting: Vec<(usize, Uuid)> =
            known.iter().map(|place| (*place, put.ids[*place])).filter(|(_, id)| is_locked(*id)).collect();
        replace(session, &batch, &waiting);
    }
    Ok(places.into_iter().map(|place| put.ids[place]).collect())
}

/// Enqueues into scopes in each of which one execution waits at a time, with `put` where none does.
pub fn by_scope(
    owner: &Owner,
    batch: &EnqueueBatch,
    if_exists: IfExists,
    warning: &Cell<Option<Failure>>,
    put: impl FnOnce(&EnqueueBatch) -> Outcome<Put>,
) -> Outcome<Vec<Uuid>> {
    let session = owner.session();
    let job = job_to_enqueue(|| session, job::find(owner, batch.job_name), batch.job_name, batch.caller)?;
    if job.is_none() {
        warning.set(undefined_job::warning(session, batch.job_name, batch.caller)?);
    }
    let of = job.map_or(batch.caller, |job| job.owner);
    if !role::may_act_for(batch.caller, of) {
        check_granted(|| session, batch, if_exists, true)?;
    }
    let key = |place: usize| *batch.keys[place].as_bytes();
    let Distinct { batch, places } = distinct(batch, if_exists, key, |place| waits_in_scope(batch, place))?;
    let found = unique_scope::lock_waiting(session, &batch.keys, of, database_clock::now());
    if found.values().any(|found| found.owner != of && !role::may_act_for(batch.caller, found.owner)) {
        return Err(Failure::not_owner("an execution of job", batch.job_name));
    }
    let mut ids: Vec<Option<Uuid>> =
        batch.keys.iter().map(|key| found.get(key.as_bytes()).map(|found| found.id)).collect();
    let waiting: Vec<(usize, Uuid)> =
        ids.iter().enumerate().filter_map(|(place, id)| id.map(|id| (place, id))).collect();
    match if_exists {
        IfExists::Keep => announce(session, waiting::places(found.values())),
        IfExists::Replace => replace(session, &batch, &waiting),
        IfExists::Error => {
            if let Some((place, _)) = waiting.first() {
                return Err(waits_in_scope(&batch, *place));
            }
        }
    }
    let missing: Vec<usize> = (0..ids.len()).filter(|place| ids[*place].is_none()).collect();
    if !missing.is_empty() {
        let part = batch.part(&missing);
        let put = put(&part)?;
        // A plan time that was named is taken for ever.
        if let Some(place) = put.is_new.iter().position(|is_new| !is_new).filter(|_| if_exists == IfExists::Error) {
            return Err(exists_by_plan(&part, place));
        }
        missing.iter().zip(put.ids).for_each(|(place, id)| ids[*place] = Some(id));
    }
    let ids: Vec<Uuid> = ids.into_iter().flatten().collect();
    unique_scope::keep(session, batch.keys, of, ids.clone());
    Ok(places.into_iter().map(|place| ids[place]).collect())
}

/// Gives executions that wait and are locked, each in its place of the call, what that says.
fn replace(session: &Session, batch: &EnqueueBatch, waiting: &[(usize, Uuid)]) {
    if waiting.is_empty() {
        return;
    }
    let priority = batch.priority.or_else(|| job::read(session, batch.job_name).map(|job| job.priority));
    let change = Change {
        execution_ids: waiting.iter().map(|(_, id)| *id).collect(),
        payloads: waiting.iter().map(|(place, _)| Some(batch.payloads[*place].clone())).collect(),
        run_ats: waiting.iter().map(|(place, _)| batch.run_ats[*place]).collect(),
        no_time_is_at_once: true,
        priority: Some(priority.unwrap_or(0)),
        ..Change::default()
    };
    announce(session, waiting::change(session, change, database_clock::now()));
}

fn waits_in_scope(batch: &EnqueueBatch, place: usize) -> Failure {
    already(format!("{} waits already", named(batch, place)))
}

fn exists_by_plan(batch: &EnqueueBatch, place: usize) -> Failure {
    let plan_time = convert::shown_time(batch.plan_times[place]);
    already(format!("{} and plan time \"{plan_time}\" exists already", named(batch, place)))
}

fn named(batch: &EnqueueBatch, place: usize) -> String {
    let [job, kind, id] = [batch.job_name, batch.scope_kind, &batch.scope_ids[place]].map(convert::shown);
    format!("an execution of job \"{job}\" with scope_kind \"{kind}\", scope_id \"{id}\"")
}

fn already(message: String) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
        message,
        "Pass if_exists => 'keep' to get its id, or 'replace' to change it.",
    )
}
