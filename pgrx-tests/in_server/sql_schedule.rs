//! schedule_sql and unschedule: a job of kind `sql` and its schedule by one call.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{attempt, check, dispatch, granting, refused, run, sql, time_passes};

    const JOB: &str = "SELECT kind, command, queue, max_attempts, retry_backoff, run_timeout, stale_timeout, allow_stale_reentry, priority,
                              own_transactions, settings, owner = current_user::regrole FROM sched.job WHERE job_name = 'q/nightly'";
    const SCHEDULE: &str = "SELECT clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, catch_up_window, max_plans_per_tick,
                                   rearm, overlap, delay, jitter, starts_at, ends_at, ownership, enabled
                              FROM sched.schedule WHERE schedule_name = 'q/nightly'";
    const WITH_ALL: &str = "SELECT sched.schedule_sql('q/nightly', '0 3 * * *', 'VACUUM; ANALYZE', time_zone => 'Europe/Berlin', payload => '{\"a\": 1}',
                                   overlap => 'buffer_one', catch_up => 'every_plan', run_timeout => '1 hour', max_attempts => 3,
                                   retry_backoff => '{1min}', own_transactions => true, settings => '{\"work_mem\": \"1GB\"}', priority => 7, enabled => false)";

    #[pg_test]
    fn one_call_states_the_whole() {
        let id = sql("SELECT sched.schedule_sql('q/nightly', '@daily', 'SELECT 1')");
        check("SELECT schedule_id FROM sched.schedule WHERE schedule_name = 'q/nightly'", &id);
        check(JOB, "sql|SELECT 1|default|1|{}|||t|0|f|{}|t");
        let plain =
            "@daily|UTC|q/nightly|{}|schedule|q/nightly|latest_only||100|on_dispatch|skip|00:00:00|00:00:00|||owned|t";
        check(SCHEDULE, plain);
        assert_eq!(sql(WITH_ALL), id);
        check(JOB, "sql|VACUUM; ANALYZE|default|3|{00:01:00}|01:00:00||t|7|t|{\"work_mem\": \"1GB\"}|t");
        check(
            SCHEDULE,
            "0 3 * * *|Europe/Berlin|q/nightly|{\"a\": 1}|schedule|q/nightly|every_plan||100|on_dispatch|buffer_one|00:00:00|00:00:00|||owned|f",
        );
        // What is left out goes back to its default, whoever has changed it; but for the pause.
        run(&["SELECT sched.alter_schedule('q/nightly', delay => '5 min', starts_at => '2026-01-01')"]);
        assert_eq!(sql("SELECT sched.schedule_sql('q/nightly', '@daily', 'SELECT 1')"), id);
        check(JOB, "sql|SELECT 1|default|1|{}|||t|0|f|{}|t");
        check(SCHEDULE, &plain.replace("owned|t", "owned|f"));
        run(&["SELECT sched.schedule_sql('q/nightly', '@daily', 'SELECT 1', enabled => true)"]);
        check(SCHEDULE, plain);
        run(&["SELECT sched.pause('q/nightly')", "SELECT sched.schedule_sql('q/nightly', '@hourly', 'SELECT 2')"]);
        check("SELECT clock, enabled FROM sched.schedule WHERE schedule_name = 'q/nightly'", "@hourly|f");
    }

    #[pg_test]
    fn the_same_call_again_changes_nothing() {
        let state =
            &format!("SELECT s.*, t.*, j.kind, j.command, j.queue, j.owner FROM sched.schedule s JOIN {TIMER} t USING (schedule_id)
               JOIN sched.job j USING (job_name) WHERE s.schedule_name = 'q/nightly'");
        const PLAIN: &str = "SELECT sched.schedule_sql('q/nightly', '@daily', 'SELECT 1', payload => '{\"a\": [1, 2.50]}', time_zone => 'Asia/Tokyo')";
        for call in [PLAIN, WITH_ALL] {
            run(&[call, "SELECT sched.dispatch_due()"]);
            let before = sql(state);
            assert!(!before.is_empty());
            let changes = sql("SELECT count(*) FROM sched.schedule_change");
            run(&[call, call]);
            check(state, &before);
            check("SELECT count(*) FROM sched.schedule_change", &changes);
        }
        // Another command alone is no new definition of the schedule.
        let version = sql("SELECT version, baseline_at FROM sched.schedule WHERE schedule_name = 'q/nightly'");
        run(&[&WITH_ALL.replace("ANALYZE", "CHECKPOINT")]);
        check("SELECT version, baseline_at FROM sched.schedule WHERE schedule_name = 'q/nightly'", &version);
        check("SELECT command FROM sched.job WHERE job_name = 'q/nightly'", "VACUUM; CHECKPOINT");
    }

    #[pg_test]
    fn what_was_made_otherwise_stays() {
        run(&[
            "SELECT sched.define_job('q/pull'), sched.define_job('q/alone', 'sql', 'SELECT 1'), sched.define_job('q/job', 'sql', 'SELECT 1')",
            "SELECT sched.create_schedule('q/schedule', 'never', 'q/job')",
            "SELECT sched.define_job('q/both')",
            "SELECT sched.create_schedule('q/both', 'never', 'q/both')",
            "SELECT sched.define_job('q/crossed', 'sql', 'SELECT 1')",
            "SELECT sched.create_schedule('q/crossed', 'never', 'q/job')",
        ]);
        for (name, noun) in
            [("q/pull", "job"), ("q/alone", "job"), ("q/schedule", "schedule"), ("q/both", "job"), ("q/crossed", "job")]
        {
            for call in [format!("schedule_sql('{name}', '@daily', 'SELECT 1')"), format!("unschedule('{name}')")] {
                let refusal = refused(&format!("SELECT sched.{call}"), "42710");
                assert_eq!(refusal.message, format!("{noun} \"{name}\" exists and was not made by sched.schedule_sql"));
            }
        }
        // What define_job and create_schedule have made alike is such a pair.
        run(&[
            "SELECT sched.create_schedule('q/alone', 'never', 'q/alone')",
            "SELECT sched.schedule_sql('q/alone', '@daily', 'SELECT 2')",
        ]);
        check("SELECT sched.unschedule('q/alone')", "t");
    }

    #[pg_test]
    fn bad_arguments_write_nothing() {
        run(&["SELECT sched.schedule_sql('q/there', '@daily', 'SELECT 1')"]);
        for name in ["q/new", "q/there"] {
            for (arguments, sqlstate) in [
                ("NULL, 'SELECT 1'", "22004"),
                ("'@daily', NULL", "22004"),
                ("'@daily', ' ; '", "22023"),
                ("'61 * * * *', 'SELECT 1'", "22023"),
                ("'@daily', 'SELEC'", "42601"),
                ("'@daily', 'COMMIT'", "0A000"),
                ("'@daily', repeat(' ', 1048577)", "54000"),
                ("'@daily', 'SELECT 1', 'Mars/Olympus'", "22023"),
                ("'@daily', 'SELECT 1', payload => NULL", "22004"),
                ("'@daily', 'SELECT 1', overlap => 'never'", "22023"),
                ("'@daily', 'SELECT 1', catch_up => 'never'", "22023"),
                ("'@daily', 'SELECT 1', run_timeout => '0'", "22023"),
                ("'@daily', 'SELECT 1', run_timeout => '1 month'", "22023"),
                ("'@daily', 'SELECT 1', max_attempts => 0", "22023"),
                ("'@daily', 'SELECT 1', retry_backoff => '{-1s}'", "22023"),
                ("'@daily', 'SELECT 1', own_transactions => NULL", "22004"),
                ("'@daily', 'SELECT 1', settings => '{\"no_such\": 1}'", "42704"),
                ("'@daily', 'SELECT 1', settings => '{\"role\": \"a\"}'", "42501"),
                ("'@daily', 'SELECT 1', priority => NULL", "22004"),
            ] {
                refused(&format!("SELECT sched.schedule_sql('{name}', {arguments})"), sqlstate);
            }
        }
        for (name, sqlstate) in [("NULL", "22004"), ("''", "22023"), ("repeat('x', 1001)", "22023")] {
            refused(&format!("SELECT sched.schedule_sql({name}, '@daily', 'SELECT 1')"), sqlstate);
            refused(&format!("SELECT sched.unschedule({name})"), sqlstate);
        }
    }

    #[pg_test]
    fn it_is_the_caller_who_has_it_run() {
        granting();
        run(&["CREATE ROLE q_one", "CREATE ROLE q_two", "SELECT sched.grant_use('q_one'), sched.grant_use('q_two')"]);
        let as_role =
            |role: &str, call: &str| format!("DO $do$BEGIN SET LOCAL ROLE {role}; PERFORM sched.{call}; END$do$");
        let call = "schedule_sql('q/roles', '@daily', 'SELECT 1')";
        run(&[&as_role("q_one", call), &as_role("q_one", "enqueue('q/roles')"), "RESET ROLE"]);
        check(
            &format!("SELECT e.owner, w.route, w.queue, w.runs_as = e.owner FROM sched.ledger e JOIN {ROUTE} w ON w.execution_id = e.id WHERE job_name = 'q/roles'"),
            "q_one|server|default|t",
        );
        for call in [call, "unschedule('q/roles')"] {
            refused(&as_role("q_two", call), "42501");
        }
        // Who may act for the owner changes what is run, not as whom. A superuser does as a member by a grant.
        let by_superuser = "SELECT sched.schedule_sql('q/roles', '@daily', 'SELECT 2')";
        assert_eq!(attempt(by_superuser).unwrap().sqlstate, "42501");
        sql("DO $$BEGIN EXECUTE format('GRANT q_one TO %I', current_user); END$$");
        run(&[by_superuser]);
        check("SELECT owner, command FROM sched.job WHERE job_name = 'q/roles'", "q_one|SELECT 2");
        run(&[&as_role("q_one", "unschedule('q/roles')"), "RESET ROLE"]);
        check("SELECT count(*) FROM sched.job WHERE job_name = 'q/roles'", "0");
    }

    #[pg_test]
    fn unschedule_leaves_nothing_to_run() {
        const STATUS: &str =
            "SELECT origin, status FROM sched.execution WHERE job_name = 'q/gone' ORDER BY origin, created_at";
        check("SELECT sched.unschedule('q/gone')", "f");
        run(&[
            "SELECT sched.schedule_sql('q/gone', '0 * * * *', 'SELECT 1', max_attempts => 5)",
            "SELECT sched.dispatch_due()",
        ]);
        time_passes("1 hour");
        dispatch(1);
        run(&[
            "SELECT sched.enqueue('q/gone')",
            "SELECT sched.enqueue('q/gone', '{}', '2026-01-01', 'g', 'running')",
            // As a runner of the server takes it.
            &put_runner_lease("1", "e.job_name = 'q/gone' AND e.scope_id = 'running'"),
            &remove_ready(
                "r.execution_id IN (SELECT id FROM sched.ledger WHERE job_name = 'q/gone' AND scope_id = 'running')",
            ),
        ]);
        check("SELECT sched.unschedule('q/gone')", "t");
        check(STATUS, "enqueue|CANCELLED\nenqueue|RUNNING\nschedule|CANCELLED");
        check("SELECT count(*) FROM sched.job WHERE job_name = 'q/gone'", "0");
        check("SELECT count(*) FROM sched.schedules WHERE schedule_name = 'q/gone'", "0");
        check(
            &format!("SELECT count(*) FROM {PENDING} p JOIN sched.ledger e ON e.id = p.execution_id WHERE e.job_name = 'q/gone'"),
            "0",
        );
        // It ends by itself, and is not tried again.
        run(&[
            &format!("SELECT sched.finish_failure(l.execution_id, l.lease_token) FROM {LEASE} l JOIN sched.ledger e ON e.id = l.execution_id WHERE e.job_name = 'q/gone'"),
        ]);
        check(
            "SELECT status, next_retry_at FROM sched.execution WHERE scope_id = 'running' AND job_name = 'q/gone'",
            "FAILED|",
        );
        check("SELECT sched.unschedule('q/gone')", "f");
        // Another schedule of the job keeps it.
        run(&[
            "SELECT sched.schedule_sql('q/gone', '@daily', 'SELECT 1')",
            "SELECT sched.create_schedule('q/second', 'never', 'q/gone')",
        ]);
        assert_eq!(attempt("SELECT sched.unschedule('q/gone')").unwrap().sqlstate, "2BP01");
        check("SELECT count(*) FROM sched.schedule WHERE job_name = 'q/gone'", "2");
    }
}
