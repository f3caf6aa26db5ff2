//! What the catalogs say of the extension, of databases and of roles: look-ups in Postgres' caches, inside a transaction.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use pgrx::pg_sys::{self, Oid, SysCacheIdentifier};

fn known(oid: Oid) -> Option<Oid> {
    (oid != Oid::INVALID).then_some(oid)
}

/// The schema `sched`, asked for anew (`names` remembers it).
pub(super) fn schema() -> Option<Oid> {
    // SAFETY: a look-up by name; unknown names answer 0.
    known(unsafe { pg_sys::get_namespace_oid(c"sched".as_ptr(), true) })
}

/// A table, view, index or sequence of this name in a schema, asked for anew (as above).
pub(super) fn relation_in(schema: Oid, name: &CStr) -> Option<Oid> {
    // SAFETY: as above.
    known(unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) })
}

/// The tables, views and sequences of a schema; those first that others are reached through.
pub fn relations_of(schema: Oid) -> Vec<Oid> {
    let mut found = Vec::new();
    // SAFETY: a scan of a catalog with a snapshot of its own, inside a transaction.
    unsafe {
        let class = pg_sys::table_open(pg_sys::RelationRelationId, pg_sys::AccessShareLock as i32);
        let scan = pg_sys::systable_beginscan(class, Oid::INVALID, false, null_mut(), 0, null_mut());
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
            let order = match row.relkind as u8 {
                _ if row.relnamespace != schema => continue,
                pg_sys::RELKIND_VIEW => 0,
                pg_sys::RELKIND_RELATION => 1,
                pg_sys::RELKIND_SEQUENCE => 2,
                // Who has the table has these.
                _ => continue,
            };
            found.push((order, row.oid.to_u32()));
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(class, pg_sys::AccessShareLock as i32);
    }
    found.sort_unstable();
    found.into_iter().map(|(_, relation)| Oid::from(relation)).collect()
}

/// The extension, as pg_extension names it.
pub const EXTENSION: &CStr = c"scheduler";

/// The extension with the language that some of our functions are written in: dropped with CASCADE, it takes ours along.
pub const LANGUAGE: &CStr = c"plpgsql";

/// The extension in this database.
pub fn extension() -> Option<Oid> {
    extension_of_name(EXTENSION)
}

/// An extension of this database.
pub fn extension_of_name(name: &CStr) -> Option<Oid> {
    // SAFETY: as above.
    known(unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) })
}

/// What `read` finds in the row of this oid, `None` where there is none.
///
/// SAFETY: the cache has to be one by oid, of a catalog whose rows begin with a `Row`.
unsafe fn row<Row, R>(cache: SysCacheIdentifier::Type, oid: Oid, read: impl FnOnce(&Row) -> R) -> Option<R> {
    let tuple = pg_sys::SearchSysCache1(cache as i32, oid.into());
    if tuple.is_null() {
        return None;
    }
    let found = read(&*pg_sys::GETSTRUCT(tuple).cast::<Row>());
    pg_sys::ReleaseSysCache(tuple);
    Some(found)
}

/// Who owns a schema.
pub fn owner_of_schema(schema: Oid) -> Option<Oid> {
    // SAFETY: the cache and the rows of one catalog.
    unsafe { row(SysCacheIdentifier::NAMESPACEOID, schema, |row: &pg_sys::FormData_pg_namespace| row.nspowner) }
}

/// Who owns a database.
pub fn owner_of_database(database: Oid) -> Option<Oid> {
    // SAFETY: as above.
    unsafe { row(SysCacheIdentifier::DATABASEOID, database, |row: &pg_sys::FormData_pg_database| row.datdba) }
}

/// Who owns a relation.
pub fn owner_of_relation(relation: Oid) -> Option<Oid> {
    // SAFETY: as above.
    unsafe { row(SysCacheIdentifier::RELOID, relation, |row: &pg_sys::FormData_pg_class| row.relowner) }
}

/// The schema that a relation is in.
pub fn schema_of_relation(relation: Oid) -> Option<Oid> {
    // SAFETY: as above.
    unsafe { row(SysCacheIdentifier::RELOID, relation, |row: &pg_sys::FormData_pg_class| row.relnamespace) }
}

/// A relation of this name in a schema of that name, looked up now.
pub fn relation_named(schema: &CStr, name: &CStr) -> Option<Oid> {
    // SAFETY: look-ups by name; unknown names answer 0.
    let schema = known(unsafe { pg_sys::get_namespace_oid(schema.as_ptr(), true) })?;
    relation_in(schema, name)
}

/// Whether a relation is a table whose rows are its own, and no view or foreign table, which would run something when it is read.
pub fn is_plain_table(relation: Oid) -> bool {
    let kind = |row: &pg_sys::FormData_pg_class| row.relkind as u8;
    // SAFETY: as above.
    unsafe { row(SysCacheIdentifier::RELOID, relation, kind) == Some(pg_sys::RELKIND_RELATION) }
}

/// Whether a relation is a view that an extension has made.
pub fn is_view_of_extension(relation: Oid) -> bool {
    let kind = |row: &pg_sys::FormData_pg_class| row.relkind as u8;
    // SAFETY: as above; the second reads pg_depend.
    unsafe {
        row(SysCacheIdentifier::RELOID, relation, kind) == Some(pg_sys::RELKIND_VIEW)
            && pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, relation) != Oid::INVALID
    }
}

/// What a role may do besides what it was granted.
#[derive(Clone, Copy)]
pub struct Attributes {
    /// LOGIN.
    pub may_log_in: bool,
    /// CREATEDB; superusers may without.
    pub may_create_databases: bool,
}

/// The attributes of a role; `None` where it was dropped.
pub fn attributes(role: Oid) -> Option<Attributes> {
    let read = |row: &pg_sys::FormData_pg_authid| Attributes {
        may_log_in: row.rolcanlogin,
        may_create_databases: row.rolcreatedb,
    };
    // SAFETY: the cache and the rows of one catalog.
    unsafe { row(SysCacheIdentifier::AUTHOID, role, read) }
}

/// How Postgres marks a database whose DROP was interrupted, in datconnlimit.
const INVALID: i32 = -2;

/// A row of pg_database: the name of a database, and whether it can have a dispatcher at all.
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
    /// Reads one.
    pub fn read(row: &pg_sys::FormData_pg_database) -> Database {
        Database {
            oid: row.oid.to_u32(),
            // SAFETY: Postgres ends a name with a NUL.
            name: unsafe { CStr::from_ptr(row.datname.data.as_ptr()) }.to_owned(),
            is_template: row.datistemplate,
            accepts_connections: row.datallowconn && row.datconnlimit != INVALID,
        }
    }

    /// Whether a dispatcher may be there: not in templates, which others copy, nor where nobody can connect.
    pub fn can_be_served(&self) -> bool {
        self.accepts_connections && !self.is_template
    }
}

/// The database with this oid.
pub fn database(database: Oid) -> Option<Database> {
    // SAFETY: the cache and the rows of one catalog.
    unsafe { row(SysCacheIdentifier::DATABASEOID, database, Database::read) }
}

/// The database of this process; `None` where it has just been dropped.
pub fn this_database() -> Option<Database> {
    // SAFETY: reads a global of the process.
    database(unsafe { pg_sys::MyDatabaseId })
}

/// The name of this database, for messages.
pub fn database_name() -> String {
    this_database().map_or_else(String::new, |database| database.name.to_string_lossy().into_owned())
}
