//! define_job, drop_job.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, fails, quote, refused, run, set_fast_path, sql, time_passes};

    #[pg_test]
    fn a_job_is_created_and_replaced() {
        run(&["SELECT sched.define_job('job/a')"]);
        check(
            "SELECT kind, queue, max_attempts, retry_backoff, run_timeout, stale_timeout, allow_stale_reentry, priority,
                    owner = current_user::regrole FROM sched.job WHERE job_name = 'job/a'",
            "pull|default|3|{00:00:10,00:01:00}|||t|0|t",
        );
        run(&[
            "SELECT sched.define_job('job/a', queue => 'q', max_attempts => 3, retry_backoff => '{1s,5s,1 day}',
                      run_timeout => '1 min', stale_timeout => '2 min', allow_stale_reentry => false, priority => -7)",
        ]);
        check(
            "SELECT kind, queue, max_attempts, retry_backoff, run_timeout, stale_timeout, allow_stale_reentry, priority
               FROM sched.job WHERE job_name = 'job/a'",
            "pull|q|3|{00:00:01,00:00:05,\"1 day\"}|00:01:00|00:02:00|f|-7",
        );
        // Replacing means replacing: what is left out goes back to its default.
        run(&["SELECT sched.define_job('job/a')"]);
        check("SELECT queue, max_attempts, priority FROM sched.job WHERE job_name = 'job/a'", "default|3|0");
        check("SELECT sched.drop_job('job/a')", "t");
        check("SELECT sched.drop_job('job/a')", "f");
    }

    /// What the server runs itself needs no second attempt because a worker died.
    #[pg_test]
    fn each_kind_has_its_own_defaults() {
        const SAID: &str = "SELECT max_attempts, retry_backoff FROM sched.jobs WHERE job_name = 'job/kind'";
        let pull = ["3", "{00:00:10,00:01:00}"];
        let others = ["1", "{}"];
        for (kind, [attempts, waits]) in
            [("'pull'", pull), ("'notify', 'channel'", others), ("'log'", others), ("'sql', 'SELECT 1'", others)]
        {
            for (arguments, expected) in [
                ("", format!("{attempts}|{waits}")),
                (", max_attempts => NULL, retry_backoff => NULL", format!("{attempts}|{waits}")),
                (", max_attempts => 7", format!("7|{waits}")),
                (", retry_backoff => '{}'", format!("{attempts}|{{}}")),
                (", retry_backoff => '{1 hour}'", format!("{attempts}|{{01:00:00}}")),
            ] {
                run(&[&format!("SELECT sched.define_job('job/kind', {kind}{arguments})")]);
                check(SAID, &expected);
            }
        }
        // As with cron.
        run(&["SELECT sched.import_crontab('@daily true')"]);
        check("SELECT max_attempts, retry_backoff FROM sched.jobs WHERE job_name = 'crontab'", "1|{}");
        // Nobody said that it may be tried again.
        run(&["SELECT sched.enqueue('job/undefined')"]);
        check("SELECT max_attempts FROM sched.execution WHERE job_name = 'job/undefined'", "1");
    }

    #[pg_test]
    fn what_the_defaults_do_with_a_lost_lease() {
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            let queue = format!("job/lost/{fast_path}");
            run(&[&format!("SELECT sched.define_job('{queue}', queue => '{queue}'), sched.enqueue('{queue}')")]);
            let state = format!("SELECT status, attempt, error_code, round(extract(epoch FROM next_retry_at - finished_at)) FROM sched.execution WHERE job_name = '{queue}'");
            for expected in ["FAILED|1|stale_timeout|10", "FAILED|2|stale_timeout|60", "FAILED|3|stale_timeout|"] {
                check(&format!("SELECT count(*) FROM sched.claim('{queue}')"), "1");
                time_passes("1 hour");
                check(&format!("SELECT sched.mark_stale_as_failed('{queue}')"), "1");
                check(&state, expected);
                time_passes("1 minute");
            }
        }
        set_fast_path(true);
    }

    #[pg_test]
    fn job_bad_arguments() {
        run(&["SELECT sched.define_job('job/bad', max_attempts => 2)"]);
        for (arguments, sqlstate) in [
            ("max_attempts => 0", "22023"),
            ("max_attempts => -1", "22023"),
            ("kind => 'shell'", "22023"),
            ("kind => 'PULL'", "22023"),
            ("kind => NULL", "22004"),
            ("kind => 'sql'", "22023"),
            ("kind => 'notify'", "22023"),
            ("queue => ''", "22023"),
            ("queue => NULL", "22004"),
            ("queue => repeat('q', 58)", "22023"),
            ("queue => repeat('ü', 29)", "22023"),
            ("retry_backoff => '{-1s}'", "22023"),
            ("retry_backoff => '{1s,1 month}'", "22023"),
            ("retry_backoff => '{1s,NULL}'", "22004"),
            ("retry_backoff => ARRAY[make_interval(days => 2147483647)]", "22008"),
            ("stale_timeout => '0'", "22023"),
            ("stale_timeout => '-1s'", "22023"),
            ("stale_timeout => '1 month'", "22023"),
            ("stale_timeout => '1 year'", "22023"),
            ("stale_timeout => make_interval(days => 2147483647)", "22008"),
            // What make_interval(years => 2147483647) silently is before PostgreSQL 18.
            ("stale_timeout => '-1 year'", "22023"),
            ("run_timeout => '0'", "22023"),
            ("run_timeout => '-1s'", "22023"),
            // The lease has to outlive the run; without a lease of its own the setting counts (5 min).
            ("run_timeout => '1 min', stale_timeout => '1 min'", "22023"),
            ("run_timeout => '2 min', stale_timeout => '1 min'", "22023"),
            ("run_timeout => '5 min'", "22023"),
            ("allow_stale_reentry => NULL", "22004"),
            ("priority => NULL", "22004"),
        ] {
            refused(&format!("SELECT sched.define_job('job/bad', {arguments})"), sqlstate);
        }
        if cfg!(any(feature = "pg17", feature = "pg18")) {
            for infinite in
                ["stale_timeout => 'infinity'", "run_timeout => '-infinity'", "retry_backoff => '{infinity}'"]
            {
                refused(&format!("SELECT sched.define_job('job/bad', {infinite})"), "22023");
            }
        }
        for (name, sqlstate) in
            [("NULL", "22004"), ("''", "22023"), ("repeat('x', 1001)", "22023"), ("repeat('ü', 501)", "22023")]
        {
            refused(&format!("SELECT sched.define_job({name})"), sqlstate);
            refused(&format!("SELECT sched.drop_job({name})"), sqlstate);
        }
    }

    #[pg_test]
    fn the_largest_values_that_may_be() {
        run(&[
            "SELECT sched.define_job(repeat('ü', 500), queue => repeat('ü', 28) || 'q', max_attempts => 2147483647, priority => 2147483647,
                    retry_backoff => array_fill(interval '1000 days', ARRAY[1000]), stale_timeout => '365250 days', run_timeout => '365249 days')",
            "SELECT sched.define_job('job/least', priority => -2147483648, stale_timeout => '1 microsecond', retry_backoff => '{0}')",
        ]);
        check("SELECT count(*) FROM sched.job", "2");
    }

    #[pg_test]
    fn a_job_in_use_is_not_dropped() {
        run(&["SELECT sched.define_job('job/used')", "SELECT sched.create_schedule('job/user', 'never', 'job/used')"]);
        let refusal = refused("SELECT sched.drop_job('job/used')", "2BP01");
        assert!(refusal.message.contains("\"job/user\""), "{}", refusal.message);
        run(&["SELECT sched.drop_schedule('job/user')"]);
        check("SELECT sched.drop_job('job/used')", "t");
    }

    #[pg_test]
    fn redefining_leaves_existing_executions_alone() {
        run(&[
            "SELECT sched.define_job('job/limits', max_attempts => 2, allow_stale_reentry => false)",
            "SELECT sched.try_claim('job/limits', '2026-01-01')",
            "SELECT sched.define_job('job/limits', max_attempts => 9, allow_stale_reentry => true)",
        ]);
        check("SELECT max_attempts, allow_stale_reentry FROM sched.execution WHERE job_name = 'job/limits'", "2|f");
    }

    #[pg_test]
    fn names_are_text_and_nothing_else() {
        for name in ["a'b", "a\"b", "a\\b", "%s {} $1", " a ", "a\nb", "𝔘", "null"] {
            run(&[&format!("SELECT sched.define_job({})", quote(name))]);
            check(&format!("SELECT count(*) FROM sched.job WHERE job_name = {}", quote(name)), "1");
        }
        assert_eq!(sql("SELECT count(*) FROM sched.job"), "8");
        fails("SELECT sched.define_job(E'\\xff')", "22021");
    }
}
