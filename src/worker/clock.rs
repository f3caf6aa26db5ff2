//! The wall clock, by which all is planned, when somebody sets it back: then what was written by it before lies ahead of it.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use pgrx::{pg_sys, PgLogLevel};
use scheduler_core::runtime::set_back::SetBack;
use scheduler_core::Instant;

use crate::dispatch;
use crate::pg::error::{self, Failure};
use crate::pg::session;
use crate::shmem::registry;
use crate::store::schedule::ahead;
use crate::worker::{tick, transaction};

const LOOKING: &CStr = c"looking what lies ahead of the clock";

/// What is to be said.
enum Untold {
    /// Nothing.
    Nothing,
    /// Whether something lies ahead already: a server that was down has not seen its clock set back.
    Beginning,
    /// That the clock was set back.
    Back(Duration),
}

/// Tells `health` until when schedules lie ahead of the clock.
fn remember(until: Option<Instant>) {
    // SAFETY: reads a global of the process.
    let database = unsafe { pg_sys::MyDatabaseId.to_u32() };
    registry::set_ahead_until(database, until);
}

/// Watches the clock for a dispatcher.
pub struct ClockWatch {
    clock: SetBack,
    untold: Untold,
}

impl ClockWatch {
    /// From now on.
    pub fn begin() -> ClockWatch {
        ClockWatch { clock: SetBack::since(tick::now()), untold: Untold::Beginning }
    }

    /// Says once what there is to say, and has tried again what failed meanwhile, when there is work in this database; a look that fails is made again with the next turn. Whether the
    /// clock was just set back: what was planned by it is to be planned again.
    pub fn look(&mut self, database: &str) -> bool {
        let now = tick::now();
        let back = self.clock.told(now);
        if let Some(back) = back {
            self.untold = Untold::Back(back);
        }
        let whose = format!(" of database \"{database}\"");
        let now = now.wall;
        let told = match self.untold {
            Untold::Nothing => return false,
            Untold::Beginning => transaction::attempt(
                LOOKING,
                AssertUnwindSafe(|| {
                    session(|session| {
                        if ahead::is_likely(session, ahead::horizon(now)) {
                            ahead::try_again(session, now);
                            remember(dispatch::report_ahead(session, "scheduler: ", &whose, now));
                        }
                    });
                }),
            ),
            Untold::Back(back) => transaction::attempt(
                LOOKING,
                AssertUnwindSafe(|| {
                    let back = format!("scheduler: the clock was set back by {} s; ", back.as_secs());
                    let until = session(|session| {
                        ahead::try_again(session, now);
                        dispatch::report_ahead(session, &back, &whose, now)
                    });
                    remember(until);
                    if until.is_none() {
                        let none = format!("{back}no schedule{whose} lies ahead of it");
                        error::report(PgLogLevel::WARNING, Failure::warning(none));
                    }
                }),
            ),
        };
        if told.is_ok() {
            self.untold = Untold::Nothing;
        }
        back.is_some()
    }
}
