//! Where the first entry of an order can be: of a queue, of the leases by when they may run out, of the retries by when they are due.
//!
//! What was claimed leaves dead entries at the head of an index until VACUUM takes them away, which it can't while any transaction of the server is
//! older than they are. A claim that begins at the head goes past all of them, and a queue that is drained meanwhile takes the longer for
//! a claim the more has been claimed. So shared memory remembers, for each order, before which position nothing stands.
//!
//! One rule carries this: who adds an entry says so before the commit. (Once it stands in the index; a commit that nobody has told of is an entry
//! that claims pass over until somebody looks from the very head.) Who looks for the first one says what he found
//! only as far as nothing was added before it since he began. And a look counts all that may yet come or come back: what open transactions (prepared
//! ones too) add, and what they take. Entries of which nobody tells (rows that a superuser writes, that replication or a restore brings) are found when
//! somebody looks from the very head again: `TRUSTED` later, twice that where somebody is looking then.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

use pgrx::datum::{TimestampWithTimeZone, Uuid};
use pgrx::pg_sys::{self, Oid};
use pgrx::{pg_guard, pg_shmem_init, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

use crate::spin;
use crate::store::names;
use crate::store::session::Rows;
use crate::worker::wake;

mod position;

pub use position::Position;
use position::Shared;

/// For how long a position is believed, in microseconds, after a look that began at the very head.
const TRUSTED: u64 = 10_000_000;

/// How long a look can take, in microseconds: one of which nothing was heard for longer ended with its process.
const LONGEST: u64 = 60_000_000;

/// How many orders are remembered at most: those that are looked at.
const PLACES: usize = 256;

/// How many can look at one order at the same time; what more of them find is not remembered.
const LOOKERS: usize = 4;

/// A time long before which everything is forgotten.
const NEVER: i64 = i64::MIN;

/// Somebody who looks.
#[derive(Default)]
struct Looker {
    /// Which look; 0 is nobody's.
    number: AtomicU64,
    since: AtomicI64,
    /// It began at the very head.
    from_head: AtomicBool,
    /// The first of all that was added since.
    added: Shared,
}

impl Looker {
    fn is_free(&self) -> bool {
        self.number.load(SeqCst) == 0
    }

    /// Its process has gone, or the clock was set.
    fn is_lost(&self, now: i64) -> bool {
        now.abs_diff(self.since.load(SeqCst)) >= LONGEST
    }
}

/// What is remembered of one order. Written and read under its lock only.
#[derive(Default)]
struct Place {
    lock: AtomicBool,
    /// Of which order; nobody's yet where both are 0.
    order: [AtomicU64; 2],
    /// Of which table of which database.
    table: AtomicU64,
    /// Before this position nothing stands.
    first: Shared,
    /// When the look ended that began at the very head.
    since: AtomicI64,
    /// When somebody last began to look.
    looked_at: AtomicI64,
    /// Something was added before it since somebody looked.
    moved: AtomicBool,
    looks: AtomicU64,
    lookers: [Looker; LOOKERS],
}

/// What all processes share: a hash table of orders (linear probing; a place that was given once is somebody's for ever).
pub struct Heads {
    /// Of those who give places.
    lock: AtomicBool,
    places: [Place; PLACES],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for Heads {}

impl Default for Heads {
    fn default() -> Heads {
        Heads { lock: AtomicBool::new(false), places: std::array::from_fn(|_| Place::default()) }
    }
}

// SAFETY: the name is unique to this library.
static HEADS: PgAtomic<Heads> = unsafe { PgAtomic::new(c"scheduler_heads") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(HEADS);
}

fn heads() -> Option<&'static Heads> {
    wake::preloaded().then(|| HEADS.get())
}

impl Heads {
    /// The places where an order may be, in the order of the search.
    fn places_of(&self, order: [u64; 2]) -> impl Iterator<Item = &Place> {
        let (before, from) = self.places.split_at((order[0] >> 32) as usize % PLACES);
        from.iter().chain(before)
    }

    /// The place of an order that has one.
    ///
    /// Who adds an entry asks after it stands, and who looks before he looks: where the one finds no place, the other sees the entry.
    fn find(&self, order: [u64; 2]) -> Option<&Place> {
        let mut places = self.places_of(order).take_while(|place| place.order() != [0, 0]);
        places.find(|place| place.order() == order)
    }

    /// Its place, given to it where it has none; `None` where all are in use.
    ///
    /// A place that was never given comes first, then the one at which nobody has looked for the longest time: two orders of which nothing is
    /// known yet would otherwise take one place from each other at every look, and neither would ever be remembered.
    fn place(&self, order: [u64; 2], table: u64, now: i64) -> Option<&Place> {
        let give = || {
            let free = self.places_of(order).filter(|place| place.is_free(now));
            free.min_by_key(|place| place.last_use()).filter(|place| place.give(order, table, now))
        };
        self.find(order).or_else(|| spin::locked(&self.lock, || self.find(order).or_else(give)))
    }
}

impl Place {
    fn locked<R>(&self, body: impl FnOnce() -> R) -> R {
        spin::locked(&self.lock, body)
    }

    fn order(&self) -> [u64; 2] {
        self.order.each_ref().map(|part| part.load(SeqCst))
    }

    /// Before which position of this order nothing stands, and since when that is known.
    fn known(&self, order: [u64; 2], now: i64) -> Option<(Position, i64)> {
        let since = self.since.load(SeqCst);
        let age = now.abs_diff(since);
        // While somebody looks from the very head nobody else has to.
        let is_looked_at = || {
            self.lookers.iter().any(|it| !it.is_free() && it.from_head.load(SeqCst) && !it.is_lost(now))
                && age < 2 * TRUSTED
        };
        (self.order() == order && (age < TRUSTED || is_looked_at())).then(|| (self.first.get(), since))
    }

    /// When somebody last looked here; of a place that was never given, before all times.
    fn last_use(&self) -> i64 {
        if self.order() == [0, 0] {
            NEVER
        } else {
            self.looked_at.load(SeqCst)
        }
    }

    /// Whether nobody needs it any more.
    fn is_free(&self, now: i64) -> bool {
        let is_believed = self.order() != [0, 0] && self.known(self.order(), now).is_some();
        !is_believed && self.lookers.iter().all(|looker| looker.is_free() || looker.is_lost(now))
    }

    /// Gives the place to an order if nobody needs it any more.
    fn give(&self, order: [u64; 2], table: u64, now: i64) -> bool {
        self.locked(|| {
            let is_free = self.is_free(now);
            if is_free {
                for (part, value) in self.order.iter().zip(order) {
                    part.store(value, SeqCst);
                }
                self.table.store(table, SeqCst);
                self.since.store(NEVER, SeqCst);
                self.looked_at.store(now, SeqCst);
                self.lookers.iter().for_each(|looker| looker.number.store(0, SeqCst));
            }
            is_free
        })
    }

    /// Something stands now at this position or after it.
    fn added(&self, order: [u64; 2], at: Position) {
        self.locked(|| {
            // It may be another's by now: then nobody has looked since the entry stands.
            if self.order() != order {
                return;
            }
            for looker in self.lookers.iter().filter(|looker| !looker.is_free()) {
                looker.added.set(looker.added.get().min(at));
            }
            if at < self.first.get() {
                self.first.set(at);
                self.moved.store(true, SeqCst);
            }
        });
    }

    fn forget(&self, table: u64) {
        self.locked(|| {
            if self.table.load(SeqCst) == table {
                self.lookers.iter().for_each(|looker| looker.added.set(Position::START));
                self.since.store(NEVER, SeqCst);
            }
        });
    }
}

/// An order of entries in this database.
#[derive(Clone, Copy)]
pub struct Order {
    heads: &'static Heads,
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
        let heads = heads()?;
        let table = of_all(table);
        let order = [1, 2].map(|part| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u32(part);
            hasher.write_u64(table);
            hasher.write(name.as_bytes());
            hasher.finish() | 1
        });
        Some(Order { heads, order, table })
    }

    /// To be said when an entry stands in the index, at this position or after it.
    pub fn added(self, at: Position) {
        if let Some(place) = self.heads.find(self.order) {
            place.added(self.order, at);
        }
    }

    /// Before which position nothing stands, where that is known.
    pub fn first(self, now: Instant) -> Option<Position> {
        self.known(now, |_| true)
    }

    /// The same where nothing was added before it since somebody looked: what was may be claimed by now, with all that is gone behind it.
    pub fn steady(self, now: Instant) -> Option<Position> {
        self.known(now, |place| !place.moved.load(SeqCst))
    }

    fn known(self, now: Instant, counts: impl FnOnce(&Place) -> bool) -> Option<Position> {
        let place = self.heads.find(self.order)?;
        let known = || place.known(self.order, now.as_micros()).filter(|_| counts(place));
        place.locked(known).map(|(first, _)| first)
    }

    /// To be said before the entries are looked at.
    pub fn look(self, now: Instant) -> Look {
        let now = now.as_micros();
        let is_new = self.heads.find(self.order).is_none();
        let mut look = Look { order: self.order, from: None, since: None, is_new, seen: None };
        if let Some(place) = self.heads.place(self.order, self.table, now) {
            place.locked(|| {
                if place.order() != self.order {
                    return;
                }
                place.looked_at.store(now, SeqCst);
                if let Some((first, since)) = place.known(self.order, now) {
                    (look.from, look.since) = (Some(first), Some(since));
                }
                let lost = || place.lookers.iter().find(|looker| looker.is_lost(now));
                if let Some(looker) = place.lookers.iter().find(|looker| looker.is_free()).or_else(lost) {
                    let number = place.looks.fetch_add(1, SeqCst) + 1;
                    looker.number.store(number, SeqCst);
                    looker.since.store(now, SeqCst);
                    looker.from_head.store(look.from.is_none(), SeqCst);
                    looker.added.set(Position::END);
                    look.seen = Some((place, looker, number));
                }
            });
        }
        look
    }
}

