//! claim, try_claim and what a holder of a lease may do.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{attempt, check, claim_one, created, dispatch, fails, refused, run, sql, time_passes};

    const PLAN: &str = "'2026-01-01 00:00+00'";

    /// try_claim of this job with these further arguments.
    fn try_claim(job: &str, more: &str) -> String {
        sql(&format!("SELECT outcome FROM sched.try_claim('{job}', {PLAN}{more})"))
    }

    /// The id and token of a fresh lease by try_claim.
    fn lease(job: &str, more: &str) -> (String, String) {
        let row =
            sql(&format!("SELECT outcome, execution_id, lease_token FROM sched.try_claim('{job}', {PLAN}{more})"));
        let parts: Vec<&str> = row.split('|').collect();
        assert_ne!(parts[0], "conflicted");
        (parts[1].to_owned(), parts[2].to_owned())
    }

    fn call(function: &str, (id, token): &(String, String), more: &str) -> String {
        format!("SELECT sched.{function}('{id}', '{token}'{more})")
    }

    #[pg_test]
    fn try_claim_wins_once() {
        check(
            "SELECT outcome, attempt, max_attempts, payload, stale_after - now() BETWEEN '4 min 59 s' AND '5 min 1 s', fence > 0
               FROM sched.try_claim('x/new', '2026-01-01')",
            "won|1|1|{}|t|t",
        );
        check("SELECT * FROM sched.try_claim('x/new', '2026-01-01')", "conflicted|||||||||");
        check(
            "SELECT scope_kind, scope_id, queue, priority, status, attempt, origin, schedule_name, runner_id LIKE '%/' || pg_backend_pid(),
                    started_at = heartbeat_at, stale_after > started_at, lease_token <> id, fence > 0 FROM sched.execution",
            "global|global|default|0|RUNNING|1|claim||t|t|t|t|t",
        );
        // Another plan time, scope kind, scope id or job is another execution.
        for other in [
            "'x/new', '2026-01-01 00:00:00.000001+00'",
            "'x/new', '2026-01-01', 'other'",
            "'x/new', '2026-01-01', scope_id => 'other'",
            "'x/ne', '2026-01-01', 'wglobal'",
        ] {
            check(&format!("SELECT outcome FROM sched.try_claim({other})"), "won");
        }
    }

    #[pg_test]
    fn try_claim_takes_limits_from_argument_then_job_then_default() {
        run(&["SELECT sched.define_job('x/limits', max_attempts => 3, allow_stale_reentry => false, stale_timeout => '10 s', queue => 'q', priority => 4)"]);
        let row = "SELECT max_attempts, stale_after - clock_timestamp() < '10 s' FROM sched.try_claim('x/limits', ";
        check(&format!("{row}'2026-01-01')"), "3|t");
        check(
            &format!("{row}'2026-01-02', max_attempts => 7, allow_stale_reentry => true, stale_timeout => '1 day')"),
            "7|f",
        );
        check(
            "SELECT max_attempts, allow_stale_reentry, queue, priority FROM sched.execution ORDER BY plan_time",
            "3|f|q|4\n7|t|q|4",
        );
    }

    #[pg_test]
    fn try_claim_in_every_state() {
        run(&["SELECT sched.define_job('x/states', max_attempts => 3, retry_backoff => '{1 hour}')"]);
        // RUNNING
        let first = lease("x/states", "");
        assert_eq!(try_claim("x/states", ""), "conflicted");
        // FAILED, the retry not due
        run(&[&call("finish_failure", &first, ", 'code', 'message'")]);
        assert_eq!(try_claim("x/states", ""), "conflicted");
        // FAILED, the retry due: a new token, a higher fence, the old end forgotten
        time_passes("61 minutes");
        let at = "(SELECT plan_time FROM sched.execution)";
        let claim =
            format!("SELECT outcome, attempt, execution_id, lease_token FROM sched.try_claim('x/states', {at})");
        let second = sql(&claim);
        assert!(second.starts_with(&format!("stole|2|{}|", first.0)) && !second.ends_with(&first.1), "{second}");
        check(
            "SELECT status, attempt, finished_at, error_code, error_msg, next_retry_at FROM sched.execution",
            "RUNNING|2||||",
        );
        // RUNNING, stale
        time_passes("6 minutes");
        let third = sql(&claim);
        assert!(third.starts_with(&format!("stole|3|{}|", first.0)), "{third}");
        check("SELECT fence > 0, attempt, max_attempts FROM sched.execution", "t|3|3");
        // RUNNING, stale, no attempt left
        time_passes("6 minutes");
        assert!(sql(&claim).starts_with("conflicted"));
        // A later explicit argument replaces the stored limit.
        check(
            &format!("SELECT outcome, attempt, max_attempts FROM sched.try_claim('x/states', {at}, max_attempts => 4)"),
            "stole|4|4",
        );
        check("SELECT max_attempts FROM sched.execution", "4");
        // SUCCESS
        run(&["SELECT sched.finish_success(id, lease_token) FROM sched.execution"]);
        assert!(sql(&claim).starts_with("conflicted"));
        assert!(sql(&format!("SELECT outcome FROM sched.try_claim('x/states', {at}, max_attempts => 99)"))
            .starts_with("conflicted"));
    }

    #[pg_test]
    fn try_claim_of_pending_and_terminal() {
        created("x/pending", "every 1 hour", "payload => '{\"p\": 1}'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        let claim = "SELECT outcome, attempt, payload FROM sched.try_claim('job of x/pending', (SELECT plan_time FROM sched.execution), 'schedule', 'x/pending'";
        check(&format!("{claim}, max_attempts => 2)"), "won|1|{\"p\": 1}");
        check("SELECT count(*) FROM sched.claim()", "0");
        run(&["SELECT sched.finish_failure(id, lease_token, terminal => true) FROM sched.execution"]);
        check("SELECT status, attempt, max_attempts, next_retry_at FROM sched.execution", "FAILED|1|2|");
        check(&format!("{claim})"), "conflicted||");
        check(&format!("{claim}, max_attempts => 9)"), "conflicted||");
    }

    #[pg_test]
    fn a_stale_run_that_is_not_reentrant_is_left_alone() {
        lease("x/once", ", max_attempts => 5, allow_stale_reentry => false, stale_timeout => '1 s'");
        time_passes("1 minute");
        let at = "(SELECT plan_time FROM sched.execution)";
        check(&format!("SELECT outcome FROM sched.try_claim('x/once', {at})"), "conflicted");
        check("SELECT count(*) FROM sched.claim()", "0");
        check(&format!("SELECT outcome FROM sched.try_claim('x/once', {at}, allow_stale_reentry => true)"), "stole");
    }

    #[pg_test]
    fn bad_arguments_of_claims() {
        for (arguments, sqlstate) in [
            ("NULL, '2026-01-01'", "22004"),
            ("'', '2026-01-01'", "22023"),
            ("repeat('x', 1001), '2026-01-01'", "22023"),
            ("'x/bad', NULL", "22004"),
            ("'x/bad', 'infinity'", "22008"),
            ("'x/bad', '-infinity'", "22008"),
            ("'x/bad', '2026-01-01', scope_kind => ''", "22023"),
            ("'x/bad', '2026-01-01', scope_kind => NULL", "22004"),
            ("'x/bad', '2026-01-01', scope_id => ''", "22023"),
            ("'x/bad', '2026-01-01', scope_id => NULL", "22004"),
            ("'x/bad', '2026-01-01', runner_id => ''", "22023"),
            ("'x/bad', '2026-01-01', runner_id => repeat('x', 1001)", "22023"),
            ("'x/bad', '2026-01-01', stale_timeout => '0'", "22023"),
            ("'x/bad', '2026-01-01', stale_timeout => '-1 s'", "22023"),
            ("'x/bad', '2026-01-01', stale_timeout => '1 month'", "22023"),
            ("'x/bad', '2026-01-01', stale_timeout => make_interval(days => 2147483647)", "22008"),
            ("'x/bad', '2026-01-01', max_attempts => 0", "22023"),
            ("'x/bad', '2026-01-01', max_attempts => -1", "22023"),
        ] {
            refused(&format!("SELECT * FROM sched.try_claim({arguments})"), sqlstate);
        }
        for (arguments, sqlstate) in [
            ("max_claims => 0", "22023"),
            ("max_claims => -1", "22023"),
            ("max_claims => NULL", "22004"),
            ("NULL", "22004"),
            ("''", "22023"),
            ("repeat('q', 58)", "22023"),
            ("runner_id => ''", "22023"),
            ("stale_timeout => '0'", "22023"),
            ("stale_timeout => '1 month'", "22023"),
        ] {
            refused(&format!("SELECT * FROM sched.claim({arguments})"), sqlstate);
        }
        check("SELECT count(*) FROM sched.claim(repeat('q', 57))", "0");
    }

    #[pg_test]
    fn claim_goes_by_priority_then_plan_time() {
        for (name, priority) in [("x/low", -1), ("x/mid", 0), ("x/high", 2147483647)] {
            run(&[&format!("SELECT sched.define_job('job of {name}', priority => {priority})")]);
            created(name, "every 1 hour", "catch_up => 'every_plan'");
        }
        run(&["SELECT sched.define_job('job of x/elsewhere', queue => 'elsewhere')"]);
        created("x/elsewhere", "every 1 hour", "");
        dispatch(0);
        time_passes("121 minutes");
        dispatch(7);
        let claim = "SELECT scope_id || round(extract(epoch FROM clock_timestamp() - plan_time) / 60), attempt FROM sched.claim(max_claims => ";
        check(&format!("{claim}1)"), "x/high61|1");
        check(&format!("{claim}3)"), "x/high1|1\nx/mid61|1\nx/mid1|1");
        check(&format!("{claim}2147483647)"), "x/low61|1\nx/low1|1");
        check(&format!("{claim}9)"), "");
        check("SELECT count(*), count(DISTINCT lease_token), count(DISTINCT fence) FROM sched.execution WHERE status = 'RUNNING'", "6|6|6");
        check("SELECT queue, status FROM sched.execution WHERE status <> 'RUNNING'", "elsewhere|PENDING");
        // Stale ones are offered again, in the same order as the others. The jobs allow one attempt, so raise that.
        run(&["UPDATE sched.ledger SET max_attempts = 2"]);
        time_passes("6 minutes");
        check(&format!("{claim}4)"), "x/high67|2\nx/high7|2\nx/mid67|2\nx/mid7|2");
    }

    /// Whatever plan the server chooses: a join that runs the limited part twice would claim more.
    #[pg_test]
    fn never_more_than_max_claims() {
        run(&["SELECT sched.define_job('x/many', max_attempts => 9)"]);
        created("x/many", "every 1 minute", "catch_up => 'every_plan', max_plans_per_tick => 300");
        run(&["SELECT sched.alter_schedule('x/many', job_name => 'x/many')"]);
        dispatch(0);
        time_passes("5 hours");
        dispatch(300);
        for settings in [
            "SELECT 1",
            "SET LOCAL enable_hashjoin = off",
            "SET LOCAL enable_mergejoin = off",
            "SET LOCAL enable_material = off",
            "SET LOCAL plan_cache_mode = force_generic_plan",
            "SET LOCAL enable_nestloop = off",
            "SET LOCAL enable_indexscan = off",
            &format!("ANALYZE {READY_TABLE}"),
        ] {
            run(&[settings]);
            let before: i64 = sql(&count_of(LEASE)).parse().unwrap_or_default();
            check("SELECT count(*), count(DISTINCT execution_id) FROM sched.claim(max_claims => 7)", "7|7");
            check(&count_of(LEASE), &(before + 7).to_string());
        }
        // The same for those that were abandoned.
        time_passes("1 hour");
        check("SELECT count(*), count(DISTINCT execution_id), min(attempt) FROM sched.claim(max_claims => 7)", "7|7|2");
        check(&count_of(LEASE), "56");
    }

    #[pg_test]
    fn plan_times_at_the_ends_of_time() {
        for plan in ["4714-11-24 00:00+00 BC", "294276-12-31 23:59:59.999999+00"] {
            check(&format!("SELECT outcome FROM sched.try_claim('x/far', '{plan}')"), "won");
            check(&format!("SELECT outcome FROM sched.try_claim('x/far', '{plan}')"), "conflicted");
        }
        run(&["SELECT sched.finish_success(id, lease_token) FROM sched.execution"]);
        check("SELECT string_agg(status, ' '), count(DISTINCT plan_time) FROM sched.execution", "SUCCESS SUCCESS|2");
    }

    #[pg_test]
    fn a_claim_says_whose_it_is() {
        run(&["SELECT sched.define_job('job of x/row', stale_timeout => '30 s')"]);
        created("x/row", "every 1 hour", "payload => '{\"n\": 1}'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        check(
            "SELECT c.execution_id = e.id, c.fence > 0, c.attempt, c.job_name, c.scope_kind, c.scope_id, c.plan_time = e.plan_time, c.payload,
                    c.stale_after - clock_timestamp() BETWEEN '25 s' AND '30 s'
               FROM sched.execution e, sched.claim(runner_id => 'me') c",
            "t|t|1|job of x/row|schedule|x/row|t|{\"n\": 1}|t",
        );
        check("SELECT runner_id, status FROM sched.execution", "me|RUNNING");
    }

    #[pg_test]
    fn retries_wait_as_the_job_says_and_the_last_wait_repeats() {
        run(&["SELECT sched.define_job('x/retry', max_attempts => 5, retry_backoff => '{10 s,1 min}')"]);
        let wait = "SELECT status, attempt, round(extract(epoch FROM next_retry_at - finished_at)), error_code, error_msg FROM sched.execution";
        lease("x/retry", "");
        for (attempt, seconds) in [(1, 10), (2, 60), (3, 60), (4, 60)] {
            run(&["SELECT sched.finish_failure(id, lease_token, 'E1', 'no luck') FROM sched.execution"]);
            check(wait, &format!("FAILED|{attempt}|{seconds}|E1|no luck"));
            check("SELECT count(*) FROM sched.claim()", "0");
            time_passes(&format!("{seconds} s"));
            check("SELECT attempt FROM sched.claim(max_claims => 9)", &(attempt + 1).to_string());
        }
        run(&["SELECT sched.finish_failure(id, lease_token, next_retry_at => '2999-01-01') FROM sched.execution"]);
        check(wait, "FAILED|5||handler_error|");
        check("SELECT count(*) FROM sched.claim()", "0");
    }

    #[pg_test]
    fn no_backoff_means_at_once_and_so_does_the_past() {
        run(&["SELECT sched.define_job('x/at once', max_attempts => 9, retry_backoff => '{}')"]);
        run(&[&call("finish_failure", &lease("x/at once", ""), "")]);
        run(&[&call("finish_failure", &claim_one("default"), ", next_retry_at => '2001-01-01'")]);
        run(&[&call(
            "finish_failure",
            &claim_one("default"),
            ", next_retry_at => clock_timestamp() + interval '1 hour'",
        )]);
        check("SELECT count(*) FROM sched.claim()", "0");
        time_passes("1 hour");
        check("SELECT attempt FROM sched.claim()", "4");
        for (arguments, sqlstate) in
            [("'2999-01-01', terminal => true", "22023"), ("'infinity'", "22008"), ("'-infinity'", "22008")]
        {
            refused(
                &format!(
                    "SELECT sched.finish_failure(id, lease_token, next_retry_at => {arguments}) FROM sched.execution"
                ),
                sqlstate,
            );
        }
        check("SELECT status FROM sched.execution", "RUNNING");
    }

    #[pg_test]
    fn success_is_stored() {
        let held = lease("x/success", "");
        run(&[&call("heartbeat", &held, ", progress => '{\"done\": 0.50}'")]);
        run(&[&call("finish_success", &held, ", 7, '{\"sum\": 123456789012345678901234567890.10}'")]);
        check(
            "SELECT status, attempt, rows_affected, result, progress, error_code, error_msg, next_retry_at, finished_at >= started_at, duration_ms >= 0,
                    stale_after, lease_token, runner_id <> '' FROM sched.execution",
            &format!("SUCCESS|1|7|{{\"sum\": 123456789012345678901234567890.10}}|{{\"done\": 0.50}}||||t|t||{}|t", held.1),
        );
        for function in ["heartbeat", "finish_success", "finish_failure"] {
            refused(&call(function, &held, ""), "55000");
        }
        check(&format!("SELECT (SELECT count(*) FROM {LEASE} l), (SELECT count(*) FROM {READY} r), (SELECT count(*) FROM {DELAYED} d)"), "0|0|0");
    }

    #[pg_test]
    fn a_result_has_its_limit() {
        let held = lease("x/large", "");
        let result =
            |bytes: usize| call("finish_success", &held, &format!(", result => to_jsonb(repeat('x', {}))", bytes - 2));
        refused(&result(16_385), "54000");
        refused(&call("finish_success", &held, ", result => NULL"), "22004");
        run(&[&result(16_384)]);
        check("SELECT status, octet_length(result::text) FROM sched.execution", "SUCCESS|16384");
    }

    #[pg_test]
    fn an_error_message_is_cut_by_characters() {
        let held = lease("x/long", "");
        refused(&call("finish_failure", &held, ", error_msg => NULL"), "22004");
        refused(&call("finish_failure", &held, ", error_code => NULL"), "22004");
        refused(&call("finish_failure", &held, ", error_code => ''"), "22023");
        refused(&call("finish_failure", &held, ", terminal => NULL"), "22004");
        run(&[&call("finish_failure", &held, ", error_msg => repeat('ü', 4001)")]);
        check("SELECT status, char_length(error_msg) FROM sched.execution", "FAILED|4000");
    }

    #[pg_test]
    fn a_lost_lease_changes_nothing() {
        let lost = lease("x/lost", ", max_attempts => 3, stale_timeout => '1 s'");
        time_passes("2 s");
        let at = "(SELECT plan_time FROM sched.execution)";
        check(&format!("SELECT outcome FROM sched.try_claim('x/lost', {at})"), "stole");
        let nobody = "00000000-0000-4000-8000-000000000000".to_owned();
        let unknown = (nobody.clone(), lost.1.clone());
        let guessed = (lost.0.clone(), nobody);
        for held in [&lost, &unknown, &guessed] {
            for function in ["heartbeat", "finish_success", "finish_failure"] {
                let refusal = refused(&call(function, held, ""), "55000");
                assert_eq!(refusal.message, "lease lost");
            }
        }
        refused("SELECT sched.heartbeat(NULL, gen_random_uuid())", "22004");
        refused("SELECT sched.finish_success(gen_random_uuid(), NULL)", "22004");
        check("SELECT status, attempt FROM sched.execution", "RUNNING|2");
    }

    #[pg_test]
    fn a_heartbeat_extends_by_the_leases_own_length() {
        let held = lease("x/beat", ", stale_timeout => '100 s'");
        let left = |seconds: i32, progress: &str| {
            let query = format!(
                "SELECT extract(epoch FROM stale_after - clock_timestamp()) BETWEEN {seconds} - 9 AND {seconds}, progress
                   FROM sched.execution"
            );
            check(&query, &format!("t|{progress}"));
        };
        time_passes("60 s");
        left(40, "");
        check(&call("heartbeat", &held, ", progress => '{\"n\": 1}'"), "ok");
        left(100, "{\"n\": 1}");
        check(&call("heartbeat", &held, ", '1000 s'"), "ok");
        left(1000, "{\"n\": 1}");
        check(&call("heartbeat", &held, ", '20 s'"), "ok");
        left(20, "{\"n\": 1}");
        // A lease that went stale but that nobody took lives again.
        time_passes("1 hour");
        check(&call("heartbeat", &held, ""), "ok");
        left(100, "{\"n\": 1}");
        for (argument, sqlstate) in [("'0'", "22023"), ("'-1 s'", "22023"), ("'1 month'", "22023")] {
            refused(&call("heartbeat", &held, &format!(", {argument}")), sqlstate);
        }
    }

    /// What a runner wrote in the transaction of its finish goes with it.
    #[pg_test]
    fn a_runner_that_lost_its_lease_cannot_commit_its_results() {
        let held = lease("x/results", "");
        run(&["CREATE TEMP TABLE results (n integer)"]);
        let work = |token: &str| {
            format!("WITH done AS (INSERT INTO results VALUES (1) RETURNING n) SELECT sched.finish_success('{}', '{token}', n) FROM done", held.0)
        };
        assert!(attempt(&work("00000000-0000-4000-8000-000000000000")).is_some());
        check("SELECT count(*) FROM results", "0");
        assert!(attempt(&work(&held.1)).is_none());
        check("SELECT count(*) FROM results", "1");
    }

    #[pg_test]
    fn users_only_read_executions() {
        lease("x/read", "");
        for statement in ["DELETE FROM sched.execution", "UPDATE sched.execution SET status = 'SUCCESS'"] {
            fails(statement, "55000");
        }
    }
}
