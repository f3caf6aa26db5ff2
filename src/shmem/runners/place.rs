//! A place on the board: one runner, and what it is on.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};

use pgrx::datum::Uuid;
use scheduler_core::Instant;

/// The postmaster was asked for a runner and has not forked it within this, in microseconds: it may never come.
pub(super) const COMING_AT_MOST: i64 = 5_000_000;
/// No time at all.
pub(super) const NEVER: i64 = i64::MAX;

/// How many runners there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Of all roles, in all databases.
    pub most: usize,
    /// Of one role, in all databases.
    pub per_role: usize,
    /// Worker slots are too few at this moment: there is one place at most, and whoever runs something gives way after each run.
    pub lacking: bool,
}

/// What a place is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Phase {
    Free = 0,
    /// The postmaster was asked for a runner.
    Coming = 1,
    /// It waits for work.
    Idle = 2,
    /// It looks for work: somebody has woken it, or it has just come or ended a run.
    Looking = 3,
    Running = 4,
    /// It is to leave, or does.
    Leaving = 5,
}

/// Why a process has ended in the middle of a run, where that says more than that it is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ProcessEnd {
    /// The time limit of the run was over, and the dispatcher has terminated the process.
    RunTimeout = 1,
    /// The server has ended it because a transaction took longer than its `transaction_timeout`.
    TransactionTimeout = 2,
}

/// One runner.
pub(super) struct Place {
    pub(super) phase: AtomicU32,
    /// Which use of the place this is: a runner that comes too late finds another number.
    pub(super) serial: AtomicU32,
    pub(super) pid: AtomicI32,
    pub(super) database: AtomicU32,
    pub(super) owner: AtomicU32,
    /// What its login would have read before the process was there.
    pub(super) login: [AtomicU32; 6],
    /// When the phase began.
    pub(super) since: AtomicI64,
    /// The execution that runs, in two halves.
    pub(super) execution: [AtomicU64; 2],
    /// The number of the run, of all runs of this server; 0 = none.
    pub(super) run: AtomicU64,
    /// The number of its claim, of all claims of this server that others can see; 0 = they cannot yet.
    pub(super) claim: AtomicU64,
    /// The number of the run that is to be cancelled.
    pub(super) cancelled_run: AtomicU64,
    /// When the process is to be terminated because the run has not ended.
    pub(super) terminate_at: AtomicI64,
    /// The dispatcher has terminated the process, and given up its run.
    pub(super) given_up: AtomicBool,
    /// It did so because of the time limit of the run.
    pub(super) timed_out: AtomicBool,
    /// Free: why the process that had it ended in the middle of its run.
    pub(super) last_end: AtomicU32,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            phase: AtomicU32::new(Phase::Free as u32),
            serial: AtomicU32::new(0),
            pid: AtomicI32::new(0),
            database: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            login: std::array::from_fn(|_| AtomicU32::new(0)),
            since: AtomicI64::new(0),
            execution: [AtomicU64::new(0), AtomicU64::new(0)],
            run: AtomicU64::new(0),
            claim: AtomicU64::new(0),
            cancelled_run: AtomicU64::new(0),
            terminate_at: AtomicI64::new(NEVER),
            given_up: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            last_end: AtomicU32::new(0),
        }
    }
}

impl Place {
    pub(super) fn is(&self, phase: Phase) -> bool {
        self.phase.load(SeqCst) == phase as u32
    }

    pub(super) fn is_taken(&self) -> bool {
        !self.is(Phase::Free)
    }

    pub(super) fn is_of(&self, database: u32, owner: u32) -> bool {
        self.is_taken() && self.database.load(SeqCst) == database && self.owner.load(SeqCst) == owner
    }

    /// How long the phase has lasted, in microseconds.
    pub(super) fn age(&self, now: Instant) -> i64 {
        now.as_micros().saturating_sub(self.since.load(SeqCst)).saturating_abs()
    }

    /// The postmaster was asked for a process that has not come, and will not.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        self.is(Phase::Coming) && self.pid.load(SeqCst) == 0 && self.age(now) > COMING_AT_MOST
    }

    pub(super) fn begin(&self, phase: Phase, now: Instant) {
        self.since.store(now.as_micros(), SeqCst);
        self.phase.store(phase as u32, SeqCst);
    }

    /// It runs nothing any more.
    pub(super) fn forget_run(&self) {
        self.run.store(0, SeqCst);
        self.claim.store(0, SeqCst);
        self.execution.iter().for_each(|half| half.store(0, SeqCst));
        self.cancelled_run.store(0, SeqCst);
        self.terminate_at.store(NEVER, SeqCst);
        self.given_up.store(false, SeqCst);
        self.timed_out.store(false, SeqCst);
        self.last_end.store(0, SeqCst);
    }

    pub(super) fn free(&self) {
        self.forget_run();
        self.pid.store(0, SeqCst);
        self.database.store(0, SeqCst);
        self.owner.store(0, SeqCst);
        self.phase.store(Phase::Free as u32, SeqCst);
    }

    pub(super) fn is_on(&self, execution: Uuid) -> bool {
        let halves = halves(execution);
        (0..2).all(|half| self.execution[half].load(SeqCst) == halves[half])
    }

    pub(super) fn runs(&self, execution: Uuid) -> bool {
        self.is(Phase::Running) && self.is_on(execution)
    }

    /// Why the last process here ended while it ran this execution, if that is known.
    pub(super) fn end_of(&self, execution: Uuid) -> Option<ProcessEnd> {
        let last_end = self.last_end.load(SeqCst);
        let known = [ProcessEnd::RunTimeout, ProcessEnd::TransactionTimeout];
        known.into_iter().find(|end| *end as u32 == last_end && self.is_on(execution))
    }

    /// Is free from here on, but remembers for who ends its run why its process has ended.
    pub(super) fn free_after(&self, end: ProcessEnd) {
        let (database, execution) = (self.database.load(SeqCst), [0, 1].map(|half| self.execution[half].load(SeqCst)));
        self.free();
        self.database.store(database, SeqCst);
        (0..2).for_each(|half| self.execution[half].store(execution[half], SeqCst));
        self.last_end.store(end as u32, SeqCst);
    }
}

pub(super) fn halves(execution: Uuid) -> [u64; 2] {
    let (high, low) = execution.as_bytes().split_at(8);
    [high, low].map(|half| half.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
