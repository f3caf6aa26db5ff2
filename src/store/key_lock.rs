//! Whether a key is in somebody's hands that no snapshot can show yet, so that a claim never waits for another claimer's
//! uncommitted row.
//!
//! A row that another transaction is just inserting stands in the unique index of the ledger already; a scan with a dirty snapshot
//! finds it. What two claimers do between that look and their own insert is short, and guarded by a lock that is
//! given back at once: held to the end of the transaction, a lock for each key would fill the server's lock table.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys;

use crate::error::{raise, Failure};

/// Tells our locks from the advisory locks of applications (which have 1 or 2 here), also in pg_locks.objsubid.
const KEY_LOCK_CLASS: u16 = 0x5C4D;

/// The right to insert a key. Given back when it goes out of scope; after an error Postgres gives it back.
pub struct KeyLock(pg_sys::LOCKTAG);

impl KeyLock {
    /// `None` at once where somebody else has the lock, or has inserted the key in a transaction that is still open.
    pub fn try_take(key: Uuid, plan_time: TimestampWithTimeZone) -> Option<KeyLock> {
        let tag = tag(key, plan_time);
        // SAFETY: a complete lock tag; should an error get past `drop`, the lock goes with the transaction.
        let taken = unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, true) };
        if taken == pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL {
            return None;
        }
        let lock = KeyLock(tag);
        (Keys::open().state(key, plan_time) != KeyState::Open).then_some(lock)
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the tag and mode that were taken.
            unsafe { pg_sys::LockRelease(&self.0, pg_sys::ExclusiveLock as i32, false) };
        }
    }
}

/// The lock of a key, one of the advisory kind.
fn tag(key: Uuid, plan_time: TimestampWithTimeZone) -> pg_sys::LOCKTAG {
    let mut number = [0_u8; 8];
    number.copy_from_slice(&key.as_bytes()[..8]);
    let number = u64::from_be_bytes(number) ^ i64::from(plan_time).cast_unsigned().rotate_left(17);
    pg_sys::LOCKTAG {
        // SAFETY: reads a global of the backend.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: (number >> 32) as u32,
        locktag_field3: number as u32,
        locktag_field4: KEY_LOCK_CLASS,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// How a key stands in the ledger, whatever a snapshot shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// It is not there.
    Free,
    /// It is.
    Taken,
    /// Another transaction, still open, is just writing it: to insert it would wait for that one's end.
    Open,
}

/// The unique index of the ledger, open for looks at many keys.
pub struct Keys {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    scan: pg_sys::IndexScanDesc,
    conditions: [pg_sys::ScanKeyData; 2],
    /// What the scan looks with; it notes here whose transaction is open.
    dirty: Box<pg_sys::SnapshotData>,
}

const SCAN_LOCK: i32 = pg_sys::AccessShareLock as i32;

impl Keys {
    /// Opens the index.
    pub fn open() -> Keys {
        // SAFETY: an index scan as the executor does it; `drop` closes what this opens, and after an error the end of the
        // transaction. The snapshot is what InitDirtySnapshot makes, and lives as long as the scan.
        unsafe {
            let schema = pg_sys::get_namespace_oid(c"sched".as_ptr(), false);
            let (table, index) = (
                pg_sys::get_relname_relid(c"ledger".as_ptr(), schema),
                pg_sys::get_relname_relid(c"ledger_key".as_ptr(), schema),
            );
            if table == pg_sys::Oid::INVALID || index == pg_sys::Oid::INVALID {
                raise(Failure::internal("the ledger or its key is missing"));
            }
            let table = pg_sys::table_open(table, SCAN_LOCK);
            let index = pg_sys::index_open(index, SCAN_LOCK);
            let mut dirty = Box::new(pg_sys::SnapshotData {
                snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
                ..Default::default()
            });
            let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
            #[cfg(not(feature = "pg18"))]
            let scan = pg_sys::index_beginscan(table, index, &mut *dirty, 2, 0);
            #[cfg(feature = "pg18")]
            let scan = pg_sys::index_beginscan(table, index, &mut *dirty, std::ptr::null_mut(), 2, 0);
            let mut conditions = [pg_sys::ScanKeyData::default(); 2];
            let (equal, none) = (pg_sys::BTEqualStrategyNumber as u16, pg_sys::Datum::null());
            pg_sys::ScanKeyInit(&mut conditions[0], 1, equal, pg_sys::F_UUID_EQ.into(), none);
            pg_sys::ScanKeyInit(&mut conditions[1], 2, equal, pg_sys::F_TIMESTAMPTZ_EQ.into(), none);
            Keys { table, index, slot, scan, conditions, dirty }
        }
    }

    /// How a key stands now.
    pub fn state(&mut self, key: Uuid, plan_time: TimestampWithTimeZone) -> KeyState {
        let mut state = KeyState::Free;
        self.conditions[0].sk_argument = key.as_bytes().as_ptr().into();
        self.conditions[1].sk_argument = i64::from(plan_time).into();
        // SAFETY: the scan is open; the key lives as long as this look.
        unsafe {
            pg_sys::index_rescan(self.scan, self.conditions.as_mut_ptr(), 2, std::ptr::null_mut(), 0);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            while state != KeyState::Open && pg_sys::index_getnext_slot(self.scan, forward, self.slot) {
                let open =
                    self.dirty.xmin != pg_sys::InvalidTransactionId || self.dirty.xmax != pg_sys::InvalidTransactionId;
                state = if open { KeyState::Open } else { KeyState::Taken };
            }
        }
        state
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: closes what `open` opened, in the reverse order.
            unsafe {
                pg_sys::index_endscan(self.scan);
                pg_sys::ExecDropSingleTupleTableSlot(self.slot);
                pg_sys::index_close(self.index, SCAN_LOCK);
                pg_sys::table_close(self.table, SCAN_LOCK);
            }
        }
    }
}
