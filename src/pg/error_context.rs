//! Looks at errors where the server puts them together: pgrx keeps neither their position nor their context, nor a SQLSTATE that it has no
//! name for.

use std::ffi::c_void;

use pgrx::pg_sys;

/// While it lives, a callback stands on the server's error context stack, which is called for each message while the server still has all of it.
/// Those that stand above it have been called before.
pub struct ErrorContext(Box<pg_sys::ErrorContextCallback>);

impl ErrorContext {
    /// It has to be dropped in the order of the stack.
    pub fn push(callback: unsafe extern "C-unwind" fn(*mut c_void)) -> ErrorContext {
        // SAFETY: the backend's only thread; `drop` takes the entry from the stack while it still lives.
        unsafe {
            let previous = pg_sys::error_context_stack;
            let mut entry = Box::new(pg_sys::ErrorContextCallback {
                previous,
                callback: Some(callback),
                arg: std::ptr::null_mut(),
            });
            pg_sys::error_context_stack = &raw mut *entry;
            ErrorContext(entry)
        }
    }
}

impl Drop for ErrorContext {
    fn drop(&mut self) {
        // SAFETY: as above; also when an error unwinds.
        unsafe { pg_sys::error_context_stack = self.0.previous }
    }
}
