//! Rows of our own tables without the executor: found by an index, inserted, updated and deleted through the table's access method,
//! as Postgres treats its catalogs.
//!
//! To start and end a plan costs more than what these statements do, and a lease is taken, kept and given back at a rate at which
//! that shows. What the executor does beside the row itself is done here as well: NOT NULL and CHECK (under a pinned search path),
//! every index, replica identity, read-only transactions, and what becomes of a row that somebody has changed meanwhile. What is not
//! done here makes `Table::open` answer `None`, and its caller runs the SQL statement instead: triggers, rules, row security,
//! inheritance, generated columns, columns that this file does not know.

use std::cell::{Cell, OnceCell};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::rc::Rc;

use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::{FromDatum, IntoDatum, PgSqlErrorCode};

use crate::error::{raise, Failure};
use crate::store::session::PinnedSearchPath;
use crate::text;

/// A table of ours: its name and the types of its columns, in order.
pub struct Layout {
    /// Its name in the schema `sched`.
    pub name: &'static CStr,
    /// One type for each column.
    pub columns: &'static [Oid],
}

/// What is committed at this moment, and what this transaction has done before it. See `Statement::run` for why not the
/// transaction's own snapshot.
pub struct Present(pg_sys::Snapshot);

impl Present {
    /// Looks now. The caller is inside a transaction.
    pub fn look() -> Present {
        // SAFETY: what SPI does before a statement; the snapshot on the stack is a copy, which lives until it is popped.
        unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
            Present(pg_sys::GetActiveSnapshot())
        }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the snapshot that `look` pushed; after an error the abort of the (sub)transaction pops it.
            unsafe { pg_sys::PopActiveSnapshot() }
        }
    }
}

/// What came of a change to the row that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Done,
    /// Somebody else had changed the row; its newest version is the current row now, and locked: decide again.
    Changed,
    /// Somebody else had deleted the row.
    Gone,
    /// Somebody else has the row in hand, and the caller did not want to wait.
    Busy,
}

/// Whether a change waits for the transaction that has the row in hand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until its end.
    Block,
    /// Not at all.
    Skip,
}

/// A condition on a column of an index: the column's value equals (or compares as the strategy says with) a value.
#[derive(Clone, Copy)]
pub struct Condition {
    /// A strategy number of btree.
    pub strategy: u32,
    /// The function of the operator.
    pub function: u32,
    /// The right side.
    pub value: Datum,
}

impl Condition {
    /// The column's value is this one.
    pub fn equal(function: u32, value: impl IntoDatum) -> Condition {
        Condition::new(pg_sys::BTEqualStrategyNumber, function, value)
    }

    /// The column's value is this one or less.
    pub fn at_most(function: u32, value: impl IntoDatum) -> Condition {
        Condition::new(pg_sys::BTLessEqualStrategyNumber, function, value)
    }

    fn new(strategy: u32, function: u32, value: impl IntoDatum) -> Condition {
        let Some(value) = value.into_datum() else { raise(Failure::internal("a condition on NULL")) };
        Condition { strategy, function, value }
    }
}

/// What the executor's functions work with, made when it is first needed, for all tables of a call.
#[derive(Default)]
pub struct Workspace(OnceCell<*mut pg_sys::EState>);

impl Workspace {
    fn estate(&self) -> *mut pg_sys::EState {
        // SAFETY: a new memory context, child of the current one.
        *self.0.get_or_init(|| unsafe { pg_sys::CreateExecutorState() })
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let (Some(estate), false) = (self.0.get(), std::thread::panicking()) {
            // SAFETY: made by this value; after an error it goes with the memory context above it.
            unsafe { pg_sys::FreeExecutorState(*estate) }
        }
    }
}

/// One of our tables, opened; and its current row.
///
/// What it opened is closed when it goes out of scope, after an error by the end of the (sub)transaction. Locks stay until then.
pub struct Table {
    schema: Oid,
    relation: pg_sys::Relation,
    /// The row that was found last.
    current: *mut pg_sys::TupleTableSlot,
    workspace: Option<Rc<Workspace>>,
    writer: OnceCell<Writer>,
}

