//! As whom a dispatcher works: the role of `sched.worker_role`, or a superuser where that is empty.

use std::collections::HashSet;
use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;

use crate::guc;
use crate::pg::error::{Failure, Outcome};
use crate::pg::{compat, syscache};

/// The role to connect as, 0 for the superuser that owns the system catalogs; or why nothing can be dispatched.
/// To be called in a transaction of the launcher, which can read the shared catalogs only.
pub fn of_setting() -> Outcome<Oid> {
    let Some(name) = guc::worker_role() else { return Ok(Oid::INVALID) };
    let shown = name.to_string_lossy();
    // SAFETY: a syscache look-up inside a transaction; unknown names answer 0.
    let role = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    if role == Oid::INVALID {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
            format!("nothing is dispatched: role \"{shown}\" of sched.worker_role does not exist"),
            "Create it and give it its rights with sched.grant_worker; the scheduler goes on by itself.",
        ));
    }
    if compat::WORKERS_NEED_LOGIN && !syscache::attributes(role).is_some_and(|role| role.may_log_in) {
        return Err(Failure::new(
            PgSqlErrorCode::ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
            format!("nothing is dispatched: role \"{shown}\" of sched.worker_role may not log in"),
            "Before PostgreSQL 17 a worker's role needs LOGIN; a line in pg_hba.conf can keep everybody else from using it.",
        ));
    }
    Ok(role)
}

/// Those of these databases that the role may not connect to; in a transaction as well.
pub fn barred(role: &Outcome<Oid>, databases: impl Iterator<Item = u32>) -> HashSet<u32> {
    match role {
        Ok(role) if *role != Oid::INVALID => {
            // One that was just dropped has no rights to ask for.
            let is_there = |database: &u32| syscache::database(Oid::from(*database)).is_some();
            databases.filter(is_there).filter(|database| !compat::may_connect(*role, Oid::from(*database))).collect()
        }
        Ok(_) | Err(_) => HashSet::new(),
    }
}

/// That a role could not have a dispatcher in this database.
pub fn may_not_connect(database: &CStr) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("database \"{}\" is not served: the role of sched.worker_role may not connect to it", database.to_string_lossy()),
        "GRANT CONNECT ON DATABASE to it if the extension is there, or leave the database out of sched.databases; the scheduler goes on by itself.",
    )
}
