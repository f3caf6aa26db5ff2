//! `int4multirange`, as its text: pgrx has no type for it.

use std::ffi::{CStr, CString};

use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::nullable::Nullable;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{pg_sys, FromDatum, IntoDatum};

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

// SAFETY: as pgrx' own types that go through FromDatum.
unsafe impl<'fcx> ArgAbi<'fcx> for Multirange {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        match arg.unbox_arg_using_from_datum() {
            Some(value) => value,
            None => Multirange("{}".to_owned()),
        }
    }

    unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
        arg.unbox_arg_using_from_datum().into()
    }
}

// SAFETY: as pgrx' own types that go through IntoDatum.
unsafe impl BoxRet for Multirange {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        match self.into_datum() {
            Some(datum) => fcinfo.return_raw_datum(datum),
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: the SQL type is the one whose functions read and write it.
unsafe impl SqlTranslatable for Multirange {
    const TYPE_IDENT: &'static str = "scheduler::multirange::Multirange";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("int4multirange"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("int4multirange")));
}
