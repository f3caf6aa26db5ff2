//! The runner's side of the board.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::SeqCst};

use pgrx::datum::Uuid;
use scheduler_core::Instant;

use super::place::{halves, Phase, Place, ProcessEnd, NEVER};
use super::{with, Limits, Seat};
use crate::pg::login_rows::LoginRows;
use crate::shmem::registry::runner_news;

/// The runner's side of the board.
pub struct Runner {
    place: &'static Place,
    /// The database and the owner that it works for.
    pub database: u32,
    pub owner: u32,
    /// What its login would have read before it had begun: what differs by now, this process may have from before.
    pub login: LoginRows,
}

impl Runner {
    /// Takes the place that was kept for this process; `None` where nobody expects it any more.
    pub fn enter(seat: Seat, pid: i32, now: Instant) -> Option<Runner> {
        with(|board| {
            let place = board.places.get(usize::from(seat.index))?;
            if place.serial.load(SeqCst) != seat.serial || !place.is(Phase::Coming) {
                return None;
            }
            place.pid.store(pid, SeqCst);
            place.since.store(now.as_micros(), SeqCst);
            MINE.place.store(std::ptr::from_ref(place).cast_mut(), SeqCst);
            let (database, owner) = (place.database.load(SeqCst), place.owner.load(SeqCst));
            // It has its turn now, which it had not where the postmaster found no slot for it: who has waited longer gets the place that it
            // gives up.
            if let Some(entry) = board.entry_of(database, owner) {
                entry.ticket.store(board.tickets.fetch_add(1, SeqCst), SeqCst);
            }
            let login = LoginRows(std::array::from_fn(|row| place.login[row].load(SeqCst)));
            Some(Runner { place, database, owner, login })
        })
        .flatten()
    }

    /// It looks for work now, unless it was asked to leave; whether it may.
    pub fn look(&self, now: Instant) -> bool {
        with(|_| {
            if self.place.is(Phase::Leaving) {
                return false;
            }
            self.place.begin(Phase::Looking, now);
            true
        })
        .unwrap_or(false)
    }

    /// It has found none, and waits; who has something for it wakes it. What came in between it has to look for after this.
    pub fn wait(&self, now: Instant) {
        with(|_| {
            if self.place.is(Phase::Looking) {
                self.place.begin(Phase::Idle, now);
            }
        });
    }

    /// It wants to leave; false where somebody has just woken it.
    pub fn try_leave(&self) -> bool {
        with(|_| {
            if self.place.is(Phase::Looking) {
                return false;
            }
            self.place.phase.store(Phase::Leaving as u32, SeqCst);
            true
        })
        .unwrap_or(true)
    }

    /// It leaves as one that could not begin: the next one is started after a pause.
    pub fn fail(&self) {
        with(|board| {
            board.stops(self.place);
            self.place.phase.store(Phase::Coming as u32, SeqCst);
        });
    }

    /// It waits.
    pub fn is_idle(&self) -> bool {
        self.place.is(Phase::Idle)
    }

    /// It was asked to leave.
    pub fn is_to_leave(&self) -> bool {
        self.place.is(Phase::Leaving)
    }

    /// A run begins, of an execution whose lease nobody can see yet; it is to have ended by `terminate_at`.
    pub fn run(&self, execution: Uuid, terminate_at: Option<Instant>, now: Instant) {
        let run = with(|board| {
            self.place.forget_run();
            // How an attempt before this one ended says nothing of this.
            board.places.iter().filter(|place| place.end_of(execution).is_some()).for_each(Place::free);
            let run = board.runs.fetch_add(1, SeqCst) + 1;
            let halves = halves(execution);
            (0..2).for_each(|half| self.place.execution[half].store(halves[half], SeqCst));
            self.place.terminate_at.store(terminate_at.map_or(NEVER, Instant::as_micros), SeqCst);
            self.place.run.store(run, SeqCst);
            board.stops(self.place);
            board.running.fetch_add(1, SeqCst);
            self.place.begin(Phase::Running, now);
            run
        });
        MINE.run.store(run.unwrap_or(0), SeqCst);
    }

