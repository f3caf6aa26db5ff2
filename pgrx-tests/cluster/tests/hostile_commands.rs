//! I7 as attacks by roles that may schedule: names that they take first to be given another's command, rows that they lock without a right.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{refusal, wait_for, Client, Cluster};

/// A superuser `boss`, two roles that may schedule, of which `teller` has named two jobs as `boss` will want to.
fn server() -> (Cluster, Client) {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    db.batch_execute(
        "create extension scheduler; create role teller login; create role other login; create role boss superuser login;
         select sched.grant_use('teller'), sched.grant_use('other')",
    )
    .unwrap();
    let mut teller = cluster.connect_as("teller", "postgres");
    teller
        .batch_execute(
            "select sched.define_job('copy', 'sql', 'select 1'), sched.define_job('pulled'); select sched.schedule_sql('nightly', '@daily', 'select 1')",
        )
        .unwrap();
    (cluster, db)
}

const JOBS: &str = "select string_agg(concat_ws(' ', job_name, owner, kind, command, settings, priority), ', ' order by job_name) from sched.job";

#[test]
fn a_superuser_writes_no_command_into_the_job_of_another_role() {
    let (cluster, mut db) = server();
    let mut boss = cluster.connect_as("boss", "postgres");
    let before: String = one(&mut db, JOBS);
    let secret = "$$copy t from program 'curl -u root:hunter2'$$";
    let writes = [
        format!("sched.define_job('copy', 'sql', {secret})"),
        format!("sched.schedule_sql('nightly', '@daily', {secret})"),
        format!("sched.alter_job('copy', command => {secret})"),
        "sched.alter_job('copy', settings => '{\"search_path\": \"app\"}')".to_owned(),
        "sched.alter_job('copy', reset => '{settings}')".to_owned(),
        format!("sched.alter_job('pulled', kind => 'sql', command => {secret})"),
        "sched.alter_job('pulled', kind => 'log', reset => '{command}')".to_owned(),
        "sched.define_job('copy')".to_owned(),
    ];
    for write in &writes {
        let refusal = refusal(&mut boss, &format!("select {write}"));
        assert_eq!(refusal.code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{write}: {refusal}");
        assert!(refusal.hint().unwrap_or_default().contains("SET ROLE teller"), "{write}: {refusal:?}");
        assert!(!format!("{refusal:?}").contains("hunter2"), "{refusal:?}");
        assert_eq!(one::<String>(&mut db, JOBS), before, "{write}");
    }
    // What says nothing of the runs stays a superuser's to do, and what gives the role work that it asked for.
    boss.batch_execute(
        "select sched.alter_job('copy', priority => 3, queue => 'slow', max_attempts => 2);
         select sched.enqueue('pulled'), sched.enqueue('copy'), sched.fire_now('nightly'), sched.pause('nightly'), sched.resume('nightly');
         select sched.cancel(id) from sched.execution where job_name = 'pulled'",
    )
    .unwrap();
    // As the hint has it.
    boss.batch_execute("set role teller; select sched.alter_job('copy', command => 'select 2'); reset role").unwrap();
    assert_eq!(
        one::<String>(&mut db, "select owner::text || command from sched.job where job_name = 'copy'"),
        "tellerselect 2"
    );
    // A member by a grant, also of a member.
    db.batch_execute("create role team; grant team to boss; grant teller to team").unwrap();
    for write in &writes {
        boss.batch_execute(&format!("select {write}")).unwrap_or_else(|error| panic!("{write}: {error}"));
    }
    db.batch_execute("revoke team from boss").unwrap();
    assert_eq!(refusal(&mut boss, &format!("select {}", writes[0])).code(), &SqlState::INSUFFICIENT_PRIVILEGE);
    // One that is the owner itself, and a job whose owner was dropped, which becomes the caller's.
    boss.batch_execute(
        "select sched.define_job('mine', 'sql', 'select 1'), sched.define_job('mine', 'sql', 'select 2')",
    )
    .unwrap();
    db.batch_execute("revoke teller from team; select sched.revoke_all('teller'); drop role teller").unwrap();
    boss.batch_execute(&format!("select {}", writes[0])).unwrap();
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job where job_name = 'copy'"), "boss");
}

/// A role that may grant another one makes superusers its members without their consent.
#[test]
fn a_superuser_is_no_member_by_the_grant_of_another_role() {
    let (cluster, mut db) = server();
    db.batch_execute(
        "create role team; create role lead login; create role admin login createrole; select sched.grant_use('team');
         grant team to lead, admin with admin option; create role devops; grant devops to boss",
    )
    .unwrap();
    let mut lead = cluster.connect_as("lead", "postgres");
    lead.batch_execute(
        "set role team;
         select sched.define_job('payroll', 'sql', 'select current_user'), sched.schedule_sql('nightly payroll', '@daily', 'select 1');
         reset role",
    )
    .unwrap();
    let mut boss = cluster.connect_as("boss", "postgres");
    let mut attempts = |attack: &str| {
        for write in [
            "select sched.define_job('payroll', 'sql', 'select 2')",
            "select sched.alter_job('payroll', command => 'select 2')",
            "select sched.schedule_sql('nightly payroll', '@daily', 'select 2')",
            "select * from sched.test_job('payroll')",
        ] {
            let refusal = refusal(&mut boss, write);
            assert_eq!(refusal.code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{attack}: {write}: {refusal}");
        }
    };
    // The superuser itself, and a role whose member it is.
    for (by, attack) in
        [("lead", "grant team to boss"), ("lead", "grant team to devops"), ("admin", "grant team to boss")]
    {
        let mut attacker = cluster.connect_as(by, "postgres");
        attacker.batch_execute(attack).unwrap_or_else(|error| panic!("{by}: {attack}: {error}"));
        attempts(attack);
        attacker.batch_execute(&attack.replace("grant", "revoke").replace(" to ", " from ")).unwrap();
    }
    // The grant of a superuser is consent.
    db.batch_execute("grant team to devops").unwrap();
    boss.batch_execute("select sched.define_job('payroll', 'sql', 'select 2')").unwrap();
}

/// The command of another role does not run as the superuser who would like to see what it does.
#[test]
fn a_superuser_tests_no_command_of_another_role_as_itself() {
    let (cluster, mut db) = server();
    let mut teller = cluster.connect_as("teller", "postgres");
    teller.batch_execute("select sched.define_job('lure', 'sql', $$select current_user$$)").unwrap();
    let mut boss = cluster.connect_as("boss", "postgres");
    let refusal = refusal(&mut boss, "select * from sched.test_job('lure')");
    assert_eq!(refusal.code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{refusal}");
    assert!(refusal.hint().unwrap_or_default().contains("SET ROLE teller"), "{refusal:?}");
    let ran_as = "select result #>> '{rows,0,0}' from sched.test_job('lure')";
    boss.batch_execute("set role teller").unwrap();
    assert_eq!(one::<String>(&mut boss, ran_as), "teller");
    boss.batch_execute("reset role").unwrap();
    db.batch_execute("grant teller to boss").unwrap();
    assert_eq!(one::<String>(&mut boss, ran_as), "boss");
}

/// A command that a role left when it was dropped runs as no superuser who changes something else of its job.
#[test]
fn the_command_of_a_dropped_role_runs_as_nobody_until_a_call_replaces_it() {
    let (cluster, mut db) = server();
    let mut teller = cluster.connect_as("teller", "postgres");
    teller
        .batch_execute(
            "select sched.schedule_sql('planted', 'every 1 h', $$create role evil superuser$$);
             select sched.define_job('path', 'sql', 'select f()', settings => '{\"search_path\": \"evil\"}');
             select sched.define_job('laundered', 'notify', 'create role evil superuser')",
        )
        .unwrap();
    drop(teller);
    db.batch_execute("select sched.revoke_all('teller'); drop owned by teller; drop role teller").unwrap();
    let mut boss = cluster.connect_as("boss", "postgres");
    let before: String = one(&mut db, JOBS);
    for write in [
        "select sched.alter_job('planted', priority => 5)",
        "select sched.alter_job('planted', queue => 'slow')",
        "select sched.alter_job('planted', settings => '{}')",
        "select sched.alter_job('path', command => 'select f(1)')",
        "select sched.alter_job('laundered', max_attempts => 2)",
        "select * from sched.test_job('planted')",
    ] {
        let refusal = refusal(&mut boss, write);
        assert_eq!(refusal.code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{write}: {refusal}");
        assert!(refusal.hint().unwrap_or_default().contains("sched.define_job"), "{write}: {refusal:?}");
        assert_eq!(one::<String>(&mut db, JOBS), before, "{write}");
    }
    boss.batch_execute(
        "select sched.alter_job('path', command => 'select 1', reset => '{settings}');
         select sched.alter_job('pulled', priority => 5);
         select sched.schedule_sql('planted', 'every 1 h', 'select 2')",
    )
    .unwrap();
    let taken: String = one(&mut db, JOBS);
    assert!(
        taken.ends_with("path boss sql select 1 {} 0, planted boss sql select 2 {} 0, pulled boss pull {} 5"),
        "{taken}"
    );
}

/// Whoever may not change a row keeps it from nobody, whatever is open or prepared.
#[test]
fn without_a_right_no_row_is_locked() {
    let (cluster, mut db) = server();
    db.batch_execute("create extension scheduler_cron; grant usage on schema cron to teller, other").unwrap();
    let mut teller = cluster.connect_as("teller", "postgres");
    let id: i64 = one(&mut teller, "select cron.schedule('a', '@daily', 'select 1')");
    let execution: String = one(&mut teller, "select sched.enqueue('pulled')::text");
    db.batch_execute(
        "grant update, delete, insert on cron.job to other; grant execute on all functions in schema cron to other",
    )
    .unwrap();
    let columns = "action, id, jobname, schedule, command, database, username, active, nodename, nodeport";
    let row = format!("{id}, 'a', '0 3 * * *', 'select 2', 'postgres', 'teller', false, 'localhost', current_setting('port')::integer");
    let mut calls: Vec<String> = [
        "UPDATE",
        "DELETE",
        "cron.alter_job(bigint,text,text,text,text,boolean)",
        "cron.unschedule(text)",
        "cron.schedule(text,text,text)",
    ]
    .iter()
    .map(|action| format!("insert into cron_internal.call ({columns}) select '{action}', {row}"))
    .collect();
    calls.extend(
        [
            "sched.alter_job('copy', priority => 1)",
            "sched.define_job('copy')",
            "sched.drop_job('copy')",
            "sched.schedule_sql('nightly', '@daily', 'select 1')",
            "sched.unschedule('nightly')",
            "sched.alter_schedule('nightly', clock => '@hourly')",
            "sched.drop_schedule('nightly')",
            "sched.pause('nightly')",
            "sched.fire_now('nightly')",
            "sched.backfill('nightly', '2026-01-01', '2026-01-02')",
            "sched.create_schedule('s', '@daily', 'copy')",
            "sched.cancel_many('pulled')",
            "sched.enqueue('pulled')",
        ]
        .iter()
        .map(|call| format!("select {call}")),
    );
    calls.push(format!("select sched.cancel('{execution}')"));
    calls.push(format!("select sched.alter_execution('{execution}', priority => 1)"));
    let mut other = cluster.connect_as("other", "postgres");
    let free = &format!(
        "select jobid from cron_internal.entry for update nowait; select job_name from sched.job for update nowait;
                select schedule_id from sched.schedule for update nowait; select id from sched.ledger for update nowait;
                select execution_id from {READY} r for update nowait"
    );
    for call in &calls {
        other.batch_execute("begin").unwrap();
        // What is caught in a function is rolled back to before it; what is not ends the transaction.
        let _whatever_it_says = other.batch_execute(&format!(
            "do $do$ begin perform 1; execute $call${call}$call$; exception when others then null; end $do$"
        ));
        let locked = db.batch_execute(&format!("begin; {free}; rollback"));
        if locked.is_err() {
            db.batch_execute("rollback").unwrap();
        }
        locked.unwrap_or_else(|error| panic!("{call}: {error}"));
        other.batch_execute("rollback").unwrap();
    }
    db.batch_execute(&format!("select cron.unschedule({id})")).unwrap();
}

/// Calls of `cron` forget rows of all roles that have expired: an open one keeps no other call waiting.
#[test]
fn what_has_expired_keeps_no_call_waiting() {
    let (cluster, mut db) = server();
    db.batch_execute(
        "create extension scheduler_cron; grant usage on schema cron to teller, other;
         select cron.unschedule(cron.schedule('old', '@daily', 'select 1'));
         update cron_internal.entry set removed_at = now() - interval '1 year';
         insert into cron_internal.deleted_run (runid, owner, deleted_at) values (1, 0, now() - interval '1 year');
         select nextval('sched.fence'), nextval('sched.fence'), nextval('sched.fence')",
    )
    .unwrap();
    let (mut teller, mut other) = (cluster.connect_as("teller", "postgres"), cluster.connect_as("other", "postgres"));
    for client in [&mut teller, &mut other] {
        client.batch_execute("set lock_timeout = '1s'; select cron.schedule('mine', '@daily', 'select 1')").unwrap();
    }
    let of = |role: &str, run: i64| {
        format!("select cron.unschedule('mine'); insert into cron_internal.call (action, id, username) values ('DELETE RUN', {run}, '{role}')")
    };
    teller.batch_execute(&format!("begin; {}", of("teller", 2))).unwrap();
    other.batch_execute(&of("other", 3)).unwrap();
    teller.batch_execute("commit").unwrap();
    let left = "select (select count(*) from cron_internal.entry where removed_at < now() - interval '1 month')
                     + (select count(*) from cron_internal.deleted_run where deleted_at < now() - interval '1 month')";
    assert_eq!(one::<i64>(&mut db, left), 0);
}

/// Names of pg_cron's jobs are each role's own: one that an open transaction of another role has taken keeps nobody waiting.
#[test]
fn a_name_in_an_open_transaction_keeps_no_call_of_another_role_waiting() {
    let (cluster, mut db) = server();
    db.batch_execute("create extension scheduler_cron; grant usage on schema cron to teller, other").unwrap();
    let (mut teller, mut other) = (cluster.connect_as("teller", "postgres"), cluster.connect_as("other", "postgres"));
    other.batch_execute("set lock_timeout = '1min'").unwrap();
    let schedule = "select cron.schedule('shared', '@daily', 'select 1')";
    for open in
        [schedule, "select sched.schedule_sql('shared', '@daily', 'select 1')", "select sched.define_job('shared')"]
    {
        teller.batch_execute(&format!("begin; {open}")).unwrap();
        other
            .batch_execute(&format!("set statement_timeout = '20s'; {schedule}"))
            .unwrap_or_else(|error| panic!("{open}: {error}"));
        let name: String = one(&mut db, "select job_name from sched.job where owner = 'other'::regrole");
        assert_eq!(name, "shared of other", "{open}");
        assert_eq!(one::<String>(&mut other, "show lock_timeout"), "1min");
        other.batch_execute("select cron.unschedule('shared')").unwrap();
        teller.batch_execute("rollback").unwrap();
    }
    // Where the name is free it is the job's.
    other.batch_execute(schedule).unwrap();
    assert!(one::<bool>(
        &mut db,
        "select exists (select from sched.job where job_name = 'shared' and owner = 'other'::regrole)"
    ));
}

/// What somebody says of a run that there is not hides none that comes.
#[test]
fn no_run_is_hidden_before_it_has_begun() {
    let (cluster, mut db) = server();
    db.batch_execute("create extension scheduler_cron; grant usage on schema cron to teller").unwrap();
    let mut teller = cluster.connect_as("teller", "postgres");
    for run in ["(select last_value + 1000 from sched.fence)", "0", "-1", "null"] {
        let run: Option<i64> = one(&mut db, &format!("select ({run})::bigint"));
        let call = format!(
            "insert into cron_internal.call (action, id, username) values ('DELETE RUN', {}, 'teller')",
            run.map_or("null".to_owned(), |run| run.to_string())
        );
        assert_eq!(refusal(&mut teller, &call).code(), &SqlState::INVALID_PARAMETER_VALUE, "{call}");
    }
    // Not even where the number was kept from before: as a version before has it, for the next thousand.
    db.batch_execute(
        "insert into cron_internal.deleted_run (runid, owner) select n, r.oid from generate_series(1, 1000) as n, pg_roles r where r.rolname in ('teller')
         union all select n, 0 from generate_series(1, 1000) as n",
    )
    .unwrap();
    one::<i64>(&mut teller, "select cron.schedule('a', '1 second', 'select 1')");
    let runs = "select exists (select from cron.job_run_details where status = 'succeeded')";
    wait_for(&mut db, runs, SOON);
    wait_for(&mut teller, runs, SOON);
    // Deleting one's own still does it.
    teller.batch_execute("select cron.unschedule('a')").unwrap();
    wait_for(&mut teller, "select not exists (select from cron.job_run_details where status = 'running')", SOON);
    teller.batch_execute("delete from cron.job_run_details").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job_run_details"), 0);
}

/// A job that was never defined is nobody's: what one role has waiting in a scope keeps no other role from it.
#[test]
fn a_scope_is_of_one_owner() {
    let (cluster, mut db) = server();
    let mut teller = cluster.connect_as("teller", "postgres");
    let mut other = cluster.connect_as("other", "postgres");
    other.batch_execute("set lock_timeout = '1s'").unwrap();
    let enqueue = |if_exists: &str, payload: i32| {
        format!("select sched.enqueue('nobodys', '{payload}', scope_kind => 'document', scope_id => '7', unique_by => 'scope', if_exists => '{if_exists}')::text")
    };
    teller.batch_execute("begin").unwrap();
    let theirs: String = one(&mut teller, &enqueue("keep", 1));
    let own: String = one(&mut other, &enqueue("keep", 2));
    teller.batch_execute("commit").unwrap();
    assert_ne!(own, theirs);
    for if_exists in ["keep", "replace"] {
        assert_eq!(one::<String>(&mut other, &enqueue(if_exists, 3)), own);
        assert_eq!(one::<String>(&mut teller, &enqueue(if_exists, 4)), theirs);
    }
    for client in [&mut teller, &mut other] {
        assert_eq!(refusal(client, &enqueue("error", 5)).code(), &SqlState::UNIQUE_VIOLATION);
    }
    let waiting = "select string_agg(concat_ws(' ', owner, payload), ', ' order by owner::text) from sched.ledger where job_name = 'nobodys'";
    assert_eq!(one::<String>(&mut db, waiting), "other 3, teller 4");
    // A second one of the same role waits for the first, and one that has ended is followed by another.
    assert!(one::<bool>(&mut other, &format!("select sched.cancel('{own}')")));
    assert_ne!(one::<String>(&mut other, &enqueue("error", 6)), own);
    assert_eq!(one::<String>(&mut teller, &enqueue("keep", 7)), theirs);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.unique_scope"), 2);
}

/// Who has nothing to hand back, and who imports from tables of its own, keeps nobody from importing.
#[test]
fn an_open_transaction_keeps_no_import_waiting() {
    let (cluster, mut db) = server();
    db.batch_execute(
        "create schema theirs; create schema own authorization teller;
         create table theirs.job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
         create table theirs.job_run_details (jobid bigint, runid bigint, job_pid int, status text, start_time timestamptz, end_time timestamptz);
         insert into theirs.job values (1, '0 3 * * *', 'select 1', 'localhost', 5432, 'postgres', 'postgres', true, 'theirs');
         set lock_timeout = '1s'",
    )
    .unwrap();
    let mut teller = cluster.connect_as("teller", "postgres");
    teller
        .batch_execute(
            "create table own.job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
             create table own.job_run_details (jobid bigint, runid bigint, job_pid int, status text, start_time timestamptz, end_time timestamptz);
             insert into own.job values (1, '0 3 * * *', 'select 1', 'localhost', 5432, 'postgres', 'teller', true, 'own')",
        )
        .unwrap();
    for (number, call) in [
        "sched.hand_back('{}')",
        "sched.take_over('pg_cron')",
        "sched.take_over('pg_cron', '{}')",
        "sched.import_from('pg_cron', 'own')",
    ]
    .iter()
    .enumerate()
    {
        teller.batch_execute(&format!("begin; select * from {call}")).unwrap_or_else(|error| panic!("{call}: {error}"));
        let import = format!("select * from sched.import_from('pg_cron', 'theirs', prefix => '{number} ')");
        db.batch_execute(&import).unwrap_or_else(|error| panic!("{call}: {error}"));
        teller.batch_execute("rollback").unwrap();
    }
    // Two from one place go on coming one after the other.
    teller.batch_execute("begin; select * from sched.import_from('pg_cron', 'own')").unwrap();
    let mut second = cluster.connect_as("teller", "postgres");
    second.batch_execute("set lock_timeout = '100ms'").unwrap();
    let error = refusal(&mut second, "select * from sched.import_from('pg_cron', 'own')");
    assert_eq!(error.code(), &SqlState::LOCK_NOT_AVAILABLE);
}

/// A role that takes back its own pause, in a transaction that stays open, keeps no superuser from taking back that of all.
#[test]
fn an_open_resume_keeps_no_other_waiting() {
    let (cluster, mut db) = server();
    let mut teller = cluster.connect_as("teller", "postgres");
    teller.batch_execute("select sched.pause_queue('default')").unwrap();
    teller.batch_execute("begin; select sched.resume_queue('default')").unwrap();
    db.batch_execute(
        "select sched.pause_queue('default'); set statement_timeout = '10s'; select sched.resume_queue('default')",
    )
    .unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.paused_queue where owner is null"), 0);
    teller.batch_execute("commit").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.paused_queue"), 0);
}
