//! Where the first entry of an order can be: of a queue, of the leases by when they may run out, of the retries by when they are due.
//!
//! What was claimed leaves dead entries at the head of an index until VACUUM takes them away, which it can't while any transaction of the server is
//! older than they are. A claim that begins at the head goes past all of them, and a queue that is drained meanwhile takes the longer for
//! a claim the more has been claimed. So shared memory remembers, for each order, before which position nothing stands.
//!
//! Nothing is passed over: who adds an entry says so once it stands in the index, committed or not. Who looks for the first one says what he found
//! only as far as nothing was added before it since he began. And a look counts all that may yet come or come back: what open transactions (prepared
//! ones too) add, and what they take. Entries of which nobody tells (rows that a superuser writes, that replication or a restore brings) are found when
//! somebody looks from the very head again, `TRUSTED` later at most.

use std::cmp::Reverse;
use std::ffi::CStr;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering::SeqCst};

use pgrx::datum::Uuid;
use pgrx::pg_sys::{self, Oid};
use pgrx::{pg_guard, pg_shmem_init, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

use crate::store::catalog;

/// For how long a position is believed, in microseconds, after a look that began at the very head.
const TRUSTED: i64 = 10_000_000;

/// How long a look can take, in microseconds: one of which nothing was heard for longer ended with its process.
const LONGEST: i64 = 60_000_000;

/// How many orders are remembered at most: of two that share a place the one that came first is, as long as it is looked at.
const PLACES: usize = 256;

/// How many can look at one place at the same time; what more of them find is not remembered.
const LOOKERS: usize = 4;

/// A time long before which everything is forgotten.
const NEVER: i64 = i64::MIN;

/// The place of an entry in an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Position {
    priority: Reverse<i32>,
    time: i64,
    id: u128,
}

impl Position {
    /// Before every entry.
    const START: Position = Position { priority: Reverse(i32::MAX), time: i64::MIN, id: 0 };
    /// After every entry.
    pub const END: Position = Position { priority: Reverse(i32::MIN), time: i64::MAX, id: u128::MAX };

    /// In a queue, where plan times of one priority follow each other.
    pub fn new(priority: i32, plan_time: impl Into<i64>, id: Uuid) -> Position {
        Position { priority: Reverse(priority), time: plan_time.into(), id: u128::from_be_bytes(*id.as_bytes()) }
    }

    /// In an order of times: before what else has this time.
    pub fn at(time: impl Into<i64>) -> Position {
        Position { priority: Reverse(0), time: time.into(), id: 0 }
    }

    /// Its priority, time (in microseconds of Postgres) and id.
    pub fn parts(self) -> (i32, i64, Uuid) {
        (self.priority.0, self.time, Uuid::from_bytes(self.id.to_be_bytes()))
    }

    /// Whether an order of times has come to nothing at `now` yet.
    pub fn is_after(self, now: Instant) -> bool {
        self.time > now.as_micros()
    }
}

/// A position that processes share. Written and read under a lock.
#[derive(Default)]
struct Shared {
    priority: AtomicI32,
    time: AtomicI64,
    id: [AtomicU64; 2],
}

impl Shared {
    fn get(&self) -> Position {
        let [upper, lower] = self.id.each_ref().map(|part| u128::from(part.load(SeqCst)));
        Position {
            priority: Reverse(self.priority.load(SeqCst)),
            time: self.time.load(SeqCst),
            id: upper << 64 | lower,
        }
    }

    fn set(&self, position: Position) {
        self.priority.store(position.priority.0, SeqCst);
        self.time.store(position.time, SeqCst);
        for (part, value) in self.id.iter().zip([(position.id >> 64) as u64, position.id as u64]) {
            part.store(value, SeqCst);
        }
    }
}

/// Somebody who looks.
#[derive(Default)]
struct Looker {
    /// Which look; 0 is nobody's.
    number: AtomicU64,
    since: AtomicI64,
    /// The first of all that was added since.
    added: Shared,
}

