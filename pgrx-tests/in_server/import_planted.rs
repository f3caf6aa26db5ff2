//! import_from('pg_cron') on tables and jobs that others can have planted, and on schedules that were taken over.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;
    use pgrx::PgSqlErrorCode;

    use crate::pg::subtransaction;
    use crate::pg::time_limit::within;
    use crate::store::handover::foreign::ForeignSchema;
    use crate::store::handover::switch;
    use crate::test_support::{attempt, check, granting, refused, run, sql};

    fn import(schema: &str, more: &str) -> String {
        sql(&format!(
            "SELECT source_id, schedule_name, verdict, note FROM sched.import_from('pg_cron', '{schema}'{more})"
        ))
    }

    const COLUMNS: &str = "jobid bigint, schedule text DEFAULT '0 9 * * *', command text DEFAULT 'SELECT 1', nodename text DEFAULT '', database text DEFAULT current_database(), username text, active boolean DEFAULT true, jobname text";

    /// An import as this role is 42501.
    fn refused_to(role: &str, schema: &str) {
        let refusal =
            attempt(&format!("SET LOCAL ROLE {role}; SELECT * FROM sched.import_from('pg_cron', '{schema}')"));
        let of_scheduler = format!("\"{schema}.job\"");
        assert!(refusal.is_some_and(|it| it.sqlstate == "42501" && it.message.contains(&of_scheduler)), "{schema}");
    }

    /// A table as pg_cron's, of a role and in a schema of its own.
    fn table_of(role: &str, schema: &str) {
        run(&[
            &format!("CREATE SCHEMA {schema} AUTHORIZATION {role}"),
            &format!("GRANT USAGE ON SCHEMA {schema} TO PUBLIC"),
            &format!("CREATE TABLE {schema}.job ({COLUMNS})"),
            &format!("ALTER TABLE {schema}.job OWNER TO {role}"),
            &format!("GRANT SELECT ON {schema}.job TO PUBLIC"),
        ]);
    }

    /// A copy that others may write says as whom their rows run; pg_cron's own policy lets each role write its own rows only.
    #[pg_test]
    fn a_copy_that_others_may_write_is_not_imported() {
        granting();
        run(&["CREATE ROLE iw_writer", "SELECT sched.grant_use('iw_writer')"]);
        table_of("postgres", "iw_copy");
        run(&["INSERT INTO iw_copy.job (jobid, username, jobname) VALUES (1, current_user, 'iw/mine')"]);
        for right in ["INSERT", "UPDATE (command)"] {
            run(&[&format!("GRANT {right} ON iw_copy.job TO iw_writer")]);
            refused("SELECT * FROM sched.import_from('pg_cron', 'iw_copy')", "42501");
            run(&["REVOKE ALL ON iw_copy.job FROM iw_writer"]);
        }
        check("SELECT verdict FROM sched.import_from('pg_cron', 'iw_copy', dry_run => true)", "imported");
        run(&[
            "GRANT INSERT, UPDATE ON iw_copy.job TO iw_writer",
            "ALTER TABLE iw_copy.job ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY own ON iw_copy.job USING (username = current_user)",
        ]);
        check("SELECT verdict FROM sched.import_from('pg_cron', 'iw_copy')", "imported");
    }

    #[pg_test]
    fn what_a_role_planted_is_not_read_by_its_members() {
        granting();
        run(&[
            "CREATE ROLE it_evil",
            "CREATE ROLE it_payroll",
            "CREATE ROLE it_boss IN ROLE it_evil, it_payroll",
            "SELECT sched.grant_use('it_boss')",
        ]);
        table_of("it_evil", "it_trap");
        run(&["INSERT INTO it_trap.job (jobid, username, jobname) VALUES (1, 'it_payroll', 'it/planted')"]);
        refused_to("it_boss", "it_trap");
        // Nor where only the schema is theirs: it could be another one when its table is read.
        run(&["ALTER TABLE it_trap.job OWNER TO postgres"]);
        refused_to("it_boss", "it_trap");
        refused("SELECT * FROM sched.import_from('pg_cron', 'it_trap')", "42501");
        // One's own is read, but speaks for oneself alone.
        table_of("it_boss", "it_own");
        run(&[
            "INSERT INTO it_own.job (jobid, username, jobname) VALUES (1, 'it_payroll', 'it/theirs'), (2, 'it_boss', 'it/mine')",
            "SET LOCAL ROLE it_boss",
        ]);
        assert_eq!(
            import("it_own", ""),
            "1||unsupported|it runs as role \"it_payroll\", and only a superuser's table may say so\n2|it/mine|imported|"
        );
        run(&["RESET ROLE"]);
        check("SELECT job_name, owner FROM sched.job WHERE job_name LIKE 'it/%'", "it/mine|it_boss");
    }

    #[pg_test]
    fn tables_that_can_run_something_when_they_are_read_are_refused() {
        granting();
        run(&["CREATE ROLE if_one", "SELECT sched.grant_use('if_one')", "CREATE DOMAIN public.if_text AS text"]);
        for (schema, change) in [
            ("if_type", "ALTER TABLE if_type.job ALTER command DROP DEFAULT, ALTER command TYPE public.if_text"),
            ("if_extra", "ALTER TABLE if_extra.job ADD more public.if_text[]"),
            ("if_rls", "ALTER TABLE if_rls.job ENABLE ROW LEVEL SECURITY"),
            ("if_rule", "CREATE RULE if_rule AS ON INSERT TO if_rule.job DO ALSO NOTHING"),
            ("if_made", "ALTER TABLE if_made.job ADD made text GENERATED ALWAYS AS (upper(command)) STORED"),
            (
                "if_child",
                "CREATE TABLE if_child.parent (jobid bigint); ALTER TABLE if_child.job INHERIT if_child.parent",
            ),
            ("if_parent", "CREATE TABLE if_parent.child () INHERITS (if_parent.job)"),
            ("if_index", "CREATE INDEX ON if_index.job (upper(command))"),
        ] {
            table_of("if_one", schema);
            run(&["SET LOCAL ROLE if_one"]);
            assert_eq!(import(schema, ""), "", "{schema}");
            run(&["RESET ROLE", change]);
            refused_to("if_one", schema);
        }
        // pg_cron's own table has policies; what its columns are made of counts for a superuser's as well.
        table_of("postgres", "if_super");
        run(&["ALTER TABLE if_super.job ENABLE ROW LEVEL SECURITY"]);
        assert_eq!(import("if_super", ""), "");
        run(&["ALTER TABLE if_super.job ADD more public.if_text"]);
        refused("SELECT * FROM sched.import_from('pg_cron', 'if_super')", "42501");
    }

    #[pg_test]
    fn a_sync_leaves_on_what_was_taken_over() {
        table_of("postgres", "io");
        run(&["INSERT INTO io.job (jobid, username, jobname) VALUES (1, 'postgres', 'io/a'), (2, 'postgres', 'io/b')"]);
        assert_eq!(import("io", ""), "1|io/a|imported|\n2|io/b|imported|");
        run(&["SELECT sched.alter_schedule('io/a', ownership => 'owned')", "UPDATE io.job SET active = false"]);
        // What is fired there is off here as it is there; what is fired here is ours to say.
        assert_eq!(import("io", ""), "1|io/a|same|\n2|io/b|changed|");
        assert_eq!(import("io", ""), "1|io/a|same|\n2|io/b|same|");
        let state =
            "SELECT schedule_name, enabled, clock FROM sched.schedule WHERE schedule_name LIKE 'io/%' ORDER BY 1";
        check(state, "io/a|t|0 9 * * *\nio/b|f|0 9 * * *");
        run(&["UPDATE io.job SET schedule = '5 9 * * *'"]);
        assert_eq!(import("io", ""), "1|io/a|changed|\n2|io/b|changed|");
        check(state, "io/a|t|5 9 * * *\nio/b|f|5 9 * * *");
    }

    #[pg_test]
    fn a_sync_writes_no_job_but_the_one_that_was_imported() {
        table_of("postgres", "ij");
        run(&[
            "INSERT INTO ij.job (jobid, username, jobname) VALUES (1, 'postgres', 'ij/a'), (2, 'postgres', 'ij/b'), (3, 'postgres', 'ij/c')",
        ]);
        assert_eq!(import("ij", ""), "1|ij/a|imported|\n2|ij/b|imported|\n3|ij/c|imported|");
        run(&[
            "SELECT sched.define_job('ij/other', kind => 'sql', command => 'SELECT 42')",
            "SELECT sched.alter_schedule('ij/a', job_name => 'ij/other')",
            "SELECT sched.define_job('ij/b', kind => 'sql', command => 'SELECT 1', queue => 'ijq', priority => 7, max_attempts => 4)",
            "SELECT sched.define_job('ij/c', kind => 'pull')",
            "UPDATE ij.job SET command = 'SELECT 2; SELECT 3', schedule = '5 9 * * *'",
        ]);
        let expected =
            "1|ij/a|unsupported|schedule \"ij/a\" has job \"ij/other\" now, which was not imported with it\n\
             2|ij/b|changed|\n\
             3|ij/c|unsupported|job \"ij/c\" is of kind \"pull\" now, not \"sql\"";
        assert_eq!(import("ij", ", dry_run => true"), expected);
        assert_eq!(import("ij", ""), expected);
        check(
            "SELECT s.schedule_name, s.clock, j.job_name, j.kind, j.command, j.own_transactions, j.queue, j.priority, j.max_attempts
               FROM sched.schedule s JOIN sched.job j USING (job_name) WHERE s.schedule_name LIKE 'ij/%' ORDER BY 1",
            "ij/a|0 9 * * *|ij/other|sql|SELECT 42|f|default|0|1\n\
             ij/b|5 9 * * *|ij/b|sql|SELECT 2; SELECT 3|f|ijq|7|4\n\
             ij/c|0 9 * * *|ij/c|pull||f|default|0|3",
        );
    }

    #[pg_test]
    fn the_names_of_others_schedules_stay_theirs() {
        granting();
        run(&[
            "CREATE ROLE il_one",
            "CREATE ROLE il_two",
            "SELECT sched.grant_use('il_one'), sched.grant_use('il_two')",
        ]);
        table_of("postgres", "il");
        run(&["INSERT INTO il.job (jobid, username, jobname) VALUES (1, 'il_one', 'il/secret')"]);
        assert_eq!(import("il", ""), "1|il/secret|imported|");
        // The row is another role's now, who is told nothing of what it was.
        let expected = "1||unsupported|it was imported before, as a schedule of another role";
        for change in ["active = active", "username = 'il_two'", "schedule = '@reboot'", "database = 'elsewhere'"] {
            run(&[&format!("UPDATE il.job SET {change}"), "SET LOCAL ROLE il_two"]);
            for more in [", dry_run => true", ""] {
                assert_eq!(import("il", more), expected, "{change}");
            }
            run(&["RESET ROLE"]);
        }
        // Who may act for both hears it, from a dry run too.
        run(&["UPDATE il.job SET schedule = '0 9 * * *', database = current_database()"]);
        let expected = "1|il/secret|unsupported|it runs as role \"il_two\" there now: drop schedule \"il/secret\" and its job, and import it again";
        assert_eq!(import("il", ", dry_run => true"), expected);
        assert_eq!(import("il", ""), expected);
    }

    /// Who has dropped the keys of his tables has as many rows of one id as he likes.
    #[pg_test]
    fn an_id_is_on_once() {
        run(&[
            "CREATE SCHEMA iu",
            "CREATE TABLE iu.job (jobid bigint, active boolean)",
            "INSERT INTO iu.job SELECT i % 2, i % 2 = 1 FROM generate_series(1, 100) AS i",
            "CREATE TABLE iu.pga_job (jobid integer, jobenabled boolean)",
            "CREATE TABLE iu.pga_schedule (jscid integer, jscjobid integer, jscenabled boolean)",
            "INSERT INTO iu.pga_job SELECT 1, true FROM generate_series(1, 100)",
            "INSERT INTO iu.pga_schedule SELECT 1, 1, true FROM generate_series(1, 100)",
        ]);
        let schema = ForeignSchema { name: "iu".to_owned(), speaks_for_all: true };
        for (switch, ids) in [(&switch::PG_CRON, ["0", "1", "x'\n--"]), (&switch::PGAGENT, ["1/0", "1/1", "x'\n--"])] {
            let on = switch.enabled_now(&schema, &ids.map(str::to_owned));
            assert_eq!(on, [ids[1]]);
        }
    }

    /// Dispatchers look into others' tables like this: no lock is kept, and it ends.
    #[pg_test]
    fn what_is_undone_keeps_no_lock_and_no_time() {
        let locks = || {
            sql("SELECT count(*) FROM pg_locks WHERE relation = 'pg_statistic_ext_data'::regclass AND mode = 'ShareLock'")
        };
        let locked = subtransaction::undone(|| {
            run(&["LOCK TABLE pg_catalog.pg_statistic_ext_data IN SHARE MODE"]);
            locks()
        });
        assert_eq!((locked.ok().as_deref(), locks().as_str()), (Some("1"), "0"));
        for (statement, code) in [
            ("SELECT pg_sleep(1000)", PgSqlErrorCode::ERRCODE_QUERY_CANCELED),
            ("DO $$ BEGIN RAISE 'no' USING ERRCODE = '57014'; END $$", PgSqlErrorCode::ERRCODE_QUERY_CANCELED),
            (
                "DO $$ BEGIN RAISE 'no' USING ERRCODE = '40001'; END $$",
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            ),
        ] {
            let failed = subtransaction::undone(|| within(20, || run(&[statement]))).err().map(|failure| failure.code);
            assert_eq!(failed, Some(code), "{statement}");
        }
        check("SELECT pg_sleep(0.05)", "");
    }

    #[pg_test]
    fn a_clock_that_counts_from_an_end_no_longer_is_armed_when_it_fires() {
        let rearm = || sql("SELECT rearm FROM sched.schedule WHERE schedule_name = 'ir/a'");
        run(&["SELECT sched.define_job('ir')", "SELECT sched.create_schedule('ir/a', 'every 1 hour after end', 'ir')"]);
        assert_eq!(rearm(), "on_terminal");
        run(&["SELECT sched.alter_schedule('ir/a', clock => '0 * * * *')"]);
        assert_eq!(rearm(), "on_dispatch");
        run(&["SELECT sched.alter_schedule('ir/a', clock => 'every 2 hours after end')"]);
        assert_eq!(rearm(), "on_terminal");
        run(&["SELECT sched.alter_schedule('ir/a', clock => '0 * * * *', rearm => 'on_terminal')"]);
        assert_eq!(rearm(), "on_terminal");
        run(&["SELECT sched.alter_schedule('ir/a', clock => '5 * * * *')"]);
        assert_eq!(rearm(), "on_terminal");
    }
}
