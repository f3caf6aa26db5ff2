//! Worker slots are few: a dispatcher that has nothing to do for a while gives its own to whoever needs one, and the launcher sends another in time.

use std::sync::atomic::Ordering::SeqCst;

use pgrx::pg_sys;
use scheduler_core::Instant;

use crate::shmem::registry::launcher::Launcher;
use crate::shmem::registry::{board, set_latch, slot_of};
use crate::shmem::runners;

/// A dispatcher with something to do within this, in microseconds, keeps its worker slot.
pub const LEAST: i64 = 60_000_000;
/// The longest rest, in microseconds: what is committed and told to nobody is looked for then.
pub const MOST: i64 = 600_000_000;
/// After so long a dispatcher with work gives its slot to a database that waits for one, in microseconds: where all are busy, they take turns.
const TURN: i64 = 10_000_000;
/// For so long a database waits for a dispatcher that is idle, in microseconds.
const PATIENCE: i64 = 1_000_000;
/// For so long after the postmaster had no slot they are taken to be too few, in microseconds.
const LACKING: i64 = 10_000_000;

fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// To be said when the postmaster had no worker slot for a dispatcher or a runner: one process that has nothing to do is to leave.
pub fn slot_is_lacking() {
    let Some(board) = board() else { return };
    board.lacked_at.store(now(), SeqCst);
    if runners::dismiss_an_idle_one() {
        return;
    }
    board.one_is_to_rest.store(true, SeqCst);
    let is_idle_until = now().saturating_add(LEAST);
    for slot in board.slots.iter().filter(|slot| slot.idle_until.load(SeqCst) > is_idle_until) {
        set_latch(slot.dispatcher_pid.load(SeqCst));
    }
}

/// Whether this dispatcher, which has nothing to do for a while, is the one that is to rest; no other is then.
pub fn is_to_rest() -> bool {
    let Some(board) = board() else { return false };
    board.one_is_to_rest.swap(false, SeqCst) && is_lacking()
}

/// Whether this dispatcher, which began to serve at `since` and has work, is the one that is to make room; no other is then.
pub fn is_turn_over(since: Instant) -> bool {
    let Some(board) = board() else { return false };
    let now = now();
    let waits_since = board.waiting_since.load(SeqCst);
    let is_over = waits_since <= now.saturating_sub(PATIENCE) && since.as_micros() <= now.saturating_sub(TURN);
    // The next one has its turn to leave when a database has waited again.
    is_over && board.waiting_since.compare_exchange(waits_since, now, SeqCst, SeqCst).is_ok()
}

/// Whether a database that has the extension waits for a dispatcher, for want of a worker slot.
pub fn is_database_waiting() -> bool {
    board().is_some_and(|board| board.waiting_since.load(SeqCst) != i64::MAX)
}

/// Whether one is to rest and none has done so yet.
pub fn is_wanted() -> bool {
    board().is_some_and(|board| board.one_is_to_rest.load(SeqCst)) && is_lacking()
}

/// Whether worker slots are too few, or were a moment ago.
pub fn is_lacking() -> bool {
    is_database_waiting() || board().is_some_and(|board| board.lacked_at.load(SeqCst) > now().saturating_sub(LACKING))
}

/// Until when this database has no dispatcher because it needs none.
pub fn rests_until(database: u32) -> Option<Instant> {
    let slot = slot_of(database)?;
    let rests = slot.resting.load(SeqCst) && !slot.is_attended();
    rests.then(|| Instant::from_micros(slot.next_wake.load(SeqCst)).unwrap_or(Instant::MAX))
}

impl Launcher {
    /// To be said after each look: whether a database that has the extension waits for a dispatcher for want of a worker slot.
    pub fn waits_for_slot(&self, waits: bool) {
        let since = &self.0.waiting_since;
        if !waits {
            since.store(i64::MAX, SeqCst);
        } else if since.load(SeqCst) == i64::MAX {
            since.store(now(), SeqCst);
        }
    }

    /// When to send a dispatcher to a database in which one rests: at once where somebody has called for it. `None` where none rests.
    pub fn resumes_at(&self, database: u32) -> Option<Instant> {
        let until = rests_until(database)?;
        let is_called = slot_of(database).is_some_and(|slot| slot.called.load(SeqCst));
        Some(if is_called { Instant::MIN } else { until })
    }

    /// How many dispatchers are there or were asked for.
    pub fn dispatchers(&self) -> usize {
        self.0.slots.iter().filter(|slot| slot.database.load(SeqCst) != 0 && slot.is_attended()).count()
    }

    /// Whether this process is a dispatcher.
    pub fn is_dispatcher(&self, pid: i32) -> bool {
        self.0.slots.iter().any(|slot| slot.dispatcher_pid.load(SeqCst) == pid)
    }
}