/// What is remembered of one order. Written and read under its lock only.
#[derive(Default)]
struct Place {
    lock: AtomicBool,
    /// Of which order; nobody's where both are 0.
    order: [AtomicU64; 2],
    /// Of which table of which database.
    table: AtomicU64,
    /// Before this position nothing stands.
    first: Shared,
    /// When the look began that went to the very head.
    since: AtomicI64,
    looks: AtomicU64,
    lookers: [Looker; LOOKERS],
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

fn places() -> &'static [Place] {
    if PRELOADED.load(SeqCst) {
        &HEADS.get().0
    } else {
        &[]
    }
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

    fn order(&self) -> [u64; 2] {
        self.order.each_ref().map(|part| part.load(SeqCst))
    }

    /// Before which position of this order nothing stands, and since when that is known.
    fn known(&self, order: [u64; 2], now: i64) -> Option<(Position, i64)> {
        let since = self.since.load(SeqCst);
        let is_believed = (0..TRUSTED).contains(&now.saturating_sub(since));
        (self.order() == order && is_believed).then(|| (self.first.get(), since))
    }

    /// Whether it is another order's that is looked at.
    fn is_taken(&self, order: [u64; 2], now: i64) -> bool {
        let its = self.order();
        its != [0, 0] && its != order && self.known(its, now).is_some()
    }

    fn remember(&self, order: [u64; 2], table: u64, first: Position, since: i64) {
        for (part, value) in self.order.iter().zip(order) {
            part.store(value, SeqCst);
        }
        self.table.store(table, SeqCst);
        self.first.set(first);
        self.since.store(since, SeqCst);
    }

    /// Something stands now at this position or after it.
    fn added(&self, order: [u64; 2], at: Position) {
        self.locked(|| {
            // Whichever order they look at: who shares a place with others finds a little less.
            for looker in self.lookers.iter().filter(|looker| looker.number.load(SeqCst) != 0) {
                looker.added.set(looker.added.get().min(at));
            }
            if self.order() == order && at < self.first.get() {
                self.first.set(at);
            }
        });
    }

    fn forget(&self, table: u64) {
        self.locked(|| {
            self.lookers.iter().for_each(|looker| looker.added.set(Position::START));
            if self.table.load(SeqCst) == table {
                self.since.store(NEVER, SeqCst);
            }
        });
    }
}

/// An order of entries in this database.
#[derive(Clone, Copy)]
pub struct Order {
    place: &'static Place,
    order: [u64; 2],
    table: u64,
}

/// A table of this database among those of all.
fn of_all(table: Oid) -> u64 {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId };
    u64::from(database.to_u32()) << 32 | u64::from(table.to_u32())
}

impl Order {
    /// That of the queue `name` in a table, or the table's only one, which has no name. `None` where the library is not preloaded, and nothing is
    /// remembered.
    pub fn of(table: Oid, name: &str) -> Option<Order> {
        let table = of_all(table);
        let order = [1, 2].map(|part| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u32(part);
            hasher.write_u64(table);
            hasher.write(name.as_bytes());
            hasher.finish() | 1
        });
        let place = places().get((order[0] >> 32) as usize % PLACES)?;
        Some(Order { place, order, table })
    }

    /// To be said when an entry stands in the index, at this position or after it.
    pub fn added(self, at: Position) {
        self.place.added(self.order, at);
    }

    /// Before which position nothing stands, where that is known.
    pub fn first(self, now: Instant) -> Option<Position> {
        self.place.locked(|| self.place.known(self.order, now.as_micros())).map(|(first, _)| first)
    }

    /// To be said before the entries are looked at.
    pub fn look(self, now: Instant) -> Look {
        let (place, now) = (self.place, now.as_micros());
        place.locked(|| {
            let known = place.known(self.order, now);
            let is_free = |looker: &&Looker| {
                let age = now.saturating_sub(looker.since.load(SeqCst));
                looker.number.load(SeqCst) == 0 || !(0..LONGEST).contains(&age)
            };
            let looker = place.lookers.iter().find(is_free);
            let number = place.looks.fetch_add(1, SeqCst) + 1;
            if let Some(looker) = looker {
                looker.number.store(number, SeqCst);
                looker.since.store(now, SeqCst);
                looker.added.set(Position::END);
            }
            let since = known.map_or(now, |(_, since)| since);
            Look { order: self, from: known.map(|(first, _)| first), since, looker, number }
        })
    }
}

