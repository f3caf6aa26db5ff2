//! Processes that somebody or something has stopped: they keep what is theirs, and nothing of others'.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher_of, one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, sleeping};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster};
use std::fs;
use std::time::Duration;

/// After so long nobody counts on a process that was asked for (`COMING_AT_MOST` of the board), and dispatchers have looked again.
const COUNTED_ON: Duration = Duration::from_secs(8);

/// The runners that the postmaster has forked, also those that no view shows because they have not come as far.
fn forked(cluster: &Cluster) -> Vec<i32> {
    let title = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut pids = proc::children(cluster.postmaster());
    pids.retain(|pid| title(*pid).contains("scheduler runner"));
    pids
}

/// It is on the board once, and its run is its own.
#[test]
fn a_runner_that_hangs_while_it_connects_keeps_its_place() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table effect (execution_id uuid, attempt int)").unwrap();
    let command = "insert into effect select execution_id, attempt from sched.this_run(); select pg_sleep(1)";
    define(&mut db, "job", command, "");
    let mut locks = cluster.connect();
    // What says which settings a role has: who connects reads it.
    locks.batch_execute("begin; lock table pg_db_role_setting in access exclusive mode").unwrap();
    let ids = enqueue(&mut db, "job", 3);
    let hangs = wait_until("a runner", SOON, || forked(&cluster).first().copied());
    stays("the runners", COUNTED_ON, || forked(&cluster));
    locks.batch_execute("commit").unwrap();
    for id in &ids {
        assert_eq!(ended(&mut db, id), ("SUCCESS".to_owned(), String::new()));
    }
    let by: String = one(&mut db, "select string_agg(distinct runner_id, ',') from sched.execution");
    assert_eq!(by, format!("sql/{hangs}"));
    assert_eq!(one::<i64>(&mut db, "select count(*) from effect where attempt = 1"), 3);
}

/// A database whose dispatcher is stopped has no turn any more, and the others have theirs.
#[test]
fn who_waits_for_a_place_and_is_stopped_keeps_none_from_others() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").set("sched.runner_idle", "0").start();
    cluster.execute("create database other");
    let mut db = cluster.with_extension("postgres");
    let mut other = cluster.with_extension("other");
    define(&mut db, "long", "select pg_sleep(3600)", "");
    define(&mut db, "job", "select 1", "");
    define(&mut other, "job", "select 1", "");
    let long = enqueue(&mut db, "long", 1).remove(0);
    sleeping(&mut db, "long", 1);
    let waits = enqueue(&mut other, "job", 1).remove(0);
    let stuck = wait_until("a dispatcher", SOON, || dispatcher_of(&mut db, "other"));
    // It has said so when it sleeps again, and looks once more a second later.
    let asleep = format!("select count(*) = 1 from pg_stat_activity where pid = {stuck} and state = 'idle'");
    wait_for(&mut db, &asleep, SOON);
    proc::kill(stuck, Signal::STOP);
    wait_until("it to be stopped", SOON, || proc::is_stopped(stuck).then_some(()));
    let id = enqueue(&mut db, "job", 1).remove(0);
    db.batch_execute(&format!("select sched.cancel('{long}')")).unwrap();
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    proc::kill(stuck, Signal::CONT);
    assert_eq!(ended(&mut other, &waits).0, "SUCCESS");
}
