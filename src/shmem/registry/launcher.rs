//! The launcher's side of the board.

use std::sync::atomic::Ordering::SeqCst;

use crate::shmem::registry::{board, slot_of, Board};

/// What a launcher may expect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// The one that is about to be started.
    Coming,
    /// None: one is there.
    Here,
    /// None: all slots are taken.
    NoSlot,
}

/// What became of a dispatcher that was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StartOutcome {
    /// It is coming, or there.
    Open,
    /// It has left, or died, after it had looked.
    Over,
    /// Locks have kept it out.
    Locked,
    /// It could not connect for another reason.
    Failed,
}

/// Proof that this process is the launcher.
pub struct Launcher(pub(super) &'static Board);

impl Launcher {
    /// Takes the launcher's place; `None` where the library was not preloaded.
    pub fn enter(pid: i32) -> Option<Launcher> {
        let board = board()?;
        board.launcher_pid.store(pid, SeqCst);
        Some(Launcher(board))
    }

    /// Whether something in this database asked for a dispatcher since the last time; forgets it.
    pub fn take_wanted(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| slot.wanted.swap(false, SeqCst))
    }

    /// Whether somebody asked for a dispatcher and found no free slot; forgets it.
    pub fn take_overlooked(&self) -> bool {
        self.0.overlooked.swap(false, SeqCst)
    }

    /// Whether this database has a dispatcher.
    pub fn has_dispatcher(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| slot.dispatcher_pid.load(SeqCst) != 0)
    }

    /// To be said before a dispatcher is started, which is right where one is then `Coming`.
    pub fn expect_dispatcher(&self, database: u32) -> Expected {
        self.0.with_slots(|| match self.0.slot_for(database) {
            None => Expected::NoSlot,
            // One that nobody expected any more has come. A second could not enter, and what is expected of it would stay for ever.
            Some(slot) if slot.dispatcher_pid.load(SeqCst) != 0 => Expected::Here,
            Some(slot) => {
                slot.begin();
                slot.starting.store(true, SeqCst);
                Expected::Coming
            }
        })
    }

    /// To be said when none was started after all.
    pub fn expect_no_more(&self, database: u32) {
        if let Some(slot) = self.0.slot_of(database) {
            slot.reached.store(true, SeqCst);
            slot.starting.store(false, SeqCst);
        }
    }

    /// Whether a dispatcher of this database has died on duty.
    pub fn misses_dispatcher(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| slot.served.load(SeqCst))
    }

    /// Whether the dispatcher of this database has found the extension.
    pub fn has_settled(&self, database: u32) -> bool {
        slot_of(database).is_some_and(|slot| slot.settled.load(SeqCst))
    }

    /// What became of the last one that was sent. A slot is given back where it was kept out of a database in which nobody is known to have
    /// the extension (`keep` says otherwise): a user can lock many databases, and slots are few.
    pub fn outcome(&self, database: u32, keep: bool) -> StartOutcome {
        self.0.with_slots(|| match self.0.slot_of(database) {
            None => StartOutcome::Over,
            Some(slot) if slot.is_attended() => StartOutcome::Open,
            Some(slot) if slot.served.load(SeqCst) && !slot.reached.load(SeqCst) => {
                let outcome = if slot.locked.load(SeqCst) { StartOutcome::Locked } else { StartOutcome::Failed };
                if !keep && !slot.wanted.load(SeqCst) {
                    slot.clear();
                }
                outcome
            }
            Some(_) => StartOutcome::Over,
        })
    }

    /// The databases that are being looked into: their dispatcher was sent and has not found the extension yet.
    pub fn looking(&self) -> impl Iterator<Item = u32> {
        self.0.slots.iter().filter(|slot| slot.is_looking()).map(|slot| slot.database.load(SeqCst))
    }

    /// Gives back the slots of databases that are no more or may not be served any longer. A dispatcher that is still there
    /// is told to look, and its slot stays its own until it has left.
    pub fn forget_missing(&self, exists: impl Fn(u32) -> bool) {
        for slot in &self.0.slots {
            let database = slot.database.load(SeqCst);
            if database == 0 || exists(database) {
                continue;
            }
            slot.call();
            self.0.with_slots(|| {
                if slot.database.load(SeqCst) == database && slot.dispatcher_pid.load(SeqCst) == 0 {
                    slot.clear();
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::shmem::registry::launcher::{Board, Expected, Launcher, SeqCst, StartOutcome};
    use crate::shmem::registry::Dispatcher;

    #[test]
    fn a_dispatcher_that_comes_late_takes_no_look_from_the_others() {
        let board: &'static Board = Box::leak(Box::default());
        let launcher = Launcher(board);
        assert_eq!(launcher.expect_dispatcher(7), Expected::Coming);
        launcher.expect_no_more(7);
        let late = Dispatcher::enter_on(board, 7, 42).map(|late| late.0.settled.store(true, SeqCst));
        assert!(late.is_some(), "the slot is free");
        assert_eq!(launcher.expect_dispatcher(7), Expected::Here);
        assert!(Dispatcher::enter_on(board, 7, 43).is_none());
        assert_eq!(launcher.looking().count(), 0);
    }

    #[test]
    fn who_locks_many_databases_takes_no_slots_with_them() {
        let board: &'static Board = Box::leak(Box::default());
        let launcher = Launcher(board);
        for has_the_extension in [false, true] {
            assert_eq!(launcher.expect_dispatcher(7), Expected::Coming);
            assert!(launcher.outcome(7, has_the_extension) == StartOutcome::Open);
            if let Some(came) = Dispatcher::enter_on(board, 7, 42) {
                came.kept_out();
                assert!(launcher.outcome(7, has_the_extension) == StartOutcome::Open);
                came.0.dispatcher_pid.store(0, SeqCst);
            }
            assert!(launcher.outcome(7, has_the_extension) == StartOutcome::Locked);
            assert_eq!(board.slot_of(7).is_some(), has_the_extension);
        }
    }
}
