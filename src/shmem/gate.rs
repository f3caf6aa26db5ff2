//! A gate before the tables of a database: whoever wants them all to himself (`store/exclusive_lock.rs`) closes it while he waits for those who have
//! some in hand. They come through, and newcomers wait before they have any. Without it, sessions that come one after the other and take the
//! tables in different orders would have some of them in hand at any time.
//!
//! It costs those who come through one load. Nobody waits there for long: who does may have something in hand that somebody inside needs.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use pgrx::{pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};

use crate::pg::{compat, latch, oid_cache, session, syscache};
use crate::shmem::registry;

/// How many gates can be closed at the same time, in all databases. Who finds none left does without.
const MAX_GATES: usize = 16;
/// How long a newcomer waits.
const AT_MOST: Duration = Duration::from_secs(2);
/// How often he looks, in milliseconds.
const LOOK_EVERY: i64 = 5;

#[derive(Default)]
struct Gate {
    /// Who has closed it; 0 is nobody's.
    pid: AtomicI32,
    database: AtomicU32,
}

/// What all processes share.
#[derive(Default)]
pub struct Gates {
    /// How many are closed.
    closed: AtomicU32,
    gates: [Gate; MAX_GATES],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Gates {}

// SAFETY: the name is unique to this library.
static GATES: PgAtomic<Gates> = unsafe { PgAtomic::new(c"scheduler_gates") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(GATES);
    session::before_tables(pass);
}

/// While it lives, newcomers to this database wait.
pub struct Closed(());

/// Closes the gate of this database; `None` where it cannot be.
pub fn close() -> Option<Closed> {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    if !registry::preloaded() {
        return None;
    }
    REGISTERED.call_once(|| {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::before_shmem_exit(Some(process_ends), pg_sys::Datum::null()) }
    });
    // SAFETY: reads globals of the process.
    let (me, database) = unsafe { (pg_sys::MyProcPid, pg_sys::MyDatabaseId.to_u32()) };
    let free = |gate: &&Gate| gate.pid.compare_exchange(0, me, SeqCst, SeqCst).is_ok();
    let gate = GATES.get().gates.iter().find(free)?;
    gate.database.store(database, SeqCst);
    GATES.get().closed.fetch_add(1, SeqCst);
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
    for gate in GATES.get().gates.iter().filter(|gate| gate.pid.load(SeqCst) == me) {
        if gate.database.swap(0, SeqCst) != 0 {
            GATES.get().closed.fetch_sub(1, SeqCst);
        }
        gate.pid.store(0, SeqCst);
    }
}

/// To be called before the first table is touched, inside a transaction.
fn pass() {
    if registry::preloaded() && GATES.get().closed.load(SeqCst) > 0 {
        wait_outside();
    }
}

#[cold]
fn wait_outside() {
    // SAFETY: reads globals of the process.
    let (me, here) = unsafe { (pg_sys::MyProcPid, pg_sys::MyDatabaseId.to_u32()) };
    let is_closed =
        || GATES.get().gates.iter().any(|gate| gate.database.load(SeqCst) == here && gate.pid.load(SeqCst) != me);
    let began = Instant::now();
    // Who has something in hand is who is waited for.
    if is_closed() && !has_locks() {
        while is_closed() && began.elapsed() < AT_MOST {
            latch::pause_in_statement(LOOK_EVERY);
        }
    }
}

/// Whether this transaction has a lock on anything of ours.
fn has_locks() -> bool {
    let relations = oid_cache::schema().map(|(schema, _)| syscache::relations_of(schema));
    relations.into_iter().flatten().any(compat::is_locked_by_me)
}
