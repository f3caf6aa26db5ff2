//! What was counted since the server started: of each database, and in it of each job and queue.
//!
//! A transaction counts in its backend's own memory (`pending`) and adds that here once it has committed. Who adds takes no lock: a number is
//! added with one atomic instruction, so that a process which is stopped or killed in the middle keeps nobody waiting. Only who needs a new
//! series takes one.
//!
//! The tables are of a fixed size. What finds no room in them is counted in its database's `other`, which always has some.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::metrics::{Counts, WIDTH};

use crate::shmem::spinlock;

mod names;
pub mod pending;

use names::SharedName;

/// What the job or queue of a series is called that has none of its own.
pub const OTHER: &str = "other";
/// How many jobs of an owner have a series of their own, and how many queues.
const MOST_NAMES: usize = 200;
/// How many series an owner has at most: a job has one for each of its queues.
const MOST_OF_OWNER: usize = 256;
/// How many series a database has at most: no owner takes more than half of them, so that others keep theirs.
const MOST_OF_DATABASE: usize = 2 * MOST_OF_OWNER;
/// How many databases are counted in. Of more than that only gauges are known.
const DATABASES: usize = 128;
/// How many series there are in all databases together.
const SERIES: usize = 2048;
/// Job names have 1,000 bytes at most.
const JOB_WORDS: usize = 125;
/// Names of queues 57.
const QUEUE_WORDS: usize = 8;

/// Which series: that of a place in the table, or the database's `other`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A job's in a queue.
    Own(u16),
    /// That of all which have none.
    Other,
    /// It is not known yet: this transaction is the first that counts in this series. It gets a place when it commits (`pending`).
    New(u16),
}

/// Who looks for a series compares these, and nothing else.
struct Key {
    /// 0: nobody's.
    database: AtomicU32,
    owner: AtomicU32,
    job: AtomicU64,
    queue: AtomicU64,
}

struct Series {
    job: SharedName<JOB_WORDS>,
    queue: SharedName<QUEUE_WORDS>,
    counts: SharedCounts,
}

/// `Counts` that everybody adds to.
struct SharedCounts([AtomicU64; WIDTH]);

impl SharedCounts {
    fn add(&self, counts: &Counts) {
        for (mine, more) in self.0.iter().zip(counts.0) {
            if more > 0 {
                // What has no more room stays at the top: a counter never falls.
                if mine.fetch_add(more, SeqCst).checked_add(more).is_none() {
                    mine.store(u64::MAX, SeqCst);
                }
            }
        }
    }

    fn read(&self) -> Counts {
        let mut counts = Counts::default();
        for (count, shared) in counts.0.iter_mut().zip(&self.0) {
            *count = shared.load(SeqCst);
        }
        counts
    }

    fn clear(&self) {
        self.0.iter().for_each(|count| count.store(0, SeqCst));
    }
}

struct DatabaseSlot {
    /// 0: nobody's.
    database: AtomicU32,
    /// How often it began anew: who remembers a place compares this.
    generation: AtomicU32,
    since: AtomicI64,
    ticks: AtomicU64,
    other: SharedCounts,
}

/// What all processes share. Zeros are an empty table.
struct Area {
    /// When it was made.
    since: AtomicI64,
    /// Of those who give and free series.
    lock: AtomicBool,
    databases: [DatabaseSlot; DATABASES],
    keys: [Key; SERIES],
    series: [Series; SERIES],
}

/// Where it is; null where the library is not preloaded.
static AREA: AtomicPtr<Area> = AtomicPtr::new(std::ptr::null_mut());

type Hook = Option<unsafe extern "C-unwind" fn()>;
static mut PREVIOUS_REQUEST: Hook = None;
static mut PREVIOUS_STARTUP: Hook = None;

