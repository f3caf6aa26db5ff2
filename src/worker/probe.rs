//! What a dispatcher finds in its database before it looks at a table of ours.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pgrx::prelude::*;

use crate::guc;
use crate::pg::syscache::Database;
use crate::pg::{role, syscache};
use crate::worker::transaction;
use crate::worker::xid_watermark::XidWatermark;

/// What a dispatcher finds in its database.
pub struct Probe {
    pub name: CString,
    /// A dispatcher may be there.
    pub is_served: bool,
    /// Its role has the rights that it needs.
    pub may_dispatch: bool,
    /// Its role was not dropped.
    pub role_exists: bool,
    /// Up to which transaction all was there to be seen.
    pub watermark: Option<XidWatermark>,
}

/// Why a look found nothing out.
pub struct ProbeError {
    pub message: String,
    /// For a lock that somebody has.
    pub by_lock: bool,
}

/// What a look is called.
pub const LOOKING: &CStr = c"looking for the extension";

/// Looks, in a transaction of its own, whether the extension exists in this database, and what is to be known then.
pub fn run() -> Result<Option<Probe>, ProbeError> {
    let locked = AtomicBool::new(false);
    let found = transaction::attempt(LOOKING, || {
        PgTryBuilder::new(extension)
            .catch_when(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, |error| {
                locked.store(true, Relaxed);
                error.rethrow()
            })
            .execute()
    });
    found.map_err(|message| ProbeError { message, by_lock: locked.load(Relaxed) })
}

/// This database, where the extension exists in it (its schema can only go with it).
fn extension() -> Option<Probe> {
    let watermark = XidWatermark::now();
    // The first from the cache.
    role::schema().and_then(|_| syscache::extension())?;
    syscache::this_database().map(|database| Probe {
        is_served: serves(&database),
        name: database.name,
        may_dispatch: role::may_dispatch(),
        role_exists: role::exists(role::caller()),
        watermark,
    })
}

/// Whether a dispatcher may be in this database.
pub fn serves(database: &Database) -> bool {
    database.can_be_served() && guc::serves_database(&database.name)
}