    /// The claim of the run is committed.
    pub fn claimed(&self) {
        with(|board| self.place.claim.store(board.claims.fetch_add(1, SeqCst) + 1, SeqCst));
    }

    /// The run has ended, and its lease with it: no signal that was meant for it reaches the next.
    pub fn ended(&self, now: Instant) {
        MINE.run.store(0, SeqCst);
        with(|board| {
            board.stops(self.place);
            self.place.forget_run();
            self.place.begin(Phase::Looking, now);
        });
    }

    /// Whether it leaves its place to somebody else after this run, or to nobody, where fewer may be taken than are.
    pub fn gives_way(&self, limits: Limits) -> bool {
        with(|board| board.is_to_give_way(self.database, self.owner, limits)).unwrap_or(true)
    }

    /// Whether it has to leave because fewer runners may be than there are: of those that run nothing as many do as are too many.
    pub fn is_surplus(&self, limits: Limits) -> bool {
        with(|board| {
            let leaves = !self.place.is(Phase::Leaving) && board.has_surplus(self.owner, limits);
            if leaves {
                self.place.phase.store(Phase::Leaving as u32, SeqCst);
            }
            leaves
        })
        .unwrap_or(true)
    }
}

/// What this process is on, for its signal handler.
struct Mine {
    place: AtomicPtr<Place>,
    run: AtomicU64,
}

static MINE: Mine = Mine { place: AtomicPtr::new(std::ptr::null_mut()), run: AtomicU64::new(0) };

/// Whether the run that this process is on is to be cancelled. Loads only: signal handlers ask.
pub fn is_cancelled() -> bool {
    let run = MINE.run.load(SeqCst);
    // SAFETY: NULL, or a place in shared memory, which lasts.
    let place = unsafe { MINE.place.load(SeqCst).as_ref() };
    run != 0 && place.is_some_and(|place| place.cancelled_run.load(SeqCst) == run)
}

/// To be said when a runner exits, however it does: its place is free, and dispatchers look what became of its run and who waits. Whether it
/// does because a transaction of its run has taken too long is remembered for who ends that run.
pub fn left(seat: Seat, pid: i32, transaction_timed_out: bool) {
    let found = with(|board| {
        let place = board.places.get(usize::from(seat.index))?;
        if place.serial.load(SeqCst) != seat.serial || place.pid.load(SeqCst) != pid {
            return None;
        }
        let (database, was_running) = (place.database.load(SeqCst), place.is(Phase::Running));
        if place.is(Phase::Coming) {
            let pair = u64::from(database) << 32 | u64::from(place.owner.load(SeqCst));
            let mut known = board.failed.iter().filter(|failed| [0, pair].contains(&failed.load(SeqCst)));
            known.next().into_iter().for_each(|failed| failed.store(pair, SeqCst));
        }
        board.stops(place);
        let run_timed_out = place.given_up.load(SeqCst) && place.timed_out.load(SeqCst);
        match (was_running, transaction_timed_out, run_timed_out) {
            (true, true, _) => place.free_after(ProcessEnd::TransactionTimeout),
            (true, false, true) => place.free_after(ProcessEnd::RunTimeout),
            (true, false, false) | (false, _, _) => place.free(),
        }
        Some((database, was_running))
    });
    let Some((database, was_running)) = found.flatten() else { return };
    if was_running {
        runner_news::run_lost(database);
    }
    runner_news::runners_wanted(database);
    with(|board| {
        let databases = board.waiting.iter().map(|waiting| waiting.database.load(SeqCst));
        databases.filter(|waiting| *waiting != 0 && *waiting != database).for_each(runner_news::runners_wanted);
    });
}
