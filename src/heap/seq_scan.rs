//! All rows of a table that has hardly any.

use std::marker::PhantomData;
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::heap::relation::{LatestSnapshot, Table};

/// A scan of a whole table: what it comes to becomes the table's current row.
pub struct Scan<'t> {
    table: &'t Table,
    scan: pg_sys::TableScanDesc,
    latest: PhantomData<&'t LatestSnapshot>,
}

impl<'t> Scan<'t> {
    /// Begins to look at what is committed now.
    pub fn open(table: &'t Table, latest: &'t LatestSnapshot) -> Scan<'t> {
        // SAFETY: the table is open, and it and the snapshot are borrowed for as long as the scan.
        let scan = unsafe { pg_sys::table_beginscan(table.relation, latest.0, 0, null_mut()) };
        Scan { table, scan, latest: PhantomData }
    }

    /// Makes the next row the table's current one; false at the end.
    pub fn next(&mut self) -> bool {
        // SAFETY: the table that the scan was opened for, and its slot.
        unsafe {
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            pg_sys::table_scan_getnextslot(self.scan, forward, self.table.current)
        }
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened by this value and closed once.
            unsafe { pg_sys::table_endscan(self.scan) }
        }
    }
}
