//! What was taken over and runs in the other scheduler again, past the guard: nobody knows which of the two is meant, so ours is parked.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgrx::pg_sys::{self, Oid};

use crate::pg::error::Failure;
use crate::pg::time_limit::within;
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
/// How long it may take to read such tables, in milliseconds.
const LONGEST_READ: u32 = 200;
/// When no further such tables are looked at, and after how many. The next look goes on there.
const LONGEST_LOOK: Duration = Duration::from_millis(100);
const MOST_LOOKS: usize = 50;
/// Where it does.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Parks what runs there as well; whether anything is taken over at all, and how many were parked.
pub fn look(session: &Session) -> (bool, usize) {
    let found = taken::look(session);
    let reader = role::caller();
    // Who is no superuser may not even see their tables.
    if found.is_empty() || !role::is_superuser(reader) {
        return (!found.is_empty(), 0);
    }
    let sources = found.chunk_by(|a, b| (&a.source, &a.schema) == (&b.source, &b.schema));
    let sources = sources.filter_map(Source::of);
    let (superusers, mut others): (Vec<_>, Vec<_>) = sources.partition(|source| role::is_superuser(source.owner));
    let mut parked: Vec<_> = superusers.iter().flat_map(|source| source.on(reader)).collect();
    let next = NEXT.load(Ordering::Relaxed) % others.len().max(1);
    others.rotate_left(next);
    let began = Instant::now();
    let looks = others.iter().take(MOST_LOOKS).take_while(|_| began.elapsed() <= LONGEST_LOOK);
    let mut looked = 0;
    for source in looks {
        looked += 1;
        parked.extend(source.on(reader));
    }
    NEXT.store(next + looked, Ordering::Relaxed);
    if !parked.is_empty() {
        timer::park(session, &parked);
    }
    (true, parked.len())
}

/// What was taken over from one place, and who has the tables there.
struct Source<'a> {
    taken: &'a [Taken],
    switch: &'static Switch,
    owner: Oid,
}

impl Source<'_> {
    /// `None` where a table has gone, which runs nothing, or where they are several roles' who are no superusers.
    fn of(taken: &[Taken]) -> Option<Source<'_>> {
        let first = taken.first()?;
        let switch = switch::of(&first.source)?;
        let owner = owner(&tables(switch, &first.schema)?)?;
        Some(Source { taken, switch, owner })
    }

    /// What is on there. Neither an error nor a lock there, nor the number of locks, keeps anybody else's schedules waiting.
    fn on(&self, reader: Oid) -> Vec<(i64, Failure)> {
        let found = subtransaction::undone(|| self.read(reader)).ok().flatten().unwrap_or_default();
        let is_on = |one: &&Taken| found.contains(&one.source_id);
        self.taken.iter().filter(is_on).map(|one| (one.schedule_id, both(one))).collect()
    }

    /// The ids of those that are on. Where a role has the tables who is no superuser, he decides what is locked, and how much there is to be read:
    /// so it is done as him, and not for long. None where somebody keeps a table locked: it is looked at again.
    fn read(&self, reader: Oid) -> Option<HashSet<String>> {
        let name = &self.taken.first()?.schema;
        let is_superuser = role::is_superuser(self.owner);
        let tables = tables(self.switch, name)?;
        // Nobody adds an index or statistics meanwhile, whose expressions would be worked out when they are made use of.
        let mode = if is_superuser { pg_sys::AccessShareLock } else { pg_sys::ShareUpdateExclusiveLock };
        // SAFETY: a lock on an oid, inside a transaction.
        let lock = |table: &Oid| unsafe { pg_sys::ConditionalLockRelationOid(*table, mode as i32) };
        let fits = |table: &Oid| is_superuser || pages(*table) <= MOST_PAGES;
        if !tables.iter().all(|table| lock(table) && fits(table)) || owner(&tables) != Some(self.owner) {
            return None;
        }
        // What somebody has put in another's place says nothing of that one's schedules.
        let is_meant = |one: &&Taken| is_superuser || one.owner == Some(self.owner);
        let ids: Vec<String> = self.taken.iter().filter(is_meant).map(|one| one.source_id.clone()).collect();
        let schema = ForeignSchema { name: name.clone(), speaks_for_all: is_superuser };
        let on = if is_superuser {
            on(self.switch, &schema, &ids, reader)
        } else {
            let as_owner = || role::restricted_to(self.owner, || on(self.switch, &schema, &ids, self.owner));
            within(LONGEST_READ, || in_short_waits(LONGEST_WAIT, as_owner))
        };
        Some(on.into_iter().collect())
    }
}

/// The tables that say whether something is on; `None` where one has gone.
fn tables(switch: &Switch, schema: &str) -> Option<Vec<Oid>> {
    let name = CString::new(schema).ok()?;
    switch.writes.iter().map(|table| syscache::relation_named(&name, table)).collect()
}

/// Who has these tables: a role that is no superuser where there is one; `None` where there is another besides.
fn owner(tables: &[Oid]) -> Option<Oid> {
    let owners: Vec<Oid> = tables.iter().map(|table| syscache::owner_of_relation(*table)).collect::<Option<_>>()?;
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

fn both(one: &Taken) -> Failure {
    Failure::note(format!(
        "{} runs {} again, which schedule \"{}\" has taken over: switch it off there and alter the schedule, or hand it back (sched.hand_back)",
        one.source, one.source_id, one.name
    ))
}
