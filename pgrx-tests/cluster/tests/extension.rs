//! DROP EXTENSION in whatever way, while the dispatcher is at work: it leaves at once and in silence, and a new extension brings it back.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{begin_endless_statement, dispatcher, one, whole_grid, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

const FIRED: &str = "select count(*) > 50 from sched.execution";

/// 50 schedules that fire ten times a second each: the dispatcher is at work more often than not.
fn start_firing(db: &mut Client) {
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s ' || i, 'every 100 milliseconds', 'job', catch_up => 'every_plan')
           from generate_series(1, 50) as i",
    )
    .unwrap();
    wait_for(db, FIRED, SOON);
}

fn fires_on(db: &mut Client) {
    let now: String = one(db, "select clock_timestamp()::text");
    wait_for(db, &format!("select count(*) > 50 from sched.execution where plan_time > '{now}'"), SOON);
}

/// Runs what drops the extension. The longest sleep is a minute: whoever waits for it is late.
fn drops(db: &mut Client, command: &str) {
    let started = Instant::now();
    db.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    let took = started.elapsed();
    wait_until("the dispatcher to leave", SOON, || dispatcher(db).is_none().then_some(()));
    println!("{command}: {took:?}, without a dispatcher after {:?}", started.elapsed());
    assert!(took < SOON, "{command} took {took:?}");
}

#[test]
fn dropped_at_work_it_leaves_in_silence_and_comes_back_with_the_next() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    for round in 1..=6 {
        start_firing(&mut db);
        if round == 6 {
            begin_endless_statement(&mut db);
        }
        drops(&mut db, "drop extension scheduler");
        stays("the log", Duration::from_millis(1200), || cluster.logged("scheduler").len());
        db.batch_execute("create extension scheduler").unwrap();
        wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    }
    start_firing(&mut db);
    cluster.was_quiet(&["ERROR"]);
}

#[test]
fn a_drop_that_is_rolled_back_keeps_it_dispatching() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    start_firing(&mut db);
    db.batch_execute("begin; drop extension scheduler; rollback").unwrap();
    fires_on(&mut db);
    db.batch_execute("begin; savepoint s; drop extension scheduler; rollback to s").unwrap();
    // The transaction is still open.
    fires_on(&mut cluster.connect());
    db.batch_execute("commit").unwrap();
    // What a savepoint took back counts for nothing when the transaction commits.
    db.batch_execute("begin; savepoint s; drop extension scheduler; rollback to s; commit").unwrap();
    fires_on(&mut db);
    // A session that ends in the middle of it.
    let mut other = cluster.connect();
    other.batch_execute("begin; drop extension scheduler").unwrap();
    drop(other);
    fires_on(&mut db);
    for i in [1, 25, 50] {
        whole_grid(&mut db, &format!("s {i}"), "100 milliseconds");
    }
    cluster.was_quiet(&["ERROR"]);
}

#[test]
fn dropped_with_its_owner_or_its_language_it_leaves_as_well() {
    let cluster = Cluster::new();
    cluster.execute("create role dba superuser login");
    let mut db = cluster.connect();
    db.batch_execute("set statement_timeout = '20s'").unwrap();
    for command in ["drop owned by dba", "drop extension plpgsql cascade"] {
        cluster.connect_as("dba", "postgres").batch_execute("create extension scheduler").unwrap();
        wait_until("a dispatcher", SOON, || dispatcher(&mut db));
        if command.contains("owned") {
            start_firing(&mut db);
        } else {
            // Whoever waits for it instead of having it leave waits for an hour.
            begin_endless_statement(&mut db);
        }
        drops(&mut db, command);
        assert!(one::<bool>(&mut db, "select not exists (select from pg_extension where extname = 'scheduler')"));
        stays("the log", Duration::from_millis(1200), || cluster.logged("scheduler").len());
    }
    db.batch_execute("create extension plpgsql; create extension scheduler").unwrap();
    wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    start_firing(&mut db);
    cluster.was_quiet(&["ERROR"]);
}

#[test]
fn its_schema_goes_only_with_it() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    start_firing(&mut db);
    let before = dispatcher(&mut db);
    let error = db.batch_execute("drop schema sched cascade").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST), "{error:?}");
    fires_on(&mut db);
    assert_eq!(dispatcher(&mut db), before, "a command that cannot succeed sends nobody away");
}

#[test]
fn a_prepared_drop_leaves_no_noise_either() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    let mut db = cluster.with_extension("postgres");
    start_firing(&mut db);
    db.batch_execute("begin; drop extension scheduler; prepare transaction 'drop'").unwrap();
    // Its locks stay until it is decided; the dispatcher is back and waits for them.
    wait_for(&mut db, "select exists (select from pg_locks l join pg_stat_activity a using (pid) where a.backend_type = 'scheduler dispatcher' and not l.granted)", SOON);
    db.batch_execute("rollback prepared 'drop'").unwrap();
    fires_on(&mut db);
    db.batch_execute("begin; drop extension scheduler; prepare transaction 'drop'").unwrap();
    wait_for(&mut db, "select exists (select from pg_locks l join pg_stat_activity a using (pid) where a.backend_type = 'scheduler dispatcher' and not l.granted)", SOON);
    db.batch_execute("commit prepared 'drop'").unwrap();
    wait_until("the dispatcher to leave", SOON, || dispatcher(&mut db).is_none().then_some(()));
    cluster.was_quiet(&["ERROR"]);
}

/// No callback sees the end of a prepared transaction, so nobody asked for a dispatcher: whoever gives it work does.
#[test]
fn a_prepared_creation_gets_its_dispatcher_with_the_first_schedule() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    let mut db = cluster.connect();
    db.batch_execute("begin; create extension scheduler; prepare transaction 'create'").unwrap();
    cluster.connect().batch_execute("commit prepared 'create'").unwrap();
    let mut db = cluster.connect();
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 200 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 1 from sched.execution", SOON);
}
