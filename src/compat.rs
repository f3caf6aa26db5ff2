//! What differs between the PostgreSQL versions, so that no other file asks which one this is.
//! (`pg_sys` has one name and one set of arguments for most of what changed; this is the rest.)

use pgrx::pg_sys::{self, Oid};

/// Installs a signal handler that runs as in any backend. Version 18 made `pqsignal` a macro.
///
/// # Safety
/// The handler has to do only what a signal handler may.
pub unsafe fn handle_signal(signal: u32, handler: unsafe extern "C-unwind" fn(i32)) {
    #[cfg(not(feature = "pg18"))]
    pg_sys::pqsignal(signal as i32, Some(handler));
    #[cfg(feature = "pg18")]
    pg_sys::pqsignal_be(signal as i32, Some(handler));
}

/// Begins the scan of an index. Version 18 can instrument it.
///
/// # Safety
/// As for `index_beginscan`.
pub unsafe fn begin_index_scan(
    table: pg_sys::Relation,
    index: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    keys: i32,
) -> pg_sys::IndexScanDesc {
    #[cfg(not(feature = "pg18"))]
    return pg_sys::index_beginscan(table, index, snapshot, keys, 0);
    #[cfg(feature = "pg18")]
    return pg_sys::index_beginscan(table, index, snapshot, std::ptr::null_mut(), keys, 0);
}

/// Whether a background worker can connect as a role that may not log in: since version 17.
pub const WORKERS_NEED_LOGIN: bool = cfg!(any(feature = "pg15", feature = "pg16"));

/// Connects a background worker, whether or not the role may log in where the server lets us choose.
///
/// # Safety
/// Once, in a background worker.
pub unsafe fn connect(database: Oid, role: Oid) {
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    let flags = 0;
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    let flags = pg_sys::BGWORKER_BYPASS_ROLELOGINCHECK;
    pg_sys::BackgroundWorkerInitializeConnectionByOid(database, role, flags);
}

/// Whether a role may connect to a database. Version 16 has one function for most objects.
pub fn may_connect(role: Oid, database: Oid) -> bool {
    let connect = pg_sys::ACL_CONNECT as pg_sys::AclMode;
    // SAFETY: syscache look-ups inside a transaction, which the launcher can do too: both catalogs are shared.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_database_aclcheck(database, role, connect)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_aclcheck(pg_sys::DatabaseRelationId, database, role, connect)
        }
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Settings that only some versions have, to be pinned as `worker::pin_settings` does the others.
pub const PINNED_SETTINGS: &[(&std::ffi::CStr, &std::ffi::CStr)] = &[
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    (c"transaction_timeout", c"0"),
];
