//! What this process has found by name: our schema, who owns it, and what is in it. Each call asks for the same half dozen names, and a
//! look-up in Postgres' caches takes several times as long as one here. All is forgotten once the entry of any schema or relation
//! changes: Postgres says so to every process, and after a rollback to this one.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid, SysCacheIdentifier};

use crate::pg::syscache;

/// The names are those that stand in our code, so these are few.
struct Memory {
    watching: bool,
    /// How often all was forgotten.
    changes: u64,
    schema: Option<(Oid, Oid)>,
    relations: Vec<(Oid, CString, Oid)>,
}

thread_local! {
    static MEMORY: RefCell<Memory> =
        const { RefCell::new(Memory { watching: false, changes: 0, schema: None, relations: Vec::new() }) };
}

/// The schema `sched` and its owner.
pub fn schema() -> Option<(Oid, Oid)> {
    let look = || {
        let schema = syscache::schema()?;
        Some((schema, syscache::owner_of_schema(schema)?))
    };
    recall(|memory| memory.schema, look, |memory, found| memory.schema = Some(found))
}

/// A table, index or sequence of this name in a schema.
pub fn relation(schema: Oid, name: &CStr) -> Option<Oid> {
    let known = |memory: &Memory| {
        memory.relations.iter().find(|known| known.0 == schema && known.1.as_c_str() == name).map(|known| known.2)
    };
    let keep = |memory: &mut Memory, found| memory.relations.push((schema, name.to_owned(), found));
    recall(known, || syscache::relation_in(schema, name), keep)
}

fn recall<T: Copy>(
    known: impl FnOnce(&Memory) -> Option<T>,
    look: impl FnOnce() -> Option<T>,
    keep: impl FnOnce(&mut Memory, T),
) -> Option<T> {
    if let Some(found) = MEMORY.with_borrow(known) {
        return Some(found);
    }
    let before = MEMORY.with_borrow_mut(|memory| {
        if !std::mem::replace(&mut memory.watching, true) {
            watch();
        }
        memory.changes
    });
    let found = look()?;
    MEMORY.with_borrow_mut(|memory| {
        // A change may have come up during the look.
        if memory.changes == before {
            keep(memory, found);
        }
    });
    Some(found)
}

fn watch() {
    // Who owns a schema stands in the same row as its name.
    for cache in [SysCacheIdentifier::NAMESPACENAME, SysCacheIdentifier::RELNAMENSP] {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::CacheRegisterSyscacheCallback(cache as i32, Some(names_changed), pg_sys::Datum::from(0)) };
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn names_changed(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    MEMORY.with_borrow_mut(|memory| {
        memory.changes += 1;
        memory.schema = None;
        memory.relations.clear();
    });
}