/// A look at the entries of an order.
pub struct Look {
    order: Order,
    /// Where it may begin; `None` is the very head.
    pub from: Option<Position>,
    since: i64,
    looker: Option<&'static Looker>,
    number: u64,
}

impl Look {
    /// What is remembered of this look, if it is still.
    fn looker(&self) -> Option<&'static Looker> {
        self.looker.filter(|looker| looker.number.load(SeqCst) == self.number)
    }

    /// To be said when the look has found that before this position nothing stands.
    pub fn found(self, first: Position, now: Instant) {
        let Order { place, order, table } = self.order;
        place.locked(|| {
            let Some(looker) = self.looker() else { return };
            let first = first.min(looker.added.get());
            if first > Position::START && !place.is_taken(order, now.as_micros()) {
                place.remember(order, table, first, self.since);
            }
        });
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.order.place.locked(|| {
            if let Some(looker) = self.looker() {
                looker.number.store(0, SeqCst);
            }
        });
    }
}

/// To be said when a statement has added entries to these queues, wherever.
pub fn changed(queues: &[String]) {
    let Some(table) = table(c"ready") else { return };
    queues.iter().filter_map(|name| Order::of(table, name)).for_each(|order| order.added(Position::START));
}

/// To be said when a statement has changed leases.
pub fn changed_leases() {
    added_to(c"lease", Position::START);
}

/// To be said when a run is to be tried again at that time.
pub fn added_retry(at: impl Into<i64>) {
    added_to(c"retry", Position::at(at));
}

fn added_to(name: &CStr, at: Position) {
    if let Some(order) = table(name).and_then(|table| Order::of(table, "")) {
        order.added(at);
    }
}

fn table(name: &CStr) -> Option<Oid> {
    catalog::relation_in(catalog::schema()?, name)
}

/// To be said when somebody has written to a table without telling where: all that is remembered of it is forgotten.
pub fn forget(table: Oid) {
    places().iter().for_each(|place| place.forget(of_all(table)));
}

