//! Rows that no snapshot shows, and that may yet come or come back.

use pgrx::pg_sys;

use super::{Index, Table};
use crate::compat;

impl<'t> Index<'t> {
    /// Opens an index to look at all that stands in it, whoever's transaction it is of (`next_standing`).
    pub fn open_to_all(table: &'t Table, name: &std::ffi::CStr) -> Index<'t> {
        // SAFETY: a snapshot that is always there.
        unsafe { Index::with(table, name, &raw mut pg_sys::SnapshotAnyData) }
    }

    /// Whether what is found here can be told to others: not where this transaction has emptied the table, for example.
    pub fn may_be_told(&self) -> bool {
        // SAFETY: an open table and an open index.
        unsafe { !compat::is_new_here(self.table.relation) && !compat::is_new_here(self.relation) }
    }

    /// Makes the next row the table's current one that is not gone for good: also one that an open transaction inserts, or deletes; false at
    /// the end. Entries of rows that nobody can see any more are marked on the way, as every scan of an index does it.
    pub fn next_standing(&mut self) -> bool {
        while self.next_entry() {
            pgrx::check_for_interrupts!();
            if self.fetch() && self.stands() {
                return true;
            }
        }
        false
    }

    /// Whether the current row is not gone for good.
    fn stands(&mut self) -> bool {
        use pg_sys::HTSV_Result::{HEAPTUPLE_DEAD, HEAPTUPLE_RECENTLY_DEAD};
        let slot = self.table.current;
        // SAFETY: the slot holds a row of the scan's table, on a page that it keeps pinned; what is asked of the row is asked under the
        // page's lock.
        unsafe {
            if !std::ptr::eq((*slot).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple) {
                return true;
            }
            let mut copied = false;
            let row = pg_sys::ExecFetchSlotHeapTuple(slot, false, &mut copied);
            let page = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
            let mut dead_after = pg_sys::InvalidTransactionId;
            pg_sys::LockBuffer(page, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state = pg_sys::HeapTupleSatisfiesVacuumHorizon(row, page, &mut dead_after);
            // The entry leads to a newer version as well. (Nothing of ours makes one.)
            let has_newer = u32::from((*(*row).t_data).t_infomask2) & pg_sys::HEAP_HOT_UPDATED != 0;
            pg_sys::LockBuffer(page, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            if has_newer || (state != HEAPTUPLE_DEAD && state != HEAPTUPLE_RECENTLY_DEAD) {
                return true;
            }
            (*self.scan).kill_prior_tuple =
                state == HEAPTUPLE_DEAD || pg_sys::GlobalVisCheckRemovableXid(self.table.relation, dead_after);
            false
        }
    }
}
