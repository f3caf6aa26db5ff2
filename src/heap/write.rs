//! Rows inserted, updated and deleted, with all that the executor sees to beside the row itself.

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::rc::Rc;

use pgrx::pg_sys::{self, Datum};
use pgrx::{PgMemoryContexts, PgSqlErrorCode};

use crate::heap::relation::{relation_oid, Table};
use crate::heap::tuple_lock::TupleId;
use crate::heap::writer::{OnConflict, Writer, Written};
use crate::pg::compat::{self, Entries};
use crate::pg::error::{raise, Failure};
use crate::pg::record::Column;

/// What came of a change to the row that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyResult {
    /// It is done.
    Done,
    /// Somebody else had changed the row; its newest version is the current row now, and locked: decide again.
    Updated,
    /// Somebody else had deleted the row.
    Deleted,
}

/// What a change to a row came to, and how the row is locked for such a change.
type TupleModification = (pg_sys::TM_Result::Type, pg_sys::LockTupleMode::Type);

impl Table {
    /// Inserts a row with a value for each column; `None` is NULL.
    pub fn insert(&self, values: &[Option<Datum>]) {
        let (relation, writer) = (self.relation, self.writer());
        // SAFETY: as ExecInsert does it; the row has a value for each column (checked in `store`).
        unsafe {
            store(writer.row, values);
            writer.check_constraints(relation, writer.row);
            pg_sys::simple_table_tuple_insert(relation, writer.row);
            writer.index(relation, writer.row, Written::Inserted, OnConflict::Raise);
        }
    }

    /// Inserts a row unless its key in this unique index is taken, by a committed row or by a transaction that is still open: it
    /// never waits for one. Whether it was inserted.
    ///
    /// As INSERT … ON CONFLICT DO NOTHING does it, speculatively: who loses a race leaves nothing that anybody would see, neither
    /// another claimer while the loser's transaction goes on, nor logical decoding. (Where the index has a twin, two may lose to each other.)
    pub fn insert_unless_taken(&self, values: &[Option<Datum>], index: &CStr) -> bool {
        let (relation, writer) = (self.relation, self.writer());
        // SAFETY: as ExecInsert does it; the row has a value for each column (checked in `store`). After an error the abort of the
        // (sub)transaction gives the lock back and makes the row invisible.
        unsafe {
            store(writer.row, values);
            writer.check_constraints(relation, writer.row);
            let key = relation_oid(self.schema, index);
            let transaction = pg_sys::GetCurrentTransactionId();
            let token = pg_sys::SpeculativeInsertionLockAcquire(transaction);
            let command = pg_sys::GetCurrentCommandId(true);
            pg_sys::table_tuple_insert_speculative(relation, writer.row, command, 0, null_mut(), token);
            let free = writer.index(relation, writer.row, Written::Inserted, OnConflict::Report(key));
            pg_sys::table_tuple_complete_speculative(relation, writer.row, token, free);
            pg_sys::SpeculativeInsertionLockRelease(transaction);
            free
        }
    }

    /// Inserts many rows at once: a page that is filled is logged once.
    pub fn insert_all<const COLUMNS: usize>(&self, rows: &[[Option<Datum>; COLUMNS]]) {
        const AT_ONCE: usize = 100;
        let writer = self.prepared();
        // The table's access method keeps a copy of each row, which nobody frees.
        let mut memory = PgMemoryContexts::new("scheduler rows");
        // SAFETY: the relation is open for writing.
        let mut slots: Vec<_> = rows.iter().take(AT_ONCE).map(|_| unsafe { new_row(self.relation) }).collect();
        let mut insert = |rows: &[[Option<Datum>; COLUMNS]]| {
            // SAFETY: as COPY does it; each row has a slot of its own until its index entries are made.
            unsafe {
                for (slot, values) in slots.iter().zip(rows) {
                    store(*slot, values);
                    writer.check_constraints(self.relation, *slot);
                }
                let (count, command) = (rows.len() as i32, pg_sys::GetCurrentCommandId(true));
                pg_sys::table_multi_insert(self.relation, slots.as_mut_ptr(), count, command, 0, null_mut());
                for slot in slots.iter().take(rows.len()) {
                    writer.index(self.relation, *slot, Written::Inserted, OnConflict::Raise);
                }
            }
        };
        for rows in rows.chunks(AT_ONCE) {
            pgrx::check_for_interrupts!();
            // SAFETY: what lasts longer was made before (`prepared`).
            unsafe {
                memory.switch_to(|_| insert(rows));
                memory.reset();
            }
        }
        for slot in slots {
            // SAFETY: made above, dropped once; after an error it goes with its memory context.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(slot) }
        }
    }

