//! What the server says.

use scheduler_core::health::{self, Component, Severity};

use crate::health::{Finding, Look};
use crate::pg::error::Failure;
use crate::pg::objects_version::Fit;
use crate::shmem::registry::rest;
use crate::store::health::ServerState;
use crate::store::queue::notify;

/// Whether library and objects are of one version.
pub fn versions(look: &Look) -> Finding {
    let component = Component::Versions;
    let finding = |severity: Severity, difference: &Failure| {
        Finding::bad(component, severity, look.now, [difference.message.clone(), difference.hint.clone()])
    };
    match &look.fit {
        Fit::Same => Finding::ok(component, format!("library and objects are {}", env!("CARGO_PKG_VERSION"))),
        // All goes on but what is new.
        Fit::Earlier(difference) => finding(Severity::Warning, difference),
        Fit::None(difference) => finding(Severity::Critical, difference),
    }
}

/// The server's queue of notifications.
pub fn notify_queue(look: &Look) -> Finding {
    let usage = notify::usage();
    let message = format!("{:.0} % full", usage * 100.0);
    let hint = "It is emptied when the oldest transaction of a session that listens has ended: look for it in pg_stat_activity.";
    let severity = health::of_notify_queue(usage);
    Finding::bad(Component::NotifyQueue, severity, look.now, [message, hint.to_owned()])
}

/// The server's slots for background workers.
pub fn worker_slots(look: &Look, server: &ServerState) -> Finding {
    let mut message = format!("{} of {} are taken", server.workers, server.worker_slots);
    let is_lacking = rest::is_lacking();
    if is_lacking {
        message += ", and a dispatcher or an SQL job found none";
    }
    let severity = if server.workers < server.worker_slots && !is_lacking { Severity::Ok } else { Severity::Warning };
    let hint = "Raise max_worker_processes and restart the server: dispatchers and processes of SQL jobs take one each, besides parallel queries.";
    Finding::bad(Component::WorkerSlots, severity, look.now, [message, hint.to_owned()])
}

/// Whether our tables are vacuumed.
pub fn autovacuum(look: &Look, server: &ServerState) -> Finding {
    let component = Component::Autovacuum;
    let warning = |message: String, hint: &str| Finding::warning(component, look.now, message, hint);
    if !server.autovacuum {
        return warning("autovacuum is off: the tables of sched grow".to_owned(), "Set autovacuum to on.");
    }
    if let Some(tables) = &server.unvacuumed {
        let hint = "Reset autovacuum_enabled of these tables: claims and fires leave a dead row each.";
        return warning(format!("autovacuum is off for {tables}"), hint);
    }
    if let Some(tables) = &server.bloated {
        let hint = "Look for what keeps VACUUM from it: long transactions, replication slots, prepared transactions.";
        return warning(format!("most rows are dead in {tables}"), hint);
    }
    Finding::ok(component, "on")
}

/// For how long our own transactions keep others' rows from being vacuumed.
pub fn wraparound(server: &ServerState) -> Finding {
    let component = Component::Wraparound;
    let Some((pid, since)) = server.holder.filter(|_| server.held_ids > 0) else {
        return Finding::ok(component, "the workers hold no transaction back");
    };
    let message = format!("process {pid} holds back {} transaction ids", server.held_ids);
    let hint = "It is on an SQL job that takes long (sched.running), or was stopped: pg_terminate_backend ends it.";
    Finding::bad(component, health::of_held_ids(server.held_ids), since, [message, hint.to_owned()])
}
