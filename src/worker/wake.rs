//! How a commit wakes a worker: shared memory says who sleeps until when, and a commit callback sets the latch of a
//! dispatcher that would otherwise sleep too long.
//!
//! No wake-up is lost: a dispatcher publishes AWAKE before it reads the tables and its next wake time after, and the callback
//! runs when the rows are visible already. Either the dispatcher reads them, or the callback finds AWAKE (or a later
//! time) and sets the latch, and a set latch ends the next sleep at once.
//! PREPARE TRANSACTION runs no commit callback, and a crash forgets everything: `sched.tick_interval` bounds both.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering::SeqCst};

use pgrx::prelude::*;
use pgrx::{pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

/// How many databases can have a dispatcher at the same time.
pub const MAX_DATABASES: usize = 256;

/// Published while a dispatcher is working: every deadline is earlier.
const AWAKE: i64 = i64::MAX;

/// One database. A slot is given to a database once and stays its own until the server restarts.
struct Slot {
    database: AtomicU32,
    dispatcher_pid: AtomicI32,
    next_wake: AtomicI64,
    /// Something was committed here that wants a dispatcher (CREATE EXTENSION).
    wanted: AtomicBool,
    /// A dispatcher was sent here and did not leave of its own will: where none lives, one is missing.
    served: AtomicBool,
}

/// What all processes share.
pub struct Board {
    launcher_pid: AtomicI32,
    slots: [Slot; MAX_DATABASES],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Board {}

impl Default for Board {
    fn default() -> Board {
        Board {
            launcher_pid: AtomicI32::new(0),
            slots: std::array::from_fn(|_| Slot {
                database: AtomicU32::new(0),
                dispatcher_pid: AtomicI32::new(0),
                next_wake: AtomicI64::new(AWAKE),
                wanted: AtomicBool::new(false),
                served: AtomicBool::new(false),
            }),
        }
    }
}

// SAFETY: the name is unique to this library.
static BOARD: PgAtomic<Board> = unsafe { PgAtomic::new(c"scheduler_board") };
/// Whether the library was preloaded, so that BOARD exists. Set before any process is forked.
static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(BOARD);
    PRELOADED.store(true, SeqCst);
}

/// Whether the workers can exist at all.
pub fn preloaded() -> bool {
    PRELOADED.load(SeqCst)
}

fn board() -> Option<&'static Board> {
    preloaded().then(|| BOARD.get())
}

fn slot_of(database: u32) -> Option<&'static Slot> {
    board()?.slots.iter().find(|slot| slot.database.load(SeqCst) == database)
}

/// The slot of a database, taken for it where it has none; `None` where all are taken.
fn slot_for(database: u32) -> Option<&'static Slot> {
    slot_of(database).or_else(|| {
        let take = |slot: &&Slot| slot.database.compare_exchange(0, database, SeqCst, SeqCst).is_ok();
        board()?.slots.iter().find(take)
    })
}

/// Sets the latch of a process, if it still lives. Never raises.
fn set_latch(pid: i32) {
    if pid == 0 {
        return;
    }
    // SAFETY: a PGPROC stays valid memory for ever; where the process is gone or another took its place, somebody's latch
    // is set once for nothing.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid);
        if !process.is_null() {
            pg_sys::SetLatch(&raw mut (*process).procLatch);
        }
    }
}

// What this backend's transaction asks for once it has committed.
thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// The earliest time at which the dispatcher has something to do because of this transaction.
    static DEADLINE: Cell<Option<i64>> = const { Cell::new(None) };
    static WANT_DISPATCHER: Cell<bool> = const { Cell::new(false) };
}

/// Asks that this database's dispatcher be awake at `deadline` at the latest, if this transaction commits.
pub fn at_commit(deadline: Instant) {
    if preloaded() {
        register_callback();
        let micros = deadline.as_micros();
        DEADLINE.set(Some(DEADLINE.get().map_or(micros, |known| known.min(micros))));
    }
}

/// Asks for a dispatcher in this database, if this transaction commits.
pub fn dispatcher_at_commit() {
    if preloaded() {
        register_callback();
        WANT_DISPATCHER.set(true);
    }
}

fn register_callback() {
    if !REGISTERED.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(transaction_ended), std::ptr::null_mut()) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if event == XACT_EVENT_COMMIT {
        let database = pg_sys::MyDatabaseId.to_u32();
        if let (Some(deadline), Some(slot)) = (DEADLINE.take(), slot_of(database)) {
            if deadline < slot.next_wake.load(SeqCst) {
                set_latch(slot.dispatcher_pid.load(SeqCst));
            }
        }
        if WANT_DISPATCHER.take() {
            want(database);
        }
    } else if event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE {
        DEADLINE.set(None);
        WANT_DISPATCHER.set(false);
    }
}

