//! What a dispatcher finds in its database before it looks at a table of ours.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

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
    /// `sched.dispatch` of the database, where it was read.
    pub dispatch: Option<bool>,
}

/// Why a look found nothing out.
pub struct ProbeError {
    pub message: String,
    /// For a lock that somebody has.
    pub by_lock: bool,
}

/// What a look is called.
pub const LOOKING: &CStr = c"looking for the extension";

/// Looks, in a transaction of its own, whether the extension exists in this database, and what is to be known then; also how
/// `sched.dispatch` stands, where it `reads_dispatch`.
pub fn run(reads_dispatch: bool) -> Result<Option<Probe>, ProbeError> {
    let locked = AtomicBool::new(false);
    let found = transaction::attempt(LOOKING, || {
        PgTryBuilder::new(move || extension(reads_dispatch))
            .catch_when(PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE, |error| {
                locked.store(true, Relaxed);
                error.rethrow()
            })
            .execute()
    });
    found.map_err(|message| ProbeError { message, by_lock: locked.load(Relaxed) })
}

/// This database, where the extension exists in it (its schema can only go with it).
fn extension(reads_dispatch: bool) -> Option<Probe> {
    let watermark = XidWatermark::now();
    // The first from the cache.
    role::schema().and_then(|_| syscache::extension())?;
    syscache::this_database().map(|database| Probe {
        is_served: serves(&database),
        name: database.name,
        may_dispatch: role::may_dispatch(),
        role_exists: role::exists(role::caller()),
        watermark,
        dispatch: if reads_dispatch { guc::dispatch_of_database() } else { None },
    })
}

/// Whether a dispatcher may be in this database.
pub fn serves(database: &Database) -> bool {
    database.can_be_served() && guc::serves_database(&database.name)
}

/// For how long a database whose schedules fire goes on without another look at `sched.dispatch`: less than a second.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// `sched.dispatch` of the database, as a dispatcher knows it.
pub struct DispatchSwitch {
    is_on: bool,
    read: Option<std::time::Instant>,
}

impl DispatchSwitch {
    pub const fn unread() -> DispatchSwitch {
        DispatchSwitch { is_on: true, read: None }
    }

    /// Whether to read it with the next probe. Where nothing fires there are few probes, and a change wakes the dispatcher.
    pub fn is_stale(&self) -> bool {
        !self.is_on || self.read.is_none_or(|read| read.elapsed() >= LOOK_EVERY)
    }

    /// Whether schedules fire by themselves, after a probe that may have read it. The log hears of each change.
    pub fn update(&mut self, probe: &Probe) -> bool {
        let Some(is_on) = probe.dispatch else { return self.is_on };
        self.read = Some(std::time::Instant::now());
        if std::mem::replace(&mut self.is_on, is_on) != is_on {
            let (fires, value) = if is_on { ("fires schedules again", "on") } else { ("fires no schedule", "off") };
            let database = probe.name.to_string_lossy();
            pgrx::log!("scheduler: dispatcher for database \"{database}\" {fires}: sched.dispatch is {value}");
        }
        is_on
    }
}
