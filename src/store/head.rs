//! Where the first entry of a queue can be.
//!
//! What was claimed leaves dead entries at the head of `sched.ready`'s index until VACUUM takes them away, which it can't while any transaction of the server is
//! older than they are. A claim that begins at the head goes past all of them, and a queue that is drained meanwhile takes the longer for
//! a claim the more has been claimed. So shared memory remembers, for each queue, before which position there is nothing.
//!
//! Nothing is passed over: who adds an entry says so once it stands in the index, committed or not. Who looked at the entries says where the first one is
//! only if nobody has added any since the look began. And a look counts all that may yet become claimable: what open transactions (prepared
//! ones too) add, and what they take. Entries of which nobody tells (rows that a superuser writes, that replication or a restore brings) are found when
//! somebody looks from the very head again, `TRUSTED` later at most.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering::SeqCst};

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use pgrx::{pg_guard, pg_shmem_init, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

use crate::store::catalog;

/// For how long the position is believed, in microseconds, after a look that began at the very head.
const TRUSTED: i64 = 10_000_000;

/// How many queues are remembered at most: of two that share a place the one that came first is, as long as it is claimed from.
const PLACES: usize = 256;

/// A time long before which everything is forgotten.
const NEVER: i64 = i64::MIN;

/// The place of an entry in the order of claiming.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    priority: Reverse<i32>,
    plan_time: i64,
    id: u128,
}

impl Position {
    /// After every entry.
    pub const END: Position = Position { priority: Reverse(i32::MIN), plan_time: i64::MAX, id: u128::MAX };

    /// Of an entry with this priority, plan time (in microseconds of Postgres) and id.
    pub fn new(priority: i32, plan_time: i64, id: Uuid) -> Position {
        Position { priority: Reverse(priority), plan_time, id: u128::from_be_bytes(*id.as_bytes()) }
    }

    /// Its priority, plan time and id.
    pub fn parts(self) -> (i32, i64, Uuid) {
        (self.priority.0, self.plan_time, Uuid::from_bytes(self.id.to_be_bytes()))
    }
}

/// What is remembered of one queue. Written and read under its lock only.
#[derive(Default)]
struct Place {
    lock: AtomicBool,
    /// Of which queue; nobody's where both are 0.
    queue: [AtomicU64; 2],
    /// Of which table of which database.
    table: AtomicU64,
    /// How often anybody has added entries to a queue that has its place here.
    additions: AtomicU64,
    /// Before this position there is nothing.
    priority: AtomicI32,
    plan_time: AtomicI64,
    id: [AtomicU64; 2],
    /// When the look began that went to the very head.
    since: AtomicI64,
}

/// What all processes share.
pub struct Heads([Place; PLACES]);

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Heads {}

impl Default for Heads {
    fn default() -> Heads {
        Heads(std::array::from_fn(|_| Place::default()))
    }
}

// SAFETY: the name is unique to this library.
static HEADS: PgAtomic<Heads> = unsafe { PgAtomic::new(c"scheduler_heads") };
static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(HEADS);
    PRELOADED.store(true, SeqCst);
}

impl Place {
    /// Nobody else reads or writes it while `body` runs: a few loads and stores, of which none can fail.
    fn locked<R>(&self, body: impl FnOnce() -> R) -> R {
        while self.lock.compare_exchange_weak(false, true, SeqCst, SeqCst).is_err() {
            std::thread::yield_now();
        }
        let result = body();
        self.lock.store(false, SeqCst);
        result
    }

    /// Before which position of this queue there is nothing, and since when that is known.
    fn known(&self, queue: [u64; 2], now: i64) -> Option<(Position, i64)> {
        let since = self.since.load(SeqCst);
        let is_its = self.queue.each_ref().map(|part| part.load(SeqCst)) == queue;
        (is_its && (0..TRUSTED).contains(&now.saturating_sub(since))).then(|| (self.position(), since))
    }

    fn position(&self) -> Position {
        let [upper, lower] = self.id.each_ref().map(|part| u128::from(part.load(SeqCst)));
        Position {
            priority: Reverse(self.priority.load(SeqCst)),
            plan_time: self.plan_time.load(SeqCst),
            id: upper << 64 | lower,
        }
    }

    fn is_anybodys(&self, now: i64) -> bool {
        let queue = self.queue.each_ref().map(|part| part.load(SeqCst));
        queue != [0, 0] && self.known(queue, now).is_some()
    }

