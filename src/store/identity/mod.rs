//! Which database the rows belong to. A restored dump, a CREATE DATABASE … TEMPLATE and a cluster after pg_upgrade hold the rows of another
//! one: they fire nothing until somebody says that they may (`sched.adopt`), or a copy would send its original's mail.
//!
//! `sched.home` is dumped with the rest, so a copy carries the home of its original, beside its own if it has one: every row of it has
//! to name this database. It is empty until the first job is defined or execution claimed. So a restore that loads
//! schedules before homes does not look like a database of its own meanwhile.

mod distributed;

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;
use scheduler_core::Instant;

use crate::heap::layouts::{self, home};
use crate::heap::{LatestSnapshot, Scan, Table};
use crate::pg::convert::timestamp;
use crate::pg::error::{Failure, Outcome};
use crate::pg::invalidation::HOME;
use crate::pg::record::{Column, Record};
use crate::pg::{objects_version, oid_cache, syscache, Session};
use crate::shmem::{registry, wakeup};
use crate::store::{database_clock, fast_path};
use crate::{arguments, statement};

pub use distributed::refuse as refuse_distributed;

/// Whose rows these are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// This database's.
    Here,
    /// Nobody's: nothing was ever defined or claimed here.
    Nowhere,
    /// Another database's.
    Elsewhere,
}

/// This backend has seen that the database is at home when it knew of so many changes of the table.
static AT_HOME: AtomicU64 = AtomicU64::new(u64::MAX);

/// It has, and the table has not changed since.
fn is_at_home() -> bool {
    AT_HOME.load(Ordering::Relaxed) == HOME.changes()
}

/// What tells this database from every other: its server's identifier, which a promoted standby keeps, and its own.
fn here() -> (i64, Oid) {
    // SAFETY: reads shared memory and a global of the backend.
    unsafe { (pg_sys::GetSystemIdentifier().cast_signed(), pg_sys::MyDatabaseId) }
}

const TABLE: &CStr = c"home";

/// The schema, where it has homes. The objects of 0.1.0 know none; the update writes this database down.
fn schema() -> Option<Oid> {
    oid_cache::schema().map(|(schema, _)| schema).filter(|schema| oid_cache::relation(*schema, TABLE).is_some())
}

/// Whose rows these are, read anew: row by row, for a new session's first claim comes here, and to plan a statement would take as long
/// as the rest of it. Where the table is not as expected, by a statement.
pub fn load<'s>(session: impl FnOnce() -> &'s Session) -> Home {
    schema().and_then(|schema| fast_path::open(schema, read)).unwrap_or_else(|| {
        statement!(HOMES = "identity/homes"());
        HOMES.run(session(), arguments![]).iter().fold(Home::Nowhere, |known, row| known.with(&row))
    })
}

impl Home {
    /// With one more row of `sched.home`.
    fn with(self, row: &impl Record<Column>) -> Home {
        let home = (row.get_required(home::SYSTEM_IDENTIFIER), row.get_required(home::DATABASE));
        if self != Home::Elsewhere && home == here() {
            Home::Here
        } else {
            Home::Elsewhere
        }
    }
}

/// The same row by row; `None` where the table is not as expected.
fn read(schema: Oid) -> Option<Home> {
    let table = Table::open(schema, &layouts::HOME)?;
    let latest = LatestSnapshot::take();
    let mut homes = Scan::open(&table, &latest);
    let mut known = Home::Nowhere;
    while homes.next() {
        known = known.with(&table);
    }
    Some(known)
}

/// To be asked before anything is fired or handed out: `55000` in a copy.
pub fn require<'s>(session: impl Fn() -> &'s Session) -> Outcome<Home> {
    if is_at_home() {
        return Ok(Home::Here);
    }
    refuse_distributed(&session)?;
    if database_clock::is_test() {
        // A copy as well: each test has one of its own, and none of them fires by itself.
        return Ok(Home::Here);
    }
    let Some(schema) = schema() else { return Ok(Home::Here) };
    let changes = Table::open_any(schema, TABLE).watch(&HOME);
    objects_version::watch();
    let home = load(session);
    match home {
        Home::Elsewhere => Err(copy()),
        Home::Nowhere => Ok(home),
        Home::Here => {
            if let Some(changes) = changes {
                AT_HOME.store(changes, Ordering::Relaxed);
            }
            if registry::is_unknown() {
                wakeup::dispatcher_at_commit();
            }
            Ok(home)
        }
    }
}

/// Writes this database down as the home, where there is none yet.
pub fn settle(session: &Session) {
    if is_at_home() || schema().is_none() {
        return;
    }
    statement!(HOME_SETTLE = "identity/home_settle"(INT8OID, OIDOID));
    let (server, database) = here();
    HOME_SETTLE.run(session, arguments![server, database]);
}

/// Takes this database as the home; how many schedules begin anew at `now`.
pub fn adopt(session: &Session, now: Instant) -> i64 {
    statement!(HOME_ADOPT = "identity/home_adopt"(INT8OID, OIDOID));
    statement!(SEQUENCES_ADVANCE = "identity/sequences_advance"());
    let (server, database) = here();
    SEQUENCES_ADVANCE.run(session, arguments![]);
    HOME_ADOPT.run(session, arguments![server, database]);
    begin_anew(session, now)
}

/// Has all schedules fire plan times after `now` only; how many.
pub fn begin_anew(session: &Session, now: Instant) -> i64 {
    statement!(SCHEDULES_REBASELINE = "schedule/schedules_rebaseline"(TIMESTAMPTZOID));
    let schedules = SCHEDULES_REBASELINE.run(session, arguments![timestamp(now)]).len();
    i64::try_from(schedules).unwrap_or(i64::MAX)
}

/// Why nothing is fired or handed out.
pub fn copy() -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("database \"{}\" is a copy that nobody has adopted", syscache::database_name()),
        "Call sched.adopt() in it, as a superuser or the extension's owner, if its schedules are to fire and its work is to be claimed here.",
    )
}
