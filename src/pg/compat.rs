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

/// A column of a row type. Version 18 keeps most of it apart.
///
/// # Safety
/// A tuple description with more than `index` columns.
pub unsafe fn attribute(description: pg_sys::TupleDesc, index: usize) -> *const pg_sys::FormData_pg_attribute {
    #[cfg(not(feature = "pg18"))]
    return (*description).attrs.as_ptr().add(index);
    #[cfg(feature = "pg18")]
    return pg_sys::TupleDescAttr(description, index as i32);
}

/// Whether this transaction made the relation, or a new file for it: what it sees there goes if it is rolled back. Version 16 renamed the field.
///
/// # Safety
/// An open relation.
pub unsafe fn is_new_here(relation: pg_sys::Relation) -> bool {
    #[cfg(feature = "pg15")]
    let file_since = (*relation).rd_firstRelfilenodeSubid;
    #[cfg(not(feature = "pg15"))]
    let file_since = (*relation).rd_firstRelfilelocatorSubid;
    // 0 is no subtransaction.
    (*relation).rd_createSubid != 0 || file_since != 0
}

/// Whether a column is computed from others. Version 18 has virtual ones.
///
/// # Safety
/// A table's tuple description.
pub unsafe fn has_generated_columns(description: pg_sys::TupleDesc) -> bool {
    let constraints = (*description).constr;
    #[cfg(not(feature = "pg18"))]
    return !constraints.is_null() && (*constraints).has_generated_stored;
    #[cfg(feature = "pg18")]
    return !constraints.is_null() && ((*constraints).has_generated_stored || (*constraints).has_generated_virtual);
}

/// What an update says of the indexes. Version 16 knows those that summarize pages.
#[cfg(feature = "pg15")]
pub const NO_INDEXES: bool = false;
/// What an update says of the indexes. Version 16 knows those that summarize pages.
#[cfg(not(feature = "pg15"))]
pub const NO_INDEXES: pg_sys::TU_UpdateIndexes::Type = pg_sys::TU_UpdateIndexes::TU_None;

/// Which index entries a changed row needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// None: no index covers what changed.
    None,
    /// Those of indexes that summarize pages.
    #[cfg_attr(feature = "pg15", allow(dead_code))]
    Summarizing,
    /// Each index's.
    All,
}

impl Entries {
    /// What an update said.
    #[cfg(feature = "pg15")]
    pub fn of(indexes: bool) -> Entries {
        if indexes {
            Entries::All
        } else {
            Entries::None
        }
    }

    /// What an update said.
    #[cfg(not(feature = "pg15"))]
    pub fn of(indexes: pg_sys::TU_UpdateIndexes::Type) -> Entries {
        match indexes {
            pg_sys::TU_UpdateIndexes::TU_None => Entries::None,
            pg_sys::TU_UpdateIndexes::TU_Summarizing => Entries::Summarizing,
            _ => Entries::All,
        }
    }
}

/// Makes the index entries of a row.
///
/// # Safety
/// As for `ExecInsertIndexTuples`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn insert_index_tuples(
    info: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
    update: bool,
    without_waiting: bool,
    conflict: &mut bool,
    arbiters: *mut pg_sys::List,
    entries: Entries,
) {
    #[cfg(feature = "pg15")]
    {
        let _ = entries;
        pg_sys::ExecInsertIndexTuples(info, slot, estate, update, without_waiting, conflict, arbiters);
    }
    #[cfg(not(feature = "pg15"))]
    {
        let only_summarizing = entries == Entries::Summarizing;
        pg_sys::ExecInsertIndexTuples(
            info,
            slot,
            estate,
            update,
            without_waiting,
            conflict,
            arbiters,
            only_summarizing,
        );
    }
}

/// Whether the user owns this database or extension, directly, as a member of its owner or as a superuser. Version 16 has one
/// function for most objects.
///
/// # Safety
/// Inside a transaction.
pub unsafe fn owns(class: Oid, object: Oid) -> bool {
    let user = pg_sys::GetUserId();
    #[cfg(feature = "pg15")]
    return if class == pg_sys::DatabaseRelationId {
        pg_sys::pg_database_ownercheck(object, user)
    } else {
        pg_sys::pg_extension_ownercheck(object, user)
    };
    #[cfg(not(feature = "pg15"))]
    return pg_sys::object_ownercheck(class, object, user);
}

