//! What a dispatcher is told of runners: that somebody waits for one, and that a run may have lost its own.

use std::sync::atomic::Ordering::SeqCst;

use crate::shmem::registry::{slot_of, tell};

/// Has this database's dispatcher look who waits for a runner.
pub fn runners_wanted(database: u32) {
    tell(database, |slot| &slot.runners_wanted);
}

/// Has this database's dispatcher look which runs have lost their runner.
pub fn run_lost(database: u32) {
    tell(database, |slot| &slot.run_lost);
}

/// What a dispatcher was told since it looked.
#[derive(Clone, Copy, Default)]
pub struct RunnerNews {
    /// Somebody may be waiting for a runner.
    pub wanted: bool,
    /// A run may have lost its runner.
    pub lost: bool,
}

/// What this database's dispatcher was told of runners; each stays so until it is taken.
pub fn of(database: u32) -> RunnerNews {
    slot_of(database).map_or(RunnerNews::default(), |slot| RunnerNews {
        wanted: slot.runners_wanted.load(SeqCst),
        lost: slot.run_lost.load(SeqCst),
    })
}

/// To be said before looking who waits for a runner.
pub fn take_runners_wanted(database: u32) {
    slot_of(database).into_iter().for_each(|slot| slot.runners_wanted.store(false, SeqCst));
}

/// To be said before looking which runs have lost their runner.
pub fn take_run_lost(database: u32) {
    slot_of(database).into_iter().for_each(|slot| slot.run_lost.store(false, SeqCst));
}
