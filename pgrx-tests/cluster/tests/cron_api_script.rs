//! What pg_cron's own regression script asks of its versions 1.4 to 1.6, in our words, with the answers that it expects. What differs is in
//! docs/guides/pg_cron-api.md.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{Client, Cluster};

fn jobid(client: &mut Client, call: &str) -> i64 {
    one(client, &format!("select cron.{call}"))
}

/// What an error says, after its SQLSTATE.
fn told(client: &mut Client, statement: &str) -> String {
    let error = client.batch_execute(statement).expect_err(statement);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
    [error.code().code(), error.message(), error.hint().unwrap_or_default()].join("|")
}

#[test]
fn one_role_schedules_changes_and_unschedules() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    // What somebody has planted in public is not called by the script that creates the extension.
    db.batch_execute(
        "create table witness (who text); create type current_setting as enum ('cron.database_name');
         create function planted(current_setting) returns text language sql as 'insert into witness values (current_user); select ''x''::text';
         create cast (current_setting as text) with function planted(current_setting) as implicit;
         create extension scheduler_cron cascade",
    )
    .unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from witness"), 0);
    assert_eq!(jobid(&mut db, "schedule('0 10 * * *', 'VACUUM')"), 1);
    assert!(one::<bool>(&mut db, "select cron.unschedule(1)"));
    let hint = "Use cron format (e.g. 5 4 * * *), or interval format '[1-59] seconds'";
    for schedule in
        ["5 secondc", "50 seconds c", "*/5000000000 10 * * *", "10000000000 seconds", "@restar", "0 11 $foo * *"]
    {
        let statement = format!("select cron.schedule('x', '{schedule}', 'select 1')");
        assert_eq!(told(&mut db, &statement), format!("22023|invalid schedule: {schedule}|{hint}"));
    }
    assert_eq!(jobid(&mut db, "schedule('@restart', 'ALTER EXTENSION scheduler UPDATE')"), 2);
    for (schedule, command) in [("0 10 * * *", "VACUUM"), ("0 11 * * *", "VACUUM"), ("0 11 * * *", "VACUUM FULL")] {
        assert_eq!(jobid(&mut db, &format!("schedule('myvacuum', '{schedule}', '{command}')")), 3);
        let row = format!(
            "select schedule = '{schedule}' and command = '{command}' from cron.job where jobname = 'myvacuum'"
        );
        assert!(one::<bool>(&mut db, &row), "{schedule} {command}");
    }
    assert!(one::<bool>(&mut db, "select cron.unschedule('myvacuum')"));
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job"), 1);
    let nothing = "You must specify at least one job attribute to change when calling alter_job";
    assert_eq!(told(&mut db, "select cron.alter_job(2)"), format!("XX000|no updates specified|{nothing}"));
    // As many jobids were drawn as there.
    for (schedule, id) in
        [("1 second", 6), (" 30 sEcOnDs ", 7), ("59 seconds", 8), ("17  seconds ", 9), ("0 11 $ * *", 10)]
    {
        assert_eq!(jobid(&mut db, &format!("schedule('{schedule}', 'select 1')")), id);
        let row = format!("select schedule from cron.job where jobid = {id}");
        assert_eq!(one::<String>(&mut db, &row), schedule);
    }
}

#[test]
fn roles_and_databases() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    for statement in [
        "create extension scheduler_cron cascade",
        "create database shut",
        "revoke connect on database shut from public",
        "create database open",
        "create role cronuser login",
        "create role \"CaseOwner\" login",
        "create role caseowner login",
        "grant usage on schema cron to cronuser, \"CaseOwner\", caseowner",
        "grant execute on function cron.alter_job(bigint, text, text, text, text, boolean) to public",
        "select cron.schedule('first', '0 11 * * *', 'VACUUM')",
    ] {
        db.batch_execute(statement).unwrap();
    }
    assert_eq!(
        told(&mut db, "select cron.alter_job(job_id := 1, database := 'nope')"),
        "3D000|database \"nope\" does not exist|"
    );
    let no_connect = "XX000|User cronuser does not have CONNECT privilege on shut|";
    let at = |name: &str, database: &str, user: &str| {
        format!(
            "select cron.schedule_in_database(job_name := '{name}', schedule := '0 11 * * *', command := 'VACUUM',
                                              database := '{database}', username := '{user}')"
        )
    };
    assert_eq!(told(&mut db, &at("x", "shut", "cronuser")), no_connect);
    assert_eq!(told(&mut db, &at("x", "open", "unknown")), "XX000|role \"unknown\" does not exist|");
    let shut = "select cron.alter_job(job_id := 1, database := 'shut', username := 'cronuser')";
    assert_eq!(told(&mut db, shut), no_connect);

    let mut user = cluster.connect_as("cronuser", "postgres");
    assert_eq!(jobid(&mut user, "schedule('My vacuum', '0 11 * * *', 'VACUUM')"), 2);
    for (statement, expected) in [
        (at("x", "postgres", "another").as_str(), "42501|permission denied for function schedule_in_database|"),
        ("select cron.alter_job(job_id := 2, username := 'another')", "XX000|must be superuser to alter username|"),
        ("select cron.alter_job(job_id := 1, database := 'open')", "XX000|Job 1 does not exist or you don't own it|"),
        ("select cron.alter_job(job_id := 2, database := 'shut')", no_connect),
        // pg_cron goes there
        (
            "select cron.alter_job(job_id := 2, database := 'open')",
            "0A000|cannot run jobs in database \"open\" from database \"postgres\"|\
             Run CREATE EXTENSION scheduler_cron CASCADE in that database, and call cron.schedule there.",
        ),
    ] {
        assert_eq!(told(&mut user, statement), expected);
    }
    assert_eq!(one::<String>(&mut user, "select database from cron.job"), "postgres");

    db.batch_execute("select cron.alter_job(job_id := 1, username := 'cronuser')").unwrap();
    db.batch_execute(&at("his", "postgres", "cronuser")).unwrap();
    let own = "select string_agg(jobid || ' ' || username, ', ' order by jobid) from cron.job";
    assert_eq!(one::<String>(&mut user, own), "1 cronuser, 2 cronuser, 3 cronuser");
    db.batch_execute(&at("mixed", "postgres", "CaseOwner")).unwrap();
    let mut other = cluster.connect_as("caseowner", "postgres");
    assert_eq!(told(&mut other, "select cron.unschedule(4)"), "42501|permission denied for table job|");
    assert!(one::<bool>(&mut cluster.connect_as("CaseOwner", "postgres"), "select cron.unschedule(4)"));
}
