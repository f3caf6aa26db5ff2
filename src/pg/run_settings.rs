//! The settings of a job of kind `sql`: what its runs have set, as SET would take it.

use std::ffi::{CStr, CString};

use pgrx::{pg_sys, PgSqlErrorCode};
use serde_json::{Map, Value};

use crate::pg::catch::catch;
use crate::pg::error::{Failure, Outcome};
use crate::pg::jsonb::Jsonb;
use crate::pg::memory;
use crate::pg::parse::Strings;

const EXAMPLE: &str = "Pass an object of strings, numbers and booleans, for example '{\"work_mem\": \"1GB\"}'.";

/// The longest settings, in bytes of their text.
const MAX_BYTES: usize = 65_536;

/// What a byte of their text may become while it is read: a number of one digit is a whole value.
const BYTES_FOR_EACH: usize = 32;

/// Names and values, as texts; `22023` where it is no object of scalars, `54000` where it is too long.
pub fn read(settings: &Jsonb) -> Outcome<Vec<(String, String)>> {
    let size = settings.text_size();
    if size > MAX_BYTES {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("settings are too large: {size} bytes"),
            format!("Pass at most {MAX_BYTES} bytes of settings."),
        ));
    }
    memory::require(size * BYTES_FOR_EACH);
    let object: Map<String, Value> = serde_json::from_str(&settings.text())
        .map_err(|_| Failure::invalid("settings is not an object that can be read", EXAMPLE))?;
    let text = |(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        Value::Bool(on) => Ok((name, if on { "on" } else { "off" }.to_owned())),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(Failure::invalid(format!("setting \"{name}\" is not a string, number or boolean"), EXAMPLE))
        }
    };
    object.into_iter().map(text).collect()
}

/// How the strings of a command with these settings are read: as the standard has it, unless they say otherwise. What the session has says
/// nothing: the command was stored by one session and is run by another.
pub fn strings(settings: &[(String, String)]) -> Strings {
    use pg_sys::BackslashQuoteType::{BACKSLASH_QUOTE_OFF, BACKSLASH_QUOTE_ON, BACKSLASH_QUOTE_SAFE_ENCODING};
    let said = |setting: &str| {
        settings.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(setting)).map(|(_, value)| value.as_str())
    };
    let is_on = |value: &str| {
        let (mut on, value) = (true, CString::new(value).ok()?);
        // SAFETY: a C string; what it is no word for is left alone.
        unsafe { pg_sys::parse_bool(value.as_ptr(), &mut on) }.then_some(on)
    };
    Strings {
        standard: said("standard_conforming_strings").and_then(is_on).unwrap_or(Strings::STANDARD.standard),
        quote: match said("backslash_quote").and_then(is_on) {
            Some(true) => BACKSLASH_QUOTE_ON,
            Some(false) => BACKSLASH_QUOTE_OFF,
            None => BACKSLASH_QUOTE_SAFE_ENCODING,
        },
    }
}

/// Whether the current role may set them to these values: `42704`, `42501`, `22023`.
pub fn check(settings: &Jsonb) -> Outcome<()> {
    read(settings)?.iter().try_for_each(|(name, value)| check_one(name, value))
}

/// Who a run is, is no setting; nor is whether an error ends its process.
const OF_THE_RUN: [&str; 3] = ["role", "session_authorization", "exit_on_error"];

fn check_one(name: &str, value: &str) -> Outcome<()> {
    let refused = |message| {
        let hint = "Leave it out: a run is its job's owner, with the settings that this role may change at any time.";
        Failure::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, message, hint)
    };
    if OF_THE_RUN.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Err(refused(format!("setting \"{name}\" may not be given for a run")));
    }
    let unreadable =
        |_| Failure::invalid(format!("setting \"{}\" holds a null character", name.escape_debug()), EXAMPLE);
    let (name_text, value_text) = (CString::new(name).map_err(unreadable)?, CString::new(value).map_err(unreadable)?);
    // SAFETY: C strings; with changeVal false nothing is set. What SET asks is asked for the current role.
    let checked = catch(|| unsafe { set(&name_text, &value_text, pg_sys::GucAction::GUC_ACTION_SET, false) });
    checked.map_err(|failure| {
        let is_one_of = |codes: [PgSqlErrorCode; 2]| codes.contains(&failure.code);
        if is_one_of([PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, PgSqlErrorCode::ERRCODE_INVALID_NAME]) {
            let hint = "Look for its name in the view pg_settings.";
            return Failure::new(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, failure.message, hint);
        }
        if is_one_of([
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            PgSqlErrorCode::ERRCODE_CANT_CHANGE_RUNTIME_PARAM,
        ]) {
            return refused(failure.message);
        }
        Failure {
            code: PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            hint: format!("Pass a value that SET takes for \"{name}\". {}", failure.hint).trim_end().to_owned(),
            ..failure
        }
    })
}

/// Sets one to the end of the transaction, as SET LOCAL does.
pub fn apply_to_transaction(name: &CStr, value: &CStr) {
    // SAFETY: in a transaction.
    unsafe { set(name, value, pg_sys::GucAction::GUC_ACTION_LOCAL, true) }
}

/// Sets them as SET does, with the rights of the current role. Errors are the server's.
///
/// # Safety
/// In a transaction.
pub unsafe fn apply(settings: &[(String, String)]) {
    for (name, value) in settings {
        // (Neither has a null character: `check` has refused it.)
        let (Ok(name), Ok(value)) = (CString::new(name.as_str()), CString::new(value.as_str())) else { continue };
        set(&name, &value, pg_sys::GucAction::GUC_ACTION_SET, true);
    }
}

/// What SET asks and does, for the current role; without `change` it only asks.
///
/// # Safety
/// In a transaction. Postgres copies the texts.
unsafe fn set(name: &CStr, value: &CStr, action: pg_sys::GucAction::Type, change: bool) {
    use pg_sys::{GucContext::PGC_SUSET, GucContext::PGC_USERSET, GucSource::PGC_S_SESSION};
    let context = if pg_sys::superuser() { PGC_SUSET } else { PGC_USERSET };
    pg_sys::set_config_option(name.as_ptr(), value.as_ptr(), context, PGC_S_SESSION, action, change, 0, false);
}
