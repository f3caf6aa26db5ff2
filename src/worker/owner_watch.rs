//! When a dispatcher looks for schedules whose owners were dropped: once it starts, and after roles have changed. Otherwise it costs nothing.

use scheduler_core::Instant;

use crate::guc;
use crate::pg::{convert, invalidation, Session};
use crate::store::schedule::ownerless;

/// The least time from one look to the next, in microseconds: some servers make and drop roles all the time.
const AT_MOST_EVERY: i64 = 10_000_000;

/// What is known of the owners of jobs.
pub struct OwnerWatch {
    /// How many changes of roles had come before the last look that found all there was.
    known: Option<u64>,
    looked: Instant,
}

impl OwnerWatch {
    /// From now on.
    pub fn begin() -> OwnerWatch {
        invalidation::watch_roles();
        OwnerWatch { known: None, looked: Instant::MIN }
    }

    /// When to look; `None` while no role changes.
    pub fn next_look(&self) -> Option<Instant> {
        match self.known {
            None => Some(Instant::MIN),
            Some(known) if known == invalidation::role_changes() => None,
            Some(_) => self.looked.checked_add_micros(guc::tick_interval().min(AT_MOST_EVERY)),
        }
    }

    /// Has at most `limit` schedules parked whose owners were dropped; how many it found.
    pub fn look(&mut self, session: &Session, limit: i64) -> usize {
        let changes = invalidation::role_changes();
        let found = ownerless::look_again(session, limit);
        self.looked = convert::now();
        self.known = i64::try_from(found).is_ok_and(|found| found < limit).then_some(changes);
        found
    }

    /// A look was rolled back.
    pub fn look_again(&mut self) {
        self.known = None;
    }
}
