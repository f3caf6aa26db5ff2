//! Every cell of state × limits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use scheduler_core::lease::{cancel, claim, failed, stale, Cancel, Claim, ClaimRefusal, FailureOutcome, Limits, State};

const ATTEMPTS: [(i32, i32); 8] = [(0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, 2), (0, i32::MAX), (i32::MAX, i32::MAX)];

fn limits((attempt, max_attempts): (i32, i32), allow_stale_reentry: bool) -> Limits {
    Limits { attempt, max_attempts, allow_stale_reentry }
}

/// Everything that a claim can meet: state, attempts left?, reentry?
fn check(state: State, attempts_left: bool, reentry: bool, expected: Result<Claim, ClaimRefusal>) {
    for attempts in ATTEMPTS.into_iter().filter(|(attempt, most)| (attempt < most) == attempts_left) {
        assert_eq!(claim(state, limits(attempts, reentry)), expected, "{state:?} {attempts:?} reentry {reentry}");
    }
}

#[test]
fn who_may_have_it() {
    let running = |stale, cancel_requested| State::Running { stale, cancel_requested };
    for reentry in [true, false] {
        for left in [true, false] {
            let further = if left { Ok(Claim::Stole) } else { Err(ClaimRefusal::NoAttemptLeft) };
            check(State::Pending { due: true }, left, reentry, Ok(Claim::Won));
            check(State::Pending { due: false }, left, reentry, Err(ClaimRefusal::Delayed));
            check(State::Retryable { due: true }, left, reentry, further);
            check(State::Retryable { due: false }, left, reentry, Err(ClaimRefusal::RetryNotDue));
            check(State::Terminal, left, reentry, Err(ClaimRefusal::Terminal));
            check(running(false, false), left, reentry, Err(ClaimRefusal::Running));
            check(running(false, true), left, reentry, Err(ClaimRefusal::Running));
            check(running(true, true), left, reentry, Err(ClaimRefusal::CancelRequested));
            check(running(true, false), left, reentry, if reentry { further } else { Err(ClaimRefusal::NotReentrant) });
        }
    }
}

#[test]
fn what_a_failure_becomes() {
    for attempts in ATTEMPTS {
        let left = attempts.0 < attempts.1;
        for reentry in [true, false] {
            for terminal in [true, false] {
                let expected = if left && !terminal { FailureOutcome::Retry } else { FailureOutcome::Terminal };
                assert_eq!(
                    failed(limits(attempts, reentry), terminal, false),
                    expected,
                    "{attempts:?} terminal {terminal}"
                );
                assert_eq!(failed(limits(attempts, reentry), terminal, true), FailureOutcome::Cancelled);
            }
            let expected = if left && reentry { FailureOutcome::Retry } else { FailureOutcome::Terminal };
            assert_eq!(stale(limits(attempts, reentry), false), expected, "stale {attempts:?} reentry {reentry}");
            assert_eq!(stale(limits(attempts, reentry), true), FailureOutcome::Cancelled);
        }
    }
}

#[test]
fn what_a_cancel_does() {
    assert_eq!(cancel(State::Pending { due: true }), Cancel::Now);
    assert_eq!(cancel(State::Pending { due: false }), Cancel::Now);
    assert_eq!(cancel(State::Retryable { due: true }), Cancel::Now);
    assert_eq!(cancel(State::Retryable { due: false }), Cancel::Now);
    assert_eq!(cancel(State::Terminal), Cancel::TooLate);
    for stale in [true, false] {
        for cancel_requested in [true, false] {
            assert_eq!(cancel(State::Running { stale, cancel_requested }), Cancel::Requested);
        }
    }
}

/// A stale run that may be taken over has a retry as its fate, and one that may not has not: the sweeper and a claimer
/// that come at the same time agree.
#[test]
fn sweeper_and_claimer_agree() {
    for attempts in ATTEMPTS {
        for reentry in [true, false] {
            for cancel_requested in [true, false] {
                let limits = limits(attempts, reentry);
                let taken = claim(State::Running { stale: true, cancel_requested }, limits) == Ok(Claim::Stole);
                assert_eq!(taken, stale(limits, cancel_requested) == FailureOutcome::Retry, "{limits:?}");
            }
        }
    }
}
