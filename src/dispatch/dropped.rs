//! What was in somebody's hands while its schedule was dropped with all that it had pending: nobody can claim it, and it ends here.

use pgrx::PgLogLevel;
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect;
use crate::pg::error::{self, Failure};
use crate::pg::Session;
use crate::store::schedule::dropped::{self, Runs};

/// How many schedules are looked at in one turn: each costs a look through the history of its scopes.
const STEP: i64 = 50;

/// Looks at some of the dropped schedules of which somebody had something in hand; how many.
pub fn settle_dropped(session: &Session, runs: Runs, now: Instant) -> usize {
    let due = dropped::due(session, now, STEP);
    if due.is_empty() {
        return 0;
    }
    // After they were seen to be dropped.
    let next = dropped::next_transaction();
    let mut failed = |schedule_id: &i64, failure: Failure| {
        let text = format!(
            "scheduler: executions of dropped schedule {schedule_id} could not be cancelled and will be tried again: {}",
            failure.message
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
        dropped::keep(session, vec![*schedule_id], next, now);
    };
    let mut settle = |schedule_ids: &[i64]| dropped::settle(session, schedule_ids, next, runs, now);
    bisect(&due, &mut settle, &mut failed).into_iter().sum()
}
