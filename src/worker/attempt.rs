//! One transaction of a dispatcher, unless something else comes first.

use std::ffi::CStr;

use crate::shmem::exclusion;
use crate::worker::{notifier, probe, transaction};

/// Something else comes first: new settings, a command that wants the database to itself, the end of the process or of the
/// extension.
pub struct Interrupted;

/// Runs one transaction, unless something else comes first; `None` where it failed, which the log then says.
pub fn attempt<R>(
    database: u32,
    what: &CStr,
    work: impl FnOnce() -> R + std::panic::UnwindSafe,
) -> Result<Option<R>, Interrupted> {
    if interrupted(database) {
        return Err(Interrupted);
    }
    notifier::send(database);
    match transaction::attempt(what, work) {
        Ok(done) => Ok(Some(done)),
        Err(_) if was_interrupted(database) => Err(Interrupted),
        Err(message) => {
            transaction::log(what, &message);
            Ok(None)
        }
    }
}

/// Whether something else comes before the next step. Reads memory only.
pub fn interrupted(database: u32) -> bool {
    super::must_end() || super::must_reload() || exclusion::is_excluded(database)
}

/// Whether what failed did so because something else comes before it, or nothing is left to work on.
pub fn was_interrupted(database: u32) -> bool {
    if interrupted(database) {
        return true;
    }
    probe::run(false).is_ok_and(|here| !here.is_some_and(|here| here.is_served))
}
