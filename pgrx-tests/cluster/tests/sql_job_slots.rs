//! How many commands run at the same time: worker slots of the server, and `sched.max_sql_runners` shared between databases and owners.

use crate::obstruction::lock_the_catalogs;
use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{mostly_within, one, switch_off, whole_grid, SOON};
use scheduler_cluster_tests::sql_jobs::{all_ended, define, ended, enqueue, runners, sleeping};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

/// Of a run that began late no more than this is the scheduler's: a process has to be forked, and to connect.
const FORKED: f64 = 1.0;

/// Roles that may have jobs, in the client's database.
fn with_roles(cluster: &Cluster, db: &mut Client, roles: &[&str]) {
    for role in roles {
        let there = format!("select exists (select from pg_roles where rolname = '{role}')");
        if !one::<bool>(db, &there) {
            cluster.execute(&format!("create role {role} login"));
        }
        db.batch_execute(&format!("select sched.grant_use('{role}')")).unwrap();
    }
}

/// When the runs of this database began and ended, in seconds.
fn times(db: &mut Client) -> Vec<(f64, f64)> {
    let query = "select extract(epoch from started_at)::float8, extract(epoch from finished_at)::float8
                   from sched.execution where status = 'SUCCESS'";
    db.query(query, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// How many of these ran at the same time, at most.
fn most_at_once(times: &[(f64, f64)]) -> usize {
    let at = |moment: f64| times.iter().filter(|(began, ended)| *began <= moment && moment < *ended).count();
    times.iter().map(|(began, _)| at(*began)).max().unwrap_or(0)
}

#[test]
fn without_a_worker_slot_everything_else_goes_on() {
    // One for the server's own launcher of logical replication, ours, a dispatcher, and a look into a database that hangs.
    let cluster = Cluster::builder().set("max_worker_processes", "4").set("sched.runner_idle", "300ms").start();
    cluster.execute("create role mallory login createdb");
    let mut db = cluster.with_extension("postgres");
    let mut mallory = cluster.connect_as("mallory", "postgres");
    mallory.batch_execute("create database hung is_template true").unwrap();
    let holder = lock_the_catalogs(&cluster, "hung");
    mallory.batch_execute("alter database hung is_template false").unwrap();
    let looks = "select pid from pg_stat_activity where backend_type = 'scheduler dispatcher' and datname = 'hung' and wait_event_type = 'Lock'";
    let hung: i32 = wait_until("a look", SOON, || db.query_opt(looks, &[]).unwrap().map(|row| row.get(0)));
    proc::kill(hung, Signal::STOP);
    db.batch_execute(
        "select sched.define_job('pulled'); select sched.create_schedule('s', 'every 100 milliseconds', 'pulled', catch_up => 'every_plan')",
    )
    .unwrap();
    define(&mut db, "waits", "select 1", "");
    let ids = enqueue(&mut db, "waits", 5);
    let no_slot = "no worker slot is free for a runner of SQL jobs";
    wait_until("a line in the log", SOON, || (!cluster.logged(no_slot).is_empty()).then_some(()));
    let now: String = one(&mut db, "select clock_timestamp()::text");
    wait_for(
        &mut db,
        &format!("select count(*) >= 30 from sched.execution where schedule_name = 's' and plan_time > '{now}'"),
        SOON,
    );
    assert_eq!(cluster.logged(no_slot).len(), 1, "{:#?}", cluster.logged(no_slot));
    let waiting = "select count(*) from sched.execution where status = 'PENDING' and job_name = 'waits'";
    assert_eq!(one::<i64>(&mut db, waiting), 5);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where attempt > 0"), 0);
    whole_grid(&mut db, "s", "100 milliseconds");
    // Half of the fires are as soon as without: within 100 ms of their plan time.
    let late: f64 = one(
        &mut db,
        &format!(
            "select percentile_cont(0.5) within group (order by extract(epoch from created_at - plan_time))::float8
                    from sched.execution where schedule_name = 's' and plan_time > '{now}'"
        ),
    );
    println!("half of the fires within {late} s");
    assert!(late < 0.1, "{late}");
    // A slot is free when the look has ended.
    drop(holder);
    proc::kill(hung, Signal::CONT);
    let free: String = one(&mut db, "select clock_timestamp()::text");
    for id in &ids {
        assert_eq!(ended(&mut db, id).0, "SUCCESS");
    }
    let after: f64 = one(&mut db, &format!("select extract(epoch from min(started_at) - '{free}')::float8 from sched.execution where job_name = 'waits'"));
    println!("began {after} s after a slot was free");
    assert!(after < FORKED, "{after}");
    // Of the five that waited four had no slot of their own: that is over when a look finds as many as it asks for.
    let again = "runners of SQL jobs can be started again";
    assert_eq!(cluster.logged(again), Vec::<String>::new());
    wait_until("no runner", SOON, || runners(&mut db).is_empty().then_some(()));
    let id = enqueue(&mut db, "waits", 1).remove(0);
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    wait_until("another line in the log", SOON, || (!cluster.logged(again).is_empty()).then_some(()));
    assert_eq!((cluster.logged(no_slot).len(), cluster.logged(again).len()), (1, 1));
}

#[test]
fn max_sql_runners_holds_over_databases_and_owners() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "3").start();
    cluster.execute("create database other");
    let mut databases = [cluster.with_extension("postgres"), cluster.with_extension("other")];
    for db in &mut databases {
        with_roles(&cluster, db, &["one", "two"]);
    }
    let mut clients: Vec<Client> = ["postgres", "other"]
        .iter()
        .flat_map(|database| ["one", "two"].map(|role| cluster.connect_as(role, database)))
        .collect();
    for client in &mut clients {
        let job: String = one(client, "select current_user::text");
        define(client, &job, "select pg_sleep(0.03)", "");
    }
    for client in &mut clients {
        let job: String = one(client, "select current_user::text");
        enqueue(client, &job, 20);
    }
    let all: Vec<(f64, f64)> = databases
        .iter_mut()
        .flat_map(|db| {
            all_ended(db);
            times(db)
        })
        .collect();
    assert_eq!(all.len(), 80);
    let most = most_at_once(&all);
    println!("{most} at once");
    assert!((2..=3).contains(&most), "{most} at once");
}

