//! `sched.cancel` of a run in the server: it ends that run, soon, and no other.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{dispatcher, one, rest, SOON};
use scheduler_cluster_tests::sql_jobs::{
    all_ended, define, effects_are_those_of_the_ledger, ended, enqueue, runners, sleeping, status,
};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Its effect is a row, and it takes a moment that differs.
const SHORT: &str =
    "insert into effect select execution_id, attempt from sched.this_run(); select pg_sleep(random() * 0.004)";

/// In transactions of their own; what ran twice would fail.
const STEPS: &str = "insert into steps select execution_id, 1 from sched.this_run(); select pg_sleep(random() * 0.002);
    insert into steps select execution_id, 2 from sched.this_run()";

fn pair(status: &str, code: &str) -> (String, String) {
    (status.to_owned(), code.to_owned())
}

#[test]
fn a_cancel_ends_a_run_within_a_second() {
    let cluster = Cluster::builder().set("sched.max_sql_runners_per_role", "4").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "long", "select pg_sleep(3600)", "max_attempts => 3");
    let mut took = Vec::new();
    for _ in 0..50 {
        enqueue(&mut db, "long", 4);
        for (id, _) in sleeping(&mut db, "long", 4) {
            let query = format!("select clock_timestamp()::text from sched.cancel('{id}') as done where done");
            let asked: String = one(&mut db, &query);
            assert_eq!(ended(&mut db, &id), pair("CANCELLED", "57014"));
            let query = format!(
                "select extract(epoch from finished_at - '{asked}')::float8 from sched.execution where id = '{id}'"
            );
            took.push(Duration::from_secs_f64(one::<f64>(&mut db, &query).max(0.0)));
        }
    }
    took.sort_unstable();
    println!("200 cancels: half within {:?}, 99 % within {:?}, all within {:?}", took[100], took[197], took[199]);
    assert!(took[197] <= Duration::from_secs(1), "{took:?}");
}

/// Cancels whatever runs just now, again and again; the executions for which it was told that they were asked to stop.
fn cancel_what_runs(cluster: &Cluster, stop: &AtomicBool) -> HashSet<String> {
    let mut db = cluster.connect();
    let query =
        &format!("select r.id::text from (select execution_id as id from {LEASE} l order by random() limit 1) as r where sched.cancel(r.id)");
    let mut asked = HashSet::new();
    while !stop.load(Ordering::SeqCst) {
        asked.extend(db.query(query, &[]).unwrap().iter().map(|row| row.get::<_, String>(0)));
    }
    asked
}

/// Cancels at random moments of a stream of short runs, until so many have ended CANCELLED.
fn cancels_in_a_stream(count: i64) {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "4").set("log_min_messages", "warning").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table effect (execution_id uuid, attempt int, unique (execution_id, attempt))").unwrap();
    db.batch_execute("create table steps (execution_id uuid, step int, unique (execution_id, step))").unwrap();
    define(&mut db, "short", SHORT, "");
    define(&mut db, "own", STEPS, "max_attempts => 3, own_transactions => true");
    let (mut all, stop, started) = (Vec::new(), AtomicBool::new(false), Instant::now());
    let asked: HashSet<String> = thread::scope(|scope| {
        let cancellers: Vec<_> = (0..2).map(|_| scope.spawn(|| cancel_what_runs(&cluster, &stop))).collect();
        let done = "select count(*) from sched.execution where status = 'CANCELLED'";
        wait_until("enough cancels", SOON * 15, || {
            if one::<i64>(&mut db, &count_of(READY)) < 500 {
                all.extend(enqueue(&mut db, "short", 400));
                all.extend(enqueue(&mut db, "own", 100));
            }
            (one::<i64>(&mut db, done) >= count).then_some(())
        });
        stop.store(true, Ordering::SeqCst);
        cancellers.into_iter().flat_map(|canceller| canceller.join().unwrap()).collect()
    });
    all_ended(&mut db);
    effects_are_those_of_the_ledger(&mut db, "'short'", &all);
    let mut cancelled = 0_usize;
    for row in db.query("select id::text, status, coalesce(error_code, '') from sched.execution", &[]).unwrap() {
        let (id, status, code): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let was_asked = asked.contains(&id);
        cancelled += usize::from(status == "CANCELLED");
        match (status.as_str(), code.as_str()) {
            ("SUCCESS", "") => {}
            ("CANCELLED", "57014") if was_asked => {}
            _ => panic!("{id}: {status} {code}, asked to stop: {was_asked}"),
        }
    }
    let unfinished = "select count(*) from sched.execution e where e.job_name = 'own' and e.status = 'SUCCESS'
                         and (select count(*) from steps s where s.execution_id = e.id) <> 2";
    assert_eq!(one::<i64>(&mut db, unfinished), 0);
    println!(
        "{} runs, {} asked to stop, {cancelled} of them before they were done, in {:?}",
        all.len(),
        asked.len(),
        started.elapsed()
    );
}

