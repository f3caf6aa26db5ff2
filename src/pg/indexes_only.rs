//! How our own statements are planned.

use pgrx::pg_sys;

/// While it lives, plans are made of index scans. A plan that was made while a queue happened to be empty would otherwise read
/// all of it once it is long, until somebody analyses the table. Nor is anything compiled: what has no index (sched.home, a row) is
/// planned at a cost that would have it compiled each time, for a thousand times what it takes. (The variables behind `enable_seqscan` and
/// `jit` are set without the ceremony of a setting: only our own statements are planned meanwhile.)
pub struct IndexesOnly {
    before: (bool, bool),
}

impl IndexesOnly {
    /// From here on.
    pub fn begin() -> IndexesOnly {
        // SAFETY: the backend's only thread.
        unsafe {
            let before = (pg_sys::enable_seqscan, pg_sys::jit_enabled);
            (pg_sys::enable_seqscan, pg_sys::jit_enabled) = (false, false);
            IndexesOnly { before }
        }
    }
}

impl Drop for IndexesOnly {
    fn drop(&mut self) {
        // SAFETY: as above; also when an error unwinds.
        unsafe { (pg_sys::enable_seqscan, pg_sys::jit_enabled) = self.before }
    }
}
