//! A table of ours, opened, and its current row.

use std::cell::OnceCell;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::rc::Rc;

use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::{FromDatum, IntoDatum};

use crate::heap::writer::{Workspace, Writer};
use crate::pg::error::{raise, Failure};
use crate::pg::invalidation::Watched;
use crate::pg::record::{Column, Record};
use crate::pg::{compat, oid_cache, role, utf8_text};

/// A table of ours: its name and the types of its columns, in order.
pub struct Layout {
    /// Its name in the schema `sched`.
    pub name: &'static CStr,
    /// One type for each column.
    pub columns: &'static [Oid],
    /// And its name, for the test that compares this with the catalog.
    #[allow(dead_code)]
    pub names: &'static [&'static str],
}

/// What is committed at this moment, and what this transaction has done before it. See `Statement::run` for why not the
/// transaction's own snapshot.
pub struct LatestSnapshot(pub(super) pg_sys::Snapshot);

impl LatestSnapshot {
    /// Takes one now. The caller is inside a transaction.
    pub fn take() -> LatestSnapshot {
        // SAFETY: what SPI does before a statement; the snapshot on the stack is a copy, which lives until it is popped.
        unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
            LatestSnapshot(pg_sys::GetActiveSnapshot())
        }
    }
}

impl Drop for LatestSnapshot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the snapshot that `take` pushed; after an error the abort of the (sub)transaction pops it.
            unsafe { pg_sys::PopActiveSnapshot() }
        }
    }
}

/// One of our tables, opened; and its current row.
///
/// What it opened is closed when it goes out of scope, after an error by the end of the (sub)transaction. Locks stay until then.
pub struct Table {
    pub(super) schema: Oid,
    pub(super) relation: pg_sys::Relation,
    /// The row that was found last.
    pub(super) current: *mut pg_sys::TupleTableSlot,
    pub(super) workspace: Option<Rc<Workspace>>,
    pub(super) writer: OnceCell<Writer>,
}

impl Table {
    /// Opens a table of the schema `sched` to be read; `None` where it is not as this file expects it.
    pub fn open(schema: Oid, layout: &Layout) -> Option<Table> {
        let table = Table::locked(schema, layout.name, pg_sys::AccessShareLock);
        // SAFETY: the relation is open.
        unsafe { is_as_expected(table.relation, layout) }.then_some(table)
    }

    /// Opens a table to be read and written; `None` also in a transaction that may not write.
    pub fn open_to_write(schema: Oid, layout: &Layout, workspace: &Rc<Workspace>) -> Option<Table> {
        // SAFETY: reads a setting of the transaction.
        if unsafe { pg_sys::XactReadOnly } {
            return None;
        }
        let mut table = Table::locked(schema, layout.name, pg_sys::RowExclusiveLock);
        table.workspace = Some(Rc::clone(workspace));
        // SAFETY: the relation is open.
        unsafe { is_as_expected(table.relation, layout) && !has_surprises(table.relation) }.then_some(table)
    }

    /// Opens a table of any shape, for those who only ask its indexes.
    pub fn open_any(schema: Oid, name: &CStr) -> Table {
        Table::locked(schema, name, pg_sys::AccessShareLock)
    }

    /// Its oid.
    pub fn oid(&self) -> Oid {
        // SAFETY: the relation is open.
        unsafe { (*self.relation).rd_id }
    }

    /// Hears of this table's changes from now on; with which number what is read of it may be remembered (`Watched::watch`).
    pub fn watch(&self, watched: &Watched) -> Option<u64> {
        watched.watch(self.oid(), |trigger| self.always_fires(trigger))
    }

    /// Whether this trigger fires for each row that anybody changes, also what logical replication brings (FOR EACH ROW, ENABLE ALWAYS).
    fn always_fires(&self, trigger: &CStr) -> bool {
        let is_one = |one: &pg_sys::Trigger| {
            let of_rows = u32::from(one.tgtype.cast_unsigned()) & pg_sys::TRIGGER_TYPE_ROW != 0;
            of_rows && one.tgenabled == pg_sys::TRIGGER_FIRES_ALWAYS as std::ffi::c_char
        };
        // SAFETY: the relation is open; Postgres ends a name with a NUL.
        unsafe {
            let all = (*self.relation).trigdesc;
            !all.is_null()
                && std::slice::from_raw_parts((*all).triggers, (*all).numtriggers as usize)
                    .iter()
                    .any(|one| CStr::from_ptr(one.tgname) == trigger && is_one(one))
        }
    }

