//! Rows of some pages of a table, spread evenly over it: of how many there are in all of it, without reading all of it.

use std::marker::PhantomData;
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::heap::relation::{LatestSnapshot, Table};

/// A look at pages of a table: what it comes to becomes the table's current row.
pub struct PageSample<'t> {
    table: &'t Table,
    scan: pg_sys::TableScanDesc,
    /// How many pages the table has.
    pages: u32,
    /// How many are looked at.
    wanted: u32,
    /// How many of these are behind us.
    seen: u32,
    latest: PhantomData<&'t LatestSnapshot>,
}

impl<'t> PageSample<'t> {
    /// Begins to look at `most` pages, at all where there are no more; what is committed now.
    pub fn open(table: &'t Table, most: u32, latest: &'t LatestSnapshot) -> PageSample<'t> {
        // SAFETY: the table is open, and it and the snapshot are borrowed for as long as the scan. Which pages it looks at is up to us: it does
        // not begin where others are.
        let (scan, pages) = unsafe {
            let pages = pg_sys::RelationGetNumberOfBlocksInFork(table.relation, pg_sys::ForkNumber::MAIN_FORKNUM);
            (pg_sys::table_beginscan_strat(table.relation, latest.0, 0, null_mut(), true, false), pages)
        };
        let mut sample = PageSample { table, scan, pages, wanted: pages.min(most), seen: 0, latest: PhantomData };
        if !sample.is_whole() {
            sample.turn_to_page();
        }
        sample
    }

    /// Whether all pages are looked at: what is counted is exact then.
    pub fn is_whole(&self) -> bool {
        self.wanted == self.pages
    }

    /// How many rows of the table one that was seen stands for.
    pub fn scale(&self) -> f64 {
        if self.is_whole() {
            1.0
        } else {
            f64::from(self.pages) / f64::from(self.wanted)
        }
    }

    /// Has the scan look at the page in the middle of the next stretch.
    fn turn_to_page(&mut self) {
        let (pages, wanted) = (u64::from(self.pages), u64::from(self.wanted));
        let page = (2 * u64::from(self.seen) + 1) * pages / (2 * wanted);
        // SAFETY: a scan of a heap that was begun and has given no row since.
        unsafe { pg_sys::heap_setscanlimits(self.scan, u32::try_from(page).unwrap_or(0), 1) }
    }

    /// Makes the next row the table's current one; false at the end.
    pub fn next(&mut self) -> bool {
        loop {
            // SAFETY: the table that the scan was opened for, and its slot.
            let found = unsafe {
                let forward = pg_sys::ScanDirection::ForwardScanDirection;
                pg_sys::table_scan_getnextslot(self.scan, forward, self.table.current)
            };
            if found {
                return true;
            }
            self.seen += 1;
            if self.is_whole() || self.seen >= self.wanted {
                return false;
            }
            pgrx::check_for_interrupts!();
            // SAFETY: the scan begins anew.
            unsafe { pg_sys::table_rescan(self.scan, null_mut()) }
            self.turn_to_page();
        }
    }
}

impl Drop for PageSample<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened by this value and closed once.
            unsafe { pg_sys::table_endscan(self.scan) }
        }
    }
}
