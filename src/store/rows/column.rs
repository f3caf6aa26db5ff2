//! The columns of the tables that `rows.rs` writes, by number. `pgrx-tests/rows.rs` compares them with the catalog; a table that differs
//! is left to the statements.

use pgrx::pg_sys::{
    BOOLOID, INT4OID, INT8OID, INTERVALARRAYOID, INTERVALOID, JSONBOID, REGROLEOID, TEXTOID, TIMESTAMPTZOID, UUIDOID,
};

use super::Layout;

macro_rules! layout {
    ($table:ident, $name:ident = $text:literal { $($column:ident: $type:ident,)* }) => {
        /// The table.
        pub const $table: Layout = Layout { name: $text, columns: &[$($type),*], names: &[$(stringify!($column)),*] };
        /// Its columns.
        pub mod $name {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Place { $($column),* }
            // A layout names every column, also those that nothing here reads.
            $(#[allow(dead_code, missing_docs)] pub const $column: usize = Place::$column as usize + 1;)*
        }
    };
}

layout!(LEDGER, ledger = c"ledger" {
    ID: UUIDOID, KEY: UUIDOID, JOB_NAME: TEXTOID, SCOPE_KIND: TEXTOID, SCOPE_ID: TEXTOID, PLAN_TIME: TIMESTAMPTZOID,
    QUEUE: TEXTOID, PRIORITY: INT4OID, PAYLOAD: JSONBOID, STATUS: TEXTOID, ATTEMPT: INT4OID, MAX_ATTEMPTS: INT4OID,
    ALLOW_STALE_REENTRY: BOOLOID, AWAITED: BOOLOID, ORIGIN: TEXTOID, OWNER: REGROLEOID, SCHEDULE_ID: INT8OID,
    SCHEDULE_NAME: TEXTOID, CREATED_AT: TIMESTAMPTZOID, UPDATED_AT: TIMESTAMPTZOID, STARTED_AT: TIMESTAMPTZOID,
    HEARTBEAT_AT: TIMESTAMPTZOID, FINISHED_AT: TIMESTAMPTZOID, NEXT_RETRY_AT: TIMESTAMPTZOID, FENCE: INT8OID,
    LEASE_TOKEN: UUIDOID, RUNNER_ID: TEXTOID, ROWS_AFFECTED: INT8OID, ERROR_CODE: TEXTOID, ERROR_MSG: TEXTOID,
    RESULT: JSONBOID, PROGRESS: JSONBOID,
});

layout!(LEASE, lease = c"lease" {
    EXECUTION_ID: UUIDOID, LEASE_TOKEN: UUIDOID, FENCE: INT8OID, ATTEMPT: INT4OID, OWNER: REGROLEOID,
    STARTED_AT: TIMESTAMPTZOID, HEARTBEAT_AT: TIMESTAMPTZOID, STALE_AFTER: TIMESTAMPTZOID, SWEEP_AT: TIMESTAMPTZOID,
    STALE_TIMEOUT: INTERVALOID, RUNNER_ID: TEXTOID, PROGRESS: JSONBOID, CANCEL_REQUESTED: BOOLOID,
});

layout!(READY, ready = c"ready" {
    QUEUE: TEXTOID, PRIORITY: INT4OID, PLAN_TIME: TIMESTAMPTZOID, EXECUTION_ID: UUIDOID, OWNER: REGROLEOID,
});

layout!(RETRY, retry = c"retry" {
    RETRY_AT: TIMESTAMPTZOID, EXECUTION_ID: UUIDOID, QUEUE: TEXTOID, PRIORITY: INT4OID, PLAN_TIME: TIMESTAMPTZOID,
    OWNER: REGROLEOID,
});

layout!(JOB, job = c"job" {
    JOB_NAME: TEXTOID, KIND: TEXTOID, COMMAND: TEXTOID, QUEUE: TEXTOID, MAX_ATTEMPTS: INT4OID,
    RETRY_BACKOFF: INTERVALARRAYOID, RUN_TIMEOUT: INTERVALOID, STALE_TIMEOUT: INTERVALOID, ALLOW_STALE_REENTRY: BOOLOID,
    PRIORITY: INT4OID, OWNER: REGROLEOID, CREATED_AT: TIMESTAMPTZOID, UPDATED_AT: TIMESTAMPTZOID,
});
