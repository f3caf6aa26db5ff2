//! What a session remembers of a table until the table changes. Its trigger says so to all sessions once that is committed, as DDL
//! does (it calls `changed`); where that does not fire for everybody nothing is remembered. And a transaction that is rolled back may
//! be the one that wrote what is remembered: then all is forgotten.

use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid};

/// A table of which something is remembered, together with the number of its changes that was known before it was read: that is true as
/// long as the number is the same.
pub struct Watched {
    /// By which all sessions hear of a change.
    trigger: &'static CStr,
    table: AtomicU32,
    changes: AtomicU64,
}

/// `sched.home`.
pub static HOME: Watched = Watched::new(c"home_changed");
/// `sched.job`.
pub static JOBS: Watched = Watched::new(c"job_changed");
/// `sched.shard`.
pub static SHARD: Watched = Watched::new(c"shard_changed");
/// `sched.test_clock`.
pub static TEST_CLOCK: Watched = Watched::new(c"test_clock_changed");

const ALL: [&Watched; 4] = [&HOME, &JOBS, &SHARD, &TEST_CLOCK];

impl Watched {
    const fn new(trigger: &'static CStr) -> Watched {
        Watched { trigger, table: AtomicU32::new(0), changes: AtomicU64::new(0) }
    }

    /// To be said before the table is read: of a change that comes up meanwhile this session may hear at once. With which number what is
    /// read may be remembered; `None` where it may not, because not every change is told: objects of 0.1.0 tell nobody, nor does a table
    /// whose trigger somebody has switched off, or on again as it is not (ENABLE TRIGGER ALL): `always_fires` tells.
    pub fn watch(&self, table: Oid, always_fires: impl FnOnce(&CStr) -> bool) -> Option<u64> {
        static WATCHING: AtomicBool = AtomicBool::new(false);
        self.table.store(table.to_u32(), Ordering::Relaxed);
        if !WATCHING.swap(true, Ordering::Relaxed) {
            // SAFETY: the callbacks live as long as the library, which is never unloaded.
            unsafe {
                pg_sys::RegisterXactCallback(Some(transaction_ended), null_mut());
                pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), null_mut());
                pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::null());
            }
        }
        always_fires(self.trigger).then(|| self.changes())
    }

    /// How many changes this session has heard of.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Has the next one that asks look again.
    pub fn forget(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

/// How many changes of roles this process has heard of since it watches them.
static ROLE_CHANGES: AtomicU64 = AtomicU64::new(0);

/// Has this process hear of changed and dropped roles: with each transaction that it begins, of all that were committed before.
pub fn watch_roles() {
    static WATCHING: AtomicBool = AtomicBool::new(false);
    if !WATCHING.swap(true, Ordering::Relaxed) {
        let cache = pg_sys::SysCacheIdentifier::AUTHOID as i32;
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::CacheRegisterSyscacheCallback(cache, Some(role_changed), pg_sys::Datum::null()) }
    }
}

/// How many changes of roles that are by now.
pub fn role_changes() -> u64 {
    ROLE_CHANGES.load(Ordering::Relaxed)
}

#[pg_guard]
unsafe extern "C-unwind" fn role_changed(_argument: pg_sys::Datum, _cache: i32, _hash: u32) {
    ROLE_CHANGES.fetch_add(1, Ordering::Relaxed);
}

/// Hears of all that was committed until now, as to lock a table does.
pub fn accept_invalidations() {
    // SAFETY: inside a transaction.
    unsafe { pg_sys::AcceptInvalidationMessages() }
}

/// To be said when a table has changed: all sessions look again, once that is committed.
pub fn changed(table: Oid) {
    // SAFETY: inside a transaction.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) }
}

fn forget_all() {
    ALL.iter().for_each(|watched| watched.forget());
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_changed(_argument: pg_sys::Datum, relation: Oid) {
    for watched in ALL {
        if relation == Oid::INVALID || relation.to_u32() == watched.table.load(Ordering::Relaxed) {
            watched.forget();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    if event == pg_sys::XactEvent::XACT_EVENT_ABORT || event == pg_sys::XactEvent::XACT_EVENT_PREPARE {
        forget_all();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ended(
    event: pg_sys::SubXactEvent::Type,
    _own: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB {
        forget_all();
    }
}
