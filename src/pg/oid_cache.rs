//! What this process has found by name: our schema, who owns it, and what is in it. Each call asks for the same half dozen names, and a
//! look-up in Postgres' caches takes several times as long as one here. All is forgotten once the entry of any schema or relation
//! changes: Postgres says so to every process, and after a rollback to this one.

use std::cell::RefCell;
use std::ffi::{CStr, CString};

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid, SysCacheIdentifier};

use crate::pg::syscache;

/// The names are those that stand in our code, so these are few.
struct Cache {
    watching: bool,
    /// How often all was forgotten.
    changes: u64,
    schema: Option<(Oid, Oid)>,
    /// All of our tables belong to the schema's owner.
    has_one_owner: bool,
    relations: Vec<(Oid, CString, Oid)>,
}

thread_local! {
    static CACHE: RefCell<Cache> = const {
        RefCell::new(Cache { watching: false, changes: 0, schema: None, has_one_owner: false, relations: Vec::new() })
    };
}

/// The schema `sched` and its owner.
pub fn schema() -> Option<(Oid, Oid)> {
    let load = || {
        let schema = syscache::schema()?;
        Some((schema, syscache::owner_of_schema(schema)?))
    };
    recall(|cache| cache.schema, load, |cache, found| cache.schema = Some(found))
}

/// Whether all of our tables belong to the schema's owner, which `load` finds out.
pub fn has_one_owner(load: impl FnOnce() -> bool) -> bool {
    let load = || load().then_some(true);
    recall(|cache| cache.has_one_owner.then_some(true), load, |cache, found| cache.has_one_owner = found).is_some()
}

/// A table, index or sequence of this name in a schema.
pub fn relation(schema: Oid, name: &CStr) -> Option<Oid> {
    let known = |cache: &Cache| {
        cache.relations.iter().find(|known| known.0 == schema && known.1.as_c_str() == name).map(|known| known.2)
    };
    let keep = |cache: &mut Cache, found| cache.relations.push((schema, name.to_owned(), found));
    recall(known, || syscache::relation_in(schema, name), keep)
}

fn recall<T: Copy>(
    known: impl FnOnce(&Cache) -> Option<T>,
    load: impl FnOnce() -> Option<T>,
    keep: impl FnOnce(&mut Cache, T),
) -> Option<T> {
    if let Some(found) = CACHE.with_borrow(known) {
        return Some(found);
    }
    let before = CACHE.with_borrow_mut(|cache| {
        if !std::mem::replace(&mut cache.watching, true) {
            watch();
        }
        cache.changes
    });
    let found = load()?;
    CACHE.with_borrow_mut(|cache| {
        // A change may have come up during the look.
        if cache.changes == before {
            keep(cache, found);
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
    CACHE.with_borrow_mut(|cache| {
        cache.changes += 1;
        cache.schema = None;
        cache.has_one_owner = false;
        cache.relations.clear();
    });
}
