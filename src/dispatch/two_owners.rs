//! What was taken over and runs in the other scheduler again, past the guard: nobody knows which of the two is meant, so ours is parked.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

use crate::pg::error::Failure;
use crate::pg::{role, syscache, Session};
use crate::store::handover::foreign::ForeignSchema;
use crate::store::handover::switch;
use crate::store::handover::taken::{self, Taken};
use crate::store::timer;

/// Parks what runs there as well; whether anything is taken over at all, and how many were parked.
pub fn look(session: &Session) -> (bool, usize) {
    let found = taken::look(session);
    let reader = role::caller();
    // Who is no superuser may not even see their tables.
    if found.is_empty() || !role::is_superuser(reader) {
        return (!found.is_empty(), 0);
    }
    let mut parked = Vec::new();
    for some in found.chunk_by(|a, b| (&a.source, &a.schema) == (&b.source, &b.schema)) {
        let Some(first) = some.first() else { continue };
        let Some(switch) = switch::of(&first.source) else { continue };
        let schema = ForeignSchema { name: first.schema.clone(), speaks_for_all: true };
        // A table that has gone runs nothing; one that somebody else has put there is not read. Nobody's lock keeps a dispatcher: it looks again.
        let can_be_read = |table: &&CStr| can_be_read(&schema, table) && schema.trust(table, reader).is_ok();
        if !switch.writes.iter().all(can_be_read) {
            continue;
        }
        let ids: Vec<String> = some.iter().map(|one| one.source_id.clone()).collect();
        let on = switch.enabled_now(&schema, &ids);
        parked.extend(some.iter().filter(|one| on.contains(&one.source_id)).map(|one| (one.schedule_id, both(one))));
    }
    if !parked.is_empty() {
        timer::park(session, &parked);
    }
    (true, parked.len())
}

/// Whether a superuser has the table, and nobody keeps it locked; it is locked then.
fn can_be_read(schema: &ForeignSchema, table: &CStr) -> bool {
    let Ok(name) = CString::new(schema.name.as_str()) else { return false };
    let Some(table) = syscache::relation_named(&name, table) else { return false };
    // SAFETY: a lock on an oid, inside a transaction.
    syscache::owner_of_relation(table).is_some_and(role::is_superuser)
        && unsafe { pg_sys::ConditionalLockRelationOid(table, pg_sys::AccessShareLock as i32) }
}

fn both(one: &Taken) -> Failure {
    Failure::note(format!(
        "{} runs {} again, which schedule \"{}\" has taken over: switch it off there and alter the schedule, or hand it back (sched.hand_back)",
        one.source, one.source_id, one.name
    ))
}
