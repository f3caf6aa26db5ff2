//! What ends a run of a SQL job beside `sched.cancel`: somebody's `pg_cancel_backend`, `run_timeout`, and `statement_timeout`.

use scheduler_cluster_tests::proc::is_alive;
use scheduler_cluster_tests::scheduler::{mostly_within, one, rest, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, sleeping};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster};
use std::time::Duration;

fn pair(status: &str, code: &str) -> (String, String) {
    (status.to_owned(), code.to_owned())
}

#[test]
fn a_cancel_from_outside_fails_the_run() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "once", "select pg_sleep(3600)", "");
    define(&mut db, "retried", "select pg_sleep(3600)", "max_attempts => 2");
    for job in ["once", "retried"] {
        enqueue(&mut db, job, 1);
        let (id, pid) = sleeping(&mut db, job, 1).remove(0);
        assert!(db.query_one("select pg_cancel_backend($1)", &[&pid]).unwrap().get::<_, bool>(0));
        if job == "retried" {
            wait_for(
                &mut db,
                &format!("select count(*) = 1 from sched.running where id = '{id}' and attempt = 2"),
                SOON,
            );
            let (_, pid) = sleeping(&mut db, job, 1).remove(0);
            db.query_one("select pg_cancel_backend($1)", &[&pid]).unwrap();
        }
        assert_eq!(ended(&mut db, &id), pair("FAILED", "57014"));
        let message: String = one(&mut db, &format!("select error_msg from sched.execution where id = '{id}'"));
        assert!(message.contains("canceling statement due to user request"), "{message}");
    }
}

/// One that comes while the process waits for work means nothing, and neither does one that came before it began.
#[test]
fn a_cancel_of_an_idle_runner_means_nothing() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").set("sched.runner_idle", "1h").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "short", "select pg_backend_pid()", "");
    let mut pids = Vec::new();
    for _ in 0..20 {
        let id = enqueue(&mut db, "short", 1).remove(0);
        assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
        let runner: String = one(&mut db, &format!("select runner_id from sched.execution where id = '{id}'"));
        let pid: i32 = runner.strip_prefix("sql/").unwrap().parse().unwrap();
        db.query_one("select pg_cancel_backend($1)", &[&pid]).unwrap();
        pids.push(pid);
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "the process stays: {pids:?}");
}

#[test]
fn run_timeout_ends_a_run_in_time() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // In the middle of a statement that waits, of one that computes, and of several.
    let commands = [
        "select pg_sleep(3600)",
        "select count(*) from generate_series(1, 1000000000)",
        "do $$ begin loop perform 1; end loop; end $$",
    ];
    let (mut all, mut took) = (Vec::new(), Vec::new());
    for (number, command) in commands.iter().enumerate() {
        let job = format!("limited {number}");
        define(&mut db, &job, command, "run_timeout => '500 milliseconds'");
        all.extend((0..7).map(|_| job.clone()));
    }
    for job in all {
        let id = enqueue(&mut db, &job, 1).remove(0);
        assert_eq!(ended(&mut db, &id), pair("FAILED", "run_timeout"));
        let row = db
            .query_one("select duration_ms, error_msg from sched.execution where id = $1::text::uuid", &[&id])
            .unwrap();
        let (duration, message): (i64, String) = (row.get(0), row.get(1));
        assert!(duration >= 500, "{job} ended after {duration} ms");
        assert!(message.contains("did not end within its run_timeout of 0.5 seconds"), "{message}");
        took.push(Duration::from_millis(u64::try_from(duration).unwrap()));
    }
    println!("{took:?}");
    // 100 ms and 1 %: a busy machine may be late now and then.
    mostly_within(Duration::from_millis(605), &took);
}

