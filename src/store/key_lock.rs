//! A lock on a key that may not exist yet, so that a claim never waits for another claimer's uncommitted row.

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use scheduler_core::Instant;

/// Tells our locks from the advisory locks of applications (which have 1 or 2 here), also in pg_locks.objsubid.
const KEY_LOCK_CLASS: u16 = 0x5C4D;

/// Takes the lock of a key until the transaction ends; false at once where another transaction has it.
pub fn try_lock(key: Uuid, plan_time: Instant) -> bool {
    // SAFETY: a complete lock tag; the lock goes with the transaction.
    let taken = unsafe { pg_sys::LockAcquire(&tag(key, plan_time), pg_sys::ExclusiveLock as i32, false, true) };
    taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Whether another transaction has the lock of a key. It is not kept: the lock table has no room for one for each of a batch.
pub fn is_taken(key: Uuid, plan_time: Instant) -> bool {
    if !try_lock(key, plan_time) {
        return true;
    }
    release(key, plan_time);
    false
}

/// Gives the lock of a key back before the transaction ends: nothing was written under it.
pub fn release(key: Uuid, plan_time: Instant) {
    // SAFETY: the tag and mode that it was taken with.
    unsafe { pg_sys::LockRelease(&tag(key, plan_time), pg_sys::ExclusiveLock as i32, false) };
}

/// The lock of a key, one of the advisory kind.
fn tag(key: Uuid, plan_time: Instant) -> pg_sys::LOCKTAG {
    let mut number = [0_u8; 8];
    number.copy_from_slice(&key.as_bytes()[..8]);
    let number = u64::from_be_bytes(number) ^ plan_time.as_micros().cast_unsigned().rotate_left(17);
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
