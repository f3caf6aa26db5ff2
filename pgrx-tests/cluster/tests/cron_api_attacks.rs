//! `scheduler_cron` under those who want more than their own: what a snapshot hides, an owner that changes meanwhile, rights of whole schemas,
//! settings of the session.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{refused, wait_for, Client, Cluster};
use std::thread;

fn database(cluster: &Cluster) -> Client {
    let mut db = cluster.connect();
    db.batch_execute(
        "create extension scheduler_cron cascade; create role app login; create role other login;
         grant usage on schema cron to app, other; select sched.grant_use('app')",
    )
    .unwrap();
    db
}

const JOBS: &str = "select coalesce(string_agg(concat_ws(' ', username, jobname, command, active), ', ' order by jobid), '') from cron.job";

/// The right to write everywhere is none to say who calls.
#[test]
fn the_caller_is_who_calls() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute("grant pg_write_all_data to app; select cron.schedule('a', '0 3 * * *', 'select 1')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let columns = "action, id, jobname, schedule, command, database, username, active, nodename, nodeport, caller";
    for action in ["cron.alter_job(bigint,text,text,text,text,boolean)", "UPDATE", "DELETE"] {
        let call = format!(
            "insert into cron_internal.call ({columns})
             select '{action}', 1, 'a', '0 3 * * *', 'select 2', 'postgres', 'postgres', false, 'localhost', current_setting('port')::integer, 10"
        );
        // (What is another's is as if it were not there to UPDATE and DELETE.)
        let _refused_or_nothing = app.batch_execute(&call);
        assert_eq!(one::<String>(&mut db, JOBS), "postgres a select 1 t", "{action}");
    }
    let schedule = format!(
        "insert into cron_internal.call ({columns}) select 'cron.schedule(text,text,text)', null, 'b', '0 3 * * *', 'select 2', null, null, true, null, null, 10"
    );
    app.batch_execute(&schedule).unwrap();
    assert_eq!(one::<String>(&mut db, JOBS), "postgres a select 1 t, app b select 2 t", "it is the caller's own");
    // Who loses USAGE gets no further by the back door.
    db.batch_execute("revoke pg_write_all_data from app; revoke usage on schema cron from app").unwrap();
    let call = "insert into cron_internal.call (action, schedule, command) values ('cron.schedule(text,text)', '@daily', 'select 3')";
    assert_eq!(refused(&mut app, call), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// A name that somebody has taken since a transaction looked is not taken from him.
#[test]
fn what_a_snapshot_hides_is_not_taken_over() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let mut other = cluster.connect_as("other", "postgres");
    for level in ["repeatable read", "serializable"] {
        other.batch_execute(&format!("begin isolation level {level}; select 1")).unwrap();
        one::<i64>(&mut other, "select count(*) from cron.job");
        db.batch_execute("select sched.schedule_sql('a', '@daily', 'select ''of postgres''')").unwrap();
        let _another_name_or_an_error = other.batch_execute("select cron.schedule('a', '@hourly', 'select 2')");
        other.batch_execute("rollback").unwrap();
        let job = "select owner::text || ' ' || command from sched.jobs where job_name = 'a'";
        assert_eq!(one::<String>(&mut db, job), "postgres select 'of postgres'");
        other.batch_execute("select cron.schedule('a', '@hourly', 'select 2')").unwrap();
        let both = "select string_agg(owner || ' ' || job_name, ', ' order by job_name) from sched.jobs";
        assert_eq!(one::<String>(&mut db, both), "postgres a, other a of other");
        db.batch_execute("select sched.unschedule('a')").unwrap();
        other.batch_execute("select cron.unschedule('a')").unwrap();
    }
}

/// Whose job it is is asked when nobody can change it any more.
#[test]
fn an_owner_of_before_changes_nothing() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute("grant update, delete on cron.job to app; grant execute on all functions in schema cron to app")
        .unwrap();
    let statements = [
        "select cron.alter_job($, command => 'select 2')",
        "select cron.unschedule($)",
        "select cron.unschedule('a')",
        "select cron.schedule('a', '@hourly', 'select 2')",
        "update cron.job set command = 'select 2' where jobid = $",
        "delete from cron.job where jobid = $",
    ];
    for statement in statements {
        db.batch_execute("delete from cron.job").unwrap();
        let mut app = cluster.connect_as("app", "postgres");
        let id: i64 = one(&mut app, "select cron.schedule('a', '@daily', 'select 1')");
        db.batch_execute(&format!("begin; select cron.alter_job({id}, username => 'postgres')")).unwrap();
        let pid: i32 = one(&mut app, "select pg_backend_pid()");
        let call = statement.replace('$', &id.to_string());
        let caller = thread::spawn(move || {
            let _whatever_it_says = app.batch_execute(&call);
        });
        let mut look = cluster.connect();
        // One that DELETE gives the right to unschedule by number is not kept from it; all others wait and then find somebody else's.
        wait_for(&mut look, &format!("select exists (select from pg_locks where pid = {pid} and not granted)"), SOON);
        db.batch_execute("commit").unwrap();
        caller.join().unwrap();
        let of_postgres = "select coalesce(string_agg(command, ''), 'gone') from cron.job where username = 'postgres'";
        let expected = if statement == "select cron.unschedule($)" { "gone" } else { "select 1" };
        assert_eq!(one::<String>(&mut look, of_postgres), expected, "{statement}");
    }
}

