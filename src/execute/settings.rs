//! The settings of a run, and what is left of them and of everything else when it is over.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use pgrx::pg_sys;
use serde_json::{Map, Value};

use crate::pg::error::{Failure, Outcome};

/// The settings of a job, from an object of scalars: names and values.
pub fn parse(settings: &str) -> Outcome<Vec<(CString, CString)>> {
    let unreadable = || Failure::invalid("the settings of the job are no object of scalars", "Define the job again.");
    let entries: Map<String, Value> = serde_json::from_str(settings).map_err(|_| unreadable())?;
    let pair = |(name, value): (String, Value)| {
        let value = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(switch) => switch.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return Err(unreadable()),
        };
        let texts = (CString::new(name), CString::new(value));
        if let (Ok(name), Ok(value)) = texts {
            Ok((name, value))
        } else {
            Err(unreadable())
        }
    };
    entries.into_iter().map(pair).collect()
}

/// Sets one as SET does, with the rights of the current user. Errors are the server's.
///
/// # Safety
/// In a transaction.
pub unsafe fn apply(name: &CStr, value: &CStr) {
    use pg_sys::GucAction::GUC_ACTION_SET;
    use pg_sys::GucSource::PGC_S_SESSION;
    let context = if pg_sys::superuser() { pg_sys::GucContext::PGC_SUSET } else { pg_sys::GucContext::PGC_USERSET };
    pg_sys::set_config_option(name.as_ptr(), value.as_ptr(), context, PGC_S_SESSION, GUC_ACTION_SET, true, 0, false);
}

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
