//! Waits for others' open transactions, kept short where many wait behind us.

use pgrx::pg_sys;

use crate::store::table;

/// How long a batch of fires waits for somebody else's transaction, in milliseconds. Only a run that came up in the ledger after the
/// batch has looked for it is waited for at all.
const LONGEST_WAIT: i32 = 100;

/// The tables that a batch of fires writes.
const WRITTEN: [&std::ffi::CStr; 5] = [c"ledger", c"ready", c"awaited", c"schedule_change", c"timer"];

/// Runs the statement that fires a batch, which fails with `55P03` rather than wait for long. Its tables are locked before, as long as
/// that may take: who builds an index is waited for, or every batch would fail until it is built.
pub fn bounded<R>(fire: impl FnOnce() -> R) -> R {
    table::lock_to_write(&WRITTEN);
    let _short = ShortWaits::begin();
    fire()
}

/// While it lives, a wait for a lock ends after [`LONGEST_WAIT`] or what the session has chosen, if that is less. (The variable behind
/// `lock_timeout` is set without the ceremony of a setting: only our own statement waits meanwhile.)
struct ShortWaits {
    before: i32,
}

impl ShortWaits {
    fn begin() -> ShortWaits {
        // SAFETY: the backend's only thread.
        unsafe {
            let before = pg_sys::LockTimeout;
            pg_sys::LockTimeout = if before > 0 { before.min(LONGEST_WAIT) } else { LONGEST_WAIT };
            ShortWaits { before }
        }
    }
}

impl Drop for ShortWaits {
    fn drop(&mut self) {
        // SAFETY: as above; also when an error unwinds.
        unsafe { pg_sys::LockTimeout = self.before }
    }
}
