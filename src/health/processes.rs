//! Who is at work, by what the processes share. A missing process alone is a warning: what it leaves undone is what counts.

use pgrx::pg_sys;
use scheduler_core::health::Component;
use scheduler_core::Instant;

use crate::guc;
use crate::health::{Finding, Look};
use crate::pg::convert;
use crate::shmem::registry::{self, rest, Presence};
use crate::store::identity::Home;

/// Since when the settings are what they are.
fn settings_since() -> Instant {
    // SAFETY: reads a global of the process.
    Instant::from_micros(unsafe { pg_sys::PgReloadTime }).unwrap_or_else(convert::now)
}

/// Since when the server runs.
fn server_since() -> Instant {
    // SAFETY: reads a global of the process.
    Instant::from_micros(unsafe { pg_sys::PgStartTime }).unwrap_or_else(convert::now)
}

/// The process that starts dispatchers.
pub fn launcher(look: &Look) -> Finding {
    let component = Component::Launcher;
    if !registry::preloaded() {
        let hint =
            "Add scheduler to shared_preload_libraries and restart the server, or call sched.dispatch_due() yourself.";
        return Finding::warning(
            component,
            server_since(),
            "the library is not preloaded: nothing fires by itself",
            hint,
        );
    }
    if look.standby {
        return Finding::ok(component, "standby: it starts nothing before a promotion");
    }
    match registry::launcher() {
        Some(pid) => Finding::ok(component, format!("process {pid}")),
        None => Finding::warning(
            component,
            look.now,
            "there is no launcher: a dispatcher that dies is not replaced",
            "The server starts it again within seconds. If it does not, look into the server's log.",
        ),
    }
}

/// The process that fires what is due in this database.
pub fn dispatcher(look: &Look) -> Finding {
    let component = Component::Dispatcher;
    if !registry::preloaded() {
        let also = if look.dispatch_off { "; sched.dispatch is off for the database" } else { "" };
        return Finding::ok(component, format!("none: the library is not preloaded{also}"));
    }
    if look.standby {
        return Finding::ok(component, "standby: nothing fires before a promotion");
    }
    if look.is_copy() {
        let also = if look.dispatch_off { ", and sched.dispatch is off for it" } else { "" };
        return Finding::ok(component, format!("none: the database is a copy{also}"));
    }
    if !guc::enabled() {
        let hint = "Set sched.enabled to on and reload the server's configuration.";
        return Finding::warning(
            component,
            settings_since(),
            "sched.enabled is off: workers do nothing but wait",
            hint,
        );
    }
    let off = if look.dispatch_off { "; sched.dispatch is off for it" } else { "" };
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    if let Some(until) = rest::rests_until(database) {
        if until < look.now {
            return Finding::warning(
                component,
                until,
                format!("none: others have the worker slots, and this database waits for its turn{off}"),
                "Raise max_worker_processes and restart the server.",
            );
        }
        let until = convert::shown_time(convert::timestamp(until));
        return Finding::ok(
            component,
            format!("none: others need its worker slot, and nothing is to be done before {until}{off}"),
        );
    }
    match registry::presence(database) {
        Presence::Here(pid) if look.dispatch_off => Finding::ok(
            component,
            format!("process {pid}; sched.dispatch is off for the database: schedules fire only by sched.dispatch_due()"),
        ),
        Presence::Here(pid) => Finding::ok(component, format!("process {pid}")),
        Presence::Coming => Finding::ok(component, format!("one is being started{off}")),
        Presence::Absent if look.home == Some(Home::Nowhere) => Finding::ok(component, format!("none: nothing was defined here yet{off}")),
        Presence::Absent => Finding::warning(
            component,
            look.now,
            format!("no dispatcher serves this database{off}"),
            "The launcher starts one within 5 s. If it does not: does sched.databases name this database, is a slot of max_worker_processes free, and what does the server's log say?",
        ),
    }
}
