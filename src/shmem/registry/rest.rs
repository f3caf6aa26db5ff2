//! Worker slots are few: a dispatcher that has nothing to do for a while gives its own to whoever needs one, and the launcher sends another in time.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use pgrx::pg_sys;
use scheduler_core::Instant;

use crate::shmem::registry::launcher::Launcher;
use crate::shmem::registry::{board, set_latch, slot_of};
use crate::shmem::runners;

/// A dispatcher with something to do within this, in microseconds, keeps its worker slot.
pub const LEAST: i64 = 60_000_000;
/// The longest rest, in microseconds: what is committed and told to nobody is looked for then.
pub const MOST: i64 = 600_000_000;
/// After so long a dispatcher with work gives its slot to a database that waits for one: where all are busy, they take turns.
const TURN: Duration = Duration::from_secs(10);
/// For so long a database waits for a dispatcher that is idle, in microseconds.
const PATIENCE: i64 = 1_000_000;
/// For so long after the postmaster had no slot they are taken to be too few, in microseconds.
const LACKING: i64 = 10_000_000;

fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// This moment by a clock that nobody sets, in microseconds since the machine's start: by the other one who waits could wait for an hour more.
fn moment() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to the variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}

/// To be said when the postmaster had no worker slot for a dispatcher or a runner: one process that has nothing to do is to leave.
pub fn slot_is_lacking() {
    let Some(board) = board() else { return };
    board.lacked_at.store(moment(), SeqCst);
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

/// Whether this dispatcher, which has served for so long and has work, is the one that is to make room; no other is then.
pub fn is_turn_over(served: Duration) -> bool {
    let Some(board) = board() else { return false };
    let now = moment();
    let waits_since = board.waiting_since.load(SeqCst);
    let is_over = waits_since <= now.saturating_sub(PATIENCE) && served >= TURN;
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
    is_database_waiting()
        || board().is_some_and(|board| board.lacked_at.load(SeqCst) > moment().saturating_sub(LACKING))
}

/// Until when this database has no dispatcher because it needs none. One that was called, and for which no slot is free, needed it before now.
pub fn rests_until(database: u32) -> Option<Instant> {
    let slot = slot_of(database)?;
    let rests = slot.resting.load(SeqCst) && !slot.is_attended();
    let waits = slot.called.load(SeqCst) && is_lacking();
    let until = slot.next_wake.load(SeqCst);
    let until = if waits { until.min(now().saturating_sub(PATIENCE)) } else { until };
    rests.then(|| Instant::from_micros(until).unwrap_or(Instant::MAX))
}

impl Launcher {
    /// To be said after each look: whether a database that has the extension waits for a dispatcher for want of a worker slot.
    pub fn waits_for_slot(&self, waits: bool) {
        let since = &self.0.waiting_since;
        if !waits {
            since.store(i64::MAX, SeqCst);
        } else if since.load(SeqCst) == i64::MAX {
            since.store(moment(), SeqCst);
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
