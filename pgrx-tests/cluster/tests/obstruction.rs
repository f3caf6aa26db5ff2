//! The owner of some databases locks what is his, as he may: it keeps no dispatcher from anybody else's database.

use scheduler_cluster_tests::proc::{kill, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher_of, serves_exactly, SOON};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};
use std::thread;
use std::time::Instant;

const FIRING: &str =
    "select sched.define_job('job'); select sched.create_schedule('s', 'every 200 milliseconds', 'job')";

fn cluster_with_mallory() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    cluster.execute("create role mallory login createdb");
    let mallory = cluster.connect_as("mallory", "postgres");
    (cluster, mallory)
}

/// Locks a catalog of the client's database for good: who reads it waits in the queue behind a command that waits for the client.
pub fn lock_the_catalogs(cluster: &Cluster, database: &str) -> Client {
    let mut holder = cluster.connect_as("mallory", database);
    holder.batch_execute("begin; lock table pg_namespace in access share mode").unwrap();
    let mut waits = cluster.connect_as("mallory", database);
    // Until the holder ends, or the server.
    thread::spawn(move || waits.batch_execute("vacuum full pg_namespace"));
    let queued = "select exists (select from pg_locks where not granted and relation = 'pg_namespace'::regclass)";
    wait_for(&mut holder, queued, SOON);
    holder
}

#[test]
fn locked_catalogs_in_some_databases_keep_no_other_waiting() {
    let (cluster, mut mallory) = cluster_with_mallory();
    let names: Vec<String> = (0..6).map(|i| format!("m{i}")).collect();
    let mut holders = Vec::new();
    cluster.execute("create database prod");
    cluster.with_extension("prod").batch_execute(FIRING).unwrap();
    for name in &names {
        // Nobody looks into a template.
        mallory.batch_execute(&format!("create database {name} is_template true")).unwrap();
        holders.push(lock_the_catalogs(&cluster, name));
    }
    for name in &names {
        mallory.batch_execute(&format!("alter database {name} is_template false")).unwrap();
    }
    let mut db = cluster.connect();
    let stuck = "select count(*) >= 1 from pg_stat_activity
                  where backend_type = 'scheduler dispatcher' and datname like 'm_' and wait_event_type = 'Lock'";
    wait_for(&mut db, stuck, SOON);

    // One that comes, and one that makes way.
    cluster.execute("create database app");
    cluster.with_extension("app").batch_execute(FIRING).unwrap();
    wait_for(&mut cluster.connect_as("postgres", "app"), "select count(*) > 1 from sched.execution", SOON);
    db.batch_execute("alter database prod rename to renamed").unwrap();
    wait_until("a dispatcher in prod", SOON, || dispatcher_of(&mut db, "renamed"));
    // One that nobody has asked for has its turn between those that nobody can look into.
    db.batch_execute("create database copied template app").unwrap();
    wait_until("a look into the copy", SOON, || {
        (!cluster.logged("dispatcher for database \"copied\" stopped").is_empty()).then_some(())
    });
    cluster.was_quiet(&[]);
    // And one whose owner lets go is found like any other.
    drop(holders);
    db.batch_execute("drop database app").unwrap();
    serves_exactly(&mut db, &["renamed"]);
}

/// Whatever else a look may wait for: it takes its place for some seconds only.
#[test]
fn looks_that_hang_keep_no_other_waiting() {
    let (cluster, mut mallory) = cluster_with_mallory();
    cluster.execute("create database app");
    cluster.with_extension("app").batch_execute(FIRING).unwrap();
    wait_for(&mut cluster.connect_as("postgres", "app"), "select count(*) > 1 from sched.execution", SOON);
    let mut db = cluster.connect();
    let mut holders = Vec::new();
    let mut hung = Vec::new();
    for name in ["m0", "m1", "m2"] {
        mallory.batch_execute(&format!("create database {name} is_template true")).unwrap();
        holders.push(lock_the_catalogs(&cluster, name));
        mallory.batch_execute(&format!("alter database {name} is_template false")).unwrap();
        let looks = "select pid from pg_stat_activity
                      where backend_type = 'scheduler dispatcher' and datname = $1 and wait_event_type = 'Lock'";
        let pid: i32 = wait_until("a look", SOON, || db.query_opt(looks, &[&name]).unwrap().map(|row| row.get(0)));
        kill(pid, Signal::STOP);
        hung.push(pid);
    }
    db.batch_execute("create database copied template app").unwrap();
    wait_until("a look into the copy", SOON, || {
        (!cluster.logged("dispatcher for database \"copied\" stopped").is_empty()).then_some(())
    });
    hung.into_iter().for_each(|pid| kill(pid, Signal::CONT));
}

#[test]
fn one_role_does_not_use_up_the_holds() {
    let (cluster, mut mallory) = cluster_with_mallory();
    cluster.execute("create role alice login createdb");
    cluster.execute("create database alicedb owner alice");
    cluster.with_extension("alicedb").batch_execute(FIRING).unwrap();
    let mut renames = String::from("begin");
    for i in 0..33 {
        mallory.batch_execute(&format!("create database mh{i}")).unwrap();
        renames += &format!("; alter database mh{i} rename to renamed{i}");
    }
    mallory.batch_execute(&renames).unwrap();
    let started = Instant::now();
    cluster.connect_as("alice", "postgres").batch_execute("drop database alicedb").unwrap();
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
}

/// What a prepared transaction has locked nobody is told of when it ends.
#[test]
fn a_prepared_rename_that_ends_brings_the_dispatcher_back_soon() {
    let (cluster, _) = cluster_with_mallory();
    cluster.execute("create database app");
    cluster.with_extension("app").batch_execute(FIRING).unwrap();
    let mut db = cluster.connect();
    db.batch_execute("begin; alter database app rename to renamed; prepare transaction 'rename'").unwrap();
    // Long enough for pauses that double.
    let waiting = "select count(*) from pg_locks where not granted and classid = 'pg_database'::regclass";
    for _ in 0..5 {
        wait_for(&mut db, &format!("select ({waiting}) = 1"), SOON);
        wait_for(&mut db, &format!("select ({waiting}) = 0"), SOON);
    }
    db.batch_execute("rollback prepared 'rename'").unwrap();
    wait_until("a dispatcher", SOON, || dispatcher_of(&mut db, "app"));
}