/// Who had it run before it was another's reads no command of theirs, nor hides their runs.
#[test]
fn runs_of_before_tell_no_command_of_now() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let mut app = cluster.connect_as("app", "postgres");
    let id: i64 = one(&mut app, "select cron.schedule('a', '1 second', 'select 1')");
    let ended = |who: &str| {
        format!("select exists (select from cron.job_run_details where username = '{who}' and status = 'succeeded')")
    };
    wait_for(&mut app, &ended("app"), SOON);
    db.batch_execute(&format!("select cron.alter_job({id}, username => 'postgres', command => 'select ''secret''')"))
        .unwrap();
    wait_for(&mut db, &ended("postgres"), SOON);
    let commands = "select coalesce(string_agg(distinct command, ', '), '') from cron.job_run_details";
    assert_eq!(one::<String>(&mut app, commands), "");
    assert!(one::<i64>(&mut app, "select count(*) from cron.job_run_details") > 0, "its own runs are its own");
    db.batch_execute("select cron.unschedule('a')").unwrap();
    assert_eq!(one::<String>(&mut app, commands), "");
    assert_eq!(one::<String>(&mut db, commands), "select 'secret'");

    let kept = one::<i64>(&mut db, "select count(*) from cron.job_run_details where username = 'postgres'");
    let runs: Vec<i64> =
        db.query("select runid from cron.job_run_details", &[]).unwrap().iter().map(|row| row.get(0)).collect();
    for run in runs {
        for role in ["app", "postgres"] {
            app.batch_execute(&format!(
                "insert into cron_internal.call (action, id, username) values ('DELETE RUN', {run}, '{role}')"
            ))
            .unwrap();
        }
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job_run_details where username = 'postgres'"), kept);
    assert_eq!(one::<i64>(&mut app, "select count(*) from cron.job_run_details"), 0);
}

