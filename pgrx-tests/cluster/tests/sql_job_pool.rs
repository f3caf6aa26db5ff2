//! The processes of SQL jobs between two runs: used again, and in nobody's way.

use scheduler_cluster_tests::proc::cpu_ticks;
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::sql_jobs::{all_ended, define, ended, enqueue, runners, sleeping};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// For a command that waits for nobody, on a machine that may be busy.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Runs a job once; by which process.
fn run_once(db: &mut Client, job: &str) -> i32 {
    let id = enqueue(db, job, 1).remove(0);
    assert_eq!(ended(db, &id).0, "SUCCESS");
    let runner: String = one(db, &format!("select runner_id from sched.execution where id = '{id}'"));
    runner.strip_prefix("sql/").unwrap().parse().unwrap()
}

/// Waits until a runner has nothing to do any more.
fn idle(db: &mut Client, pid: i32) {
    let query = format!(
        "select count(*) = 1 from pg_stat_activity where pid = {pid} and state = 'idle' and query = 'waiting for a run'"
    );
    wait_for(db, &query, SOON);
}

#[test]
fn a_runner_is_used_again_and_leaves_when_idle() {
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    let first = run_once(&mut db, "job");
    for _ in 0..10 {
        idle(&mut db, first);
        assert_eq!(run_once(&mut db, "job"), first);
    }
    assert_eq!(runners(&mut db), [first]);
    // It hears of a shorter time while it waits.
    cluster.set("sched.runner_idle", "500ms");
    wait_until("it to leave", SOON, || runners(&mut db).is_empty().then_some(()));
    let second = run_once(&mut db, "job");
    let done = Instant::now();
    assert_ne!(second, first);
    idle(&mut db, second);
    wait_until("it to leave", SOON, || runners(&mut db).is_empty().then_some(()));
    println!("left after {:?}", done.elapsed());
    cluster.set("sched.runner_idle", "0");
    let mut pids: Vec<i32> = (0..5).map(|_| run_once(&mut db, "job")).collect();
    enqueue(&mut db, "job", 10);
    all_ended(&mut db);
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 5, "a fresh process for each run");
    let distinct = "select count(*) - count(distinct runner_id) from (select * from sched.execution order by created_at desc limit 15) as e";
    assert_eq!(one::<i64>(&mut db, distinct), 0, "a fresh process for each run");
}

#[test]
fn a_runner_leaves_after_a_hundred_runs() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    enqueue(&mut db, "job", 250);
    all_ended(&mut db);
    let query =
        "select array_agg(n order by n) from (select count(*) as n from sched.execution group by runner_id) as c";
    assert_eq!(one::<Vec<i64>>(&mut db, query), [50, 100, 100]);
}

/// Also where both come in one commit while the runner looks for work.
#[test]
fn a_busy_runner_sees_what_was_set_with_a_run() {
    const TIMES: i32 = 80;
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table seen (expected text, set text)").unwrap();
    define(&mut db, "busy", "select 1", "");
    define(
        &mut db,
        "tell",
        "insert into seen select payload->>'n', current_setting('app.n') from sched.this_run()",
        "",
    );
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut db = cluster.connect();
            while !is_over.load(SeqCst) {
                let id = enqueue(&mut db, "busy", 3).pop().unwrap();
                ended(&mut db, &id);
            }
        });
        for n in 1..=TIMES {
            db.batch_execute(&format!(
                "begin; alter database postgres set app.n = '{n}'; select sched.enqueue('tell', '{{\"n\": \"{n}\"}}'); commit"
            ))
            .unwrap();
            wait_for(&mut db, &format!("select count(*) = {n} from seen"), SOON);
        }
        is_over.store(true, SeqCst);
    });
    let old: i64 = one(&mut db, "select count(*) from seen where set is distinct from expected");
    assert_eq!(old, 0, "runs with settings of before, of {TIMES}");
}

#[test]
fn the_next_run_sees_what_alter_role_and_alter_database_have_set() {
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    cluster.execute("create role app login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table seen (value text); grant insert on seen to app; select sched.grant_use('app')")
        .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    let command = "insert into seen select current_setting('work_mem') || ' ' || current_setting('app.name', true)";
    define(&mut app, "job", command, "");
    let mut run = |app: &mut Client, expected: &str| {
        let pid = run_once(app, "job");
        let seen: Option<String> =
            one(&mut db, "with gone as (delete from seen returning value) select max(value) from gone");
        assert_eq!(seen.as_deref().unwrap_or(""), expected);
        pid
    };
    cluster.execute("alter role app set app.name = 'none'");
    let first = run(&mut app, "4MB none");
    assert_eq!(run(&mut app, "4MB none"), first);
    for (change, expected) in [
        ("alter role app set work_mem = '5MB'", "5MB none"),
        ("alter database postgres set app.name = 'database'", "5MB none"),
        ("alter role app reset app.name", "5MB database"),
        ("alter role app in database postgres set work_mem = '6MB'", "6MB database"),
        ("alter role all set work_mem = '7MB'", "6MB database"),
        ("alter role app in database postgres reset work_mem; alter role app reset work_mem", "7MB database"),
    ] {
        cluster.execute(change);
        run(&mut app, expected);
    }
    // What does not concern it does not.
    let last = run(&mut app, "7MB database");
    cluster.execute("create role other; alter role other set work_mem = '1MB'");
    assert_eq!(run(&mut app, "7MB database"), last);
}

