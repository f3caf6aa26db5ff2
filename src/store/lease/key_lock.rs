//! Whether a key is in somebody's hands that no snapshot can show yet, so that a claim never waits for another claimer's
//! uncommitted row.
//!
//! A row that another transaction is just inserting stands in the unique index of the ledger already; a scan with a dirty snapshot
//! finds it. What two claimers do between that look and their own insert is short, and guarded by a lock that is
//! given back at once: held to the end of the transaction, a lock for each key would fill the server's lock table.

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys;

use crate::heap::{Condition, KeyState, Keys, Table};
use crate::pg::role;

/// Tells our locks from the advisory locks of applications (which have 1 or 2 here), also in pg_locks.objsubid.
const KEY_LOCK_CLASS: u16 = 0x5C4D;

/// The right to insert a key. Given back when it goes out of scope; after an error Postgres gives it back.
pub struct KeyLock(pg_sys::LOCKTAG);

impl KeyLock {
    /// `None` at once where somebody else has the lock, or has the key in hand in a transaction that is still open.
    pub fn try_take(key: Uuid, plan_time: TimestampWithTimeZone) -> Option<KeyLock> {
        let lock = KeyLock::acquire(key, plan_time)?;
        match LedgerKeys::open(&ledger()).state(key, plan_time) {
            KeyState::Free | KeyState::Taken => Some(lock),
            KeyState::Changing | KeyState::Open => None,
        }
    }

    /// The same, and `None` also where the key is taken.
    pub fn try_take_free(keys: &mut LedgerKeys, key: Uuid, plan_time: TimestampWithTimeZone) -> Option<KeyLock> {
        let lock = KeyLock::acquire(key, plan_time)?;
        (keys.state(key, plan_time) == KeyState::Free).then_some(lock)
    }

    fn acquire(key: Uuid, plan_time: TimestampWithTimeZone) -> Option<KeyLock> {
        let tag = tag(key, plan_time);
        // SAFETY: a complete lock tag; should an error get past `drop`, the lock goes with the transaction.
        let taken = unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, true) };
        (taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL).then(|| KeyLock(tag))
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

/// The ledger, to look at its keys.
pub fn ledger() -> Table {
    Table::open_any(role::extension().0, c"ledger")
}

/// The keys of the ledger, that of transactions which are still open included.
pub struct LedgerKeys<'t>(Keys<'t>);

impl<'t> LedgerKeys<'t> {
    /// Opens them.
    pub fn open(ledger: &'t Table) -> LedgerKeys<'t> {
        LedgerKeys(Keys::open(ledger, c"ledger_key"))
    }

    /// How a key stands now.
    pub fn state(&mut self, key: Uuid, plan_time: TimestampWithTimeZone) -> KeyState {
        let key = Condition::equal(pg_sys::F_UUID_EQ, key);
        self.0.state(&[key, Condition::equal(pg_sys::F_TIMESTAMPTZ_EQ, plan_time)])
    }
}
