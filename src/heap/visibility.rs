//! Rows that no snapshot shows, and that may yet come or come back.

use pgrx::pg_sys;

use crate::heap::index_scan::Index;
use crate::heap::relation::Table;
use crate::pg::compat;

impl<'t> Index<'t> {
    /// Opens an index to look at all that stands in it, whoever's transaction it is of (`next_not_gone`).
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
    pub fn next_not_gone(&mut self) -> bool {
        while self.next_entry() {
            pgrx::check_for_interrupts!();
            let (mut any, mut for_all) = (false, true);
            // An entry leads to the versions of a row that have no entry of their own as well: a heartbeat makes such.
            while self.fetch() {
                let Some(gone) = self.gone() else { return true };
                any = true;
                for_all &= gone == Gone::ForAll;
                // SAFETY: an open scan.
                if !unsafe { (*self.scan).xs_heap_continue } {
                    break;
                }
            }
            if any {
                // SAFETY: as above; asked when the scan goes on.
                unsafe { (*self.scan).kill_prior_tuple = for_all }
            }
        }
        false
    }

    /// Whether the current row, or this version of it, is gone for good; `None` where it is not.
    fn gone(&self) -> Option<Gone> {
        use pg_sys::HTSV_Result::{HEAPTUPLE_DEAD, HEAPTUPLE_RECENTLY_DEAD};
        let slot = self.table.current;
        // SAFETY: the slot holds a row of the scan's table, on a page that it keeps pinned; what is asked of the row is asked under the
        // page's lock.
        unsafe {
            if !std::ptr::eq((*slot).tts_ops, &raw const pg_sys::TTSOpsBufferHeapTuple) {
                return None;
            }
            let mut copied = false;
            let row = pg_sys::ExecFetchSlotHeapTuple(slot, false, &mut copied);
            let page = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
            let mut dead_after = pg_sys::InvalidTransactionId;
            pg_sys::LockBuffer(page, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state = pg_sys::HeapTupleSatisfiesVacuumHorizon(row, page, &mut dead_after);
            pg_sys::LockBuffer(page, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            match state {
                HEAPTUPLE_DEAD => Some(Gone::ForAll),
                HEAPTUPLE_RECENTLY_DEAD if pg_sys::GlobalVisCheckRemovableXid(self.table.relation, dead_after) => {
                    Some(Gone::ForAll)
                }
                HEAPTUPLE_RECENTLY_DEAD => Some(Gone::ForNow),
                _ => None,
            }
        }
    }
}

impl Table {
    /// Whether the current row was written so long ago that its transaction's number says nothing any more: others have had it since.
    pub fn is_frozen(&self) -> bool {
        // SAFETY: this table's slot, which holds a row of it.
        unsafe {
            let mut copied = false;
            let row = pg_sys::ExecFetchSlotHeapTuple(self.current, false, &mut copied);
            u32::from((*(*row).t_data).t_infomask) & pg_sys::HEAP_XMIN_FROZEN == pg_sys::HEAP_XMIN_FROZEN
        }
    }
}

/// A row that is deleted, or was never committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// An older transaction may still see it.
    ForNow,
    /// Nobody can.
    ForAll,
}