#[test]
fn a_thousand_cancels_at_random_moments_hit_no_other_run() {
    cancels_in_a_stream(1000);
}

#[test]
#[ignore = "minutes"]
fn long_ten_thousand_cancels_at_random_moments_hit_no_other_run() {
    cancels_in_a_stream(10_000);
}

#[test]
fn a_late_signal_hits_nothing() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table effect (execution_id uuid, attempt int, unique (execution_id, attempt))").unwrap();
    define(&mut db, "short", SHORT, "");
    let mut random = Random::seeded();
    let all = enqueue(&mut db, "short", 1000);
    let mut signals = 0;
    // What comes of a cancel whose run has just ended.
    while one::<i64>(&mut db, &count_of(READY)) > 0 {
        let pids = runners(&mut db);
        if !pids.is_empty() {
            proc::kill(pids[random.below(pids.len() as u64) as usize], Signal::USR2);
            signals += 1;
        }
    }
    all_ended(&mut db);
    assert!(signals > 0);
    effects_are_those_of_the_ledger(&mut db, "'short'", &all);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where status = 'SUCCESS'"), 1000);
}

#[test]
fn a_command_that_does_not_stop_is_terminated_after_the_grace() {
    let cluster = Cluster::builder().set("sched.cancel_grace", "700ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table deaf (n int)").unwrap();
    let deaf = "insert into deaf values (1);
        do $$ begin loop begin perform pg_sleep(3600); exception when query_canceled then null; end; end loop; end $$";
    define(&mut db, "deaf", deaf, "max_attempts => 3");
    define(&mut db, "limited", deaf, "run_timeout => '500 milliseconds'");
    enqueue(&mut db, "deaf", 1);
    let (id, pid) = sleeping(&mut db, "deaf", 1).remove(0);
    let asked: String = one(&mut db, &format!("select clock_timestamp()::text from sched.cancel('{id}')"));
    assert_eq!(ended(&mut db, &id).0, "CANCELLED");
    let after =
        format!("select extract(epoch from finished_at - '{asked}')::float8 from sched.execution where id = '{id}'");
    let after: f64 = one(&mut db, &after);
    println!("terminated {after} s after the cancel");
    assert!((0.7..SOON.as_secs_f64()).contains(&after));
    wait_until("the process to be gone", SOON, || (!proc::is_alive(pid)).then_some(()));
    // The same for one whose time is over.
    enqueue(&mut db, "limited", 1);
    let (id, pid) = sleeping(&mut db, "limited", 1).remove(0);
    assert_eq!(ended(&mut db, &id), pair("FAILED", "run_timeout"));
    wait_until("the process to be gone", SOON, || (!proc::is_alive(pid)).then_some(()));
    assert_eq!(one::<i64>(&mut db, "select count(*) from deaf"), 0);
}

/// A run that waits for an advisory lock of `holder`'s.
fn waiting_run(holder: &mut Client, db: &mut Client) -> String {
    holder.batch_execute("select pg_advisory_lock(1)").unwrap();
    define(db, "waits", "select pg_advisory_xact_lock(1)", "");
    let id = enqueue(db, "waits", 1).remove(0);
    wait_for(
        db,
        "select count(*) = 1 from pg_stat_activity where backend_type = 'scheduler runner' and wait_event = 'advisory'",
        SOON,
    );
    id
}

