//! What others can have prepared for who takes over and hands back, and for the dispatchers that look afterwards.

use crate::take_over::state;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};

/// Tables as pg_cron has them, in the current schema.
const TABLES: &str = "create table job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
     create table job_run_details (jobid bigint, runid bigint, job_pid int, status text, start_time timestamptz, end_time timestamptz);";

/// Jobs there, of whoever makes them, that are due once a day.
fn jobs(prefix: &str, count: usize) -> String {
    format!("insert into job select i, '0 3 * * *', 'select 1', 'localhost', 5432, 'postgres', current_user, true, '{prefix} ' || i from generate_series(1, {count}) i;")
}

/// Switches on again what was taken over, past the guard.
const PAST_THE_GUARD: &str = "alter table job disable trigger scheduler_guard; update job set active = true;";

fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role app login; select sched.grant_use('app');
         create schema lair authorization app; grant usage on schema lair to public;
         create table lair.sprung (by text, as_whom text); grant insert on lair.sprung to public;
         create function lair.spring() returns void language sql as $$ insert into lair.sprung values (session_user, current_user) $$",
    )
    .unwrap();
    (cluster, db)
}

const SPRUNG: &str = "select count(*) from lair.sprung";

/// Either can have a new line, which ends a comment.
#[test]
fn names_and_ids_are_no_part_of_a_statement() {
    let (cluster, mut db) = server();
    // A superuser's, with an id as a role could have left it there, whose schema had this name before.
    db.batch_execute(&format!(
        "create schema theirs; set search_path = theirs; {TABLES} {} reset search_path;
         select sched.import_from('pg_cron', 'theirs'); select sched.take_over('pg_cron', force => true);
         update sched.imported set source_id = E'1\nselect lair.spring();--' where source_id = '1';
         create schema \"own\nselect lair.spring();--\" authorization app",
        jobs("theirs", 2)
    ))
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(&format!(
        "set search_path = \"own\nselect lair.spring();--\"; {TABLES} {}
         select sched.import_from('pg_cron', current_schema()::text); select sched.take_over('pg_cron', force => true); {PAST_THE_GUARD}",
        jobs("own", 1)
    ))
    .unwrap();
    db.batch_execute(&format!("set search_path = theirs; {PAST_THE_GUARD}")).unwrap();
    let parked = "select string_agg(schedule_name, ', ' order by schedule_name) = 'own 1, theirs 2' from sched.schedules where state = 'parked'";
    wait_for(&mut db, parked, SOON);
    db.batch_execute("update job set active = false; select sched.hand_back('{theirs 1}')").unwrap();
    app.batch_execute("select sched.hand_back('{own 1}')").unwrap();
    assert_eq!(one::<i64>(&mut db, SPRUNG), 0);
    // What has a text that somebody chooses is no id.
    app.batch_execute("create table \"1\nselect lair.spring();--\" (); alter table job alter jobid type regclass using '\"1\nselect lair.spring();--\"'::regclass").unwrap();
    app.batch_execute("select sched.import_from('pg_cron', current_schema()::text)").unwrap();
    assert_eq!(state(app.batch_execute("select sched.take_over('pg_cron', force => true)")), "42501");
    assert_eq!(one::<i64>(&mut db, SPRUNG), 0);
}
