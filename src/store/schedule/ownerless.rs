//! Schedules whose jobs belong to a role that was dropped.

use pgrx::pg_sys::Oid;

use crate::pg::record::Record;
use crate::pg::session::List;
use crate::pg::{role, Session};
use crate::store::low_water_marks;
use crate::{arguments, statement};

/// Has those be looked at again that are not parked, at most `limit`: the look parks them. How many.
pub fn look_again(session: &Session, limit: i64) -> usize {
    statement!(JOB_OWNERS = "schedule/job_owners"());
    statement!(SCHEDULES_OWNERLESS = "schedule/schedules_ownerless"(OIDARRAYOID, INT8OID));
    let owners = JOB_OWNERS.run(session, arguments![]);
    let owners = owners.iter().map(|row| row.get_required::<Oid>("owner"));
    let dropped: Vec<Oid> = owners.filter(|owner| !role::exists(*owner)).collect();
    if dropped.is_empty() {
        return 0;
    }
    let rows = SCHEDULES_OWNERLESS.run(session, arguments![List(dropped), limit]);
    low_water_marks::added_changes(rows.iter().map(|row| row.get_required("change_id")));
    rows.len()
}
