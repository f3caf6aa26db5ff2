//! Exclusions: a backend keeps the dispatcher of a database away for as long as it needs the database, or the extension in it, to
//! itself. DROP DATABASE and its kin fail where anybody is connected; DROP EXTENSION wants locks that a dispatcher at work
//! takes in another order.
//!
//! An exclusion is a slot in shared memory with its holder's process id. It ends with the holder's transaction, with the
//! subtransaction that took it where that one is rolled back, or with the holder; a slot whose holder is gone counts for
//! nothing. No exclusion is overlooked: the holder writes its slot and then looks who serves the database, a dispatcher writes
//! itself down and then looks for exclusions before it connects (and the launcher likewise), so one of the two sees the other.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use pgrx::{pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};

use crate::pg::latch;
use crate::shmem::registry::{self, Presence};
use crate::shmem::runners;
use crate::shmem::runners::runs::signal;

/// How many exclusions there can be at the same time, in all databases. For a statement that finds none free the dispatcher leaves as well, but it
/// may be back before the statement has ended.
const MAX_EXCLUSIONS: usize = 64;

/// How many exclusions on one database those who are no superusers can have,
const MOST_FOR_A_DATABASE: usize = 4;
/// and how many each of them can have, in whatever sessions and on whatever databases, once half of theirs are taken.
const MOST_OF_A_ROLE: usize = 4;

/// A dispatcher has this long to end its step by itself,
const GRACE: Duration = Duration::from_millis(100);
/// then its statement is cancelled, again and again at this distance,
const CANCEL_EVERY: Duration = Duration::from_millis(200);
/// then it is terminated,
const TERMINATE_AFTER: Duration = Duration::from_secs(2);
/// and then Postgres decides what becomes of the statement.
const GIVE_UP_AFTER: Duration = Duration::from_secs(4);
/// The postmaster was asked for a dispatcher and has not forked it within this: it may never come.
const COMING_AT_MOST: Duration = Duration::from_secs(1);
/// Idle runners have this long to leave.
const BYSTANDERS_AT_MOST: Duration = Duration::from_secs(2);
/// How often to look whether it has left, in milliseconds.
const LOOK_EVERY: i64 = 5;

#[derive(Default)]
struct ExclusionSlot {
    holder_pid: AtomicI32,
    database: AtomicU32,
    /// As whom the holder logged in, who cannot change that.
    role: AtomicU32,
}

impl ExclusionSlot {
    /// Gives it back.
    fn free(&self) {
        self.database.store(0, SeqCst);
        self.role.store(0, SeqCst);
        self.holder_pid.store(0, SeqCst);
    }
}

/// What all processes share.
pub struct Exclusions([ExclusionSlot; MAX_EXCLUSIONS]);

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Exclusions {}

impl Default for Exclusions {
    fn default() -> Exclusions {
        Exclusions(std::array::from_fn(|_| ExclusionSlot::default()))
    }
}

// SAFETY: the name is unique to this library.
static EXCLUSIONS: PgAtomic<Exclusions> = unsafe { PgAtomic::new(c"scheduler_holds") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(EXCLUSIONS);
}

fn slots() -> &'static [ExclusionSlot] {
    if registry::preloaded() {
        &EXCLUSIONS.get().0
    } else {
        &[]
    }
}

/// Whether somebody keeps dispatchers out of this database. Reads shared memory only.
pub fn is_excluded(database: u32) -> bool {
    slots().iter().any(|slot| {
        slot.database.load(SeqCst) == database && {
            let holder = slot.holder_pid.load(SeqCst);
            // SAFETY: looks through the process array under its lock.
            holder != 0 && unsafe { !pg_sys::BackendPidGetProc(holder).is_null() }
        }
    })
}

/// An exclusion of this backend: which slot, and the subtransaction that took it.
struct OwnExclusion {
    slot: &'static ExclusionSlot,
    taken_in: pg_sys::SubTransactionId,
}

