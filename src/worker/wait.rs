//! The only place where a process of ours waits for its latch.
//!
//! Whatever sets a latch sets it for everybody who looks at it: a commit, a signal, or the barrier in which the server waits for every process
//! (DROP DATABASE, of whatever database). Who resets it handles them all before it waits again, or whoever set it waits for us until we wake up
//! for another reason.

use std::time::Duration;

use pgrx::pg_sys;
use scheduler_core::sleep::{self, Part};
use scheduler_core::Instant;

use crate::convert;

/// Sleeps on the latch until `wake`, a set latch or a signal; whether it was not the time that ended it.
pub fn sleep_until(wake: Instant, now: Instant) -> bool {
    let mut left = wake.as_micros().saturating_sub(now.as_micros());
    loop {
        let part = sleep::next_part(left);
        let millis = if let Part::Milliseconds(millis) = part { millis } else { 0 };
        let woken = wait_for_latch(millis);
        if super::must_end() {
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

/// The same for a session in the middle of a statement, which whoever cancels it ends.
pub fn pause_in_statement(millis: i64) {
    wait_for_latch(millis);
    pgrx::check_for_interrupts!();
}

/// Waits for this long at most; whether the latch was set.
fn wait_for_latch(millis: i64) -> bool {
    let flags = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the process' own latch. One that is set after the wait stays so: the next sleep is to see it.
    unsafe {
        let events = pg_sys::WaitLatch(pg_sys::MyLatch, flags as i32, millis, pg_sys::PG_WAIT_EXTENSION);
        let woken = events as u32 & pg_sys::WL_LATCH_SET != 0;
        if woken {
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        woken
    }
}
