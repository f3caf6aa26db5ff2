//! Every (state, attempts left, reentrant) × action cell of an execution: what the function answers, what the row is
//! afterwards, and in which of ready, retry and lease it stands. What the core decides is asked of the core, so the SQL
//! cannot drift from `core/src/lease/transitions.rs`; the rest is the contract.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;
    use scheduler_core::lease::{self, Cancel, Claim, FailureOutcome};

    use crate::store::lease::insert_prediction;
    use crate::test_support::{check, run, time_passes};

    use crate::test_support::grid::{cells, After, Cell, Start, Unfinished};

    /// What a claim makes of a cell, by the core's word.
    fn claimed(cell: &Cell) -> After {
        After::of(cell).leased()
    }

    /// Also where the session guesses that the key is a new one: a wrong guess changes nothing but the next guess.
    #[pg_test]
    fn grid_try_claim() {
        for new_before in [15, 16] {
            for cell in cells("grid/try_claim") {
                insert_prediction::reset();
                (0..new_before).for_each(|_| insert_prediction::learn(|| Some(())).unwrap_or_default());
                assert_eq!(insert_prediction::probably_new(), new_before == 16);
                let answer = lease::claim(cell.state(), cell.limits());
                let arguments =
                    cell.explicit_attempts().map_or(String::new(), |most| format!(", max_attempts => {most}"));
                let action =
                    format!("SELECT outcome FROM sched.try_claim('{}', '2026-01-01 00:00+00'{arguments})", cell.job);
                match answer {
                    Ok(Claim::Won) => cell.check(&action, "won", Some(claimed(&cell))),
                    Ok(Claim::Stole) => cell.check(&action, "stole", Some(claimed(&cell))),
                    Err(_) => cell.check(&action, "conflicted", None),
                }
                assert!(!insert_prediction::probably_new(), "{cell:?}");
            }
        }
    }

    /// A later explicit argument replaces the limits that the row stores, and decides.
    #[pg_test]
    fn grid_try_claim_with_limits() {
        for cell in cells("grid/limits") {
            for max_attempts in [1, 2] {
                for allow_stale_reentry in [false, true] {
                    let limits = lease::Limits { max_attempts, allow_stale_reentry, ..cell.limits() };
                    let action = format!(
                        "SELECT outcome FROM sched.try_claim('{}', '2026-01-01 00:00+00', max_attempts => {max_attempts}, \
                         allow_stale_reentry => {allow_stale_reentry})",
                        cell.job
                    );
                    let after = || Some(After { max_attempts, allow_stale_reentry, ..claimed(&cell) });
                    match lease::claim(cell.state(), limits) {
                        Ok(Claim::Won) => cell.check(&action, "won", after()),
                        Ok(Claim::Stole) => cell.check(&action, "stole", after()),
                        Err(_) => cell.check(&action, "conflicted", None),
                    }
                }
            }
        }
    }

    #[pg_test]
    fn grid_claim() {
        for cell in cells("grid/claim").into_iter().filter(Cell::is_reachable) {
            let action = format!("SELECT count(*) FROM sched.claim('{}')", cell.job);
            match lease::claim(cell.state(), cell.limits()) {
                Ok(Claim::Won | Claim::Stole) => cell.check(&action, "1", Some(claimed(&cell))),
                Err(_) => cell.check(&action, "0", None),
            }
        }
    }

    /// Also among retries that nobody has made claimable yet, and whatever the order in which they fell due.
    #[pg_test]
    fn claim_takes_due_retries_by_priority() {
        for (job, priority) in [("grid/low", 0), ("grid/high", 1)] {
            run(&[
                &format!("SELECT sched.define_job('{job}', queue => 'grid/retries', max_attempts => 2, priority => {priority})"),
                &format!("SELECT sched.try_claim('{job}', '2026-01-01')"),
                &format!(
                    "SELECT sched.finish_failure(id, lease_token, next_retry_at => clock_timestamp() + interval '1 hour')
                       FROM sched.execution WHERE job_name = '{job}'"
                ),
            ]);
        }
        time_passes("2 hours");
        check("SELECT job_name FROM sched.claim('grid/retries')", "grid/high");
        check("SELECT job_name FROM sched.claim('grid/retries')", "grid/low");
    }

    #[pg_test]
    fn grid_heartbeat() {
        for cell in cells("grid/heartbeat").into_iter().filter(Cell::is_reachable) {
            let answer = if cell.cancel_requested() { "cancel" } else { "ok" };
            let after = After { stale: Some(false), progress: r#"{"n": 1}"#.into(), ..After::of(&cell) };
            cell.check_holder("heartbeat", ", progress => '{\"n\": 1}'", answer, after);
        }
    }

    #[pg_test]
    fn grid_heartbeat_many() {
        for cell in cells("grid/beats").into_iter().filter(Cell::is_reachable) {
            for right in [true, false] {
                let action = format!(
                    "SELECT answer FROM sched.heartbeat_many(ARRAY['{}'::uuid], ARRAY['{}'::uuid])",
                    cell.id,
                    cell.token(right)
                );
                if right && cell.is_running() {
                    let answer = if cell.cancel_requested() { "cancel" } else { "ok" };
                    cell.check(&action, answer, Some(After { stale: Some(false), ..After::of(&cell) }));
                } else {
                    cell.check(&action, "lost", None);
                }
            }
        }
    }

    #[pg_test]
    fn grid_assert_lease() {
        for cell in cells("grid/assert").into_iter().filter(Cell::is_reachable) {
            cell.check_holder("assert_lease", "", "", After::of(&cell));
        }
    }

    #[pg_test]
    fn grid_finish_success() {
        for cell in cells("grid/success").into_iter().filter(Cell::is_reachable) {
            let after = After { rows_affected: "7".into(), ..After::of(&cell).ended("SUCCESS", "", "") };
            cell.check_holder("finish_success", ", 7", "", after);
        }
    }

    #[pg_test]
    fn grid_finish_success_many() {
        for cell in cells("grid/many").into_iter().filter(Cell::is_reachable) {
            for right in [true, false] {
                let action = format!(
                    "SELECT count(*) FROM sched.finish_success_many(ARRAY['{}'::uuid], ARRAY['{}'::uuid])",
                    cell.id,
                    cell.token(right)
                );
                if right && cell.is_running() {
                    cell.check(&action, "0", Some(After::of(&cell).ended("SUCCESS", "", "")));
                } else {
                    cell.check(&action, "1", None);
                }
            }
        }
    }

    #[pg_test]
    fn grid_finish_failure() {
        for cell in cells("grid/failure").into_iter().filter(Cell::is_reachable) {
            for (terminal, more, due) in [
                (false, "", false), // the job's backoff: an hour
                (true, ", terminal => true", false),
                (false, ", next_retry_at => clock_timestamp() + interval '1 day'", false),
                (false, ", next_retry_at => '2001-01-01'", true),
            ] {
                let after = match lease::failed(cell.limits(), terminal, cell.cancel_requested()) {
                    FailureOutcome::Retry => {
                        After::of(&cell).failed("E", "m", if due { Unfinished::Ready } else { Unfinished::Delayed })
                    }
                    FailureOutcome::Terminal => After::of(&cell).ended("FAILED", "E", "m"),
                    FailureOutcome::Cancelled => After::of(&cell).ended("CANCELLED", "E", "m"),
                };
                cell.check_holder("finish_failure", &format!(", 'E', 'm'{more}"), "", after);
            }
            let both = ", terminal => true, next_retry_at => '2001-01-01'";
            let action = format!("SELECT sched.finish_failure('{}', '{}'{both})", cell.id, cell.token(true));
            cell.check(&action, "22023", None);
        }
    }

    #[pg_test]
    fn grid_cancel() {
        for cell in cells("grid/cancel").into_iter().filter(Cell::is_reachable) {
            let action = format!("SELECT sched.cancel('{}')", cell.id);
            match lease::cancel(cell.state()) {
                Cancel::Now => {
                    // How its last attempt failed, if there was one, stays readable.
                    let after = After::of(&cell);
                    let (code, message) = (after.error_code.clone(), after.error_msg.clone());
                    cell.check(&action, "true", Some(after.ended("CANCELLED", &code, &message)));
                }
                Cancel::Requested => {
                    cell.check(&action, "true", Some(After { cancel_requested: Some(true), ..After::of(&cell) }));
                }
                Cancel::TooLate => cell.check(&action, "false", None),
            }
        }
    }

    #[pg_test]
    fn grid_mark_stale_as_failed() {
        for cell in cells("grid/sweep").into_iter().filter(Cell::is_reachable) {
            let (code, message) = ("stale_timeout", "lease expired without heartbeat");
            for argument in [format!("'{}'", cell.job), String::new()] {
                let action = format!("SELECT sched.mark_stale_as_failed({argument})");
                if matches!(cell.start, Start::Running { stale: true, .. }) {
                    let after = match lease::stale(cell.limits(), cell.cancel_requested()) {
                        FailureOutcome::Retry => After::of(&cell).failed(code, message, Unfinished::Delayed),
                        FailureOutcome::Terminal => After::of(&cell).ended("FAILED", code, message),
                        FailureOutcome::Cancelled => After::of(&cell).ended("CANCELLED", code, message),
                    };
                    cell.check(&action, "1", Some(after));
                } else {
                    cell.check(&action, "0", None);
                }
            }
            cell.check("SELECT sched.mark_stale_as_failed('grid/another')", "0", None);
        }
    }
}
