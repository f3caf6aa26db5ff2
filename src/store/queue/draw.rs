//! Plan times for what names none. The ledger is unique by scope and plan time, and two that fall into one microsecond of one scope are
//! two: each gets a time that nobody has, of whatever transaction, committed or not.
//!
//! A time is the clock's, and the next that the clock shows where that one is taken. So times are drawn close to now, and two sessions that
//! fill one scope soon go beside each other: whoever came upon the other's times goes on from the present. Nobody is waited for. Row by
//! row the insert says whether a time was free (`Table::insert_unless_taken`); before a statement, a look and a lock do.

use std::collections::HashSet;

use pgrx::datum::Uuid;
use scheduler_core::Instant;

use crate::pg::convert::timestamp;
use crate::store::lease::key_lock::{self, KeyLock, LedgerKeys};

/// Times that one call draws: never before one that it has drawn already, and for one key never the same.
pub struct PlanTimeDraw {
    clock: fn() -> Instant,
    time: Instant,
    /// Which keys have this time.
    keys: HashSet<[u8; 16]>,
}

impl PlanTimeDraw {
    /// Begins at `now`; `clock` says how late it has become where that is taken.
    pub fn begin(now: Instant, clock: fn() -> Instant) -> PlanTimeDraw {
        PlanTimeDraw { clock, time: now, keys: HashSet::new() }
    }

    /// A time for one more execution of this key.
    pub fn next(&mut self, key: Uuid) -> Instant {
        if self.keys.insert(*key.as_bytes()) {
            self.time
        } else {
            self.later(key)
        }
    }

    /// Another time, where somebody has the one that was drawn last.
    pub fn later(&mut self, key: Uuid) -> Instant {
        self.time = (self.clock)().max(self.time.checked_add_micros(1).unwrap_or(Instant::MAX));
        self.keys.clear();
        self.keys.insert(*key.as_bytes());
        self.time
    }

    /// A time for each of these keys that nobody has, and the locks that keep it so until a statement has inserted them.
    pub fn hold(&mut self, of: &[Uuid]) -> (Vec<Instant>, Vec<KeyLock>) {
        let ledger = key_lock::ledger();
        let mut keys = LedgerKeys::open(&ledger);
        of.iter().map(|key| self.hold_one(&mut keys, *key, |_| true)).unzip()
    }

    /// The same for one key, and a time that `may` be drawn.
    pub fn hold_if(&mut self, key: Uuid, may: impl FnMut(Instant) -> bool) -> (Instant, KeyLock) {
        let ledger = key_lock::ledger();
        let mut keys = LedgerKeys::open(&ledger);
        self.hold_one(&mut keys, key, may)
    }

    fn hold_one(
        &mut self,
        keys: &mut LedgerKeys,
        key: Uuid,
        mut may: impl FnMut(Instant) -> bool,
    ) -> (Instant, KeyLock) {
        let mut time = self.next(key);
        loop {
            pgrx::check_for_interrupts!();
            if may(time) {
                if let Some(lock) = KeyLock::try_take_free(keys, key, timestamp(time)) {
                    return (time, lock);
                }
            }
            time = self.later(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_has_no_time_twice_and_times_never_go_back() {
        fn stands() -> Instant {
            Instant::UNIX_EPOCH
        }
        let (a, b) = (Uuid::from_bytes([1; 16]), Uuid::from_bytes([2; 16]));
        let after = |micros| Instant::UNIX_EPOCH.checked_add_micros(micros).unwrap_or(Instant::MAX);
        let mut draw = PlanTimeDraw::begin(stands(), stands);
        assert_eq!([a, b, a, a, b].map(|key| draw.next(key)), [0, 0, 1, 2, 2].map(after));
        // Somebody else has it: the others of this call go on from there as well.
        assert_eq!((draw.later(b), draw.next(a), draw.next(b)), (after(3), after(3), after(4)));
        let mut moves = PlanTimeDraw::begin(after(-100), stands);
        assert_eq!((moves.next(a), moves.next(a), moves.next(a)), (after(-100), after(0), after(1)));
    }
}
