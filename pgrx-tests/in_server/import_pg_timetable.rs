//! import_from('pg_timetable') and compare, on tables with the columns that its DDL gives them.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, granting, refused, run, sql};

    /// Its tables in a schema of the test's own.
    fn tables(schema: &str) {
        let statements = include_str!("../data/pg_timetable.sql").replace("{schema}", schema);
        for statement in statements.split(";\n").filter(|statement| !statement.trim().is_empty()) {
            run(&[statement]);
        }
    }

    /// A live chain with these columns, and tasks that each say their columns.
    fn chain(schema: &str, name: &str, columns: &str, tasks: &[&str]) {
        run(&[&format!(
            "INSERT INTO {schema}.chain
             SELECT r.* FROM jsonb_populate_record(NULL::{schema}.chain, jsonb_build_object('chain_id', nextval('{schema}.chain_chain_id_seq'), 'chain_name', '{schema}/{name}',
                        'run_at', '0 9 * * *', 'timeout', 0, 'live', true) || '{{{columns}}}') AS r"
        )]);
        for (order, task) in tasks.iter().enumerate() {
            run(&[&format!(
                "INSERT INTO {schema}.task (chain_id, task_order, kind, command, run_as, database_connection, ignore_error, autonomous, timeout, live)
                 SELECT currval('{schema}.chain_chain_id_seq'), {}, COALESCE(j ->> 'kind', 'SQL')::{schema}.command_kind, COALESCE(j ->> 'command', 'SELECT {order}'), j ->> 'run_as',
                        j ->> 'database_connection', COALESCE((j ->> 'ignore_error')::boolean, false), COALESCE((j ->> 'autonomous')::boolean, false),
                        COALESCE((j ->> 'timeout')::integer, 0), COALESCE((j ->> 'live')::boolean, true)
                   FROM jsonb('{{{task}}}') AS j",
                10 - order
            )]);
        }
    }

    fn import(schema: &str) -> String {
        sql(&format!(
            "SELECT substr(n.chain_name, {}), i.verdict, i.clock, i.note FROM sched.import_from('pg_timetable', '{schema}') i
               JOIN {schema}.chain n ON n.chain_id = i.source_id::bigint ORDER BY n.chain_id",
            schema.len() + 2
        ))
    }

    #[pg_test]
    fn chains_become_sql_jobs() {
        tables("tt");
        run(&["CREATE ROLE tt_clerk"]);
        chain(
            "tt",
            "one",
            "\"run_at\": \"0 9 13 * 5\", \"max_instances\": 1",
            &["\"command\": \"VACUUM\", \"autonomous\": true"],
        );
        chain(
            "tt",
            "two",
            "\"live\": false",
            &["\"command\": \"SELECT 2 -- b\"", "\"command\": \"SELECT 1;\"", "\"live\": false, \"kind\": \"PROGRAM\""],
        );
        chain(
            "tt",
            "every",
            "\"run_at\": \"@every 90 minutes\", \"client_name\": \"mine\"",
            &["\"run_as\": \"tt_clerk\""],
        );
        chain("tt", "after", "\"run_at\": \"@after 1 hour\"", &[""]);
        chain("tt", "minute", "\"run_at\": null", &[""]);
        assert_eq!(
            import("tt"),
            "one|imported|0 9 13 * +5|\n\
             two|imported|0 9 * * *|\n\
             every|imported|every 5400 seconds after start|there only client \"mine\" runs it\n\
             after|imported|every 3600 seconds after end|\n\
             minute|imported|* * * * *|"
        );
        check(
            "SELECT job_name, kind, owner, own_transactions, replace(command, E'\\n', '~') FROM sched.job WHERE job_name LIKE 'tt/%' ORDER BY 1",
            "tt/after|sql|postgres|f|SELECT 0\n\
             tt/every|sql|tt_clerk|f|SELECT 0\n\
             tt/minute|sql|postgres|f|SELECT 0\n\
             tt/one|sql|postgres|t|VACUUM\n\
             tt/two|sql|postgres|f|SELECT 1~;~SELECT 2 -- b~;",
        );
        check(
            "SELECT schedule_name, overlap, rearm, enabled, ownership FROM sched.schedule WHERE schedule_name LIKE 'tt/%' ORDER BY 1",
            "tt/after|allow|on_terminal|t|external\n\
             tt/every|allow|on_dispatch|t|external\n\
             tt/minute|allow|on_dispatch|t|external\n\
             tt/one|skip|on_dispatch|t|external\n\
             tt/two|allow|on_dispatch|f|external",
        );
        run(&[
            "UPDATE tt.task SET command = 'SELECT 7' WHERE command = 'VACUUM'",
            "UPDATE tt.chain SET run_at = '5 5 * * *' WHERE chain_id = 5",
        ]);
        assert_eq!(
            import("tt").lines().map(|line| line.split('|').nth(1).unwrap_or_default()).collect::<Vec<_>>(),
            ["changed", "same", "same", "same", "changed"]
        );
        check("SELECT command FROM sched.job WHERE job_name = 'tt/one'", "SELECT 7");
    }

    #[pg_test]
    fn what_no_job_here_does_is_refused() {
        tables("tu");
        chain("tu", "boot", "\"run_at\": \"@reboot\"", &[""]);
        chain("tu", "short", "\"run_at\": \"@every 0.1 seconds\"", &[""]);
        chain("tu", "endless", "\"run_at\": \"@every infinity\"", &[""]);
        chain("tu", "once", "\"self_destruct\": true", &[""]);
        chain("tu", "alone", "\"exclusive_execution\": true", &[""]);
        chain("tu", "handler", "\"on_error\": \"SELECT 1\"", &[""]);
        chain("tu", "limit", "\"timeout\": 1000", &[""]);
        chain("tu", "three", "\"max_instances\": 3", &[""]);
        chain("tu", "empty", "", &[]);
        chain("tu", "program", "", &["", "\"kind\": \"PROGRAM\""]);
        chain("tu", "remote", "", &["\"database_connection\": \"host=x\""]);
        chain("tu", "ignored", "", &["\"ignore_error\": true"]);
        chain("tu", "limited", "", &["\"timeout\": 5"]);
        chain("tu", "mixed", "", &["\"autonomous\": true", ""]);
        chain("tu", "roles", "", &["\"run_as\": \"a\"", "\"run_as\": \"b\""]);
        chain("tu", "quoted", "", &["\"run_as\": \"x; DROP\""]);
        chain("tu", "syntax", "", &["\"command\": \"SELEC\""]);
        chain("tu", "given", "", &[""]);
        run(&["INSERT INTO tu.parameter SELECT max(task_id), 1, '[1]' FROM tu.task"]);
        let refusals = import("tu");
        for (name, reason) in [
            ("boot", "when the server starts"),
            ("short", "shorter than a second"),
            ("endless", "no interval"),
            ("once", "run once only"),
            ("alone", "all other chains"),
            ("handler", "on_error"),
            ("limit", "it has a timeout"),
            ("three", "at most 3"),
            ("empty", "no task"),
            ("program", "of kind PROGRAM"),
            ("remote", "another database"),
            ("ignored", "errors are ignored"),
            ("limited", "a timeout of its own"),
            ("mixed", "autonomous"),
            ("roles", "several roles"),
            ("quoted", "no plain name"),
            ("syntax", "syntax error"),
            ("given", "parameters"),
        ] {
            let line = refusals.lines().find(|line| line.starts_with(&format!("{name}|unsupported|")));
            assert!(line.is_some_and(|line| line.contains(reason)), "{name}: {refusals}");
        }
    }

    #[pg_test]
    fn what_others_may_write_is_not_imported() {
        granting();
        tables("tv");
        run(&["CREATE ROLE tv_writer", "GRANT INSERT ON tv.task TO tv_writer"]);
        refused("SELECT * FROM sched.import_from('pg_timetable', 'tv')", "42501");
        run(&["REVOKE INSERT ON tv.task FROM tv_writer"]);
        assert_eq!(import("tv"), "");
        run(&["ALTER TYPE tv.command_kind OWNER TO tv_writer"]);
        refused("SELECT * FROM sched.import_from('pg_timetable', 'tv')", "42501");
    }

    #[pg_test]
    fn runs_are_compared() {
        tables("tw");
        chain("tw", "nine", "\"run_at\": \"0 9 * * *\"", &["", ""]);
        run(&["SET LOCAL TimeZone = 'UTC'"]);
        import("tw");
        run(&["UPDATE sched.schedule SET time_zone = 'UTC' WHERE schedule_name = 'tw/nine'",
            "INSERT INTO tw.execution_log (chain_id, task_id, txid, last_run, finished, client_name)
             SELECT 1, t, d, timestamptz '2026-05-01 09:00:00+00' + make_interval(days => d, secs => t), timestamptz '2026-05-01 09:00:01+00' + make_interval(days => d, secs => t), 'c'
               FROM generate_series(1, 2) t, unnest(ARRAY[0, 1, 3]) d"]);
        check(
            "SELECT to_char(plan_time AT TIME ZONE 'UTC', 'DD HH24:MI'), verdict FROM sched.compare('pg_timetable', '2026-05-01', '2026-05-06') WHERE schedule_name = 'tw/nine'",
            "01 09:00|both\n02 09:00|both\n03 09:00|only_here\n04 09:00|both",
        );
    }
}