/// A look at the entries of an order.
pub struct Look {
    order: [u64; 2],
    /// Where it may begin; `None` is the very head.
    pub from: Option<Position>,
    /// Since when that is known.
    since: Option<i64>,
    /// Nobody had looked before, perhaps because there is no such queue.
    is_new: bool,
    /// Where others see that there is this look, and its number.
    seen: Option<(&'static Place, &'static Looker, u64)>,
}

impl Look {
    /// While the place is locked and this look is still seen there.
    fn seen(&self, body: impl FnOnce(&Place, &Looker)) {
        if let Some((place, looker, number)) = self.seen {
            place.locked(|| {
                if looker.number.load(SeqCst) == number {
                    body(place, looker);
                }
            });
        }
    }

    /// To be said when the look has found that before this position nothing stands.
    pub fn found(self, first: Position, now: Instant) {
        if self.is_new && first == Position::END {
            return;
        }
        self.seen(|place, looker| {
            let first = first.min(looker.added.get());
            if first <= Position::START || place.order() != self.order {
                return;
            }
            match self.since {
                None => place.since.store(now.as_micros(), SeqCst),
                // Another has looked from the very head meanwhile, and what he found nobody may have told of.
                Some(since) if since != place.since.load(SeqCst) => {
                    place.first.set(first.min(place.first.get()));
                    return;
                }
                Some(_) => {}
            }
            place.first.set(first);
            place.moved.store(false, SeqCst);
        });
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.seen(|_, looker| looker.number.store(0, SeqCst));
    }
}

