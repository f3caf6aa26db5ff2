//! import_from('pg_cron'): verdicts, names, rights, on tables as pg_cron's own; the cluster tests have the real one.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{attempt, check, dispatch, fails, granting, refused, run, sql};

    /// pg_cron's table in a schema of the test's own, as its version 1.6 has it.
    fn table(schema: &str) {
        run(&[
            &format!("CREATE SCHEMA {schema}"),
            &format!("GRANT USAGE ON SCHEMA {schema} TO PUBLIC"),
            &format!(
                "CREATE TABLE {schema}.job (jobid bigserial PRIMARY KEY, schedule text NOT NULL, command text NOT NULL, nodename text NOT NULL DEFAULT 'localhost',
                        nodeport int NOT NULL DEFAULT current_setting('port')::int, database text NOT NULL DEFAULT current_database(), username text NOT NULL DEFAULT current_user,
                        active boolean NOT NULL DEFAULT true, jobname text)"
            ),
            &format!("GRANT SELECT ON {schema}.job TO PUBLIC"),
            &format!("ALTER TABLE {schema}.job ENABLE ROW LEVEL SECURITY"),
            &format!("CREATE POLICY own ON {schema}.job USING (username = current_user)"),
        ]);
    }

    fn import(schema: &str, more: &str) -> String {
        sql(&format!("SELECT source_id, schedule_name, verdict FROM sched.import_from('pg_cron', '{schema}'{more})"))
    }

    #[pg_test]
    fn each_row_has_a_verdict() {
        table("ip_v");
        run(&[
            "INSERT INTO ip_v.job (schedule, command, jobname, active, database, nodename) VALUES
                  ('*/10 * * * *', 'VACUUM', 'ip/vacuum', true, current_database(), 'localhost'),
                  ('30 9 13 * 5', 'SELECT 1; SELECT 2', 'ip/two', false, current_database(), ''),
                  ('30 seconds', 'SELECT 1', NULL, true, current_database(), '/tmp'),
                  ('@reboot', 'SELECT 1', 'ip/boot', true, current_database(), 'localhost'),
                  ('0 9 * * *', 'SELEC 1', 'ip/wrong', true, current_database(), 'localhost'),
                  ('0 9 * * *', 'SELECT 1', 'ip/there', true, 'elsewhere', 'localhost'),
                  ('0 9 * * *', 'SELECT 1', 'ip/far', true, current_database(), '10.0.0.1'),
                  ('@reboot', 'SELECT 1', 'ip/boot there', true, 'elsewhere', 'localhost'),
                  ('0 9 * * *', 'SELECT 1', 'ip/port', true, current_database(), 'localhost')",
            "UPDATE ip_v.job SET nodeport = nodeport + 1 WHERE jobname = 'ip/port'",
        ]);
        let expected = "1|ip/vacuum|imported\n2|ip/two|imported\n3|job 3|imported\n4||unsupported\n5||unsupported\n6||elsewhere\n7||elsewhere\n8||elsewhere\n9||elsewhere";
        assert_eq!(import("ip_v", ", dry_run => true"), expected);
        check("SELECT count(*) FROM sched.imported WHERE source_schema = 'ip_v'", "0");
        assert_eq!(import("ip_v", ""), expected);
        check(
            "SELECT s.schedule_name, s.clock, s.time_zone, s.ownership, s.enabled, s.overlap, j.kind, j.command, j.own_transactions, j.max_attempts, j.owner = current_user::regrole
               FROM sched.schedule s JOIN sched.job j USING (job_name) JOIN sched.imported i USING (schedule_id) WHERE i.source_schema = 'ip_v' ORDER BY i.source_id",
            "ip/vacuum|*/10 * * * *|GMT|external|t|buffer_one|sql|VACUUM|t|1|t\n\
             ip/two|30 9 13 * 5|GMT|external|f|buffer_one|sql|SELECT 1; SELECT 2|f|1|t\n\
             job 3|every 30 seconds after start|GMT|external|t|buffer_one|sql|SELECT 1|t|1|t",
        );
        // Nothing of it fires.
        dispatch(0);
        // The reasons.
        check(
            "SELECT source_id, note FROM sched.import_from('pg_cron', 'ip_v') WHERE note IS NOT NULL AND source_id <> '9'",
            "4|schedule \"@reboot\": nothing here is run when the server starts\n\
             5|its command cannot be run here: syntax error at or near \"SELEC\" at line 1, column 1 of command\n\
             6|it is run in database \"elsewhere\". There, as role \"postgres\", run: SELECT sched.schedule_sql('ip/there', '0 9 * * *', 'SELECT 1', time_zone => 'GMT', overlap => 'buffer_one', own_transactions => true, enabled => false). Then here: SELECT cron.alter_job(6, active => false). Then there: SELECT sched.resume('ip/there')\n\
             7|it is run on the server at \"10.0.0.1\"\n\
             8|it is run in database \"elsewhere\", and could be no schedule there: schedule \"@reboot\": nothing here is run when the server starts",
        );
        check(
            "SELECT note = format('it is run on the server at \"localhost\" port %s', current_setting('port')::int + 1) FROM sched.import_from('pg_cron', 'ip_v', only_ids => '{9}')",
            "t",
        );
    }

    #[pg_test]
    fn a_second_call_is_a_comparison() {
        table("ip_s");
        run(&[
            "INSERT INTO ip_s.job (schedule, command, jobname) VALUES ('0 9 * * *', 'SELECT 1', 'ip_s/a'), ('0 9 * * *', 'SELECT 1', 'ip_s/b'), ('0 9 * * *', 'SELECT 1', 'ip_s/c')",
        ]);
        assert_eq!(import("ip_s", ""), "1|ip_s/a|imported\n2|ip_s/b|imported\n3|ip_s/c|imported");
        let versions = || {
            sql("SELECT string_agg(version::text, ' ' ORDER BY schedule_name) FROM sched.schedule WHERE schedule_name LIKE 'ip_s/%'")
        };
        let before = versions();
        assert_eq!(import("ip_s", ""), "1|ip_s/a|same\n2|ip_s/b|same\n3|ip_s/c|same");
        assert_eq!(versions(), before);
        run(&[
            "UPDATE ip_s.job SET schedule = '5 9 * * *', command = 'SELECT 2; SELECT 3', active = false WHERE jobid = 1",
            "UPDATE ip_s.job SET schedule = '@reboot' WHERE jobid = 2",
            "DELETE FROM ip_s.job WHERE jobid = 3",
            "INSERT INTO ip_s.job (schedule, command, jobname) VALUES ('0 9 * * *', 'SELECT 4', 'ip_s/d')",
            // What we call it is ours.
            "SELECT sched.alter_schedule('ip_s/a', new_name => 'ip_s/renamed')",
        ]);
        let expected = "1|ip_s/renamed|changed\n2|ip_s/b|unsupported\n4|ip_s/d|imported\n3|ip_s/c|removed";
        assert_eq!(import("ip_s", ", dry_run => true"), expected);
        assert_eq!(import("ip_s", ""), expected);
        check(
            "SELECT s.clock, s.enabled, s.ownership, j.command, j.own_transactions FROM sched.schedule s JOIN sched.job j USING (job_name) WHERE s.schedule_name = 'ip_s/renamed'",
            "5 9 * * *|f|external|SELECT 2; SELECT 3|f",
        );
        assert_eq!(import("ip_s", ""), "1|ip_s/renamed|same\n2|ip_s/b|unsupported\n4|ip_s/d|same\n3|ip_s/c|removed");
        // What was dropped here is new again.
        run(&["SELECT sched.drop_schedule('ip_s/d'), sched.drop_job('ip_s/d')"]);
        assert_eq!(import("ip_s", ", only_ids => '{4,3}'"), "4|ip_s/d|imported\n3|ip_s/c|removed");
    }

    #[pg_test]
    fn names_are_theirs_and_never_taken_from_others() {
        table("ip_n");
        run(&[
            "SELECT sched.define_job('ip_n/mine')",
            "INSERT INTO ip_n.job (schedule, command, jobname) VALUES ('0 9 * * *', 'SELECT 1', 'twice'), ('0 9 * * *', 'SELECT 1', 'twice'), ('0 9 * * *', 'SELECT 1', 'mine'),
                    ('0 9 * * *', 'SELECT 1', NULL)",
        ]);
        assert_eq!(
            import("ip_n", ", prefix => 'ip_n/'"),
            "1|ip_n/twice (1)|imported\n2|ip_n/twice (2)|imported\n3|ip_n/mine|unsupported\n4|ip_n/job 4|imported"
        );
        check("SELECT count(*) FROM sched.job WHERE job_name LIKE 'ip_n/%'", "4");
    }

    #[pg_test]
    fn the_zone_is_that_of_the_setting() {
        table("ip_z");
        run(&[
            "SET LOCAL \"cron.timezone\" = 'Europe/Berlin'",
            "INSERT INTO ip_z.job (schedule, command, jobname) VALUES ('30 9 * * *', 'SELECT 1', 'ip_z/nine'), ('30 2 * * *', 'SELECT 1', 'ip_z/night'), ('30 9 $ * *', 'SELECT 1', 'ip_z/last')",
        ]);
        assert_eq!(import("ip_z", ""), "1|ip_z/nine|imported\n2||unsupported\n3||unsupported");
        check("SELECT time_zone FROM sched.schedule WHERE schedule_name = 'ip_z/nine'", "Europe/Berlin");
        // Another zone is an edit of all of them.
        run(&["SET LOCAL \"cron.timezone\" = 'UTC'", "SET LOCAL \"cron.match_dom_and_dow\" = 'on'"]);
        assert_eq!(import("ip_z", ""), "1|ip_z/nine|changed\n2|ip_z/night|imported\n3|ip_z/last|imported");
        check("SELECT clock FROM sched.schedule WHERE schedule_name = 'ip_z/last'", "30 9 L * *");
    }

    #[pg_test]
    fn nobody_else_can_have_planted_the_tables() {
        granting();
        table("ip_p");
        run(&[
            "CREATE ROLE \"ip planter\"",
            "INSERT INTO ip_p.job (schedule, command, username) VALUES ('* * * * *', 'SELECT 1', current_user)",
        ]);
        refused("SELECT * FROM sched.import_from('pg_corn')", "22023");
        let missing = refused("SELECT * FROM sched.import_from('pg_cron', 'ip_nowhere')", "42P01");
        assert!(missing.hint.contains("ip_nowhere"), "{}", missing.hint);
        fails("SELECT * FROM sched.import_from(NULL)", "22004");
        run(&["ALTER TABLE ip_p.job OWNER TO \"ip planter\""]);
        refused("SELECT * FROM sched.import_from('pg_cron', 'ip_p')", "42501");
        // A view would run what it says as whoever imports.
        run(&[
            "CREATE SCHEMA ip_view",
            "CREATE FUNCTION ip_view.trap() RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''the trap''; END'",
            "CREATE VIEW ip_view.job AS SELECT 1 AS jobid, '* * * * *' AS schedule, ip_view.trap() AS command, '' AS nodename, '' AS database, '' AS username",
        ]);
        refused("SELECT * FROM sched.import_from('pg_cron', 'ip_view')", "42501");
        check("SELECT count(*) FROM sched.imported WHERE source_schema LIKE 'ip\\_%'", "0");
    }

    #[pg_test]
    fn a_plain_role_imports_what_is_its_own() {
        granting();
        table("ip_o");
        run(&[
            "CREATE ROLE ip_one",
            "CREATE ROLE ip_two",
            "SELECT sched.grant_use('ip_one'), sched.grant_use('ip_two')",
            "INSERT INTO ip_o.job (schedule, command, jobname, username) VALUES ('0 9 * * *', 'SELECT 1', 'ip_o/one', 'ip_one'), ('0 9 * * *', 'SELECT 1', 'ip_o/two', 'ip_two'),
                    ('0 9 * * *', 'SELECT 1', 'ip_o/gone', 'ip_nobody')",
            "SET LOCAL ROLE ip_one",
        ]);
        assert_eq!(import("ip_o", ""), "1|ip_o/one|imported");
        assert_eq!(import("ip_o", ""), "1|ip_o/one|same");
        run(&["RESET ROLE"]);
        assert_eq!(import("ip_o", ""), "1|ip_o/one|same\n2|ip_o/two|imported\n3||unsupported");
        check(
            "SELECT j.job_name, j.owner FROM sched.job j WHERE j.job_name LIKE 'ip_o/%' ORDER BY 1",
            "ip_o/one|ip_one\nip_o/two|ip_two",
        );
        run(&["DELETE FROM ip_o.job", "SET LOCAL ROLE ip_two"]);
        assert_eq!(import("ip_o", ""), "2|ip_o/two|removed");
        run(&["RESET ROLE"]);
        assert!(attempt("SET LOCAL ROLE ip_one; SELECT * FROM sched.imported")
            .is_some_and(|refusal| refusal.sqlstate == "42501"));
    }
}
