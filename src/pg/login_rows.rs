//! What the server reads of a role and a database when a session logs in: whether the role is a superuser, its settings, the libraries to load.
//! A process that serves one session after the other has all of it from its own login, and asks here whether any of it has changed.

use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};

use crate::pg::relation_lock::try_share_with_indexes;

/// pg_db_role_setting, its primary key and the two columns of that, which pgrx does not bind.
const SETTINGS: u32 = 2964;
const SETTINGS_KEY: u32 = 2965;
const SETTINGS_DATABASE: i16 = 1;
const SETTINGS_ROLE: i16 = 2;

/// The transactions that wrote the rows which a login reads, 0 where there is no such row: those of the role, of the database, and of the
/// settings of role and database, role, database, and everybody. Each change of a row has another, whatever it changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginRows(pub [u32; 6]);

impl LoginRows {
    /// What nobody could read.
    pub const UNKNOWN: LoginRows = LoginRows([0; 6]);

    /// The same where nobody locks one of the catalogs, else unknown: who has others' work to do does not wait for them.
    pub fn try_read(database: Oid, role: Oid) -> LoginRows {
        let catalogs = [pg_sys::AuthIdRelationId, pg_sys::DatabaseRelationId, Oid::from(SETTINGS)];
        if catalogs.into_iter().all(try_share_with_indexes) {
            LoginRows::read(database, role)
        } else {
            LoginRows::UNKNOWN
        }
    }

    /// As of this moment, also where the transaction or the caches know of less. In a transaction.
    pub fn read(database: Oid, role: Oid) -> LoginRows {
        let nobody = Oid::INVALID;
        // SAFETY: in a transaction; the snapshot is registered as long as it is used. Catalogs, their indexes, and the columns of those.
        unsafe {
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            let of_role = written_by(
                pg_sys::AuthIdRelationId,
                pg_sys::AuthIdOidIndexId,
                &[(pg_sys::Anum_pg_authid_oid as i16, role)],
                snapshot,
            );
            let of_database = written_by(
                pg_sys::DatabaseRelationId,
                pg_sys::DatabaseOidIndexId,
                &[(pg_sys::Anum_pg_database_oid as i16, database)],
                snapshot,
            );
            let settings =
                [(database, role), (nobody, role), (database, nobody), (nobody, nobody)].map(|(database, role)| {
                    let key = [(SETTINGS_DATABASE, database), (SETTINGS_ROLE, role)];
                    written_by(Oid::from(SETTINGS), SETTINGS_KEY, &key, snapshot)
                });
            pg_sys::UnregisterSnapshot(snapshot);
            let [own, of_each_database, of_each_role, of_all] = settings;
            LoginRows([of_role, of_database, own, of_each_database, of_each_role, of_all])
        }
    }
}

/// Which transaction wrote the row with this key, 0 where there is none.
///
/// # Safety
/// In a transaction: a catalog, a unique index of it, its columns, which are oids, and a registered snapshot.
unsafe fn written_by(catalog: Oid, index: u32, key: &[(i16, Oid)], snapshot: pg_sys::Snapshot) -> u32 {
    let lock = pg_sys::AccessShareLock as i32;
    let mut keys: Vec<pg_sys::ScanKeyData> = key.iter().map(|_| pg_sys::ScanKeyData::default()).collect();
    for (entry, (column, oid)) in keys.iter_mut().zip(key) {
        let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
        pg_sys::ScanKeyInit(entry, *column, equal, pg_sys::F_OIDEQ.into(), (*oid).into());
    }
    let relation = pg_sys::table_open(catalog, lock);
    let scan =
        pg_sys::systable_beginscan(relation, Oid::from(index), true, snapshot, keys.len() as i32, keys.as_mut_ptr());
    let tuple = pg_sys::systable_getnext(scan);
    // (A row that was frozen keeps it.)
    let writer = tuple.as_ref().map_or(0, |tuple| (*tuple.t_data).t_choice.t_heap.t_xmin.into_inner());
    pg_sys::systable_endscan(scan);
    pg_sys::table_close(relation, lock);
    writer
}

/// The libraries that a session of this process would load at its login, as the settings say now: `session_preload_libraries` and
/// `local_preload_libraries`. To be asked while nothing but files, database and role say so.
pub fn preload_libraries() -> [String; 2] {
    // SAFETY: NULL or C strings of the server, copied at once.
    unsafe {
        [pg_sys::session_preload_libraries_string, pg_sys::local_preload_libraries_string].map(|names| {
            if names.is_null() {
                String::new()
            } else {
                CStr::from_ptr(names).to_string_lossy().into_owned()
            }
        })
    }
}
