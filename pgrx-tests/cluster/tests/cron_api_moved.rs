//! `scheduler_cron` where jobs of the real pg_cron were taken over before: they are its jobs now.

use crate::take_over::state;
use scheduler_cluster_tests::pg_cron;
use scheduler_cluster_tests::scheduler::one;

const JOBS: &str = "select string_agg(concat_ws('|', jobid, jobname, schedule, command, username, active), E'\n' order by jobid) from cron.job";
const SCHEDULES: &str = "select string_agg(concat_ws('|', schedule_name, clock, ownership, enabled), E'\n' order by schedule_name) from sched.schedules";

#[test]
fn a_job_that_was_moved_is_found_by_its_name() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "create role app login; grant usage on schema cron to app; grant execute on all functions in schema cron to app;
         select cron.schedule('two', '0 3 * * *', 'select 2'), cron.schedule('0 4 * * *', 'select 4'), cron.schedule('off', '0 5 * * *', 'select 5'), cron.schedule('left', '0 6 * * *', 'select 6');
         select cron.alter_job(3, active => false);
         set role app; select cron.schedule('two', '0 7 * * *', 'select 7'); reset role;
         select sched.import_from('pg_cron', prefix => 'old ');
         select sched.take_over('pg_cron', (select array_agg(schedule_name) from sched.schedules where schedule_name <> 'old left'), true);
         select sched.alter_schedule('old off', new_name => 'renamed');
         drop extension pg_cron; create extension scheduler_cron",
    )
    .unwrap();
    // They are there, with the numbers that they had.
    let moved = "1|two|0 3 * * *|select 2|postgres|t\n2|0 4 * * *|select 4|postgres|t\n3|off|0 5 * * *|select 5|postgres|f\n4|left|0 6 * * *|select 6|postgres|f\n5|two|0 7 * * *|select 7|app|t";
    assert_eq!(one::<String>(&mut db, JOBS), moved);
    // The migration once more.
    db.batch_execute("grant usage on schema cron to app").unwrap();
    assert_eq!(one::<i64>(&mut db, "select cron.schedule('two', '10 3 * * *', 'select 22')"), 1);
    assert_eq!(one::<i64>(&mut db, "select cron.schedule('left', '0 6 * * *', 'select 6')"), 4);
    assert_eq!(one::<i64>(&mut db, "select cron.schedule('off', '0 5 * * *', 'select 5')"), 3);
    let mut app = cluster.connect_as("app", "postgres");
    assert_eq!(one::<i64>(&mut app, "select cron.schedule('two', '0 7 * * *', 'select 77')"), 5);
    let jobs = "1|two|10 3 * * *|select 22|postgres|t\n2|0 4 * * *|select 4|postgres|t\n3|off|0 5 * * *|select 5|postgres|f\n4|left|0 6 * * *|select 6|postgres|t\n5|two|0 7 * * *|select 77|app|t";
    assert_eq!(one::<String>(&mut db, JOBS), jobs);
    let schedules = "old job 2|0 4 * * *|owned|t\nold left|0 6 * * *|owned|t\nold two (1)|10 3 * * *|owned|t\nold two (5)|0 7 * * *|owned|t\nrenamed|0 5 * * *|owned|f";
    assert_eq!(one::<String>(&mut db, SCHEDULES), schedules);
    // A new one has a number of its own; each call has drawn one.
    assert_eq!(one::<i64>(&mut db, "select cron.schedule('new', '0 9 * * *', 'select 9')"), 10);
    db.batch_execute("select cron.unschedule('left'), cron.unschedule(2)").unwrap();
    assert_eq!(state(app.batch_execute("select cron.unschedule('off')")), "XX000");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules"), 4);
}

