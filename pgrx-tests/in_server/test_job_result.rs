//! The result of a command: never larger than it may be, and never the reason why a command fails.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, quote, run, sql};

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

    #[pg_test]
    fn a_result_is_never_too_large() {
        for command in [
            "SELECT repeat('x', 20000)",
            "SELECT repeat('x', 16300)",
            "SELECT repeat('x', 5000000), 1",
            "SELECT repeat('ü\"\\\n', 4000)",
            "SELECT repeat(chr(1), 16000)",
            "SELECT g, repeat('y', g) FROM generate_series(1, 100000, 7) g",
            "SELECT FROM generate_series(1, 100000)",
            "SELECT ARRAY(SELECT generate_series(1, 1000000))",
            "SELECT decode(repeat('00', 3000000), 'hex')",
            "SELECT 1e131071::numeric, 1e-16383::numeric FROM generate_series(1, 3)",
            "SELECT json_agg(g) FROM generate_series(1, 100000) g",
            "SELECT ROW(repeat('x', 3000000), ROW(repeat('z', 3000000)))",
            "SELECT array_agg(repeat('x', 1000000)) FROM generate_series(1, 20)",
            "DO $$BEGIN FOR i IN 1..1000 LOOP RAISE NOTICE '%', repeat('n', 1000); END LOOP; END$$",
            "DO $$BEGIN RAISE NOTICE '%', repeat('n', 1000000); END$$; SELECT 1",
            "DO $$BEGIN FOR i IN 1..200 LOOP RAISE NOTICE '%', repeat(chr(2), 200); END LOOP; END$$",
        ] {
            fits(command);
        }
        // Columns alone.
        let wide = (0..1600).map(|n| format!("{n} AS \"{}{n:04}\"", "ü".repeat(28))).collect::<Vec<_>>().join(", ");
        fits(&format!("SELECT 1; SELECT {wide}"));
        check(
            "SELECT result -> 'truncated', result -> 'statements' -> 1 ->> 'tag' FROM sched.test_job('t/job')",
            "true|SELECT",
        );
        // What is left is the beginning, and says that it is no more.
        shows(
            "SELECT g FROM generate_series(1, 100000) g",
            "rows_affected, result -> 'rows' -> 0, result -> 'truncated', jsonb_array_length(result -> 'rows') > 1000",
            "100000|[1]|true|t",
        );
        shows(
            "DO $$BEGIN FOR i IN 1..1000 LOOP RAISE NOTICE '% %', i, repeat('n', 1000); END LOOP; END$$; SELECT 5",
            "left(result #>> '{messages,0,text}', 3), jsonb_array_length(result -> 'messages') > 5, result -> 'truncated', result -> 'rows'",
            "1 n|t|true|[[5]]",
        );
        shows(
            "SELECT 1, repeat('x', 5000000)",
            "rows_affected, result ? 'rows', result -> 'truncated', result -> 'columns'",
            "1|f|true|[\"?column?\", \"repeat\"]",
        );
        // A first row that is too large does not let a later one look like the first.
        shows(
            "SELECT repeat('x', CASE g WHEN 1 THEN 50000 ELSE 1 END) FROM generate_series(1, 3) g",
            "rows_affected, result ? 'rows', result -> 'truncated'",
            "3|f|true",
        );
    }

    #[pg_test]
    fn ten_thousand_statements() {
        fits(&"SELECT 1;".repeat(10_000));
        check(
            "SELECT rows_affected, result -> 'truncated', jsonb_array_length(result -> 'statements') BETWEEN 100 AND 200, result -> 'rows' FROM sched.test_job('t/job')",
            "1|true|t|[[1]]",
        );
        run(&["CREATE TABLE t_many (id int)"]);
        shows(&"INSERT INTO t_many VALUES (1);".repeat(10_000), "ok, rows_affected", "t|10000");
        shows(
            &("SELECT 1;".repeat(9_999) + "SELECT 1 / 0"),
            "ok, error_msg",
            "f|division by zero\nstatement 10000 of 10000",
        );
    }

    /// Values of type json that jsonb refuses are shown as texts.
    #[pg_test]
    fn no_json_spoils_a_result() {
        let deep = format!("SELECT ('{}1{}')::json", "[".repeat(5000), "]".repeat(5000));
        let long = format!("SELECT '[0.{}1]'::json", "0".repeat(16_000));
        for command in [
            r#"SELECT '"\ud800"'::json"#,
            r#"SELECT '{"\udc00": 1}'::json"#,
            r#"SELECT '["\ud800\ud800", {"a": "\u0000"}]'::json"#,
            "SELECT '1e999999'::json",
            "SELECT '[1e-20000]'::json",
            "SELECT '[-1E+131072, 1e131071, 1e400]'::json",
            "SELECT ('[' || repeat('1e131000,', 1500) || '1]')::json",
            "SELECT '{\"a\": 1, \"a\": 2}'::json",
            "SELECT repeat('9', 9000)::json, repeat('9', 5000)::numeric",
            &deep,
            &long,
        ] {
            fits(command);
        }
        for (command, value) in [
            (r#"SELECT '"\u0000"'::json"#, "\"\u{fffd}\""),
            // Not one, but how one is written.
            (r#"SELECT '\u0000'::text"#, r#""\\u0000""#),
            (r#"SELECT '"\\u0000"'::json"#, r#""\\u0000""#),
            (r#"SELECT '"\\\u0000"'::json"#, "\"\\\\\u{fffd}\""),
            (r#"SELECT '"\ud83d\ude00\u00fc"'::json"#, "\"😀ü\""),
            (r#"SELECT '"\ud800"'::json"#, r#""\"\\ud800\"""#),
            ("SELECT '1e999999'::json", "\"1e999999\""),
            ("SELECT '1e-20000'::json", "\"1e-20000\""),
            ("SELECT '[1e2, -1.50]'::json", "[100, -1.50]"),
            ("SELECT 1e400::numeric % 7, 12345678901234567890123::numeric", "4"),
        ] {
            shows(command, "result #> '{rows,0,0}'", value);
        }
        shows(
            "SELECT 12345678901234567890123::numeric, 1e309::numeric",
            "jsonb_typeof(result #> '{rows,0,0}'), result #> '{rows,0,0}', jsonb_typeof(result #> '{rows,0,1}')",
            "number|12345678901234567890123|number",
        );
    }
}
