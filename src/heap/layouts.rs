//! The columns of the tables that the fast path goes to, by number and name. `pgrx-tests/in_server/rows.rs` compares them with the
//! catalog; a table that differs is left to the statements.

use pgrx::pg_sys::{
    Datum, BOOLOID, INT4OID, INT8OID, INTERVALARRAYOID, INTERVALOID, JSONBOID, OIDOID, REGROLEOID, TEXTOID,
    TIMESTAMPTZOID, UUIDARRAYOID, UUIDOID,
};

use crate::heap::relation::Layout;
use crate::pg::record::Column;

/// A row with these values; the other columns are NULL.
pub fn row<const COLUMNS: usize>(
    values: impl IntoIterator<Item = (Column, Option<Datum>)>,
) -> [Option<Datum>; COLUMNS] {
    let mut row = [None; COLUMNS];
    for (column, value) in values {
        row[column.index()] = value;
    }
    row
}

const fn lower<const LENGTH: usize>(text: &[u8]) -> [u8; LENGTH] {
    let (mut lower, mut index) = ([0; LENGTH], 0);
    while index < LENGTH {
        lower[index] = text[index].to_ascii_lowercase();
        index += 1;
    }
    lower
}

/// A column's name as the catalog has it.
macro_rules! name_of {
    ($column:ident) => {{
        const NAME: [u8; stringify!($column).len()] = super::lower(stringify!($column).as_bytes());
        match std::str::from_utf8(&NAME) {
            Ok(name) => name,
            Err(_) => stringify!($column),
        }
    }};
}

macro_rules! layout {
    ($table:ident, $name:ident = $text:literal { $($column:ident: $type:ident,)* }) => {
        /// The table.
        pub const $table: Layout = Layout { name: $text, columns: &[$($type),*], names: &[$($name::$column.name),*] };
        /// Its columns.
        pub mod $name {
            use crate::pg::record::Column;

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Number { $($column),* }
            // A layout names every column, also those that nothing here reads.
            $(#[allow(dead_code, missing_docs)] pub const $column: Column =
                Column { number: Number::$column as usize + 1, name: name_of!($column) };)*
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
    RESULT: JSONBOID, PROGRESS: JSONBOID, RUN_AT: TIMESTAMPTZOID,
});

layout!(LEASE, lease = c"lease" {
    EXECUTION_ID: UUIDOID, LEASE_TOKEN: UUIDOID, FENCE: INT8OID, ATTEMPT: INT4OID, OWNER: REGROLEOID,
    STARTED_AT: TIMESTAMPTZOID, HEARTBEAT_AT: TIMESTAMPTZOID, STALE_AFTER: TIMESTAMPTZOID, SWEEP_AT: TIMESTAMPTZOID,
    STALE_TIMEOUT: INTERVALOID, RUNNER_ID: TEXTOID, PROGRESS: JSONBOID, CANCEL_REQUESTED: BOOLOID,
    OWN_TRANSACTIONS: BOOLOID, RUN_UNTIL: TIMESTAMPTZOID,
});

layout!(READY, ready = c"ready" {
    QUEUE: TEXTOID, PRIORITY: INT4OID, PLAN_TIME: TIMESTAMPTZOID, EXECUTION_ID: UUIDOID, OWNER: REGROLEOID,
});

layout!(RETRY, retry = c"retry" {
    RETRY_AT: TIMESTAMPTZOID, EXECUTION_ID: UUIDOID, QUEUE: TEXTOID, PRIORITY: INT4OID, PLAN_TIME: TIMESTAMPTZOID,
    OWNER: REGROLEOID,
});

layout!(HOME, home = c"home" { SYSTEM_IDENTIFIER: INT8OID, DATABASE: OIDOID, SINCE: TIMESTAMPTZOID, });

layout!(JOB, job = c"job" {
    JOB_NAME: TEXTOID, KIND: TEXTOID, COMMAND: TEXTOID, QUEUE: TEXTOID, MAX_ATTEMPTS: INT4OID,
    RETRY_BACKOFF: INTERVALARRAYOID, RUN_TIMEOUT: INTERVALOID, STALE_TIMEOUT: INTERVALOID, ALLOW_STALE_REENTRY: BOOLOID,
    PRIORITY: INT4OID, OWNER: REGROLEOID, CREATED_AT: TIMESTAMPTZOID, UPDATED_AT: TIMESTAMPTZOID, OWN_TRANSACTIONS: BOOLOID,
    SETTINGS: JSONBOID, READY_QUEUE: TEXTOID, SQL_PAIR: BOOLOID,
});

layout!(SCHEDULE, schedule = c"schedule" {
    SCHEDULE_ID: INT8OID, SCHEDULE_NAME: TEXTOID, CLOCK: TEXTOID, TIME_ZONE: TEXTOID, JOB_NAME: TEXTOID, PAYLOAD: JSONBOID,
    SCOPE_KIND: TEXTOID, SCOPE_ID: TEXTOID, CATCH_UP: TEXTOID, CATCH_UP_WINDOW: INTERVALOID, MAX_PLANS_PER_TICK: INT4OID,
    REARM: TEXTOID, OVERLAP: TEXTOID, DELAY: INTERVALOID, JITTER: INTERVALOID, STARTS_AT: TIMESTAMPTZOID,
    ENDS_AT: TIMESTAMPTZOID, OWNERSHIP: TEXTOID, ENABLED: BOOLOID, VERSION: INT8OID, CREATED_AT: TIMESTAMPTZOID,
    BASELINE_AT: TIMESTAMPTZOID, UPDATED_AT: TIMESTAMPTZOID, KEY: UUIDOID, DEFINED_AT: TIMESTAMPTZOID,
    PREVIOUS_KEYS: UUIDARRAYOID, MAX_LATENESS: INTERVALOID, MAX_DURATION: INTERVALOID, EXPECT_SUCCESS_WITHIN: INTERVALOID,
    ALERT_JOB: TEXTOID, SQL_PAIR: TEXTOID, GROUP_NAME: TEXTOID, DEFAULT_SCOPE_ID: TEXTOID,
});

layout!(TIMER, timer = c"timer" {
    SCHEDULE_ID: INT8OID, VERSION: INT8OID, NEXT_PLAN_TIME: TIMESTAMPTZOID, FIRE_AT: TIMESTAMPTZOID, WAITING: BOOLOID,
    BUFFERED_PLAN: TIMESTAMPTZOID, CURSOR_AT: TIMESTAMPTZOID, BACKLOG_UNTIL: TIMESTAMPTZOID,
    LAST_PLAN_TIME: TIMESTAMPTZOID, LAST_FIRED_AT: TIMESTAMPTZOID, ERROR_COUNT: INT4OID, LAST_ERROR: TEXTOID,
    PARKED: BOOLOID, TRACKS_RUNS: BOOLOID, OWNER: OIDOID,
});

layout!(SCHEDULE_CHANGE, schedule_change = c"schedule_change" {
    CHANGE_ID: INT8OID, SCHEDULE_ID: INT8OID, TERMINAL_AT: TIMESTAMPTZOID, FAILURES: INT4OID, RETRY_AT: TIMESTAMPTZOID,
});

layout!(AWAITED, awaited = c"awaited" { SCHEDULE_ID: INT8OID, EXECUTION_ID: UUIDOID, });
