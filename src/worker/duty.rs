//! Whether a dispatcher may do anything in its database: not where library and objects are of different versions, nor in a copy.

use std::ffi::CStr;

use pgrx::PgLogLevel;

use crate::error::{self, Failure};
use crate::store::home::{self, Home};
use crate::store::{session, version};
use crate::worker::transaction;

/// What a dispatcher does meanwhile.
pub const LOOKING: &CStr = c"looking whether to work";

/// What a dispatcher found when it last looked.
#[derive(Default)]
pub struct Duty {
    /// What the log was told, so that it is told once.
    told: Option<String>,
}

enum Found {
    /// All is well.
    Work,
    /// Nothing was ever defined here, or a restore has not come to that yet.
    Nothing,
    /// Nothing may be done until somebody has changed this.
    Obstacle(Failure),
}

impl Duty {
    /// Whether there is anything to do, in a transaction of its own; where that failed, why. Says once what is in the way.
    pub fn look(&mut self) -> Result<bool, String> {
        let (database, found) = transaction::attempt(LOOKING, || (home::database_name(), look()))?;
        let (works, obstacle) = match found {
            Found::Work => (true, None),
            Found::Nothing => (false, None),
            Found::Obstacle(why) => (false, Some(why)),
        };
        let before = self.told.take();
        self.told = obstacle.as_ref().map(|why| why.message.clone());
        match obstacle {
            Some(why) if before.as_ref() != Some(&why.message) => {
                let message = format!("scheduler: dispatcher for database \"{database}\" waits: {}", why.message);
                error::report(PgLogLevel::LOG, Failure { message, ..why });
            }
            None if before.is_some() => {
                let message = format!("scheduler: dispatcher for database \"{database}\" goes on");
                error::report(PgLogLevel::LOG, Failure::note(message));
            }
            Some(_) | None => {}
        }
        Ok(works)
    }
}

fn look() -> Found {
    session(|session| match version::look(session) {
        Some(mismatch) => Found::Obstacle(mismatch),
        None => match home::look(session) {
            Home::Here => Found::Work,
            Home::Nowhere => Found::Nothing,
            Home::Elsewhere => Found::Obstacle(home::copy()),
        },
    })
}
