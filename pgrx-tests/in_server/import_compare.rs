//! compare('pg_cron'): what our clocks say beside what pg_cron has written down, on tables as pg_cron's own.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, fails, granting, refused, run};

    /// pg_cron's tables in a schema of the test's own, with two jobs that are imported.
    fn imported(schema: &str, owners: [&str; 2]) {
        run(&[
            &format!("CREATE SCHEMA {schema}"),
            &format!("GRANT USAGE ON SCHEMA {schema} TO PUBLIC"),
            &format!("CREATE TABLE {schema}.job (jobid bigint, schedule text, command text, nodename text, nodeport int, database text, username text, jobname text)"),
            &format!("CREATE TABLE {schema}.job_run_details (jobid bigint, runid bigserial, start_time timestamptz, end_time timestamptz)"),
            &format!("GRANT SELECT ON {schema}.job, {schema}.job_run_details TO PUBLIC"),
            &format!(
                "INSERT INTO {schema}.job VALUES (1, '*/10 * * * *', 'SELECT 1', 'localhost', current_setting('port')::int, current_database(), '{}', '{schema}/ten'),
                                                 (2, '30 seconds', 'SELECT 1', 'localhost', current_setting('port')::int, current_database(), '{}', '{schema}/interval')",
                owners[0], owners[1]
            ),
            &format!("SELECT sched.import_from('pg_cron', '{schema}')"),
        ]);
    }

    fn ran(schema: &str, job: i32, times: &[&str]) {
        for time in times {
            run(&[&format!("INSERT INTO {schema}.job_run_details (jobid, start_time, end_time) VALUES ({job}, '2026-05-01 {time}+00', timestamptz '2026-05-01 {time}+00' + interval '1 second')")]);
        }
    }

    fn compared(from: &str, to: &str, more: &str) -> String {
        format!(
            "SELECT schedule_name, to_char(plan_time AT TIME ZONE 'UTC', 'HH24:MI:SS'), verdict, to_char(ours_at AT TIME ZONE 'UTC', 'HH24:MI:SS'), to_char(theirs_at AT TIME ZONE 'UTC', 'HH24:MI:SS'), note
               FROM sched.compare('pg_cron', '2026-05-01 {from}+00', '2026-05-01 {to}+00'{more}) WHERE schedule_name LIKE 'ic%'"
        )
    }

    #[pg_test]
    fn each_plan_time_and_each_run_has_a_line() {
        imported("ic_l", ["postgres", "postgres"]);
        check(&compared("00:00", "12:00", ""), "");
        ran("ic_l", 1, &["08:00:00.1", "08:10:00.2", "08:32:30", "08:35", "08:40:59"]);
        ran("ic_l", 2, &["08:00:00", "08:00:30.2", "08:02:00"]);
        let lines = "ic_l/interval|08:00:30|both|08:00:30|08:00:30|\n\
             ic_l/interval|08:01:00|late|08:01:00|08:02:00|they ran it 59 seconds later\n\
             ic_l/ten|08:00:00|both|08:00:00|08:00:00|\n\
             ic_l/ten|08:10:00|both|08:10:00|08:10:00|\n\
             ic_l/ten|08:20:00|only_here|08:20:00||they have no run of it\n\
             ic_l/ten|08:30:00|late|08:30:00|08:32:30|they ran it 150 seconds later\n\
             ic_l/ten|08:35:00|only_there||08:35:00|no plan time of ours is for it\n\
             ic_l/ten|08:40:00|both|08:40:00|08:40:59|";
        check(&compared("00:00", "12:00", ", tolerance => '59 seconds'"), lines);
        // A part of it, with what lies around it in mind.
        check(
            &compared("08:31", "08:41", ""),
            "ic_l/ten|08:35:00|only_there||08:35:00|no plan time of ours is for it\nic_l/ten|08:40:00|both|08:40:00|08:40:59|",
        );
        check(&compared("08:42", "12:00", ""), "");
    }

    #[pg_test]
    fn what_is_asked_for_has_to_make_sense() {
        imported("ic_e", ["postgres", "postgres"]);
        refused("SELECT * FROM sched.compare('cron', '2026-05-01', '2026-05-02')", "22023");
        refused("SELECT * FROM sched.compare('pg_cron', '2026-05-02', '2026-05-01')", "22023");
        refused("SELECT * FROM sched.compare('pg_cron', '2026-05-01', 'infinity')", "22008");
        refused("SELECT * FROM sched.compare('pg_cron', '2026-05-01', '2026-05-02', '-1 second')", "22023");
        refused("SELECT * FROM sched.compare('pg_cron', '2026-05-01', '2026-05-02', '1 month')", "22023");
        fails("SELECT * FROM sched.compare('pg_cron', NULL, '2026-05-02')", "22004");
        run(&["DROP TABLE ic_e.job_run_details"]);
        refused("SELECT * FROM sched.compare('pg_cron', '2026-05-01', '2026-05-02')", "42P01");
        run(&[
            "CREATE VIEW ic_e.job_run_details AS SELECT 1 AS jobid, 1 AS runid, now() AS start_time, now() AS end_time",
        ]);
        refused("SELECT * FROM sched.compare('pg_cron', '2026-05-01', '2026-05-02')", "42501");
    }

    #[pg_test]
    fn a_plain_role_compares_what_is_its_own() {
        granting();
        run(&["CREATE ROLE ic_one", "CREATE ROLE ic_two", "SELECT sched.grant_use('ic_one')"]);
        imported("ic_o", ["ic_one", "ic_two"]);
        ran("ic_o", 1, &["08:00:00", "08:10:00"]);
        ran("ic_o", 2, &["08:00:00", "08:00:30"]);
        run(&["SET LOCAL ROLE ic_one"]);
        check(
            "SELECT DISTINCT schedule_name, verdict FROM sched.compare('pg_cron', '2026-05-01 00:00+00', '2026-05-02 00:00+00')",
            "ic_o/ten|both",
        );
        run(&["RESET ROLE"]);
    }
}
