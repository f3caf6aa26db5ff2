//! Whatever dies, the workers are back within 5 s, and no plan is lost or runs twice.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, launcher, mostly_within, whole_grid, BACK, SOON};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

const PERIOD: &str = "200 milliseconds";

/// A schedule that runs each of its plans, however late.
fn start_firing(db: &mut Client) {
    // Few plans a tick, so that what a crash leaves behind takes several.
    let schedule = format!(
        "select sched.create_schedule('s', 'every {PERIOD}', 'job', catch_up => 'every_plan', max_plans_per_tick => 2)"
    );
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.batch_execute(&schedule).unwrap();
    fires_again(db);
}

/// Waits for executions of plans that are later than this moment.
fn fires_again(db: &mut Client) {
    let now: String = db.query_one("select clock_timestamp()::text", &[]).unwrap().get(0);
    wait_for(db, &format!("select count(*) >= 2 from sched.execution where plan_time > '{now}'"), SOON);
}

fn reconnect(cluster: &Cluster) -> Client {
    wait_until("the server to accept connections", SOON, || cluster.try_connect_as("postgres", "postgres").ok())
}

/// Waits for another process in its place; how long that took.
fn back(what: &str, db: &mut Client, old: i32, find: fn(&mut Client) -> Option<i32>) -> Duration {
    let started = Instant::now();
    wait_until(what, SOON, || find(db).filter(|pid| *pid != old));
    started.elapsed()
}

#[test]
fn a_terminated_dispatcher_or_launcher_is_back_each_time() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    start_firing(&mut db);
    let mut times = Vec::new();
    for round in 1..=4 {
        let old = dispatcher(&mut db).unwrap();
        db.execute("select pg_terminate_backend($1)", &[&old]).unwrap();
        let took = back("another dispatcher", &mut db, old, dispatcher);
        println!("dispatcher terminated ({round}): back after {took:?}");
        times.push(took);
    }
    fires_again(&mut db);
    for round in 1..=3 {
        let old = launcher(&mut db).unwrap();
        let served = dispatcher(&mut db);
        db.execute("select pg_terminate_backend($1)", &[&old]).unwrap();
        let took = back("another launcher", &mut db, old, launcher);
        println!("launcher terminated ({round}): back after {took:?}");
        times.push(took);
        assert_eq!(dispatcher(&mut db), served, "without its launcher the dispatcher goes on");
    }
    mostly_within(BACK, &times);
    // Both at once: the dispatcher dies while nobody is there to see it.
    let mut times = Vec::new();
    for round in 1..=3 {
        let (one, other) = (launcher(&mut db).unwrap(), dispatcher(&mut db).unwrap());
        db.execute("select pg_terminate_backend(pid) from unnest($1::int[]) as pid", &[&vec![one, other]]).unwrap();
        let took = back("another dispatcher", &mut db, other, dispatcher);
        println!("both terminated ({round}): back after {took:?}");
        times.push(took);
        wait_until("another launcher", SOON, || launcher(&mut db).filter(|pid| *pid != one));
    }
    mostly_within(BACK, &times);
    fires_again(&mut db);
    println!("{} plans", whole_grid(&mut db, "s", PERIOD));
}

#[test]
fn a_dispatcher_killed_with_9_restarts_the_server_and_loses_nothing() {
    let cluster = Cluster::builder().durable().start();
    let mut db = cluster.with_extension("postgres");
    start_firing(&mut db);
    let postmaster = cluster.postmaster();
    let mut times = Vec::new();
    for round in 1..=3 {
        let old = dispatcher(&mut db).unwrap();
        let started = Instant::now();
        proc::kill(old, Signal::KILL);
        wait_until("the connection to break", SOON, || db.is_valid(Duration::from_secs(1)).err());
        // How long the server takes to recover is up to the disk.
        db = reconnect(&cluster);
        let took = back("another dispatcher", &mut db, old, dispatcher);
        println!("dispatcher killed ({round}): back after {:?}, {took:?} after the recovery", started.elapsed());
        times.push(took);
        fires_again(&mut db);
    }
    mostly_within(BACK, &times);
    assert_eq!(cluster.postmaster(), postmaster);
    println!("{} plans", whole_grid(&mut db, "s", PERIOD));
}

#[test]
fn a_crash_of_the_whole_server_loses_nothing() {
    let cluster = Cluster::builder().durable().start();
    let mut db = cluster.with_extension("postgres");
    start_firing(&mut db);
    let mut times = Vec::new();
    for round in 1..=3 {
        cluster.crash();
        let started = Instant::now();
        cluster.start();
        db = reconnect(&cluster);
        let recovered = Instant::now();
        wait_until("a dispatcher", SOON, || dispatcher(&mut db));
        times.push(recovered.elapsed());
        println!("server crashed ({round}): dispatcher {:?} after the start", started.elapsed());
        fires_again(&mut db);
    }
    mostly_within(BACK, &times);
    println!("{} plans", whole_grid(&mut db, "s", PERIOD));
}

#[test]
fn what_was_acknowledged_survives_whatever_the_client_chose() {
    let cluster = Cluster::builder().durable().set("wal_writer_delay", "10s").start();
    let mut db = cluster.with_extension("postgres");
    for round in 1..=2 {
        // Nothing else flushes: without a synchronous commit of their own, claim and finish would be in memory only.
        db.batch_execute("set synchronous_commit = off").unwrap();
        let claim = "select execution_id::text, lease_token::text, fence from sched.try_claim('job', date_trunc('hour', now()), scope_id => $1)";
        let claimed = db.query_one(claim, &[&format!("claimed {round}")]).unwrap();
        let (id, token, fence): (String, String, i64) = (claimed.get(0), claimed.get(1), claimed.get(2));
        cluster.crash();
        cluster.start();
        db = reconnect(&cluster);
        db.batch_execute("set synchronous_commit = off").unwrap();
        let finish = format!("select sched.finish_success('{id}', '{token}')");
        db.batch_execute(&finish).expect("the lease that was acknowledged is still there");
        cluster.crash();
        cluster.start();
        db = reconnect(&cluster);
        let status: String =
            db.query_one(&format!("select status from sched.execution where id = '{id}'"), &[]).unwrap().get(0);
        assert_eq!(status, "SUCCESS", "the finish that was acknowledged");
        let later: i64 = db.query_one(claim, &[&format!("later {round}")]).unwrap().get(2);
        assert!(later > fence, "fence {later} was given after {fence}");
    }
}
