//! What is left of a run in its session when it is over.

use std::ptr::null_mut;

use pgrx::pg_sys;

// The server's async.h and sequence.h, which pgrx does not bind.
unsafe extern "C-unwind" {
    fn Async_UnlistenAll();
    fn ResetSequenceCaches();
}

/// What DISCARD ALL clears, as `DiscardAll` of the server's `discard.c` has it, but for plans: those that are left are our own.
///
/// # Safety
/// In a transaction that has done nothing.
pub unsafe fn discard_all() {
    pg_sys::PortalHashTableDeleteAll();
    pg_sys::SetPGVariable(c"session_authorization".as_ptr(), null_mut(), false);
    pg_sys::SetPGVariable(c"role".as_ptr(), null_mut(), false);
    pg_sys::ResetAllOptions();
    pg_sys::DropAllPreparedStatements();
    Async_UnlistenAll();
    pg_sys::LockReleaseAll(pg_sys::USER_LOCKMETHOD as u16, true);
    pg_sys::ResetTempTableNamespace();
    ResetSequenceCaches();
}
