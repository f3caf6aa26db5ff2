//! Who is at work in which database and who sleeps until when, in shared memory: the board. `wakeup.rs` says why no wake-up is lost.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering::SeqCst};

use pgrx::{pg_guard, pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

use crate::shmem::spinlock;

pub mod launcher;
pub mod marks;
pub mod rest;
pub mod runner_news;

/// How many databases can have a dispatcher at the same time.
pub const MAX_DATABASES: usize = 256;

/// Published while a dispatcher is working: every deadline is earlier.
const AWAKE: i64 = i64::MAX;

/// One database that has, may have or wants a dispatcher. Slots are given and taken back under `Board::slots_lock`.
struct Slot {
    database: AtomicU32,
    /// From before it connects until it exits. Always true: every exit but a crash takes it back, and a crash forgets all.
    dispatcher_pid: AtomicI32,
    next_wake: AtomicI64,
    /// Something was committed here that wants a dispatcher (CREATE EXTENSION).
    wanted: AtomicBool,
    /// A dispatcher was sent here and did not leave because there is nothing to serve: where none lives, one is missing.
    served: AtomicBool,
    /// The postmaster was asked for a dispatcher that has not come yet.
    starting: AtomicBool,
    /// A dispatcher came as far as it was to: it connected, or made way.
    reached: AtomicBool,
    /// The dispatcher has found the extension.
    settled: AtomicBool,
    /// It left before it could, because somebody had locked what it has to read.
    locked: AtomicBool,
    /// Its dispatcher has given its worker slot to others: until `next_wake` nothing is to be done here, unless somebody calls.
    resting: AtomicBool,
    /// Until when the dispatcher has nothing to do, as far as it knows; it may look around before that.
    idle_until: AtomicI64,
    /// The dispatcher that is here came back from such a rest.
    resumed: AtomicBool,
    /// Something may be waiting here for a runner, or for a place for one.
    runners_wanted: AtomicBool,
    /// A runner has left in the middle of a run.
    run_lost: AtomicBool,
    /// Something else than notifications wants the dispatcher's attention.
    called: AtomicBool,
    /// The dispatcher sends what commits mark (`notifications.rs`).
    sends: AtomicBool,
    /// Until when schedules lay ahead of a clock that was set back, when a dispatcher looked.
    ahead_until: AtomicI64,
    /// Queues are marked.
    marked: AtomicBool,
    /// Nobody knows which queues have something new.
    all_marked: AtomicBool,
    /// The dispatcher has taken marks and not sent yet what they are for.
    sending: AtomicBool,
}

/// What all processes share.
pub struct Board {
    launcher_pid: AtomicI32,
    /// Somebody wanted a dispatcher when no slot was free.
    overlooked: AtomicBool,
    /// When the postmaster last had no worker slot for a dispatcher or a runner.
    lacked_at: AtomicI64,
    /// Since when a database with the extension has waited for a dispatcher, for want of a worker slot; the end of all times where none does.
    waiting_since: AtomicI64,
    /// A dispatcher that has nothing to do is to give its worker slot away.
    one_is_to_rest: AtomicBool,
    slots_lock: AtomicBool,
    slots: [Slot; MAX_DATABASES],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Board {}

impl Default for Board {
    fn default() -> Board {
        Board {
            launcher_pid: AtomicI32::new(0),
            overlooked: AtomicBool::new(false),
            lacked_at: AtomicI64::new(i64::MIN),
            waiting_since: AtomicI64::new(i64::MAX),
            one_is_to_rest: AtomicBool::new(false),
            slots_lock: AtomicBool::new(false),
            slots: std::array::from_fn(|_| Slot {
                database: AtomicU32::new(0),
                dispatcher_pid: AtomicI32::new(0),
                next_wake: AtomicI64::new(AWAKE),
                wanted: AtomicBool::new(false),
                served: AtomicBool::new(false),
                starting: AtomicBool::new(false),
                reached: AtomicBool::new(false),
                settled: AtomicBool::new(false),
                locked: AtomicBool::new(false),
                resting: AtomicBool::new(false),
                idle_until: AtomicI64::new(i64::MIN),
                resumed: AtomicBool::new(false),
                runners_wanted: AtomicBool::new(false),
                run_lost: AtomicBool::new(false),
                called: AtomicBool::new(false),
                sends: AtomicBool::new(false),
                ahead_until: AtomicI64::new(i64::MIN),
                marked: AtomicBool::new(false),
                all_marked: AtomicBool::new(false),
                sending: AtomicBool::new(false),
            }),
        }
    }
}

impl Board {
    /// Nobody else gives or takes slots while `body` runs.
    fn with_slots<R>(&self, body: impl FnOnce() -> R) -> R {
        spinlock::locked(&self.slots_lock, body)
    }

    fn slot_of(&self, database: u32) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.database.load(SeqCst) == database)
    }

    /// The slot of a database, taken for it where it has none; `None` where all are taken. Under the lock only.
    fn slot_for(&self, database: u32) -> Option<&Slot> {
        self.slot_of(database).or_else(|| {
            let slot = self.slot_of(0)?;
            slot.clear();
            slot.database.store(database, SeqCst);
            Some(slot)
        })
    }
}

