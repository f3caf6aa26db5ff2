//! `scheduler_cron`: pg_cron's API. That it answers as pg_cron does is shown beside the real one, in `cron_api_beside`.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{refused, wait_for, Client, Cluster};

use crate::copies::{dump, restore};

/// A database with the extension and a role that has USAGE on its schema and nothing else.
fn database(cluster: &Cluster) -> Client {
    let mut db = cluster.connect();
    db.batch_execute(
        "create extension scheduler_cron cascade; create role app login; grant usage on schema cron to app",
    )
    .unwrap();
    db
}

fn jobid(client: &mut Client, call: &str) -> i64 {
    one(client, &format!("select cron.{call}"))
}

#[test]
fn runs_are_those_of_the_role_and_are_told_with_pg_crons_words() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute("create table seen (who text, what text); grant insert, select on seen to app").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let works = jobid(&mut app, "schedule('works', '1 second', 'insert into seen values (session_user, ''works'')')");
    let fails =
        jobid(&mut app, "schedule('1 seconds', 'insert into seen values (session_user, ''fails''); select 1 / 0')");
    let several = jobid(&mut app, "schedule('several', '1 second', 'select 1; select 2 union select 3')");
    let vacuum = jobid(&mut db, "schedule('vacuum', '1 second', 'vacuum seen')");
    for (job, told) in [
        (works, "succeeded|INSERT 0 1|postgres|app|t|t|t"),
        (fails, "failed|ERROR:  division by zero\n|postgres|app|t|t|t"),
        (several, "succeeded|2 rows|postgres|app|t|t|t"),
        (vacuum, "succeeded|VACUUM|postgres|postgres|t|t|t"),
    ] {
        wait_for(
            &mut db,
            &format!("select exists (select from cron.job_run_details where jobid = {job} and end_time is not null)"),
            SOON,
        );
        let query = format!(
            "select concat_ws('|', d.status, d.return_message, d.database, d.username, d.job_pid > 0, d.start_time <= d.end_time, d.command = j.command)
               from cron.job_run_details d join cron.job j using (jobid)
              where jobid = {job} and d.end_time is not null order by runid limit 1"
        );
        assert_eq!(one::<String>(&mut db, &query), told);
    }
    // A command of several statements is one transaction.
    assert_eq!(one::<String>(&mut db, "select string_agg(distinct who || ' ' || what, ', ') from seen"), "app works");
    assert_eq!(one::<i64>(&mut app, "select count(distinct username) from cron.job_run_details"), 1, "only its own");
    // What was unscheduled is still told of.
    for job in [works, fails, several] {
        assert!(one::<bool>(&mut app, &format!("select cron.unschedule({job})")));
    }
    db.batch_execute("select cron.unschedule('vacuum')").unwrap();
    wait_for(
        &mut db,
        &format!("select not exists (select from {LEASE} l) and not exists (select from {READY} r)"),
        SOON,
    );
    let kept = "select count(distinct (jobid, command)) from cron.job_run_details";
    assert_eq!(one::<i64>(&mut db, kept), 4);
    // A row that is deleted is gone here, and stays in the ledger, which needs it.
    let ledger = "select count(*) from sched.ledger";
    let before = one::<i64>(&mut db, ledger);
    let deleted = app.execute("delete from cron.job_run_details where jobid = $1", &[&works]).unwrap();
    assert!(deleted > 0);
    assert_eq!(app.execute("delete from cron.job_run_details where jobid = $1", &[&works]).unwrap(), 0);
    assert_eq!(app.execute("delete from cron.job_run_details where jobid = $1", &[&vacuum]).unwrap(), 0, "another's");
    assert_eq!(one::<i64>(&mut db, kept), 3);
    assert_eq!(one::<i64>(&mut db, ledger), before);
}

