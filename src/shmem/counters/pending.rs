//! What a transaction has counted and not committed yet, in its backend's own memory. A (sub)transaction that is rolled back takes its counts
//! along. So does PREPARE TRANSACTION: whoever commits it, in another session or after a restart, knows nothing of them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{DefaultHasher, Hasher};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, Oid};
use scheduler_core::metrics::{Counts, Event};

use super::{area, this_database, Place, SeriesName};

/// How many places a session remembers.
const MOST_KNOWN: usize = 1024;
/// How many blocks of counts it keeps for the next transaction.
const MOST_SPARE: usize = 4;

/// What a (sub)transaction has counted.
struct Level {
    made_in: pg_sys::SubTransactionId,
    counts: Vec<(Place, Box<Counts>)>,
    ticks: u64,
}

/// Where this session has found the series of this database.
#[derive(Default)]
struct KnownPlaces {
    generation: u32,
    places: HashMap<(u64, u32), Place>,
    /// What was asked for last: mostly what is asked for next.
    last: Option<LastPlace>,
}

struct LastPlace {
    job: String,
    queue: String,
    owner: u32,
    place: Place,
}

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// Of the open (sub)transactions, the innermost last.
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
    // They move from one list to another.
    #[allow(clippy::vec_box)]
    static SPARE: RefCell<Vec<Box<Counts>>> = const { RefCell::new(Vec::new()) };
    /// An empty one, with the memory that the last transaction had.
    static IDLE: Cell<Option<Level>> = const { Cell::new(None) };
    static KNOWN: RefCell<KnownPlaces> = RefCell::default();
    static BEGINS_ANEW: Cell<bool> = const { Cell::new(false) };
}

/// Counts events of a job's executions in a queue (as users know it), if this transaction commits.
pub fn count(job: &str, queue: &str, owner: Oid, events: &[Event]) {
    if let Some(place) = find_place(job, queue, owner) {
        add(|level| {
            let counts = level.counts_of(place);
            events.iter().for_each(|event| counts.add(*event));
        });
    }
}

/// Counts a call that does what a round of a dispatcher does, if this transaction commits.
pub fn tick_at_commit() {
    if area().is_some() {
        add(|level| level.ticks += 1);
    }
}

/// Has this database's counters begin anew, if this transaction commits: its extension is being created.
pub fn begin_anew_at_commit() {
    if area().is_some() {
        register_callbacks();
        BEGINS_ANEW.set(true);
    }
}

/// Where a series is counted; `None` where nothing is.
fn find_place(job: &str, queue: &str, owner: Oid) -> Option<Place> {
    let (area, database, owner) = (area()?, this_database(), owner.to_u32());
    let generation = area.database(database)?.generation.load(SeqCst);
    KNOWN.with_borrow_mut(|known| {
        if known.generation != generation || known.places.len() >= MOST_KNOWN {
            *known = KnownPlaces { generation, ..KnownPlaces::default() };
        }
        if let Some(last) =
            known.last.as_ref().filter(|last| (&*last.job, &*last.queue, last.owner) == (job, queue, owner))
        {
            return Some(last.place);
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(job.as_bytes());
        hasher.write_u8(0);
        hasher.write(queue.as_bytes());
        let key = (hasher.finish(), owner);
        let place = *known.places.entry(key).or_insert_with(|| area.place(database, &SeriesName { job, queue, owner }));
        known.last = Some(LastPlace { job: job.to_owned(), queue: queue.to_owned(), owner, place });
        Some(place)
    })
}

impl Level {
    fn new(made_in: pg_sys::SubTransactionId) -> Level {
        let counts = IDLE.take().map_or_else(Vec::new, |idle| idle.counts);
        Level { made_in, counts, ticks: 0 }
    }

    fn counts_of(&mut self, place: Place) -> &mut Counts {
        // Mostly the last: what a batch has of one job comes together.
        let known = self.counts.iter().rposition(|(known, _)| *known == place);
        let index = known.unwrap_or_else(|| {
            let counts = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
            self.counts.push((place, counts));
            self.counts.len() - 1
        });
        &mut self.counts[index].1
    }

    fn absorb(&mut self, other: Level) {
        for (place, counts) in other.counts {
            self.counts_of(place).absorb(&counts);
            keep(counts);
        }
        self.ticks += other.ticks;
    }
}

/// Keeps a block for the next who counts.
fn keep(mut counts: Box<Counts>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < MOST_SPARE {
            *counts = Counts::default();
            spare.push(counts);
        }
    });
}

fn register_callbacks() {
    if !REGISTERED.replace(true) {
        // SAFETY: the callbacks live as long as the library, which is never unloaded.
        unsafe {
            pg_sys::RegisterXactCallback(Some(transaction_ended), null_mut());
            pg_sys::RegisterSubXactCallback(Some(subtransaction_ended), null_mut());
        }
    }
}

fn add(count: impl FnOnce(&mut Level)) {
    register_callbacks();
    // SAFETY: in a transaction.
    let made_in = unsafe { pg_sys::GetCurrentSubTransactionId() };
    LEVELS.with_borrow_mut(|levels| count(level_of(levels, made_in)));
}

/// What this subtransaction, which is the innermost, has counted.
fn level_of(levels: &mut Vec<Level>, made_in: pg_sys::SubTransactionId) -> &mut Level {
    if levels.last().is_none_or(|last| last.made_in != made_in) {
        levels.push(Level::new(made_in));
    }
    let last = levels.len() - 1;
    &mut levels[last]
}

/// Adds what was counted to what all have.
fn publish(levels: &mut Vec<Level>) {
    let Some((area, slot)) = area().and_then(|area| Some((area, area.database(this_database())?))) else { return };
    for mut level in levels.drain(..) {
        for (place, counts) in level.counts.drain(..) {
            match place {
                Place::Own(place) => area.series[usize::from(place)].counts.add(&counts),
                Place::Other => slot.other.add(&counts),
            }
            keep(counts);
        }
        if level.ticks > 0 {
            slot.ticks.fetch_add(level.ticks, SeqCst);
        }
        IDLE.set(Some(level));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_ended(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if event == XACT_EVENT_COMMIT {
        LEVELS.with_borrow_mut(|levels| {
            if BEGINS_ANEW.take() {
                super::begin_anew(levels.is_empty());
            }
            if !levels.is_empty() {
                publish(levels);
            }
            // What could not be added is nobody's.
            levels.clear();
        });
    } else if event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE {
        BEGINS_ANEW.set(false);
        LEVELS.take();
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
    if event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB {
        return;
    }
    LEVELS.with_borrow_mut(|levels| {
        // Ids rise: those from `mine` on began in it.
        let first = levels.partition_point(|level| level.made_in < mine);
        if event == SUBXACT_EVENT_ABORT_SUB {
            levels.truncate(first);
        } else if first < levels.len() {
            let mut ended = levels.drain(first..).collect::<Vec<_>>().into_iter();
            if let Some(mut whole) = ended.next() {
                ended.for_each(|level| whole.absorb(level));
                // What it alone has counted goes on as its parent's.
                match levels.last_mut().filter(|level| level.made_in == parent) {
                    Some(level) => level.absorb(whole),
                    None => {
                        whole.made_in = parent;
                        levels.push(whole);
                    }
                }
            }
        }
    });
}