/// What a table needs to be written.
struct Writer {
    /// The row that is being written.
    row: *mut pg_sys::TupleTableSlot,
    info: *mut pg_sys::ResultRelInfo,
    workspace: Rc<Workspace>,
    indexes_open: Cell<bool>,
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

    fn locked(schema: Oid, name: &CStr, lock: u32) -> Table {
        // SAFETY: called inside a transaction.
        unsafe {
            let relation = pg_sys::table_open(relation_oid(schema, name), lock as i32);
            let current = pg_sys::table_slot_create(relation, null_mut());
            Table { schema, relation, current, workspace: None, writer: OnceCell::new() }
        }
    }

    /// Column `number` (1-based) of the current row; `None` is NULL.
    pub fn get<T: FromDatum>(&self, number: usize) -> Option<T> {
        let (datum, is_null) = self.raw(number);
        // SAFETY: the value is of the type that the column has, and is copied out of the row.
        unsafe {
            let type_oid = (*attribute((*self.relation).rd_att, number - 1)).atttypid;
            if type_oid == pg_sys::TEXTOID && !is_null {
                text::check(datum);
            }
            T::from_polymorphic_datum(datum, is_null, type_oid)
        }
    }

    /// Column `number` (1-based) of the current row, which the schema says is never NULL.
    pub fn must<T: FromDatum>(&self, number: usize) -> T {
        match self.get(number) {
            Some(value) => value,
            None => raise(Failure::internal(format!("column {number} of a scheduler table is NULL"))),
        }
    }

    /// Column `number` (1-based) of the current row as it lies there: valid until another row is found.
    pub fn datum(&self, number: usize) -> Option<Datum> {
        let (datum, is_null) = self.raw(number);
        (!is_null).then_some(datum)
    }

    fn raw(&self, number: usize) -> (Datum, bool) {
        let mut is_null = false;
        // SAFETY: the slot is this table's, and has a row and this column.
        let datum = unsafe {
            assert!(u32::from((*self.current).tts_flags) & pg_sys::TTS_FLAG_EMPTY == 0, "a row was found");
            assert!((1..=(*(*self.relation).rd_att).natts as usize).contains(&number), "a column of the table");
            pg_sys::slot_getattr(self.current, number as i32, &mut is_null)
        };
        (datum, is_null)
    }

    /// Inserts a row with a value for each column; `None` is NULL.
    pub fn insert(&self, values: &[Option<Datum>]) {
        self.insert_with(values, Oid::INVALID);
    }

    /// Inserts a row unless its key in this unique index is taken, by a committed row or by a transaction that is still open: it
    /// never waits for one. Whether it was inserted.
    pub fn insert_unless_taken(&self, values: &[Option<Datum>], index: &CStr) -> bool {
        let inserted = self.insert_with(values, relation_oid(self.schema, index));
        if !inserted {
            // What stands in the table is taken back, by a later command than the one that put it there.
            let writer = self.writer();
            // SAFETY: the row's place is the one that the insert noted.
            unsafe {
                pg_sys::CommandCounterIncrement();
                let snapshot = pg_sys::GetActiveSnapshot();
                pg_sys::simple_table_tuple_delete(self.relation, &raw mut (*writer.row).tts_tid, snapshot);
            }
        }
        inserted
    }

    /// Inserts; false where the key in the unique index `arbiter` was taken, and then the row stands there all the same.
    fn insert_with(&self, values: &[Option<Datum>], arbiter: Oid) -> bool {
        let relation = self.relation;
        let writer = self.writer();
        // SAFETY: as ExecInsert does it; the row has a value for each column (checked in `store`).
        unsafe {
            store(writer.row, values);
            writer.check_constraints(relation, writer.row);
            pg_sys::simple_table_tuple_insert(relation, writer.row);
            writer.index(relation, writer.row, false, arbiter)
        }
    }