/// The right to use the schema is the right to schedule. What a call does is done for the role that makes it, whatever it says.
#[test]
fn nobody_acts_for_another() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    db.batch_execute(
        "create role stranger login; create role editor login; grant usage on schema cron to editor;
         grant update (active), delete on cron.job to editor",
    )
    .unwrap();
    let owners = jobid(&mut db, "schedule('purge', '0 3 * * *', 'select 1')");
    let mut stranger = cluster.connect_as("stranger", "postgres");
    for statement in ["select cron.schedule('0 3 * * *', 'select 1')", "select * from cron.job"] {
        assert_eq!(refused(&mut stranger, statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
    }
    let mut app = cluster.connect_as("app", "postgres");
    let own = jobid(&mut app, "schedule('purge', '0 3 * * *', 'select 2')");
    assert_eq!(one::<i64>(&mut app, "select count(*) from cron.job"), 1);
    let row = "'x', '* * * * *', 'select 3', 'postgres'";
    for statement in [
        format!("select cron.unschedule({owners})"),
        format!("select cron.alter_job({own}, active => false)"),
        "select cron.schedule_in_database('x', '* * * * *', 'select 3', 'postgres')".to_owned(),
        "update cron.job set active = false".to_owned(),
        "delete from cron.job".to_owned(),
        "insert into cron.job (schedule, command) values ('* * * * *', 'select 3')".to_owned(),
        // by hand, around the functions
        format!("insert into cron_internal.call (action, id) values ('DELETE', {own})"),
        format!("insert into cron_internal.call (action, id) values ('cron.alter_job(bigint,text,text,text,text,boolean)', {own})"),
        format!("insert into cron_internal.call (action, id) values ('cron.unschedule(bigint)', {owners})"),
        format!("insert into cron_internal.call (action, jobname, schedule, command, database) values ('cron.schedule_in_database(text,text,text,text,text,boolean)', {row})"),
        format!("insert into cron_internal.call (action, jobname, schedule, command, database, username, active, nodename, nodeport)
                 values ('INSERT', {row}, 'postgres', true, '', 5432)"),
        "insert into cron_internal.call (action, id, caller) values ('DELETE', 1, 10)".to_owned(),
        format!("select cron_internal.lock_job({owners}, null)"),
        "select * from cron_internal.entry".to_owned(),
        "select sched.unschedule('purge')".to_owned(),
    ] {
        assert_eq!(refused(&mut app, &statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
    }
    // The job of a call that the owner of a function makes is his.
    db.batch_execute(
        "create function for_all() returns bigint language sql security definer as $$ select cron.schedule('deep', '@daily', 'select 4') $$",
    )
    .unwrap();
    app.batch_execute("select for_all()").unwrap();
    assert_eq!(one::<String>(&mut db, "select username from cron.job where jobname = 'deep'"), "postgres");

    // A right on one column is none on the others, and the policy of the rows holds for who has one.
    let mut editor = cluster.connect_as("editor", "postgres");
    let edited = jobid(&mut editor, "schedule('edited', '0 3 * * *', 'select 5')");
    let update = |id: i64, command: &str, username: &str| {
        format!(
            "insert into cron_internal.call (action, id, jobname, schedule, command, database, username, active, nodename, nodeport)
             select 'UPDATE', {id}, 'edited', '0 3 * * *', '{command}', 'postgres', '{username}', false, 'localhost', current_setting('port')::integer"
        )
    };
    for statement in [update(edited, "select 6", "editor"), update(edited, "select 5", "postgres")] {
        assert_eq!(refused(&mut editor, &statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
    }
    editor.batch_execute(&update(owners, "select 6", "editor")).expect("as if it were not there");
    assert_eq!(editor.execute("update cron.job set active = false", &[]).unwrap(), 1);
    let all =
        "select string_agg(concat_ws(' ', username, jobname, command, active), ', ' order by jobid) from cron.job";
    let rest = "postgres purge select 1 t, app purge select 2 t, postgres deep select 4 t";
    assert_eq!(one::<String>(&mut db, all), format!("{rest}, editor edited select 5 f"));
    assert_eq!(editor.execute("delete from cron.job", &[]).unwrap(), 1);
    assert_eq!(one::<String>(&mut db, all), rest);
    // Two jobs of one name are two schedules, each of its role.
    let named = "select string_agg(j.job_name || ' ' || j.owner, ', ' order by j.job_name) from sched.jobs j where job_name like 'purge%'";
    assert_eq!(one::<String>(&mut db, named), "purge postgres, purge of app app");
}

#[test]
fn default_privileges_give_nobody_the_calls_of_others() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    db.batch_execute(
        "create role app login;
         alter default privileges grant all on tables to app, public;
         alter default privileges grant all on functions to app;
         alter default privileges grant all on schemas to app;
         create extension scheduler_cron cascade",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    assert_eq!(refused(&mut app, "select * from cron.job"), SqlState::INSUFFICIENT_PRIVILEGE, "the schema");
    db.batch_execute("grant usage on schema cron to app").unwrap();
    app.batch_execute("create function pg_temp.own() returns trigger language plpgsql as 'begin return new; end'")
        .unwrap();
    for statement in [
        "create trigger t instead of insert on cron_internal.call for each row execute function pg_temp.own()",
        "create trigger t instead of update on cron.job for each row execute function pg_temp.own()",
        "create function cron.mine() returns int language sql as 'select 1'",
        "select cron.alter_job(1, active => false)",
        "select * from cron_internal.entry",
        "delete from cron.job",
    ] {
        assert_eq!(refused(&mut app, statement), SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
    }
}

/// What pg_cron 1.6 reads, and what of it sched is told; `-` is refused.
#[test]
fn schedules_are_read_as_pg_cron_reads_them() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    for (schedule, zone, clock) in [
        ("0 10 * * *", "GMT", "0 10 * * *"),
        ("  \t5\t4 * *  * ", "GMT", "5 4 * * *"),
        ("\n# a comment\n 5 4 * * *", "GMT", "5 4 * * *"),
        ("5 4 * * * and more", "GMT", "5 4 * * *"),
        ("*/5;x 4,5-9/2?,11 * * *", "GMT", "*/5 4,5-9/2 * * *"),
        ("*foo * * * *", "GMT", "* * * * *"),
        ("1 2 3 jan-Mar,DEC Mon-fri/2", "GMT", "1 2 3 1-3,12 1-5/2"),
        ("1 2 3 * 0-7", "GMT", "1 2 3 * 0-7"),
        ("0 11 $ * *", "GMT", "0 11 L * *"),
        ("0 11 $ * 1", "GMT", "0 11 L * 1"),
        ("@hourly", "GMT", "0 * * * *"),
        ("@weekly rest", "GMT", "0 0 * * 0"),
        ("@yearly", "GMT", "0 0 1 1 *"),
        ("@reboot", "GMT", "never"),
        (" 30 sEcOnDs ", "GMT", "every 30 seconds after start"),
        ("1second", "GMT", "every 1 second after start"),
        ("+59 second", "GMT", "every 59 seconds after start"),
        // the wall clock of a zone that changes
        ("0 3 * * *", "Europe/Berlin", "*/60,0 3 * * *"),
        ("@daily", "Europe/Berlin", "*/60,0 0 * * *"),
        ("30 0-3 * * *", "Europe/Berlin", "30 */24,0-3 * * *"),
        ("30 2 * * *", "Europe/Berlin", "30 2 * * *"),
        ("*/5 2 * * *", "Europe/Berlin", "*/5 2 * * *"),
        ("0 3 * * *", "Etc/UTC", "0 3 * * *"),
        // refused
        ("", "GMT", "-"),
        ("* * * *", "GMT", "-"),
        ("* * *\n* *", "GMT", "-"),
        ("*/0 * * * *", "GMT", "-"),
        ("*/60 * * * *", "GMT", "-"),
        ("5/10 * * * *", "GMT", "-"),
        ("5, * * * *", "GMT", "-"),
        ("60 * * * *", "GMT", "-"),
        ("-1 * * * *", "GMT", "-"),
        ("* * 0 * *", "GMT", "-"),
        ("* * * 13 *", "GMT", "-"),
        ("* * * * 8", "GMT", "-"),
        ("* * * * monday", "GMT", "-"),
        ("22-2 * * * *", "GMT", "-"),
        ("0 11 $foo * *", "GMT", "-"),
        ("0 $ * * *", "GMT", "-"),
        ("@Daily", "GMT", "-"),
        ("0 seconds", "GMT", "-"),
        ("60 seconds", "GMT", "-"),
        ("-1 seconds", "GMT", "-"),
        ("10000000000 seconds", "GMT", "-"),
        ("30 second ", "GMT", "-"),
        ("30 secondss", "GMT", "-"),
        ("every 5 minutes", "GMT", "-"),
    ] {
        let row =
            db.query_one("select coalesce(cron_internal.clock($1, $2, false), '-')", &[&schedule, &zone]).unwrap();
        let said: String = row.get(0);
        assert_eq!(said, clock, "{schedule:?} in {zone}");
        if said != "-" {
            db.query_one("select sched.next_time($1, time_zone => $2)", &[&said, &zone]).expect("sched reads it");
        }
    }
    let both = "select cron_internal.clock('0 9 13 * fri', 'GMT', true) || ' | ' || cron_internal.clock('0 9 */2 * fri', 'GMT', true)";
    assert_eq!(one::<String>(&mut db, both), "0 9 13 * +5 | 0 9 */2 * 5");
    // The change of a clock, as there: skipped in spring, twice in autumn.
    for (clock, after, next) in [
        ("*/60,0 2 * * *", "2026-03-28 02:00+01", "2026-03-30 02:00:00+02"),
        ("*/60,0 2 * * *", "2026-10-25 02:00+02", "2026-10-25 02:00:00+01"),
        ("30 */24,0-2 * * *", "2026-03-29 01:30+01", "2026-03-30 00:30:00+02"),
    ] {
        let query = format!("select (sched.next_time('{clock}', '{after}', 'Europe/Berlin') = '{next}')");
        assert!(one::<bool>(&mut db, &query), "{clock} after {after}");
    }
    let long = "select cron.schedule(repeat('a', 1000), 'select 1')";
    assert_eq!(refused(&mut db, long), SqlState::INVALID_PARAMETER_VALUE);
    // A step that is longer than its field: what to write instead, which is taken.
    for (schedule, step, instead) in [
        ("*/60 * * * *", "60 is longer than the field of minutes", "0 * * * *"),
        ("0 */24 * * *", "24 is longer than the field of hours", "0 0 * * *"),
        ("0 0 */32 * *", "32 is longer than the field of days", "0 0 1 * *"),
        ("5,*/90 9-17/30 * * mon", "90 is longer than the field of minutes", "5,0 9 * * mon"),
    ] {
        let error = db.query("select cron.schedule($1, 'select 1')", &[&schedule]).unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.message(), format!("invalid schedule: {schedule}"));
        let hint = format!("A step of {step}, and not every version of pg_cron takes it: write '{instead}'");
        assert_eq!(error.hint(), Some(hint.as_str()));
        db.query("select cron.schedule($1, 'select 1')", &[&instead]).expect(instead);
    }
    for schedule in ["*/60 * * * 9", "*/0 * * * *", "x/60 * * * *", "", "*/60", "@Daily"] {
        let error = db.query("select cron.schedule($1, 'select 1')", &[&schedule]).unwrap_err();
        let hint = "Use cron format (e.g. 5 4 * * *), or interval format '[1-59] seconds'";
        assert_eq!(error.as_db_error().unwrap().hint(), Some(hint), "{schedule}");
    }
}

#[test]
fn the_zone_is_that_of_the_moment_of_scheduling() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let clock = "select clock || ' ' || time_zone from sched.schedules where schedule_name = 'a'";
    let schedule = "select cron.schedule('a', '30 9 * * *', 'select 1')";
    db.batch_execute(schedule).unwrap();
    assert_eq!(one::<String>(&mut db, clock), "30 9 * * * GMT");
    db.batch_execute("set cron.timezone = 'Asia/Tokyo'; select cron.alter_job(1, command => 'select 2')").unwrap();
    assert_eq!(one::<String>(&mut db, clock), "30 9 * * * GMT");
    db.batch_execute(schedule).unwrap();
    assert_eq!(one::<String>(&mut db, clock), "30 9 * * * Asia/Tokyo");
    db.batch_execute("reset cron.timezone; select cron.alter_job(1, schedule => '30 9 $ * *')").unwrap();
    assert_eq!(one::<String>(&mut db, clock), "30 9 L * * GMT");
    db.batch_execute("set cron.timezone = 'Nowhere'").unwrap();
    assert_eq!(refused(&mut db, schedule), SqlState::INVALID_PARAMETER_VALUE);
    db.batch_execute("set cron.timezone = ''; set cron.enable_superuser_jobs = off").unwrap();
    assert_eq!(refused(&mut db, schedule), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// Both ways of changing a job agree.
#[test]
fn what_is_done_in_sched_is_seen_in_cron() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let rows = "select string_agg(concat_ws(' ', jobid, jobname, schedule, command, active), ', ' order by jobid) from cron.job";
    db.batch_execute("select cron.schedule('a', '0 3 * * *', 'select 1'), cron.schedule('b', '0 3 * * *', 'select 1')")
        .unwrap();
    db.batch_execute(
        "select sched.pause('a'), sched.alter_schedule('b', clock => '5 4 * * *', new_name => 'c'), sched.alter_job('b', command => 'select 2')",
    )
    .unwrap();
    assert_eq!(one::<String>(&mut db, rows), "1 a 0 3 * * * select 1 f, 2 b 5 4 * * * select 2 t");
    db.batch_execute("update cron.job set active = not active").unwrap();
    assert_eq!(one::<String>(&mut db, rows), "1 a 0 3 * * * select 1 t, 2 b 5 4 * * * select 2 f");
    // Scheduled again it is the same job, with what sched says besides; what was dropped there is a new one.
    db.batch_execute(
        "select sched.alter_job('a', max_attempts => 3); select cron.schedule('a', '0 5 * * *', 'select 3; select 4')",
    )
    .unwrap();
    let job = "select max_attempts || ' ' || own_transactions || ' ' || overlap || ' ' || catch_up from sched.job join sched.schedule using (job_name) where job_name = 'a'";
    assert_eq!(one::<String>(&mut db, job), "3 false buffer_one skip_missed");
    db.batch_execute("select cron.alter_job(1, command => 'vacuum')").unwrap();
    assert_eq!(one::<String>(&mut db, job), "3 true buffer_one skip_missed");
    db.batch_execute("select sched.unschedule('a'); select cron.unschedule('b')").unwrap();
    assert!(one::<bool>(&mut db, "select not exists (select from cron.job) and not exists (select from sched.job) and not exists (select from sched.schedule)"));
    db.batch_execute("select cron.schedule('a', '0 3 * * *', 'select 1')").unwrap();
    assert_eq!(one::<String>(&mut db, rows), "4 a 0 3 * * * select 1 t");
    // Another's name in sched is left alone.
    db.batch_execute(
        "select sched.schedule_sql('d', '@daily', 'select 5'); select cron.schedule('d', '@daily', 'select 6')",
    )
    .unwrap();
    let names = "select string_agg(schedule_name, ', ' order by schedule_name) from sched.schedules";
    assert_eq!(one::<String>(&mut db, names), "a, d, d of postgres");
}

#[test]
fn dropping_it_leaves_the_schedules_and_a_dump_takes_its_rows_along() {
    let cluster = Cluster::new();
    let mut db = database(&cluster);
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("select cron.schedule('a', ' 30 seconds', 'select 1'), cron.schedule('0 3 * * *', 'vacuum')")
        .unwrap();
    db.batch_execute(
        "select cron.schedule('a', '@daily', 'select 2'); update cron.job set active = false where jobid = 2",
    )
    .unwrap();
    let rows = "select string_agg(concat_ws('|', jobid, schedule, command, nodename, nodeport, username, active, jobname), ', ' order by jobid) from cron.job";
    let before = one::<String>(&mut db, rows);
    cluster.execute("create database copy");
    restore(&cluster, "copy", &dump(&cluster, "postgres", &[]));
    let mut copy = cluster.connect_as("postgres", "copy");
    assert_eq!(one::<String>(&mut copy, rows), before);
    assert_eq!(jobid(&mut copy, "schedule('@daily', 'select 3')"), 4);
    let mut app_there = cluster.connect_as("app", "copy");
    assert_eq!(jobid(&mut app_there, "schedule('a', '@hourly', 'select 4')"), 1, "the same job");

    let schedules = "select string_agg(concat_ws(' ', schedule_name, clock, enabled), ', ' order by schedule_name) from sched.schedules";
    let kept = one::<String>(&mut db, schedules);
    assert_eq!(refused(&mut db, "drop extension scheduler"), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    db.batch_execute("drop extension scheduler_cron").unwrap();
    assert_eq!(one::<String>(&mut db, schedules), kept);
    db.batch_execute("create schema cron").unwrap();
    assert_eq!(refused(&mut db, "create extension scheduler_cron"), SqlState::DUPLICATE_SCHEMA);
    db.batch_execute("drop schema cron; create extension scheduler_cron; grant usage on schema cron to app").unwrap();
    assert_eq!(jobid(&mut app, "schedule('a', '@hourly', 'select 4')"), 1);
    assert_eq!(
        one::<String>(&mut db, "select string_agg(schedule_name, ', ' order by schedule_name) from sched.schedules"),
        "a, a of app, a of postgres, cron job 2"
    );
    db.batch_execute("drop extension scheduler cascade").unwrap();
    assert!(one::<bool>(&mut db, "select to_regnamespace('cron') is null"));
}