/// How many runs of others began between the moment when an execution was there and its own begin.
fn others_before(db: &mut Client, others: &mut Client, id: &str) -> i64 {
    assert_eq!(ended(db, id).0, "SUCCESS");
    let query = format!("select created_at::text, started_at::text from sched.execution where id = '{id}'");
    let row = db.query_one(&query, &[]).unwrap();
    let (created, started): (String, String) = (row.get(0), row.get(1));
    let query = format!(
        "select count(*) from sched.execution where job_name = 'many' and started_at > '{created}' and started_at < '{started}'"
    );
    one(others, &query)
}

/// With one place for all: a thousand runs of somebody keep the one of somebody else waiting for one of theirs.
#[test]
fn nobody_waits_for_all_the_runs_of_another() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").start();
    cluster.execute("create database other");
    let mut db = cluster.with_extension("postgres");
    let mut far = cluster.with_extension("other");
    with_roles(&cluster, &mut db, &["many", "few"]);
    with_roles(&cluster, &mut far, &["few"]);
    let mut many = cluster.connect_as("many", "postgres");
    define(&mut many, "many", "select pg_sleep(0.03)", "");
    enqueue(&mut many, "many", 1000);
    for database in ["postgres", "other", "postgres", "other", "postgres"] {
        let mut few = cluster.connect_as("few", database);
        define(&mut few, "few", "select 1", "");
        // The others are at it again.
        let now: String = one(&mut db, "select clock_timestamp()::text");
        wait_for(
            &mut db,
            &format!("select count(*) >= 3 from sched.execution where started_at > '{now}' and job_name = 'many'"),
            SOON,
        );
        let id = enqueue(&mut few, "few", 1).remove(0);
        let before = others_before(&mut few, &mut db, &id);
        println!("in {database}: {before} runs of the others came first");
        assert!(before <= 2, "{before} runs of the others came first");
    }
    assert!(one::<i64>(&mut db, &count_of(READY)) > 0, "the others have not come to their end");
}

/// With several places: who has none gets the next one, and who waits for the others' is not starved by his own number.
#[test]
fn several_owners_share_the_places() {
    let cluster =
        Cluster::builder().set("sched.max_sql_runners", "4").set("sched.max_sql_runners_per_role", "4").start();
    let mut db = cluster.with_extension("postgres");
    with_roles(&cluster, &mut db, &["many", "one", "two"]);
    let mut many = cluster.connect_as("many", "postgres");
    define(&mut many, "many", "select pg_sleep(0.05)", "");
    enqueue(&mut many, "many", 1000);
    sleeping(&mut db, "many", 4);
    let mut ids = Vec::new();
    for role in ["one", "two"] {
        let mut client = cluster.connect_as(role, "postgres");
        define(&mut client, role, "select pg_sleep(0.05)", "");
        ids.push(enqueue(&mut client, role, 20).pop().unwrap());
    }
    for id in &ids {
        assert_eq!(ended(&mut db, id).0, "SUCCESS");
    }
    let of = |db: &mut Client, job: &str| -> i64 {
        one(db, &format!("select count(*) from sched.execution where job_name = '{job}' and status = 'SUCCESS'"))
    };
    let (others, theirs) = (of(&mut db, "many"), of(&mut db, "one") + of(&mut db, "two"));
    println!("{theirs} runs of two owners, {others} of the one with a thousand");
    assert_eq!(theirs, 40);
    // A third of the places each, more or less; not in the order in which they came.
    assert!(others < 200, "{others}");
}