    /// Inserts many rows at once: a page that is filled is logged once.
    pub fn insert_all(&self, rows: &[Vec<Option<Datum>>]) {
        const AT_ONCE: usize = 100;
        let writer = self.writer();
        for rows in rows.chunks(AT_ONCE) {
            // SAFETY: as COPY does it; each row has a slot of its own, which is dropped when its index entries are made.
            unsafe {
                let mut slots: Vec<*mut pg_sys::TupleTableSlot> = rows
                    .iter()
                    .map(|values| {
                        let slot = new_row(self.relation);
                        store(slot, values);
                        writer.check_constraints(self.relation, slot);
                        slot
                    })
                    .collect();
                let (count, command) = (slots.len() as i32, pg_sys::GetCurrentCommandId(true));
                pg_sys::table_multi_insert(self.relation, slots.as_mut_ptr(), count, command, 0, null_mut());
                for slot in slots {
                    writer.index(self.relation, slot, false, Oid::INVALID);
                    pg_sys::ExecDropSingleTupleTableSlot(slot);
                }
            }
        }
    }

    /// Changes columns (1-based) of the current row.
    pub fn update(&self, changes: &[(usize, Option<Datum>)], wait: Wait) -> Fate {
        let (relation, current) = (self.relation, self.current);
        let mut failure = pg_sys::TM_FailureData::default();
        let mut lock_mode = pg_sys::LockTupleMode::LockTupleExclusive;
        #[cfg(feature = "pg15")]
        let (mut reindex, unchanged) = (false, false);
        #[cfg(not(feature = "pg15"))]
        let (mut reindex, unchanged) =
            (pg_sys::TU_UpdateIndexes::TU_None, pg_sys::TU_UpdateIndexes::TU_None);
        let writer = self.writer();
        // SAFETY: as ExecUpdate does it; the current row is one that was found in this table.
        let result = unsafe {
            pg_sys::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_UPDATE);
            store_changed(writer.row, current, changes);
            writer.check_constraints(relation, writer.row);
            let command = pg_sys::GetCurrentCommandId(true);
            pg_sys::table_tuple_update(
                relation,
                &raw mut (*current).tts_tid,
                writer.row,
                command,
                pg_sys::GetActiveSnapshot(),
                null_mut(),
                wait == Wait::Block,
                &mut failure,
                &mut lock_mode,
                &mut reindex,
            )
        };
        if result == pg_sys::TM_Result::TM_Ok && reindex != unchanged {
            // A row that moved is in all indexes but those that summarize pages, of which the ledger has none.
            // SAFETY: as above.
            unsafe { writer.index(relation, writer.row, true, Oid::INVALID) };
        }
        self.settle(result, lock_mode, wait)
    }

    /// Deletes the current row.
    pub fn delete(&self, wait: Wait) -> Fate {
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: as ExecDelete does it; the current row is one that was found in this table.
        let result = unsafe {
            pg_sys::CheckCmdReplicaIdentity(self.relation, pg_sys::CmdType::CMD_DELETE);
            pg_sys::table_tuple_delete(
                self.relation,
                &raw mut (*self.current).tts_tid,
                pg_sys::GetCurrentCommandId(true),
                pg_sys::GetActiveSnapshot(),
                null_mut(),
                wait == Wait::Block,
                &mut failure,
                false,
            )
        };
        self.settle(result, pg_sys::LockTupleMode::LockTupleExclusive, wait)
    }

    /// What the executor makes of the answer to a change: under READ COMMITTED the newest version is locked and looked at again,
    /// under the stricter levels the transaction cannot go on (40001). Who does not want to wait takes any change for a no.
    fn settle(&self, result: pg_sys::TM_Result::Type, lock_mode: pg_sys::LockTupleMode::Type, wait: Wait) -> Fate {
        use pg_sys::TM_Result;
        if result == TM_Result::TM_Ok {
            return Fate::Done;
        }
        if wait == Wait::Skip {
            return Fate::Busy;
        }
        let what = if result == TM_Result::TM_Deleted { "delete" } else { "update" };
        // SAFETY: reads a setting of the transaction.
        let strict = unsafe { pg_sys::XactIsoLevel } >= pg_sys::XACT_REPEATABLE_READ as i32;
        match result {
            TM_Result::TM_Updated | TM_Result::TM_Deleted if strict => raise(Failure::new(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                format!("could not serialize access due to concurrent {what}"),
                "",
            )),
            TM_Result::TM_Deleted => Fate::Gone,
            TM_Result::TM_Updated => self.lock_newest(lock_mode),
            other => raise(Failure::internal(format!("a row of the scheduler could not be changed ({other})"))),
        }
    }

    fn lock_newest(&self, lock_mode: pg_sys::LockTupleMode::Type) -> Fate {
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: as EvalPlanQual's callers do it.
        let result = unsafe {
            let mut place = (*self.current).tts_tid;
            pg_sys::table_tuple_lock(
                self.relation,
                &mut place,
                pg_sys::GetActiveSnapshot(),
                self.current,
                pg_sys::GetCurrentCommandId(false),
                lock_mode,
                pg_sys::LockWaitPolicy::LockWaitBlock,
                pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8,
                &mut failure,
            )
        };
        match result {
            pg_sys::TM_Result::TM_Ok => Fate::Changed,
            pg_sys::TM_Result::TM_Deleted => Fate::Gone,
            other => raise(Failure::internal(format!("a row of the scheduler could not be locked ({other})"))),
        }
    }

    fn writer(&self) -> &Writer {
        let Some(workspace) = &self.workspace else { raise(Failure::internal("a table was opened to be read only")) };
        // SAFETY: as the executor prepares a table that it writes to; no range table stands behind it.
        self.writer.get_or_init(|| unsafe {
            let row = new_row(self.relation);
            let info = pg_sys::palloc0(size_of::<pg_sys::ResultRelInfo>()).cast::<pg_sys::ResultRelInfo>();
            pg_sys::InitResultRelInfo(info, self.relation, 0, null_mut(), 0);
            Writer { row, info, workspace: Rc::clone(workspace), indexes_open: Cell::new(false) }
        })
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: each was opened by this value and is closed once.
        unsafe {
            if let Some(writer) = self.writer.take() {
                if writer.indexes_open.get() {
                    pg_sys::ExecCloseIndices(writer.info);
                }
                pg_sys::ExecDropSingleTupleTableSlot(writer.row);
            }
            pg_sys::ExecDropSingleTupleTableSlot(self.current);
            pg_sys::table_close(self.relation, pg_sys::NoLock as i32);
        }
    }
}

