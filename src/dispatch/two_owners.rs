//! What was taken over and runs in the other scheduler again, past the guard: nobody knows which of the two is meant, so ours is parked.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgrx::pg_sys::{self, Oid};

use crate::pg::error::Failure;
use crate::pg::{role, subtransaction, syscache, Session};
use crate::store::handover::foreign::ForeignSchema;
use crate::store::handover::switch::{self, Switch};
use crate::store::handover::taken::{self, Taken};
use crate::store::timer;
use crate::store::timer::lock_timeout::in_short_waits;

/// The largest table that is read where a role has it that is no superuser, in pages: 32 MB. All schedules wait meanwhile.
const MOST_PAGES: u32 = 4_096;
/// How long one of such a role's locks may keep everybody waiting, in milliseconds.
const LONGEST_WAIT: i32 = 10;
/// When no further such tables are looked at. The next look begins with others.
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// The number of this look.
static LOOKS: AtomicUsize = AtomicUsize::new(0);

/// Parks what runs there as well; whether anything is taken over at all, and how many were parked.
pub fn look(session: &Session) -> (bool, usize) {
    let found = taken::look(session);
    let reader = role::caller();
    // Who is no superuser may not even see their tables.
    if found.is_empty() || !role::is_superuser(reader) {
        return (!found.is_empty(), 0);
    }
    let mut parked = Vec::new();
    let mut sources: Vec<&[Taken]> = found.chunk_by(|a, b| (&a.source, &a.schema) == (&b.source, &b.schema)).collect();
    let first = LOOKS.fetch_add(1, Ordering::Relaxed) % sources.len();
    sources.rotate_left(first);
    let began = Instant::now();
    for some in sources {
        let Some(first) = some.first() else { continue };
        let Some(switch) = switch::of(&first.source) else { continue };
        let Some(owner) = lock(switch, &first.schema) else { continue };
        let is_superuser = role::is_superuser(owner);
        if !is_superuser && began.elapsed() > LONGEST_LOOK {
            continue;
        }
        // What somebody has put in another's place says nothing of that one's schedules.
        let some: Vec<&Taken> = some.iter().filter(|one| is_superuser || one.owner == Some(owner)).collect();
        let schema = ForeignSchema { name: first.schema.clone(), speaks_for_all: is_superuser };
        let ids: Vec<String> = some.iter().map(|one| one.source_id.clone()).collect();
        let on = if is_superuser {
            on(switch, &schema, &ids, reader)
        } else {
            on_at_an_owners(switch, &schema, &ids, owner)
        };
        parked.extend(some.iter().filter(|one| on.contains(&one.source_id)).map(|one| (one.schedule_id, both(one))));
    }
    if !parked.is_empty() {
        timer::park(session, &parked);
    }
    (true, parked.len())
}

/// Locks the tables of a source; who has them. `None` where one has gone, which runs nothing, or where somebody keeps one locked: nobody's lock
/// keeps a dispatcher, which looks again.
fn lock(switch: &Switch, schema: &str) -> Option<Oid> {
    let name = CString::new(schema).ok()?;
    let owners = switch.writes.iter().map(|table| {
        let table = syscache::relation_named(&name, table)?;
        let owner = syscache::owner_of_relation(table)?;
        // SAFETY: a lock on an oid, inside a transaction.
        let is_locked = unsafe { pg_sys::ConditionalLockRelationOid(table, pg_sys::AccessShareLock as i32) };
        (is_locked && (role::is_superuser(owner) || pages(table) <= MOST_PAGES)).then_some(owner)
    });
    let owners: Vec<Oid> = owners.collect::<Option<_>>()?;
    let other = owners.iter().find(|owner| !role::is_superuser(**owner));
    let owner = *other.or(owners.first())?;
    (other.is_none() || owners.iter().all(|one| *one == owner)).then_some(owner)
}

/// How large a table is that this transaction has locked.
fn pages(table: Oid) -> u32 {
    // SAFETY: it is locked, so it opens where it is there; it is closed again.
    unsafe {
        let relation = pg_sys::try_relation_open(table, pg_sys::NoLock as i32);
        if relation.is_null() {
            return 0;
        }
        let pages = pg_sys::RelationGetNumberOfBlocksInFork(relation, pg_sys::ForkNumber::MAIN_FORKNUM);
        pg_sys::relation_close(relation, pg_sys::NoLock as i32);
        pages
    }
}

/// Those of these rows that are on; none where `reader` is not to read them.
fn on(switch: &Switch, schema: &ForeignSchema, ids: &[String], reader: Oid) -> Vec<String> {
    let is_trusted = |table: &&CStr| schema.trust(table, reader).is_ok();
    let can_be_read = switch.writes.iter().all(is_trusted) && switch.check_guard(schema).is_ok();
    if can_be_read {
        switch.enabled_now(schema, ids)
    } else {
        Vec::new()
    }
}

/// The same where a role has the tables who is no superuser. He decides what runs when they are read, and what is locked: so it is done as him, and
/// neither an error nor a lock of his keeps anybody else's schedules waiting.
fn on_at_an_owners(switch: &Switch, schema: &ForeignSchema, ids: &[String], owner: Oid) -> Vec<String> {
    let look = || in_short_waits(LONGEST_WAIT, || role::restricted_to(owner, || on(switch, schema, ids, owner)));
    subtransaction::run(look).unwrap_or_default()
}

fn both(one: &Taken) -> Failure {
    Failure::note(format!(
        "{} runs {} again, which schedule \"{}\" has taken over: switch it off there and alter the schedule, or hand it back (sched.hand_back)",
        one.source, one.source_id, one.name
    ))
}