impl Slot {
    /// A dispatcher is here, or was asked for.
    fn is_attended(&self) -> bool {
        self.starting.load(SeqCst) || self.dispatcher_pid.load(SeqCst) != 0
    }

    /// Its dispatcher was sent and has not found the extension yet.
    fn is_looking(&self) -> bool {
        self.database.load(SeqCst) != 0 && self.is_attended() && !self.settled.load(SeqCst)
    }

    /// Another dispatcher begins: until it has looked, one that dies is missed.
    fn begin(&self) {
        self.served.store(true, SeqCst);
        for flag in [&self.reached, &self.settled, &self.locked] {
            flag.store(false, SeqCst);
        }
    }

    /// Has its dispatcher look at everything, also one that rests.
    fn call(&self) {
        self.called.store(true, SeqCst);
        set_latch(self.dispatcher_pid.load(SeqCst));
        if self.resting.load(SeqCst) {
            wake_launcher();
        }
    }

    /// Gives it back.
    fn clear(&self) {
        let of_dispatcher = [&self.wanted, &self.served, &self.starting, &self.reached, &self.settled, &self.locked];
        let news = [&self.runners_wanted, &self.run_lost, &self.called, &self.marked, &self.all_marked, &self.sending];
        for flag in of_dispatcher.into_iter().chain(news).chain([&self.sends, &self.resting, &self.resumed]) {
            flag.store(false, SeqCst);
        }
        self.ahead_until.store(i64::MIN, SeqCst);
        self.next_wake.store(AWAKE, SeqCst);
        self.idle_until.store(i64::MIN, SeqCst);
        self.dispatcher_pid.store(0, SeqCst);
        self.database.store(0, SeqCst);
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
    board()?.slot_of(database)
}

/// Sets the latch of a process, if it still lives. Never raises.
pub fn set_latch(pid: i32) {
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

/// Whether the board knows nothing of this database: it is a copy, it has no extension, or nobody was told that it has one.
pub fn is_unknown() -> bool {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    board().is_some_and(|board| board.slot_of(database).is_none())
}

/// Sets the latch of this database's dispatcher if it sleeps beyond this time.
pub fn wake_dispatcher(database: u32, deadline: i64) {
    if let Some(slot) = slot_of(database).filter(|slot| deadline < slot.next_wake.load(SeqCst)) {
        slot.call();
    }
}

/// To be said when a dispatcher has looked until when schedules lie ahead of the clock.
pub fn set_ahead_until(database: u32, until: Option<Instant>) {
    let until = until.map_or(i64::MIN, Instant::as_micros);
    slot_of(database).into_iter().for_each(|slot| slot.ahead_until.store(until, SeqCst));
}

/// Until when schedules of this database lay ahead of a clock that was set back, in microseconds; the beginning of time where none did.
pub fn ahead_until(database: u32) -> i64 {
    slot_of(database).map_or(i64::MIN, |slot| slot.ahead_until.load(SeqCst))
}

fn tell(database: u32, flag: impl Fn(&Slot) -> &AtomicBool) {
    if let Some(slot) = slot_of(database) {
        flag(slot).store(true, SeqCst);
        slot.call();
    }
}

/// Has the launcher start a dispatcher in this database.
pub fn want(database: u32) {
    let Some(board) = board() else { return };
    board.with_slots(|| match board.slot_for(database) {
        Some(slot) => slot.wanted.store(true, SeqCst),
        None => board.overlooked.store(true, SeqCst),
    });
    wake_launcher();
}

/// To be said when this database has lost its extension: a dispatcher that is there looks for itself, and one that has made
/// way is not missed, unless somebody wants one since.
pub fn not_needed(database: u32) {
    let Some(board) = board() else { return };
    board
        .with_slots(|| {
            let slot = board.slot_of(database)?;
            let pid = slot.dispatcher_pid.load(SeqCst);
            if pid == 0 && slot.wanted.load(SeqCst) {
                slot.served.store(false, SeqCst);
            } else if pid == 0 {
                slot.clear();
            }
            Some(slot)
        })
        .into_iter()
        .for_each(Slot::call);
}

/// The process of the launcher, if there is one.
pub fn launcher() -> Option<i32> {
    let pid = board()?.launcher_pid.load(SeqCst);
    // SAFETY: a look-up in shared memory; 0 is nobody's.
    (pid != 0 && unsafe { !pg_sys::BackendPidGetProc(pid).is_null() }).then_some(pid)
}

/// Has the launcher look which databases lack a dispatcher.
pub fn wake_launcher() {
    if let Some(board) = board() {
        set_latch(board.launcher_pid.load(SeqCst));
    }
}

/// Who serves a database, or is about to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Nobody.
    Absent,
    /// The postmaster was asked for a dispatcher.
    Coming,
    /// This process.
    Here(i32),
}

/// Who serves this database now.
pub fn presence(database: u32) -> Presence {
    let Some(slot) = slot_of(database) else { return Presence::Absent };
    match (slot.dispatcher_pid.load(SeqCst), slot.starting.load(SeqCst)) {
        (0, false) => Presence::Absent,
        (0, true) => Presence::Coming,
        (pid, _) => Presence::Here(pid),
    }
}

/// Has the dispatcher with this process id look around.
pub fn nudge(pid: i32) {
    set_latch(pid);
}

/// The dispatcher's side of the board.
pub struct Dispatcher(&'static Slot);

impl Dispatcher {
    /// Takes the place of this database's dispatcher; `None` where another has it. To be said before connecting, so that who
    /// wants the database to itself knows of us in time.
    pub fn enter(database: u32, pid: i32) -> Option<Dispatcher> {
        Dispatcher::enter_on(board()?, database, pid)
    }

    fn enter_on(board: &'static Board, database: u32, pid: i32) -> Option<Dispatcher> {
        board.with_slots(|| {
            let slot = board.slot_for(database)?;
            slot.dispatcher_pid.compare_exchange(0, pid, SeqCst, SeqCst).ok()?;
            slot.starting.store(false, SeqCst);
            slot.wanted.store(false, SeqCst);
            slot.resumed.store(slot.resting.swap(false, SeqCst), SeqCst);
            slot.begin();
            slot.next_wake.store(AWAKE, SeqCst);
            Some(Dispatcher(slot))
        })
    }

    /// To be said once connected, and by one that makes way: the database is no hopeless case.
    pub fn reached(&self) {
        self.0.reached.store(true, SeqCst);
    }

    /// To be said before leaving because a lock kept us from connecting or from looking for the extension.
    pub fn kept_out(&self) {
        self.0.locked.store(true, SeqCst);
        self.0.reached.store(false, SeqCst);
    }

    /// To be said once the extension was found. The launcher looks into a few unknown databases at a time: one less now.
    pub fn settled(&self) {
        self.0.settled.store(true, SeqCst);
        // What was left to one that went, and what one had taken that was ended before he sent it.
        self.0.marked.store(true, SeqCst);
        if self.0.sending.swap(false, SeqCst) {
            self.0.all_marked.store(true, SeqCst);
        }
        self.0.sends.store(true, SeqCst);
        wake_launcher();
    }

    /// To be said before leaving because there is nothing to serve: nobody misses us, and the slot is free again.
    pub fn leave(&self) {
        let Some(board) = board() else { return };
        board.with_slots(|| {
            // CREATE EXTENSION may have committed since we looked: the slot is kept then, for the launcher to see.
            let (database, wanted) = (self.0.database.load(SeqCst), self.0.wanted.load(SeqCst));
            self.0.clear();
            if wanted {
                self.0.wanted.store(true, SeqCst);
                self.0.database.store(database, SeqCst);
            }
        });
    }

    /// To be said before the tables are read.
    pub fn awake(&self) {
        self.0.next_wake.store(AWAKE, SeqCst);
        self.0.called.store(false, SeqCst);
    }

    /// To be said before sleeping: nothing is to be done before that, as far as is known.
    pub fn idle_until(&self, until: Instant) {
        self.0.idle_until.store(until.as_micros(), SeqCst);
    }

    /// Whether this process goes on where another one rested.
    pub fn has_resumed(&self) -> bool {
        self.0.resumed.load(SeqCst)
    }

    /// To be said before leaving because others need the worker slot and nothing is to be done before `until`: the launcher sends another then, or
    /// when a commit has something earlier. False where that has just come.
    pub fn rest(&self, until: Instant) -> bool {
        self.sleeping_until(until);
        self.0.resting.store(true, SeqCst);
        self.0.served.store(false, SeqCst);
        // Who has something earlier either saw the old time and has called, or sees that we rest.
        if self.is_called() {
            self.0.served.store(true, SeqCst);
            self.0.resting.store(false, SeqCst);
            return false;
        }
        true
    }

    /// Something else than notifications has woken us, or is about to.
    pub fn is_called(&self) -> bool {
        self.0.called.load(SeqCst)
    }

    /// To be said before sleeping; commits that have something earlier wake us.
    pub fn sleeping_until(&self, wake: Instant) {
        self.0.next_wake.store(wake.as_micros(), SeqCst);
    }
}

/// To be said when a dispatcher exits, however it does: the launcher looks whether to start another.
pub fn dispatcher_left(database: u32, pid: i32) {
    if let Some(slot) = slot_of(database) {
        if slot.dispatcher_pid.compare_exchange(pid, 0, SeqCst, SeqCst).is_ok() {
            if !slot.resting.load(SeqCst) {
                slot.next_wake.store(AWAKE, SeqCst);
            }
            slot.sends.store(false, SeqCst);
        }
    }
    wake_launcher();
}