/// A command that catches its cancel loses its process, which may be gone before the dispatcher looks.
#[test]
fn run_timeout_ends_a_run_that_goes_on_after_it() {
    let cluster = Cluster::builder().set("sched.cancel_grace", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    let command =
        "do $$ begin loop begin perform pg_sleep(3600); exception when query_canceled then null; end; end loop; end $$";
    define(&mut db, "stubborn", command, "run_timeout => '3 seconds'");
    let id = enqueue(&mut db, "stubborn", 1).remove(0);
    let (_, pid) = sleeping(&mut db, "stubborn", 1).remove(0);
    let mut locks = cluster.connect();
    locks.batch_execute(&format!("begin; select from {LEASE} l for update")).unwrap();
    wait_until("the process to be gone", SOON, || (!is_alive(pid)).then_some(()));
    locks.batch_execute("commit").unwrap();
    assert_eq!(ended(&mut db, &id), pair("FAILED", "run_timeout"));
    // With a cancel it is that.
    let id = enqueue(&mut db, "stubborn", 1).remove(0);
    sleeping(&mut db, "stubborn", 1);
    db.batch_execute(&format!("select sched.cancel('{id}')")).unwrap();
    assert_eq!(ended(&mut db, &id).0, "CANCELLED");
}

#[test]
fn statement_timeout_of_the_role_holds() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role app login; select sched.grant_use('app'); alter role app set statement_timeout = '400ms'",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("set statement_timeout = 0").unwrap();
    define(&mut app, "long", "select 1; select pg_sleep(3600)", "");
    // Each statement has its own time.
    define(&mut app, "several", "select pg_sleep(0.2); select pg_sleep(0.2); select pg_sleep(0.2)", "");
    let id = enqueue(&mut app, "several", 1).remove(0);
    assert_eq!(ended(&mut app, &id), pair("SUCCESS", ""));
    let id = enqueue(&mut app, "long", 1).remove(0);
    assert_eq!(ended(&mut app, &id), pair("FAILED", "57014"));
    let message: String = one(&mut app, &format!("select error_msg from sched.execution where id = '{id}'"));
    assert!(message.contains("canceling statement due to statement timeout"), "{message}");
    assert!(message.contains("statement 2 of 2"), "{message}");
    // It is none of the limits of the next run, of another role.
    define(&mut db, "free", "select pg_sleep(0.6)", "");
    let id = enqueue(&mut db, "free", 1).remove(0);
    assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
}

/// What a trigger puts off to the commit, again and again, is a part of the run.
#[test]
fn run_timeout_ends_what_was_put_off_to_the_commit() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table t (n int);
         create function again() returns trigger language plpgsql as $$
         begin
             set constraints all deferred;
             perform pg_sleep(0.01);
             update t set n = n + 1;
             return null;
         end $$;
         create constraint trigger again after insert or update on t deferrable initially deferred
            for each row execute function again()",
    )
    .unwrap();
    define(&mut db, "endless", "insert into t values (1)", "run_timeout => '500 milliseconds'");
    let id = enqueue(&mut db, "endless", 1).remove(0);
    assert_eq!(ended(&mut db, &id), pair("FAILED", "run_timeout"));
    let message: String = one(&mut db, &format!("select error_msg from sched.execution where id = '{id}'"));
    assert!(message.contains("did not end within its run_timeout of 0.5 seconds"), "{message}");
    assert_eq!(one::<i64>(&mut db, "select count(*) from t"), 0);
}

/// A commit that waits for its standby has happened here: only who asks for it may end the wait.
#[test]
fn run_timeout_does_not_cut_the_wait_for_a_standby_short() {
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("set synchronous_commit = local; create table t (n int)").unwrap();
    define(&mut db, "job", "insert into t values (1)", "run_timeout => '500 milliseconds'");
    let id = enqueue(&mut db, "job", 1).remove(0);
    assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
    cluster.set("synchronous_standby_names", "nobody");
    let id = enqueue(&mut db, "job", 1).remove(0);
    // The run, and not its claim.
    let waits = "select count(*) = 1 from pg_stat_activity
                  where backend_type = 'scheduler runner' and wait_event = 'SyncRep' and query like 'insert%'";
    wait_for(&mut db, waits, SOON);
    stays("the wait", Duration::from_secs(1), || one::<bool>(&mut db, waits));
    cluster.set("synchronous_standby_names", "");
    assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
    assert_eq!(one::<i64>(&mut db, "select count(*) from t"), 2);
    assert_eq!(cluster.logged("canceling wait for synchronous replication"), Vec::<String>::new());
}

