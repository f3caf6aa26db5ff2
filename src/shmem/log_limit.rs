//! How many lines the runs of a job write to the server's log: ten in a second, whichever processes run them. A job that fails at once, at each
//! second of many schedules, would fill the disk otherwise, and any role can define one.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use pgrx::prelude::*;
use pgrx::{pg_shmem_init, PGRXSharedMemory, PgAtomic};

use crate::shmem::registry;

/// The most lines of one job in one second.
pub const MOST_LINES: u64 = 10;
/// Jobs share a place where their hashes meet, and then its lines.
const PLACES: usize = 256;
/// The second stands above the number of lines.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;

/// For each place the second of its last line, and how many lines it had in that second.
#[derive(Debug)]
pub struct Places {
    /// The server's own, so that no role can choose a name that has the place of another role's job.
    keys: RandomState,
    lines: [AtomicU64; PLACES],
}

impl Default for Places {
    fn default() -> Places {
        Places { keys: RandomState::new(), lines: std::array::from_fn(|_| AtomicU64::default()) }
    }
}

// SAFETY: atomics, and two numbers that nobody writes after the start.
unsafe impl PGRXSharedMemory for Places {}

// SAFETY: the name is unique to this library.
static PLACES_OF_JOBS: PgAtomic<Places> = unsafe { PgAtomic::new(c"scheduler_log_limit") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(PLACES_OF_JOBS);
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// It is written.
    Written,
    /// It is the first of its second that is not: one line says so.
    FirstLeftOut,
    /// It is left out.
    LeftOut,
}

/// Counts a line of a job's run, at a time in microseconds.
pub fn count(database: u32, job_name: &str, now: i64) -> Line {
    if !registry::preloaded() {
        return Line::Written;
    }
    let places = PLACES_OF_JOBS.get();
    let place = &places.lines[(places.keys.hash_one((database, job_name)) % PLACES as u64) as usize];
    let second = now.div_euclid(1_000_000).unsigned_abs() << COUNT_BITS;
    let next = |before: u64| match before & !COUNT {
        this if this == second => Some(second | ((before & COUNT) + 1).min(COUNT)),
        _ => Some(second | 1),
    };
    let before = place.fetch_update(SeqCst, SeqCst, next).unwrap_or_default();
    match next(before).unwrap_or_default() & COUNT {
        written if written <= MOST_LINES => Line::Written,
        first if first == MOST_LINES + 1 => Line::FirstLeftOut,
        _ => Line::LeftOut,
    }
}
