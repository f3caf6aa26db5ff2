//! A worker that has nothing to do does nothing.

use scheduler_cluster_tests::proc::cpu_ticks;
use scheduler_cluster_tests::scheduler::{asleep_since, dispatcher, one, rest, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

#[test]
fn between_fires_the_worker_runs_no_query() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('far ' || i, 'every 1 hour', 'job') from generate_series(1, 100) as i;
         select sched.create_schedule('never', 'at 2001-01-01 00:00+00', 'job');
         select sched.create_schedule('paused', 'every 1 second', 'job', enabled => false);
         select sched.create_schedule('external', 'every 1 second', 'job', ownership => 'external')",
    )
    .unwrap();
    let since = rest(&mut db);
    let now = stays("since when the dispatcher sleeps", Duration::from_secs(4), || asleep_since(&mut db));
    assert_eq!(now, Some(since));
}

#[test]
fn an_idle_worker_asks_nothing_while_nothing_is_written() {
    // Its fallback comes all the time here.
    let cluster = Cluster::builder()
        .set("sched.tick_interval", "500ms")
        .set("autovacuum", "off")
        .set("max_prepared_transactions", "1")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select count(sched.create_schedule('far ' || i, 'every 1 day', 'job')) from generate_series(1, 5000) as i",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 5000 from sched.schedules where state = 'armed'", Duration::from_secs(120));
    for statement in ["vacuum analyze", "checkpoint"] {
        db.batch_execute(statement).unwrap();
    }
    let pid = dispatcher(&mut db).unwrap();
    // Two looks find the same; then its fallback comes and it looks no more. Statistics arrive within a second. (Autovacuum of what was
    // just written is no work of ours: there is none.)
    wait_until("the last look", SOON, || {
        let (looks, sleep) = (looked_at(&mut db), asleep_since(&mut db));
        stays("this loop", Duration::from_secs(2), || ());
        (looked_at(&mut db) == looks && asleep_since(&mut db) != sleep).then_some(())
    });
    let look = |db: &mut Client| {
        let xid: i64 = one(db, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint");
        let written: i64 = one(db, "select (pg_current_wal_insert_lsn() - '0/0')::bigint");
        (xid, written, looked_at(db))
    };
    let (before, cpu, since) = (look(&mut db), cpu_ticks(pid), asleep_since(&mut db));
    stays("this loop", Duration::from_secs(5), || ());
    let (after, cpu) = (look(&mut db), cpu_ticks(pid) - cpu);
    assert_ne!(asleep_since(&mut db), since, "its fallback came");
    assert_eq!(before.0, after.0, "a transaction id was assigned");
    assert_eq!(before.2, after.2, "it looked");
    println!("{cpu} hundredths of a second of CPU in 5 s");
    assert!(cpu <= 3, "{cpu} hundredths of a second of CPU in 5 s");

    // What is written and not told to anybody is looked for, as long as it is open: a prepared transaction, when others with later ids
    // have long ended.
    let mut other = cluster.connect();
    other
        .batch_execute("begin; select sched.create_schedule('prepared', 'every 1 day', 'job'); prepare transaction 'p'")
        .unwrap();
    other.batch_execute("create table own (i int)").unwrap();
    for _ in 0..3 {
        let last = looked_at(&mut db);
        wait_until("it to look", SOON, || (looked_at(&mut db) != last).then_some(()));
    }
    other.batch_execute("commit prepared 'p'").unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'prepared'", SOON);
}

/// Nobody tells of what a prepared transaction has written but whoever commits it.
#[test]
fn commit_prepared_wakes_the_dispatcher_at_once() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").set("sched.tick_interval", "10min").start();
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler; select sched.define_job('job', kind => 'log')").unwrap();
    wait_for(&mut db, "select ok from sched.health() where component = 'dispatcher'", SOON);
    let began = Instant::now();
    let prepared = ["select sched.create_schedule('s', 'every 1 day', 'job')", "select sched.enqueue('job')"];
    let done = [
        "select state = 'armed' from sched.schedules where schedule_name = 's'",
        "select count(*) = 1 from sched.history where job_name = 'job'",
    ];
    for (call, done) in prepared.into_iter().zip(done) {
        db.batch_execute(&format!("begin; {call}; prepare transaction 'p'")).unwrap();
        db.batch_execute("commit prepared 'p'").unwrap();
        wait_for(&mut db, done, SOON);
    }
    assert!(began.elapsed() < Duration::from_secs(300), "it was found by a look of its own");
}

/// When the dispatcher began its last transaction.
fn looked_at(db: &mut Client) -> String {
    one(db, "select query_start::text from pg_stat_activity where backend_type = 'scheduler dispatcher'")
}
