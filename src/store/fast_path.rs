//! Which way a call goes: row by row through the tables' access methods (`crate::heap`), or by statements. Every room's door asks here, and
//! nothing else decides it.
//!
//! Row by row where all of this is so:
//!
//! - `sched.fast_path` is on;
//! - every table that it takes is as it was made: no trigger, rule, row security or column of somebody else's (`Table::open`), and one that is
//!   written to may be written to (`Table::open_to_write`);
//! - in a session, the objects are of the library's version: on others the statements say what they lack.
//!
//! How a key stands in the ledger's index (`lease::key_lock`) is asked without a statement either way, for no statement could say.

use std::rc::Rc;

use pgrx::pg_sys::{self, Oid};

use crate::guc;
use crate::heap::{Layout, Table, Workspace};
use crate::pg::Session;

/// What `tables` opens of the schema `sched`, where a call goes row by row; `None` where statements are to do it.
pub fn open<T>(schema: Oid, tables: impl FnOnce(Oid) -> Option<T>) -> Option<T> {
    if guc::fast_path() {
        tables(schema)
    } else {
        None
    }
}

/// The same where there is a session.
pub fn open_in<T>(session: &Session, tables: impl FnOnce(Oid) -> Option<T>) -> Option<T> {
    let schema = if guc::fast_path() { session.schema_of_this_version() } else { None };
    schema.and_then(tables)
}

/// A table to be read, where a statement of the current role would be allowed to.
pub fn readable(schema: Oid, layout: &Layout) -> Option<Table> {
    Table::open(schema, layout).filter(|table| table.permits(pg_sys::ACL_SELECT))
}

/// A table to be read and written, where a statement of the current role that needs these rights would be allowed to.
pub fn writable(schema: Oid, layout: &Layout, workspace: &Rc<Workspace>, rights: u32) -> Option<Table> {
    Table::open_to_write(schema, layout, workspace).filter(|table| table.permits(pg_sys::ACL_SELECT | rights))
}
