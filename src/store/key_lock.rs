//! Whether a key is in somebody's hands that no snapshot can show yet, so that a claim never waits for another claimer's
//! uncommitted row.
//!
//! A row that another transaction is just inserting stands in the unique index of the ledger already; a scan with a dirty snapshot
//! finds it. What two claimers do between that look and their own insert is short, and guarded by a lock that is
//! given back at once: held to the end of the transaction, a lock for each key would fill the server's lock table.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::{pg_sys, IntoDatum};

use crate::compat;
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
        (!is_being_written(key, plan_time)).then_some(lock)
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

/// Whether to insert this key would wait for another transaction.
pub fn is_taken(key: Uuid, plan_time: TimestampWithTimeZone) -> bool {
    KeyLock::try_take(key, plan_time).is_none()
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

/// Whether the ledger has a row of this key whose writer's transaction is still open.
fn is_being_written(key: Uuid, plan_time: TimestampWithTimeZone) -> bool {
    let (Some(key), Some(plan_time)) = (key.into_datum(), plan_time.into_datum()) else { return false };
    // SAFETY: an index scan as the executor does it; the datums outlive it, and whatever it opened is closed again, after an
    // error by the end of the transaction.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"sched".as_ptr(), false);
        let (table, index) = (
            pg_sys::get_relname_relid(c"ledger".as_ptr(), schema),
            pg_sys::get_relname_relid(c"ledger_key".as_ptr(), schema),
        );
        if table == pg_sys::Oid::INVALID || index == pg_sys::Oid::INVALID {
            raise(Failure::internal("the ledger or its key is missing"));
        }
        let mode = pg_sys::AccessShareLock as i32;
        let table = pg_sys::table_open(table, mode);
        let index = pg_sys::index_open(index, mode);
        let mut conditions = [pg_sys::ScanKeyData::default(); 2];
        let equal = pg_sys::BTEqualStrategyNumber as u16;
        pg_sys::ScanKeyInit(&mut conditions[0], 1, equal, pg_sys::F_UUID_EQ.into(), key);
        pg_sys::ScanKeyInit(&mut conditions[1], 2, equal, pg_sys::F_TIMESTAMPTZ_EQ.into(), plan_time);
        // What InitDirtySnapshot does; the scan notes in xmin and xmax whose transaction is open.
        let mut dirty =
            pg_sys::SnapshotData { snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY, ..Default::default() };
        let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
        let scan = compat::begin_index_scan(table, index, &mut dirty, 2);
        pg_sys::index_rescan(scan, conditions.as_mut_ptr(), 2, std::ptr::null_mut(), 0);
        let mut open = false;
        while !open && pg_sys::index_getnext_slot(scan, pg_sys::ScanDirection::ForwardScanDirection, slot) {
            open = dirty.xmin != pg_sys::InvalidTransactionId || dirty.xmax != pg_sys::InvalidTransactionId;
        }
        pg_sys::index_endscan(scan);
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        pg_sys::index_close(index, mode);
        pg_sys::table_close(table, mode);
        open
    }
}
