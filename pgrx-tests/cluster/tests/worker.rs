//! Who gets a dispatcher, and when it works: CREATE and DROP EXTENSION, restarts, several databases, `sched.databases`, `sched.enabled`.

use scheduler_cluster_tests::scheduler::{dispatcher, launcher, one, rest, served, serves_exactly, switch_off, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster, Shutdown};
use std::time::{Duration, Instant};

const FIRING: &str = "select sched.define_job('job');
    select sched.create_schedule('s', 'every 200 milliseconds', 'job')";
const FIRED: &str = "select count(*) >= 2 from sched.execution";

#[test]
fn create_extension_brings_a_dispatcher_and_so_does_a_restart() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    serves_exactly(&mut db, &[]);
    db.batch_execute("begin; create extension scheduler; rollback").unwrap();
    stays("who has a dispatcher after a rolled back CREATE EXTENSION", Duration::from_secs(1), || served(&mut db));

    db.batch_execute("create extension scheduler").unwrap();
    serves_exactly(&mut db, &["postgres"]);
    db.batch_execute(FIRING).unwrap();
    wait_for(&mut db, FIRED, SOON);

    for how in [Shutdown::Fast, Shutdown::Immediate] {
        let stopping = Instant::now();
        cluster.restart(how);
        let took = stopping.elapsed();
        assert!(took < SOON, "a {how:?} shutdown and a start took {took:?}");
        let mut db = cluster.connect();
        serves_exactly(&mut db, &["postgres"]);
        wait_for(&mut db, "select max(created_at) > pg_postmaster_start_time() from sched.execution", SOON);
    }
}

#[test]
fn each_database_with_the_extension_has_its_own() {
    let cluster = Cluster::new();
    for database in ["one", "two", "without"] {
        cluster.execute(&format!("create database {database}"));
    }
    let mut clients = ["one", "two"].map(|database| cluster.with_extension(database));
    for db in &mut clients {
        db.batch_execute(FIRING).unwrap();
    }
    for db in &mut clients {
        wait_for(db, FIRED, SOON);
    }
    // The launcher looks into every database once after its start.
    cluster.restart(Shutdown::Fast);
    let mut db = cluster.connect();
    serves_exactly(&mut db, &["one", "two"]);
    stays("who has a dispatcher", Duration::from_secs(2), || served(&mut db));
    for database in ["one", "two"] {
        let mut db = cluster.connect_as("postgres", database);
        wait_for(&mut db, "select max(created_at) > pg_postmaster_start_time() from sched.execution", SOON);
    }
}

#[test]
fn the_setting_databases_limits_who_is_served() {
    let cluster = Cluster::builder().set("sched.databases", "one").start();
    for database in ["one", "two"] {
        cluster.execute(&format!("create database {database}"));
        cluster.connect_as("postgres", database).batch_execute("create extension scheduler").unwrap();
    }
    let mut db = cluster.connect();
    serves_exactly(&mut db, &["one"]);
    stays("who has a dispatcher", Duration::from_secs(2), || served(&mut db));
    for (setting, expected) in
        [("two", vec!["two"]), ("*", vec!["one", "two"]), ("none", vec![]), ("one, two", vec!["one", "two"])]
    {
        cluster.set("sched.databases", setting);
        serves_exactly(&mut db, &expected);
    }
}

