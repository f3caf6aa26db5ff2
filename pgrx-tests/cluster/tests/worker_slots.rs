//! Worker slots are too few for all databases: dispatchers that have nothing to do make room, and come back in time.

use scheduler_cluster_tests::scheduler::{one, served};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Builder, Client, Cluster};
use std::time::Duration;

/// Longer than any dispatcher waits before it makes room: each of these is asked once a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Databases with the extension, of a server with so many worker slots: the launcher and that of logical replication take two.
fn databases(builder: Builder, slots: usize, count: usize) -> (Cluster, Vec<Client>) {
    let cluster = builder
        .set("log_min_messages", "debug1")
        .set("max_worker_processes", &slots.to_string())
        .set("sched.runner_idle", "1s")
        .start();
    let clients = (0..count).map(|number| {
        let name = format!("db{number}");
        cluster.execute(&format!("create database {name}"));
        let mut client = cluster.with_extension(&name);
        // Home is settled with the first job.
        define(&mut client, "job", "select 1", "");
        client
    });
    let clients = clients.collect();
    (cluster, clients)
}

/// Seven databases and eight slots: a job of each runs.
#[test]
fn a_job_of_each_of_many_databases_runs() {
    let (_cluster, mut clients) = databases(Cluster::builder(), 8, 7);
    for round in 0..2 {
        let ids: Vec<String> = clients.iter_mut().map(|client| enqueue(client, "job", 1).remove(0)).collect();
        for (client, id) in clients.iter_mut().zip(ids) {
            let query = format!("select status = 'SUCCESS' from sched.execution where id = '{id}'");
            wait_for(client, &query, PATIENCE);
            println!("round {round}: {:?}", ended(client, &id));
        }
    }
}

/// A dispatcher that has made room comes back for what is due, for what is committed, and leaves no trace of it in `health`.
#[test]
fn one_that_rests_is_back_in_time() {
    // Room for two dispatchers beside the slot that is kept.
    let (cluster, mut clients) = databases(Cluster::builder(), 5, 3);
    let mut db = cluster.connect();
    // Each is served now and then, and never more than two are.
    let rests = |client: &mut Client| {
        let query = "select ok and message like 'none: others need its worker slot%' from sched.health() where component = 'dispatcher'";
        one::<bool>(client, query)
    };
    let resting = wait_until("one to rest", PATIENCE, || clients.iter_mut().position(rests));
    stays("no more than two", Duration::from_secs(1), || served(&mut db).len() <= 2);
    assert!(one::<bool>(&mut clients[resting], "select sched.healthy()"));
    // What is committed brings it back: late by the start of a process, and by the rest of another where no slot is free.
    let client = &mut clients[resting];
    client
        .batch_execute(
            "select sched.define_job('pull'); select sched.create_schedule('s', 'every 1 day from ' || (now() + '1500 milliseconds'::interval)::text, 'pull')",
        )
        .unwrap();
    wait_for(client, "select exists (select from sched.execution where schedule_name = 's')", PATIENCE);
    let late: f64 = one(
        client,
        "select extract(epoch from created_at - plan_time)::float8 from sched.execution where schedule_name = 's'",
    );
    println!("{late} s late");
    assert!(late < 1.0, "{late}");
}

/// With nothing to spare the setting that is too small is named.
#[test]
fn health_names_the_setting_that_is_too_small() {
    // The slot of a database whose dispatcher has work each second, and none else.
    let (cluster, mut clients) = databases(Cluster::builder(), 3, 1);
    let mut busy = clients.remove(0);
    busy.batch_execute("select sched.define_job('pull'); select sched.create_schedule('s', 'every 1 second', 'pull')")
        .unwrap();
    enqueue(&mut busy, "job", 1);
    let slots = "select not ok and message like '%found none' and hint like '%max_worker_processes%' from sched.health() where component = 'worker_slots'";
    wait_for(&mut busy, slots, PATIENCE);
    // For how long an SQL job waits is a part of its row: no minute has to pass.
    busy.batch_execute("update sched.ledger set created_at = created_at - interval '2 minutes' where job_name = 'job'")
        .unwrap();
    let runners = "select severity = 'critical' and message like '%max_worker_processes is 3%' from sched.health() where component = 'runners'";
    wait_for(&mut busy, runners, PATIENCE);
    assert!(!one::<bool>(&mut busy, "select sched.healthy()"));
    drop(cluster);
}

/// Where every dispatcher is busy and a database has none, they take turns.
#[test]
fn busy_databases_take_turns() {
    // Room for two dispatchers.
    let (_cluster, mut clients) = databases(Cluster::builder(), 5, 3);
    for client in &mut clients {
        client
            .batch_execute("select sched.define_job('pull'), sched.create_schedule('s', 'every 1 second', 'pull')")
            .unwrap();
    }
    for client in &mut clients {
        wait_for(client, "select count(*) >= 3 from sched.execution where schedule_name = 's'", PATIENCE);
    }
}

/// Runs that never end take no slot in which dispatchers take turns.
#[test]
fn long_runs_leave_the_dispatchers_their_turns() {
    let (cluster, mut clients) = databases(Cluster::builder(), 7, 5);
    cluster.execute("create role evil login");
    for client in &mut clients {
        client
            .batch_execute(
                "select sched.grant_use('evil'), sched.define_job('pull'), sched.create_schedule('s', 'every 1 second', 'pull');
                 set role evil; select sched.define_job('endless', 'sql', 'select pg_sleep(100000)'), sched.enqueue_many('endless', array_fill('{}'::jsonb, array[9]));
                 reset role",
            )
            .unwrap();
    }
    for _ in 0..2 {
        for client in &mut clients {
            client
                .batch_execute("drop table if exists seen; create temp table seen as select clock_timestamp() as at")
                .unwrap();
        }
        for client in &mut clients {
            wait_for(
                client,
                "select count(*) > 0 from sched.execution, seen where schedule_name = 's' and created_at > at",
                PATIENCE,
            );
        }
    }
}

/// A backlog of short runs leaves a slot to another role when that has something to run.
#[test]
fn short_runs_of_one_role_give_way_where_slots_are_short() {
    let builder = Cluster::builder().set("max_logical_replication_workers", "0");
    let (cluster, mut clients) = databases(builder, 4, 2);
    cluster.execute("create role a login; create role b login");
    for client in &mut clients {
        client
            .batch_execute("select sched.define_job('pull'), sched.create_schedule('s', 'every 1 second', 'pull'), sched.grant_use('a'), sched.grant_use('b')")
            .unwrap();
        wait_for(client, "select count(*) >= 1 from sched.execution where schedule_name = 's'", PATIENCE);
    }
    let client = &mut clients[0];
    client
        .batch_execute(
            "set role a; select sched.define_job('short', 'sql', 'select pg_sleep(0.05)'), sched.enqueue_many('short', array_fill('{}'::jsonb, array[1500])); reset role",
        )
        .unwrap();
    wait_for(
        client,
        "select count(*) > 5 from sched.execution where job_name = 'short' and status = 'SUCCESS'",
        PATIENCE,
    );
    client
        .batch_execute(
            "set role b; select sched.define_job('other', 'sql', 'select 1'), sched.enqueue('other'); reset role",
        )
        .unwrap();
    wait_for(
        client,
        "select status = 'SUCCESS' from sched.execution where job_name = 'other'",
        Duration::from_secs(20),
    );
    let left: i64 = one(client, "select count(*) from sched.execution where job_name = 'short' and status = 'PENDING'");
    assert!(left > 0, "the backlog was over");
}
