//! latest_plan, due_plans, attempts_since_success: what an application's own tick asks.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, refused, run, sql};

    /// Claims the plan this many hours before the present one of an hourly clock; `end` is what becomes of it.
    fn plan(hours_ago: i32, end: &str) {
        run(&[
            "CREATE TEMP TABLE IF NOT EXISTS held AS SELECT * FROM sched.try_claim('h/nothing', '2026-01-01')",
            "TRUNCATE held",
        ]);
        sql(&format!(
            "INSERT INTO held SELECT * FROM sched.try_claim('h/job', date_trunc('hour', now()) - {hours_ago} * interval '1 hour', max_attempts => 3)"
        ));
        if !end.is_empty() {
            sql(&format!("SELECT sched.{} FROM held", end.replace('(', "(execution_id, lease_token")));
        }
    }

    /// How many hours before the present plan each offered one is.
    fn due(more: &str) -> String {
        sql(&format!(
            "SELECT string_agg((extract(epoch FROM date_trunc('hour', now()) - p) / 3600)::integer::text, ' ')
               FROM sched.due_plans('h/job', '0 * * * *'{more}) p"
        ))
    }

    #[pg_test]
    fn latest_only_offers_the_latest_when_it_can_be_claimed() {
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
        assert_eq!(due(", delay => '1 hour', catch_up_window => '1 hour'"), "");
    }

    #[pg_test]
    fn every_plan_offers_what_is_open_and_what_is_new() {
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

    fn minutes() -> u32 {
        sql("SELECT extract(minute FROM now())::integer").parse().unwrap_or_default()
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
            ("'h/job', '@daily', delay => '-1 s'", "22023"),
            ("'h/job', '@daily', delay => '1 month'", "22023"),
        ] {
            refused(&format!("SELECT * FROM sched.due_plans({arguments})"), sqlstate);
        }
        refused("SELECT * FROM sched.latest_plan(NULL)", "22004");
        refused("SELECT sched.attempts_since_success('h/job', '')", "22023");
    }
}