/// When the newest runs of the job `job` began and ended.
fn newest(db: &mut Client, count: usize) -> Vec<(f64, f64)> {
    let query = format!(
        "select extract(epoch from started_at)::float8, extract(epoch from finished_at)::float8 from sched.execution
          where job_name = 'job' and status = 'SUCCESS' order by started_at desc limit {count}"
    );
    let times: Vec<(f64, f64)> = db.query(&query, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(times.len(), count);
    times
}

/// Also where the processes are there already: those that are too many leave, and what runs comes to its end.
#[test]
fn no_run_begins_above_a_limit_that_was_lowered() {
    let cluster = Cluster::builder()
        .set("sched.max_sql_runners", "4")
        .set("sched.max_sql_runners_per_role", "4")
        .set("sched.runner_idle", "1h")
        .start();
    let mut db = cluster.with_extension("postgres");
    let mut holder = cluster.connect();
    define(&mut db, "job", "select pg_sleep(0.1)", "");
    define(&mut db, "held", "select pg_advisory_xact_lock_shared(1)", "");
    let held =
        "select count(*) = 4 from pg_stat_activity where backend_type = 'scheduler runner' and wait_event = 'advisory'";
    for setting in ["sched.max_sql_runners", "sched.max_sql_runners_per_role"] {
        let lower = |db: &mut Client| {
            cluster.set(setting, "1");
            wait_for(db, &format!("select current_setting('{setting}') = '1'"), SOON);
        };
        // Four that run, while others wait.
        holder.batch_execute("select pg_advisory_lock(1)").unwrap();
        enqueue(&mut db, "held", 4);
        wait_for(&mut db, held, SOON);
        enqueue(&mut db, "job", 8);
        lower(&mut db);
        holder.batch_execute("select pg_advisory_unlock(1)").unwrap();
        all_ended(&mut db);
        assert_eq!(most_at_once(&newest(&mut db, 8)), 1, "after four that ran, with {setting} of 1");
        // Four that are idle.
        cluster.set(setting, "4");
        holder.batch_execute("select pg_advisory_lock(1)").unwrap();
        enqueue(&mut db, "held", 4);
        wait_for(&mut db, held, SOON);
        holder.batch_execute("select pg_advisory_unlock(1)").unwrap();
        all_ended(&mut db);
        let idle = "select count(*) = 4 from pg_stat_activity where backend_type = 'scheduler runner' and query = 'waiting for a run'";
        wait_for(&mut db, idle, SOON);
        lower(&mut db);
        enqueue(&mut db, "job", 8);
        all_ended(&mut db);
        assert_eq!(most_at_once(&newest(&mut db, 8)), 1, "after four that were idle, with {setting} of 1");
        let failed = "select count(*) from sched.execution where status <> 'SUCCESS'";
        assert_eq!(one::<i64>(&mut db, failed), 0, "what runs comes to its end");
        cluster.set(setting, "4");
    }
}

/// A role that has its share in one database, and work without end there, has a turn in the other.
#[test]
fn the_databases_of_one_role_share_what_it_may_have() {
    let cluster = Cluster::builder().set("sched.max_sql_runners_per_role", "1").set("sched.runner_idle", "1h").start();
    cluster.execute("create database other");
    let mut db = cluster.with_extension("postgres");
    let mut far = cluster.with_extension("other");
    define(&mut db, "many", "select pg_sleep(0.03)", "");
    define(&mut far, "few", "select 1", "");
    enqueue(&mut db, "many", 1000);
    for _ in 0..3 {
        let begun = "select count(*) from sched.execution where attempt > 0";
        let before: i64 = one(&mut db, begun);
        wait_for(&mut db, &format!("select ({begun}) > {before} + 2"), SOON);
        let id = enqueue(&mut far, "few", 1).remove(0);
        assert_eq!(ended(&mut far, &id).0, "SUCCESS");
    }
    assert!(one::<i64>(&mut db, &count_of(READY)) > 0, "the other has not come to its end");
    // And when it is idle it leaves.
    db.batch_execute("select sched.cancel_many(job_name => 'many')").unwrap();
    all_ended(&mut db);
    let id = enqueue(&mut far, "few", 1).remove(0);
    assert_eq!(ended(&mut far, &id).0, "SUCCESS");
    assert_eq!(most_at_once(&[times(&mut db), times(&mut far)].concat()), 1);
}

#[test]
fn without_runners_nothing_runs_and_with_some_it_goes_on() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "0").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    let ids = enqueue(&mut db, "job", 3);
    let begun = "select count(*) from sched.execution where attempt > 0";
    stays("what has begun", Duration::from_secs(1), || (one::<i64>(&mut db, begun), runners(&mut db)));
    cluster.set("sched.max_sql_runners", "2");
    for id in &ids {
        assert_eq!(ended(&mut db, id).0, "SUCCESS");
    }
    // Down to none while one runs and one is idle: what runs comes to its end, and nothing begins.
    define(&mut db, "long", "select pg_sleep(0.5)", "");
    let id = enqueue(&mut db, "long", 1).remove(0);
    sleeping(&mut db, "long", 1);
    cluster.set("sched.max_sql_runners", "0");
    enqueue(&mut db, "job", 3);
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    wait_until("no runner", SOON, || runners(&mut db).is_empty().then_some(()));
    stays("what has begun", Duration::from_secs(1), || (one::<i64>(&mut db, begun), runners(&mut db)));
    cluster.set("sched.max_sql_runners", "1");
    all_ended(&mut db);
}

