//! NOTIFY without a statement.

use pgrx::{pg_sys, IntoDatum};

use crate::store::Owner;

/// Has `LISTEN "sched:<queue>"` hear, once for the transaction, that something became claimable.
pub fn queue(_owner: &Owner, queue: &str) {
    let arguments = [format!("sched:{queue}").into_datum(), "".into_datum()];
    // SAFETY: the types that this function of Postgres takes, and none is NULL.
    unsafe { pgrx::direct_function_call_as_datum(pg_sys::pg_notify, &arguments) };
}