/// Imported from a copy of its tables, when `scheduler_cron` was there already; and by an older release, which did not write down the name.
#[test]
fn what_is_imported_later_is_found_as_well() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = cluster.connect();
    db.batch_execute(
        "create extension scheduler_cron cascade; create role app login; grant usage on schema cron to app; create schema old;
         create table old.job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
         create table old.job_run_details (jobid bigint, runid bigint, start_time timestamptz, end_time timestamptz);
         insert into old.job select i, '0 3 * * *', 'select ' || i, 'localhost', current_setting('port')::int, 'postgres', r, true, 'job of ' || i
           from (values (1, 'postgres'), (2, 'app'), (3, 'postgres'), (4, 'postgres')) j (i, r);
         select cron.schedule('job of 4', '0 4 * * *', 'select 44');
         select sched.import_from('pg_cron', 'old', only_ids => '{1,2,3}'); update sched.imported set source_name = null where source_id = '3'",
    )
    .unwrap();
    let first = "1|job of 4|0 4 * * *|select 44|postgres|t";
    assert_eq!(one::<String>(&mut db, JOBS), first);
    // Nobody takes another's.
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("begin; select cron.schedule('job of 1', '0 5 * * *', 'select 5')").unwrap();
    db.batch_execute("set lock_timeout = '5s'; select cron.schedule('job of 1', '0 6 * * *', 'select 6'), cron.unschedule('job of 3')").unwrap();
    app.batch_execute("commit").unwrap();
    let jobs = "select string_agg(concat_ws('|', jobname, schedule, command, username, active), E'\n' order by username, jobname) from cron.job";
    assert_eq!(
        one::<String>(&mut db, jobs),
        "job of 1|0 5 * * *|select 5|app|t\njob of 1|0 6 * * *|select 6|postgres|t\njob of 4|0 4 * * *|select 44|postgres|t"
    );
    app.batch_execute("select cron.unschedule('job of 2')").unwrap();
    let left = "select string_agg(schedule_name, ', ' order by schedule_name) from sched.schedules";
    assert_eq!(one::<String>(&mut db, left), "job of 1, job of 1 of app, job of 4");
}

/// A role that names another one makes no row of that one's, so an open call of it keeps nobody waiting.
#[test]
fn an_open_call_for_another_role_keeps_nobody_waiting() {
    let cluster = scheduler_cluster_tests::Cluster::new();
    let mut db = cluster.connect();
    db.batch_execute(
        "create extension scheduler_cron cascade; create role a login; create role b login; grant usage on schema cron to a, b; create schema old;
         create table old.job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
         create table old.job_run_details (jobid bigint, runid bigint, start_time timestamptz, end_time timestamptz);
         insert into old.job values (1, '0 3 * * *', 'select 1', 'localhost', current_setting('port')::int, 'postgres', 'b', true, 'nightly');
         select sched.import_from('pg_cron', 'old'); set role a; select cron.schedule('own', '0 4 * * *', 'select 4'); reset role",
    )
    .unwrap();
    let mut a = cluster.connect_as("a", "postgres");
    let id: i64 = one(&mut a, "select jobid from cron.job where jobname = 'own'");
    let mut open = a.transaction().unwrap();
    open.batch_execute(&format!("insert into cron_internal.call (action, id, jobname, username) values ('cron.unschedule(bigint)', {id}, 'nightly', 'b')"))
        .unwrap();
    let mut b = cluster.connect_as("b", "postgres");
    b.batch_execute("set statement_timeout = '5s'; select cron.schedule('nightly', '6 6 * * *', 'select 2')").unwrap();
    open.rollback().unwrap();
    assert_eq!(one::<i64>(&mut b, "select count(*) from cron.job where jobname = 'nightly'"), 1);
}

/// What is edited there after a take_over is nothing here until the next import, and `compare` does not show it.
#[test]
fn an_edit_there_after_a_take_over_waits_for_an_import() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule('a', '0 3 * * *', 'select 1'); select sched.import_from('pg_cron'); select sched.take_over('pg_cron', force => true);
         select cron.alter_job(1, schedule => '0 4 * * *', command => 'select 2')",
    )
    .unwrap();
    let here =
        "select clock || ' ' || command || ' ' || ownership from sched.schedules join sched.job using (job_name)";
    assert_eq!(one::<String>(&mut db, here), "0 3 * * * select 1 owned");
    let compared = "select count(*) from sched.compare('pg_cron', now() - interval '1 hour', now())";
    assert_eq!(one::<i64>(&mut db, compared), 0);
    assert_eq!(one::<String>(&mut db, "select verdict from sched.import_from('pg_cron')"), "changed");
    assert_eq!(one::<String>(&mut db, here), "0 4 * * * select 2 owned");
}
