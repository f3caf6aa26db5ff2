//! What a batch of rows needs beside: rows that are locked now and written later, and found again by their place.

use std::ptr::addr_of_mut;

use pgrx::pg_sys::{self, Datum};

use crate::heap::relation::{LatestSnapshot, Table};
use crate::pg::compat;
use crate::pg::record::Column;

/// Where a row stands in its table. It stays what it is as long as a snapshot of before shows the row, or this transaction has
/// locked it.
#[derive(Clone, Copy)]
pub struct TupleId(pub(super) pg_sys::ItemPointerData);

impl Table {
    /// Where the current row stands.
    pub fn tid(&self) -> TupleId {
        // SAFETY: the slot is this table's.
        TupleId(unsafe { (*self.current).tts_tid })
    }

    /// Makes the row at this place the current one; false where it is not what is committed now.
    pub fn fetch(&self, tid: TupleId, latest: &LatestSnapshot) -> bool {
        let mut tid = tid.0;
        // SAFETY: this table's slot, and a place in this table.
        unsafe { pg_sys::table_tuple_fetch_row_version(self.relation, &mut tid, latest.0, self.current) }
    }

    /// Locks the current row as SELECT … FOR UPDATE SKIP LOCKED does; false where somebody else has it in hand, or has just had.
    pub fn lock(&self, latest: &LatestSnapshot) -> bool {
        // SAFETY: the snapshot lives as long as `latest`.
        unsafe { self.lock_by(latest.0) }
    }

    /// Locks the current row once more; false where the transaction `xmax`, which has it in hand, is another one. (Who wants to change a
    /// row and not to wait is told the same of a lock of his own.) The row is read anew.
    pub(super) fn lock_again(&self, xmax: pg_sys::TransactionId) -> bool {
        // SAFETY: inside a transaction. A list of lockers may have our number by chance: then somebody else's lock says no.
        unsafe { pg_sys::TransactionIdIsCurrentTransactionId(xmax) && self.lock_by(pg_sys::GetActiveSnapshot()) }
    }

    /// SAFETY: a snapshot that is valid now.
    unsafe fn lock_by(&self, snapshot: pg_sys::Snapshot) -> bool {
        let (exclusive, skip) = (pg_sys::LockTupleMode::LockTupleExclusive, pg_sys::LockWaitPolicy::LockWaitSkip);
        self.lock_current(snapshot, exclusive, skip, 0).0 == pg_sys::TM_Result::TM_Ok
    }

    /// Locks the current row, which is read anew; what came of it, and whether what is locked is a later version of the row.
    /// SAFETY: a snapshot that is valid now.
    pub(super) unsafe fn lock_current(
        &self,
        snapshot: pg_sys::Snapshot,
        lock_mode: pg_sys::LockTupleMode::Type,
        policy: pg_sys::LockWaitPolicy::Type,
        flags: u32,
    ) -> (pg_sys::TM_Result::Type, bool) {
        let mut failure = pg_sys::TM_FailureData::default();
        let mut tid = (*self.current).tts_tid;
        // As the executor does it; the current row is one that was found in this table.
        let result = pg_sys::table_tuple_lock(
            self.relation,
            addr_of_mut!(tid),
            snapshot,
            self.current,
            pg_sys::GetCurrentCommandId(true),
            lock_mode,
            policy,
            flags as u8,
            &mut failure,
        );
        (result, failure.traversed)
    }

    /// Whether the current role may do this to the table, as a statement would ask.
    pub fn permits(&self, rights: u32) -> bool {
        // SAFETY: an open relation; syscache look-ups inside a transaction.
        unsafe {
            let (oid, role) = ((*self.relation).rd_id, pg_sys::GetUserId());
            let rights = pg_sys::AclMode::from(rights);
            pg_sys::pg_class_aclmask(oid, role, rights, pg_sys::AclMaskHow::ACLMASK_ALL) == rights
        }
    }

    /// A column of the current row, copied as it is stored: valid after another row is found.
    pub fn copy(&self, column: Column) -> Option<Datum> {
        let datum = self.datum(column)?;
        // SAFETY: the value is of the column's type, whose length says how it is stored; none of our columns is a C string.
        unsafe {
            let column = compat::attribute((*self.relation).rd_att, column.index());
            if (*column).attbyval {
                return Some(datum);
            }
            let stored = datum.cast_mut_ptr::<u8>();
            let size = usize::try_from((*column).attlen).unwrap_or_else(|_| pgrx::varsize_any(stored.cast()));
            let copy = pg_sys::palloc(size).cast::<u8>();
            std::ptr::copy_nonoverlapping(stored, copy, size);
            Some(Datum::from(copy))
        }
    }
}