/// A cluster in whose database `app` runners of two owners wait for work, and their dispatcher.
fn with_idle_runners() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    cluster.execute("create database app");
    cluster.execute("create role one login");
    let mut app = cluster.with_extension("app");
    app.batch_execute("select sched.grant_use('one')").unwrap();
    define(&mut app, "job", "select 1", "");
    define(&mut app, "long", "select pg_sleep(0.2)", "");
    enqueue(&mut app, "long", 3);
    let mut other = cluster.connect_as("one", "app");
    define(&mut other, "theirs", "select 1", "");
    run_once(&mut other, "theirs");
    drop(other);
    all_ended(&mut app);
    wait_until("idle runners", SOON, || {
        let idle = "select count(*) from pg_stat_activity where backend_type = 'scheduler runner' and state = 'idle' and query = 'waiting for a run'";
        (one::<i64>(&mut app, idle) >= 3).then_some(())
    });
    drop(app);
    let db = cluster.connect();
    (cluster, db)
}

fn at_once(db: &mut Client, command: &str) {
    let started = Instant::now();
    db.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    let took = started.elapsed();
    println!("{command}: {took:?}");
    assert!(took < AT_ONCE, "{command} took {took:?}");
}

#[test]
fn idle_runners_are_in_the_way_of_no_command_on_their_database() {
    let (cluster, mut db) = with_idle_runners();
    for command in [
        "create database copy template app",
        "alter database app rename to renamed",
        "alter database renamed rename to app",
        "create database another template app",
    ] {
        at_once(&mut db, command);
        // They are back when they are needed.
        let mut app = wait_until("a session", SOON, || {
            cluster.try_connect_as("postgres", if command.ends_with("renamed") { "renamed" } else { "app" }).ok()
        });
        wait_until("a dispatcher", SOON, || dispatcher(&mut app));
        run_once(&mut app, "job");
        idle_in(&mut app);
    }
    at_once(&mut db, "drop database app");
    stays("the runners", Duration::from_millis(500), || runners(&mut db));
    assert_eq!(runners(&mut db), Vec::<i32>::new());
    assert!(cluster.logged("FATAL").is_empty(), "{:#?}", cluster.logged("FATAL"));
}

/// Waits until a runner of this database waits.
fn idle_in(db: &mut Client) {
    let query = "select count(*) > 0 from pg_stat_activity where backend_type = 'scheduler runner' and datname = current_database()
                   and state = 'idle' and query = 'waiting for a run'";
    wait_for(db, query, SOON);
}

#[test]
fn idle_runners_are_in_the_way_of_no_command_on_the_extension() {
    let (cluster, _) = with_idle_runners();
    let mut app = cluster.connect_as("postgres", "app");
    at_once(&mut app, "alter extension scheduler update");
    at_once(&mut app, "begin; drop extension scheduler; rollback");
    wait_until("a dispatcher", SOON, || dispatcher(&mut app));
    run_once(&mut app, "job");
    idle_in(&mut app);
    at_once(&mut app, "drop extension scheduler");
    wait_until("no runner", SOON, || runners(&mut app).is_empty().then_some(()));
    app.batch_execute("create extension scheduler").unwrap();
    wait_until("a dispatcher", SOON, || dispatcher(&mut app));
    define(&mut app, "job", "select 1", "");
    run_once(&mut app, "job");
}

#[test]
fn a_busy_runner_is_a_session_like_any_other() {
    let (cluster, mut db) = with_idle_runners();
    let mut app = cluster.connect_as("postgres", "app");
    define(&mut app, "endless", "select pg_sleep(3600)", "");
    enqueue(&mut app, "endless", 1);
    let (_, pid) = sleeping(&mut app, "endless", 1).remove(0);
    drop(app);
    let refused = db.batch_execute("drop database app").expect_err("somebody is connected");
    assert_eq!(refused.code().map(|code| code.code()), Some("55006"), "{refused:?}");
    assert!(runners(&mut db).contains(&pid));
    at_once(&mut db, "drop database app with (force)");
    wait_until("no runner", SOON, || runners(&mut db).is_empty().then_some(()));
    // It leaves nothing behind that would keep others from running.
    let mut here = cluster.with_extension("postgres");
    define(&mut here, "job", "select 1", "");
    run_once(&mut here, "job");
}

#[test]
fn dropping_the_extension_waits_for_no_run_longer_than_for_any_session() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "endless", "select pg_sleep(3600)", "");
    enqueue(&mut db, "endless", 1);
    let (_, pid) = sleeping(&mut db, "endless", 1).remove(0);
    at_once(&mut db, "drop extension scheduler");
    // The run has lost its lease and cannot be finished; what it does is rolled back, or ends when somebody ends it.
    db.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
    wait_until("no runner", SOON, || runners(&mut db).is_empty().then_some(()));
}

/// What somebody has in hand (a cancel that is not committed) can be seen to wait, and cannot be claimed.
#[test]
fn a_runner_sleeps_over_what_it_cannot_claim() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    let mut other = cluster.connect();
    define(&mut db, "job", "select 1", "");
    define(&mut db, "long", "select pg_sleep(0.5)", "");
    let long = enqueue(&mut db, "long", 1).remove(0);
    let (_, pid) = sleeping(&mut db, "long", 1).remove(0);
    let id = enqueue(&mut db, "job", 1).remove(0);
    other.batch_execute(&format!("begin; select sched.cancel('{id}')")).unwrap();
    assert_eq!(ended(&mut db, &long).0, "SUCCESS");
    idle(&mut db, pid);
    let before = cpu_ticks(pid);
    stays("this loop", Duration::from_secs(2), || ());
    let used = cpu_ticks(pid) - before;
    println!("{used} hundredths of a second of CPU in 2 s");
    assert!(used <= 10, "{used} hundredths of a second of CPU in 2 s");
    // It does what it can meanwhile, and the rest soon after that is given back.
    assert_eq!(run_once(&mut db, "job"), pid);
    other.batch_execute("rollback").unwrap();
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
}
