//! Scopes in which one execution of an owner waits at a time (`unique_by => 'scope'`), by the hash of job and scope. What was enqueued for a job that
//! nobody has defined belongs to who enqueued it: roles that do not know of each other do not wait for each other either.
//!
//! Who enqueues into one has its row of `sched.unique_scope` to the end of his transaction, so that of two who come at once the second sees what the
//! first has made. What waits is locked as well, also where it stays as it is: who claimed it before that transaction is committed would not see what
//! else that has written, and nobody would come for it. What others have in hand counts as running.

use std::collections::{HashMap, HashSet};

use pgrx::datum::Uuid;
use pgrx::pg_sys::Oid;
use scheduler_core::Instant;

use crate::pg::record::Record;
use crate::pg::Session;
use crate::store::execution::ids;
use crate::store::queue::waiting::{self, WaitingExecution};
use crate::{arguments, statement};

type Bytes = [u8; 16];

/// Takes these scopes of an owner, each of which is named once, and locks what waits of the owner's in each, if anything does: by scope.
pub fn lock_waiting(session: &Session, keys: &[Uuid], owner: Oid, now: Instant) -> HashMap<Bytes, WaitingExecution> {
    statement!(SCOPES_TAKE = "queue/scopes_take"(UUIDARRAYOID, UUIDARRAYOID, REGROLEOID));
    let taken = SCOPES_TAKE.run(session, arguments![keys.to_vec(), ids::execution_ids(keys.len(), now), owner]);
    let last: Vec<(Bytes, Uuid)> = taken
        .iter()
        .map(|row| (*row.get_required::<Uuid>("key").as_bytes(), row.get_required("execution_id")))
        .collect();
    let mut looked_at: HashSet<Bytes> = last.iter().map(|(_, id)| *id.as_bytes()).collect();
    let mut found = lock(session, &last, owner);
    let left: Vec<Uuid> = keys.iter().filter(|key| !found.contains_key(key.as_bytes())).copied().collect();
    if left.is_empty() {
        return found;
    }
    statement!(SCOPES_WAITING = "queue/scopes_waiting"(UUIDARRAYOID, REGROLEOID));
    let rows = SCOPES_WAITING.run(session, arguments![left, owner]);
    let all =
        rows.iter().map(|row| (*row.get_required::<Uuid>("key").as_bytes(), row.get_required::<Uuid>("execution_id")));
    let mut candidates: Vec<(Bytes, Uuid)> = all.filter(|(_, id)| looked_at.insert(*id.as_bytes())).collect();
    // One of each scope at a time, the newest first: what is locked besides would be nobody else's for nothing.
    while !candidates.is_empty() {
        pgrx::check_for_interrupts!();
        let mut scopes = HashSet::new();
        let (next, rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|(key, _)| scopes.insert(*key));
        found.extend(lock(session, &next, owner));
        candidates = rest;
        candidates.retain(|(key, _)| !found.contains_key(key));
    }
    found
}

/// Locks what waits of these, one of each scope. (A row of a dump may name a role that another one has the number of now.)
fn lock(session: &Session, of: &[(Bytes, Uuid)], owner: Oid) -> HashMap<Bytes, WaitingExecution> {
    let scopes: HashSet<Bytes> = of.iter().map(|(key, _)| *key).collect();
    let locked = waiting::lock(session, of.iter().map(|(_, id)| *id).collect());
    let locked = locked.into_iter().map(|found| (*found.key.as_bytes(), found));
    locked.filter(|(key, found)| scopes.contains(key) && found.owner == owner).collect()
}

/// Remembers the execution that an owner has now in each of these scopes.
pub fn keep(session: &Session, keys: Vec<Uuid>, owner: Oid, execution_ids: Vec<Uuid>) {
    statement!(SCOPES_KEEP = "queue/scopes_keep"(UUIDARRAYOID, UUIDARRAYOID, REGROLEOID));
    SCOPES_KEEP.run(session, arguments![keys, execution_ids, owner]);
}
