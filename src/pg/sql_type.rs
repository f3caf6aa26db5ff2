//! What pgrx asks of a type of ours that stands for one of PostgreSQL's in the signature of a function.

/// What SQL calls it.
macro_rules! named_type {
    ($type:ident, $sql:literal) => {
        const _: () = {
            use pgrx::pgrx_sql_entity_graph::metadata::{
                ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
            };

            // SAFETY: the SQL type is the one that its datums are of.
            unsafe impl SqlTranslatable for $type {
                const TYPE_IDENT: &'static str = concat!("scheduler::", stringify!($type));
                const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
                const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal($sql));
                const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal($sql)));
            }
        };
    };
}

/// An argument: goes through `FromDatum`; `$none` is what a NULL is where no `Option` takes it, which SQL does not let happen.
macro_rules! argument_type {
    ($type:ident, $sql:literal, $none:expr) => {
        const _: () = {
            use pgrx::callconv::{Arg, ArgAbi};
            use pgrx::nullable::Nullable;

            // SAFETY: as pgrx' own types that go through FromDatum.
            unsafe impl<'fcx> ArgAbi<'fcx> for $type {
                unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
                    match arg.unbox_arg_using_from_datum() {
                        Some(value) => value,
                        None => $none,
                    }
                }

                unsafe fn unbox_nullable_arg(arg: Arg<'_, 'fcx>) -> Nullable<Self> {
                    arg.unbox_arg_using_from_datum().into()
                }
            }
        };
        $crate::pg::sql_type::named_type!($type, $sql);
    };
}

/// A result: goes through `IntoDatum`.
macro_rules! result_type {
    ($type:ident) => {
        // SAFETY: as pgrx' own types that go through IntoDatum.
        unsafe impl pgrx::callconv::BoxRet for $type {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut pgrx::callconv::FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
                match self.into_datum() {
                    Some(datum) => fcinfo.return_raw_datum(datum),
                    None => fcinfo.return_null(),
                }
            }
        }
    };
}

/// An element of an array: goes through `FromDatum`.
macro_rules! element_type {
    ($type:ident, $none:expr) => {
        // SAFETY: what goes through FromDatum, and is not NULL.
        unsafe impl pgrx::datum::UnboxDatum for $type {
            type As<'src> = $type;

            unsafe fn unbox<'src>(datum: pgrx::datum::Datum<'src>) -> $type
            where
                Self: 'src,
            {
                let datum = std::mem::transmute::<pgrx::datum::Datum<'src>, pg_sys::Datum>(datum);
                $type::from_polymorphic_datum(datum, false, pg_sys::InvalidOid).unwrap_or_else(|| $none)
            }
        }
    };
}

/// An argument of any type that nobody reads, so that nothing of it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Ignored;

impl pgrx::FromDatum for Ignored {
    unsafe fn from_polymorphic_datum(_: pgrx::pg_sys::Datum, is_null: bool, _: pgrx::pg_sys::Oid) -> Option<Ignored> {
        (!is_null).then_some(Ignored)
    }
}

argument_type!(Ignored, "text", Ignored);

pub(crate) use {argument_type, element_type, named_type, result_type};