/// Rights on all of the schema cron are what dashboards get. They are none on what calls go through.
#[test]
fn rights_on_the_whole_schema_are_no_right_to_act_for_others() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute(
        "grant all on all tables in schema cron to app; grant all on all functions in schema cron to app;
         grant all on schema cron to app; select cron.schedule('a', '0 3 * * *', 'select 1')",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("create function cron.own() returns trigger language plpgsql as 'begin return new; end'")
        .unwrap();
    for statement in [
        "create trigger a instead of insert on cron_internal.call for each row execute function cron.own()",
        "create rule r as on insert to cron_internal.call do instead nothing",
        "create function cron_internal.mine() returns int language sql as 'select 1'",
        "select cron_internal.lock_job(1, null)",
        "select cron_internal.unschedule(row(1, 'a', 'a', 10, '', '', '', 1, true, 'a'))",
        "select sched_internal.create_sql_job('x', '@daily', 'select 1', 'UTC', 10, true)",
        "select cron.alter_job(1, username => 'app')",
        "select cron.schedule_in_database('x', '@daily', 'select 1', 'postgres', 'postgres')",
    ] {
        let code = refused(&mut app, statement);
        let allowed = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::INTERNAL_ERROR];
        assert!(allowed.contains(&code), "{statement}: {code:?}");
    }
    assert_eq!(app.execute("update cron.job set command = 'select 2'", &[]).unwrap(), 0);
    assert_eq!(one::<String>(&mut db, JOBS), "postgres a select 1 t");
}

/// Two sessions that schedule one name have one job, whichever way they come.
#[test]
fn one_name_is_one_job_of_a_role() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    for round in 0..10 {
        thread::scope(|scope| {
            for session in 0..4 {
                let cluster = &cluster;
                scope.spawn(move || {
                    let mut app = cluster.connect_as("app", "postgres");
                    app.batch_execute(&format!("select cron.schedule('round {round}', '@daily', 'select {session}')"))
                        .unwrap();
                });
            }
        });
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job"), 10);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedule"), 10);
    // A role that was dropped, or whose jobs went to another: names stay apart.
    db.batch_execute("update sched.job set owner = 'other'").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("select cron.schedule('round 1', '@daily', 'select 7')").unwrap();
    let mut other = cluster.connect_as("other", "postgres");
    other
        .batch_execute(
            "select cron.schedule('round 1', '@daily', 'select 8'), cron.schedule('round 2', '@daily', 'select 9')",
        )
        .unwrap();
    let both =
        "select string_agg(username || ' ' || command, ', ' order by jobid) from cron.job where jobname = 'round 1'";
    assert_eq!(one::<String>(&mut db, both), "other select 8, app select 7");
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job"), 11);
}

/// What a session sets changes nothing of what is read.
#[test]
fn settings_of_a_session_do_not_change_what_is_read() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "set standard_conforming_strings = off; set backslash_quote = on; set escape_string_warning = off;
         create function pg_temp.lower(text) returns text language sql as 'select ''x''::text'; set search_path = pg_temp, public",
    )
    .unwrap();
    app.batch_execute(
        "select cron.schedule('a', E'\\t 5\\t4 * * MON', 'select 1'), cron.schedule('b', ' 30 SECONDS', 'select 1')",
    )
    .unwrap();
    let clocks = "select string_agg(clock, ', ' order by schedule_name) from sched.schedule";
    assert_eq!(one::<String>(&mut db, clocks), "5 4 * * 1, every 30 seconds after start");
}

/// The views of this extension are not pg_cron's tables.
#[test]
fn there_is_nothing_to_import_from_here() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute("select cron.schedule('a', '0 3 * * *', 'select 1')").unwrap();
    for call in ["import_from('pg_cron')", "import_from('pg_cron', 'cron', dry_run => true)"] {
        let error = db.batch_execute(&format!("select * from sched.{call}")).expect_err(call);
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code(), &SqlState::UNDEFINED_TABLE, "{call}: {error}");
        assert!(error.hint().unwrap_or_default().contains("scheduler_cron"), "{error:?}");
    }
}

/// A superuser who gives a job to another role has seen its command in cron.job, and no settings of it.
#[test]
fn a_job_that_changes_hands_has_no_settings_of_before() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "select cron.schedule('d', '@daily', 'select f()');
         select sched.alter_job('d', settings => '{\"search_path\": \"evil\"}')",
    )
    .unwrap();
    db.batch_execute("select cron.alter_job(jobid, username => 'postgres') from cron.job").unwrap();
    let job = "select concat_ws(' ', owner, command, settings) from sched.job where job_name = 'd'";
    assert_eq!(one::<String>(&mut db, job), "postgres select f() {}");
}
