//! Rows found by an index.

use std::ffi::CStr;
use std::ptr::null_mut;

use pgrx::pg_sys::{self, Datum, Oid};
use pgrx::IntoDatum;

use crate::heap::relation::{relation_oid, LatestSnapshot, Table};
use crate::pg::compat;
use crate::pg::error::{raise, Failure};
use crate::pg::utf8_text;

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

    /// The column's value is this one or more.
    pub fn at_least(function: u32, value: impl IntoDatum) -> Condition {
        Condition::new(pg_sys::BTGreaterEqualStrategyNumber, function, value)
    }

    /// The column's value is less than this one.
    pub fn less_than(function: u32, value: impl IntoDatum) -> Condition {
        Condition::new(pg_sys::BTLessStrategyNumber, function, value)
    }

    /// The column's value is more than this one.
    pub fn more_than(function: u32, value: impl IntoDatum) -> Condition {
        Condition::new(pg_sys::BTGreaterStrategyNumber, function, value)
    }

    fn new(strategy: u32, function: u32, value: impl IntoDatum) -> Condition {
        let Some(value) = value.into_datum() else { raise(Failure::internal("a condition on NULL")) };
        Condition { strategy, function, value }
    }
}

/// A scan of an index of a table: what it finds becomes the table's current row.
pub struct Index<'t> {
    pub(super) table: &'t Table,
    pub(super) relation: pg_sys::Relation,
    pub(super) scan: pg_sys::IndexScanDesc,
    /// The conditions of the last search: the next one mostly has other values only.
    keys: [pg_sys::ScanKeyData; 4],
}

