//! latest_plan, due_plans, attempts_since_success: what an application's own tick asks.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{attempt, check, granting, refused, run, sql};

    /// The hour that it is. It does not end within a test, nor does its half: that is waited for.
    const HOUR: &str = "current_setting('h.hour')::timestamptz";

    fn note_the_hour() {
        run(&["DO $$ BEGIN
                   WHILE floor(extract(epoch FROM clock_timestamp()))::bigint % 1800 > 1770 LOOP PERFORM pg_sleep(0.1); END LOOP;
                   PERFORM set_config('h.hour', date_trunc('hour', clock_timestamp())::text, true);
               END $$"]);
    }

    /// Claims the plan this many hours before the present one of an hourly clock; `end` is what becomes of it.
    fn plan(hours_ago: i32, end: &str) {
        run(&[
            "CREATE TEMP TABLE IF NOT EXISTS held AS SELECT * FROM sched.try_claim('h/nothing', '2026-01-01')",
            "TRUNCATE held",
        ]);
        sql(&format!(
            "INSERT INTO held SELECT * FROM sched.try_claim('h/job', {HOUR} - {hours_ago} * interval '1 hour', max_attempts => 3)"
        ));
        if !end.is_empty() {
            sql(&format!("SELECT sched.{} FROM held", end.replace('(', "(execution_id, lease_token")));
        }
    }

    /// How many hours before the present plan each offered one is.
    fn due(more: &str) -> String {
        sql(&format!(
            "SELECT string_agg((extract(epoch FROM {HOUR} - p) / 3600)::integer::text, ' ')
               FROM sched.due_plans('h/job', '0 * * * *'{more}) p"
        ))
    }

    #[pg_test]
    fn latest_only_offers_the_latest_when_it_can_be_claimed() {
        note_the_hour();
        assert_eq!(due(""), "0");
        plan(0, "");
        assert_eq!(due(""), "");
        check("SELECT status, attempt, max_attempts, retry_eligible FROM sched.latest_plan('h/job')", "RUNNING|1|3|f");
        run(&["SELECT sched.finish_failure(execution_id, lease_token, next_retry_at => '2999-01-01') FROM held"]);
        assert_eq!(due(""), "");
        run(&["UPDATE sched.ledger SET next_retry_at = '2001-01-01'"]);
        check("SELECT status, next_retry_at IS NULL, retry_eligible FROM sched.latest_plan('h/job')", "FAILED|f|t");
        assert_eq!(due(""), "0");
        assert_eq!(due(", delay => '1 hour'"), "1");
        // The window counts from plan + delay, as that of a schedule does.
        assert_eq!(due(", delay => '1 hour', catch_up_window => '1 hour'"), "1");
        assert_eq!(due(", catch_up_window => '1 microsecond'"), "");
    }

    /// What retention may have deleted is not offered again.
    #[pg_test]
    fn a_plan_older_than_retention_and_than_the_newest_counts_as_done() {
        note_the_hour();
        let centuries = "SELECT count(*) FROM sched.due_plans('h/job', 'every 36500 days from 2000-01-01 00:00+00', catch_up => 'latest_only')";
        check(centuries, "1");
        // The newest stays, whatever its age.
        let finish = "SELECT sched.finish_success(execution_id, lease_token) FROM sched.try_claim('h/job', ";
        run(&[&format!("{finish}'1999-07-01')")]);
        check(centuries, "1");
        run(&[&format!("{finish}{HOUR} + interval '1 microsecond')")]);
        check(centuries, "0");
        // What retention has not reached is not done, whatever is newer.
        assert_eq!(due(""), "0");
        run(&[&format!("{finish}'2000-01-01 00:00+00')")]);
        check(centuries, "0");
    }

    #[pg_test]
    fn every_plan_offers_what_is_open_and_what_is_new() {
        note_the_hour();
        assert_eq!(due(", catch_up => 'every_plan'"), "0");
        plan(5, "finish_failure(, next_retry_at => '2001-01-01')");
        plan(4, "finish_success()");
        plan(3, "");
        assert_eq!(due(", catch_up => 'every_plan'"), "5 2 1 0");
        assert_eq!(due(", catch_up => 'every_plan', max_plans_per_tick => 2"), "5 2");
        assert_eq!(
            due(", catch_up => 'every_plan', catch_up_window => '150 minutes'").split(' ').next(),
            Some(if minutes() < 30 { "2" } else { "1" })
        );
        assert_eq!(due(", catch_up => 'every_plan', delay => '2 hours'"), "5 2");
        // Attempts since the newest success: that of the running plan only.
        check("SELECT sched.attempts_since_success('h/job')", "1");
        check(
            "SELECT sched.attempts_since_success('h/none'), (SELECT count(*) FROM sched.latest_plan('h/none'))",
            "0|0",
        );
    }

    /// Before a job is defined anybody may have put plans under its name. Each is told of his own only, wherever the others' lie.
    #[pg_test]
    fn plans_of_others_in_a_scope_are_neither_told_nor_in_the_way() {
        granting();
        note_the_hour();
        let as_role = |role: &str, statement: &str| {
            run(&[&format!("SET LOCAL ROLE {role}")]);
            let result = sql(statement);
            run(&["RESET ROLE"]);
            result
        };
        for role in ["h_one", "h_two", "h_none"] {
            run(&[&format!("CREATE ROLE {role}"), &format!("SELECT sched.grant_use('{role}')")]);
        }
        let hour = format!("{HOUR} - interval '1 hour' *");
        let claim = |ago: i32| format!("sched.try_claim('h/job', {hour} {ago}, max_attempts => 3)");
        for ago in [6, 3] {
            let failed = "sched.finish_failure(execution_id, lease_token, next_retry_at => '2001-01-01')";
            as_role("h_one", &format!("SELECT {failed} FROM {}", claim(ago)));
        }
        let finished = "sched.finish_success(execution_id, lease_token)";
        as_role("h_two", &format!("SELECT {finished} FROM {}", claim(5)));
        as_role("h_two", &format!("SELECT 1 FROM {}", claim(1)));
        // Neither the number of another's attempts, nor (by counting one's own) when another last succeeded.
        assert_eq!(as_role("h_one", "SELECT sched.attempts_since_success('h/job')"), "2");
        assert_eq!(as_role("h_two", "SELECT sched.attempts_since_success('h/job')"), "1");
        let due = |role: &str| {
            let query = format!(
                "SELECT string_agg((extract(epoch FROM {HOUR} - p) / 3600)::integer::text, ' ')
                   FROM sched.due_plans('h/job', '0 * * * *', catch_up => 'every_plan') p"
            );
            as_role(role, &query)
        };
        assert_eq!(due("h_one"), "6 3 2 0");
        assert_eq!(due("h_two"), "0");
        let latest = format!("SELECT status, plan_time = {hour} 3 FROM sched.latest_plan('h/job')");
        assert_eq!(as_role("h_one", &latest), "FAILED|t");
        run(&["GRANT h_one TO h_two"]);
        assert_eq!(as_role("h_two", "SELECT sched.attempts_since_success('h/job')"), "2");
        assert_eq!(due("h_two"), "6 3 0");
        for statement in [
            "SELECT sched.attempts_since_success('h/job')",
            "SELECT * FROM sched.latest_plan('h/job')",
            "SELECT * FROM sched.due_plans('h/job', '0 * * * *')",
        ] {
            attempt("SELECT 1");
            run(&["SET LOCAL ROLE h_none"]);
            let refusal = attempt(statement);
            run(&["RESET ROLE"]);
            assert_eq!(refusal.map(|refusal| refusal.sqlstate).as_deref(), Some("42501"), "{statement}");
        }
    }

    fn minutes() -> u32 {
        sql("SELECT extract(minute FROM clock_timestamp())::integer").parse().unwrap_or_default()
    }

    #[pg_test]
    fn history_bad_arguments() {
        for (arguments, sqlstate) in [
            ("NULL, '@daily'", "22004"),
            ("'', '@daily'", "22023"),
            ("'h/job', NULL", "22004"),
            ("'h/job', '61 * * * *'", "22023"),
            ("'h/job', '@daily', time_zone => 'Mars/Olympus'", "22023"),
            ("'h/job', '@daily', catch_up => 'some'", "22023"),
            ("'h/job', '@daily', catch_up_window => '0'", "22023"),
            ("'h/job', '@daily', max_plans_per_tick => 0", "22023"),
            ("'h/job', '@daily', max_plans_per_tick => 10001", "22023"),
            ("'h/job', '@daily', delay => '-1 s'", "22023"),
            ("'h/job', '@daily', delay => '1 month'", "22023"),
        ] {
            refused(&format!("SELECT * FROM sched.due_plans({arguments})"), sqlstate);
        }
        refused("SELECT * FROM sched.latest_plan(NULL)", "22004");
        refused("SELECT sched.attempts_since_success('h/job', '')", "22023");
    }
}
