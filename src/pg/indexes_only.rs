//! How our own statements are planned.
//!
//! Their plans are kept for the life of a process, and what they find is a few rows of tables that may have millions. So a plan must be good for a
//! large table, whatever the table was when it was made: statistics of a moment when a queue was empty lead to plans that read all of it once it is
//! long, in each call, until somebody analyses the table and the plan is made anew.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::Once;

use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use pgrx::PgList;

use crate::pg::oid_cache;

/// The tables of which plans are made as for large ones, each with so many rows at least: of the ledger's so
/// many more that what waits or runs is found first, and its executions after it. Of what is imported, paused or sharded there are few.
const GROWING: [(&CStr, f64); 12] = [
    (c"job", 1e3),
    (c"schedule", 1e5),
    (c"schedule_change", 1e4),
    (c"schedule_definition", 1e5),
    (c"timer", 1e5),
    (c"ledger", 1e8),
    (c"ready", 1e5),
    (c"retry", 1e5),
    (c"lease", 1e4),
    (c"awaited", 1e4),
    (c"alert_watch", 1e4),
    (c"unique_scope", 1e5),
];

/// How many of their rows, and of their indexes' entries, have room in a page.
const ROWS_IN_PAGE: f64 = 50.0;
const ENTRIES_IN_PAGE: f64 = 200.0;

/// How high the tree of an index is at least.
const TREE_HEIGHT: i32 = 2;

thread_local! {
    static PLANS_OURS: Cell<bool> = const { Cell::new(false) };
    static BEFORE: Cell<pg_sys::get_relation_info_hook_type> = const { Cell::new(None) };
}

/// While it lives, plans are made of index scans, and tables are large. Nor is anything compiled: what has no index (sched.home, a row) is
/// planned at a cost that would have it compiled each time, for a thousand times what it takes. (The variables behind `enable_seqscan` and
/// the others are set without the ceremony of a setting: only our own statements are planned meanwhile.)
pub struct IndexesOnly {
    before: [bool; 5],
    planned: bool,
}

/// The planner's variables, in the order of `before`: what may be scanned and joined in which way, and whether expressions are compiled.
fn planner() -> [*mut bool; 5] {
    [
        &raw mut pg_sys::enable_seqscan,
        &raw mut pg_sys::enable_bitmapscan,
        &raw mut pg_sys::enable_mergejoin,
        &raw mut pg_sys::enable_tidscan,
        &raw mut pg_sys::jit_enabled,
    ]
}

impl IndexesOnly {
    /// From here on.
    pub fn begin() -> IndexesOnly {
        static HOOK: Once = Once::new();
        // SAFETY: the backend's only thread.
        unsafe {
            HOOK.call_once(|| {
                BEFORE.set(pg_sys::get_relation_info_hook);
                pg_sys::get_relation_info_hook = Some(as_if_large);
            });
            let before = planner().map(|variable| *variable);
            for (variable, value) in planner().into_iter().zip([false, false, false, true, false]) {
                *variable = value;
            }
            IndexesOnly { before, planned: PLANS_OURS.replace(true) }
        }
    }
}

impl Drop for IndexesOnly {
    fn drop(&mut self) {
        for (variable, value) in planner().into_iter().zip(self.before) {
            // SAFETY: as above; also when an error unwinds.
            unsafe { *variable = value }
        }
        PLANS_OURS.set(self.planned);
    }
}

/// Says of such a table that it is large.
#[pg_guard]
unsafe extern "C-unwind" fn as_if_large(
    root: *mut pg_sys::PlannerInfo,
    table: Oid,
    has_children: bool,
    relation: *mut pg_sys::RelOptInfo,
) {
    if let Some(before) = BEFORE.get() {
        before(root, table, has_children, relation);
    }
    if !PLANS_OURS.get() || table.to_u32() < pg_sys::FirstNormalObjectId {
        return;
    }
    let Some((schema, _)) = oid_cache::schema() else { return };
    let is_it = |(name, _): &&(&CStr, f64)| oid_cache::relation(schema, name) == Some(table);
    let Some((_, rows)) = GROWING.iter().find(is_it) else { return };
    let pages = |in_page: f64| (rows / in_page) as u32;
    let relation = &mut *relation;
    (relation.tuples, relation.pages) = (relation.tuples.max(*rows), relation.pages.max(pages(ROWS_IN_PAGE)));
    for index in PgList::<pg_sys::IndexOptInfo>::from_pg(relation.indexlist).iter_ptr() {
        let index = &mut *index;
        (index.tuples, index.pages) = (index.tuples.max(*rows), index.pages.max(pages(ENTRIES_IN_PAGE)));
        index.tree_height = index.tree_height.max(TREE_HEIGHT);
    }
}