#[test]
fn enabled_off_stops_and_on_resumes_with_one_execution_for_the_missed() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 500 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, FIRED, SOON);
    let pid = dispatcher(&mut db);
    switch_off(&cluster, &mut db);
    let off: String = one(&mut db, "select clock_timestamp()::text");
    // A commit that would fire at once does not get through either.
    db.batch_execute("select sched.create_schedule('t', 'every 100 milliseconds', 'job')").unwrap();
    stays("the ledger", Duration::from_secs(3), || one::<i64>(&mut db, "select count(*) from sched.execution"));
    assert_eq!(dispatcher(&mut db), pid, "switched off it waits, it does not leave");

    let on: String = one(&mut db, "select clock_timestamp()::text");
    cluster.set("sched.enabled", "on");
    let fired = format!("from sched.execution where schedule_name = 's' and created_at > '{off}'");
    wait_for(&mut db, &format!("select count(*) > 3 {fired}"), SOON);
    let missed: i64 = one(&mut db, &format!("select count(*) {fired} and plan_time <= '{on}'"));
    assert!(missed <= 1, "one execution for all that was missed, not {missed}");
    // The latest of them, which may have come since.
    let latest = format!("select min(plan_time) > timestamptz '{on}' - interval '500 milliseconds' {fired}");
    assert!(one::<bool>(&mut db, &latest), "the latest of the missed plans runs, not the oldest");
}

#[test]
fn drop_extension_stops_the_dispatcher_and_create_brings_it_back() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    for round in ["armed", "armed again", "unarmed"] {
        if round == "unarmed" {
            rest(&mut db);
        } else {
            db.batch_execute(FIRING).unwrap();
            wait_for(&mut db, FIRED, SOON);
        }
        let started = Instant::now();
        db.batch_execute("drop extension scheduler").unwrap();
        let took = started.elapsed();
        assert!(took < SOON, "DROP EXTENSION took {took:?} ({round})");
        serves_exactly(&mut db, &[]);
        // Not one line more: neither errors nor dispatchers that are started in vain.
        stays("the log", Duration::from_millis(1500), || cluster.logged("scheduler").len());
        db.batch_execute("create extension scheduler").unwrap();
        serves_exactly(&mut db, &["postgres"]);
    }
    db.batch_execute(FIRING).unwrap();
    wait_for(&mut db, FIRED, SOON);
    // DROP may meet the dispatcher at work: that is one warning for a step at most.
    let warnings = cluster.logged("WARNING");
    assert!(warnings.len() <= 5, "{} warnings: {warnings:#?}", warnings.len());
    assert!(cluster.logged("FATAL").is_empty() && cluster.logged("PANIC").is_empty());
}

#[test]
fn dropped_and_created_in_one_go_it_keeps_firing() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    // The dispatcher sleeps through this and wakes in the new extension, with the old one's plans.
    db.batch_execute("drop extension scheduler; create extension scheduler").unwrap();
    db.batch_execute(FIRING).unwrap();
    wait_for(&mut db, FIRED, SOON);
    assert!(launcher(&mut db).is_some());
}

/// A dispatcher decides to leave, and before it has left the launcher sees that the database is to be served again, and by whom.
#[test]
fn a_dispatcher_that_is_wanted_again_while_it_leaves_is_replaced() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    let leaving = dispatcher(&mut db);
    // Where the server keeps in mind what extensions there are, it is to look anew.
    db.batch_execute("update pg_extension set extversion = extversion").unwrap();
    let mut lock = db.transaction().unwrap();
    lock.batch_execute("lock table pg_extension").unwrap();
    // It knows the setting, and waits for the lock.
    cluster.set("sched.databases", "none");
    let mut other = cluster.connect();
    wait_for(&mut other, "select exists (select from pg_locks join pg_stat_activity using (pid) where backend_type = 'scheduler dispatcher' and not granted)", SOON);
    let now: String = one(&mut other, "select clock_timestamp()::text");
    cluster.set("sched.databases", "*");
    let looked = format!(
        "select state = 'idle' and state_change > '{now}' from pg_stat_activity where backend_type = 'scheduler launcher'"
    );
    wait_for(&mut other, &looked, SOON);
    lock.commit().unwrap();
    wait_until("another dispatcher", SOON, || dispatcher(&mut other).filter(|pid| Some(*pid) != leaving));
    assert_eq!(cluster.logged("dispatcher for database \"postgres\" stopped").len(), 1, "it has left");
}
