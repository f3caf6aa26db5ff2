//! After a crash of the server, or when a standby takes over, nothing is RUNNING of a process of the former server.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::sql_jobs::{
    define, ended, enqueue, runs_without_process, sleeping, status, ENDED_AFTER_CRASH,
};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

/// Jobs that differ in what becomes of a lost run: its name, and the arguments of define_job.
const LONG: [(&str, &str); 5] = [
    ("never again", ""),
    ("at once", "max_attempts => 3"),
    ("later", "max_attempts => 3, retry_backoff => '{1 hour}'"),
    ("own", "max_attempts => 3, own_transactions => true, allow_stale_reentry => false"),
    ("own again", "max_attempts => 3, own_transactions => true, retry_backoff => '{1 hour}'"),
];

/// Long runs of each of these jobs; their executions.
fn run_all(db: &mut Client) -> Vec<String> {
    for (job, more) in LONG {
        define(db, job, "select pg_sleep(3600)", more);
    }
    let ids: Vec<String> = LONG.iter().flat_map(|(job, _)| enqueue(db, job, 1)).collect();
    for (job, _) in LONG {
        sleeping(db, job, 1);
    }
    ids
}

/// What the next server makes of them, within 2 s of the time when its dispatcher is there.
fn are_ended(cluster: &Cluster, ids: &[String]) {
    let mut db = wait_until("the server to accept connections", SOON * 2, || {
        cluster.try_connect_as("postgres", "postgres").ok()
    });
    wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    let began = Instant::now();
    let lost = |name: &str| match name {
        "never again" | "own" => ("FAILED", "worker_lost", false),
        "at once" => ("RUNNING", "", false),
        _ => ("FAILED", "worker_lost", true),
    };
    wait_until("the runs of the former server to be ended", ENDED_AFTER_CRASH, || {
        runs_without_process(&mut db).is_empty().then_some(())
    });
    println!("ended {:?} after the dispatcher came", began.elapsed());
    for ((job, _), id) in LONG.iter().zip(ids) {
        let (its_status, code, is_retried) = lost(job);
        if its_status == "RUNNING" {
            wait_for(
                &mut db,
                &format!("select count(*) = 1 from sched.running where id = '{id}' and attempt = 2"),
                SOON,
            );
        } else {
            assert_eq!(status(&mut db, id), (its_status.to_owned(), code.to_owned()), "{job}");
        }
        let query = format!("select next_retry_at is not null from sched.execution where id = '{id}'");
        assert_eq!(one::<bool>(&mut db, &query), is_retried, "{job}");
    }
    // The one that was tried again has a process that can be cancelled.
    let again = &ids[1];
    db.batch_execute(&format!("select sched.cancel('{again}')")).unwrap();
    wait_for(&mut db, &format!("select status = 'CANCELLED' from sched.execution where id = '{again}'"), SOON);
}

fn server() -> Cluster {
    Cluster::builder().set("sched.max_sql_runners", "8").start()
}

#[test]
fn a_crash_of_the_server_ends_all_runs_of_sql_jobs() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    let ids = run_all(&mut db);
    cluster.crash();
    cluster.start();
    are_ended(&cluster, &ids);
}

#[test]
fn a_killed_runner_ends_those_of_all_others() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    let ids = run_all(&mut db);
    let (_, pid) = sleeping(&mut db, "at once", 1).remove(0);
    proc::kill(pid, Signal::KILL);
    wait_until("the connection to break", SOON, || db.is_valid(Duration::from_secs(1)).err());
    are_ended(&cluster, &ids);
}

#[test]
fn a_promotion_ends_all_runs_of_the_former_primary() {
    let primary = server();
    let mut db = primary.with_extension("postgres");
    let standby = Cluster::builder().set("sched.max_sql_runners", "8").start_standby_of(&primary);
    let ids = run_all(&mut db);
    let written: String = one(&mut db, "select pg_current_wal_flush_lsn()::text");
    let mut copy = standby.connect();
    wait_for(&mut copy, "select count(*) = 5 from sched.running", SOON);
    wait_for(&mut copy, &format!("select pg_last_wal_replay_lsn() >= '{written}'"), SOON);
    primary.crash();
    standby.promote();
    are_ended(&standby, &ids);
}