/// Reserves the shared memory; only while shared_preload_libraries are loaded. Not by pgrx' macro, whose value is made on the stack first.
pub fn register() {
    // SAFETY: the postmaster's only thread.
    unsafe {
        PREVIOUS_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREVIOUS_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    if let Some(previous) = PREVIOUS_REQUEST {
        pg_sys::submodules::ffi::pg_guard_ffi_boundary(|| previous());
    }
    pg_sys::RequestAddinShmemSpace(size_of::<Area>());
}

/// In the postmaster, when it starts and after each crash; its children inherit the address.
#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    if let Some(previous) = PREVIOUS_STARTUP {
        pg_sys::submodules::ffi::pg_guard_ffi_boundary(|| previous());
    }
    let mut found = false;
    let area = pg_sys::ShmemInitStruct(c"scheduler_counters".as_ptr(), size_of::<Area>(), &mut found).cast::<Area>();
    if !found {
        std::ptr::write_bytes(area, 0, 1);
        (*area).since.store(pg_sys::GetCurrentTimestamp(), SeqCst);
    }
    AREA.store(area, SeqCst);
}

fn area() -> Option<&'static Area> {
    // SAFETY: it was zeroed before its address was written, and stays for as long as the process.
    unsafe { AREA.load(SeqCst).as_ref() }
}

/// This process' database; 0 where it has none.
fn this_database() -> u32 {
    // SAFETY: reads a global of the process.
    unsafe { pg_sys::MyDatabaseId.to_u32() }
}

impl Area {
    /// The slot of a database, given to it where it has none; `None` where all are in use.
    fn database(&self, database: u32) -> Option<&DatabaseSlot> {
        let known = || self.databases.iter().find(|slot| slot.database.load(SeqCst) == database);
        known().or_else(|| {
            spinlock::locked(&self.lock, || {
                known().or_else(|| {
                    let free = self.databases.iter().find(|slot| slot.database.load(SeqCst) == 0)?;
                    free.begin_anew(self.since.load(SeqCst));
                    free.database.store(database, SeqCst);
                    Some(free)
                })
            })
        })
    }

    /// The places of a database's series, and their keys.
    fn keys_of(&self, database: u32) -> impl Iterator<Item = (usize, &Key)> {
        self.keys.iter().enumerate().filter(move |(_, key)| key.database.load(SeqCst) == database)
    }

    /// The series of a job in a queue, if it has one.
    fn find(&self, database: u32, wanted: &SeriesName) -> Option<Place> {
        let [job, queue] = [wanted.job, wanted.queue].map(names::hash);
        let is_it = |key: &Key| {
            (key.job.load(SeqCst), key.queue.load(SeqCst), key.owner.load(SeqCst)) == (job, queue, wanted.owner)
        };
        self.keys_of(database).find(|(_, key)| is_it(key)).map(|(place, _)| Place::Own(place as u16))
    }

    /// The same, given to it where it has none. Only for what is committed: a place is not given back.
    fn place(&self, database: u32, wanted: &SeriesName) -> Place {
        self.find(database, wanted).unwrap_or_else(|| {
            spinlock::locked(&self.lock, || self.find(database, wanted).unwrap_or_else(|| self.give(database, wanted)))
        })
    }

    /// Gives a series to a job that has none in this queue, as far as there is room. The lock is held.
    fn give(&self, database: u32, wanted: &SeriesName) -> Place {
        let [job, queue] = [wanted.job, wanted.queue].map(names::hash);
        let keys_of_owner = || self.keys_of(database).filter(|(_, key)| key.owner.load(SeqCst) == wanted.owner);
        let has_room = |hash: u64, of: fn(&Key) -> &AtomicU64| {
            let (mut known, mut count) = ([0_u64; MOST_NAMES], 0);
            for (_, key) in keys_of_owner() {
                let other = of(key).load(SeqCst);
                if other == hash {
                    return true;
                }
                if !known[..count].contains(&other) {
                    known[count] = other;
                    count += 1;
                }
                if count == MOST_NAMES {
                    break;
                }
            }
            count < MOST_NAMES || keys_of_owner().any(|(_, key)| of(key).load(SeqCst) == hash)
        };
        let may_have_own = wanted.job != OTHER
            && wanted.queue != OTHER
            && self.keys_of(database).count() < MOST_OF_DATABASE
            && keys_of_owner().count() < MOST_OF_OWNER
            && has_room(job, |key| &key.job)
            && has_room(queue, |key| &key.queue);
        let free = self.keys.iter().position(|key| key.database.load(SeqCst) == 0).filter(|_| may_have_own);
        let Some(place) = free else { return Place::Other };
        let (key, series) = (&self.keys[place], &self.series[place]);
        series.job.write(wanted.job);
        series.queue.write(wanted.queue);
        series.counts.clear();
        key.owner.store(wanted.owner, SeqCst);
        key.job.store(job, SeqCst);
        key.queue.store(queue, SeqCst);
        key.database.store(database, SeqCst);
        Place::Own(place as u16)
    }

