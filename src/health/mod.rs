//! How things stand: what is looked at, one finding for each. By shared memory, index probes and the catalogs, and never by a wait: whoever asks
//! is told also where every worker is dead, and which table it is that somebody keeps to himself.
//!
//! The truth is "a timer is due and did not fire", not "a process exists": that is what `dispatch` says, and what the others say is why.

mod processes;
mod server;
mod tables;

use std::ffi::CStr;

use pgrx::pg_sys::{self, Oid};
use scheduler_core::health::{Component, Severity};
use scheduler_core::time::units::duration;
use scheduler_core::{Instant, Keyword};

use crate::guc;
use crate::pg::objects_version::Fit;
use crate::pg::{relation_lock, Owner};
use crate::store::database_clock;
use crate::store::health as store;
use crate::store::identity::{self, Home};

/// How one component stands.
pub struct Finding {
    /// Which.
    pub component: Component,
    /// How bad it is.
    pub severity: Severity,
    /// When it began, or when it was seen where nothing says when it began; `None` where all is well.
    pub since: Option<Instant>,
    /// What is so.
    pub message: String,
    /// What to do; `None` where all is well.
    pub hint: Option<String>,
}

impl Finding {
    fn ok(component: Component, message: impl Into<String>) -> Finding {
        Finding { component, severity: Severity::Ok, since: None, message: message.into(), hint: None }
    }

    fn bad(component: Component, severity: Severity, since: Instant, [message, hint]: [String; 2]) -> Finding {
        if severity == Severity::Ok {
            return Finding::ok(component, message);
        }
        Finding { component, severity, since: Some(since), message, hint: Some(hint) }
    }

    fn warning(component: Component, since: Instant, message: impl Into<String>, hint: impl Into<String>) -> Finding {
        Finding::bad(component, Severity::Warning, since, [message.into(), hint.into()])
    }
}

/// How all of it stands, and for how long the oldest timer that is due has not fired, in microseconds.
pub struct Health {
    /// A finding for each component, in their order.
    pub findings: Vec<Finding>,
    /// 0 where nothing is due.
    pub lateness: i64,
}

/// What the findings are about.
struct Look<'a> {
    owner: &'a Owner,
    /// Who asks.
    reader: Oid,
    now: Instant,
    /// The server is a standby.
    standby: bool,
    /// How library and objects go together: where they do not, no table is read.
    fit: Fit,
    /// Whose rows the tables hold, where that can be read.
    home: Option<Home>,
    /// `sched.dispatch` is off for the database: its schedules fire only by `dispatch_due`.
    dispatch_off: bool,
    /// By how much the clock of the test is ahead, in microseconds, in a database in test mode: nothing runs by itself, and is not to.
    test: Option<i64>,
    /// Tables that somebody keeps to himself, or that there are not.
    locked: Vec<&'static CStr>,
}

impl Look<'_> {
    /// Why nothing can be said about a component that is in these tables.
    fn unreadable(&self, component: Component, tables: &[&CStr]) -> Option<Finding> {
        if let Fit::None(mismatch) = &self.fit {
            let message = format!("not looked at: {}", mismatch.message);
            return Some(Finding::warning(component, self.now, message, mismatch.hint.clone()));
        }
        let table = tables.iter().find(|table| self.locked.contains(table))?;
        let table = table.to_string_lossy();
        let hint = "Find who has it in pg_locks: VACUUM FULL, CLUSTER, REINDEX, ALTER TABLE or LOCK TABLE. Everything that needs it waits until that has ended.";
        Some(Finding::warning(component, self.now, format!("table sched.{table} is locked"), hint))
    }

    /// In a copy nothing fires, and is not to.
    fn is_copy(&self) -> bool {
        self.home == Some(Home::Elsewhere)
    }
}

/// The tables that are read here.
const TABLES: [&CStr; 12] = [
    c"alert",
    c"home",
    c"timer",
    c"schedule",
    c"schedule_change",
    c"schedule_definition",
    c"job",
    c"ready",
    c"retry",
    c"paused_queue",
    c"lease",
    c"ledger",
];

/// Looks at everything, as the extension's owner.
pub fn look(owner: &Owner, reader: Oid, now: Instant) -> Health {
    let locked = relation_lock::try_share_all(owner.schema, &TABLES);
    // SAFETY: reads shared memory.
    let standby = unsafe { pg_sys::RecoveryInProgress() };
    let fit = owner.session().check_version();
    let readable = !matches!(fit, Fit::None(_)) && !locked.contains(&c"home");
    let home = readable.then(|| identity::load(|| owner.session()));
    let dispatch_off = guc::dispatch_of_database() == Some(false);
    let test = database_clock::ahead_in_test();
    let look = Look { owner, reader, now, standby, fit, home, dispatch_off, test, locked };
    let (server, (dispatch, lateness)) = (store::server(owner.session()), tables::dispatch(&look));
    let mut dispatch = Some(dispatch);
    let findings = Component::ALL.iter().filter_map(|component| match component {
        Component::TestMode => look.test.map(|ahead| test_mode(*component, ahead)),
        Component::Dispatcher
        | Component::Dispatch
        | Component::Queues
        | Component::Leases
        | Component::Runners
        | Component::Home
            if look.test.is_some() =>
        {
            Some(Finding::ok(*component, "not looked at: the database is in test mode"))
        }
        Component::Launcher => Some(processes::launcher(&look)),
        Component::Dispatcher => Some(processes::dispatcher(&look)),
        Component::Dispatch => dispatch.take(),
        Component::Queues => Some(tables::queues(&look)),
        Component::Leases => Some(tables::leases(&look)),
        Component::Runners => Some(tables::runners(&look)),
        Component::Schedules => Some(tables::schedules(&look)),
        Component::Home => Some(tables::home(&look)),
        Component::Versions => Some(server::versions(&look)),
        Component::NotifyQueue => Some(server::notify_queue(&look)),
        Component::WorkerSlots => server.as_ref().map(|server| server::worker_slots(&look, server)),
        Component::Autovacuum => server.as_ref().map(|server| server::autovacuum(&look, server)),
        Component::Wraparound => server.as_ref().map(server::wraparound),
    });
    Health { findings: findings.collect(), lateness }
}

/// What is not to surprise whoever wonders that nothing runs.
fn test_mode(component: Component, ahead: i64) -> Finding {
    let moved = if ahead == 0 { String::new() } else { format!("; its clock is {} ahead", duration(ahead)) };
    Finding::ok(component, format!("test mode: nothing runs in this database by itself{moved}"))
}

/// A number that was counted up to a limit.
fn counted(count: i64) -> String {
    if count < store::MOST_COUNTED {
        count.to_string()
    } else {
        format!("{} or more", store::MOST_COUNTED)
    }
}
