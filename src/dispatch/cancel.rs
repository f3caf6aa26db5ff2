//! Cancelling one execution without a wait: where another transaction has it in hand, a request is left that a dispatcher carries out when
//! that transaction has ended.

use pgrx::datum::Uuid;
use pgrx::PgLogLevel;
use scheduler_core::lease::{self, Cancel};
use scheduler_core::Instant;

use crate::dispatch::bisect::bisect;
use crate::guc;
use crate::pg::error::{self, Failure};
use crate::pg::Session;
use crate::shmem::wakeup;
use crate::store::execution;
use crate::store::lease::cancel_request::{self, Request};
use crate::store::lease::sql as store;
use crate::store::schedule::dropped::Runs;

/// What became of an attempt to cancel an execution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It waited, and has ended.
    Ended,
    /// Its run was asked to stop.
    Asked,
    /// It had ended before, or there is none.
    TooLate,
    /// Another transaction has it in hand, or has changed it just now.
    InHand,
}

/// How many requests are looked at in one turn: each costs some statements.
const STEP: i64 = 50;

/// How often a call looks at an execution before it leaves a request: one that was claimed or ended meanwhile is in nobody's hand.
const LOOKS: usize = 3;

/// Cancels an execution, asks its run to stop, or leaves a request; never `InHand`.
pub fn cancel(session: &Session, execution_id: Uuid, now: Instant) -> Cancelled {
    for _ in 0..LOOKS {
        let cancelled = try_to_cancel(session, execution_id, Runs::End, now);
        if cancelled != Cancelled::InHand {
            return cancelled;
        }
    }
    cancel_request::add(session, execution_id);
    wakeup::at_commit(now);
    wakeup::cancel_at_commit(execution_id, guc::cancel_grace());
    Cancelled::Asked
}

/// Where `runs` stay, a run is left in hand.
fn try_to_cancel(session: &Session, execution_id: Uuid, runs: Runs, now: Instant) -> Cancelled {
    let Some((state, _)) = execution::state(session, execution_id, now) else { return Cancelled::TooLate };
    match lease::cancel(state) {
        Cancel::TooLate => Cancelled::TooLate,
        Cancel::Requested if runs == Runs::End && store::cancel_running(session, execution_id) => {
            wakeup::cancel_at_commit(execution_id, guc::cancel_grace());
            Cancelled::Asked
        }
        Cancel::Now if store::cancel_waiting(session, execution_id, now) => Cancelled::Ended,
        Cancel::Requested | Cancel::Now => Cancelled::InHand,
    }
}

/// Carries out requests whose execution is in nobody's hand any more; how many were looked at. A transaction that may stay open must not
/// lock a run, whose heartbeats and finishes would wait for it: there `runs` stay, and the request is kept until the run has ended.
pub fn settle_cancels(session: &Session, runs: Runs, now: Instant) -> usize {
    let due = cancel_request::due(session, now, STEP);
    let mut failed = |request: &Request, failure: Failure| {
        let text = format!(
            "scheduler: execution {} could not be cancelled and will be tried again: {}",
            request.execution_id, failure.message
        );
        error::report(PgLogLevel::LOG_SERVER_ONLY, Failure::note(text));
        cancel_request::keep(session, vec![request.id], now);
    };
    bisect(&due, &mut |requests| settle(session, requests, runs, now), &mut failed);
    due.len()
}

fn settle(session: &Session, requests: &[Request], runs: Runs, now: Instant) {
    let (mut done, mut kept) = (Vec::new(), Vec::new());
    for request in requests {
        match try_to_cancel(session, request.execution_id, runs, now) {
            Cancelled::InHand => kept.push(request.id),
            // It ran when it was to be cancelled: where it has failed since, it has been cancelled.
            Cancelled::TooLate => {
                store::cancel_failed(session, request.execution_id, now);
                done.push(request.id);
            }
            Cancelled::Ended | Cancelled::Asked => done.push(request.id),
        }
    }
    cancel_request::forget(session, done);
    cancel_request::keep(session, kept, now);
}
