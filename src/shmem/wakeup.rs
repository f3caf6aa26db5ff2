//! How a commit wakes a worker: shared memory says who sleeps until when, and a commit callback sets the latch of a
//! dispatcher that would otherwise sleep too long.
//!
//! No wake-up is lost: a dispatcher publishes AWAKE before it reads the tables and its next wake time after, and the callback
//! runs when the rows are visible already. Either the dispatcher reads them, or the callback finds AWAKE (or a later
//! time) and sets the latch, and a set latch ends the next sleep at once.
//! PREPARE TRANSACTION runs no commit callback: whoever runs COMMIT PREPARED wakes the dispatcher in any case. What a crash forgets is bounded by
//! `sched.tick_interval`, where there is a dispatcher. Where none was asked for (a prepared CREATE EXTENSION or `adopt`), the next session that claims asks, and the next edit of a
//! schedule: both know then whether the database is a copy, which is to have none.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use pgrx::prelude::*;
use scheduler_core::Instant;

use crate::pg::by_subtransaction::BySubtransaction;
use crate::shmem::notifications::{self, QueueEntry};
use crate::shmem::registry::{self, marks, runner_news};
use crate::shmem::runners::{self, runs};

// What this backend's transaction asks for once it has committed.
thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// The earliest time at which the dispatcher has something to do because of this transaction.
    static DEADLINE: Cell<Option<i64>> = const { Cell::new(None) };
    static WANT_DISPATCHER: Cell<bool> = const { Cell::new(false) };
    static WAKE_LAUNCHER: Cell<bool> = const { Cell::new(false) };
    /// The databases whose dispatchers are to look at everything.
    static DATABASES: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// The owners for whom this transaction has put something into the queue of their runners.
    static RUNNERS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// The runs of runners that are to be cancelled.
    static CANCELS: RefCell<BySubtransaction<Cancel>> = const { RefCell::new(BySubtransaction::new()) };
    /// The queues that are to hear of something new.
    static QUEUES: RefCell<BySubtransaction<QueueEntry>> = const { RefCell::new(BySubtransaction::new()) };
}

struct Cancel {
    execution: Uuid,
    /// How long after that its process is terminated where it has not ended, in microseconds.
    grace: i64,
}

/// Has a runner of this owner look for work, once this transaction has committed.
pub fn runner_at_commit(owner: pg_sys::Oid) {
    if registry::preloaded() {
        register_callback();
        RUNNERS.with_borrow_mut(|owners| {
            let owner = owner.to_u32();
            if !owners.contains(&owner) {
                owners.push(owner);
            }
        });
    }
}

/// Has the runner of an execution, if there is one, cancel it once this transaction has committed.
pub fn cancel_at_commit(execution: Uuid, grace: i64) {
    if registry::preloaded() {
        register_callback();
        CANCELS.with_borrow_mut(|cancels| cancels.push(Cancel { execution, grace }));
    }
}

/// Has this database's dispatcher notify a queue once this transaction has committed; false where nobody would, or not in time.
pub fn notify_at_commit(queue: &str) -> bool {
    let Some(entry) = notifications::entry_of(queue) else { return false };
    register_callback();
    QUEUES.with_borrow_mut(|queues| {
        // One that is there is of this subtransaction or of one around it: it lives as long.
        if !queues.iter().any(|known| *known == entry) {
            queues.push(entry);
        }
    });
    true
}

/// Asks that this database's dispatcher be awake at `deadline` at the latest, if this transaction commits.
pub fn at_commit(deadline: Instant) {
    if registry::preloaded() {
        register_callback();
        let micros = deadline.as_micros();
        DEADLINE.set(Some(DEADLINE.get().map_or(micros, |known| known.min(micros))));
    }
}

/// Has the launcher look at all databases, if this transaction commits.
pub fn launcher_at_commit() {
    if registry::preloaded() {
        register_callback();
        WAKE_LAUNCHER.set(true);
    }
}

/// Has the dispatcher of a database look at everything, if this transaction commits.
pub fn database_at_commit(database: u32) {
    if registry::preloaded() {
        register_callback();
        DATABASES.with_borrow_mut(|databases| {
            if !databases.contains(&database) {
                databases.push(database);
            }
        });
    }
}

/// Asks for a dispatcher in this database, if this transaction commits.
pub fn dispatcher_at_commit() {
    if registry::preloaded() {
        register_callback();
        WANT_DISPATCHER.set(true);
    }
}

/// A prepared transaction of this database was committed: nobody knows what it has written. The dispatcher looks, and so do runners.
pub fn prepared_transaction_committed() {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    registry::wake_dispatcher(database, i64::MIN);
    runner_news::runners_wanted(database);
    marks::notify_all(database);
}

fn register_callback() {
    if !REGISTERED.replace(true) {
        // SAFETY: the callbacks live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ended), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), std::ptr::null_mut());
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if event == XACT_EVENT_COMMIT {
        let database = pg_sys::MyDatabaseId.to_u32();
        if let Some(deadline) = DEADLINE.take() {
            registry::wake_dispatcher(database, deadline);
        }
        for database in DATABASES.take() {
            registry::wake_dispatcher(database, i64::MIN);
        }
        if WANT_DISPATCHER.take() {
            registry::want(database);
        }
        if WAKE_LAUNCHER.take() {
            registry::wake_launcher();
        }
        for owner in RUNNERS.take() {
            // One begins at once; whether more are needed is up to the dispatcher.
            let now = Instant::from_micros(pg_sys::GetCurrentTimestamp()).unwrap_or(Instant::MIN);
            runners::wake(database, owner, 1, now);
            runner_news::runners_wanted(database);
        }
        for entry in QUEUES.with_borrow_mut(BySubtransaction::take) {
            notifications::mark(database, entry, pg_sys::GetCurrentTimestamp());
        }
        for cancel in CANCELS.with_borrow_mut(BySubtransaction::take) {
            let now = pg_sys::GetCurrentTimestamp();
            if runs::cancel(database, cancel.execution, now, cancel.grace) {
                registry::wake_dispatcher(database, now.saturating_add(cancel.grace));
            }
        }
    } else if event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE {
        DEADLINE.set(None);
        DATABASES.take();
        WANT_DISPATCHER.set(false);
        WAKE_LAUNCHER.set(false);
        RUNNERS.take();
        CANCELS.with_borrow_mut(BySubtransaction::take).for_each(drop);
        QUEUES.with_borrow_mut(BySubtransaction::take).for_each(drop);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ended(
    event: pg_sys::SubXactEvent::Type,
    mine: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    // What is only woken may look for nothing; a run that is cancelled is lost, and a queue would hear of nothing.
    CANCELS.with_borrow_mut(|cancels| cancels.subtransaction_ended(event, mine, parent));
    QUEUES.with_borrow_mut(|queues| queues.subtransaction_ended(event, mine, parent));
}
