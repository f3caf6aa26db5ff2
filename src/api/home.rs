//! `adopt`, `is_home`: whether this database may fire what is in it.

use pgrx::prelude::*;
use pgrx::PgLogLevel;

use crate::dispatch;
use crate::pg::error::{self, Failure};
use crate::pg::{role, session, syscache};
use crate::shmem::wakeup;
use crate::store::database_clock;
use crate::store::identity::{self, Home};
use crate::store::{grants, job, low_water_marks};

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn adopt() -> i64 {
    let caller = role::caller();
    let now = database_clock::now();
    let schedules = session(|session| {
        grants::types(session);
        // A restore may have given the roles other numbers.
        dispatch::notify(session, job::reroute(session, None));
        // Replication may have brought rows here, of which nobody has told.
        low_water_marks::forget_all();
        identity::adopt(session, now)
    });
    // In a copy there is none; one that is there looks again.
    wakeup::dispatcher_at_commit();
    wakeup::at_commit(now);
    let text = format!(
        "scheduler: database \"{}\" is adopted by \"{}\", {schedules} schedules begin anew",
        syscache::database_name(),
        role::name(caller)
    );
    error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
    schedules
}

#[pg_extern(schema = "sched", stable, parallel_unsafe)]
pub fn is_home() -> bool {
    session(|session| identity::load(|| session)) != Home::Elsewhere
}
