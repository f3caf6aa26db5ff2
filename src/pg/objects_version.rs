//! Whether this library and the extension's objects in the database are of one version. After a new package has been installed
//! they are not: until the server restarts the library is the old one, and until ALTER EXTENSION UPDATE the objects are.
//!
//! Patch releases that change no table have one number of the table layout: a later library of them goes on with the objects of an earlier one.
//! Else what works nevertheless goes on working, so that a runner can finish between the two. A statement that does not find what it
//! names in the other version's objects says why.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::panic::AssertUnwindSafe;

use pgrx::prelude::*;
use pgrx::{PgSqlErrorCode, PgTryBuilder};

use crate::pg::error::{raise, Failure};
use crate::pg::invalidation::HOME;
use crate::pg::subtransaction;

/// The version that this library was built as.
pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// The number of the tables that this library reads and writes: sched_internal.table_layout() of its install script has the same.
const TABLE_LAYOUT: i32 = 2;

/// What the objects in a database say of themselves.
pub struct Installed {
    /// Their version.
    pub version: String,
    /// What sched_internal.table_layout() returns, which is asked where the version is not the library's; releases before 0.3.1 have no such
    /// function.
    pub table_layout: Option<i32>,
}

/// How the library and the objects of a database go together.
pub enum Fit {
    /// They are of one version.
    Same,
    /// The objects are of an earlier release with the same tables. All goes on but what needs new objects, and this says so.
    Earlier(Failure),
    /// They do not, and this says why.
    None(Failure),
}

/// What this backend knows of the objects' version. Whatever changes a function forgets it, as every update does, and a new extension.
#[derive(Default)]
struct VersionCache {
    watching: bool,
    looked: bool,
    /// How often something changed.
    changes: u64,
    /// The objects' version where it is not the library's.
    other: Option<String>,
    /// Their tables are not the library's.
    other_tables: bool,
}

thread_local! {
    static CACHE: RefCell<VersionCache> = const { RefCell::new(VersionCache { watching: false, looked: false, changes: 0, other: None, other_tables: false }) };
}

#[pg_guard]
unsafe extern "C-unwind" fn functions_changed(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    CACHE.with_borrow_mut(|cache| {
        cache.looked = false;
        cache.changes += 1;
    });
    HOME.forget();
}

/// Looks again at the objects' version, which `installed` reads.
pub fn check(installed: impl FnOnce() -> Option<Installed>) -> Fit {
    let before = CACHE.with_borrow(|cache| cache.changes);
    watch();
    // While CREATE EXTENSION is at work there may be no row yet that we can see.
    let other = installed().filter(|installed| installed.version != LIBRARY);
    let is_served = other.as_ref().is_none_or(is_served);
    CACHE.with_borrow_mut(|cache| {
        cache.other = other.as_ref().map(|other| other.version.clone());
        cache.other_tables = !is_served;
        // A change that came up during the look makes the next one look again.
        cache.looked = cache.changes == before;
    });
    match other {
        None => Fit::Same,
        Some(other) if is_served => Fit::Earlier(mismatch(&other.version)),
        Some(other) => Fit::None(mismatch(&other.version)),
    }
}

/// Whether these objects of another version are of an earlier patch release with the same tables.
fn is_served(other: &Installed) -> bool {
    let minor = |version: &str| version.splitn(3, '.').take(2).map(str::to_owned).collect::<Vec<_>>();
    compare(LIBRARY, &other.version) == Ordering::Greater
        && minor(LIBRARY) == minor(&other.version)
        && other.table_layout == Some(TABLE_LAYOUT)
}

/// From now on this backend hears when a function changes, as every update does.
pub fn watch() {
    if !CACHE.with_borrow_mut(|cache| std::mem::replace(&mut cache.watching, true)) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe {
            pg_sys::CacheRegisterSyscacheCallback(
                pg_sys::SysCacheIdentifier::PROCOID as i32,
                Some(functions_changed),
                pg_sys::Datum::from(0),
            );
        }
    }
}