    /// Makes what it takes to write to the table, in the current memory context: for those who then write in one of their own.
    pub fn prepare(&self) {
        self.prepared();
    }

    fn prepared(&self) -> &Writer {
        let writer = self.writer();
        writer.workspace.estate();
        // SAFETY: the relation is open for writing.
        unsafe { writer.open_indexes() };
        writer
    }

    /// Changes columns of the current row, after a wait for the transaction that has it in hand. (Who does not want to wait
    /// locks the row before: Postgres has no update that would say no.)
    pub fn update(&self, changes: &[(Column, Option<Datum>)]) -> ModifyResult {
        // SAFETY: the current row is one that was found in this table, and stays until the new one is written.
        self.settle(unsafe {
            store_changed(self.writer().row, self.current, changes);
            self.replace(&raw mut (*self.current).tts_tid)
        })
    }

    /// The same, but nothing is changed and `None` returned where another transaction has the row in hand: it is not waited for, and the
    /// current row is not to be read any more. It is locked first, for an update cannot say so.
    pub fn update_unless_locked(&self, changes: &[(Column, Option<Datum>)]) -> Option<ModifyResult> {
        use pg_sys::TM_Result;
        let lock_mode = pg_sys::LockTupleMode::LockTupleNoKeyExclusive;
        let newest = if is_strict() { 0 } else { pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION };
        // SAFETY: inside a transaction.
        let locked = unsafe {
            self.lock_current(pg_sys::GetActiveSnapshot(), lock_mode, pg_sys::LockWaitPolicy::LockWaitSkip, newest)
        };
        match locked {
            (TM_Result::TM_WouldBlock, _) => None,
            (TM_Result::TM_Ok, true) => Some(ModifyResult::Updated),
            (TM_Result::TM_Ok, false) => Some(self.update(changes)),
            (other, _) => Some(self.settle((other, lock_mode))),
        }
    }

    /// Writes a row with these values instead of one that this transaction has locked; false where it is not there any more.
    pub fn update_at(&self, tid: TupleId, values: &[Option<Datum>]) -> bool {
        let mut tid = tid.0;
        // SAFETY: the place is that of a row of this table; the new row has a value for each column (checked in `store`).
        unsafe {
            store(self.writer().row, values);
            self.replace(&raw mut tid).0 == pg_sys::TM_Result::TM_Ok
        }
    }

    /// Puts the row that was stored in the place of another, with its index entries. SAFETY: the place is that of a row that was
    /// found in this table.
    unsafe fn replace(&self, tid: pg_sys::ItemPointer) -> TupleModification {
        let (relation, writer) = (self.relation, self.writer());
        let mut failure = pg_sys::TM_FailureData::default();
        let mut lock_mode = pg_sys::LockTupleMode::LockTupleExclusive;
        let mut reindex = compat::NO_INDEXES;
        // As ExecUpdate does it.
        pg_sys::CheckCmdReplicaIdentity(relation, pg_sys::CmdType::CMD_UPDATE);
        writer.check_constraints(relation, writer.row);
        let result = pg_sys::table_tuple_update(
            relation,
            tid,
            writer.row,
            pg_sys::GetCurrentCommandId(true),
            pg_sys::GetActiveSnapshot(),
            null_mut(),
            true,
            &mut failure,
            &mut lock_mode,
            &mut reindex,
        );
        let entries = Entries::of(reindex);
        if result == pg_sys::TM_Result::TM_Ok && entries != Entries::None {
            writer.index(relation, writer.row, Written::Updated(entries), OnConflict::Raise);
        }
        (result, lock_mode)
    }

