//! The legal transitions of an execution, in one place. The shell reads a row, asks here, and writes what the answer says.
//! Only the row lock that it holds meanwhile is Postgres' part.
//!
//! ```text
//!            claim, when due          finish_success
//!  PENDING ─────────▶ RUNNING ──────────────────────────▶ SUCCESS
//!                     ▲  │  │  finish_failure, stale: no attempt left,
//!      claim, when    │  │  │  terminal, or stale and not reentrant
//!      the retry is   │  │  └─────────────────────────▶ FAILED (terminal)
//!      due (attempt+1)│  ▼  finish_failure, stale: attempts left
//!                     FAILED (next_retry_at)
//! ```
//! `cancel` ends PENDING and retryable FAILED executions as CANCELLED; a RUNNING one is asked to stop and ends as CANCELLED
//! where it would have failed. A RUNNING execution whose lease is stale can be claimed as well where reentry is allowed (attempt + 1, a new token).
//! `snooze` takes a claim back: the execution is PENDING or retryable FAILED as before, until a time (`sql/query/lease/snooze.sql`).

use crate::keyword::keywords;

/// What is known of an execution when somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Dispatched or enqueued, never claimed.
    Pending {
        /// The time has come that it waits for, if it waits for one.
        due: bool,
    },
    /// Leased.
    Running {
        /// Its lease has run out.
        stale: bool,
        /// It was asked to stop.
        cancel_requested: bool,
    },
    /// Failed, to be tried again.
    Retryable {
        /// The time of the retry has come.
        due: bool,
    },
    /// SUCCESS, CANCELLED, or FAILED for good.
    Terminal,
}

/// How many attempts an execution has had and may have, and whether a stale run may be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts started so far, the running one included.
    pub attempt: i32,
    /// Attempts allowed.
    pub max_attempts: i32,
    /// A stale run may be taken over.
    pub allow_stale_reentry: bool,
}

impl Limits {
    fn attempts_left(self) -> bool {
        self.attempt < self.max_attempts
    }
}

keywords! {
    /// The lease that a claim gets.
    pub enum Claim {
        /// The first lease of this execution.
        Won = "won",
        /// A further lease: attempt + 1, new token, higher fence.
        Stole = "stole",
    }
}

/// What `try_claim` answers in place of a [`Claim`] when there is no lease, whatever the reason.
pub const CONFLICTED: &str = "conflicted";

/// Why a claim gets no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// Somebody holds a lease that has not run out.
    Running,
    /// The lease has run out, but the holder was asked to stop: the run ends as CANCELLED.
    CancelRequested,
    /// The lease has run out, but a stale run may not be taken over.
    NotReentrant,
    /// Nobody has claimed it yet, and the time that it waits for has not come.
    Delayed,
    /// It failed, and the time of its retry has not come.
    RetryNotDue,
    /// It has had as many attempts as it may have.
    NoAttemptLeft,
    /// It has ended.
    Terminal,
}

/// Which lease a claim on an execution in `state` gets.
pub fn claim(state: State, limits: Limits) -> Result<Claim, ClaimRefusal> {
    match state {
        State::Pending { due: true } => Ok(Claim::Won),
        State::Pending { due: false } => Err(ClaimRefusal::Delayed),
        State::Running { stale: false, .. } => Err(ClaimRefusal::Running),
        State::Running { stale: true, cancel_requested: true } => Err(ClaimRefusal::CancelRequested),
        State::Running { stale: true, .. } if !limits.allow_stale_reentry => Err(ClaimRefusal::NotReentrant),
        State::Retryable { due: false } => Err(ClaimRefusal::RetryNotDue),
        State::Running { stale: true, .. } | State::Retryable { due: true } if !limits.attempts_left() => {
            Err(ClaimRefusal::NoAttemptLeft)
        }
        State::Running { stale: true, .. } | State::Retryable { due: true } => Ok(Claim::Stole),
        State::Terminal => Err(ClaimRefusal::Terminal),
    }
}

/// What a failed run becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureOutcome {
    /// FAILED with a next_retry_at.
    Retry,
    /// FAILED for good.
    Terminal,
    /// CANCELLED: it had been asked to stop.
    Cancelled,
}

/// What a run becomes whose holder reports a failure; `terminal`: the holder says that trying again is of no use.
#[must_use]
pub fn failed(limits: Limits, terminal: bool, cancel_requested: bool) -> FailureOutcome {
    if cancel_requested {
        FailureOutcome::Cancelled
    } else if terminal || !limits.attempts_left() {
        FailureOutcome::Terminal
    } else {
        FailureOutcome::Retry
    }
}

/// What a run becomes whose lease ran out without a word from its holder.
#[must_use]
pub fn stale(limits: Limits, cancel_requested: bool) -> FailureOutcome {
    failed(limits, !limits.allow_stale_reentry, cancel_requested)
}

/// What `cancel` does to an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It becomes CANCELLED at once.
    Now,
    /// Its holder is asked to stop: the next heartbeat says so.
    Requested,
    /// It has ended already.
    TooLate,
}

/// What `cancel` does to an execution in `state`.
#[must_use]
pub fn cancel(state: State) -> Cancel {
    match state {
        State::Pending { .. } | State::Retryable { .. } => Cancel::Now,
        State::Running { .. } => Cancel::Requested,
        State::Terminal => Cancel::TooLate,
    }
}
