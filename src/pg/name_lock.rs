//! Locks on names, each to the end of the transaction: what is done under one is done one after the other. No function of the server takes
//! one, so nobody holds the name of another's. Each has an entry in the server's lock table, so only few are taken in one transaction.

use std::hash::{DefaultHasher, Hash, Hasher};

use pgrx::pg_sys;

/// What the names are of.
#[derive(Clone, Copy)]
pub enum Names {
    /// Sources of imports, each with its schema.
    Imports,
    /// Rights that `grant_enqueue` gives: two GRANTs on one function at a time are an error of the server.
    Grants,
}

impl Names {
    /// Tells our locks from the advisory locks of applications (which have 1 or 2 here), also in pg_locks.objsubid. The ledger's keys have 0x5C4D.
    fn class(self) -> u16 {
        match self {
            Names::Imports => 0x5C4E,
            Names::Grants => 0x5C4F,
        }
    }
}

/// Waits until no other transaction has this name, and has it until this one ends. (Two names of one hash wait for each other for nothing.)
pub fn hold(names: Names, name: &str) {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let number = hasher.finish();
    let tag = pg_sys::LOCKTAG {
        // SAFETY: reads a global of the backend.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: (number >> 32) as u32,
        locktag_field3: number as u32,
        locktag_field4: names.class(),
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    };
    // SAFETY: a complete lock tag, inside a transaction, which gives the lock back.
    unsafe { pg_sys::LockAcquire(&tag, pg_sys::ExclusiveLock as i32, false, false) };
}
