//! What `ALTER DATABASE … SET` says of a setting: the value that a database gives to all roles. A session, a role or the server's
//! configuration may say something else, which does not count here.

use std::ffi::{c_char, CStr, CString};
use std::ptr::null_mut;

use pgrx::pg_sys::{self, Oid};

/// What is known of a setting of this database.
pub enum DatabaseSetting {
    /// Its text; `None` where the database says nothing of it.
    Known(Option<CString>),
    /// The catalog is locked: it is not waited for.
    Locked,
}

/// pg_db_role_setting and its index by database and role, whose oids never change.
const CATALOG: u32 = 2964;
const INDEX: u32 = 2965;
/// Its column setconfig.
const SETCONFIG: i32 = 3;

/// Reads a setting of this database in a transaction: by the catalog's index, row by row.
pub fn read(name: &CStr) -> DatabaseSetting {
    let share = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: in a transaction. The lock stays to its end, as the one of a statement would.
    unsafe {
        if !pg_sys::ConditionalLockRelationOid(Oid::from(CATALOG), share) {
            return DatabaseSetting::Locked;
        }
        let table = pg_sys::table_open(Oid::from(CATALOG), pg_sys::NoLock as pg_sys::LOCKMODE);
        let mut keys = [key(1, pg_sys::MyDatabaseId), key(2, Oid::INVALID)];
        let index = Oid::from(INDEX);
        let scan = pg_sys::systable_beginscan(table, index, true, null_mut(), 2, keys.as_mut_ptr());
        let tuple = pg_sys::systable_getnext(scan);
        let mut is_null = true;
        let settings = if tuple.is_null() {
            pg_sys::Datum::null()
        } else {
            pg_sys::heap_getattr(tuple, SETCONFIG, (*table).rd_att, &mut is_null)
        };
        let found = if is_null { None } else { value(settings, name) };
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, pg_sys::NoLock as pg_sys::LOCKMODE);
        DatabaseSetting::Known(found)
    }
}

/// The condition that a column of the index has this value.
unsafe fn key(column: pg_sys::AttrNumber, value: Oid) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    let equal = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
    pg_sys::ScanKeyInit(&raw mut key, column, equal, Oid::from(pg_sys::F_OIDEQ), value.into());
    key
}

/// The value of this name in an array of texts `name=value`.
unsafe fn value(settings: pg_sys::Datum, name: &CStr) -> Option<CString> {
    let array = pg_sys::pg_detoast_datum(settings.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
    let (mut texts, mut count) = (null_mut(), 0);
    let align = pg_sys::TYPALIGN_INT as c_char;
    pg_sys::deconstruct_array(array, pg_sys::TEXTOID, -1, false, align, &raw mut texts, null_mut(), &raw mut count);
    let texts = (0..usize::try_from(count).unwrap_or(0)).map(|number| (*texts.add(number)).cast_mut_ptr());
    texts.map(|text| CStr::from_ptr(pg_sys::text_to_cstring(text))).find_map(|text| {
        let (its_name, its_value) = text.to_bytes().split_at_checked(name.to_bytes().len())?;
        let its_value = its_value.strip_prefix(b"=").filter(|_| its_name.eq_ignore_ascii_case(name.to_bytes()))?;
        CString::new(its_value).ok()
    })
}
