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
//! somebody looks from the very head again: `TRUSTED` later, or where that look is long, `SELDOM` times as long as it took; twice that where
//! somebody is looking then.

use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

use pgrx::pg_sys::{self, Oid};
use pgrx::{pg_guard, pg_shmem_init, PGRXSharedMemory, PgAtomic};
use scheduler_core::Instant;

use crate::shmem::{registry, spinlock};

mod position;

pub use position::Position;
use position::Shared;

/// For how long a position is believed, in microseconds, after a look that began at the very head.
const TRUSTED: u64 = 10_000_000;

/// A look from the very head takes no more than this part of the time: while an old transaction is open it goes past all that is gone.
const SELDOM: u64 = 1000;

/// For how long a position is believed at most, in microseconds, however long a look takes.
const TRUSTED_MOST: u64 = 600_000_000;

/// How long a look can take, in microseconds: one of which nothing was heard for longer ended with its process.
const LONGEST: u64 = 60_000_000;

/// How many orders are remembered at most: those that are looked at.
const ORDER_SLOTS: usize = 256;

/// How many can look at one order at the same time; what more of them find is not remembered.
const SCAN_SLOTS: usize = 4;

/// A time long before which everything is forgotten.
const NEVER: i64 = i64::MIN;

/// Somebody who looks.
#[derive(Default)]
struct ScanSlot {
    /// Which look; 0 is nobody's.
    number: AtomicU64,
    since: AtomicI64,
    /// It began at the very head.
    from_start: AtomicBool,
    /// The first of all that was added since.
    added: Shared,
}

impl ScanSlot {
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
struct OrderSlot {
    lock: AtomicBool,
    /// Of which order; nobody's yet where both are 0.
    order: [AtomicU64; 2],
    /// Of which table of which database.
    table: AtomicU64,
    /// Before this position nothing stands.
    first: Shared,
    /// When the look ended that began at the very head.
    since: AtomicI64,
    /// For how long it is believed.
    trusted: AtomicU64,
    /// When somebody last began to look.
    looked_at: AtomicI64,
    /// Something was added before it since somebody looked.
    moved: AtomicBool,
    scan_count: AtomicU64,
    scans: [ScanSlot; SCAN_SLOTS],
}

/// What all processes share: a hash table of orders (linear probing; a slot that was given once is somebody's for ever).
pub struct LowWaterMarks {
    /// Of those who give slots.
    lock: AtomicBool,
    slots: [OrderSlot; ORDER_SLOTS],
}

// SAFETY: atomics only.
unsafe impl PGRXSharedMemory for LowWaterMarks {}

impl Default for LowWaterMarks {
    fn default() -> LowWaterMarks {
        LowWaterMarks { lock: AtomicBool::new(false), slots: std::array::from_fn(|_| OrderSlot::default()) }
    }
}

// SAFETY: the name is unique to this library.
static LOW_WATER_MARKS: PgAtomic<LowWaterMarks> = unsafe { PgAtomic::new(c"scheduler_heads") };

/// Reserves the shared memory; only while shared_preload_libraries are loaded.
pub fn register() {
    pg_shmem_init!(LOW_WATER_MARKS);
}

fn marks() -> Option<&'static LowWaterMarks> {
    registry::preloaded().then(|| LOW_WATER_MARKS.get())
}

impl LowWaterMarks {
    /// The places where an order may be, in the order of the search.
    fn slots_of(&self, order: [u64; 2]) -> impl Iterator<Item = &OrderSlot> {
        let (before, from) = self.slots.split_at((order[0] >> 32) as usize % ORDER_SLOTS);
        from.iter().chain(before)
    }

    /// The slot of an order that has one.
    ///
    /// Who adds an entry asks after it stands, and who looks before he looks: where the one finds no slot, the other sees the entry.
    fn find(&self, order: [u64; 2]) -> Option<&OrderSlot> {
        let mut slots = self.slots_of(order).take_while(|slot| slot.order() != [0, 0]);
        slots.find(|slot| slot.order() == order)
    }

    /// Its slot, given to it where it has none; `None` where all are in use.
    ///
    /// A slot that was never given comes first, then the one at which nobody has looked for the longest time: two orders of which nothing is
    /// known yet would otherwise take one slot from each other at every look, and neither would ever be remembered.
    fn slot(&self, order: [u64; 2], table: u64, now: i64) -> Option<&OrderSlot> {
        let give = || {
            let free = self.slots_of(order).filter(|slot| slot.is_free(now));
            free.min_by_key(|slot| slot.last_use()).filter(|slot| slot.give(order, table, now))
        };
        self.find(order).or_else(|| spinlock::locked(&self.lock, || self.find(order).or_else(give)))
    }
}

impl OrderSlot {
    fn locked<R>(&self, body: impl FnOnce() -> R) -> R {
        spinlock::locked(&self.lock, body)
    }

    fn order(&self) -> [u64; 2] {
        self.order.each_ref().map(|part| part.load(SeqCst))
    }

    /// Before which position of this order nothing stands, and since when that is known.
    fn known(&self, order: [u64; 2], now: i64) -> Option<(Position, i64)> {
        let since = self.since.load(SeqCst);
        let (age, trusted) = (now.abs_diff(since), self.trusted.load(SeqCst));
        // While somebody looks from the very head nobody else has to.
        let is_looked_at = || {
            self.scans.iter().any(|it| !it.is_free() && it.from_start.load(SeqCst) && !it.is_lost(now))
                && age < 2 * trusted
        };
        (self.order() == order && (age < trusted || is_looked_at())).then(|| (self.first.get(), since))
    }

