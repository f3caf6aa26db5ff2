//! When a schedule comes again: one that failed, and one that somebody else has in hand.

use pgrx::PgLogLevel;
use scheduler_core::runtime::backoff;
use scheduler_core::Instant;

use crate::pg::error::{self, Failure};
use crate::pg::Session;
use crate::store::database_clock;
use crate::store::schedule;

/// How long a schedule is left alone whose plan somebody is just claiming, or whose run somebody is just ending, in microseconds.
const POSTPONED: i64 = 100_000;

/// When a schedule comes again that somebody else has in hand.
pub fn postponed(now: Instant) -> Instant {
    now.checked_add_micros(POSTPONED).unwrap_or(Instant::MAX)
}

/// When to try again what failed with a schedule `before` times in a row and now once more; the log hears of the first time. `what` could
/// not be done is "armed" or "fired".
pub fn try_again_at(
    session: &Session,
    schedule_id: i64,
    what: &str,
    before: i32,
    failure: &Failure,
    now: Instant,
) -> Instant {
    if before == 0 {
        // Once, not at every retry.
        let text = format!(
            "scheduler: {} could not be {what} and will be tried again: {}",
            schedule::called(session, schedule_id),
            error::cut(&failure.message)
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
    }
    let wait = backoff::after_fire_failures(before.saturating_add(1));
    database_clock::now().max(now).checked_add_micros(wait).unwrap_or(Instant::MAX)
}
