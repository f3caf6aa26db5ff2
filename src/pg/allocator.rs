//! The allocator of this library. Rust aborts the process when an allocation fails, and the postmaster then restarts all others. Here such a
//! failure ends the session alone, with `53200`, as PostgreSQL ends one that it cannot go on with. `memory::require` makes it an error of the
//! statement wherever a user decides how much is copied.

use std::cell::Cell;

thread_local! {
    /// Somebody only asks, and goes on without.
    static ASKS: Cell<bool> = const { Cell::new(false) };
}

/// Whether so many bytes can be had at this moment.
pub fn has(bytes: usize) -> bool {
    let mut probe = Vec::<u8>::new();
    ASKS.set(true);
    let result = probe.try_reserve_exact(bytes);
    ASKS.set(false);
    // The compiler may leave out an allocation that nobody looks at.
    std::hint::black_box(&probe);
    result.is_ok()
}

/// Ends the session for want of so many bytes.
#[cfg(not(test))]
pub use ending::end_session;

/// The same in the process that starts the tests, which has no session.
#[cfg(test)]
pub fn end_session(_size: usize) {}

// (The process that starts the tests is none of PostgreSQL's.)
#[cfg(not(test))]
mod ending {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ffi::{c_char, c_int};

    use pgrx::pg_sys;
    use pgrx::{PgLogLevel, PgSqlErrorCode};

    // utils/elog.h, which pgrx binds without these.
    unsafe extern "C-unwind" {
        fn errcode(sqlstate: c_int) -> c_int;
        fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
    }

    /// What Rust's code allocates from: `malloc`.
    struct Allocator;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    // SAFETY: the system's allocator, but for what happens where it has nothing.
    unsafe impl GlobalAlloc for Allocator {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            given(System.alloc(layout), layout.size())
        }

        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            given(System.alloc_zeroed(layout), layout.size())
        }

        unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            given(System.realloc(memory, layout, size), size)
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            System.dealloc(memory, layout);
        }
    }

    fn given(memory: *mut u8, size: usize) -> *mut u8 {
        if memory.is_null() && !crate::pg::allocator::ASKS.get() {
            end_session(size);
        }
        memory
    }

    /// Ends the process as FATAL does: its transaction is rolled back, its locks are given back, and no frame of Rust's is left by an unwind,
    /// which an allocator must not do.
    #[cold]
    pub fn end_session(size: usize) {
        // SAFETY: a process of PostgreSQL has a stack of errors once MyProcPid is set; the server's own calls allocate nothing of ours.
        unsafe {
            if pg_sys::MyProcPid == 0 || !pg_sys::errstart_cold(PgLogLevel::FATAL as i32, std::ptr::null()) {
                return;
            }
            errcode(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as i32);
            pg_sys::errmsg_internal(c"out of memory: the scheduler could not allocate %zu bytes".as_ptr(), size);
            errfinish(c"allocator.rs".as_ptr(), 0, c"end_session".as_ptr());
        }
    }
}
