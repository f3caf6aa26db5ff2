//! `adopt`, `is_home`: whether this database may fire what is in it.

use pgrx::prelude::*;
use pgrx::PgLogLevel;

use crate::convert;
use crate::error::{self, Failure};
use crate::store::home::{self, Home};
use crate::store::{catalog, grant, role, session};
use crate::worker::wake;

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn adopt() -> i64 {
    let caller = role::caller();
    let now = convert::now();
    let schedules = session(|session| {
        grant::types(session);
        home::adopt(session, now)
    });
    // In a copy there is none; one that is there looks again.
    wake::dispatcher_at_commit();
    wake::at_commit(now);
    let text = format!(
        "scheduler: database \"{}\" is adopted by \"{}\", {schedules} schedules begin anew",
        catalog::database_name(),
        role::name(caller)
    );
    error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
    schedules
}

#[pg_extern(schema = "sched", stable, parallel_unsafe)]
pub fn is_home() -> bool {
    session(|session| home::look(|| session)) != Home::Elsewhere
}
