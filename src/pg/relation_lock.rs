//! Locks on our tables that are asked for and not waited for long: who only wants to say how things stand must not stand in line.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use pgrx::pg_sys::{self, Oid};

use crate::pg::{latch, oid_cache};

/// How long to ask again, for all of them together.
const LONGEST: Duration = Duration::from_millis(500);
/// How long to wait before asking again, in milliseconds.
const BETWEEN: i64 = 10;

/// Locks these tables of `schema` and their indexes, to read them, to the end of the transaction. Those that somebody keeps to himself, or
/// that there are not.
pub fn try_share_all<'n>(schema: Oid, names: &[&'n CStr]) -> Vec<&'n CStr> {
    let began = Instant::now();
    let mut left = names.to_vec();
    loop {
        left.retain(|name| !try_share_table(schema, name));
        if left.is_empty() || began.elapsed() > LONGEST {
            return left;
        }
        latch::pause_in_statement(BETWEEN);
    }
}

fn try_share_table(schema: Oid, name: &CStr) -> bool {
    oid_cache::relation(schema, name).is_some_and(try_share_with_indexes)
}

/// Locks a table and its indexes to read them, to the end of the transaction, if nobody is in the way.
pub fn try_share_with_indexes(table: Oid) -> bool {
    try_share(table) && indexes(table).into_iter().all(try_share)
}

/// Locks a relation to read it if nobody is in the way.
fn try_share(relation: Oid) -> bool {
    // SAFETY: inside a transaction, which gives the lock back at its end.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, pg_sys::AccessShareLock as i32) }
}

/// The indexes of a table that we have locked.
fn indexes(table: Oid) -> Vec<Oid> {
    // SAFETY: the lock keeps the table from going. Where somebody dropped it before we had that, there is nothing.
    unsafe {
        let relation = pg_sys::try_relation_open(table, pg_sys::NoLock as i32);
        if relation.is_null() {
            return Vec::new();
        }
        let list = pg_sys::RelationGetIndexList(relation);
        let found = (0..pg_sys::list_length(list)).map(|place| pg_sys::list_nth_oid(list, place)).collect();
        pg_sys::list_free(list);
        pg_sys::relation_close(relation, pg_sys::NoLock as i32);
        found
    }
}