    fn remember(&self, queue: [u64; 2], table: u64, (position, since): (Position, i64)) {
        self.table.store(table, SeqCst);
        for (part, value) in self.queue.iter().zip(queue) {
            part.store(value, SeqCst);
        }
        self.priority.store(position.priority.0, SeqCst);
        self.plan_time.store(position.plan_time, SeqCst);
        for (part, value) in self.id.iter().zip([(position.id >> 64) as u64, position.id as u64]) {
            part.store(value, SeqCst);
        }
        self.since.store(since, SeqCst);
    }

    /// Where no position is given the addition may be anywhere.
    fn added(&self, queue: [u64; 2], at: Option<Position>) {
        self.locked(|| {
            self.additions.fetch_add(1, SeqCst);
            if self.queue.each_ref().map(|part| part.load(SeqCst)) == queue {
                match at {
                    Some(at) if at < self.position() => {
                        self.remember(queue, self.table.load(SeqCst), (at, self.since.load(SeqCst)));
                    }
                    Some(_) => {}
                    None => self.since.store(NEVER, SeqCst),
                }
            }
        });
    }

    fn forget(&self, table: u64) {
        self.locked(|| {
            self.additions.fetch_add(1, SeqCst);
            if self.table.load(SeqCst) == table {
                self.since.store(NEVER, SeqCst);
            }
        });
    }
}

/// A queue of this database.
#[derive(Clone, Copy)]
pub struct Queue {
    place: &'static Place,
    queue: [u64; 2],
    table: u64,
}

/// A table of this database among those of all.
fn of_all(table: Oid) -> u64 {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId };
    u64::from(database.to_u32()) << 32 | u64::from(table.to_u32())
}

impl Queue {
    /// The queue of this name in `table`, which is `sched.ready`; `None` where the library is not preloaded, and nothing is remembered.
    pub fn of(table: Oid, name: &str) -> Option<Queue> {
        if !PRELOADED.load(SeqCst) {
            return None;
        }
        let table = of_all(table);
        let queue = [1, 2].map(|part| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u32(part);
            hasher.write_u64(table);
            hasher.write(name.as_bytes());
            hasher.finish() | 1
        });
        let place = HEADS.get().0.get((queue[0] >> 32) as usize % PLACES)?;
        Some(Queue { place, queue, table })
    }

    /// To be said when an entry stands in the index, at this position or after it.
    pub fn added(self, at: Position) {
        self.place.added(self.queue, Some(at));
    }

    /// To be said before the entries are looked at.
    pub fn look(self, now: Instant) -> Look {
        let now = now.as_micros();
        self.place.locked(|| {
            let known = self.place.known(self.queue, now);
            Look {
                queue: self,
                additions: self.place.additions.load(SeqCst),
                from: known.map(|(position, _)| position),
                since: known.map_or(now, |(_, since)| since),
            }
        })
    }
}

/// A look at the entries of a queue.
#[derive(Clone, Copy)]
pub struct Look {
    queue: Queue,
    additions: u64,
    /// Where it may begin; `None` is the very head.
    pub from: Option<Position>,
    since: i64,
}

impl Look {
    /// To be said when the look has found that before this position there is nothing.
    pub fn found(self, first: Position, now: Instant) {
        let (Queue { place, queue, table }, now) = (self.queue, now.as_micros());
        place.locked(|| {
            let unchanged = place.additions.load(SeqCst) == self.additions;
            if unchanged && (place.known(queue, now).is_some() || !place.is_anybodys(now)) {
                place.remember(queue, table, (first, self.since));
            }
        });
    }
}

/// To be said when a statement has added entries to these queues, wherever.
pub fn changed(queues: &[String]) {
    let table = catalog::schema().and_then(|schema| catalog::relation_in(schema, c"ready"));
    let Some(table) = table else { return };
    for queue in queues.iter().filter_map(|name| Queue::of(table, name)) {
        queue.place.added(queue.queue, None);
    }
}

