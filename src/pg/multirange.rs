//! `int4multirange`, as its text: pgrx has no type for it.

use std::ffi::{CStr, CString};

use pgrx::{pg_sys, FromDatum, IntoDatum};

use crate::pg::sql_type::{argument_type, result_type};

/// Several ranges of integers, as SQL writes them: `{[0,256),[512,1024)}`.
#[derive(Clone, Debug)]
pub struct Multirange(pub String);

impl FromDatum for Multirange {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Multirange> {
        if is_null {
            return None;
        }
        let (mut output, mut is_varlena) = (pg_sys::InvalidOid, false);
        pg_sys::getTypeOutputInfo(pg_sys::INT4MULTIRANGEOID, &raw mut output, &raw mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(output, datum);
        Some(Multirange(CStr::from_ptr(text).to_string_lossy().into_owned()))
    }
}

impl IntoDatum for Multirange {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        let text = CString::new(self.0).ok()?;
        // SAFETY: the type's own input function, of a C string; Postgres raises where it is none.
        unsafe {
            let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            pg_sys::getTypeInputInfo(pg_sys::INT4MULTIRANGEOID, &raw mut input, &raw mut parameter);
            Some(pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), parameter, -1))
        }
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::INT4MULTIRANGEOID
    }
}

argument_type!(Multirange, "int4multirange", Multirange("{}".to_owned()));
result_type!(Multirange);
