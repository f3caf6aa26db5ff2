//! Functions that the extension's own SQL calls. Nobody is granted them.

use pgrx::datum::Uuid;
use pgrx::prelude::*;
use pgrx::{PgLogLevel, PgSqlErrorCode};

use crate::pg::error::{self, or_raise, Failure};
use crate::pg::{convert, invalidation, role, session};
use crate::shmem::{counters, registry, wakeup};
use crate::store::database_clock;
use crate::store::execution::ids;
use crate::store::low_water_marks;
use crate::store::{grants, identity};

/// A new id: UUID version 7 (RFC 9562), so that rows of one time lie together in the index.
#[pg_extern(schema = "sched_internal", volatile, parallel_safe, name = "uuid_v7")]
pub fn uuid_v7() -> Uuid {
    ids::execution_id()
}

/// What the ledger is unique by, together with the plan time.
#[pg_extern(schema = "sched_internal", immutable, strict, parallel_safe)]
pub fn scope_key(job_name: &str, scope_kind: &str, scope_id: &str) -> Uuid {
    ids::scope_key(job_name, scope_kind, scope_id)
}

/// Has the dispatcher of this database look for changes once the transaction has committed.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn wake_dispatcher() {
    low_water_marks::added_some_changes();
    wakeup::at_commit(database_clock::now());
    if registry::is_unknown() {
        // Asks for one, at home; a copy is to have none.
        let _ = session(|session| identity::require(|| session));
    }
}

/// Has the launcher start a dispatcher in this database once the transaction has committed.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn request_dispatcher() {
    if !registry::preloaded() {
        let warning = Failure {
            hint: "Add scheduler to shared_preload_libraries and restart the server, or call sched.dispatch_due() yourself.".to_owned(),
            ..Failure::new(PgSqlErrorCode::ERRCODE_WARNING, "scheduler is not preloaded: its functions work, but nothing fires by itself", "")
        };
        error::report(PgLogLevel::WARNING, warning);
    }
    wakeup::dispatcher_at_commit();
    counters::pending::begin_anew_at_commit();
}

/// A role that gets rights or loses them, as SQL names it. `22004` for NULL, `42704` for one that there is not, `2BP01` where the
/// extension's owner would lose what everything rests on.
#[pg_extern(schema = "sched_internal", stable, parallel_unsafe)]
fn grantee(role: Option<pg_sys::Oid>, loses: default!(bool, "false")) -> String {
    or_raise((|| {
        let role = role::existing(convert::required("role", role)?)?;
        let name = role::quoted(role);
        if loses && role == role::extension().1 {
            let hint = "Make another role its owner first: REASSIGN OWNED BY, or ALTER ... OWNER TO.";
            let message = format!("role {name} owns the scheduler");
            return Err(Failure::new(PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST, message, hint));
        }
        Ok(name)
    })())
}

/// The end of a script: users and monitors get the rights on what an update has added, and nobody has the types of rows.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn grant_again() {
    session(grants::again);
}

/// Whoever may watch the server may ask how the scheduler stands: said by the script that brings the functions for it.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn grant_pg_monitor() {
    session(grants::pg_monitor);
}

/// The owner of the database may begin and end test mode: said by the script that brings it.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn grant_database_owner() {
    session(grants::database_owner);
}

/// Has every session read a table of ours again of which it may remember something.
#[pg_extern(schema = "sched_internal", volatile, parallel_unsafe)]
fn table_is_new(table: pg_sys::Oid) {
    invalidation::changed(table);
    low_water_marks::forget(table);
}