    fn locked(schema: Oid, name: &CStr, lock: u32) -> Table {
        // SAFETY: called inside a transaction.
        unsafe {
            let relation = pg_sys::table_open(relation_oid(schema, name), lock as i32);
            let current = pg_sys::table_slot_create(relation, null_mut());
            Table { schema, relation, current, workspace: None, writer: OnceCell::new() }
        }
    }

    /// A column of the current row as it lies there: valid until another row is found.
    pub fn datum(&self, column: Column) -> Option<Datum> {
        let (datum, is_null) = self.raw(column.number);
        (!is_null).then_some(datum)
    }

    fn raw(&self, number: usize) -> (Datum, bool) {
        // SAFETY: the slot is this table's, and has a row and this column.
        unsafe {
            assert!(u32::from((*self.current).tts_flags) & pg_sys::TTS_FLAG_EMPTY == 0, "a row was found");
            assert!((1..=(*(*self.relation).rd_att).natts as usize).contains(&number), "a column of the table");
            if number > (*self.current).tts_nvalid as usize {
                pg_sys::slot_getsomeattrs_int(self.current, number as i32);
            }
            (*(*self.current).tts_values.add(number - 1), *(*self.current).tts_isnull.add(number - 1))
        }
    }
}

/// The current row.
impl Record<Column> for Table {
    fn get<T: FromDatum>(&self, column: Column) -> Option<T> {
        let (datum, is_null) = self.raw(column.number);
        // SAFETY: the value is of the type that the column has, and is copied out of the row.
        unsafe {
            let type_oid = (*compat::attribute((*self.relation).rd_att, column.index())).atttypid;
            if type_oid == pg_sys::TEXTOID && !is_null {
                utf8_text::check(datum);
            }
            T::from_polymorphic_datum(datum, is_null, type_oid)
        }
    }

    fn lossy(&self, column: Column) -> Option<String> {
        // SAFETY: as above; its callers name a text.
        self.datum(column).map(|datum| unsafe { utf8_text::lossy(datum) })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        drop(self.writer.take());
        // SAFETY: each was opened by this value and is closed once.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.current);
            pg_sys::table_close(self.relation, pg_sys::NoLock as i32);
        }
    }
}

/// A sequence of ours.
pub struct Sequence(Oid);

impl Sequence {
    /// Finds it.
    pub fn open(schema: Oid, name: &CStr) -> Sequence {
        Sequence(relation_oid(schema, name))
    }

    /// Its next number.
    pub fn next(&mut self) -> i64 {
        // SAFETY: the argument is the oid of a relation; nextval checks that it is a sequence.
        let value = unsafe { pgrx::direct_function_call(pg_sys::nextval_oid, &[self.0.into_datum()]) };
        value.unwrap_or_else(|| raise(Failure::internal("a sequence gave no number")))
    }
}

/// Takes the locks that a statement which writes to these tables takes.
pub fn lock_to_write(names: &[&CStr]) {
    let (schema, _) = role::extension();
    for name in names {
        // SAFETY: called inside a transaction, on the oid of a relation.
        unsafe { pg_sys::LockRelationOid(relation_oid(schema, name), pg_sys::RowExclusiveLock as i32) };
    }
}

/// A relation of the schema `sched`; an internal error where it is missing.
pub fn relation_oid(schema: Oid, name: &CStr) -> Oid {
    oid_cache::relation(schema, name)
        .unwrap_or_else(|| raise(Failure::internal(format!("sched.{} is missing", name.to_string_lossy()))))
}

/// A plain table with these columns, all of whose rows its owner sees. SAFETY: an open relation.
unsafe fn is_as_expected(relation: pg_sys::Relation, layout: &Layout) -> bool {
    let (class, description) = ((*relation).rd_rel, (*relation).rd_att);
    (*class).relkind == pg_sys::RELKIND_RELATION as std::ffi::c_char
        && !(*class).relhassubclass
        && !(*class).relispartition
        && !(*class).relrowsecurity
        && (*description).natts as usize == layout.columns.len()
        && layout.columns.iter().enumerate().all(|(index, type_oid)| {
            let column = compat::attribute(description, index);
            (*column).atttypid == *type_oid && !(*column).attisdropped
        })
}

/// Whether to write to the table may call for more than this file does. SAFETY: an open relation.
unsafe fn has_surprises(relation: pg_sys::Relation) -> bool {
    compat::has_generated_columns((*relation).rd_att)
        || !(*relation).trigdesc.is_null()
        || !(*relation).rd_rules.is_null()
}