/// To be said when somebody has written to a table without telling where: all that is remembered of its queues is forgotten.
pub fn forget(table: Oid) {
    if PRELOADED.load(SeqCst) {
        HEADS.get().0.iter().for_each(|place| place.forget(of_all(table)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: [u64; 2] = [7, 9];
    const OTHER: [u64; 2] = [7, 11];

    fn place() -> Queue {
        Queue { place: Box::leak(Box::default()), queue: QUEUE, table: 3 }
    }

    fn at(micros: i64) -> Instant {
        Instant::from_micros(micros).expect("an instant")
    }

    /// The last parts of an id count as little as possible.
    fn position(priority: i32, plan_time: i64) -> Position {
        Position { priority: Reverse(priority), plan_time, id: 7 << 64 | 9 }
    }

    #[test]
    fn positions_stand_in_the_order_of_claiming() {
        let order = [
            (9, 5, 3),
            (9, 6, 0),
            (9, 6, 1),
            (9, 6, 1 << 64),
            (1, -3, 7),
            (0, 0, 0),
            (-4, 2, 9),
            (i32::MIN, i64::MAX, 8),
        ];
        let positions = order.map(|(priority, plan_time, id)| Position { priority: Reverse(priority), plan_time, id });
        assert!(positions.is_sorted_by(|one, other| one < other) && positions.iter().all(|one| *one < Position::END));
        let queue = place();
        for this in positions {
            let (priority, plan_time, id) = this.parts();
            assert_eq!(Position::new(priority, plan_time, id), this);
            queue.look(at(0)).found(this, at(1));
            assert_eq!(queue.look(at(2)).from, Some(this));
        }
    }

    #[test]
    fn what_a_look_has_found_is_where_the_next_one_begins() {
        let queue = place();
        let look = queue.look(at(0));
        assert_eq!(look.from, None);
        look.found(position(0, 50), at(1));
        assert_eq!(queue.look(at(2)).from, Some(position(0, 50)));
    }

    #[test]
    fn an_entry_before_it_moves_it_back_and_one_behind_it_does_not() {
        let queue = place();
        queue.look(at(0)).found(position(3, 50), at(1));
        queue.added(position(3, 60));
        queue.added(position(2, 10));
        assert_eq!(queue.look(at(2)).from, Some(position(3, 50)));
        queue.added(position(3, 40));
        assert_eq!(queue.look(at(2)).from, Some(position(3, 40)));
        queue.added(position(4, 90));
        assert_eq!(queue.look(at(2)).from, Some(position(4, 90)));
        queue.place.added(QUEUE, None);
        assert_eq!(queue.look(at(2)).from, None);
        queue.look(at(3)).found(position(3, 50), at(3));
        queue.place.forget(4);
        assert_eq!(queue.look(at(3)).from, Some(position(3, 50)));
        queue.place.forget(3);
        assert_eq!(queue.look(at(3)).from, None);
    }

    #[test]
    fn a_look_during_which_somebody_added_says_nothing() {
        let queue = place();
        let look = queue.look(at(0));
        queue.added(position(0, 10));
        look.found(position(0, 50), at(1));
        assert_eq!(queue.look(at(2)).from, None);
        // Also where the place was another queue's meanwhile: whose entry it was is not asked.
        let look = queue.look(at(2));
        Queue { queue: OTHER, ..queue }.added(position(0, 10));
        look.found(position(0, 50), at(3));
        assert_eq!(queue.look(at(4)).from, None);
    }

    #[test]
    fn it_is_believed_for_a_while_from_the_look_at_the_very_head_on() {
        let queue = place();
        queue.look(at(0)).found(position(0, 50), at(1));
        queue.look(at(TRUSTED - 1)).found(position(0, 70), at(TRUSTED - 1));
        assert_eq!(queue.look(at(TRUSTED - 1)).from, Some(position(0, 70)));
        assert_eq!(queue.look(at(TRUSTED)).from, None);
        // The clock was set back.
        assert_eq!(queue.look(at(-1)).from, None);
    }

    #[test]
    fn two_queues_of_one_place_do_not_meddle() {
        let one = place();
        let other = Queue { queue: OTHER, ..one };
        one.look(at(0)).found(position(0, 50), at(1));
        other.look(at(2)).found(position(0, 10), at(3));
        other.added(position(0, 5));
        assert_eq!((one.look(at(4)).from, other.look(at(4)).from), (Some(position(0, 50)), None));
        // Nobody has looked at the first one's head for long.
        other.look(at(TRUSTED)).found(position(0, 10), at(TRUSTED));
        assert_eq!(other.look(at(TRUSTED + 1)).from, Some(position(0, 10)));
        assert_eq!(one.look(at(TRUSTED + 1)).from, None);
    }
}
