//! Jobs of kind `sql`: which commands and settings a definition takes.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, granting, quote, refused, run, Refusal};

    fn define(command: &str) -> String {
        format!("SELECT sched.define_job('c/job', 'sql', {})", quote(command))
    }

    #[track_caller]
    fn command_refused(command: &str, sqlstate: &str) -> Refusal {
        refused(&define(command), sqlstate)
    }

    #[pg_test]
    fn what_a_command_may_be() {
        for command in [
            "SELECT 1",
            "SELECT 1; SELECT 2;",
            ";;SELECT 1;;",
            "-- why\nSELECT /* that */ 1 -- end",
            "VACUUM",
            "CREATE INDEX CONCURRENTLY i ON t (c)",
            "CALL whatever.is_not('there yet')",
            "SELECT * FROM a_table_that_comes_later",
            "SELECT 'COMMIT; BEGIN', $$ROLLBACK$$, \"savepoint\" FROM t",
            "DO $$BEGIN COMMIT; END$$",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END",
            "COPY t FROM '/tmp/x'",
            "COPY t TO PROGRAM 'cat'",
            "SELECT 'ü'; SELECT U&'\\00fc'",
            "UNLISTEN x",
        ] {
            run(&[&define(command)]);
            check("SELECT command FROM sched.job WHERE job_name = 'c/job'", command);
        }
        // As long as may be.
        let longest = "SELECT ''; ".to_owned() + &" ".repeat(1_048_576 - 11);
        run(&[&define(&longest)]);
        let refusal = command_refused(&(longest + " "), "54000");
        assert_eq!(refusal.message, "command is too large: 1048577 bytes");
    }

    #[pg_test]
    fn a_command_says_something() {
        for command in ["", " ", ";", " ;\n; ", "-- nothing", "/* nothing */ ; -- at all"] {
            assert_eq!(command_refused(command, "22023").message, "command is blank");
        }
        refused("SELECT sched.define_job('c/job', 'sql')", "22023");
        refused("SELECT sched.define_job('c/job', 'sql', NULL)", "22023");
    }

    #[pg_test]
    fn a_syntax_error_is_shown_where_it_is() {
        for (command, message, hint) in [
            (
                "SELEC 1",
                "syntax error at or near \"SELEC\" at line 1, column 1 of command",
                "Correct the command at \"SELEC 1\".",
            ),
            (
                "SELECT 1;\nSELECT 'ü' FORM t",
                "syntax error at or near \"t\" at line 2, column 17 of command",
                "Correct the command at \"t\".",
            ),
            (
                "SELECT (1",
                "syntax error at end of input at line 1, column 10 of command",
                "The command ends there: complete it.",
            ),
            (
                "SELECT 1;\n\n  SELECT 'x",
                "unterminated quoted string at or near \"'x\" at line 3, column 10 of command",
                "Correct the command at \"'x\".",
            ),
            (
                "/* x",
                "unterminated /* comment at or near \"/* x\" at line 1, column 1 of command",
                "Correct the command at \"/* x\".",
            ),
            ("\\d", "syntax error at or near \"\\\" at line 1, column 1 of command", "Correct the command at \"\\d\"."),
        ] {
            let refusal = command_refused(command, "42601");
            assert_eq!((&*refusal.message, &*refusal.hint), (message, hint), "{command}");
        }
        // What comes after it is another statement's matter: its own errors have their own places.
        check("SELECT 1", "1");
        // Deeper than the server's stack.
        command_refused(&format!("SELECT {}1{}", "(".repeat(200_000), ")".repeat(200_000)), "42601");
        command_refused(&format!("SELECT {}1", "- ".repeat(200_000)), "42601");
    }

    #[pg_test]
    fn a_run_has_its_own_transaction_and_no_client() {
        for (command, message) in [
            ("BEGIN", "command may not contain BEGIN"),
            ("start transaction", "command may not contain START TRANSACTION"),
            ("SELECT 1; COMMIT; SELECT 2", "command may not contain COMMIT (statement 2 of 3)"),
            ("END", "command may not contain COMMIT"),
            ("ROLLBACK", "command may not contain ROLLBACK"),
            ("ABORT", "command may not contain ROLLBACK"),
            ("SAVEPOINT a", "command may not contain SAVEPOINT"),
            ("RELEASE a", "command may not contain RELEASE"),
            ("ROLLBACK TO a", "command may not contain ROLLBACK"),
            ("PREPARE TRANSACTION 'a'", "command may not contain PREPARE TRANSACTION"),
            ("COMMIT PREPARED 'a'", "command may not contain COMMIT PREPARED"),
            ("ROLLBACK PREPARED 'a'", "command may not contain ROLLBACK PREPARED"),
            ("COPY t FROM STDIN", "command may not contain COPY FROM STDIN"),
            ("COPY t TO STDOUT", "command may not contain COPY TO STDOUT"),
            ("COPY (SELECT 1) TO STDOUT", "command may not contain COPY TO STDOUT"),
            ("LISTEN news", "command may not contain LISTEN"),
            ("NOTIFY news; LISTEN news", "command may not contain LISTEN (statement 2 of 2)"),
        ] {
            assert_eq!(command_refused(command, "0A000").message, message, "{command}");
            let own = format!("SELECT sched.define_job('c/job', 'sql', {}, own_transactions => true)", quote(command));
            refused(&own, "0A000");
        }
    }

    #[pg_test]
    fn strings_are_those_of_the_command_and_not_of_the_session() {
        granting();
        let escaping = r#"settings => '{"STANDARD_CONFORMING_STRINGS": false}'"#;
        for session in ["on", "off"] {
            run(&[&format!("SET LOCAL standard_conforming_strings = {session}")]);
            let define = |command: &str, more: &str| {
                format!("SELECT sched.define_job('c/strings', 'sql', {}{more})", quote(command))
            };
            run(&[&define("SELECT 'a\\'", "")]);
            refused(&define("SELECT 'it\\'s'", ""), "42601");
            refused(&define("SELECT 'a\\'", &format!(", {escaping}")), "42601");
            run(&[&define("SELECT 'it\\'s'", &format!(", {escaping}"))]);
            refused("SELECT sched.alter_job('c/strings', reset => '{settings}')", "42601");
            check("SELECT current_setting('standard_conforming_strings')", session);
        }
        for session in ["on", "off", "safe_encoding"] {
            run(&[&format!("SET LOCAL backslash_quote = {session}")]);
            let define =
                |more: &str| format!("SELECT sched.define_job('c/quotes', 'sql', {}{more})", quote("SELECT E'it\\'s'"));
            run(&[&define("")]);
            refused(&define(r#", settings => '{"backslash_quote": "off"}'"#), "22P06");
            check("SELECT current_setting('backslash_quote')", session);
        }
    }

    #[pg_test]
    fn which_settings_a_run_may_have() {
        granting();
        let define = |settings: &str| {
            format!("SELECT sched.define_job('c/set', 'sql', 'SELECT 1', settings => {})", quote(settings))
        };
        for settings in [
            "{}",
            "{\"work_mem\": \"1GB\", \"search_path\": \"app, not_there_yet\"}",
            "{\"work_mem\": 4096, \"enable_seqscan\": false, \"Statement_Timeout\": \"5min\"}",
            "{\"c_app.tenant\": \"a\", \"seq_page_cost\": 1.5}",
            "{\"log_min_messages\": \"error\"}",
        ] {
            run(&[&define(settings)]);
            check("SELECT settings FROM sched.job WHERE job_name = 'c/set'", &sorted(settings));
        }
        check("SELECT current_setting('work_mem') <> '1GB', current_setting('enable_seqscan')", "t|on");
        for (settings, sqlstate, message) in [
            ("[]", "22023", "settings is not an object that can be read"),
            ("1", "22023", "settings is not an object that can be read"),
            ("null", "22023", "settings is not an object that can be read"),
            ("{\"work_mem\": null}", "22023", "setting \"work_mem\" is not a string, number or boolean"),
            ("{\"work_mem\": [1]}", "22023", "setting \"work_mem\" is not a string, number or boolean"),
            ("{\"work_mem\": {}}", "22023", "setting \"work_mem\" is not a string, number or boolean"),
            ("{\"work_mem\": \"much\"}", "22023", "invalid value for parameter \"work_mem\": \"much\""),
            ("{\"work_mem\": 1}", "22023", "1 kB is outside the valid range for parameter \"work_mem\""),
            ("{\"enable_seqscan\": \"maybe\"}", "22023", "parameter \"enable_seqscan\" requires a Boolean value"),
            ("{\"no_such\": 1}", "42704", "unrecognized configuration parameter \"no_such\""),
            ("{\"\": 1}", "42704", "unrecognized configuration parameter \"\""),
            ("{\"sched.no_such\": 1}", "42704", "invalid configuration parameter name \"sched.no_such\""),
            ("{\"role\": \"postgres\"}", "42501", "setting \"role\" may not be given for a run"),
            ("{\"exit_on_error\": true}", "42501", "setting \"exit_on_error\" may not be given for a run"),
            (
                "{\"Session_Authorization\": \"postgres\"}",
                "42501",
                "setting \"Session_Authorization\" may not be given for a run",
            ),
            (
                "{\"max_connections\": 9}",
                "42501",
                "parameter \"max_connections\" cannot be changed without restarting the server",
            ),
            ("{\"sched.enabled\": false}", "42501", "parameter \"sched.enabled\" cannot be changed now"),
            ("{\"server_version\": \"9\"}", "42501", "parameter \"server_version\" cannot be changed"),
        ] {
            let refusal = refused(&define(settings), sqlstate).message;
            // (Version 18 has other words for the range.)
            assert_eq!(refusal.split(" (64").next(), Some(message), "{settings}");
        }
        run(&["CREATE ROLE c_user", "SELECT sched.grant_use('c_user')", "SET LOCAL ROLE c_user"]);
        let mine = |settings: &str| define(settings).replace("c/set", "c/mine");
        run(&[&mine("{\"work_mem\": \"1GB\"}")]);
        run(&["RESET ROLE"]);
        let as_user = |settings: &str| {
            format!(
                "DO $do$BEGIN SET LOCAL ROLE c_user; PERFORM {}; END$do$",
                mine(settings).trim_start_matches("SELECT ")
            )
        };
        let refusal = refused(&as_user("{\"log_min_messages\": \"error\"}"), "42501");
        assert_eq!(refusal.message, "permission denied to set parameter \"log_min_messages\"");
    }

    /// As jsonb writes them.
    fn sorted(settings: &str) -> String {
        crate::test_support::sql(&format!("SELECT {}::jsonb", quote(settings)))
    }

    #[pg_test]
    fn what_is_for_this_kind_only() {
        for argument in ["own_transactions => true", "settings => '{\"work_mem\": \"1GB\"}'"] {
            for kind in ["'pull'", "'log'", "'notify', 'channel'"] {
                refused(&format!("SELECT sched.define_job('c/other', {kind}, {argument})"), "22023");
            }
        }
        for argument in ["own_transactions", "settings"] {
            refused(&format!("SELECT sched.define_job('c/other', 'sql', 'SELECT 1', {argument} => NULL)"), "22004");
        }
        run(&["SELECT sched.define_job('c/other', settings => '{}', own_transactions => false)"]);
        // The dispatcher keeps the leases of its own runners.
        run(&["SELECT sched.define_job('c/long', 'sql', 'SELECT 1', run_timeout => '1 day', stale_timeout => '1 min', own_transactions => true)"]);
        check("SELECT run_timeout, own_transactions FROM sched.job WHERE job_name = 'c/long'", "1 day|t");
        refused("SELECT sched.define_job('c/long', 'sql', 'SELECT 1', run_timeout => '0')", "22023");
    }
}
