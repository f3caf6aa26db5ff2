//! Many rows found by their ids, in the order of the index: what is done in batches was made in batches, so that most of a batch lie next to
//! each other, and to go from one to the next costs a tenth of a search from the root.

use std::ffi::CStr;

use pgrx::datum::Uuid;
use pgrx::pg_sys;

use crate::heap::index_scan::{Condition, Index};
use crate::heap::relation::{LatestSnapshot, Table};
use crate::pg::record::{Column, Record};

/// How many entries are looked at on the way to the next id: those of others, and of rows that are gone.
const STEPS: usize = 8;
/// One id in so many may be further away; where it is more, each of them is searched for.
const FAR: usize = 4;

/// A scan of an index of ids. What it finds is what a search for each id finds: where it comes to another row first, it searches.
///
/// (That the scan shows its entries as well would save a look at rows on the way, but it would keep pages of the index pinned while
/// somebody waits for a row: VACUUM waits for such a pin, and no deadlock with it is ever detected.)
pub struct OrderedLookup<'t> {
    index: Index<'t>,
    /// The column of the table that the index is of.
    column: Column,
    /// The id of the row that the scan has come to.
    at: Option<[u8; 16]>,
    found: usize,
    far: usize,
}

impl<'t> OrderedLookup<'t> {
    /// Opens an index of a table's column to look at what is committed now.
    pub fn open(table: &'t Table, name: &CStr, column: Column, latest: &'t LatestSnapshot) -> OrderedLookup<'t> {
        OrderedLookup { index: Index::open(table, name, latest), column, at: None, found: 0, far: 0 }
    }

    /// Makes the row with this id the table's current one; false where there is none.
    pub fn find(&mut self, id: Uuid) -> bool {
        let walks = self.far * FAR <= self.found + FAR && self.index.has_order();
        if walks && self.step_to(id) {
            return true;
        }
        self.at = None;
        self.index.find(&[Condition::equal(pg_sys::F_UUID_EQ, id)])
    }

    fn step_to(&mut self, id: Uuid) -> bool {
        let wanted = *id.as_bytes();
        let goes_on = self.at.is_some_and(|at| at < wanted);
        if !goes_on {
            self.index.seek(&[Condition::at_least(pg_sys::F_UUID_GE, id)]);
        }
        for _ in 0..STEPS {
            if !self.index.next_entry() {
                break;
            }
            if self.index.fetch() {
                let at = *self.index.table.get_required::<Uuid>(self.column).as_bytes();
                self.at = Some(at);
                if at == wanted {
                    self.found += usize::from(goes_on);
                    return true;
                }
                if at > wanted {
                    break;
                }
            }
        }
        self.far += 1;
        false
    }
}

impl Index<'_> {
    /// Whether a search can begin anywhere and go on in order, as in a B-tree; somebody may have put another index in its place.
    fn has_order(&self) -> bool {
        // SAFETY: an open index.
        unsafe { (*(*self.relation).rd_rel).relam == pg_sys::BTREE_AM_OID }
    }
}
