//! Whether a dispatcher may do anything in its database: not where library and objects do not go together, nor in a copy.

use std::ffi::CStr;

use pgrx::PgLogLevel;

use crate::pg::error::{self, Failure};
use crate::pg::objects_version::Fit;
use crate::pg::session;
use crate::store::database_clock;
use crate::store::identity::{self, Home};
use crate::worker::transaction;

/// What a dispatcher does meanwhile.
pub const LOOKING: &CStr = c"looking whether to work";

/// What a dispatcher found when it looked.
pub enum Readiness {
    /// All is well.
    Work,
    /// Nothing was ever defined here, or a restore has not come to that yet.
    Nothing,
    /// Nothing may be done until somebody has changed this, which is only a matter of time.
    Obstacle(Failure),
    /// Nothing may be done until somebody calls for it, perhaps never: not worth a worker slot. `sched.adopt` in a copy, and the end of test
    /// mode, ask for one.
    Leave(Failure),
}

/// Looks whether there is anything to do, in a transaction of its own; where that failed, why.
pub fn check() -> Result<Readiness, String> {
    transaction::attempt(LOOKING, || {
        session(|session| match session.check_version() {
            Fit::None(mismatch) => Readiness::Obstacle(mismatch),
            Fit::Same | Fit::Earlier(_) if database_clock::is_test() => {
                Readiness::Leave(Failure::note("the database is in test mode, in which nothing runs by itself"))
            }
            Fit::Same | Fit::Earlier(_) => match (identity::refuse_distributed(|| session), identity::load(|| session))
            {
                (Err(distributed), _) => Readiness::Obstacle(distributed),
                (Ok(()), Home::Here) => Readiness::Work,
                (Ok(()), Home::Nowhere) => Readiness::Nothing,
                (Ok(()), Home::Elsewhere) => Readiness::Leave(identity::copy()),
            },
        })
    })
}

/// What the log was told, so that it is told once.
#[derive(Default)]
pub struct LogOnce(Option<String>);

impl LogOnce {
    /// Says once what is in the way in this database, and once that nothing is any more.
    pub fn update(&mut self, database: &str, found: &Readiness) {
        let obstacle = match found {
            Readiness::Obstacle(why) => Some(why),
            Readiness::Work | Readiness::Nothing | Readiness::Leave(_) => None,
        };
        let before = std::mem::replace(&mut self.0, obstacle.map(|why| why.message.clone()));
        match obstacle {
            Some(why) if before.as_ref() != Some(&why.message) => log(database, "waits", why),
            None if before.is_some() => {
                let message = format!("scheduler: dispatcher for database \"{database}\" goes on");
                error::report(PgLogLevel::LOG, Failure::note(message));
            }
            Some(_) | None => {}
        }
    }
}

/// Says what a dispatcher does, and why.
pub fn log(database: &str, does: &str, why: &Failure) {
    let message = format!("scheduler: dispatcher for database \"{database}\" {does}: {}", why.message);
    error::report(PgLogLevel::LOG, Failure { message, ..why.clone() });
}