    /// When somebody last looked here; of a slot that was never given, before all times.
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
        !is_believed && self.scans.iter().all(|scan| scan.is_free() || scan.is_lost(now))
    }

    /// Gives the slot to an order if nobody needs it any more.
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
                self.scans.iter().for_each(|scan| scan.number.store(0, SeqCst));
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
            for scan in self.scans.iter().filter(|scan| !scan.is_free()) {
                scan.added.set(scan.added.get().min(at));
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
                self.scans.iter().for_each(|scan| scan.added.set(Position::START));
                self.since.store(NEVER, SeqCst);
            }
        });
    }
}

/// An order of entries in this database.
#[derive(Clone, Copy)]
pub struct Order {
    marks: &'static LowWaterMarks,
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
        let marks = marks()?;
        let table = of_all(table);
        let order = [1, 2].map(|part| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u32(part);
            hasher.write_u64(table);
            hasher.write(name.as_bytes());
            hasher.finish() | 1
        });
        Some(Order { marks, order, table })
    }

    /// To be said when an entry stands in the index, at this position or after it.
    pub fn added(self, at: Position) {
        if let Some(slot) = self.marks.find(self.order) {
            slot.added(self.order, at);
        }
    }

    /// Before which position nothing stands, where that is known.
    pub fn first(self, now: Instant) -> Option<Position> {
        self.known(now, |_| true)
    }

    /// The same where nothing was added before it since somebody looked: what was may be claimed by now, with all that is gone behind it.
    pub fn steady(self, now: Instant) -> Option<Position> {
        self.known(now, |slot| !slot.moved.load(SeqCst))
    }

    fn known(self, now: Instant, counts: impl FnOnce(&OrderSlot) -> bool) -> Option<Position> {
        let slot = self.marks.find(self.order)?;
        let known = || slot.known(self.order, now.as_micros()).filter(|_| counts(slot));
        slot.locked(known).map(|(first, _)| first)
    }

    /// To be said before the entries are looked at.
    pub fn begin_scan(self, now: Instant) -> ScanGuard {
        let now = now.as_micros();
        let is_new = self.marks.find(self.order).is_none();
        let mut guard = ScanGuard { order: self.order, from: None, since: None, is_new, seen: None };
        if let Some(slot) = self.marks.slot(self.order, self.table, now) {
            slot.locked(|| {
                if slot.order() != self.order {
                    return;
                }
                slot.looked_at.store(now, SeqCst);
                if let Some((first, since)) = slot.known(self.order, now) {
                    (guard.from, guard.since) = (Some(first), Some(since));
                }
                let lost = || slot.scans.iter().find(|scan| scan.is_lost(now));
                if let Some(scan) = slot.scans.iter().find(|scan| scan.is_free()).or_else(lost) {
                    let number = slot.scan_count.fetch_add(1, SeqCst) + 1;
                    scan.number.store(number, SeqCst);
                    scan.since.store(now, SeqCst);
                    scan.from_start.store(guard.from.is_none(), SeqCst);
                    scan.added.set(Position::END);
                    guard.seen = Some((slot, scan, number));
                }
            });
        }
        guard
    }
}

/// A look at the entries of an order.
pub struct ScanGuard {
    order: [u64; 2],
    /// Where it may begin; `None` is the very head.
    pub from: Option<Position>,
    /// Since when that is known.
    since: Option<i64>,
    /// Nobody had looked before, perhaps because there is no such queue.
    is_new: bool,
    /// Where others see that there is this look, and its number.
    seen: Option<(&'static OrderSlot, &'static ScanSlot, u64)>,
}

impl ScanGuard {
    /// While the slot is locked and this look is still seen there.
    fn seen(&self, body: impl FnOnce(&OrderSlot, &ScanSlot)) {
        if let Some((slot, scan, number)) = self.seen {
            slot.locked(|| {
                if scan.number.load(SeqCst) == number {
                    body(slot, scan);
                }
            });
        }
    }

    /// To be said when the look has found that before this position nothing stands.
    pub fn found(self, first: Position, now: Instant) {
        if self.is_new && first == Position::END {
            return;
        }
        self.seen(|slot, scan| {
            let first = first.min(scan.added.get());
            if first <= Position::START || slot.order() != self.order {
                return;
            }
            match self.since {
                None => {
                    let now = now.as_micros();
                    slot.since.store(now, SeqCst);
                    let took = now.abs_diff(scan.since.load(SeqCst));
                    slot.trusted.store(took.saturating_mul(SELDOM).clamp(TRUSTED, TRUSTED_MOST), SeqCst);
                }
                // Another has looked from the very head meanwhile, and what he found nobody may have told of.
                Some(since) if since != slot.since.load(SeqCst) => {
                    slot.first.set(first.min(slot.first.get()));
                    return;
                }
                Some(_) => {}
            }
            slot.first.set(first);
            slot.moved.store(false, SeqCst);
        });
    }
}

impl Drop for ScanGuard {
    fn drop(&mut self) {
        self.seen(|_, scan| scan.number.store(0, SeqCst));
    }
}

/// To be said when somebody has written to a table without telling where: all that is remembered of it is forgotten.
pub fn forget(table: Oid) {
    marks().into_iter().flat_map(|marks| &marks.slots).for_each(|slot| slot.forget(of_all(table)));
}

#[cfg(test)]
mod tests;
