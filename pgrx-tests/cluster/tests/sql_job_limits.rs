//! What ends a run of a SQL job beside `sched.cancel`: somebody's `pg_cancel_backend`, `run_timeout`, and `statement_timeout`.

use scheduler_cluster_tests::scheduler::{mostly_within, one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, sleeping};
use scheduler_cluster_tests::{wait_for, Cluster};
use std::time::Duration;

fn pair(status: &str, code: &str) -> (String, String) {
    (status.to_owned(), code.to_owned())
}

#[test]
fn a_cancel_from_outside_fails_the_run() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "once", "select pg_sleep(3600)", "");
    define(&mut db, "retried", "select pg_sleep(3600)", "max_attempts => 2");
    for job in ["once", "retried"] {
        enqueue(&mut db, job, 1);
        let (id, pid) = sleeping(&mut db, job, 1).remove(0);
        assert!(db.query_one("select pg_cancel_backend($1)", &[&pid]).unwrap().get::<_, bool>(0));
        if job == "retried" {
            wait_for(
                &mut db,
                &format!("select count(*) = 1 from sched.running where id = '{id}' and attempt = 2"),
                SOON,
            );
            let (_, pid) = sleeping(&mut db, job, 1).remove(0);
            db.query_one("select pg_cancel_backend($1)", &[&pid]).unwrap();
        }
        assert_eq!(ended(&mut db, &id), pair("FAILED", "57014"));
        let message: String = one(&mut db, &format!("select error_msg from sched.execution where id = '{id}'"));
        assert!(message.contains("canceling statement due to user request"), "{message}");
    }
}

/// One that comes while the process waits for work means nothing, and neither does one that came before it began.
#[test]
fn a_cancel_of_an_idle_runner_means_nothing() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").set("sched.runner_idle", "1h").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "short", "select pg_backend_pid()", "");
    let mut pids = Vec::new();
    for _ in 0..20 {
        let id = enqueue(&mut db, "short", 1).remove(0);
        assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
        let runner: String = one(&mut db, &format!("select runner_id from sched.execution where id = '{id}'"));
        let pid: i32 = runner.strip_prefix("sql/").unwrap().parse().unwrap();
        db.query_one("select pg_cancel_backend($1)", &[&pid]).unwrap();
        pids.push(pid);
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "the process stays: {pids:?}");
}

#[test]
fn run_timeout_ends_a_run_in_time() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // In the middle of a statement that waits, of one that computes, and of several.
    let commands = [
        "select pg_sleep(3600)",
        "select count(*) from generate_series(1, 1000000000)",
        "do $$ begin loop perform 1; end loop; end $$",
    ];
    let (mut all, mut took) = (Vec::new(), Vec::new());
    for (number, command) in commands.iter().enumerate() {
        let job = format!("limited {number}");
        define(&mut db, &job, command, "run_timeout => '500 milliseconds'");
        all.extend((0..7).map(|_| job.clone()));
    }
    for job in all {
        let id = enqueue(&mut db, &job, 1).remove(0);
        assert_eq!(ended(&mut db, &id), pair("FAILED", "run_timeout"));
        let row = db
            .query_one("select duration_ms, error_msg from sched.execution where id = $1::text::uuid", &[&id])
            .unwrap();
        let (duration, message): (i64, String) = (row.get(0), row.get(1));
        assert!(duration >= 500, "{job} ended after {duration} ms");
        assert!(message.contains("did not end within its run_timeout of 0.5 seconds"), "{message}");
        took.push(Duration::from_millis(u64::try_from(duration).unwrap()));
    }
    println!("{took:?}");
    // 100 ms and 1 %: a busy machine may be late now and then.
    mostly_within(Duration::from_millis(605), &took);
}

#[test]
fn statement_timeout_of_the_role_holds() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role app login; select sched.grant_use('app'); alter role app set statement_timeout = '400ms'",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("set statement_timeout = 0").unwrap();
    define(&mut app, "long", "select 1; select pg_sleep(3600)", "");
    // Each statement has its own time.
    define(&mut app, "several", "select pg_sleep(0.2); select pg_sleep(0.2); select pg_sleep(0.2)", "");
    let id = enqueue(&mut app, "several", 1).remove(0);
    assert_eq!(ended(&mut app, &id), pair("SUCCESS", ""));
    let id = enqueue(&mut app, "long", 1).remove(0);
    assert_eq!(ended(&mut app, &id), pair("FAILED", "57014"));
    let message: String = one(&mut app, &format!("select error_msg from sched.execution where id = '{id}'"));
    assert!(message.contains("canceling statement due to statement timeout"), "{message}");
    assert!(message.contains("statement 2 of 2"), "{message}");
    // It is none of the limits of the next run, of another role.
    define(&mut db, "free", "select pg_sleep(0.6)", "");
    let id = enqueue(&mut db, "free", 1).remove(0);
    assert_eq!(ended(&mut db, &id), pair("SUCCESS", ""));
}
