//! Groups of schedules that are declared as a whole.

use pgrx::pg_sys::Oid;

use crate::pg::record::Record;
use crate::pg::Session;
use crate::{arguments, statement};

/// The role whose group this is, if there is one of this name.
pub fn owner(session: &Session, group_name: &str) -> Option<Oid> {
    statement!(GROUP_OWNER = "schedule/group_owner"(TEXTOID));
    GROUP_OWNER.run(session, arguments![group_name]).first().map(|row| row.get_required("owner"))
}

/// Makes a group where there is none. Waits for others who make it.
pub fn make(session: &Session, group_name: &str, owner: Oid) {
    statement!(GROUP_MAKE = "schedule/group_make"(TEXTOID, REGROLEOID));
    GROUP_MAKE.run(session, arguments![group_name, owner]);
}

/// Has other declarations of a group wait until the transaction ends; false where it is not there, or is not the caller's.
pub fn lock(session: &Session, group_name: &str, caller: Oid) -> bool {
    statement!(GROUP_LOCK = "schedule/group_lock"(TEXTOID, OIDOID));
    GROUP_LOCK.run(session, arguments![group_name, caller]).first().is_some()
}

/// The names of its schedules.
pub fn schedules(session: &Session, group_name: &str) -> Vec<String> {
    statement!(GROUP_SCHEDULES = "schedule/group_schedules"(TEXTOID));
    GROUP_SCHEDULES.run(session, arguments![group_name]).iter().map(|row| row.get_required("schedule_name")).collect()
}

/// Has a group keep a schedule, whose scope is this where its declaration names none.
pub fn keep(session: &Session, schedule_id: i64, group_name: &str, default_scope_id: &str) {
    statement!(GROUP_SET = "schedule/group_set"(INT8OID, TEXTOID, TEXTOID));
    GROUP_SET.run(session, arguments![schedule_id, group_name, default_scope_id]);
}
