//! A door before the tables of a database: whoever wants them all to himself (`store/exclusive.rs`) closes it while he waits for those who have
//! some in hand. They come through, and newcomers wait before they have any. Without it, sessions that come one after the other and take the
//! tables in different orders would have some of them in hand at any time.
//!
//! It costs those who come through one load. Nobody waits there for long: who does may have something in hand that somebody inside needs.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use pgrx::{pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};

use crate::store::exclusive;
use crate::worker::{wait, wake};

/// How many doors can be closed at the same time, in all databases. Who finds none left does without.
const MAX_DOORS: usize = 16;
/// How long a newcomer waits.
const AT_MOST: Duration = Duration::from_secs(2);
/// How often he looks, in milliseconds.
const LOOK_EVERY: i64 = 5;

#[derive(Default)]
struct Door {
    /// Who has closed it; 0 is nobody's.
    pid: AtomicI32,
    database: AtomicU32,
}

/// What all processes share.
#[derive(Default)]
pub struct Doors {
    /// How many are closed.
    closed: AtomicU32,
    doors: [Door; MAX_DOORS],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Doors {}

// SAFETY: the name is unique to this library.
static DOORS: PgAtomic<Doors> = unsafe { PgAtomic::new(c"scheduler_doors") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(DOORS);
}

/// While it lives, newcomers to this database wait.
pub struct Closed(());

/// Closes the door of this database; `None` where it cannot be.
pub fn close() -> Option<Closed> {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    if !wake::preloaded() {
        return None;
    }
    REGISTERED.call_once(|| {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::before_shmem_exit(Some(process_ends), pg_sys::Datum::null()) }
    });
    // SAFETY: reads globals of the process.
    let (me, database) = unsafe { (pg_sys::MyProcPid, pg_sys::MyDatabaseId.to_u32()) };
    let free = |door: &&Door| door.pid.compare_exchange(0, me, SeqCst, SeqCst).is_ok();
    let door = DOORS.get().doors.iter().find(free)?;
    door.database.store(database, SeqCst);
    DOORS.get().closed.fetch_add(1, SeqCst);
    Some(Closed(()))
}

impl Drop for Closed {
    fn drop(&mut self) {
        open();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn process_ends(_code: c_int, _argument: pg_sys::Datum) {
    open();
}

/// Opens what this process has closed.
fn open() {
    // SAFETY: reads a global of the process.
    let me = unsafe { pg_sys::MyProcPid };
    for door in DOORS.get().doors.iter().filter(|door| door.pid.load(SeqCst) == me) {
        if door.database.swap(0, SeqCst) != 0 {
            DOORS.get().closed.fetch_sub(1, SeqCst);
        }
        door.pid.store(0, SeqCst);
    }
}

/// To be called before the first table is touched, inside a transaction.
pub fn pass() {
    if wake::preloaded() && DOORS.get().closed.load(SeqCst) > 0 {
        wait_outside();
    }
}

#[cold]
fn wait_outside() {
    // SAFETY: reads globals of the process.
    let (me, here) = unsafe { (pg_sys::MyProcPid, pg_sys::MyDatabaseId.to_u32()) };
    let is_closed =
        || DOORS.get().doors.iter().any(|door| door.database.load(SeqCst) == here && door.pid.load(SeqCst) != me);
    let began = Instant::now();
    // Who has something in hand is who is waited for.
    if is_closed() && !exclusive::has_any() {
        while is_closed() && began.elapsed() < AT_MOST {
            wait::pause_in_statement(LOOK_EVERY);
        }
    }
}
