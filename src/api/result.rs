//! What a function gives back that RETURNS TABLE.

use pgrx::callconv::{CallCx, RetAbi};
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{pg_sys, IntoHeapTuple, PgMemoryContexts, PgSqlErrorCode};

use crate::pg::error::{raise, Failure};

/// Rows of a table, all of them given to the server at once ("materialize mode").
///
/// pgrx' own type, whose name and description for SQL this one has, gives one row in each call of the function, and works out the
/// table's columns anew each time that somebody asks for rows: for a function that gives one row, longer than the row takes.
pub struct TableIterator<'a, Row>(Box<dyn Iterator<Item = Row> + 'a>);

impl<'a, Row: 'a> TableIterator<'a, Row> {
    /// These rows.
    pub fn new(rows: impl IntoIterator<Item = Row> + 'a) -> TableIterator<'a, Row> {
        TableIterator(Box::new(rows.into_iter()))
    }

    /// One row.
    pub fn once(row: Row) -> TableIterator<'a, Row> {
        TableIterator::new(std::iter::once(row))
    }
}

// SAFETY: in SQL it is the same.
unsafe impl<'a, Row> SqlTranslatable for TableIterator<'a, Row>
where
    pgrx::iter::TableIterator<'a, Row>: SqlTranslatable,
{
    const TYPE_IDENT: &'static str = <pgrx::iter::TableIterator<'a, Row>>::TYPE_IDENT;
    const TYPE_ORIGIN: TypeOrigin = <pgrx::iter::TableIterator<'a, Row>>::TYPE_ORIGIN;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = <pgrx::iter::TableIterator<'a, Row>>::ARGUMENT_SQL;
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = <pgrx::iter::TableIterator<'a, Row>>::RETURN_SQL;
}

// SAFETY: one call gives everything, as the executor allows every function that returns a set.
unsafe impl<Row: IntoHeapTuple> RetAbi for TableIterator<'_, Row> {
    type Item = Row;
    type Ret = Self;

    unsafe fn check_fcinfo_and_prepare(_fcinfo: pg_sys::FunctionCallInfo) -> CallCx {
        CallCx::WrappedFn(pg_sys::CurrentMemoryContext)
    }

    fn to_ret(self) -> Self {
        self
    }

    unsafe fn box_ret_in_fcinfo(fcinfo: pg_sys::FunctionCallInfo, rows: Self) -> pg_sys::Datum {
        let call = (*fcinfo).resultinfo.cast::<pg_sys::ReturnSetInfo>();
        let takes_all = !call.is_null()
            && (*call).type_ == pg_sys::NodeTag::T_ReturnSetInfo
            && (*call).allowedModes as u32 & pg_sys::SetFunctionReturnMode::SFRM_Materialize != 0
            && !(*call).expectedDesc.is_null();
        if !takes_all {
            raise(Failure::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "a function that returns a table was called where no table can be",
                "Call it in FROM.",
            ));
        }
        // As long as the query, and longer than this call.
        let mut query = PgMemoryContexts::For((*(*call).econtext).ecxt_per_query_memory);
        let random = (*call).allowedModes as u32 & pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random != 0;
        let store = query.switch_to(|_| pg_sys::tuplestore_begin_heap(random, false, pg_sys::work_mem));
        for row in rows.0 {
            let row = row.into_heap_tuple((*call).expectedDesc);
            pg_sys::tuplestore_puttuple(store, row);
            pg_sys::heap_freetuple(row);
        }
        (*call).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
        (*call).setResult = store;
        (*fcinfo).isnull = true;
        pg_sys::Datum::null()
    }

    unsafe fn move_into_fcinfo_fcx(self, _fcinfo: pg_sys::FunctionCallInfo) {}

    unsafe fn fill_fcinfo_fcx(&self, _fcinfo: pg_sys::FunctionCallInfo) {}
}
