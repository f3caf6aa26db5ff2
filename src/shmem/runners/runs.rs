//! The runs on the board: where they are, and how they are stopped.

use std::ffi::c_int;
use std::sync::atomic::Ordering::SeqCst;

use pgrx::datum::Uuid;
use pgrx::pg_sys;
use scheduler_core::Instant;

use super::place::{Phase, Place, ProcessEnd, NEVER};
use super::{is_quiet, with};

/// Where an execution is whose lease says that a runner has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whereabouts {
    /// A process runs it.
    Running,
    /// It had a limit of time, and the process did not end with it.
    TimedOut,
    /// Its process has ended because a transaction took longer than its `transaction_timeout`.
    TransactionTimedOut,
    /// There is no such process, or it did not end when it was cancelled.
    Lost,
}

/// Where this execution is. Who asks has to have read its lease before, and has to hold it locked if he is to act.
pub fn whereabouts(database: u32, execution: Uuid) -> Whereabouts {
    let found = with(|board| {
        let here = || board.places.iter().filter(|place| place.database.load(SeqCst) == database);
        let Some(place) = here().find(|place| place.runs(execution)) else {
            return match here().find_map(|place| place.end_of(execution)) {
                Some(ProcessEnd::RunTimeout) => Whereabouts::TimedOut,
                Some(ProcessEnd::TransactionTimeout) => Whereabouts::TransactionTimedOut,
                None => Whereabouts::Lost,
            };
        };
        match (place.given_up.load(SeqCst), place.timed_out.load(SeqCst)) {
            (false, _) => Whereabouts::Running,
            (true, true) => Whereabouts::TimedOut,
            (true, false) => Whereabouts::Lost,
        }
    });
    found.unwrap_or(Whereabouts::Lost)
}

/// Whether a runner of this database runs one of these executions.
pub fn runs_one_of(database: u32, executions: &[Uuid]) -> bool {
    if is_quiet() {
        return false;
    }
    with(|board| {
        let mut running = board.places.iter().filter(|place| place.is(Phase::Running));
        running.any(|place| {
            place.database.load(SeqCst) == database && executions.iter().any(|execution| place.runs(*execution))
        })
    })
    .unwrap_or(false)
}

/// Has a run stop; false where this execution does not run here. Its process is terminated where it has not ended after `grace`
/// microseconds.
pub fn cancel(database: u32, execution: Uuid, now: i64, grace: i64) -> bool {
    with(|board| {
        let is_it = |place: &&Place| place.database.load(SeqCst) == database && place.runs(execution);
        let mut any = false;
        // Of two, one has just ended an attempt, and the other has the next.
        for place in board.places.iter().filter(is_it) {
            let run = place.run.load(SeqCst);
            if place.cancelled_run.swap(run, SeqCst) != run {
                place.terminate_at.fetch_min(now.saturating_add(grace), SeqCst);
            }
            // Under the lock: whoever has this number is that process.
            signal(place.pid.load(SeqCst), pg_sys::SIGUSR2 as i32);
            any = true;
        }
        any
    })
    .unwrap_or(false)
}

/// Terminates the processes of this database whose run should have ended by now, and gives up their runs; whether there was one.
pub fn terminate_overdue(database: u32, now: Instant) -> bool {
    with(|board| {
        let mut any = false;
        for place in board.places.iter().filter(|place| place.database.load(SeqCst) == database) {
            let is_due = place.is(Phase::Running) && place.terminate_at.load(SeqCst) <= now.as_micros();
            if is_due && !place.given_up.swap(true, SeqCst) {
                let cancelled = place.cancelled_run.load(SeqCst) == place.run.load(SeqCst);
                place.timed_out.store(!cancelled, SeqCst);
                signal(place.pid.load(SeqCst), pg_sys::SIGTERM as i32);
                any = true;
            }
        }
        any
    })
    .unwrap_or(false)
}

/// When the next process of this database is to be terminated.
pub fn next_termination(database: u32) -> Option<Instant> {
    let first = with(|board| {
        let places = board.places.iter().filter(|place| place.database.load(SeqCst) == database);
        let due = places.filter(|place| place.is(Phase::Running) && !place.given_up.load(SeqCst));
        due.map(|place| place.terminate_at.load(SeqCst)).min()
    });
    first.flatten().filter(|at| *at < NEVER).map(|at| Instant::from_micros(at).unwrap_or(Instant::MAX))
}

/// Sends a signal to a process of this server; one that has just gone is fine.
pub fn signal(pid: i32, number: i32) {
    unsafe extern "C" {
        fn kill(pid: i32, signal: c_int) -> c_int;
    }
    if pid > 0 {
        // SAFETY: the id stands on a board, where only a living process of this server has it.
        unsafe {
            kill(pid, number);
        }
    }
}