/// A slot for a row that is yet to be written. SAFETY: an open relation, which outlives the slot.
unsafe fn new_row(relation: pg_sys::Relation) -> *mut pg_sys::TupleTableSlot {
    pg_sys::MakeSingleTupleTableSlot((*relation).rd_att, &raw const pg_sys::TTSOpsVirtual)
}

/// SAFETY: a slot of `new_row`.
unsafe fn store(slot: *mut pg_sys::TupleTableSlot, values: &[Option<Datum>]) {
    assert_eq!(values.len(), (*(*slot).tts_tupleDescriptor).natts as usize, "a value for each column");
    pg_sys::ExecClearTuple(slot);
    for (index, value) in values.iter().enumerate() {
        *(*slot).tts_values.add(index) = value.unwrap_or(Datum::null());
        *(*slot).tts_isnull.add(index) = value.is_none();
    }
    pg_sys::ExecStoreVirtualTuple(slot);
}

/// SAFETY: as `store`; `current` holds a row of the same table, and keeps it until this one is written.
unsafe fn store_changed(
    slot: *mut pg_sys::TupleTableSlot,
    current: *mut pg_sys::TupleTableSlot,
    changes: &[(usize, Option<Datum>)],
) {
    let count = (*(*slot).tts_tupleDescriptor).natts as usize;
    pg_sys::ExecClearTuple(slot);
    pg_sys::slot_getallattrs(current);
    std::ptr::copy_nonoverlapping((*current).tts_values, (*slot).tts_values, count);
    std::ptr::copy_nonoverlapping((*current).tts_isnull, (*slot).tts_isnull, count);
    for (number, value) in changes {
        assert!((1..=count).contains(number), "a column of the table");
        *(*slot).tts_values.add(number - 1) = value.unwrap_or(Datum::null());
        *(*slot).tts_isnull.add(number - 1) = value.is_none();
    }
    pg_sys::ExecStoreVirtualTuple(slot);
}

impl Writer {
    /// NOT NULL and CHECK; 23502, 23514. SAFETY: the relation is the one that this writer is of, and the slot holds a
    /// row of it.
    unsafe fn check_constraints(&self, relation: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        let constraints = (*(*relation).rd_att).constr;
        if constraints.is_null() {
            return;
        }
        // What a CHECK calls must not find what the caller put into its search path: it runs as the extension's owner.
        let _path = ((*constraints).num_check > 0).then(PinnedSearchPath::new);
        pg_sys::ExecConstraints(self.info, slot, self.workspace.estate());
    }

