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

use super::{area, this_database, Place, SeriesName, MOST_OF_OWNER};

/// How many places a session remembers.
const MOST_KNOWN: usize = 1024;
/// How many blocks of counts it keeps for the next transaction.
const MOST_SPARE: usize = 4;

/// What a (sub)transaction has counted.
struct Level {
    made_in: pg_sys::SubTransactionId,
    counts: Vec<(Place, Box<Counts>)>,
    ticks: u64,
    /// It has created the extension.
    begins_anew: bool,
}

/// A series that has no place yet.
struct NewSeries {
    job: String,
    queue: String,
    owner: u32,
    /// What it was given at commit.
    place: Option<Place>,
}

impl NewSeries {
    fn name(&self) -> SeriesName<'_> {
        SeriesName { job: &self.job, queue: &self.queue, owner: self.owner }
    }
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
    /// What the open transaction is the first to count in. A place is given at commit: what is rolled back takes none.
    static NEW: RefCell<Vec<NewSeries>> = const { RefCell::new(Vec::new()) };
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
        add(|level| level.begins_anew = true);
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
        let place = match known.places.get(&key) {
            Some(place) => *place,
            None => {
                let place =
                    area.find(database, &SeriesName { job, queue, owner }).or_else(|| new_place(job, queue, owner));
                // (Of too many in one transaction none is remembered.)
                let Some(place) = place else { return Some(Place::Other) };
                known.places.insert(key, place);
                place
            }
        };
        known.last = Some(LastPlace { job: job.to_owned(), queue: queue.to_owned(), owner, place });
        Some(place)
    })
}

/// Notes a series that is to be given a place at commit; `None` where this transaction has more of them than its owner can have places.
fn new_place(job: &str, queue: &str, owner: u32) -> Option<Place> {
    NEW.with_borrow_mut(|new| {
        let number = u16::try_from(new.len()).ok().filter(|number| usize::from(*number) < MOST_OF_OWNER)?;
        new.push(NewSeries { job: job.to_owned(), queue: queue.to_owned(), owner, place: None });
        Some(Place::New(number))
    })
}

/// The transaction has ended: a session remembers what has been given places, and forgets what has none.
fn forget_new() {
    NEW.with_borrow_mut(|new| {
        if new.is_empty() {
            return;
        }
        KNOWN.with_borrow_mut(|known| {
            known.last = None;
            known.places.retain(|_, place| {
                if let Place::New(number) = *place {
                    match new.get(usize::from(number)).and_then(|series| series.place) {
                        Some(given) => *place = given,
                        None => return false,
                    }
                }
                true
            });
        });
        new.clear();
    });
}

impl Level {
    fn new(made_in: pg_sys::SubTransactionId) -> Level {
        let counts = IDLE.take().map_or_else(Vec::new, |idle| idle.counts);
        Level { made_in, counts, ticks: 0, begins_anew: false }
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
        self.begins_anew |= other.begins_anew;
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
    let database = this_database();
    let Some((area, slot)) = area().and_then(|area| Some((area, area.database(database)?))) else { return };
    for mut level in levels.drain(..) {
        for (place, counts) in level.counts.drain(..) {
            match place {
                Place::Own(place) => area.series[usize::from(place)].counts.add(&counts),
                Place::Other => slot.other.add(&counts),
                // Where all were counted 0 times there is nothing to show.
                Place::New(_) if counts.is_empty() => {}
                Place::New(number) => NEW.with_borrow_mut(|new| {
                    let series = &mut new[usize::from(number)];
                    let place = series.place.unwrap_or_else(|| area.place(database, &series.name()));
                    series.place = Some(place);
                    match place {
                        Place::Own(place) => area.series[usize::from(place)].counts.add(&counts),
                        Place::Other | Place::New(_) => slot.other.add(&counts),
                    }
                }),
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
            if levels.iter().any(|level| level.begins_anew) {
                let uses = |level: &Level| level.counts.iter().any(|(place, _)| matches!(place, Place::Own(_)));
                super::begin_anew(!levels.iter().any(uses));
            }
            if !levels.is_empty() {
                publish(levels);
            }
            // What could not be added is nobody's.
            levels.clear();
        });
        forget_new();
    } else if event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE {
        LEVELS.take();
        forget_new();
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
