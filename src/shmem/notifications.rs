//! Which queues are to hear of new work: a commit marks them here, and the dispatcher of the database sends one NOTIFY for each.
//!
//! A transaction that notifies itself holds a lock of the whole server from before its commit until that is flushed, so that those who enqueue
//! would commit one after the other; and it cannot be prepared. A mark costs a few stores.
//!
//! A queue has an entry, which it is given before the commit, when it may still be told that there is none. No mark is lost: it says for
//! which generation of the entry it is, and who finds that the entry was given to another queue meanwhile has the dispatcher notify all queues
//! in which something waits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};

use pgrx::{pg_guard, pg_shmem_init, pg_sys, PGRXSharedMemory, PgAtomic};

use crate::shmem::registry::{self, marks};
use crate::shmem::spinlock;

/// How many queues have an entry at the same time, in all databases.
const MAX_QUEUES: usize = 256;
/// A mark that waited so long, in microseconds: whoever is to send it is busy with something else.
const PATIENCE: i64 = 1_000_000;
/// How many entries a process remembers.
const MOST_REMEMBERED: usize = 1024;

/// A queue's name, of at most 64 bytes.
type Name = [u64; 8];

struct Entry {
    database: AtomicU32,
    name: [AtomicU64; 8],
    /// Another one for each queue that it was given to. 0 = none yet.
    generation: AtomicU64,
    /// The generation that is to be notified; 0 = nothing is.
    marked: AtomicU64,
    /// When it was marked.
    marked_at: AtomicI64,
}

impl Entry {
    fn name(&self) -> Name {
        std::array::from_fn(|part| self.name[part].load(SeqCst))
    }

    fn is_for(&self, database: u32, name: &Name) -> bool {
        self.database.load(SeqCst) == database && self.name() == *name
    }
}

/// What all processes share.
pub struct Notifications {
    /// Nobody else gives entries away or reads their names.
    lock: AtomicBool,
    generations: AtomicU64,
    /// Which entry to give away next.
    next: AtomicUsize,
    entries: [Entry; MAX_QUEUES],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Notifications {}

impl Default for Notifications {
    fn default() -> Notifications {
        Notifications {
            lock: AtomicBool::new(false),
            generations: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            entries: std::array::from_fn(|_| Entry {
                database: AtomicU32::new(0),
                name: std::array::from_fn(|_| AtomicU64::new(0)),
                generation: AtomicU64::new(0),
                marked: AtomicU64::new(0),
                marked_at: AtomicI64::new(0),
            }),
        }
    }
}

// SAFETY: the name is unique to this library.
static NOTIFICATIONS: PgAtomic<Notifications> = unsafe { PgAtomic::new(c"scheduler_notifications") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(NOTIFICATIONS);
}

/// A queue's entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QueueEntry {
    number: usize,
    generation: u64,
}

thread_local! {
    /// The entries of this database's queues, as this process has last found them.
    static REMEMBERED: RefCell<HashMap<Box<str>, QueueEntry>> = RefCell::new(HashMap::new());
}

/// The entry of a queue of this database; `None` where the transaction is to notify by itself: nobody else would, or not in time, or all
/// entries are taken.
pub fn entry_of(queue: &str) -> Option<QueueEntry> {
    // SAFETY: reads globals of the process, and the clock.
    let (database, now) = unsafe { (pg_sys::MyDatabaseId.to_u32(), pg_sys::GetCurrentTimestamp()) };
    if !registry::preloaded() || !marks::sends_notifications(database) {
        return None;
    }
    let all = NOTIFICATIONS.get();
    let remembered = REMEMBERED.with_borrow(|remembered| remembered.get(queue).copied());
    let is_current = |entry: &QueueEntry| all.entries[entry.number].generation.load(SeqCst) == entry.generation;
    let entry = remembered.filter(is_current).or_else(|| {
        let (found, robbed) = all.give(database, packed(queue)?, marks::sends_notifications);
        robbed.into_iter().for_each(marks::notify_all);
        let found = found?;
        REMEMBERED.with_borrow_mut(|remembered| {
            if remembered.len() >= MOST_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(queue.into(), found);
        });
        Some(found)
    })?;
    let found = &all.entries[entry.number];
    let waits = found.marked.load(SeqCst) != 0 && now.saturating_sub(found.marked_at.load(SeqCst)) > PATIENCE;
    (!waits).then_some(entry)
}

/// To be said once what is new is there to be seen.
pub fn mark(database: u32, entry: QueueEntry, now: i64) {
    let found = &NOTIFICATIONS.get().entries[entry.number];
    if found.marked.load(SeqCst) == 0 {
        found.marked_at.store(now, SeqCst);
    }
    // (Not over a later one: the entry may have been given to a queue of another database, which nobody would tell.)
    found.marked.fetch_max(entry.generation, SeqCst);
    if found.generation.load(SeqCst) == entry.generation {
        marks::notify_marked(database);
    } else {
        marks::notify_all(database);
    }
}