    /// Makes the index entries of the row that was just written; false where its key in `arbiter` was taken.
    /// SAFETY: as `check_constraints`, and the slot notes the place of the row in the table.
    unsafe fn index(
        &self,
        relation: pg_sys::Relation,
        slot: *mut pg_sys::TupleTableSlot,
        update: bool,
        arbiter: Oid,
    ) -> bool {
        if !self.indexes_open.replace(true) {
            pg_sys::ExecOpenIndices(self.info, false);
        }
        if (*self.info).ri_NumIndices == 0 {
            return true;
        }
        let infos = std::slice::from_raw_parts((*self.info).ri_IndexRelationInfo, (*self.info).ri_NumIndices as usize);
        let computes = infos.iter().any(|info| !(**info).ii_Expressions.is_null() || !(**info).ii_Predicate.is_null());
        let _path = computes.then(PinnedSearchPath::new);
        let (estate, asks) = (self.workspace.estate(), arbiter != Oid::INVALID);
        let arbiters = if asks { pg_sys::lappend_oid(null_mut(), arbiter) } else { null_mut() };
        let mut taken = false;
        (*slot).tts_tableOid = (*relation).rd_id;
        #[cfg(feature = "pg15")]
        pg_sys::ExecInsertIndexTuples(self.info, slot, estate, update, asks, &mut taken, arbiters);
        #[cfg(not(feature = "pg15"))]
        pg_sys::ExecInsertIndexTuples(self.info, slot, estate, update, asks, &mut taken, arbiters, false);
        // Expressions were computed in a memory context of their own, which nobody else empties.
        pg_sys::MemoryContextReset((*(*estate).es_per_tuple_exprcontext).ecxt_per_tuple_memory);
        !taken
    }
}

/// A scan of an index of a table: what it finds becomes the table's current row.
pub struct Index<'t> {
    table: &'t Table,
    relation: pg_sys::Relation,
    scan: pg_sys::IndexScanDesc,
}

impl<'t> Index<'t> {
    /// Opens an index to look at what is committed now.
    pub fn open(table: &'t Table, name: &CStr, present: &'t Present) -> Index<'t> {
        // SAFETY: the snapshot is borrowed for as long as the scan.
        unsafe { Index::with(table, name, present.0) }
    }

    /// SAFETY: the snapshot outlives the scan.
    unsafe fn with(table: &'t Table, name: &CStr, snapshot: pg_sys::Snapshot) -> Index<'t> {
        let relation = pg_sys::index_open(relation_oid(table.schema, name), pg_sys::AccessShareLock as i32);
        let columns = i32::from((*(*relation).rd_index).indnkeyatts);
        #[cfg(not(feature = "pg18"))]
        let scan = pg_sys::index_beginscan(table.relation, relation, snapshot, columns, 0);
        #[cfg(feature = "pg18")]
        let scan = pg_sys::index_beginscan(table.relation, relation, snapshot, null_mut(), columns, 0);
        Index { table, relation, scan }
    }

    /// Begins to look for rows with these values in the first columns of the index.
    pub fn seek(&mut self, conditions: &[Condition]) {
        let mut keys = [pg_sys::ScanKeyData::default(); 4];
        // SAFETY: the scan copies its keys; by-reference values live in the caller's memory context.
        unsafe {
            let columns = (*(*self.relation).rd_index).indnkeyatts as usize;
            assert!(conditions.len() <= keys.len().min(columns), "a column of the index for each condition");
            for (number, (key, condition)) in keys.iter_mut().zip(conditions).enumerate() {
                pg_sys::ScanKeyEntryInitialize(
                    key,
                    0,
                    number as i16 + 1,
                    condition.strategy as u16,
                    Oid::INVALID,
                    *(*self.relation).rd_indcollation.add(number),
                    condition.function.into(),
                    condition.value,
                );
            }
            (*self.scan).numberOfKeys = conditions.len() as i32;
            pg_sys::index_rescan(self.scan, keys.as_mut_ptr(), conditions.len() as i32, null_mut(), 0);
        }
    }

    /// Makes the next row that was found the table's current one; false at the end.
    pub fn next(&mut self) -> bool {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        // SAFETY: the table that the scan was opened for, and its slot.
        unsafe { pg_sys::index_getnext_slot(self.scan, forward, self.table.current) }
    }

    /// Whether anything stands in the table for these values, that of transactions which are still open included. No snapshot of
    /// what is committed can show that; a scan with a dirty one can. There is no current row after it.
    pub fn is_taken(&mut self, conditions: &[Condition]) -> bool {
        let mut dirty = dirty_snapshot();
        // SAFETY: the dirty snapshot outlives its use: the next search begins with the scan's own again.
        unsafe {
            let own = std::mem::replace(&mut (*self.scan).xs_snapshot, &mut dirty);
            let taken = self.find(conditions);
            pg_sys::ExecClearTuple(self.table.current);
            (*self.scan).xs_snapshot = own;
            taken
        }
    }

    /// Finds one row.
    pub fn find(&mut self, conditions: &[Condition]) -> bool {
        self.seek(conditions);
        self.next()
    }
}

