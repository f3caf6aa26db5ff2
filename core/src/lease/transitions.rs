//! The legal transitions of an execution, in one place. The shell reads a row, asks here, and writes what the answer says;
//! only the row lock that it holds meanwhile is Postgres' part.
//!
//! ```text
//!            claim                    finish_success
//!  PENDING ─────────▶ RUNNING ──────────────────────────▶ SUCCESS
//!                     ▲  │  │  finish_failure, stale: no attempt left,
//!      claim, when    │  │  │  terminal, or stale and not reentrant
//!      the retry is   │  │  └─────────────────────────▶ FAILED (terminal)
//!      due (attempt+1)│  ▼  finish_failure, stale: attempts left
//!                     FAILED (next_retry_at)
//! ```
//! `cancel` ends PENDING and retryable FAILED executions as CANCELLED; a RUNNING one is asked to stop and ends as CANCELLED
//! where it would have failed. A RUNNING execution whose lease is stale can be claimed as well where reentry is allowed (attempt + 1, a new token).

/// What is known of an execution when somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Dispatched or enqueued, never claimed.
    Pending,
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

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The first lease of this execution.
    Won,
    /// A further lease: attempt + 1, new token, higher fence.
    Stole,
    /// Not to be had.
    Conflicted,
}

/// Who may have an execution in `state`.
#[must_use]
pub fn claim(state: State, limits: Limits) -> Claim {
    match state {
        State::Pending => Claim::Won,
        State::Running { stale: true, cancel_requested: false }
            if limits.allow_stale_reentry && limits.attempts_left() =>
        {
            Claim::Stole
        }
        State::Retryable { due: true } if limits.attempts_left() => Claim::Stole,
        State::Running { .. } | State::Retryable { .. } | State::Terminal => Claim::Conflicted,
    }
}

/// What a failed run becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// FAILED with a next_retry_at.
    Retry,
    /// FAILED for good.
    Terminal,
    /// CANCELLED: it had been asked to stop.
    Cancelled,
}

/// What a run becomes whose holder reports a failure; `terminal`: the holder says that trying again is of no use.
#[must_use]
pub fn failed(limits: Limits, terminal: bool, cancel_requested: bool) -> Failure {
    if cancel_requested {
        Failure::Cancelled
    } else if terminal || !limits.attempts_left() {
        Failure::Terminal
    } else {
        Failure::Retry
    }
}

/// What a run becomes whose lease ran out without a word from its holder.
#[must_use]
pub fn stale(limits: Limits, cancel_requested: bool) -> Failure {
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
        State::Pending | State::Retryable { .. } => Cancel::Now,
        State::Running { .. } => Cancel::Requested,
        State::Terminal => Cancel::TooLate,
    }
}
