//! History leaves the ledger and the skips in small steps: one walk over each, then a rest.

use scheduler_core::Instant;

use crate::guc;
use crate::pg::{convert, Session};
use crate::store::execution::history;
use crate::store::schedule::skipped_plans::{self, SkipCursor};

/// How many rows one step looks at.
const STEP: i64 = 1000;
/// The longest rest between two walks, in microseconds.
const LONGEST_REST: i64 = 3_600_000_000;

/// Where the walk stands.
pub struct Pruner {
    last: u128,
    skips: Option<SkipCursor>,
    /// When the last walk ended; `None` in the middle of one.
    rests_since: Option<Instant>,
}

impl Pruner {
    /// The first walk comes after a rest: a server that has just started has better things to do.
    pub fn new(now: Instant) -> Pruner {
        Pruner { last: 0, skips: Some(SkipCursor::START), rests_since: Some(now) }
    }

    /// When there is something to do, by what the setting says now.
    pub fn next_step(&self) -> Instant {
        self.rests_since.map_or(Instant::MIN, rest)
    }

    /// One step, if it is time; how many rows went.
    pub fn step(&mut self, session: &Session) -> usize {
        let now = convert::now();
        if now < self.next_step() {
            return 0;
        }
        let limit = now.checked_add_micros(-guc::history_retention()).unwrap_or(Instant::MIN);
        let uuid = |number: u128| pgrx::datum::Uuid::from_bytes(number.to_be_bytes());
        if let Some(cursor) = self.skips {
            self.skips = skipped_plans::prune(session, cursor, limit, STEP);
        }
        let step = history::prune(session, uuid(self.last), uuid(first_id_at(limit)), limit, STEP);
        match step.last.filter(|_| step.seen == STEP) {
            Some(last) => {
                self.last = u128::from_be_bytes(*last.as_bytes());
                self.rests_since = None;
            }
            None if self.skips.is_some() => self.rests_since = None,
            None => {
                *self = Pruner::new(now);
            }
        }
        usize::try_from(step.gone).unwrap_or(0)
    }
}

/// The end of a rest that began at `since`.
fn rest(since: Instant) -> Instant {
    since.checked_add_micros((guc::history_retention() / 10).clamp(1_000_000, LONGEST_REST)).unwrap_or(Instant::MAX)
}

/// The least UUID version 7 of an instant: its first 48 bits are Unix milliseconds (RFC 9562).
fn first_id_at(limit: Instant) -> u128 {
    let milliseconds = (limit.as_micros() - Instant::UNIX_EPOCH.as_micros()).max(0) / 1000;
    u128::from(milliseconds.unsigned_abs()) << 80
}
