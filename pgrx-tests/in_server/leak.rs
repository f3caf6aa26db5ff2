//! What one role can find out about another's work, by other ways than asking for it: nothing but names that it guessed.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{attempt, check, granting, run, sql, views};

    /// A victim with "secret" in every column of its own that can hold it; a spy that may use the scheduler, and one that watches it.
    fn world(prefix: &str) {
        let secrets = [
            "SELECT sched.define_job('l/job', queue => 'l/queue', max_attempts => 9, command => 'secret')",
            "SELECT sched.define_job('l/run', 'sql', 'SELECT ''secret''', settings => '{\"application_name\": \"secret\"}')",
            "SELECT sched.create_schedule('l/schedule', 'every 1 hour', 'l/job', payload => '{\"secret\": 1}')",
            "SELECT sched.enqueue('l/job', '{\"secret\": 1}', scope_id => i::text) FROM generate_series(1, 40) AS i",
            "SELECT sched.finish_success(execution_id, lease_token, result => '\"secret\"') FROM sched.claim('l/queue', 10)",
            "SELECT sched.finish_failure(execution_id, lease_token, error_msg => 'secret', next_retry_at => '2100-01-01') FROM sched.claim('l/queue', 10)",
            "SELECT sched.finish_failure(execution_id, lease_token, error_msg => 'secret', terminal => true) FROM sched.claim('l/queue', 10)",
            "SELECT sched.heartbeat(execution_id, lease_token, progress => '\"secret\"') FROM sched.claim('l/queue', 5)",
        ];
        for role in ["victim", "spy", "monitor"] {
            run(&[&format!("CREATE ROLE {prefix}_{role}")]);
        }
        run(&[&format!(
            "SELECT sched.grant_use('{prefix}_victim'), sched.grant_use('{prefix}_spy'), sched.grant_monitor('{prefix}_monitor')"
        )]);
        run(&[&format!("SET LOCAL ROLE {prefix}_victim")]);
        run(&secrets);
        run(&[
            "RESET ROLE",
            "SELECT sched.dispatch_due()",
            &format!("UPDATE {TIMER_TABLE} SET last_error = 'secret', error_count = 1"),
            "INSERT INTO sched.skip SELECT schedule_id, defined_at, '2026-01-01', '2026-01-02', 2, 'missed' FROM sched.schedule",
        ]);
    }

    fn as_role(role: &str, statement: &str) -> String {
        run(&[&format!("SET LOCAL ROLE {role}")]);
        let result = sql(statement);
        run(&["RESET ROLE"]);
        result
    }

    fn columns(view: &str) -> Vec<String> {
        let names =
            sql(&format!("SELECT attname FROM pg_attribute WHERE attrelid = 'sched.{view}'::regclass AND attnum > 0"));
        names.lines().map(str::to_owned).collect()
    }

    /// What a function saw that costs nothing, so that the planner would like to call it first.
    fn overheard(role: &str, view: &str, column: &str) -> String {
        run(&["SELECT set_config('leak.heard', '', true)"]);
        as_role(role, &format!("SELECT count(*) FROM sched.{view} AS v WHERE pg_temp.overhear(v.{column}::text)"));
        sql("SELECT current_setting('leak.heard')")
    }

    #[pg_test]
    fn a_leaky_function_in_a_condition_sees_no_row_that_its_caller_does_not() {
        granting();
        world("lf");
        run(&["CREATE FUNCTION pg_temp.overhear(value text) RETURNS boolean LANGUAGE plpgsql COST 0.000001 AS $$
               BEGIN PERFORM set_config('leak.heard', current_setting('leak.heard') || ' ' || COALESCE(value, ''), true); RETURN true; END $$",
            // However the planner orders the conditions of a row.
            "ALTER FUNCTION pg_has_role(name, oid, text) COST 1000000"]);
        for view in views() {
            // Of four views it sees the ids of all rows, and NULL for the rest of what its caller may not read.
            let joined = ["execution", "running", "failed", "history"].contains(&view.as_str());
            for column in columns(&view) {
                if !(joined && column == "id") {
                    assert_eq!(overheard("lf_spy", &view, &column).trim(), "", "{view}.{column}");
                }
                let heard = overheard("lf_monitor", &view, &column);
                assert!(!heard.contains("secret"), "{view}.{column}: {heard}");
            }
        }
        assert!(overheard("lf_victim", "execution", "payload").contains("secret"));
        assert!(overheard("lf_victim", "jobs", "command").contains("secret"));
        assert!(overheard("lf_victim", "skipped", "reason").contains("missed"));
        assert!(overheard("lf_spy", "history", "id").len() > 36, "the function is called before the test of the row");
        // Without the barrier it would.
        run(&["ALTER VIEW sched.jobs RESET (security_barrier)"]);
        assert!(overheard("lf_spy", "jobs", "job_name").contains("l/job"), "the attack is one");
    }

    #[pg_test]
    fn the_planners_statistics_tell_nobody_what_they_were_made_of() {
        granting();
        world("ls");
        run(&[&format!("ANALYZE sched.ledger, {LEASE_TABLE}, sched.schedule, sched.job, {TIMER_TABLE}")]);
        check(
            "SELECT string_agg(most_common_vals::text, '') LIKE '%secret%' FROM pg_stats WHERE schemaname = 'sched'",
            "t",
        );
        for role in ["ls_spy", "ls_monitor", "ls_victim"] {
            assert_eq!(as_role(role, "SELECT count(*) FROM pg_stats WHERE schemaname = 'sched'"), "0", "{role}");
            assert_eq!(as_role(role, "SELECT count(*) FROM pg_stats_ext WHERE schemaname = 'sched'"), "0", "{role}");
            run(&[&format!("SET LOCAL ROLE {role}")]);
            let refusal = attempt("SELECT * FROM pg_statistic").map(|refusal| refusal.sqlstate);
            run(&["RESET ROLE"]);
            assert_eq!(refusal.as_deref(), Some("42501"), "{role}");
        }
    }

    /// A plan shows what its reader wrote, and how many rows there are; nothing of what is in them.
    #[pg_test]
    fn explain_shows_no_value() {
        granting();
        world("le");
        run(&[&format!("ANALYZE sched.ledger, {LEASE_TABLE}, sched.schedule, sched.job, {TIMER_TABLE}")]);
        for role in ["le_spy", "le_monitor"] {
            for view in views() {
                for column in columns(&view) {
                    let query = format!(
                        "EXPLAIN (ANALYZE, VERBOSE, BUFFERS, SETTINGS) SELECT * FROM sched.{view} WHERE {column}::text > '' ORDER BY {column}::text"
                    );
                    let plan = as_role(role, &query);
                    assert!(plan.contains("sched.") && !plan.contains("secret"), "{role}: {plan}");
                }
            }
        }
    }

    /// How many rows a condition is thought to find is no way to guess what is in a payload, a result or a message.
    #[pg_test]
    fn estimates_do_not_depend_on_what_is_hidden() {
        granting();
        world("lg");
        run(&[&format!("ANALYZE sched.ledger, {LEASE_TABLE}, sched.schedule, sched.job, {TIMER_TABLE}")]);
        let rows = |role: &str, condition: &str| {
            let plan = as_role(role, &format!("EXPLAIN SELECT * FROM sched.execution WHERE {condition}"));
            let first = plan.lines().next().unwrap_or_default().to_owned();
            first.split("rows=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default().to_owned()
        };
        for (right, wrong) in [
            ("payload = '{\"secret\": 1}'", "payload = '{\"secret\": 2}'"),
            ("result = '\"secret\"'", "result = '\"guess\"'"),
            ("progress = '\"secret\"'", "progress = '\"guess\"'"),
            ("error_msg = 'secret'", "error_msg = 'guess'"),
        ] {
            for role in ["lg_spy", "lg_monitor"] {
                assert_eq!(rows(role, right), rows(role, wrong), "{role}: {right}");
            }
        }
    }

    /// An error says what its reader wrote, or names of his own.
    #[pg_test]
    fn errors_name_only_what_the_caller_named() {
        granting();
        world("lm");
        run(&[
            "SET LOCAL ROLE lm_spy",
            "SELECT sched.define_job('l/mine')",
            "SELECT sched.create_schedule('l/mine', 'never', 'l/mine')",
        ]);
        for statement in [
            "SELECT sched.define_job('l/run', 'sql', 'SELECT ''secret''', settings => '{\"application_name\": \"secret\"}')",
            "SELECT sched.create_schedule('l/schedule', 'never', 'l/mine')",
            "SELECT sched.alter_schedule('l/mine', new_name => 'l/schedule')",
            "SELECT sched.create_schedules('[{\"schedule_name\": \"l/schedule\", \"clock\": \"never\", \"job_name\": \"l/mine\"}]')",
            "SELECT sched.define_job('l/job')",
            "SELECT sched.drop_job('l/job')",
            "SELECT sched.alter_schedule('l/schedule', payload => '{}')",
            "SELECT sched.drop_schedule('l/schedule', true)",
            "SELECT sched.enqueue('l/job', '{}', scope_id => '1')",
            "SELECT sched.latest_plan('l/job', 'adhoc', '1')",
            "SELECT sched.due_plans('l/job', '@daily', 'adhoc', '1')",
            "SELECT * FROM sched.ledger",
            "INSERT INTO sched.ledger SELECT * FROM sched.ledger",
        ] {
            let refusal = attempt(statement);
            assert!(refusal.is_some(), "no error from {statement}");
            let said = refusal.map_or_else(String::new, |refusal| format!("{} {}", refusal.message, refusal.hint));
            assert!(!said.contains("secret") && !said.contains("lm_victim") && !said.contains("l/queue"), "{statement}: {said}");
        }
        run(&["RESET ROLE"]);
    }
}