/// Its claim is on disk before it begins, so it does not begin for the first time after each crash.
#[test]
fn a_command_that_crashes_the_server_has_one_attempt() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table t (line text)").unwrap();
    define(&mut db, "crash", "copy t from program 'sleep 0.05; kill -9 $PPID'", "max_attempts => 1");
    let id = enqueue(&mut db, "crash", 1).remove(0);
    wait_until("the connection to break", SOON, || db.is_valid(Duration::from_secs(1)).err());
    let mut db = wait_until("the server", SOON, || cluster.try_connect_as("postgres", "postgres").ok());
    assert_eq!(ended(&mut db, &id), ("FAILED".into(), "worker_lost".into()));
    assert_eq!(one::<i32>(&mut db, &format!("select attempt from sched.execution where id = '{id}'")), 1);
}

/// The way out of a plain restart, too: a runner is told to leave in the middle of its command.
#[test]
fn a_restart_ends_the_runs_of_sql_jobs() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    let ids = run_all(&mut db);
    cluster.restart(scheduler_cluster_tests::Shutdown::Fast);
    are_ended(&cluster, &ids);
}

/// A process that goes takes nobody else's run with it, and its own is ended at once.
#[test]
fn a_terminated_runner_ends_its_own_run_only() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    let ids = run_all(&mut db);
    for (job, _) in LONG {
        let (id, pid) = sleeping(&mut db, job, 1).remove(0);
        let before: i64 = one(&mut db, "select count(*) from sched.running where pid is not null");
        db.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
        wait_for(
            &mut db,
            &format!("select not exists (select from sched.running where id = '{id}' and pid = {pid})"),
            SOON,
        );
        let others: i64 = one(&mut db, &format!("select count(*) from sched.running where id <> '{id}'"));
        // One that was lost before may have begun again.
        assert!(others >= before - 1, "{job}: {others} of {before}");
    }
    are_ended(&cluster, &ids);
}

/// One that ends its own process is tried again as often as its job says, and keeps nobody else from running.
#[test]
fn a_command_that_ends_its_own_process_is_a_lost_run() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "suicidal", "select pg_terminate_backend(pg_backend_pid())", "max_attempts => 3");
    define(&mut db, "job", "select 1", "");
    let suicidal = enqueue(&mut db, "suicidal", 1).remove(0);
    let id = enqueue(&mut db, "job", 1).remove(0);
    assert_eq!(ended(&mut db, &id), ("SUCCESS".to_owned(), String::new()));
    assert_eq!(ended(&mut db, &suicidal), ("FAILED".to_owned(), "worker_lost".to_owned()));
    assert_eq!(one::<i32>(&mut db, &format!("select attempt from sched.execution where id = '{suicidal}'")), 3);
}

/// Whether a lost run may be tried again is decided by what it was when it began, and not by what its job has become.
#[test]
fn a_lost_run_is_repeated_by_what_it_was() {
    let cluster = server();
    let mut db = cluster.with_extension("postgres");
    let (own, together) = ("own_transactions => true", "own_transactions => false");
    let common = "max_attempts => 2, allow_stale_reentry => false";
    let mut ids = Vec::new();
    for (job, before) in [("was own", own), ("was together", together)] {
        define(&mut db, job, "select pg_sleep(3600)", &format!("{common}, {before}"));
        ids.push(enqueue(&mut db, job, 1).remove(0));
        sleeping(&mut db, job, 1);
    }
    for (job, after) in [("was own", together), ("was together", own)] {
        define(&mut db, job, "select 1", &format!("{common}, {after}"));
        let (_, pid) = sleeping(&mut db, job, 1).remove(0);
        db.query_one("select pg_terminate_backend($1)", &[&pid]).unwrap();
    }
    // What the first has done is committed, perhaps; of the other nothing is.
    assert_eq!(ended(&mut db, &ids[0]), ("FAILED".to_owned(), "worker_lost".to_owned()));
    assert_eq!(ended(&mut db, &ids[1]), ("SUCCESS".to_owned(), String::new()));
    let attempts: Vec<i32> =
        ids.iter().map(|id| one(&mut db, &format!("select attempt from sched.execution where id = '{id}'"))).collect();
    assert_eq!(attempts, [1, 2]);
}
