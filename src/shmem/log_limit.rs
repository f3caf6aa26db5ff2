//! How much runs write to the server's log: ten lines of a job in a second, and so many bytes of all jobs of a role, whichever processes run them. A job
//! that fails at once, at each second of many schedules, would fill the disk otherwise, and any role can define any number of them.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use pgrx::prelude::*;
use pgrx::{pg_shmem_init, PGRXSharedMemory, PgAtomic};

use crate::shmem::registry;

/// The most lines of one job in one second.
pub const MOST_LINES: u64 = 10;
/// The most bytes of lines of one role's runs in one second.
pub const MOST_BYTES: u64 = 65_536;
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
    /// The same of roles, and how many bytes.
    bytes: [AtomicU64; PLACES],
}

impl Default for Places {
    fn default() -> Places {
        Places {
            keys: RandomState::new(),
            lines: std::array::from_fn(|_| AtomicU64::default()),
            bytes: std::array::from_fn(|_| AtomicU64::default()),
        }
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
    let place = places.keys.hash_one((database, job_name));
    add(&places.lines[place as usize % PLACES], 1, MOST_LINES, now)
}

/// What is written of a line of a role's run, at a time in microseconds.
pub fn of_role(role: u32, line: String, now: i64) -> Option<String> {
    if !registry::preloaded() {
        return Some(line);
    }
    let places = PLACES_OF_JOBS.get();
    let place = &places.bytes[places.keys.hash_one(role) as usize % PLACES];
    match add(place, line.len() as u64, MOST_BYTES, now) {
        Line::Written => Some(line),
        Line::FirstLeftOut => Some(format!(
            "{line}; after {MOST_BYTES} bytes, further lines of the role's jobs are left out until the next second"
        )),
        Line::LeftOut => None,
    }
}

/// Adds so much to what a place had in this second.
fn add(place: &AtomicU64, much: u64, most: u64, now: i64) -> Line {
    let second = now.div_euclid(1_000_000).unsigned_abs() << COUNT_BITS;
    let known = |before: u64| if before & !COUNT == second { before & COUNT } else { 0 };
    let next = |before: u64| Some(second | (known(before) + much).min(COUNT));
    let before = known(place.fetch_update(SeqCst, SeqCst, next).unwrap_or_default());
    match before + much {
        all if all <= most => Line::Written,
        _ if before <= most => Line::FirstLeftOut,
        _ => Line::LeftOut,
    }
}