#[test]
fn switched_off_nothing_begins() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    let id = enqueue(&mut db, "job", 1).remove(0);
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    define(&mut db, "long", "select pg_sleep(0.5)", "");
    let long = enqueue(&mut db, "long", 1).remove(0);
    sleeping(&mut db, "long", 1);
    switch_off(&cluster, &mut db);
    let ids = enqueue(&mut db, "job", 10);
    let begun = "select count(*) from sched.execution where job_name = 'job' and attempt > 0";
    stays("what has begun", Duration::from_secs(1), || one::<i64>(&mut db, begun));
    assert_eq!(ended(&mut db, &long).0, "SUCCESS", "what runs comes to its end");
    wait_until("no runner", SOON, || runners(&mut db).is_empty().then_some(()));
    cluster.set("sched.enabled", "on");
    for id in &ids {
        assert_eq!(ended(&mut db, id).0, "SUCCESS");
    }
}

/// What is committed without a word to anybody.
#[test]
fn a_prepared_enqueue_runs_within_a_tick() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    for round in ["the first", "a later one"] {
        db.batch_execute("begin").unwrap();
        let id = enqueue(&mut db, "job", 1).remove(0);
        db.batch_execute("prepare transaction 'p'").unwrap();
        db.batch_execute("commit prepared 'p'").unwrap();
        assert_eq!(ended(&mut db, &id).0, "SUCCESS", "{round}");
    }
}

/// A place that nobody works in is given up as soon as somebody waits for it.
#[test]
fn an_idle_runner_leaves_its_place_to_who_waits() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").set("sched.runner_idle", "1h").start();
    cluster.execute("create database other");
    let mut databases = [cluster.with_extension("postgres"), cluster.with_extension("other")];
    let mut waited = Vec::new();
    for db in &mut databases {
        with_roles(&cluster, db, &["one", "two"]);
    }
    for round in 0..3 {
        for (database, role) in [("postgres", "one"), ("postgres", "two"), ("other", "two"), ("other", "one")] {
            let mut client = cluster.connect_as(role, database);
            define(&mut client, role, "select 1", "");
            let id = enqueue(&mut client, role, 1).remove(0);
            assert_eq!(ended(&mut client, &id).0, "SUCCESS", "{role} in {database}, round {round}");
            let query = format!(
                "select extract(epoch from started_at - created_at)::float8 from sched.execution where id = '{id}'"
            );
            waited.push(Duration::from_secs_f64(one(&mut client, &query)));
        }
    }
    println!("{waited:?}");
    mostly_within(Duration::from_secs_f64(FORKED), &waited);
}

/// A process that somebody has stopped (a debugger, a frozen container) counts on nobody's behalf.
#[test]
fn a_frozen_idle_runner_keeps_no_run_waiting() {
    let cluster = Cluster::builder()
        .set("sched.max_sql_runners", "2")
        .set("sched.max_sql_runners_per_role", "2")
        .set("sched.runner_idle", "1h")
        .start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    let id = enqueue(&mut db, "job", 1).remove(0);
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    let waiting = "select count(*) = 1 from pg_stat_activity where backend_type = 'scheduler runner' and query = 'waiting for a run'";
    wait_for(&mut db, waiting, SOON);
    let frozen = runners(&mut db)[0];
    proc::kill(frozen, Signal::STOP);
    wait_until("it to be stopped", SOON, || proc::is_stopped(frozen).then_some(()));
    for _ in 0..3 {
        let id = enqueue(&mut db, "job", 1).remove(0);
        assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    }
    proc::kill(frozen, Signal::CONT);
    let id = enqueue(&mut db, "job", 1).remove(0);
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
}
