//! What the server's log says of the commands of SQL jobs: what it says of those that clients send.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue};
use scheduler_cluster_tests::{wait_until, Client, Cluster};
use std::time::Duration;

/// The lines of runners in the log with this text, from there on; how long each took is left out.
fn lines(cluster: &Cluster, text: &str) -> Vec<String> {
    let from = |line: &String| {
        let (_, rest) = line.split_once("LOG:  ")?;
        let shown = match rest.strip_prefix("duration: ").and_then(|rest| rest.split_once(" ms")) {
            Some((_, rest)) => format!("duration: … ms{rest}"),
            None => rest.to_owned(),
        };
        (line.contains("scheduler runner[") && shown.contains(text)).then_some(shown)
    };
    cluster.logged("LOG:  ").iter().filter_map(from).collect()
}

fn run(db: &mut Client, job: &str, status: &str) {
    let id = enqueue(db, job, 1).remove(0);
    assert_eq!(ended(db, &id).0, status, "{job}");
}

/// The duration is said when the run has ended, and may be seen to have.
fn says(cluster: &Cluster, text: &str, expected: &[&str]) {
    wait_until(&format!("{expected:?} in the log"), Duration::from_secs(10), || {
        (lines(cluster, text).len() >= expected.len()).then_some(())
    });
    assert_eq!(lines(cluster, text), expected);
    // The statement stands in the line itself, and no second time below.
    assert_eq!(cluster.log().lines().filter(|line| line.contains("STATEMENT:") && line.contains(text)).count(), 0);
}

#[test]
fn slow_commands_are_found_in_the_log() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("alter database postgres set log_min_duration_statement = '150ms'").unwrap();
    define(&mut db, "slow", "select 'slow'; select pg_sleep(0.2)", "");
    define(&mut db, "quick", "select 'quick'", "");
    define(&mut db, "fails", "select 'fails', pg_sleep(0.2); select 1 / 0", "");
    define(
        &mut db,
        "own",
        "select 'own', 1; select 'own', pg_sleep(0.2) ; select 'own', 2",
        "own_transactions => true",
    );
    for (job, status) in [("quick", "SUCCESS"), ("fails", "FAILED"), ("slow", "SUCCESS"), ("own", "SUCCESS")] {
        run(&mut db, job, status);
    }
    // One that committed after all that it had put off.
    db.batch_execute(
        "create table late (id int);
         create function wait() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return null; end $$;
         create constraint trigger late after insert on late deferrable initially deferred for each row execute function wait()",
    )
    .unwrap();
    define(&mut db, "late", "insert into late values (1)", "");
    run(&mut db, "late", "SUCCESS");
    says(&cluster, "'own'", &["duration: … ms  statement: select 'own', pg_sleep(0.2)"]);
    says(&cluster, "'slow'", &["duration: … ms  statement: select 'slow'; select pg_sleep(0.2)"]);
    says(&cluster, "insert into late", &["duration: … ms  statement: insert into late values (1)"]);
    says(&cluster, "'quick'", &[]);
    // (As for a client: an error is logged as such.)
    says(&cluster, "'fails'", &[]);
    assert_eq!(one::<i64>(&mut db, "select count(*) from late"), 1);
}

#[test]
fn log_statement_and_log_duration_see_commands() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table t (id int); alter database postgres set log_statement = 'mod'").unwrap();
    define(&mut db, "reads", "select 'reads'", "");
    define(&mut db, "writes", "select 'writes'; insert into t values (1)", "");
    define(
        &mut db,
        "own",
        "select 'own'; insert into t values (2) returning 'own'; vacuum t",
        "own_transactions => true",
    );
    for job in ["reads", "writes", "own"] {
        run(&mut db, job, "SUCCESS");
    }
    says(&cluster, "'own'", &["statement: insert into t values (2) returning 'own'"]);
    says(&cluster, "'writes'", &["statement: select 'writes'; insert into t values (1)"]);
    says(&cluster, "'reads'", &[]);

    db.batch_execute(
        "alter database postgres set log_statement = 'all'; alter database postgres set log_duration = on",
    )
    .unwrap();
    run(&mut db, "reads", "SUCCESS");
    // Said once; the duration follows.
    says(&cluster, "'reads'", &["statement: select 'reads'"]);
    says(&cluster, "duration", &["duration: … ms"]);
}
