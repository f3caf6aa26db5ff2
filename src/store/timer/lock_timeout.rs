//! Waits for others' open transactions, kept short where many wait behind us.

use std::time::{Duration, Instant};

use pgrx::{pg_sys, PgSqlErrorCode};

use crate::heap;
use crate::pg::error::Failure;

/// How long a batch of fires waits for somebody else, in milliseconds: for the transaction of a run that came up in the ledger after
/// the batch has looked for it, or, where the disks stall, for a lock that a table grows under.
const LONGEST_WAIT: i32 = 100;

/// How long the parts of a batch that failed go on being halved because of such waits.
const LONGEST_WAITS: Duration = Duration::from_millis(300);

/// The tables that a batch of fires writes.
const WRITTEN: [&std::ffi::CStr; 5] = [c"ledger", c"ready", c"awaited", c"schedule_change", c"timer"];

/// Runs the statement that fires a batch, which fails with `55P03` rather than wait for long. Its tables are locked before, as long as
/// that may take: who builds an index is waited for, or every batch would fail until it is built.
pub fn with_lock_timeout<R>(fire: impl FnOnce() -> R) -> R {
    heap::lock_to_write(&WRITTEN);
    in_short_waits(LONGEST_WAIT, fire)
}

/// Runs `body`, which fails with `55P03` rather than wait for one lock longer than this, in milliseconds.
pub fn in_short_waits<R>(longest: i32, body: impl FnOnce() -> R) -> R {
    let _short = LockTimeoutGuard::begin(longest);
    body()
}

/// What is left of it for the parts of a batch that failed.
pub struct RetryBudget {
    began: Instant,
}

impl RetryBudget {
    /// A new one for each batch.
    pub fn begin() -> RetryBudget {
        RetryBudget { began: Instant::now() }
    }

    /// Whether a part of so many timers that failed is left alone for a moment, because it ran into somebody else's lock: nothing is wrong
    /// with its schedules. At first it is halved, since each part looks again which of its runs are in somebody's hands.
    pub fn is_spent(&self, failure: &Failure, timers: usize) -> bool {
        failure.code == PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
            && (timers == 1 || self.began.elapsed() >= LONGEST_WAITS)
    }
}

/// While it lives, a wait for a lock ends after so many milliseconds or what the session has chosen, if that is less. (The variable behind
/// `lock_timeout` is set without the ceremony of a setting: only our own statement waits meanwhile.)
struct LockTimeoutGuard {
    before: i32,
}

impl LockTimeoutGuard {
    fn begin(longest: i32) -> LockTimeoutGuard {
        // SAFETY: the backend's only thread.
        unsafe {
            let before = pg_sys::LockTimeout;
            pg_sys::LockTimeout = if before > 0 { before.min(longest) } else { longest };
            LockTimeoutGuard { before }
        }
    }
}

impl Drop for LockTimeoutGuard {
    fn drop(&mut self) {
        // SAFETY: as above; also when an error unwinds.
        unsafe { pg_sys::LockTimeout = self.before }
    }
}
