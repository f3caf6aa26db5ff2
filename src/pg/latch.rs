//! The only place where a process of ours waits for its latch.
//!
//! Whatever sets a latch sets it for everybody who looks at it: a commit, a signal, or the barrier in which the server waits for every process
//! (DROP DATABASE, of whatever database). Who resets it handles them all before it waits again, or whoever set it waits for us until we wake up
//! for another reason.

use pgrx::pg_sys;

/// Waits for so many milliseconds at most, in the middle of a statement, which whoever cancels it ends.
pub fn pause_in_statement(millis: i64) {
    wait_for(millis);
    pgrx::check_for_interrupts!();
}

/// Waits for this long at most; whether the latch was set. The caller handles interrupts next.
pub fn wait_for(millis: i64) -> bool {
    let flags = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the process' own latch. One that is set after the wait stays so: the next wait is to see it.
    unsafe {
        let events = pg_sys::WaitLatch(pg_sys::MyLatch, flags as i32, millis, pg_sys::PG_WAIT_EXTENSION);
        let woken = events as u32 & pg_sys::WL_LATCH_SET != 0;
        if woken {
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        woken
    }
}
