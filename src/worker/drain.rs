//! SQL jobs of a database in test mode: no dispatcher starts runners there, so a session has them run, one execution after the other.

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use pgrx::PgSqlErrorCode;

use crate::dispatch;
use crate::pg::error::{Failure, Outcome};
use crate::pg::login_rows::LoginRows;
use crate::pg::{convert, session};
use crate::shmem::runners;
use crate::store::runner as store;
use crate::store::{database_clock, test_mode};
use crate::worker::run_rights::may_run;
use crate::worker::runner;
use crate::worker::staffing::Staffing;

/// How many executions of an owner fail at a time where nothing can run as that role.
const REFUSED_AT_A_TIME: i64 = 1000;

/// Runs the next execution that is due, in a process of its own; which it was and what became of it, `None` where none is due. An open
/// transaction's are not: the process does not see them.
pub fn run_next() -> Outcome<Option<(Uuid, String)>> {
    loop {
        let Some(owner) = session(|session| store::owners_waiting(session, 1).first().map(|waiting| waiting.owner))
        else {
            return Ok(None);
        };
        let Err(reason) = may_run(owner) else { return run_as(owner).map(Some) };
        session(|session| dispatch::refuse(session, owner, &reason, REFUSED_AT_A_TIME, database_clock::now()));
        pgrx::check_for_interrupts!();
    }
}

fn run_as(owner: Oid) -> Outcome<(Uuid, String)> {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    let fence = session(test_mode::lock);
    let login = LoginRows::try_read(Oid::from(database), owner);
    let seat =
        runners::reserve(database, owner.to_u32(), runner::limits(), login, convert::now()).ok_or_else(no_place)?;
    let Some(process) = runner::start(seat) else {
        runners::give_back(seat);
        return Err(no_slot());
    };
    // (An error that interrupts the wait leaves the run to its process.)
    if process.wait_for_shutdown().is_err() {
        return Err(no_slot());
    }
    session(|session| {
        // Where the process is gone without a word.
        Staffing::default().end_lost_runs(session);
        test_mode::run_since(session, fence).ok_or_else(|| nothing_ran(owner))
    })
}

fn no_place() -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "all processes for SQL jobs are taken",
        "Raise sched.max_sql_runners, or sched.max_sql_runners_per_role, and reload.",
    )
}

fn no_slot() -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "no worker slot is free for a SQL job",
        "Raise max_worker_processes and restart the server.",
    )
}

fn nothing_ran(owner: Oid) -> Failure {
    Failure::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("no process could run the SQL jobs of role {}", crate::pg::role::quoted(owner)),
        "Read the server's log: the role may not connect, or sched.enabled is off. What this transaction has not committed it cannot see.",
    )
}
