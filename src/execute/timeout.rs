//! The limits of time of a command: `statement_timeout` for each statement, as for a client's, and the run's own.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use pgrx::{pg_guard, pg_sys};
use scheduler_core::Instant;

use crate::pg::time_limit;

// The server's timeout.h, which pgrx does not bind.
unsafe extern "C-unwind" {
    fn RegisterTimeout(id: c_uint, handler: unsafe extern "C-unwind" fn()) -> c_uint;
    fn enable_timeout_at(id: c_uint, at: i64);
    fn disable_timeout(id: c_uint, keep_indicator: bool);
}

/// Any number from USER_TIMEOUT on asks for a free one: 12 before version 17, and 13 since.
const ANY_OF_OURS: c_uint = 13;

/// The SQLSTATE with which the server ends a process whose transaction takes longer than its `transaction_timeout` (which it arms itself).
pub const TRANSACTION_TIMEOUT: &str = "25P04";

/// What the server gave us; 0 = nothing yet.
static OURS: AtomicU32 = AtomicU32::new(0);
static FIRED: AtomicBool = AtomicBool::new(false);
/// The run has ended when the transaction that is open is about to be committed, and nothing of a user runs any more.
static ENDS_WITH_TRANSACTION: AtomicBool = AtomicBool::new(false);

unsafe extern "C-unwind" fn fire() {
    FIRED.store(true, SeqCst);
    interrupt();
}

/// Cancels the statement that runs, as a client's cancel does. For signal handlers.
///
/// # Safety
/// In a signal handler, or where an interrupt may be raised.
pub unsafe fn interrupt() {
    pg_sys::InterruptPending = 1;
    pg_sys::QueryCancelPending = 1;
    pg_sys::SetLatch(pg_sys::MyLatch);
}

/// Has the command that is about to run end at this time.
pub fn begin_run(ends_at: Option<Instant>) {
    FIRED.store(false, SeqCst);
    let Some(ends_at) = ends_at else { return };
    // SAFETY: registered once in this process, whose timeouts have been set up.
    unsafe {
        if OURS.load(SeqCst) == 0 {
            OURS.store(RegisterTimeout(ANY_OF_OURS, fire), SeqCst);
            pg_sys::RegisterXactCallback(Some(about_to_commit), std::ptr::null_mut());
        }
        enable_timeout_at(OURS.load(SeqCst), ends_at.as_micros());
    }
}

/// It ends with the transaction that is open: what was put off to its commit is part of the run, and what the commit then waits for is not.
pub fn end_run_with_transaction() {
    ENDS_WITH_TRANSACTION.store(true, SeqCst);
}

#[pg_guard]
unsafe extern "C-unwind" fn about_to_commit(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    let is_its_end = event == pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT && ENDS_WITH_TRANSACTION.load(SeqCst);
    if is_its_end {
        end_run();
        // One that fired just now would have a commit not wait for its standbys.
        pgrx::check_for_interrupts!();
    }
}

/// It has ended; whether its time was over.
pub fn end_run() -> bool {
    // SAFETY: a timeout of ours.
    unsafe {
        if OURS.load(SeqCst) != 0 {
            disable_timeout(OURS.load(SeqCst), false);
        }
    }
    ENDS_WITH_TRANSACTION.store(false, SeqCst);
    FIRED.load(SeqCst)
}

/// `statement_timeout` begins.
pub fn begin_statement() {
    // SAFETY: reads a global of the backend.
    let limit = unsafe { pg_sys::StatementTimeout };
    if limit > 0 {
        time_limit::begin(limit);
    }
}

/// The statement has ended.
pub fn end_statement() {
    time_limit::end();
}