    fn free_series_of(&self, database: u32) {
        self.keys_of(database).for_each(|(_, key)| key.database.store(0, SeqCst));
    }
}

impl DatabaseSlot {
    fn begin_anew(&self, since: i64) {
        self.generation.fetch_add(1, SeqCst);
        self.since.store(since, SeqCst);
        self.ticks.store(0, SeqCst);
        self.other.clear();
    }
}

/// What a series is known by.
struct SeriesName<'a> {
    job: &'a str,
    /// As users know it.
    queue: &'a str,
    owner: u32,
}

/// To be said when a dispatcher has done a round.
pub fn ticked() {
    if let Some(slot) = area().and_then(|area| area.database(this_database())) {
        slot.ticks.fetch_add(1, SeqCst);
    }
}

/// A series as it is read.
pub struct ReadSeries {
    /// The job.
    pub job: String,
    /// Its queue, as users know it.
    pub queue: String,
    /// Who owns the executions; nobody knows of `other`, which is of many.
    pub owner: Option<Oid>,
    /// What was counted.
    pub counts: Counts,
}

/// What was counted in this database.
pub struct Reading {
    /// Since when, as a timestamp.
    pub since: i64,
    /// Rounds of dispatchers.
    pub ticks: u64,
    /// All series in which something was counted.
    pub series: Vec<ReadSeries>,
}

/// What was counted in this database; `None` where nothing is.
pub fn read() -> Option<Reading> {
    let (area, database) = (area()?, this_database());
    let slot = area.database(database)?;
    let own = area.keys_of(database).map(|(place, key)| {
        let series = &area.series[place];
        ReadSeries {
            job: series.job.read(),
            queue: series.queue.read(),
            owner: Some(Oid::from_u32(key.owner.load(SeqCst))),
            counts: series.counts.read(),
        }
    });
    let other = ReadSeries { job: OTHER.to_owned(), queue: OTHER.to_owned(), owner: None, counts: slot.other.read() };
    let series = own.chain([other]).filter(|series| !series.counts.is_empty()).collect();
    Some(Reading { since: slot.since.load(SeqCst), ticks: slot.ticks.load(SeqCst), series })
}

/// When this memory was made: the server started, or began anew after a crash; `None` where the library is not preloaded.
pub fn made_at() -> Option<i64> {
    area().map(|area| area.since.load(SeqCst))
}

/// The databases that something was counted in.
pub fn databases() -> Vec<u32> {
    let slots = area().into_iter().flat_map(|area| &area.databases);
    slots.map(|slot| slot.database.load(SeqCst)).filter(|database| *database != 0).collect()
}

/// Frees what a database had that is gone.
pub fn forget(database: u32) {
    let Some(area) = area() else { return };
    spinlock::locked(&area.lock, || {
        area.free_series_of(database);
        let slots = area.databases.iter().filter(|slot| slot.database.load(SeqCst) == database);
        slots.for_each(|slot| slot.database.store(0, SeqCst));
    });
}

/// This database's extension is a new one: nobody has counted for it, and whoever counted for the one before has committed.
/// (All of it held locks on what the old extension had.) Series go, unless this transaction has places among them.
fn begin_anew(frees_series: bool) {
    let database = this_database();
    if let Some((area, slot)) = area().and_then(|area| Some((area, area.database(database)?))) {
        spinlock::locked(&area.lock, || {
            area.keys_of(database).for_each(|(place, _)| area.series[place].counts.clear());
            if frees_series {
                area.free_series_of(database);
            }
            // SAFETY: reads the clock.
            slot.begin_anew(unsafe { pg_sys::GetCurrentTimestamp() });
        });
    }
}