thread_local! {
    static MINE: RefCell<Vec<OwnExclusion>> = const { RefCell::new(Vec::new()) };
    /// The subtransactions that dropped this database's extension and were not rolled back.
    static DROPS: RefCell<Vec<pg_sys::SubTransactionId>> = const { RefCell::new(Vec::new()) };
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps dispatchers out of `database` until this transaction ends, and waits until the one that is there has left: as a rule
/// some milliseconds, four seconds at most. Raises nothing but what interrupts the waiting backend.
pub fn acquire(database: u32) {
    // SAFETY: reads a global of the process.
    let me = unsafe { pg_sys::MyProcPid };
    let mine = |slot: &&ExclusionSlot| slot.holder_pid.load(SeqCst) == me && slot.database.load(SeqCst) == database;
    if !slots().iter().any(|slot| mine(&slot)) {
        // Sessions of one owner that wait for each other must not use up what everybody needs: the first holders of a database
        // keep it free for those behind them, and half of the slots are for superusers.
        // SAFETY: in a transaction.
        let is_superuser = unsafe { pg_sys::superuser() };
        let held = |slot: &&ExclusionSlot| slot.holder_pid.load(SeqCst) != 0 && slot.database.load(SeqCst) == database;
        if !is_superuser && slots().iter().filter(held).count() >= MOST_FOR_A_DATABASE {
            return wait_for_departure(database);
        }
        let slots = if is_superuser { slots() } else { &slots()[..slots().len() / 2] };
        let free = |slot: &&ExclusionSlot| slot.holder_pid.compare_exchange(0, me, SeqCst, SeqCst).is_ok();
        let Some(slot) = slots.iter().find(free) else { return wait_for_departure(database) };
        // Counted once it is ours: of two sessions that come at once, one may give way for nothing, but both never stay.
        // SAFETY: reads a global of the process.
        let role = unsafe { pg_sys::GetAuthenticatedUserId().to_u32() };
        slot.role.store(role, SeqCst);
        let of_role = |slot: &&ExclusionSlot| slot.holder_pid.load(SeqCst) != 0 && slot.role.load(SeqCst) == role;
        let taken = slots.iter().filter(|slot| slot.holder_pid.load(SeqCst) != 0).count();
        if !is_superuser && taken > slots.len() / 2 && slots.iter().filter(of_role).count() > MOST_OF_A_ROLE {
            slot.free();
            return wait_for_departure(database);
        }
        // Registered before the exclusion counts for anything.
        register_callbacks();
        // SAFETY: in a transaction.
        let taken_in = unsafe { pg_sys::GetCurrentSubTransactionId() };
        MINE.with_borrow_mut(|exclusions| exclusions.push(OwnExclusion { slot, taken_in }));
        slot.database.store(database, SeqCst);
    }
    wait_for_departure(database);
}

/// Says that this transaction drops the extension of its database: once it is committed, nobody is missed there, and a
/// dispatcher that was not asked to leave beforehand has to look.
pub fn extension_is_dropped() {
    register_callbacks();
    // SAFETY: in a transaction.
    let dropped_in = unsafe { pg_sys::GetCurrentSubTransactionId() };
    DROPS.with_borrow_mut(|drops| drops.push(dropped_in));
}

fn wait_for_departure(database: u32) {
    let began = Instant::now();
    let mut cancelled: Option<Instant> = None;
    let mut terminated = false;
    // It leaves the board a moment before it leaves the process array, where Postgres looks.
    let mut known = None;
    loop {
        let waited = began.elapsed();
        match registry::presence(database) {
            Presence::Here(pid) => known = Some(pid),
            Presence::Coming if waited < COMING_AT_MOST => {}
            Presence::Coming | Presence::Absent if known.is_some_and(is_connected) => {}
            // A runner that runs nothing leaves at once; one that does is a session like any other.
            Presence::Coming | Presence::Absent if waited < BYSTANDERS_AT_MOST && runners::has_bystander(database) => {}
            Presence::Coming | Presence::Absent => return,
        }
        if waited > GIVE_UP_AFTER {
            return;
        }
        if let Some(pid) = known {
            let cancel_now = cancelled.map_or(waited > GRACE, |last| last.elapsed() > CANCEL_EVERY);
            if waited > TERMINATE_AFTER && !terminated && registry::presence(database) == Presence::Here(pid) {
                signal(pid, pg_sys::SIGTERM as i32);
                terminated = true;
            } else if cancel_now && registry::presence(database) == Presence::Here(pid) {
                signal(pid, pg_sys::SIGINT as i32);
                cancelled = Some(Instant::now());
            }
            registry::nudge(pid);
        }
        latch::pause_in_statement(LOOK_EVERY);
    }
}

fn is_connected(pid: i32) -> bool {
    // SAFETY: looks through the process array under its lock.
    unsafe { !pg_sys::BackendPidGetProc(pid).is_null() }
}

fn register_callbacks() {
    if !REGISTERED.replace(true) {
        // SAFETY: the callbacks live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ended), null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), null_mut());
            pg_sys::before_shmem_exit(Some(process_ends), pg_sys::Datum::null());
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE {
        let dropped = !DROPS.take().is_empty();
        if dropped && event == XACT_EVENT_COMMIT {
            registry::not_needed(pg_sys::MyDatabaseId.to_u32());
        }
        release(|_| true);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_ended(
    event: pg_sys::SubXactEvent::Type,
    mine: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _argument: *mut c_void,
) {
    use pg_sys::SubXactEvent::{SUBXACT_EVENT_ABORT_SUB, SUBXACT_EVENT_COMMIT_SUB};
    if event == SUBXACT_EVENT_ABORT_SUB {
        release(|exclusion| exclusion.taken_in == mine);
        DROPS.with_borrow_mut(|drops| drops.retain(|dropped_in| *dropped_in != mine));
    } else if event == SUBXACT_EVENT_COMMIT_SUB {
        MINE.with_borrow_mut(|exclusions| {
            for exclusion in exclusions.iter_mut().filter(|exclusion| exclusion.taken_in == mine) {
                exclusion.taken_in = parent;
            }
        });
        DROPS.with_borrow_mut(|drops| drops.iter_mut().filter(|drop| **drop == mine).for_each(|drop| *drop = parent));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn process_ends(_code: c_int, _argument: pg_sys::Datum) {
    release(|_| true);
}

/// Ends exclusions of this backend; the launcher sends dispatchers where they are missed.
fn release(which: impl Fn(&OwnExclusion) -> bool) {
    let released = MINE.with_borrow_mut(|exclusions| {
        let before = exclusions.len();
        exclusions.retain(|exclusion| {
            let goes = which(exclusion);
            if goes {
                exclusion.slot.free();
            }
            !goes
        });
        before > exclusions.len()
    });
    if released {
        registry::wake_launcher();
    }
}