/// The queues of a database that are marked, each once; they are not any longer.
pub fn take_marked(database: u32) -> Vec<String> {
    let all = NOTIFICATIONS.get();
    // (With room for all: nothing may fail under the lock.)
    let mut names: Vec<Name> = Vec::with_capacity(MAX_QUEUES);
    spinlock::locked(&all.lock, || {
        for entry in &all.entries {
            if entry.marked.load(SeqCst) == 0 || entry.database.load(SeqCst) != database {
                continue;
            }
            // (The mark of one that was given away since: see `mark`.)
            if entry.marked.swap(0, SeqCst) == entry.generation.load(SeqCst) {
                names.push(entry.name());
            }
        }
    });
    names.iter().filter_map(unpacked).collect()
}

impl Notifications {
    /// The entry of this queue, given to it where it has none, and nothing where all are marked in databases that have somebody who `sends`;
    /// and the database of whom it was taken from while it was marked.
    fn give(&self, database: u32, name: Name, sends: impl Fn(u32) -> bool) -> (Option<QueueEntry>, Option<u32>) {
        spinlock::locked(&self.lock, || {
            let found = self.entries.iter().position(|entry| entry.is_for(database, &name));
            if let Some(number) = found {
                let generation = self.entries[number].generation.load(SeqCst);
                return (Some(QueueEntry { number, generation }), None);
            }
            let next = self.next.load(SeqCst);
            let mut turns = (next..next + MAX_QUEUES).map(|number| number % MAX_QUEUES);
            // Whose database has nobody who would send it waits for nobody.
            let is_free = |number: &usize| {
                let entry = &self.entries[*number];
                entry.marked.load(SeqCst) == 0 || !sends(entry.database.load(SeqCst))
            };
            let Some(number) = turns.find(is_free) else { return (None, None) };
            self.next.store(number + 1, SeqCst);
            let generation = self.generations.fetch_add(1, SeqCst) + 1;
            let entry = &self.entries[number];
            let before = entry.database.load(SeqCst);
            entry.generation.store(generation, SeqCst);
            // Who marked it in between may have seen the generation of before.
            let robbed = (entry.marked.swap(0, SeqCst) != 0).then_some(before);
            entry.database.store(database, SeqCst);
            name.iter().zip(&entry.name).for_each(|(value, part)| part.store(*value, SeqCst));
            (Some(QueueEntry { number, generation }), robbed)
        })
    }
}

/// `None` for a name that is longer than a channel's, and that nobody can listen for.
fn packed(queue: &str) -> Option<Name> {
    let mut bytes = [0; 64];
    bytes.get_mut(..queue.len())?.copy_from_slice(queue.as_bytes());
    let mut parts = bytes.chunks_exact(8);
    // (A name has no null character.)
    Some(std::array::from_fn(|_| parts.next().and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)))
}

fn unpacked(name: &Name) -> Option<String> {
    let bytes: Vec<u8> = name.iter().flat_map(|part| part.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{packed, unpacked, Notifications, MAX_QUEUES};
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn names_come_back_as_they_were() {
        for name in ["q", "", "äöü", &"x".repeat(57), &"x".repeat(64)] {
            assert_eq!(packed(name).and_then(|name| unpacked(&name)).as_deref(), Some(name));
        }
        assert!(packed(&"x".repeat(65)).is_none());
    }

    #[test]
    fn a_queue_has_one_entry_until_another_needs_it() {
        let all = Notifications::default();
        let give =
            |database, text: &str| all.give(database, packed(text).unwrap_or_default(), |database| database != 3);
        let (first, _) = give(1, "a");
        assert!(first.is_some() && first == give(1, "a").0);
        assert!(first != give(2, "a").0, "another database's");
        for number in 0..MAX_QUEUES - 2 {
            give(1, &format!("{number}"));
        }
        assert!(first == give(1, "a").0, "nobody needed it");
        let (robber, robbed) = give(1, "b");
        assert!(robber.is_some_and(|robber| first.is_some_and(|first| robber.number == first.number)));
        assert!(robbed.is_none());
        let generation = all.entries[0].generation.load(SeqCst);
        assert!(first.is_some_and(|first| first.generation != generation));
        all.entries.iter().for_each(|entry| entry.marked.store(entry.generation.load(SeqCst), SeqCst));
        assert!(give(1, "c").0.is_none(), "all are marked");
        all.entries[7].database.store(3, SeqCst);
        let (found, robbed) = give(1, "c");
        assert!(found.is_some_and(|found| found.number == 7) && robbed == Some(3));
    }
}
