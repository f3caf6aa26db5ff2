//! How a worker sleeps: on its latch, in parts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pgrx::pg_sys;
use scheduler_core::runtime::sleep::{self, Part};
use scheduler_core::Instant;

use crate::pg::{convert, latch};

/// Sleeps on the latch until `wake`, a set latch or a signal; whether it was not the time that ended it.
pub fn sleep_until(wake: Instant, now: Instant) -> bool {
    let mut left = wake.as_micros().saturating_sub(now.as_micros());
    loop {
        let part = sleep::next_part(left);
        let millis = if let Part::Milliseconds(millis) = part { millis } else { 0 };
        let woken = latch::wait_for(millis);
        if must_end() {
            return woken;
        }
        pgrx::check_for_interrupts!();
        if woken {
            return true;
        }
        if let Part::Last(micros) = part {
            // SAFETY: sleeps for about a millisecond at most, or until a signal.
            unsafe { pg_sys::pg_usleep(micros) }
            return false;
        }
        // A clock that was set back makes no sleep longer.
        left = wake.as_micros().saturating_sub(convert::now().as_micros()).min(left - millis * 1000);
    }
}

/// Sleeps for so long, or until the latch is set or a signal comes.
pub fn sleep_for(pause: Duration) {
    let now = convert::now();
    let micros = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
    sleep_until(now.checked_add_micros(micros).unwrap_or(Instant::MAX), now);
}

/// Whether SIGTERM has come: the server stops, or somebody has ended this process. It is then up to the caller to leave:
/// Postgres forgets the signal, or it would end the process with a FATAL line at the next opportunity, be it a line of ours.
pub fn must_end() -> bool {
    static ENDS: AtomicBool = AtomicBool::new(false);
    // SAFETY: the flag that the SIGTERM handler set.
    unsafe {
        if pg_sys::ProcDiePending != 0 {
            pg_sys::ProcDiePending = 0;
            ENDS.store(true, Relaxed);
        }
    }
    ENDS.load(Relaxed)
}