    /// Deletes the current row, after a wait for the transaction that has it in hand.
    pub fn delete(&self) -> ModifyResult {
        self.settle((self.remove(true).0, pg_sys::LockTupleMode::LockTupleExclusive))
    }

    /// Deletes the current row unless somebody else has it in hand, or has just had; whether it did. It never waits.
    pub fn delete_unless_locked(&self) -> bool {
        let (result, xmax) = self.remove(false);
        // A lock of this transaction's own is in nobody's way: claim.sql locks more than it takes.
        let locked_here = result == pg_sys::TM_Result::TM_BeingModified && self.lock_again(xmax);
        (if locked_here { self.remove(true).0 } else { result }) == pg_sys::TM_Result::TM_Ok
    }

    /// What came of it, and which transaction was in the way.
    fn remove(&self, wait: bool) -> (pg_sys::TM_Result::Type, pg_sys::TransactionId) {
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
                wait,
                &mut failure,
                false,
            )
        };
        (result, failure.xmax)
    }

    /// What the executor makes of a change: under READ COMMITTED the newest version is locked and looked at again, under the stricter
    /// levels the transaction cannot go on (40001).
    fn settle(&self, (result, lock_mode): TupleModification) -> ModifyResult {
        use pg_sys::TM_Result;
        if result == TM_Result::TM_Ok {
            return ModifyResult::Done;
        }
        let what = if result == TM_Result::TM_Deleted { "delete" } else { "update" };
        match result {
            TM_Result::TM_Updated | TM_Result::TM_Deleted if is_strict() => raise(Failure::new(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                format!("could not serialize access due to concurrent {what}"),
                "",
            )),
            TM_Result::TM_Deleted => ModifyResult::Deleted,
            TM_Result::TM_Updated => self.lock_newest(lock_mode),
            other => raise(Failure::internal(format!("a row of the scheduler could not be changed ({other})"))),
        }
    }

    fn lock_newest(&self, lock_mode: pg_sys::LockTupleMode::Type) -> ModifyResult {
        let (wait, newest) = (pg_sys::LockWaitPolicy::LockWaitBlock, pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION);
        // SAFETY: as EvalPlanQual's callers do it, inside a transaction.
        let (result, _) = unsafe { self.lock_current(pg_sys::GetActiveSnapshot(), lock_mode, wait, newest) };
        match result {
            pg_sys::TM_Result::TM_Ok => ModifyResult::Updated,
            pg_sys::TM_Result::TM_Deleted => ModifyResult::Deleted,
            other => raise(Failure::internal(format!("a row of the scheduler could not be locked ({other})"))),
        }
    }

    pub(super) fn writer(&self) -> &Writer {
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

/// Whether the transaction has one snapshot, and cannot go on where somebody has changed what it changes.
fn is_strict() -> bool {
    // SAFETY: reads a setting of the transaction.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
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
    changes: &[(Column, Option<Datum>)],
) {
    let count = (*(*slot).tts_tupleDescriptor).natts as usize;
    pg_sys::ExecClearTuple(slot);
    pg_sys::slot_getallattrs(current);
    std::ptr::copy_nonoverlapping((*current).tts_values, (*slot).tts_values, count);
    std::ptr::copy_nonoverlapping((*current).tts_isnull, (*slot).tts_isnull, count);
    for (column, value) in changes {
        assert!((1..=count).contains(&column.number), "a column of the table");
        *(*slot).tts_values.add(column.index()) = value.unwrap_or(Datum::null());
        *(*slot).tts_isnull.add(column.index()) = value.is_none();
    }
    pg_sys::ExecStoreVirtualTuple(slot);
}
