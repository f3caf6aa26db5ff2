//! What pgrx asks of a type of ours that stands for one of PostgreSQL's in the signature of a function.

/// An argument: goes through `FromDatum`; `$none` is what a NULL is where no `Option` takes it, which SQL does not let happen.
macro_rules! argument_type {
    ($type:ident, $sql:literal, $none:expr) => {
        // SAFETY: as pgrx' own types that go through FromDatum.
        unsafe impl<'fcx> pgrx::callconv::ArgAbi<'fcx> for $type {
            unsafe fn unbox_arg_unchecked(arg: pgrx::callconv::Arg<'_, 'fcx>) -> Self {
                match arg.unbox_arg_using_from_datum() {
                    Some(value) => value,
                    None => $none,
                }
            }

            unsafe fn unbox_nullable_arg(arg: pgrx::callconv::Arg<'_, 'fcx>) -> pgrx::nullable::Nullable<Self> {
                arg.unbox_arg_using_from_datum().into()
            }
        }

        // SAFETY: the SQL type is the one that FromDatum reads.
        unsafe impl pgrx::pgrx_sql_entity_graph::metadata::SqlTranslatable for $type {
            const TYPE_IDENT: &'static str = concat!("scheduler::", stringify!($type));
            const TYPE_ORIGIN: pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin =
                pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin::External;
            const ARGUMENT_SQL: Result<
                pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef,
                pgrx::pgrx_sql_entity_graph::metadata::ArgumentError,
            > = Ok(pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal($sql));
            const RETURN_SQL: Result<
                pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef,
                pgrx::pgrx_sql_entity_graph::metadata::ReturnsError,
            > = Ok(pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef::One(
                pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal($sql),
            ));
        }
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

pub(crate) use {argument_type, element_type, result_type};