#[test]
fn a_cancel_that_is_rolled_back_cancels_nothing() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    let mut holder = cluster.connect();
    let id = waiting_run(&mut holder, &mut db);
    let cancel = format!("select sched.cancel('{id}')");
    for given_up in [
        format!("begin; {cancel}; rollback"),
        format!("begin; savepoint s; {cancel}; rollback to s; commit"),
        format!("begin; savepoint s; savepoint t; {cancel}; release t; rollback to s; commit"),
        format!("begin; {cancel}; prepare transaction 'p'; rollback prepared 'p'"),
        format!(
            "do $$ begin begin perform sched.cancel('{id}'); raise 'no'; exception when others then null; end; end $$"
        ),
    ] {
        for statement in given_up.split_inclusive("; ").filter(|_| !given_up.starts_with("do")) {
            db.batch_execute(statement).unwrap_or_else(|error| panic!("{given_up}: {error}"));
        }
        if given_up.starts_with("do") {
            db.batch_execute(&given_up).unwrap();
        }
        assert_eq!(status(&mut db, &id), pair("RUNNING", ""), "{given_up}");
        assert!(one::<bool>(&mut db, "select not cancel_requested from sched.running"), "{given_up}");
    }
    // One that is still open neither.
    db.batch_execute(&format!("begin; {cancel}")).unwrap();
    stays("the run", Duration::from_millis(300), || status(&mut holder, &id));
    db.batch_execute("rollback").unwrap();
    holder.batch_execute("select pg_advisory_unlock(1)").unwrap();
    assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
    // What is committed does, also out of subtransactions.
    for committed in [
        "begin; savepoint s; CANCEL; release s; commit",
        "begin; savepoint s; savepoint t; CANCEL; release t; release s; commit",
        "begin; savepoint s; rollback to s; CANCEL; commit",
        "begin; CANCEL; prepare transaction 'p'; commit prepared 'p'",
    ] {
        let id = waiting_run(&mut holder, &mut db);
        for statement in committed.split("; ") {
            let statement = statement.replace("CANCEL", &format!("select sched.cancel('{id}')"));
            db.batch_execute(&statement).unwrap_or_else(|error| panic!("{committed}: {error}"));
        }
        assert_eq!(ended(&mut db, &id), pair("CANCELLED", "57014"), "{committed}");
        holder.batch_execute("select pg_advisory_unlock_all()").unwrap();
    }
}

#[test]
fn a_frozen_run_is_given_up_after_a_cancel_and_commits_nothing() {
    let cluster = Cluster::builder().set("sched.cancel_grace", "500ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table effect (execution_id uuid, attempt int, unique (execution_id, attempt))").unwrap();
    let command = "insert into effect select execution_id, attempt from sched.this_run(); select pg_sleep(0.5)";
    define(&mut db, "frozen", command, "max_attempts => 3");
    let id = enqueue(&mut db, "frozen", 1).remove(0);
    let (_, pid) = sleeping(&mut db, "frozen", 1).remove(0);
    proc::kill(pid, Signal::STOP);
    // Without a time limit it is RUNNING as long as its process is there.
    let running = || ("RUNNING".to_owned(), String::new());
    let seen = stays("the run of a frozen process", Duration::from_millis(1500), || status(&mut db, &id));
    assert_eq!(seen, running());
    db.batch_execute(&format!("select sched.cancel('{id}')")).unwrap();
    assert_eq!(ended(&mut db, &id).0, "CANCELLED");
    proc::kill(pid, Signal::CONT);
    wait_until("the process to be gone", SOON, || (!proc::is_alive(pid)).then_some(()));
    assert_eq!(one::<i64>(&mut db, "select count(*) from effect"), 0);
    assert_eq!(status(&mut db, &id).0, "CANCELLED");
}

#[test]
fn a_cancel_needs_no_dispatcher() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "long", "select pg_sleep(3600)", "");
    let id = enqueue(&mut db, "long", 1).remove(0);
    sleeping(&mut db, "long", 1);
    let pid = dispatcher(&mut db).unwrap();
    rest(&mut db);
    proc::freeze(pid);
    db.batch_execute(&format!("select sched.cancel('{id}')")).unwrap();
    assert_eq!(ended(&mut db, &id), pair("CANCELLED", "57014"));
    proc::kill(pid, Signal::CONT);
}
