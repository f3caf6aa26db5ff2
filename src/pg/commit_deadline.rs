//! A transaction that must have committed by a time, or not at all.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use pgrx::{pg_guard, pg_sys, PgSqlErrorCode};
use scheduler_core::Instant;

use crate::pg::by_subtransaction::BySubtransaction;
use crate::pg::convert;
use crate::pg::error::{raise, Failure};

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    static DEADLINES: RefCell<BySubtransaction<i64>> = const { RefCell::new(BySubtransaction::new()) };
}

/// Has this transaction fail (`40001`) where it is not about to commit by then. It cannot be prepared (`0A000`).
pub fn commit_by(deadline: Instant) {
    if !REGISTERED.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), std::ptr::null_mut());
        }
    }
    DEADLINES.with_borrow_mut(|deadlines| deadlines.push(deadline.as_micros()));
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE};
    let forget = || DEADLINES.with_borrow_mut(BySubtransaction::take).for_each(drop);
    match (event, DEADLINES.with_borrow(|deadlines| deadlines.iter().copied().min())) {
        (XACT_EVENT_PRE_COMMIT, Some(deadline)) if convert::now().as_micros() > deadline => {
            forget();
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "the next plan time came too near before this transaction committed",
                "Try it again, and commit at once: whoever is to fire that plan time has to know before.",
            ));
        }
        (XACT_EVENT_PRE_PREPARE, Some(_)) => {
            forget();
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "a transaction that takes over or hands back schedules cannot be prepared",
                "Nobody knows when it would be committed. Use an ordinary transaction.",
            ));
        }
        (XACT_EVENT_PRE_COMMIT, _) => {}
        _ => forget(),
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ended(
    event: pg_sys::SubXactEvent::Type,
    mine: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    DEADLINES.with_borrow_mut(|deadlines| deadlines.subtransaction_ended(event, mine, parent));
}
