//! What others can have prepared for who takes over and hands back, and for the dispatchers that look afterwards.

use crate::take_over::state;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::thread;

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
         create sequence lair.sprung; grant usage on sequence lair.sprung to public;
         create function lair.spring() returns bigint language sql as $$ select nextval('lair.sprung') $$",
    )
    .unwrap();
    (cluster, db)
}

/// No rollback takes that back.
const SPRUNG: &str = "select count(*) filter (where is_called) from lair.sprung";

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
    db.batch_execute("update job set active = false").unwrap();
    assert_eq!(state(db.batch_execute("select sched.hand_back('{theirs 1}')")), "55000");
    app.batch_execute("select sched.hand_back('{own 1}')").unwrap();
    assert_eq!(one::<i64>(&mut db, SPRUNG), 0);
    // What has a text that somebody chooses is no id.
    app.batch_execute("create table \"1\nselect lair.spring();--\" (); alter table job alter jobid type regclass using '\"1\nselect lair.spring();--\"'::regclass").unwrap();
    app.batch_execute("select sched.import_from('pg_cron', current_schema()::text)").unwrap();
    assert_eq!(state(app.batch_execute("select sched.take_over('pg_cron', force => true)")), "42501");
    assert_eq!(one::<i64>(&mut db, SPRUNG), 0);
}

/// Who may make triggers of a table has one evaluated by who writes it, also one that comes up after a look.
#[test]
fn no_trigger_of_others_is_run_by_who_switches() {
    let (cluster, mut db) = server();
    db.batch_execute(&format!(
        "create schema cron; grant usage on schema cron to app; set search_path = cron; {TABLES} {}
         alter table job enable row level security; create policy own on job using (username = current_user);
         select sched.import_from('pg_cron'); grant trigger on job to app;
         create function lair.sprung_if(bigint) returns boolean language plpgsql as $$ begin perform lair.spring(); return true; end $$",
        jobs("job", 1)
    ))
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let by_condition = "create trigger planted before update on cron.job for each row when (lair.sprung_if(new.jobid)) execute function suppress_redundant_updates_trigger()";
    let by_function = "create function lair.planted() returns trigger language plpgsql as $$ begin perform lair.spring(); return new; end $$;
         create trigger planted before update on cron.job for each row execute function lair.planted()";
    for call in ["select sched.take_over('pg_cron', force => true)", "select sched.hand_back('{job 1}')"] {
        for trigger in [by_condition, by_function] {
            app.batch_execute(trigger).unwrap();
            assert_eq!(state(db.batch_execute(call)), "42501", "{call} {trigger}");
            db.batch_execute("drop trigger planted on job; drop function if exists lair.planted()").unwrap();
            // It is committed when the caller has looked already.
            app.batch_execute(&format!("begin; {trigger}")).unwrap();
            let mut caller = cluster.connect();
            let calls = thread::spawn(move || state(caller.batch_execute(call)));
            wait_for(&mut db, "select exists (select from pg_locks where not granted)", SOON);
            app.batch_execute("commit").unwrap();
            assert_eq!(calls.join().unwrap(), "42501", "{call} {trigger}");
            db.batch_execute("drop trigger planted on job; drop function if exists lair.planted()").unwrap();
        }
        db.batch_execute(call).unwrap();
    }
    assert_eq!(one::<i64>(&mut db, SPRUNG), 0);
    // A condition of the owner's own is nobody else's, where nobody else may make one.
    db.batch_execute("revoke trigger on job from app; create trigger own before update on job for each row when (old.active is distinct from new.active) execute function suppress_redundant_updates_trigger(); select sched.take_over('pg_cron', force => true)").unwrap();
}

/// A role can have as many tables as it likes: each is looked at in its turn.
#[test]
fn a_role_with_many_tables_keeps_nobody() {
    const SCHEMAS: usize = 200;
    let (cluster, mut db) = server();
    db.batch_execute(&format!(
        "grant create on database postgres to app; create schema cron; set search_path = cron; {TABLES} {}
         select sched.import_from('pg_cron')",
        jobs("theirs", 1)
    ))
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let imported = |name: &str| {
        let rows = jobs(name, 1);
        format!("create schema \"{name}\"; set search_path = \"{name}\"; {TABLES} {rows} select sched.import_from('pg_cron', '{name}');")
    };
    app.batch_execute(&imported("own")).unwrap();
    // Whoever asks for nobody's by name is not refused because of others'.
    let taken =
        "select string_agg(schedule_name, ', ') from sched.take_over('pg_cron', $1::text::text[], force => true)";
    let all: Option<&str> = None;
    assert_eq!(db.query_one(taken, &[&all]).unwrap().get::<_, String>(0), "theirs 1");
    assert_eq!(state(db.query_one(taken, &[&Some("{own 1}")])), "42501");
    assert_eq!(app.query_one(taken, &[&all]).unwrap().get::<_, String>(0), "own 1");
    for number in 2..=SCHEMAS {
        let name = format!("own {number}");
        app.batch_execute(&imported(&name)).unwrap();
        app.batch_execute(&format!(
            "select sched.take_over('pg_cron', '{{{name} 1}}', force => true); {PAST_THE_GUARD}"
        ))
        .unwrap();
    }
    app.batch_execute(&format!("set search_path = own; {PAST_THE_GUARD}")).unwrap();
    let parked = format!("select count(*) = {SCHEMAS} from sched.schedules where state = 'parked'");
    wait_for(&mut db, &parked, SOON * 2);
    db.batch_execute(PAST_THE_GUARD).unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'theirs 1'", SOON);
}

/// What is remembered of a table goes by its name: another role's table of that name is another one.
#[test]
fn a_table_that_has_gone_keeps_nobody() {
    let (cluster, mut db) = server();
    db.batch_execute("create role alice login; select sched.grant_use('alice'); create schema shared; grant usage, create on schema shared to app, alice").unwrap();
    let [mut alice, mut app] = ["alice", "app"].map(|role| cluster.connect_as(role, "postgres"));
    alice
        .batch_execute(&format!(
            "set search_path = shared; {TABLES} {} select sched.import_from('pg_cron', 'shared'); select sched.take_over('pg_cron', force => true); drop table job, job_run_details",
            jobs("alice", 3)
        ))
        .unwrap();
    app.batch_execute(&format!("set search_path = shared; {TABLES} {}", jobs("app", 2))).unwrap();
    let verdicts = "select string_agg(concat_ws(' ', source_id, schedule_name, verdict), ', ') from sched.import_from('pg_cron', 'shared')";
    assert_eq!(one::<String>(&mut app, verdicts), "1 app 1 imported, 2 app 2 imported");
    assert_eq!(one::<String>(&mut app, verdicts), "1 app 1 same, 2 app 2 same");
    app.batch_execute("select sched.take_over('pg_cron', '{app 1}', force => true)").unwrap();
    // Its guard keeps what is taken over, and nothing else.
    app.batch_execute("insert into job select 3, schedule, command, nodename, nodeport, database, username, true, 'app 3' from job where jobid = 2").unwrap();
    assert_eq!(state(app.batch_execute("update job set active = true where jobid = 1")), "55006");
    app.batch_execute("update job set active = true where jobid = 3; select sched.hand_back('{app 1}')").unwrap();
}