impl<'t> Index<'t> {
    /// Opens an index to look at what is committed now.
    pub fn open(table: &'t Table, name: &CStr, latest: &'t LatestSnapshot) -> Index<'t> {
        // SAFETY: the snapshot is borrowed for as long as the scan.
        unsafe { Index::with(table, name, latest.0) }
    }

    /// SAFETY: the snapshot outlives the scan.
    pub(super) unsafe fn with(table: &'t Table, name: &CStr, snapshot: pg_sys::Snapshot) -> Index<'t> {
        // As the table is: to write to it takes this lock anyway.
        let lock = if table.workspace.is_some() { pg_sys::RowExclusiveLock } else { pg_sys::AccessShareLock };
        let relation = pg_sys::index_open(relation_oid(table.schema, name), lock as i32);
        let columns = i32::from((*(*relation).rd_index).indnkeyatts);
        // One key more: a column may have two bounds.
        let scan = compat::begin_index_scan(table.relation, relation, snapshot, columns + 1);
        Index { table, relation, scan, keys: Default::default() }
    }

    /// Begins to look for rows with these values in the first columns of the index.
    pub fn seek(&mut self, conditions: &[Condition]) {
        self.seek_by(conditions.iter().enumerate().map(|(number, condition)| (number, *condition)));
    }

    /// Begins to look for rows whose value in the first column lies between two bounds.
    pub fn seek_between(&mut self, lower: Condition, upper: Condition) {
        self.seek_by([(0, lower), (0, upper)].into_iter());
    }

    fn seek_by(&mut self, conditions: impl ExactSizeIterator<Item = (usize, Condition)>) {
        let count = conditions.len();
        // SAFETY: the scan copies its keys; by-reference values live in the caller's memory context.
        unsafe {
            let columns = (*(*self.relation).rd_index).indnkeyatts as usize;
            assert!(count <= self.keys.len().min(columns + 1), "as many keys as the scan was begun with");
            for (key, (number, condition)) in self.keys.iter_mut().zip(conditions) {
                assert!(number < columns, "a column of the index");
                let asks = (number as i16 + 1, condition.strategy as u16, Oid::from(condition.function));
                if (key.sk_attno, key.sk_strategy, key.sk_func.fn_oid) == asks {
                    key.sk_argument = condition.value;
                    continue;
                }
                pg_sys::ScanKeyEntryInitialize(
                    key,
                    0,
                    asks.0,
                    asks.1,
                    Oid::INVALID,
                    *(*self.relation).rd_indcollation.add(number),
                    asks.2,
                    condition.value,
                );
            }
            (*self.scan).numberOfKeys = count as i32;
            pg_sys::index_rescan(self.scan, self.keys.as_mut_ptr(), count as i32, null_mut(), 0);
        }
    }

    /// Goes to the next entry, whatever has become of its row; false at the end.
    pub(super) fn next_entry(&mut self) -> bool {
        self.step_entry(pg_sys::ScanDirection::ForwardScanDirection)
    }

    /// Has the searches from now on keep what stands in the entries.
    pub fn keep_entries(&mut self) {
        // SAFETY: the scan makes room for them when a search begins.
        unsafe { (*self.scan).xs_want_itup = true }
    }

    /// Goes to the next entry, or to the one before, without a look at its row.
    pub fn go_to_entry(&mut self, backwards: bool) -> bool {
        self.step_entry(if backwards {
            pg_sys::ScanDirection::BackwardScanDirection
        } else {
            pg_sys::ScanDirection::ForwardScanDirection
        })
    }

    /// The value of a column of the index (from 0) in the current entry, which is kept. `None` where the index has no such column, or it is NULL.
    pub fn entry_value(&self, column: usize) -> Option<Datum> {
        let (mut values, mut nulls) =
            ([Datum::null(); pg_sys::INDEX_MAX_KEYS as usize], [true; pg_sys::INDEX_MAX_KEYS as usize]);
        // SAFETY: an entry of an index with that description, and room for as many columns as an index may have.
        unsafe {
            let (entry, description) = ((*self.scan).xs_itup, (*self.scan).xs_itupdesc);
            if entry.is_null() || description.is_null() {
                return None;
            }
            pg_sys::index_deform_tuple(entry, description, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
        values.get(column).copied().filter(|_| !nulls[column])
    }

    /// The same of a `text`; `None` also where it is not one that Rust has.
    pub fn entry_text(&self, column: usize) -> Option<String> {
        // SAFETY: the column of the index is a `text`, whose bytes stay where they are until the scan goes on.
        self.entry_value(column).and_then(|value| unsafe { utf8_text::stored(value) })
    }

    fn step_entry(&mut self, direction: pg_sys::ScanDirection::Type) -> bool {
        // SAFETY: a search has begun.
        unsafe { !pg_sys::index_getnext_tid(self.scan, direction).is_null() }
    }

    /// Makes the row of this entry the table's current one; false where it is not to be seen. Said again of an entry, it goes to the next version of
    /// the row, where the scan sees more than one.
    pub fn fetch(&mut self) -> bool {
        // SAFETY: the scan has come to an entry of the table whose slot this is.
        unsafe { pg_sys::index_fetch_heap(self.scan, self.table.current) }
    }

    /// Makes the next row that was found the table's current one; false at the end.
    pub fn next(&mut self) -> bool {
        self.step(pg_sys::ScanDirection::ForwardScanDirection)
    }

    /// The same from the other end.
    pub fn previous(&mut self) -> bool {
        self.step(pg_sys::ScanDirection::BackwardScanDirection)
    }

    fn step(&mut self, direction: pg_sys::ScanDirection::Type) -> bool {
        // SAFETY: the table that the scan was opened for, and its slot.
        unsafe { pg_sys::index_getnext_slot(self.scan, direction, self.table.current) }
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

/// How a key stands in a unique index, whatever a snapshot shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is not there.
    Free,
    /// It is.
    Taken,
    /// It is, and another transaction, still open, is just changing other columns of the row: to insert it would wait for that one's end.
    Changing,
    /// Another transaction, still open, is just inserting or deleting it: to insert it would wait for that one's end.
    Open,
}

/// A unique index, open for looks at many keys with a dirty snapshot: the scan notes there whose transaction is open.
pub struct Keys<'t> {
    index: Index<'t>,
    /// What the scan looks with: it lives as long as this, and is only reached through the scan.
    _dirty: Box<pg_sys::SnapshotData>,
}

impl<'t> Keys<'t> {
    /// Opens an index of the table.
    pub fn open(table: &'t Table, name: &CStr) -> Keys<'t> {
        let mut dirty = Box::new(dirty_snapshot());
        // SAFETY: the snapshot is dropped after the scan.
        let index = unsafe { Index::with(table, name, &mut *dirty) };
        Keys { index, _dirty: dirty }
    }

    /// How the key with these values stands now.
    pub fn state(&mut self, key: &[Condition]) -> KeyState {
        let mut state = KeyState::Free;
        self.index.seek(key);
        while self.index.next() {
            // SAFETY: the scan's snapshot is the one that this value owns.
            let (inserter, changer) = unsafe {
                let dirty = (*self.index.scan).xs_snapshot;
                ((*dirty).xmin, (*dirty).xmax)
            };
            let none = pg_sys::InvalidTransactionId;
            state = match (inserter == none, changer == none) {
                (true, true) => return KeyState::Taken,
                // The row is committed, and so is its key, whatever becomes of the change. (A new version of it may have been found.)
                (true, false) if self.is_replaced() => return KeyState::Changing,
                (true, false) | (false, _) => KeyState::Open,
            };
        }
        state
    }

    /// Whether the row that was just found has a newer version, committed or not. One that somebody is deleting has none.
    fn is_replaced(&self) -> bool {
        // SAFETY: the slot holds a row of the table's pages, pinned until the next search.
        unsafe {
            let mut copied = false;
            let row = pg_sys::ExecFetchSlotHeapTuple(self.index.table.current, false, &mut copied);
            let (its, newer) = ((*row).t_self, (*(*row).t_data).t_ctid);
            if copied {
                pg_sys::heap_freetuple(row);
            }
            (its.ip_blkid.bi_hi, its.ip_blkid.bi_lo, its.ip_posid)
                != (newer.ip_blkid.bi_hi, newer.ip_blkid.bi_lo, newer.ip_posid)
        }
    }
}

/// What InitDirtySnapshot does.
fn dirty_snapshot() -> pg_sys::SnapshotData {
    pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() }
}
