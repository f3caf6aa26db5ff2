//! What pg_database says of a database: its name, and whether it can have a dispatcher at all.

use std::ffi::{CStr, CString};

use pgrx::pg_sys::{self, Oid};

/// How Postgres marks a database whose DROP was interrupted, in datconnlimit.
const INVALID: i32 = -2;

/// A row of pg_database.
pub struct Database {
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub name: CString,
    /// CREATE DATABASE of anybody may copy it.
    pub is_template: bool,
    accepts_connections: bool,
}

impl Database {
    /// SAFETY: `tuple` has to be a row of pg_database.
    pub unsafe fn read(tuple: pg_sys::HeapTuple) -> Database {
        let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
        Database {
            oid: row.oid.to_u32(),
            name: CStr::from_ptr(row.datname.data.as_ptr()).to_owned(),
            is_template: row.datistemplate,
            accepts_connections: row.datallowconn && row.datconnlimit != INVALID,
        }
    }

    /// Whether a dispatcher may be there: not in templates, which others copy, nor where nobody can connect.
    pub fn can_be_served(&self) -> bool {
        self.accepts_connections && !self.is_template
    }
}

/// The database with this oid, by the cache; inside a transaction.
pub fn of(database: Oid) -> Option<Database> {
    // SAFETY: the tuple is released after it was read.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::DATABASEOID as i32, database.into());
        if tuple.is_null() {
            return None;
        }
        let database = Database::read(tuple);
        pg_sys::ReleaseSysCache(tuple);
        Some(database)
    }
}
