//! The server's own limit of time for a statement, which nobody arms in a background worker but the worker itself.

use std::ffi::{c_int, c_uint};
use std::time::{Duration, Instant};

use pgrx::pg_sys;

// The server's timeout.h, which pgrx does not bind.
unsafe extern "C-unwind" {
    fn enable_timeout_after(id: c_uint, delay_ms: c_int);
    fn disable_timeout(id: c_uint, keep_indicator: bool);
}

/// TimeoutId's STATEMENT_TIMEOUT.
const STATEMENT: c_uint = 3;

/// A statement begins that is cancelled (`57014`) after so many milliseconds.
pub fn begin(milliseconds: c_int) {
    // SAFETY: every backend has registered it.
    unsafe { enable_timeout_after(STATEMENT, milliseconds) }
}

/// It has ended.
pub fn end() {
    // SAFETY: as above.
    unsafe { disable_timeout(STATEMENT, false) }
}

/// Runs `body`, which is cancelled (`57014`) after so many milliseconds. Where no other limit is armed.
pub fn within<R>(milliseconds: u32, body: impl FnOnce() -> R) -> R {
    let _limit = Limit { began: Instant::now(), longest: Duration::from_millis(milliseconds.into()) };
    begin(c_int::try_from(milliseconds).unwrap_or(c_int::MAX));
    body()
}

struct Limit {
    began: Instant,
    longest: Duration,
}

impl Drop for Limit {
    fn drop(&mut self) {
        end();
        if self.began.elapsed() >= self.longest {
            // SAFETY: a flag of the backend's only thread. A cancel that came when it was over would hit what comes next.
            unsafe { pg_sys::QueryCancelPending = 0 }
        }
    }
}
