//! `sched.test_job` and `sched.this_run`: what a command did, what it said, and that nothing of it is left.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{attempt, check, fails, granting, quote, refused, run, sql};

    fn define(command: &str, more: &str) {
        run(&[&format!("SELECT sched.define_job('t/job', 'sql', {}{more})", quote(command))]);
    }

    /// What `columns` of a test of this command are.
    fn tested(command: &str, columns: &str) -> String {
        define(command, "");
        sql(&format!("SELECT {columns} FROM sched.test_job('t/job')"))
    }

    #[track_caller]
    fn shows(command: &str, columns: &str, expected: &str) {
        assert_eq!(tested(command, columns), expected, "{columns} of {command}");
    }

    /// A command that ends well, and whose result is as large as may be at most.
    #[track_caller]
    fn fits(command: &str) {
        shows(command, "ok, error_code, error_msg, octet_length(result::text) <= 16384", "t|||t");
    }

    const ROWS: &str = "ok, rows_affected, result -> 'columns', result -> 'rows'";

    #[pg_test]
    fn rows_of_the_last_statement_that_returns_some() {
        run(&["CREATE TABLE t_rows (id int PRIMARY KEY, name text)", "CREATE TABLE t_table AS SELECT 5 AS id"]);
        for (command, expected) in [
            ("SELECT 1 AS a, 'x' AS b", r#"t|1|["a", "b"]|[[1, "x"]]"#),
            ("SELECT 1; SELECT g FROM generate_series(1, 3) g", r#"t|3|["g"]|[[1], [2], [3]]"#),
            ("SELECT 1 AS a; SELECT 2 AS b WHERE false", r#"t|0|["a"]|[[1]]"#),
            ("SELECT 7 AS a; CREATE TABLE t_more ()", r#"t|1|["a"]|[[7]]"#),
            (
                "INSERT INTO t_rows VALUES (1, 'a'), (2, NULL) RETURNING name, id",
                r#"t|2|["name", "id"]|[["a", 1], [null, 2]]"#,
            ),
            (
                "WITH w AS (INSERT INTO t_rows VALUES (1), (2) RETURNING id) SELECT sum(id) FROM w",
                r#"t|1|["sum"]|[[3]]"#,
            ),
            ("SELECT x AS y FROM t_table AS t (x)", r#"t|1|["y"]|[[5]]"#),
            ("SELECT 1 AS same, 2 AS same, 3 AS \"Other\"", r#"t|1|["same", "same", "Other"]|[[1, 2, 3]]"#),
            ("SELECT FROM generate_series(1, 2)", "t|2||[[], []]"),
            (
                "SELECT '{1,2}'::int[], ROW(1, 'x'), '\\x00ff'::bytea",
                r#"t|1|["int4", "row", "bytea"]|[[[1, 2], {"f1": 1, "f2": "x"}, "\\x00ff"]]"#,
            ),
            (
                "SELECT 'NaN'::float8, '-Infinity'::float8, 'infinity'::timestamptz, 'NaN'::numeric",
                r#"t|1|["float8", "float8", "timestamptz", "numeric"]|[["NaN", "-Infinity", "infinity", "NaN"]]"#,
            ),
            (
                "SELECT NULL::int, true::bool, 1.50::numeric, '2026-01-02'::date, '{\"a\": 1}'::jsonb",
                r#"t|1|["int4", "bool", "numeric", "date", "jsonb"]|[[null, true, 1.50, "2026-01-02", {"a": 1}]]"#,
            ),
            ("SHOW search_path", "t||[\"search_path\"]|[[\"\\\"$user\\\", public\"]]"),
            ("VALUES (1), (2)", r#"t|2|["column1"]|[[1], [2]]"#),
            ("PREPARE t_plan (int) AS SELECT $1 AS p; EXECUTE t_plan(5); DEALLOCATE t_plan", r#"t|1|["p"]|[[5]]"#),
            (
                "DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 9) g; FETCH 2 FROM c; FETCH 0 FROM c",
                r#"t||["g"]|[[2]]"#,
            ),
        ] {
            shows(command, ROWS, expected);
        }
        check("SELECT count(*) FROM t_rows", "0");
        // Pseudo-types and all that catalogs hold.
        fits("SELECT * FROM pg_stats; SELECT c, c.* FROM pg_class c; SELECT * FROM pg_proc; SELECT * FROM pg_type; SELECT pg_sleep(0)");
    }

    #[pg_test]
    fn rows_affected_counts_what_was_written_or_else_read() {
        run(&["CREATE TABLE t_count (id int)"]);
        for (command, rows) in [
            ("INSERT INTO t_count SELECT generate_series(1, 5); UPDATE t_count SET id = id + 1 WHERE id > 2; DELETE FROM t_count WHERE id = 1; SELECT 1", "9"),
            ("INSERT INTO t_count SELECT 1 WHERE false; SELECT 1", "0"),
            ("SELECT 1; SELECT generate_series(1, 4)", "4"),
            ("SELECT generate_series(1, 4); SELECT 1 WHERE false", "0"),
            ("CREATE TABLE t_none (); DO 'BEGIN END'", ""),
            ("PREPARE t_write AS INSERT INTO t_count VALUES (1), (2); EXECUTE t_write; DEALLOCATE t_write", "2"),
            ("WITH d AS (DELETE FROM t_count RETURNING 1) INSERT INTO t_count VALUES (1), (2)", "2"),
        ] {
            shows(command, "ok, rows_affected", &format!("t|{rows}"));
        }
        if sql("SELECT current_setting('server_version_num')::int >= 150000") == "t" {
            shows(
                "INSERT INTO t_count VALUES (1), (2); MERGE INTO t_count t USING (VALUES (2), (3)) AS s (id) ON t.id = s.id
                 WHEN MATCHED THEN UPDATE SET id = 9 WHEN NOT MATCHED THEN INSERT VALUES (s.id)",
                "rows_affected, result -> 'statements' -> 1 ->> 'tag'",
                "4|MERGE",
            );
        }
    }

    #[pg_test]
    fn each_statement_has_its_tag_rows_and_time() {
        shows(
            "CREATE TABLE t_tags (id int); INSERT INTO t_tags VALUES (1); SELECT 1; CREATE TABLE t_as AS SELECT 1; SET work_mem = '5MB'; DO 'BEGIN END'; DROP TABLE t_tags",
            "(SELECT string_agg(concat_ws(' ', s ->> 'tag', s ->> 'rows'), ', ' ORDER BY n) FROM jsonb_array_elements(result -> 'statements') WITH ORDINALITY AS x (s, n)),
             (SELECT bool_and((s ->> 'ms')::float8 >= 0) FROM jsonb_array_elements(result -> 'statements') s), duration_ms >= 0",
            "CREATE TABLE, INSERT 1, SELECT 1, SELECT 1, SET, DO, DROP TABLE|t|t",
        );
        shows(
            "SET work_mem = '5MB'",
            "ok, result ? 'rows', result ? 'columns', result ? 'messages', result ? 'truncated'",
            "t|f|f|f|f",
        );
        shows(
            "CREATE TABLE t_kept (); SELECT 1 / 0",
            "ok, result #>> '{statements,0,tag}', jsonb_array_length(result -> 'statements')",
            "f|CREATE TABLE|1",
        );
    }

    #[pg_test]
    fn messages_come_in_the_order_in_which_they_were_said() {
        let command = "DO $$BEGIN
                RAISE NOTICE 'one'; RAISE WARNING 'two' USING DETAIL = 'more', HINT = 'do it'; RAISE INFO 'three'; RAISE DEBUG 'not said'; RAISE LOG 'not said';
            END$$;
            DROP TABLE IF EXISTS t_not_there; DO $$BEGIN RAISE NOTICE E'ü\\n\\t\"'; END$$";
        shows(
            command,
            "(SELECT string_agg(concat(m ->> 'severity', ' ', replace(m ->> 'text', E'\\n', '/')), '; ' ORDER BY n) FROM jsonb_array_elements(result -> 'messages') WITH ORDINALITY AS x (m, n))",
            "NOTICE one; WARNING two/DETAIL:  more/HINT:  do it; INFO three; NOTICE table \"t_not_there\" does not exist, skipping; NOTICE ü/\t\"",
        );
        // Also what was said before it failed.
        shows("DO $$BEGIN RAISE NOTICE 'said'; PERFORM 1 / 0; END$$", "ok, result #>> '{messages,0,text}'", "f|said");
        shows(
            "SET client_min_messages = error; DO $$BEGIN RAISE WARNING 'not said'; END$$",
            "ok, result ? 'messages'",
            "t|f",
        );
        check("SHOW client_min_messages", "notice");
    }

    /// What is kept is for the database, whatever the client of the session reads.
    #[pg_test]
    fn messages_are_in_the_encoding_of_the_database() {
        let said = "DO $$BEGIN RAISE NOTICE 'für ☃'; END$$";
        run(&["SET client_encoding = 'LATIN1'"]);
        shows(said, "ok, error_msg, result #>> '{messages,0,text}'", "t||für ☃");
        shows(
            "SET client_encoding = 'LATIN9'; DO $$BEGIN RAISE NOTICE 'für €'; END$$",
            "ok, error_msg, result #>> '{messages,0,text}'",
            "t||für €",
        );
        check("SHOW client_encoding", "LATIN1");
        run(&["SET client_encoding = 'UTF8'"]);
        shows(said, "result #>> '{messages,0,text}'", "für ☃");
    }

    #[pg_test]
    fn nothing_of_a_test_is_left() {
        granting();
        run(&[
            "CREATE ROLE t_left",
            "CREATE TABLE t_here (id int)",
            "INSERT INTO t_here VALUES (1)",
            "SET search_path = public, pg_catalog",
        ]);
        define(
            "INSERT INTO t_here VALUES (2); DELETE FROM t_here WHERE id = 1; CREATE TABLE t_new (); DROP TABLE t_here;
             SET search_path = pg_catalog; SET SESSION statement_timeout = '1h'; SET t.custom = 'set'; CREATE TEMP TABLE t_temp (); SET ROLE t_left; NOTIFY t_news;
             SELECT current_user, current_setting('work_mem'), current_setting('search_path')",
            ", settings => '{\"work_mem\": \"3MB\", \"search_path\": \"public, pg_catalog\"}'",
        );
        for _ in 0..2 {
            check(
                "SELECT ok, result -> 'rows' FROM sched.test_job('t/job')",
                "t|[[\"t_left\", \"3MB\", \"pg_catalog\"]]",
            );
            check("SELECT id FROM t_here", "1");
            check("SELECT to_regclass('t_new') IS NULL, to_regclass('pg_temp.t_temp') IS NULL, current_user = session_user", "t|t|t");
            check("SELECT current_setting('search_path'), current_setting('statement_timeout'), current_setting('work_mem') <> '3MB'", "public, pg_catalog|0|t");
            check("SELECT COALESCE(current_setting('t.custom', true), '')", "");
        }
        check("SELECT count(*) FROM sched.execution WHERE job_name = 't/job'", "0");
        // A failure, in the middle of what only the end would have taken away.
        define("CREATE TEMP TABLE t_temp (); SET work_mem = '6MB'; DECLARE c CURSOR WITH HOLD FOR SELECT 1; SET ROLE t_left; SELECT 1 / 0", "");
        check("SELECT ok, error_code FROM sched.test_job('t/job')", "f|22012");
        check("SELECT count(*) FROM pg_cursors WHERE name = 'c'", "0");
        check("SELECT to_regclass('pg_temp.t_temp') IS NULL, current_user = session_user, current_setting('work_mem') <> '6MB'", "t|t|t");
    }

    #[pg_test]
    fn a_failure_is_a_row() {
        let of = "ok, rows_affected, error_code, error_msg";
        shows("SELECT 1; SELECT 1 / 0; SELECT 3", of, "f||22012|division by zero\nstatement 2 of 3");
        shows(
            "SELECT 1;\n  SELECT nothing FROM t_nowhere",
            of,
            "f||42P01|relation \"t_nowhere\" does not exist\nPOSITION:  line 2, column 23\nstatement 2 of 2",
        );
        shows(
            "DO $$BEGIN RAISE EXCEPTION 'own' USING ERRCODE = 'MY001', DETAIL = 'd', HINT = 'h'; END$$",
            of,
            "f||MY001|own\nDETAIL:  d\nHINT:  h\nCONTEXT:  PL/pgSQL function inline_code_block line 1 at RAISE\nstatement 1 of 1",
        );
        for (command, code) in [
            ("DO $$BEGIN RAISE SQLSTATE '00001'; END$$", "00001"),
            ("DO $$BEGIN RAISE SQLSTATE 'ZZZZZ'; END$$", "ZZZZZ"),
            ("DO $$BEGIN RAISE SQLSTATE 'P0001'; END$$", "P0001"),
            ("DO $$BEGIN ASSERT false; END$$", "P0004"),
            ("DO $$BEGIN COMMIT; END$$", "2D000"),
            ("VACUUM", "25001"),
            ("CREATE DATABASE t_db", "25001"),
            ("ALTER SYSTEM SET work_mem = '4MB'", "25001"),
            ("SELECT 1; DISCARD ALL", "25001"),
            ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "25001"),
            ("SELECT sched.define_job('')", "22023"),
            ("COPY t_nothing FROM '/nowhere'", "42P01"),
            ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT repeat('x', 1073741824) FROM r", "54000"),
            ("SET work_mem = 'much'", "22023"),
            ("SELECT U&'\\D800'", "42601"),
        ] {
            if let Some(refusal) = attempt(&format!("SELECT sched.define_job('t/job', 'sql', {})", quote(command))) {
                assert_eq!(refusal.sqlstate, code, "{command}");
                continue;
            }
            check("SELECT ok, error_code, rows_affected, octet_length(result::text) <= 16384 FROM sched.test_job('t/job')", &format!("f|{code}||t"));
            check("SELECT 1", "1");
        }
        // As long as may be.
        shows(
            "SELECT 1; DO $$BEGIN RAISE EXCEPTION '%', repeat('ü', 5000); END$$",
            "ok, length(error_msg), right(error_msg, 20)",
            "f|4000|...\nstatement 2 of 2",
        );
    }

    #[pg_test]
    fn what_is_put_off_to_the_end_is_checked() {
        run(&[
            "CREATE TABLE t_parent (id int PRIMARY KEY)",
            "CREATE TABLE t_child (id int REFERENCES t_parent DEFERRABLE INITIALLY DEFERRED)",
        ]);
        shows("INSERT INTO t_child VALUES (1); INSERT INTO t_parent VALUES (1)", "ok, rows_affected", "t|2");
        shows(
            "INSERT INTO t_child VALUES (1); SELECT 1",
            "ok, error_code, left(error_msg, 39)",
            "f|23503|insert or update on table \"t_child\" vio",
        );
        check("SELECT count(*) FROM t_child", "0");
        // The caller's own are for the caller's commit.
        run(&["INSERT INTO t_child VALUES (1)"]);
        shows("SELECT 1", "ok, error_code", "f|23503");
        run(&["INSERT INTO t_parent VALUES (1)", "SET CONSTRAINTS ALL IMMEDIATE"]);
    }

    #[pg_test]
    fn inside_this_run_says_which() {
        check("SELECT count(*) FROM sched.this_run()", "0");
        define("SELECT * FROM sched.this_run()", "");
        check(
            "SELECT result -> 'rows' FROM sched.test_job('t/job', '{\"a\": [1.50]}', '2026-01-02 03:04:05.000006+00')",
            r#"[[null, "t/job", null, null, null, "2026-01-02T03:04:05.000006+00:00", 1, {"a": [1.50]}]]"#,
        );
        check("SELECT count(*) FROM sched.this_run()", "0");
        check("SELECT result #> '{rows,0,7}', (result #>> '{rows,0,5}')::timestamptz > now() - interval '1 hour' FROM sched.test_job('t/job')", "{}|t");
        // In functions, defaults, and after a failure.
        shows(
            "DO $$BEGIN RAISE NOTICE '%', (SELECT job_name FROM sched.this_run()); END$$; SELECT 1 / 0",
            "ok, result #>> '{messages,0,text}'",
            "f|t/job",
        );
        check("SELECT count(*) FROM sched.this_run()", "0");
        shows("VACUUM", "ok", "f");
        check("SELECT count(*) FROM sched.this_run()", "0");
    }

    #[pg_test]
    fn a_test_within_a_test_keeps_to_itself() {
        run(&[&format!(
            "SELECT sched.define_job('t/inner', 'sql', {})",
            quote("DO $$BEGIN RAISE NOTICE 'inner %', (SELECT payload FROM sched.this_run()); END$$; SET work_mem = '7MB'; SELECT 2")
        )]);
        shows(
            "DO $$BEGIN RAISE NOTICE 'before'; END$$; CREATE TABLE t_nested AS SELECT result FROM sched.test_job('t/inner', '3');
             DO $$BEGIN RAISE NOTICE 'after %', (SELECT job_name FROM sched.this_run()); END$$;
             SELECT result #>> '{messages,0,text}', result #> '{rows,0}', current_setting('work_mem') <> '7MB' FROM t_nested",
            "ok, result -> 'rows', (SELECT string_agg(m ->> 'text', ', ') FROM jsonb_array_elements(result -> 'messages') m)",
            r#"t|[["inner 3", [2], true]]|before, after t/job"#,
        );
    }

    #[pg_test]
    fn who_may_test_what() {
        granting();
        refused("SELECT sched.test_job('t/unknown')", "42704");
        refused("SELECT sched.test_job(NULL)", "22004");
        refused("SELECT sched.test_job('')", "22023");
        define("SELECT 1", ", own_transactions => true");
        refused("SELECT sched.test_job('t/job')", "0A000");
        define("SELECT current_user = session_user, session_user = 't_caller'", "");
        refused("SELECT sched.test_job('t/job', NULL)", "22004");
        refused("SELECT sched.test_job('t/job', plan_time => NULL)", "22004");
        refused("SELECT sched.test_job('t/job', plan_time => 'infinity')", "22008");
        run(&["SELECT sched.define_job('t/pull')"]);
        refused("SELECT sched.test_job('t/pull')", "0A000");
        run(&[
            "CREATE ROLE t_owner",
            "CREATE ROLE t_member",
            "CREATE ROLE t_other",
            "GRANT t_owner TO t_member",
            "SELECT sched.grant_use(r::regrole) FROM unnest('{t_owner,t_member,t_other}'::text[]) r",
            "SET LOCAL ROLE t_owner",
            "SELECT sched.define_job('t/mine', 'sql', 'SELECT current_user')",
            "RESET ROLE",
        ]);
        for (role, user) in [("t_owner", "t_owner"), ("t_member", "t_member")] {
            run(&[&format!("SET LOCAL ROLE {role}")]);
            check("SELECT ok, result -> 'rows' FROM sched.test_job('t/mine')", &format!("t|[[\"{user}\"]]"));
            run(&["RESET ROLE"]);
        }
        fails("DO $$BEGIN SET LOCAL ROLE t_other; PERFORM sched.test_job('t/mine'); END$$", "42501");
    }

    #[pg_test]
    fn the_callers_own_limit_cancels() {
        define("SELECT pg_sleep(3600)", "");
        // (A limit holds for the statement of a client; in here it is armed by nobody, so the command cancels its own session.)
        define("SELECT pg_cancel_backend(pg_backend_pid()); SELECT pg_sleep(3600)", "");
        let refusal = sql("SELECT 1");
        assert_eq!(refusal, "1");
        run(&["CREATE FUNCTION pg_temp.t_cancelled() RETURNS text LANGUAGE plpgsql AS $$
               BEGIN PERFORM sched.test_job('t/job'); RETURN 'a row'; EXCEPTION WHEN query_canceled THEN RETURN SQLSTATE; END $$"]);
        check("SELECT pg_temp.t_cancelled()", "57014");
        check("SELECT count(*) FROM sched.this_run()", "0");
    }
}
