//! Room for an error on its way to Rust. pgrx copies an error where a call of the server leaves by one, with the server's allocator. Where that
//! finds nothing the copy fails by an error of its own, which is copied again, until the server's stack of errors is full: it then aborts, and
//! the postmaster restarts all. So an error that could not be copied ends the session, with `53200`, before it leaves the server's code.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::pg::allocator;

/// What the copy of an error takes at most: its texts, in a memory context that may ask for a block of 1 MiB for them.
const ROOM: usize = 3 * 1_048_576;

thread_local! {
    /// The session is being ended.
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`, in which an error finds room.
pub fn with_room<R>(body: impl FnOnce() -> R) -> R {
    /// Takes the entry from the server's stack, also when an error unwinds.
    struct Entry(pg_sys::ErrorContextCallback);
    impl Drop for Entry {
        fn drop(&mut self) {
            // SAFETY: the backend's only thread; the entry was pushed on this.
            unsafe { pg_sys::error_context_stack = self.0.previous }
        }
    }
    // SAFETY: the entry stays where it is until it is dropped, before this returns.
    unsafe {
        let previous = pg_sys::error_context_stack;
        let mut entry = Entry(pg_sys::ErrorContextCallback { previous, callback: Some(require), arg: null_mut() });
        pg_sys::error_context_stack = &raw mut entry.0;
        body()
    }
}

/// Whether an error that is on its way can be copied.
pub fn is_there() -> bool {
    !ENDING.get() && !is_critical() && allocator::has(ROOM)
}

/// Whether the server is in a critical section, where each error is one of all processes, and none is caught.
fn is_critical() -> bool {
    // SAFETY: reads a global of the process.
    unsafe { pg_sys::CritSectionCount > 0 }
}

/// Called by the server for each message, while it puts that together: a command may give an error any SQLSTATE, so nothing tells it from a
/// notice here. (It unwinds nowhere: what it calls raises nothing.)
unsafe extern "C-unwind" fn require(_argument: *mut c_void) {
    if !is_critical() && !is_there() && !ENDING.replace(true) {
        allocator::end_session(ROOM);
    }
}