/// Whether the objects are of another version than the library, as far as this backend knows by now.
pub fn differs(installed: impl FnOnce() -> Option<Installed>) -> bool {
    look_once(installed);
    CACHE.with_borrow(|cache| cache.other.is_some())
}

/// The same of the tables.
pub fn tables_differ(installed: impl FnOnce() -> Option<Installed>) -> bool {
    look_once(installed);
    CACHE.with_borrow(|cache| cache.other_tables)
}

fn look_once(installed: impl FnOnce() -> Option<Installed>) {
    if !CACHE.with_borrow(|cache| cache.looked) {
        check(installed);
    }
}

/// Runs a statement on objects of another version: what they lack becomes an error that says so (`0A000`).
pub fn explain<R>(statement: impl FnOnce() -> R) -> R {
    PgTryBuilder::new(AssertUnwindSafe(statement))
        .catch_others(|error| {
            let other = CACHE.with_borrow(|cache| cache.other.clone());
            match (lacks_something(subtransaction::describe(&error).0), other) {
                (true, Some(other)) => raise(mismatch(&other)),
                (true | false, _) => error.rethrow(),
            }
        })
        .execute()
}

fn lacks_something(code: PgSqlErrorCode) -> bool {
    [
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
        PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        // A plan that was made before the update, and whose columns have changed.
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
    ]
    .contains(&code)
}

fn mismatch(installed: &str) -> Failure {
    let hint = match compare(LIBRARY, installed) {
        Ordering::Greater | Ordering::Equal => "Run ALTER EXTENSION scheduler UPDATE in this database.".to_owned(),
        Ordering::Less => format!("Restart the server, so that it loads the library of version {installed}."),
    };
    Failure::new(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("the scheduler's library is of version \"{LIBRARY}\", its objects in this database are of version \"{installed}\""),
        hint,
    )
}

/// Which version is the later one: by their numbers, and a version with an ending ("-dev") comes before the one without.
fn compare(one: &str, other: &str) -> Ordering {
    let parts = |version: &str| {
        let (numbers, ending) = version.split_once('-').unwrap_or((version, ""));
        let numbers: Vec<u64> = numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect();
        (numbers, ending.is_empty(), ending.to_owned())
    };
    parts(one).cmp(&parts(other))
}

#[cfg(test)]
mod tests {
    use crate::pg::objects_version::{compare, is_served, Installed, LIBRARY, TABLE_LAYOUT};
    use std::cmp::Ordering::{Equal, Greater, Less};

    #[test]
    fn versions_in_order() {
        for (one, other, order) in [
            ("0.1.0", "0.2.0-dev", Less),
            ("0.2.0", "0.2.0-dev", Greater),
            ("0.10.0", "0.9.9", Greater),
            ("1.0.0", "1.0.0", Equal),
            ("what", "0.0.1", Less),
        ] {
            assert_eq!(compare(one, other), order, "{one} and {other}");
            assert_eq!(compare(other, one), order.reverse(), "{other} and {one}");
        }
    }

    #[test]
    fn an_earlier_release_with_the_same_tables_is_served() {
        let mut numbers = LIBRARY.split('.');
        let earlier = [numbers.next(), numbers.next(), Some("0-a")].map(Option::unwrap_or_default).join(".");
        for (version, table_layout, served) in [
            (earlier.as_str(), Some(TABLE_LAYOUT), true),
            (&earlier, Some(TABLE_LAYOUT - 1), false),
            (&earlier, None, false),
            ("0.0.1", Some(TABLE_LAYOUT), false),
            ("99.1", Some(TABLE_LAYOUT), false),
        ] {
            let installed = Installed { version: version.to_owned(), table_layout };
            assert_eq!(is_served(&installed), served, "{version} {table_layout:?} by {LIBRARY}");
        }
    }
}
