//! Whether runs can be what they are to be: processes connected as the owner of a job.

use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;

use crate::pg::error::Failure;
use crate::pg::{compat, role, syscache};

/// Why nothing can run as this role here: `28000`.
pub fn may_run(owner: Oid) -> Result<(), Failure> {
    let refused = |message: String, hint: &str| {
        Err(Failure::new(PgSqlErrorCode::ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION, message, hint))
    };
    // SAFETY: reads a global of the process.
    let this_database = || unsafe { pg_sys::MyDatabaseId };
    let name = role::name(owner);
    let Some(attributes) = syscache::attributes(owner) else {
        return refused(format!("role {name}, which owns the job, does not exist"), "Define the job again.");
    };
    if compat::WORKERS_NEED_LOGIN && !attributes.may_log_in {
        return refused(
            format!("role \"{name}\", which owns the job, may not log in"),
            "Before PostgreSQL 17 a role needs LOGIN to run SQL jobs; a line in pg_hba.conf can keep everybody else from using it.",
        );
    }
    if !compat::may_connect(owner, this_database()) {
        let database = syscache::database_name();
        return refused(
            format!("role \"{name}\", which owns the job, may not connect to database \"{database}\""),
            "GRANT CONNECT ON DATABASE to it.",
        );
    }
    Ok(())
}
