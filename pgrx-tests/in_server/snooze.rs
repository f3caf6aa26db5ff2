//! A holder gives a run back until a time: the attempt does not count, and the execution is what it was before the claim.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{attempt, check, claim_one, refused, run, set_fast_path, sql, time_passes};

    fn both_ways(body: impl Fn(&str)) {
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            body(if fast_path { "rows" } else { "statements" });
        }
        set_fast_path(true);
    }

    /// Defines a job with a queue of its own, and puts one execution into it.
    fn enqueued(job: &str, attempts: i32) {
        run(&[
            &format!("SELECT sched.define_job('{job}', queue => '{job}', max_attempts => {attempts}, retry_backoff => '{{1 minute}}')"),
            &format!("SELECT sched.enqueue('{job}', '{{\"n\": 1}}')"),
        ]);
    }

    fn snooze(job: &str, until: &str) {
        let (id, token) = claim_one(job);
        run(&[&format!("SELECT sched.snooze('{id}', '{token}', {until})")]);
    }

    /// Status, attempt, when it can be claimed and where it stands.
    fn state(job: &str) -> String {
        sql(&format!(
            "SELECT e.status, e.attempt, round(extract(epoch FROM e.run_at - clock_timestamp()) / 60), round(extract(epoch FROM e.next_retry_at - clock_timestamp()) / 60), e.error_code,
                    {}
               FROM sched.execution e WHERE e.job_name = '{job}'",
            where_is("e.id")
        ))
    }

    const HOUR: &str = "clock_timestamp() + interval '1 hour'";

    #[pg_test]
    fn an_attempt_that_was_given_back_does_not_count() {
        both_ways(|way| {
            let job = format!("sn/first {way}");
            enqueued(&job, 1);
            let mut fences = Vec::new();
            for _ in 0..3 {
                let before = sql(&format!(
                    "SELECT to_jsonb(e) - 'updated_at' - 'run_at' FROM sched.execution e WHERE job_name = '{job}'"
                ));
                snooze(&job, HOUR);
                assert_eq!(state(&job), "PENDING|0|60|||delayed");
                check(
                    &format!(
                        "SELECT to_jsonb(e) - 'updated_at' - 'run_at' FROM sched.execution e WHERE job_name = '{job}'"
                    ),
                    &before,
                );
                check(&format!("SELECT count(*) FROM sched.claim('{job}')"), "0");
                check(&format!("SELECT delayed, ready FROM sched.queues WHERE queue = '{job}'"), "1|0");
                time_passes("59 minutes");
                check(&format!("SELECT count(*) FROM sched.claim('{job}')"), "0");
                time_passes("1 minute");
                fences.push(sql("SELECT last_value FROM sched.fence").parse::<i64>().unwrap());
            }
            let claimed =
                sql(&format!("SELECT attempt, max_attempts, payload, fence > {} FROM sched.claim('{job}')", fences[2]));
            assert_eq!(claimed, "1|1|{\"n\": 1}|t");
            assert!(fences.is_sorted() && fences[0] < fences[2]);
            run(&[&format!(
                "SELECT sched.finish_success(id, lease_token) FROM sched.execution WHERE job_name = '{job}'"
            )]);
            check(&format!("SELECT status, attempt FROM sched.execution WHERE job_name = '{job}'"), "SUCCESS|1");
        });
    }

    #[pg_test]
    fn a_time_that_has_come_means_at_once() {
        both_ways(|way| {
            let job = format!("sn/now {way}");
            enqueued(&job, 2);
            for until in ["clock_timestamp()", "'2001-01-01'"] {
                snooze(&job, until);
                assert!(state(&job).starts_with("PENDING|0|") && state(&job).ends_with("|ready"), "{}", state(&job));
            }
            let (id, token) = claim_one(&job);
            run(&[&format!("SELECT sched.finish_failure('{id}', '{token}', next_retry_at => now())")]);
            snooze(&job, "now()");
            assert!(
                state(&job).starts_with("FAILED|1|") && state(&job).ends_with("|handler_error|ready"),
                "{}",
                state(&job)
            );
        });
    }

    /// The second attempt: it has failed, as it did before, and is to be tried again then.
    #[pg_test]
    fn a_later_attempt_goes_back_to_the_failure_before() {
        both_ways(|way| {
            let job = format!("sn/later {way}");
            enqueued(&job, 2);
            let (id, token) = claim_one(&job);
            run(&[&format!("SELECT sched.finish_failure('{id}', '{token}', 'busy', 'said so')")]);
            time_passes("2 minutes");
            for _ in 0..2 {
                let before = sql("SELECT to_jsonb(e) - 'updated_at' - 'next_retry_at' FROM sched.execution e ORDER BY created_at DESC LIMIT 1");
                snooze(&job, HOUR);
                assert_eq!(state(&job), "FAILED|1||60|busy|delayed");
                check("SELECT to_jsonb(e) - 'updated_at' - 'next_retry_at' FROM sched.execution e ORDER BY created_at DESC LIMIT 1", &before);
                check(&format!("SELECT outcome FROM sched.try_claim('{job}', (SELECT plan_time FROM sched.ledger WHERE id = '{id}'), 'adhoc', (SELECT scope_id FROM sched.ledger WHERE id = '{id}'))"), "conflicted");
                check(&format!("SELECT delayed, retrying FROM sched.queues WHERE queue = '{job}'"), "0|1");
                time_passes("1 hour");
            }
            check(&format!("SELECT attempt FROM sched.claim('{job}')"), "2");
        });
    }

    /// Attempts that were lost and taken over at once stand nowhere but in the lease.
    #[pg_test]
    fn an_attempt_after_a_lost_one_goes_back_to_that() {
        both_ways(|way| {
            let job = format!("sn/lost {way}");
            enqueued(&job, 3);
            run(&[&format!("SELECT sched.claim('{job}', stale_timeout => '1 minute')")]);
            time_passes("2 minutes");
            snooze(&job, HOUR);
            assert_eq!(state(&job), "FAILED|1||60|stale_timeout|delayed");
            check(
                &format!("SELECT error_msg, finished_at IS NOT NULL FROM sched.execution WHERE job_name = '{job}'"),
                "lease expired without heartbeat|t",
            );
            time_passes("1 hour");
            check(&format!("SELECT attempt FROM sched.claim('{job}')"), "2");
        });
    }

    #[pg_test]
    fn who_was_asked_to_stop_ends() {
        both_ways(|way| {
            let job = format!("sn/cancelled {way}");
            enqueued(&job, 3);
            let (id, token) = claim_one(&job);
            run(&[&format!("SELECT sched.cancel('{id}')"), &format!("SELECT sched.snooze('{id}', '{token}', {HOUR})")]);
            check(&format!("SELECT status, attempt, finished_at IS NOT NULL, error_code, run_at, lease_token = '{token}' FROM sched.execution WHERE id = '{id}'"), "CANCELLED|1|t|||t");
            assert!(state(&job).ends_with("||||"), "{}", state(&job));
            // What is only too late is none.
            run(&[
                &format!("SELECT sched.define_job('{job} late', queue => '{job} late', run_timeout => '1 minute')"),
                &format!("SELECT sched.enqueue('{job} late')"),
            ]);
            let (id, token) = claim_one(&format!("{job} late"));
            time_passes("2 minutes");
            run(&[&format!("SELECT sched.snooze('{id}', '{token}', {HOUR})")]);
            check(&format!("SELECT status, attempt FROM sched.execution WHERE id = '{id}'"), "PENDING|0");
        });
    }

    /// Neither while somebody may still fire it nor once that is over.
    #[pg_test]
    fn a_run_of_a_dropped_schedule_is_not_given_again() {
        both_ways(|way| {
            for (settled, attempts) in [(false, 3), (true, 3), (false, 1)] {
                let name = format!("sn/dropped {way} {settled} {attempts}");
                run(&[
                    &format!("SELECT sched.define_job('{name}', queue => '{name}', max_attempts => {attempts})"),
                    &format!("SELECT sched.create_schedule('{name}', '0 * * * *', '{name}')"),
                    &format!("SELECT sched.fire_now('{name}')"),
                ]);
                let (id, token) = claim_one(&name);
                run(&[&format!("SELECT sched.drop_schedule('{name}', cancel_pending => true)")]);
                if settled {
                    run(&[
                        &format!("UPDATE sched.ledger SET max_attempts = 1, run_at = 'infinity' WHERE id = '{id}'"),
                        &format!("DELETE FROM sched.schedule_dropped WHERE schedule_id = (SELECT schedule_id FROM sched.ledger WHERE id = '{id}')"),
                    ]);
                    check(&format!("SELECT run_at FROM sched.execution WHERE id = '{id}'"), "");
                }
                run(&[&format!("SELECT sched.snooze('{id}', '{token}', now())")]);
                check(&format!("SELECT status, run_at FROM sched.execution WHERE id = '{id}'"), "CANCELLED|");
                check(&format!("SELECT count(*) FROM sched.claim('{name}')"), "0");
            }
        });
    }

    /// It is no end: who waits for that goes on waiting.
    #[pg_test]
    fn a_schedule_that_waits_for_the_end_waits_on() {
        run(&[
            "SELECT sched.define_job('sn/awaited', queue => 'sn/awaited', max_attempts => 2)",
            "SELECT sched.create_schedule('sn/awaited', 'every 1 minute', 'sn/awaited', rearm => 'on_terminal')",
            "SELECT sched.dispatch_due()",
        ]);
        time_passes("1 minute");
        run(&["SELECT sched.dispatch_due()"]);
        snooze("sn/awaited", "now()");
        run(&["SELECT sched.dispatch_due()"]);
        check("SELECT state FROM sched.schedules WHERE schedule_name = 'sn/awaited'", "waiting");
        let (id, token) = claim_one("sn/awaited");
        run(&[
            &format!("SELECT sched.cancel('{id}')"),
            &format!("SELECT sched.snooze('{id}', '{token}', now())"),
            "SELECT sched.dispatch_due()",
        ]);
        check("SELECT state FROM sched.schedules WHERE schedule_name = 'sn/awaited'", "armed");
    }

    #[pg_test]
    fn what_cannot_be_snoozed_stays() {
        both_ways(|way| {
            let job = format!("sn/bad {way}");
            enqueued(&job, 3);
            let (id, token) = claim_one(&job);
            let call = |id: &str, token: &str, until: &str| format!("SELECT sched.snooze({id}, {token}, {until})");
            let (id, token) = (format!("'{id}'"), format!("'{token}'"));
            for (id, token, until, sqlstate) in [
                ("NULL", token.as_str(), "now()", "22004"),
                (&id, "NULL", "now()", "22004"),
                (&id, &token, "NULL", "22004"),
                (&id, &token, "'infinity'", "22008"),
                (&id, &token, "'-infinity'", "22008"),
                (&id, "gen_random_uuid()", "now()", "55000"),
                ("gen_random_uuid()", &token, "now()", "55000"),
            ] {
                refused(&call(id, token, until), sqlstate);
            }
            run(&[
                &format!("CREATE ROLE sn_{way}"),
                &format!("SELECT sched.grant_use('sn_{way}')"),
                &format!("SET LOCAL ROLE sn_{way}"),
            ]);
            assert_eq!(attempt(&call(&id, &token, "now()")).unwrap().sqlstate, "42501");
            run(&["RESET ROLE"]);
            check(&format!("SELECT sched.heartbeat({id}, {token})"), "ok");
            run(&[&call(&id, &token, HOUR)]);
            refused(&call(&id, &token, HOUR), "55000");
            refused(&format!("SELECT sched.heartbeat({id}, {token})"), "55000");
        });
    }
}