/// Whether a role may become another (SET ROLE). Since version 16 a grant says so, before every member could.
pub fn may_become(member: Oid, role: Oid) -> bool {
    // SAFETY: syscache look-ups inside a transaction.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::is_member_of_role(member, role);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::member_can_set_role(member, role);
    }
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

/// Whether a role may use a schema. Version 16 has one function for most objects.
pub fn may_use_schema(role: Oid, schema: Oid) -> bool {
    let usage = pg_sys::ACL_USAGE as pg_sys::AclMode;
    // SAFETY: syscache look-ups inside a transaction.
    let result = unsafe {
        #[cfg(feature = "pg15")]
        {
            pg_sys::pg_namespace_aclcheck(schema, role, usage)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::object_aclcheck(pg_sys::NamespaceRelationId, schema, role, usage)
        }
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether this process holds a lock on a relation, of whatever strength. Version 17 has one function for that.
pub fn is_locked_by_me(relation: Oid) -> bool {
    // SAFETY: looks into the locks of this process.
    unsafe {
        let tag = pg_sys::LOCKTAG {
            locktag_field1: pg_sys::MyDatabaseId.to_u32(),
            locktag_field2: relation.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        };
        let weakest = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return pg_sys::LockOrStrongerHeldByMe(&tag, weakest);
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::LockHeldByMe(&tag, weakest, true);
    }
}

/// Runs a portal to its end. Version 18 took away an argument.
///
/// # Safety
/// As for `PortalRun`.
pub unsafe fn run_portal(
    portal: pg_sys::Portal,
    top_level: bool,
    rows: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    let all = std::ffi::c_long::MAX;
    #[cfg(not(feature = "pg18"))]
    pg_sys::PortalRun(portal, all, top_level, true, rows, rows, completion);
    #[cfg(feature = "pg18")]
    pg_sys::PortalRun(portal, all, top_level, rows, rows, completion);
}

/// Has `transaction_timeout` say nothing of the transaction that is open. It is a setting since version 17, and the server itself arms it.
///
/// # Safety
/// The process' only thread, in a transaction.
pub unsafe fn forget_transaction_timeout() {
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    {
        // The server's timeout.h, which pgrx does not bind.
        unsafe extern "C-unwind" {
            fn disable_timeout(id: std::ffi::c_uint, keep_indicator: bool);
        }
        const TRANSACTION_TIMEOUT: std::ffi::c_uint = 8;
        if pg_sys::TransactionTimeout > 0 {
            disable_timeout(TRANSACTION_TIMEOUT, false);
            pg_sys::TransactionTimeoutPending = 0;
        }
    }
}

/// Settings that only some versions have, to be pinned as `worker::pin_settings` does the others.
pub const PINNED_SETTINGS: &[(&std::ffi::CStr, &std::ffi::CStr)] = &[
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    (c"transaction_timeout", c"0"),
];

/// The process ids of all background workers of the server that are connected. Version 16 renamed the function.
pub fn background_workers() -> Vec<i32> {
    // SAFETY: a copy that this process makes of what all of them say, and throws away.
    unsafe {
        pg_sys::pgstat_clear_backend_activity_snapshot();
        let entry = |number| {
            #[cfg(feature = "pg15")]
            return pg_sys::pgstat_fetch_stat_local_beentry(number);
            #[cfg(not(feature = "pg15"))]
            return pg_sys::pgstat_get_local_beentry_by_index(number);
        };
        let workers = (1..=pg_sys::pgstat_fetch_stat_numbackends())
            .map(entry)
            .filter(|entry| {
                !entry.is_null() && (**entry).backendStatus.st_backendType == pg_sys::BackendType::B_BG_WORKER
            })
            .map(|entry| (*entry).backendStatus.st_procpid)
            .collect();
        pg_sys::pgstat_clear_backend_activity_snapshot();
        workers
    }
}