/// The same of all tables.
pub fn forget_all() {
    [c"ready", c"lease", c"retry"].into_iter().filter_map(table).for_each(forget);
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: [u64; 2] = [7, 9];
    const OTHER: [u64; 2] = [7, 11];

    fn order() -> Order {
        Order { place: Box::leak(Box::default()), order: QUEUE, table: 3 }
    }

    fn at(micros: i64) -> Instant {
        Instant::from_micros(micros).expect("an instant")
    }

    fn position(priority: i32, time: i64) -> Position {
        Position { priority: Reverse(priority), time, id: 7 << 64 | 9 }
    }

    #[test]
    fn positions_stand_in_the_order_of_claiming() {
        let all = [
            (9, 5, 3),
            (9, 6, 0),
            (9, 6, 1),
            (9, 6, 1 << 64),
            (1, -3, 7),
            (0, 0, 0),
            (-4, 2, 9),
            (i32::MIN, i64::MAX, 8),
        ];
        let positions = all.map(|(priority, time, id)| Position { priority: Reverse(priority), time, id });
        assert!(positions.is_sorted_by(|one, other| one < other));
        assert!(positions.iter().all(|one| Position::START < *one && *one < Position::END));
        let order = order();
        for this in positions {
            let (priority, time, id) = this.parts();
            assert_eq!(Position::new(priority, time, id), this);
            order.look(at(0)).found(this, at(1));
            assert_eq!(order.first(at(2)), Some(this));
        }
    }

    #[test]
    fn what_a_look_has_found_is_where_the_next_one_begins() {
        let order = order();
        let look = order.look(at(0));
        assert_eq!(look.from, None);
        look.found(position(0, 50), at(1));
        assert_eq!(order.look(at(2)).from, Some(position(0, 50)));
        assert!(position(0, 50).is_after(at(49)) && !position(0, 50).is_after(at(50)));
    }

    #[test]
    fn an_entry_before_it_moves_it_back_and_one_behind_it_does_not() {
        let order = order();
        order.look(at(0)).found(position(3, 50), at(1));
        order.added(position(3, 60));
        order.added(position(2, 10));
        assert_eq!(order.first(at(2)), Some(position(3, 50)));
        order.added(position(3, 40));
        assert_eq!(order.first(at(2)), Some(position(3, 40)));
        order.added(position(4, 90));
        assert_eq!(order.first(at(2)), Some(position(4, 90)));
        order.added(Position::START);
        assert_eq!(order.first(at(2)), Some(Position::START));
        order.place.forget(4);
        assert_eq!(order.first(at(2)), Some(Position::START));
        order.place.forget(3);
        assert_eq!(order.first(at(2)), None);
    }

    #[test]
    fn a_look_finds_nothing_behind_what_was_added_during_it() {
        let order = order();
        let look = order.look(at(0));
        order.added(position(0, 30));
        order.added(position(0, 60));
        look.found(position(0, 50), at(1));
        assert_eq!(order.first(at(2)), Some(position(0, 30)));
        let look = order.look(at(2));
        order.added(position(0, 90));
        look.found(position(0, 80), at(3));
        assert_eq!(order.first(at(4)), Some(position(0, 80)));
        // Wherever it was added, and whoever's place it was.
        for add in [|order: Order| order.added(Position::START), |order: Order| order.place.forget(9)] {
            let look = order.look(at(4));
            add(order);
            look.found(position(0, 95), at(5));
            assert!(order.first(at(6)) < Some(position(0, 95)));
            order.look(at(6)).found(position(0, 80), at(6));
        }
        let other = Order { order: OTHER, ..order };
        let look = order.look(at(7));
        other.added(position(0, 85));
        look.found(position(0, 95), at(8));
        assert_eq!(order.first(at(9)), Some(position(0, 85)));
    }

    #[test]
    fn lookers_do_not_disturb_each_other_and_there_is_room_for_a_few() {
        let order = order();
        let mut looks: Vec<Look> = (0..=LOOKERS).map(|_| order.look(at(0))).collect();
        looks.pop().expect("one more than there is room for").found(position(0, 9), at(1));
        assert_eq!(order.first(at(2)), None);
        order.added(position(0, 3));
        for (look, time) in looks.into_iter().zip([5, 2, 7, 1]) {
            look.found(position(0, time), at(1));
            assert_eq!(order.first(at(2)), Some(position(0, time.min(3))));
        }
        // One that failed gives its room back, and one whose process has gone loses it.
        (0..9).for_each(|_| drop(order.look(at(3))));
        let gone: Vec<Look> = (0..LOOKERS).map(|_| order.look(at(3))).collect();
        order.look(at(4)).found(position(0, 4), at(4));
        assert_eq!(order.first(at(4)), Some(position(0, 1)));
        order.look(at(3 + LONGEST)).found(position(0, 4), at(3 + LONGEST));
        assert_eq!(order.first(at(3 + LONGEST)), Some(position(0, 4)));
        gone.into_iter().next().expect("a look").found(position(0, 6), at(4 + LONGEST));
        assert_eq!(order.first(at(4 + LONGEST)), Some(position(0, 4)));
    }

    #[test]
    fn it_is_believed_for_a_while_from_the_look_at_the_very_head_on() {
        let order = order();
        order.look(at(0)).found(position(0, 50), at(1));
        order.look(at(TRUSTED - 1)).found(position(0, 70), at(TRUSTED - 1));
        assert_eq!(order.first(at(TRUSTED - 1)), Some(position(0, 70)));
        assert_eq!(order.first(at(TRUSTED)), None);
        // The clock was set back.
        assert_eq!(order.first(at(-1)), None);
    }

    #[test]
    fn two_orders_of_one_place_do_not_meddle() {
        let one = order();
        let other = Order { order: OTHER, ..one };
        one.look(at(0)).found(position(0, 50), at(1));
        other.look(at(2)).found(position(0, 10), at(3));
        other.added(position(0, 5));
        assert_eq!((one.first(at(4)), other.first(at(4))), (Some(position(0, 50)), None));
        // Nobody has looked at the first one's head for long.
        other.look(at(TRUSTED)).found(position(0, 10), at(TRUSTED));
        assert_eq!((one.first(at(TRUSTED)), other.first(at(TRUSTED))), (None, Some(position(0, 10))));
    }
}
