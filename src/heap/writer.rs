//! What the executor has ready for a table that it writes to, beside the row: constraints, indexes, and a place to compute in.

use std::cell::{Cell, OnceCell};
use std::ptr::null_mut;
use std::rc::Rc;

use pgrx::pg_sys::{self, Oid};

use crate::pg::compat::{self, Entries};
use crate::pg::search_path::PinnedSearchPath;

/// How a row came to stand in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It was inserted.
    Inserted,
    /// It is a new version of a row.
    Updated(Entries),
}

/// What becomes of a row whose key is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// An error, after a wait for the transaction that has taken it, if that is still open.
    Raise,
    /// It is said, at once, of the key of this index. Others raise.
    Report(Oid),
}

/// What the executor's functions work with, made when it is first needed, for all tables of a call.
#[derive(Default)]
pub struct Workspace(OnceCell<*mut pg_sys::EState>);

impl Workspace {
    pub(super) fn estate(&self) -> *mut pg_sys::EState {
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

/// What a table needs to be written.
pub struct Writer {
    /// The row that is being written.
    pub(super) row: *mut pg_sys::TupleTableSlot,
    pub(super) info: *mut pg_sys::ResultRelInfo,
    pub(super) workspace: Rc<Workspace>,
    pub(super) indexes_open: Cell<bool>,
}

impl Writer {
    /// NOT NULL and CHECK; 23502, 23514. SAFETY: the relation is the one that this writer is of, and the slot holds a
    /// row of it.
    pub(super) unsafe fn check_constraints(&self, relation: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        let constraints = (*(*relation).rd_att).constr;
        if constraints.is_null() {
            return;
        }
        // What a CHECK calls must not find what the caller put into its search path: it runs as the extension's owner.
        let _path = ((*constraints).num_check > 0).then(PinnedSearchPath::new);
        pg_sys::ExecConstraints(self.info, slot, self.workspace.estate());
    }

    /// SAFETY: the relation of this writer is open.
    pub(super) unsafe fn open_indexes(&self) {
        if !self.indexes_open.replace(true) {
            pg_sys::ExecOpenIndices(self.info, false);
        }
    }

    /// Makes the index entries of the row that was just written; false where it is said that its key was taken.
    /// SAFETY: as `check_constraints`, and the slot notes the place of the row in the table.
    pub(super) unsafe fn index(
        &self,
        relation: pg_sys::Relation,
        slot: *mut pg_sys::TupleTableSlot,
        written: Written,
        on_conflict: OnConflict,
    ) -> bool {
        self.open_indexes();
        let (_, infos) = self.indexes();
        if infos.is_empty() {
            return true;
        }
        let computes = infos.iter().any(|info| !(**info).ii_Expressions.is_null() || !(**info).ii_Predicate.is_null());
        let _path = computes.then(PinnedSearchPath::new);
        let estate = self.workspace.estate();
        let (asks, arbiters) = match on_conflict {
            OnConflict::Raise => (false, null_mut()),
            OnConflict::Report(key) => (true, self.same_keys(key)),
        };
        let mut taken = false;
        (*slot).tts_tableOid = (*relation).rd_id;
        let entries = if let Written::Updated(entries) = written { entries } else { Entries::All };
        let update = written != Written::Inserted;
        compat::insert_index_tuples(self.info, slot, estate, update, asks, &mut taken, arbiters, entries);
        // Expressions were computed in a memory context of their own, which nobody else empties.
        pg_sys::MemoryContextReset((*(*estate).es_per_tuple_exprcontext).ecxt_per_tuple_memory);
        !taken
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: each was opened by this value and is closed once.
            unsafe {
                if self.indexes_open.get() {
                    pg_sys::ExecCloseIndices(self.info);
                }
                pg_sys::ExecDropSingleTupleTableSlot(self.row);
            }
        }
    }
}
