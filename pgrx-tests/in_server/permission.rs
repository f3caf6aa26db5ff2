//! Who may do what, and what a hostile session can change: nothing.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{
        alone, armed, attempt, check, created, dispatch, granting, run, sql, state, time_passes, views,
    };

    /// What nobody is granted: for superusers and the extension's owner.
    const OF_SUPERUSERS: &str =
        "adopt advance drain_sql drop_elsewhere grant_monitor grant_queue grant_use grant_worker prune rebuild reset revoke_all router_sql set_buckets test_mode";

    const TRIGGER: &str =
        "CREATE TRIGGER t BEFORE INSERT ON sched.ledger EXECUTE FUNCTION suppress_redundant_updates_trigger()";
    fn user(role: &str) {
        run(&[&format!("CREATE ROLE {role}"), &format!("SELECT sched.grant_use('{role}')")]);
    }

    /// Runs a statement as a role.
    #[track_caller]
    fn as_role(role: &str, statement: &str) -> String {
        run(&[&format!("SET LOCAL ROLE {role}")]);
        let result = sql(statement);
        run(&["RESET ROLE"]);
        result
    }

    /// The statement fails for this role, with this SQLSTATE.
    #[track_caller]
    fn denied(role: &str, statement: &str, sqlstate: &str) {
        attempt("SELECT 1");
        run(&[&format!("SET LOCAL ROLE {role}")]);
        let refusal = attempt(statement);
        run(&["RESET ROLE"]);
        let (code, message) = refusal.map_or_else(Default::default, |refusal| (refusal.sqlstate, refusal.message));
        assert_eq!(code, sqlstate, "{role}: {statement}: {message}");
    }

    #[pg_test]
    fn everything_has_a_comment() {
        check("SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p WHERE pronamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) AND obj_description(p.oid, 'pg_proc') IS NULL", "");
        check("SELECT string_agg(c.relname, ' ') FROM pg_class c WHERE relnamespace IN ('sched'::regnamespace, 'sched_internal'::regnamespace) AND relkind IN ('r', 'v')
                AND obj_description(c.oid, 'pg_class') IS NULL", "");
    }

    #[pg_test]
    fn public_has_nothing() {
        run(&["CREATE ROLE p_nobody"]);
        check("SELECT has_schema_privilege('p_nobody', 'sched', 'USAGE'), has_schema_privilege('p_nobody', 'sched', 'CREATE')", "f|f");
        check("SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p WHERE pronamespace = 'sched'::regnamespace AND has_function_privilege('p_nobody', p.oid, 'EXECUTE')", "sched.now()");
        check("SELECT string_agg(c.relname, ' ') FROM pg_class c WHERE relnamespace = 'sched'::regnamespace AND relkind IN ('r', 'v')
                AND has_table_privilege('p_nobody', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')", "");
        check("SELECT string_agg(c.relname, ' ') FROM pg_class c WHERE relnamespace = 'sched'::regnamespace
                AND CASE WHEN relkind = 'S' THEN has_sequence_privilege('p_nobody', c.oid, 'USAGE, SELECT, UPDATE') END", "");
        for statement in
            ["SELECT sched.next_time('@daily')", "SELECT * FROM sched.schedules", "SELECT sched.dispatch_due()"]
        {
            denied("p_nobody", statement, "42501");
        }
    }

    #[pg_test]
    fn grant_use_gives_the_functions_and_the_views_only() {
        granting();
        alone();
        user("p_use");
        check(
            "SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc p
              WHERE pronamespace = 'sched'::regnamespace AND NOT has_function_privilege('p_use', p.oid, 'EXECUTE')",
            OF_SUPERUSERS,
        );
        check("SELECT DISTINCT relkind FROM pg_class c WHERE relnamespace = 'sched'::regnamespace AND relkind IN ('r', 'v') AND has_table_privilege('p_use', c.oid, 'SELECT')", "v");
        check("SELECT string_agg(c.relname, ' ') FROM pg_class c WHERE relnamespace = 'sched'::regnamespace AND relkind IN ('r', 'v')
                AND has_table_privilege('p_use', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')", "");
        check("SELECT has_schema_privilege('p_use', 'sched', 'CREATE')", "f");
        denied("p_use", "SELECT * FROM sched.ledger", "42501");
        denied("p_use", "SELECT sched.grant_use('p_use')", "42501");
        denied("p_use", "SELECT sched_internal.uuid_v7()", "42501");
        denied("p_use", TRIGGER, "42501");
        run(&["SELECT sched.revoke_all('p_use')"]);
        check("SELECT count(*) FROM pg_proc p WHERE pronamespace = 'sched'::regnamespace AND has_function_privilege('p_use', p.oid, 'EXECUTE')", "1");
        denied("p_use", "SELECT sched.next_time('@daily')", "42501");
        run(&["DROP ROLE p_use"]);
    }

    #[pg_test]
    fn a_monitor_sees_every_row_and_no_secret() {
        granting();
        user("p_seen");
        run(&["CREATE ROLE p_monitor", "SELECT sched.grant_monitor('p_monitor')"]);
        as_role("p_seen", "SELECT sched.define_job('p/seen', max_attempts => 2, command => 'secret')");
        as_role("p_seen", "SELECT sched.create_schedule('p/seen', 'never', 'p/seen', payload => '{\"secret\": 1}')");
        as_role(
            "p_seen",
            "SELECT sched.enqueue('p/seen', '{\"secret\": 1}', scope_id => id) FROM unnest('{1,2,3}'::text[]) id",
        );
        as_role("p_seen", "SELECT sched.finish_failure(execution_id, lease_token, error_msg => 'secret', terminal => true) FROM sched.claim()");
        as_role(
            "p_seen",
            "SELECT sched.finish_success(execution_id, lease_token, result => '\"secret\"') FROM sched.claim()",
        );
        as_role(
            "p_seen",
            "SELECT sched.heartbeat(execution_id, lease_token, progress => '\"secret\"') FROM sched.claim()",
        );
        check("SELECT count(*) FROM sched.execution", "3");
        assert_eq!(
            as_role("p_monitor", "SELECT count(*), count(error_code), count(payload), count(result), count(progress), count(error_msg), count(lease_token) FROM sched.execution"),
            "3|1|0|0|0|0|0"
        );
        assert_eq!(as_role("p_monitor", "SELECT count(*) FROM sched.schedules"), "1");
        for view in views() {
            let rows = as_role("p_monitor", &format!("SELECT * FROM sched.{view}"));
            assert!(!rows.contains("secret"), "{view}: {rows}");
        }
        for statement in ["SELECT sched.define_job('p/m')", "SELECT * FROM sched.ledger", "SELECT sched.dispatch_due()"]
        {
            denied("p_monitor", statement, "42501");
        }
        run(&["SELECT sched.revoke_all('p_monitor')", "DROP ROLE p_monitor"]);
    }

    /// What a dispatcher needs and no more: nothing that runs code, nothing on what applications said but to read it.
    #[pg_test]
    fn grant_worker_gives_rows_and_no_function() {
        granting();
        alone();
        run(&["CREATE ROLE p_worker", "SELECT sched.grant_worker('p_worker')"]);
        check(
            "SELECT c.relname, string_agg(p.privilege, ' ' ORDER BY p.place)
               FROM pg_class c,
                    unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) WITH ORDINALITY AS p (privilege, place)
              WHERE c.relnamespace = 'sched'::regnamespace AND c.relkind IN ('r', 'v') AND has_table_privilege('p_worker', c.oid, p.privilege)
              GROUP BY 1 ORDER BY 1",
            "alert|SELECT INSERT UPDATE DELETE
alert_state|SELECT INSERT UPDATE DELETE
alert_watch|SELECT INSERT UPDATE DELETE
awaited|SELECT INSERT UPDATE DELETE
cancel_request|SELECT UPDATE DELETE
home|SELECT
imported|SELECT
job|SELECT
lease|SELECT UPDATE DELETE
ledger|SELECT INSERT UPDATE DELETE
paused_queue|SELECT
ready|SELECT INSERT UPDATE DELETE
retry|SELECT INSERT UPDATE DELETE
schedule|SELECT
schedule_change|SELECT INSERT UPDATE DELETE
schedule_definition|SELECT UPDATE DELETE
schedule_dropped|SELECT UPDATE DELETE
shard|SELECT
skip|SELECT INSERT UPDATE DELETE
test_clock|SELECT
timer|SELECT INSERT UPDATE DELETE
timer_state|SELECT INSERT UPDATE DELETE
unique_scope|SELECT UPDATE DELETE",
        );
        check(
            "SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc p
              WHERE pronamespace = 'sched'::regnamespace AND has_function_privilege('p_worker', p.oid, 'EXECUTE')",
            "now",
        );
        check("SELECT has_schema_privilege('p_worker', 'sched', 'CREATE'), has_sequence_privilege('p_worker', 'sched.fence', 'USAGE')", "f|f");
        for statement in [
            "UPDATE sched.job SET command = 'x'",
            "UPDATE sched.schedule SET clock = 'never'",
            TRIGGER,
            "SELECT sched.claim()",
            "SELECT sched.dispatch_due()",
            "SELECT sched.grant_worker('p_worker')",
        ] {
            denied("p_worker", statement, "42501");
        }
        run(&["SELECT sched.revoke_all('p_worker')", "DROP ROLE p_worker"]);
    }

    #[pg_test]
    fn a_role_with_a_strange_name() {
        granting();
        run(&["CREATE ROLE \"p; DROP \"\"x\"\" '\"", "SELECT sched.grant_use('\"p; DROP \"\"x\"\" ''\"')"]);
        check("SELECT has_schema_privilege('p; DROP \"x\" ''', 'sched', 'USAGE')", "t");
    }

    /// A pull job's whole life by an ordinary role.
    #[pg_test]
    fn a_user_does_its_own_things() {
        granting();
        user("p_alice");
        for statement in [
            "SELECT sched.define_job('p/alice', max_attempts => 2, retry_backoff => '{}', queue => 'p/alice')",
            "SELECT sched.create_schedule('p/alice', 'every 1 hour', 'p/alice')",
            "SELECT sched.alter_schedule('p/alice', payload => '{\"x\": 1}')",
            "SELECT sched.dispatch_due()",
        ] {
            as_role("p_alice", statement);
        }
        time_passes("61 minutes");
        assert_eq!(as_role("p_alice", "SELECT sched.dispatch_due()"), "1");
        assert_eq!(as_role("p_alice", "SELECT count(*) FROM sched.claim('p/alice')"), "1");
        assert_eq!(as_role("p_alice", "SELECT sched.heartbeat(id, lease_token) FROM sched.execution"), "ok");
        as_role("p_alice", "SELECT sched.finish_failure(id, lease_token) FROM sched.execution");
        assert_eq!(as_role("p_alice", "SELECT count(*) FROM sched.claim('p/alice')"), "1");
        as_role("p_alice", "SELECT sched.finish_success(id, lease_token) FROM sched.execution");
        assert_eq!(as_role("p_alice", "SELECT status, attempt FROM sched.execution"), "SUCCESS|2");
        assert_eq!(as_role("p_alice", "SELECT outcome FROM sched.try_claim('p/undefined', '2026-01-01')"), "won");
        assert_eq!(as_role("p_alice", "SELECT count(*) FROM sched.import_crontab('@daily a')"), "1");
        for statement in [
            "SELECT sched.pause('p/alice')",
            "SELECT sched.resume('p/alice')",
            "SELECT sched.drop_schedule('p/alice', true)",
            "SELECT sched.drop_job('p/alice')",
        ] {
            as_role("p_alice", statement);
        }
        check("SELECT count(*) FROM sched.job WHERE owner = 'p_alice'::regrole", "1");
    }

    #[pg_test]
    fn another_role_gets_an_error_or_no_row() {
        granting();
        user("p_owner");
        user("p_other");
        as_role("p_owner", "SELECT sched.define_job('p/theirs', max_attempts => 3)");
        as_role(
            "p_owner",
            "SELECT sched.create_schedule('p/theirs', 'every 1 hour', 'p/theirs', payload => '{\"secret\": 1}')",
        );
        as_role("p_owner", "SELECT sched.import_crontab('@daily a')");
        as_role("p_owner", "SELECT sched.try_claim('p/undefined', '2026-01-01')");
        as_role("p_other", "SELECT sched.define_job('p/mine')");
        as_role("p_other", "SELECT sched.create_schedule('p/mine', 'never', 'p/mine')");
        dispatch(0);
        time_passes("61 minutes");
        // Dispatching is for all.
        assert!(as_role("p_other", "SELECT sched.dispatch_due() >= 1") == "t");
        assert_eq!(as_role("p_other", "SELECT count(*) FROM sched.claim(max_claims => 99)"), "0");
        assert_eq!(as_role("p_other", "SELECT count(*) FROM sched.execution"), "0");
        assert_eq!(as_role("p_other", "SELECT schedule_name FROM sched.schedules"), "p/mine");
        let undefined = sql("SELECT plan_time FROM sched.execution WHERE job_name = 'p/undefined'");
        let lease = as_role("p_owner", "SELECT format('%L, %L', execution_id, lease_token) FROM sched.claim()");
        for statement in [
            "SELECT sched.define_job('p/theirs')".to_owned(),
            "SELECT sched.drop_job('p/theirs')".to_owned(),
            "SELECT sched.create_schedule('p/new', 'never', 'p/theirs')".to_owned(),
            "SELECT sched.alter_schedule('p/theirs', payload => '{}')".to_owned(),
            "SELECT sched.alter_schedule('p/mine', job_name => 'p/theirs')".to_owned(),
            "SELECT sched.drop_schedule('p/theirs')".to_owned(),
            "SELECT sched.drop_schedule('p/theirs', true)".to_owned(),
            "SELECT sched.pause('p/theirs')".to_owned(),
            "SELECT sched.resume('p/theirs')".to_owned(),
            "SELECT sched.try_claim('p/theirs', '2026-01-01')".to_owned(),
            format!("SELECT sched.try_claim('p/undefined', '{undefined}')"),
            format!("SELECT sched.heartbeat({lease})"),
            format!("SELECT sched.finish_success({lease})"),
            format!("SELECT sched.finish_failure({lease})"),
        ] {
            denied("p_other", &statement, "42501");
        }
        check(
            "SELECT status, attempt, lease_token IS NOT NULL FROM sched.execution WHERE job_name = 'p/theirs'",
            "RUNNING|1|t",
        );
        // Each role has crontabs of its own.
        as_role("p_other", "SELECT sched.import_crontab('@daily a')");
        check(
            "SELECT job_name, count(*) FROM sched.schedule WHERE job_name ^@ 'crontab' GROUP BY 1 ORDER BY 1",
            "crontab|1\ncrontab/p_other|1",
        );
        // A stale lease is not for others either.
        time_passes("10 minutes");
        assert_eq!(as_role("p_other", "SELECT count(*) FROM sched.claim(max_claims => 99)"), "0");
        // A member of the owner may do all of it.
        run(&["GRANT p_owner TO p_other"]);
        assert_eq!(as_role("p_other", "SELECT attempt, payload FROM sched.claim()"), "2|{\"secret\": 1}");
        as_role("p_other", "SELECT sched.pause('p/theirs')");
        as_role(
            "p_other",
            "SELECT sched.finish_success(id, lease_token) FROM sched.execution WHERE job_name = 'p/theirs'",
        );
    }

    #[pg_test]
    fn a_dropped_owner_parks_and_a_new_role_of_that_name_inherits_nothing() {
        granting();
        user("p_gone");
        as_role("p_gone", "SELECT sched.define_job('p/gone')");
        as_role("p_gone", "SELECT sched.create_schedule('p/gone', 'every 1 hour', 'p/gone')");
        created("p/stays", "every 1 hour", "");
        dispatch(0);
        run(&["SELECT sched.revoke_all('p_gone')", "DROP ROLE p_gone"]);
        time_passes("61 minutes");
        dispatch(1);
        assert_eq!(state("p/gone"), "parked");
        check(
            "SELECT last_error FROM sched.schedules WHERE schedule_name = 'p/gone'",
            "the owner of job \"p/gone\" was dropped",
        );
        user("p_gone");
        assert_eq!(as_role("p_gone", "SELECT count(*) FROM sched.schedules"), "0");
        denied("p_gone", "SELECT sched.define_job('p/gone')", "42501");
        denied("p_gone", "SELECT sched.pause('p/gone')", "42501");
        // A superuser puts it right: the job goes to whoever writes it.
        run(&["SELECT sched.define_job('p/gone')"]);
        dispatch(1);
        assert_eq!(armed("p/gone"), "t");
    }

    /// Everything that a caller could put before pg_catalog raises; so whatever works did not use it.
    #[pg_test]
    fn a_hostile_search_path_changes_nothing() {
        granting();
        user("p_evil");
        run(&[
            "CREATE SCHEMA p_evil AUTHORIZATION p_evil",
            "CREATE FUNCTION p_evil.trap() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$",
        ]);
        for (arguments, types) in [
            ("clock_timestamp()", "timestamptz"),
            ("now()", "timestamptz"),
            ("gen_random_uuid()", "uuid"),
            ("pg_has_role(oid, oid, text)", "boolean"),
            ("pg_has_role(name, oid, text)", "boolean"),
            ("nextval(regclass)", "bigint"),
            ("octet_length(text)", "integer"),
            ("isfinite(timestamptz)", "boolean"),
            ("pg_notify(text, text)", "void"),
            ("format(text, VARIADIC text[])", "text"),
        ] {
            run(&[&format!(
                "CREATE FUNCTION p_evil.{arguments} RETURNS {types} LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$"
            )]);
        }
        for (operator, left, right, result) in [
            ("=", "text", "text", "boolean"),
            ("<>", "text", "text", "boolean"),
            ("=", "uuid", "uuid", "boolean"),
            ("=", "bigint", "bigint", "boolean"),
            ("=", "oid", "oid", "boolean"),
            ("=", "timestamptz", "timestamptz", "boolean"),
            ("<=", "timestamptz", "timestamptz", "boolean"),
            (">", "timestamptz", "timestamptz", "boolean"),
            ("+", "timestamptz", "interval", "timestamptz"),
            ("<", "integer", "integer", "boolean"),
        ] {
            run(&[
                &format!("CREATE FUNCTION p_evil.trap({left}, {right}) RETURNS {result} LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$"),
                &format!("CREATE OPERATOR p_evil.{operator} (FUNCTION = p_evil.trap, LEFTARG = {left}, RIGHTARG = {right})"),
                &format!("DROP OPERATOR IF EXISTS pg_temp.{operator} ({left}, {right})"),
            ]);
            // The next operator may have the same argument types.
            run(&[&format!(
                "ALTER FUNCTION p_evil.trap({left}, {right}) RENAME TO trap_{}",
                sql("SELECT count(*) FROM pg_operator WHERE oprnamespace = 'p_evil'::regnamespace")
            )]);
        }
        run(&[
            "CREATE TEMP TABLE schedule (schedule_id bigint)",
            "CREATE TEMP TABLE pg_roles (oid oid)",
            "GRANT ALL ON ALL TABLES IN SCHEMA pg_temp TO p_evil",
        ]);
        run(&["SET LOCAL search_path = p_evil, pg_temp, pg_catalog"]);
        let life = [
            "SELECT sched.define_job('p/evil', max_attempts => 9, retry_backoff => '{}')",
            "SELECT sched.create_schedule('p/evil', 'every 1 hour', 'p/evil', overlap => 'buffer_one')",
            "SELECT sched.dispatch_due()",
            "SELECT sched.alter_schedule('p/evil', payload => '{\"n\": 1}', new_name => 'p/evil2')",
            "SELECT sched.dispatch_due()",
        ];
        for statement in life {
            as_role("p_evil", statement);
        }
        run(&["SET LOCAL search_path = pg_catalog"]);
        time_passes("61 minutes");
        run(&["SET LOCAL search_path = p_evil, pg_temp, pg_catalog"]);
        assert_eq!(as_role("p_evil", "SELECT sched.dispatch_due()"), "1");
        let lease = as_role("p_evil", "SELECT execution_id, lease_token FROM sched.claim()").replace('|', "', '");
        for statement in [
            format!("SELECT sched.heartbeat('{lease}', '1 minute', '1')"),
            format!("SELECT sched.finish_failure('{lease}')"),
            "SELECT sched.try_claim('p/evil', '2026-01-01')".to_owned(),
            "SELECT sched.try_claim('p/evil', '2026-01-01')".to_owned(),
            "SELECT sched.pause('p/evil2')".to_owned(),
            "SELECT sched.resume('p/evil2')".to_owned(),
            "SELECT sched.import_crontab('@daily a')".to_owned(),
            "SELECT sched.dispatch_due()".to_owned(),
            "SELECT status FROM sched.execution".to_owned(),
            "SELECT state FROM sched.schedules".to_owned(),
        ] {
            as_role("p_evil", &statement);
        }
        let lease = as_role("p_evil", "SELECT execution_id, lease_token FROM sched.claim()").replace('|', "', '");
        as_role("p_evil", &format!("SELECT sched.finish_success('{lease}')"));
        as_role("p_evil", "SELECT sched.drop_schedule('p/evil2', true)");
        // The trap is armed: an ordinary statement falls into it.
        denied("p_evil", "SELECT clock_timestamp()", "P0001");
        denied("p_evil", "SELECT 'a'::text = 'a'::text", "P0001");
        run(&["SET LOCAL search_path = pg_catalog"]);
        check("SELECT status, attempt FROM sched.execution WHERE schedule_name = 'p/evil2'", "SUCCESS|2");
    }

    #[pg_test]
    fn the_sessions_settings_change_nothing() {
        let tables = "SELECT extract(epoch FROM plan_time)::bigint % 3600, queue, payload, status FROM sched.execution ORDER BY plan_time";
        let mut seen: Vec<String> = Vec::new();
        let all = [
            "SELECT 1",
            "SET LOCAL timezone = 'Asia/Kathmandu'",
            "SET LOCAL datestyle = 'German'",
            "SET LOCAL intervalstyle = 'sql_standard'",
            "SET LOCAL standard_conforming_strings = off",
            "SET LOCAL session_replication_role = replica",
            "SET LOCAL plan_cache_mode = force_generic_plan",
            "SET LOCAL enable_indexscan = off",
            "SET LOCAL row_security = off",
            "SET LOCAL transform_null_equals = on",
        ];
        for (n, settings) in all.into_iter().enumerate() {
            run(&[settings]);
            let name = format!("p/set/{n}");
            created(
                &name,
                "every 1 hour from epoch",
                "catch_up => 'every_plan', delay => '90 s', catch_up_window => '1 day 12 hours'",
            );
            dispatch(0);
            // An hour or two ago, whatever an hour is in the session's zone.
            run(&[&format!("UPDATE {TIMER_TABLE} SET cursor_at = to_timestamp(floor(extract(epoch FROM clock_timestamp()) / 3600) * 3600 - 7200)")]);
            run(&["UPDATE sched.schedule SET baseline_at = clock_timestamp() - interval '3 hours', created_at = clock_timestamp() - interval '3 hours'"]);
            assert!(["1", "2"].contains(&sql("SELECT sched.dispatch_due()").as_str()), "{settings}");
            check("SELECT count(*) > 0 FROM sched.claim(max_claims => 9)", "t");
            seen.push(sql(&format!("SELECT DISTINCT * FROM ({tables}) AS t")));
            check("SELECT delay = interval '90 s', catch_up_window = interval '36 hours' FROM sched.schedule", "t|t");
            run(&[&format!("SELECT sched.drop_schedule('{name}')"), "SELECT sched.dispatch_due()"]);
        }
        seen.dedup();
        assert_eq!(seen, ["0|default|{}|RUNNING"]);
    }
}