/// To be said when a statement has added entries to these queues, wherever.
pub fn changed(queues: &[String]) {
    queues.iter().for_each(|queue| added_to(c"ready", queue, Position::START));
}

/// To be said when a statement has added entries to a queue, of this priority at most and of this plan time or later ones.
pub fn added_to_queue(queue: &str, priority: i32, plan_time: impl Into<i64>) {
    added_to(c"ready", queue, Position::new(priority, plan_time, Uuid::from_bytes([0; 16])));
}

/// The same of a statement for one job whose first row says so from this column (1-based) on, where it has added to these queues (one or none).
pub fn added_to_queues(queues: &[String], rows: &Rows, column: usize) {
    if let Some(row) = rows.first() {
        for queue in queues {
            added_to_queue(queue, row.must(column), row.must::<TimestampWithTimeZone>(column + 1));
        }
    }
}

/// To be said when a statement has written leases, with the times by which they are to be looked at.
pub fn added_leases<T: Into<i64>>(times: impl Iterator<Item = T>) {
    if let Some(first) = times.map(Position::at).min() {
        added_to(c"lease", "", first);
    }
}

/// To be said when a run is to be tried again at that time.
pub fn added_retry(at: impl Into<i64>) {
    added_to(c"retry", "", Position::at(at));
}

/// To be said when a schedule was dropped of which somebody has something in hand: nobody is to claim that.
pub fn added_drop() {
    added_to(c"schedule_dropped", "", Position::SOMEWHERE);
}

fn added_to(name: &CStr, order: &str, at: Position) {
    if let Some(order) = table(name).and_then(|table| Order::of(table, order)) {
        order.added(at);
    }
}

fn table(name: &CStr) -> Option<Oid> {
    names::relation(names::schema()?.0, name)
}

/// The tables of which something is remembered here.
fn tables() -> impl Iterator<Item = Oid> {
    [c"ready", c"lease", c"retry", c"schedule_dropped"].into_iter().filter_map(table)
}

/// To be said when somebody has written to a table without telling where: all that is remembered of it is forgotten.
pub fn forget(table: Oid) {
    if tables().any(|known| known == table) {
        heads().into_iter().flat_map(|heads| &heads.places).for_each(|place| place.forget(of_all(table)));
    }
}

/// The same of all tables.
pub fn forget_all() {
    tables().for_each(forget);
}

#[cfg(test)]
mod tests;
