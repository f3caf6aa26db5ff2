//! What files that know pg_cron's tables and settings meet: views, and answers where one is true.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{wait_until, Client, Cluster};
use std::process::Command;
use std::time::Duration;

use scheduler_cluster_tests::conn::text;

fn database(cluster: &Cluster) -> Client {
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler_cron cascade").unwrap();
    db
}

/// SQLSTATE and hint.
fn refused(client: &mut Client, statement: &str) -> (String, String) {
    let error = client.batch_execute(statement).expect_err(statement);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
    (error.code().code().to_owned(), error.hint().unwrap_or_default().to_owned())
}

#[test]
fn what_a_view_cannot_do_is_refused_with_what_to_do_instead() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute("select cron.schedule('a', '1 second', 'select 1')").unwrap();
    wait_until("a run", Duration::from_secs(60), || {
        one::<bool>(&mut db, "select exists (select from cron.job_run_details where end_time is not null)")
            .then_some(())
    });
    for (statement, wanted) in [
        ("insert into cron.job_run_details (runid, status) values (7, 'failed')", "in a table of your own"),
        ("update cron.job_run_details set status = 'failed'", "ends by itself"),
        ("insert into cron.job (jobname, schedule, command) values ('a', '0 3 * * *', 'select 2')", "changes the job"),
        (
            "insert into cron.job (schedule, command, nodeport) values ('0 3 * * *', 'select 2', 1)",
            "nodename localhost and nodeport 5432",
        ),
        ("update cron.job set nodename = 'other.example'", "nodename localhost and nodeport 5432"),
        ("update cron.job set database = 'other'", "CREATE EXTENSION scheduler_cron CASCADE"),
        ("update cron.job set jobid = 9", "Schedule the job anew."),
    ] {
        let (_, hint) = refused(&mut db, statement);
        assert!(hint.contains(wanted), "{statement}: {hint}");
    }
    // Where the server refuses it before a trigger is asked, the page says what to write.
    for (statement, code) in [
        ("truncate cron.job_run_details", "42809"),
        ("create index on cron.job_run_details (start_time)", "42809"),
        ("create policy p on cron.job using (true)", "42809"),
        ("alter table cron.job enable row level security", "42809"),
        ("alter table cron.job_run_details set (autovacuum_enabled = off)", "22023"),
        ("create publication p for table cron.job_run_details", "22023"),
        ("copy cron.job to '/dev/null'", "42809"),
        ("delete from cron.job_run_details where ctid = '(0,1)'", "42703"),
        ("insert into cron.job (jobname, schedule, command) values ('a', '0 3 * * *', 'select 2') on conflict (jobname, username) do nothing", "42P10"),
        ("create trigger t after insert on cron.job for each row execute function cron_internal.write_job()", "42809"),
        ("create table t (jobid bigint references cron.job)", "42809"),
        ("comment on table cron.job is 'x'", "42809"),
    ] {
        assert_eq!(refused(&mut db, statement).0, code, "{statement}");
    }
    // What is written instead.
    db.batch_execute(
        "delete from cron.job_run_details where runid in (select runid from cron.job_run_details order by start_time limit 100);
         delete from cron.job_run_details where end_time < now(); copy (select * from cron.job) to '/dev/null';
         comment on view cron.job is 'x'; insert into cron.job (jobname, schedule, command) select 'a', '0 3 * * *', 'select 2'
           where not exists (select from cron.job where jobname = 'a')",
    )
    .unwrap();
}

#[test]
fn settings_of_pg_cron_are_answered_where_an_answer_is_true() {
    let settings = [
        ("cron.database_name", "gone"),
        ("cron.log_run", "off"),
        ("cron.max_running_jobs", "9"),
        ("sched.max_sql_runners", "3"),
        ("cron.host", "far"),
    ];
    let cluster = settings.iter().fold(Cluster::builder(), |builder, (name, value)| builder.set(name, value)).start();
    cluster.execute("create database other");
    for database in ["postgres", "other"] {
        let mut db = cluster.connect_as("postgres", database);
        for (name, value) in [
            ("cron.database_name", database),
            ("cron.timezone", "GMT"),
            ("cron.log_run", "on"),
            ("cron.max_running_jobs", "3"),
            ("cron.enable_superuser_jobs", "on"),
            ("cron.launch_active_jobs", "on"),
        ] {
            assert_eq!(one::<String>(&mut db, &format!("show {name}")), value, "{name}");
            assert_eq!(
                one::<String>(&mut db, &format!("select setting from pg_settings where name = '{name}'")),
                value,
                "{name}"
            );
        }
    }
    assert!(cluster.logged("cron.launch_active_jobs").is_empty());
    // A parallel query takes the settings along.
    let mut db = cluster.connect();
    let name = "set debug_parallel_query = on";
    let parallel = if db.batch_execute(name).is_ok() { name } else { "set force_parallel_mode = on" };
    db.batch_execute(parallel).unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from pg_class where relname = 'pg_class'"), 1);
}

#[test]
fn launch_active_jobs_off_is_said_at_the_start_at_a_reload_and_by_each_call() {
    let cluster = Cluster::builder().set("cron.launch_active_jobs", "off").start();
    let said = || cluster.logged("WARNING:  scheduler: cron.launch_active_jobs = off is not obeyed").len();
    assert_eq!(said(), 1);
    let warned = |statement: &str| {
        let mut psql: Command = cluster.psql("postgres", "postgres");
        let output = psql.args(["-q", "-c", statement]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.is_empty() || said.contains("SET sched.dispatch = off"), "{said}");
        said.contains("WARNING:  cron.launch_active_jobs = off is not obeyed")
    };
    for (statement, warns) in [
        ("create extension scheduler_cron cascade", true),
        ("select cron.schedule('a', '0 3 * * *', 'select 1')", true),
        ("select cron.schedule('0 3 * * *', 'select 1')", true),
        ("select cron.schedule_in_database('b', '0 3 * * *', 'select 1', 'postgres')", true),
        ("select cron.alter_job(1, active => true)", true),
        ("insert into cron.job (schedule, command) values ('0 3 * * *', 'select 1')", true),
        ("update cron.job set active = true", true),
        ("select cron.unschedule('a')", false),
        ("delete from cron.job", false),
    ] {
        assert_eq!(warned(statement), warns, "{statement}");
    }
    // What pg_cron does not run for that reason would run here.
    let mut db = cluster.connect();
    db.batch_execute(
        "create schema old; create table old.job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
         create table old.job_run_details (jobid bigint, runid bigint, start_time timestamptz, end_time timestamptz);
         insert into old.job select 1, '0 3 * * *', 'select 1', 'localhost', 5432, 'postgres', 'postgres', true, 'moved'",
    )
    .unwrap();
    let notes = "select coalesce(string_agg(note, '; '), 'none') from sched.import_from('pg_cron', 'old')";
    assert!(one::<String>(&mut db, notes).contains("cron.launch_active_jobs is off"));
    cluster.set("cron.launch_active_jobs", "on");
    assert_eq!(one::<String>(&mut db, notes), "none");
    assert!(!warned("select cron.schedule('a', '0 3 * * *', 'select 1')"));
    cluster.set("cron.launch_active_jobs", "off");
    wait_until("the warning", Duration::from_secs(60), || (said() == 2).then_some(()));
    assert!(warned("select cron.schedule('a', '0 3 * * *', 'select 1')"));
}
