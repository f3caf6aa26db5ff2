//! What this process has found by name: our schema, who owns it, and what is in it. Each call asks for the same half dozen names, and a
//! look-up in Postgres' caches takes several times as long as one here. All is forgotten once the entry of any schema or relation
//! changes: Postgres says so to every process, and after a rollback to this one.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid, SysCacheIdentifier};

use crate::store::catalog;

/// The names are those that stand in our code, so these are few.
struct Memory {
    watching: bool,
    /// How often all was forgotten.
    changes: u64,
    schema: Option<(Oid, Oid)>,
    /// All of our tables belong to the schema's owner.
    is_whole: bool,
    relations: Vec<(Oid, CString, Oid)>,
}

thread_local! {
    static MEMORY: RefCell<Memory> = const {
        RefCell::new(Memory { watching: false, changes: 0, schema: None, is_whole: false, relations: Vec::new() })
    };
}

/// The schema `sched` and its owner.
pub fn schema() -> Option<(Oid, Oid)> {
    let look = || {
        let schema = catalog::schema()?;
        Some((schema, catalog::owner_of_schema(schema)?))
    };
    recall(|memory| memory.schema, look, |memory, found| memory.schema = Some(found))
}

/// Whether all of our tables belong to the schema's owner, which `look` finds out.
pub fn is_whole(look: impl FnOnce() -> bool) -> bool {
    let look = || look().then_some(true);
    recall(|memory| memory.is_whole.then_some(true), look, |memory, found| memory.is_whole = found).is_some()
}

/// A table, index or sequence of this name in a schema.
pub fn relation(schema: Oid, name: &CStr) -> Option<Oid> {
    let known = |memory: &Memory| {
        memory.relations.iter().find(|known| known.0 == schema && known.1.as_c_str() == name).map(|known| known.2)
    };
    let keep = |memory: &mut Memory, found| memory.relations.push((schema, name.to_owned(), found));
    recall(known, || catalog::relation_in(schema, name), keep)
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
    // Who owns a schema or a relation stands in the same row as its name.
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
        memory.is_whole = false;
        memory.relations.clear();
    });
}
