//! Many rows found by their ids, in the order of the index: what is done in batches was made in batches, so that most of a batch lie next to
//! each other, and to go from one to the next costs a tenth of a search from the root.

use std::ffi::CStr;

use pgrx::datum::Uuid;
use pgrx::pg_sys;

use super::{Condition, Index, Present, Table};

/// How many entries are passed on the way to the next id: those of others, and of rows that are gone.
const STEPS: usize = 8;
/// One id in so many may be further away; where it is more, each of them is searched for.
const FAR: usize = 4;

/// A scan of an index whose only column is an id.
pub struct Walk<'t> {
    index: Index<'t>,
    /// The id of the entry that the scan has come to.
    at: Option<[u8; 16]>,
    /// Its row was asked for, which can be done once.
    asked: bool,
    found: usize,
    far: usize,
}

impl<'t> Walk<'t> {
    /// Opens an index to look at what is committed now.
    pub fn open(table: &'t Table, name: &CStr, present: &'t Present) -> Walk<'t> {
        let index = Index::open(table, name, present);
        // SAFETY: the scan has not begun.
        unsafe { (*index.scan).xs_want_itup = true }
        // What somebody has put in its place is searched.
        let far = if index.is_of_uuids() { 0 } else { usize::MAX / FAR };
        Walk { index, at: None, asked: false, found: 0, far }
    }

    /// Makes the row with this id the table's current one; false where there is none.
    pub fn find(&mut self, id: Uuid) -> bool {
        if self.far * FAR > self.found + FAR {
            return self.index.find(&[Condition::equal(pg_sys::F_UUID_EQ, id)]);
        }
        let id_bytes = *id.as_bytes();
        for _ in 0..STEPS {
            if self.at.is_none_or(|at| at >= id_bytes) {
                break;
            }
            self.step();
        }
        if self.at == Some(id_bytes) && !self.asked {
            self.found += 1;
        } else {
            self.far += 1;
            self.index.seek(&[Condition::at_least(pg_sys::F_UUID_GE, id)]);
            self.step();
        }
        // An entry for each version of the row.
        while self.at == Some(id_bytes) {
            self.asked = true;
            if self.index.fetch() {
                return true;
            }
            self.step();
        }
        false
    }

    fn step(&mut self) {
        self.asked = false;
        self.at = self.index.next_entry().then(|| self.index.first_uuid());
    }
}

impl Index<'_> {
    fn is_of_uuids(&self) -> bool {
        // SAFETY: an open index, which has a first column.
        unsafe { *(*self.relation).rd_opcintype == pg_sys::UUIDOID }
    }

    /// Goes to the next entry, whatever has become of its row; false at the end.
    fn next_entry(&mut self) -> bool {
        // SAFETY: a search has begun.
        unsafe { !pg_sys::index_getnext_tid(self.scan, pg_sys::ScanDirection::ForwardScanDirection).is_null() }
    }

    /// Makes the row of this entry the table's current one; false where it is not to be seen.
    fn fetch(&mut self) -> bool {
        // SAFETY: the scan has come to an entry of the table whose slot this is.
        unsafe { pg_sys::index_fetch_heap(self.scan, self.table.current) }
    }

    /// The entry's first column, an id that is never NULL.
    fn first_uuid(&self) -> [u8; 16] {
        // SAFETY: the scan has come to an entry and was told to show it. Without NULLs the first column follows the head of an entry, which
        // is as long as the alignment.
        unsafe { (*self.scan).xs_itup.add(1).cast::<[u8; 16]>().read() }
    }
}