/// Has the launcher start a dispatcher in this database. Where no slot is free the launcher finds out by itself, later.
fn want(database: u32) {
    if let Some(slot) = slot_for(database) {
        slot.wanted.store(true, SeqCst);
    }
    if let Some(board) = board() {
        set_latch(board.launcher_pid.load(SeqCst));
    }
}

/// The dispatcher's side of the board.
pub struct Dispatcher(&'static Slot);

impl Dispatcher {
    /// Takes the place of this database's dispatcher; `None` where a living one has it.
    pub fn enter(database: u32, pid: i32) -> Option<Dispatcher> {
        let slot = slot_for(database)?;
        let known = slot.dispatcher_pid.load(SeqCst);
        if known != pid && is_alive(known) {
            return None;
        }
        slot.dispatcher_pid.compare_exchange(known, pid, SeqCst, SeqCst).ok()?;
        slot.wanted.store(false, SeqCst);
        // Until it has looked: one that dies before is missed as well.
        slot.served.store(true, SeqCst);
        slot.next_wake.store(AWAKE, SeqCst);
        Some(Dispatcher(slot))
    }

    /// To be said before leaving because there is nothing to serve: nobody misses us, and the slot is free again.
    pub fn leave(self) {
        let database = self.0.database.load(SeqCst);
        self.0.served.store(false, SeqCst);
        self.0.dispatcher_pid.store(0, SeqCst);
        self.0.database.store(0, SeqCst);
        // CREATE EXTENSION may have committed since we looked.
        if self.0.wanted.swap(false, SeqCst) {
            want(database);
        }
    }

    /// To be said before the tables are read.
    pub fn awake(&self) {
        self.0.next_wake.store(AWAKE, SeqCst);
    }

    /// To be said before sleeping; commits that have something earlier wake us.
    pub fn sleeping_until(&self, wake: Instant) {
        self.0.next_wake.store(wake.as_micros(), SeqCst);
    }
}

/// To be said when a dispatcher exits, however it does: the launcher looks whether to start another.
pub fn dispatcher_left(database: u32, pid: i32) {
    if let Some(slot) = slot_of(database) {
        let _ = slot.dispatcher_pid.compare_exchange(pid, 0, SeqCst, SeqCst);
        slot.next_wake.store(AWAKE, SeqCst);
    }
    if let Some(board) = board() {
        set_latch(board.launcher_pid.load(SeqCst));
    }
}

fn is_alive(pid: i32) -> bool {
    // SAFETY: looks through the process array under its lock.
    pid != 0 && unsafe { !pg_sys::BackendPidGetProc(pid).is_null() }
}

/// The launcher's side of the board.
pub struct Launcher(&'static Board);

impl Launcher {
    /// Takes the launcher's place; `None` where the library was not preloaded.
    pub fn enter(pid: i32) -> Option<Launcher> {
        let board = board()?;
        board.launcher_pid.store(pid, SeqCst);
        Some(Launcher(board))
    }

    /// Whether something in this database asked for a dispatcher since the last time; forgets it.
    pub fn take_wanted(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| slot.wanted.swap(false, SeqCst))
    }

    /// Whether this database has a living dispatcher.
    pub fn has_dispatcher(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| is_alive(slot.dispatcher_pid.load(SeqCst)))
    }

    /// To be said before a dispatcher is started; false where all slots are taken.
    pub fn expect_dispatcher(&self, database: u32) -> bool {
        let slot = slot_for(database);
        if let Some(slot) = slot {
            slot.served.store(true, SeqCst);
        }
        slot.is_some()
    }

    /// Whether a dispatcher of this database has died on duty.
    pub fn misses_dispatcher(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| slot.served.load(SeqCst))
    }

    /// Gives back the slots of databases that are no more.
    pub fn forget_missing(&self, exists: impl Fn(u32) -> bool) {
        for slot in &self.0.slots {
            let database = slot.database.load(SeqCst);
            if database != 0 && !exists(database) {
                slot.dispatcher_pid.store(0, SeqCst);
                slot.wanted.store(false, SeqCst);
                slot.served.store(false, SeqCst);
                slot.database.store(0, SeqCst);
            }
        }
    }
}