#[test]
fn transaction_timeout_ends_a_run_as_it_ends_a_session() {
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    let mut db = cluster.with_extension("postgres");
    if one::<bool>(&mut db, "select current_setting('server_version_num')::int < 170000") {
        return;
    }
    db.batch_execute(
        "create role app login; select sched.grant_use('app'); alter role app set transaction_timeout = '400ms';
         create procedure commits() language plpgsql as
            $$ begin for i in 1..6 loop perform pg_sleep(0.1); commit; end loop; perform pg_sleep(3600); end $$",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let own = "own_transactions => true, allow_stale_reentry => false";
    define(&mut app, "long", "select pg_sleep(3600)", "");
    define(&mut app, "several", "select pg_sleep(0.3); select pg_sleep(0.3)", "max_attempts => 2");
    // Each transaction has its own time; what failed may be tried again, because it is not lost.
    define(&mut app, "own", "select pg_sleep(0.3); select pg_sleep(0.3)", own);
    define(&mut app, "commits", "call commits()", &format!("max_attempts => 2, {own}"));
    let settings = "settings => '{\"transaction_timeout\": 200}'";
    define(&mut db, "by itself", "select pg_sleep(3600)", settings);
    define(&mut db, "meanwhile", "set transaction_timeout = '200ms'; select pg_sleep(3600)", "");
    define(&mut db, "its own limit", "select pg_sleep(3600)", &format!("run_timeout => '100ms', {settings}"));
    for (job, attempts, status, code) in [
        ("long", 1, "FAILED", "25P04"),
        ("several", 2, "FAILED", "25P04"),
        ("own", 1, "SUCCESS", ""),
        ("commits", 2, "FAILED", "25P04"),
        ("by itself", 1, "FAILED", "25P04"),
        ("meanwhile", 1, "FAILED", "25P04"),
        ("its own limit", 1, "FAILED", "run_timeout"),
    ] {
        let id = enqueue(&mut db, job, 1).remove(0);
        assert_eq!(ended(&mut db, &id), pair(status, code), "{job}");
        let query = format!("select attempt, coalesce(error_msg, '') from sched.execution where id = '{id}'");
        let row = db.query_one(&query, &[]).unwrap();
        let (attempt, message): (i32, String) = (row.get(0), row.get(1));
        assert_eq!(attempt, attempts, "{job}");
        assert_eq!(message == "terminating connection due to transaction timeout", code == "25P04", "{job}: {message}");
    }
}

/// How its transaction ended is forgotten with the attempt: the next one may be lost.
#[test]
fn a_transaction_timeout_is_that_of_one_attempt() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    if one::<bool>(&mut db, "select current_setting('server_version_num')::int < 170000") {
        return;
    }
    let command = "select set_config('transaction_timeout', case attempt when 1 then '100' else '0' end, true) from sched.this_run();
        select pg_sleep(3600)";
    define(&mut db, "job", command, "max_attempts => 2");
    let id = enqueue(&mut db, "job", 1).remove(0);
    wait_for(&mut db, &format!("select count(*) = 1 from sched.running where id = '{id}' and attempt = 2"), SOON);
    let (_, pid) = sleeping(&mut db, "job", 1).remove(0);
    db.query_one("select pg_terminate_backend($1)", &[&pid]).unwrap();
    assert_eq!(ended(&mut db, &id), pair("FAILED", "worker_lost"));
}

/// A claim may have to wait for somebody: that is none of the owner's transactions.
#[test]
fn transaction_timeout_ends_no_claim() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "0").start();
    let mut db = cluster.with_extension("postgres");
    if one::<bool>(&mut db, "select current_setting('server_version_num')::int < 170000") {
        return;
    }
    db.batch_execute(
        "create role app login; select sched.grant_use('app'); alter role app set transaction_timeout = '250ms'",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    define(&mut app, "job", "select 1", "");
    let id = enqueue(&mut app, "job", 1).remove(0);
    // The dispatcher reads that table too.
    rest(&mut db);
    let mut locks = cluster.connect();
    locks.batch_execute("begin; lock table sched.job in access exclusive mode").unwrap();
    cluster.set("sched.max_sql_runners", "1");
    let waits = "select pid from pg_stat_activity where backend_type = 'scheduler runner' and wait_event_type = 'Lock'";
    let pid: i32 =
        wait_until("a claim to wait", SOON, || db.query_opt(waits, &[]).unwrap().map(|row| row.get::<_, i32>(0)));
    stays("the process that waits", Duration::from_millis(600), || one::<i32>(&mut db, waits));
    locks.batch_execute("commit").unwrap();
    assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
    assert_eq!(one::<String>(&mut db, "select runner_id from sched.execution"), format!("sql/{pid}"));
}