impl Drop for Index<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: each was opened by this value and is closed once.
            unsafe {
                pg_sys::index_endscan(self.scan);
                pg_sys::index_close(self.relation, pg_sys::NoLock as i32);
            }
        }
    }
}

/// Whether the table has a row of this key that a transaction which is still open has written or is changing: a scan with a dirty
/// snapshot notes it.
pub fn is_in_hand(table: &Table, index: &CStr, conditions: &[Condition]) -> bool {
    let mut dirty = dirty_snapshot();
    // SAFETY: the snapshot outlives the scan, which is dropped first.
    unsafe {
        let mut scan = Index::with(table, index, &mut dirty);
        scan.seek(conditions);
        while scan.next() {
            let snapshot = (*scan.scan).xs_snapshot;
            if (*snapshot).xmin != pg_sys::InvalidTransactionId || (*snapshot).xmax != pg_sys::InvalidTransactionId {
                return true;
            }
        }
    }
    false
}

/// What InitDirtySnapshot does.
fn dirty_snapshot() -> pg_sys::SnapshotData {
    pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() }
}

/// The next number of a sequence of ours.
pub fn next_of_sequence(schema: Oid, name: &CStr) -> i64 {
    // SAFETY: the argument is the oid of a relation; nextval checks that it is a sequence.
    let value = unsafe { pgrx::direct_function_call(pg_sys::nextval_oid, &[relation_oid(schema, name).into_datum()]) };
    value.unwrap_or_else(|| raise(Failure::internal("a sequence gave no number")))
}

/// A relation of the schema `sched`; an internal error where it is missing.
fn relation_oid(schema: Oid, name: &CStr) -> Oid {
    // SAFETY: a syscache look-up inside a transaction.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) };
    if oid == Oid::INVALID {
        raise(Failure::internal(format!("sched.{} is missing", name.to_string_lossy())));
    }
    oid
}

/// SAFETY: a tuple description with more than `index` columns.
unsafe fn attribute(description: pg_sys::TupleDesc, index: usize) -> *const pg_sys::FormData_pg_attribute {
    #[cfg(not(feature = "pg18"))]
    return (*description).attrs.as_ptr().add(index);
    #[cfg(feature = "pg18")]
    return pg_sys::TupleDescAttr(description, index as i32);
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
            let column = attribute(description, index);
            (*column).atttypid == *type_oid && !(*column).attisdropped
        })
}

/// Whether to write to the table may call for more than this file does. SAFETY: an open relation.
unsafe fn has_surprises(relation: pg_sys::Relation) -> bool {
    let constraints = (*(*relation).rd_att).constr;
    #[cfg(not(feature = "pg18"))]
    let generated = !constraints.is_null() && (*constraints).has_generated_stored;
    #[cfg(feature = "pg18")]
    let generated =
        !constraints.is_null() && ((*constraints).has_generated_stored || (*constraints).has_generated_virtual);
    generated || !(*relation).trigdesc.is_null() || (*(*relation).rd_rel).relhasrules
}
