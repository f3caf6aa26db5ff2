//! What the libraries in `clients/` do beyond a worker of one's own, stated once for all languages. Each has a conformance worker whose handlers
//! docs/guides/write-a-worker.md lists.

use crate::clients::{asyncio_worker, python_worker, signal, Setting, Worker};
use scheduler_cluster_tests::proc::{Program, Signal};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, wait_until};

const JOBS: &str = "snooze, snooze by method, snooze by hand, finish by hand, list, told, commit, commit and begin, session, number, exact, enqueue, \
                    progress, serializable, wait, dead, snooze at the end";

fn setting() -> Setting {
    let mut here = Setting::new();
    let define = format!(
        "select sched.define_job(j, queue => 'conformance', retry_backoff => '{{1 hour}}', stale_timeout => '4 s', max_attempts => 2)
           from unnest('{{{JOBS}}}'::text[]) as j"
    );
    here.cluster.connect_as("app", "postgres").batch_execute(&define).unwrap();
    here.db
        .batch_execute(
            "create role other; grant other to app; create table counted (n bigint); grant all on counted to app",
        )
        .unwrap();
    here
}

fn end(program: &mut Program) {
    signal(program, Signal::TERM);
    let ended = wait_until("the worker to end", SOON, || program.ended());
    assert!(ended.success(), "{ended}: {}", program.printed());
}

/// The handler's writes come with the snooze, the attempt does not count, and nobody claims it before its time; also where the handler says so in SQL.
fn snoozes(worker: Worker) {
    let mut here = setting();
    let mut program = here.start(worker);
    for job in ["snooze", "snooze by method", "snooze by hand"] {
        let id = here.enqueue(job, "{}");
        here.waits_for(&id, "status = 'SUCCESS' and attempt = 1 and error_msg is null");
        let effects = format!("select string_agg(what, ' ' order by at) from effect where execution_id = '{id}'");
        assert_eq!(one::<String>(&mut here.db, &effects), "snoozed done", "{job}: {}", program.printed());
        let apart = format!("select max(at) - min(at) between interval '0.8 s' and interval '20 s' from effect where execution_id = '{id}'");
        assert!(one::<bool>(&mut here.db, &apart), "{job}");
    }
    let id = here.enqueue("finish by hand", "{}");
    here.waits_for(&id, "status = 'SUCCESS' and attempt = 1 and result = '{\"by\": \"hand\"}'");
    assert_eq!(here.effects(&id), 1);
    assert!(!program.printed().contains("lease was lost"), "{}", program.printed());
    end(&mut program);
}

/// Class, type, message and the innermost function, whatever the message's length; the hook for a final failure commits with it.
fn tells_errors(worker: Worker) {
    let mut here = setting();
    let mut program = here.start(worker);
    let short = here.enqueue("told", r#"{"message": "told to fail"}"#);
    here.waits_for(
        &short,
        "status = 'FAILED' and error_code = 'Told' and error_msg like 'Told: told to fail%' and error_msg like '%innermost%'
         and error_msg like '%the cause%' and next_retry_at is not null",
    );
    assert_eq!(here.effects(&short), 0, "it is not dead");
    let long = here.enqueue("told", &format!(r#"{{"message": "{}"}}"#, "m".repeat(9_000)));
    here.waits_for(
        &long,
        "status = 'FAILED' and error_msg like 'Told: mmm%' and error_msg like '%innermost%' and length(error_msg) between 1000 and 4000",
    );
    for job in ["commit", "commit and begin"] {
        let id = here.enqueue(job, "{}");
        here.waits_for(&id, "status = 'FAILED' and error_msg like '%COMMIT%'");
    }
    let dead = here.enqueue("dead", "{}");
    here.waits_for(&dead, "status = 'FAILED' and next_retry_at is null");
    let effects = format!("select string_agg(what, ' ') from effect where execution_id = '{dead}'");
    assert_eq!(one::<String>(&mut here.db, &effects), "dead", "{}", program.printed());
    // A number that would be another one is an error, and what has more digits than a float is not.
    for (payload, condition) in
        [(r#"{"n": 0.1234567890123456789}"#, "status = 'FAILED'"), (r#"{"n": 1.50, "m": 1e3}"#, "status = 'SUCCESS'")]
    {
        let id = here.enqueue("number", payload);
        here.waits_for(&id, condition);
    }
    let exact = here.enqueue("exact", "{}");
    here.waits_for(&exact, "result = '{\"n\": 123456789012345678901234567890}'");
    let list = here.enqueue("list", "{}");
    here.waits_for(&list, "result = '[1, 2]'");
    // Scopes of any scalar type, and what is refused: an option that there is not, a payload that is no object.
    let enqueues = here.enqueue("enqueue", "{}");
    here.waits_for(&enqueues, "status = 'SUCCESS' and result = '{\"refused\": 2}'");
    let scoped = "select count(*) = 1 from sched.execution where job_name = 'effect' and scope_id = '7' and payload = '{\"number\": 8}'";
    wait_for(&mut here.db, scoped, SOON);
    let shown = here.enqueue("progress", "{}");
    here.waits_for(&shown, "status = 'RUNNING' and progress = '{\"done\": 0.5}'");
    here.waits_for(&shown, "status = 'SUCCESS'");
    end(&mut program);
}

/// What a handler leaves in its session is gone, what a role sets does not matter, and a conflict at COMMIT costs no attempt.
fn keeps_sessions(worker: Worker) {
    let mut here = setting();
    let first = here.enqueue("session", r#"{"leave": true}"#);
    let second = here.enqueue("session", "{}");
    let mut program = here.start_with(worker, &["--slots", "1"]);
    here.waits_for(&first, "status = 'SUCCESS' and attempt = 1");
    here.waits_for(
        &second,
        "result = '{\"role\": \"app\", \"search_path\": \"\\\"$user\\\", public\", \"temp\": false, \"locks\": 0}'",
    );
    end(&mut program);

    let ids = ["effect", "batch", "slow", "fail"].map(|job| here.enqueue(job, r#"{"seconds": 6}"#));
    let conflicting = here.enqueue("serializable", "{}");
    here.db
        .batch_execute(
            "alter role app set default_transaction_isolation = 'serializable'; alter role app set default_transaction_read_only = on;
             alter role app set idle_in_transaction_session_timeout = '2s'; alter role app set statement_timeout = '3s'",
        )
        .unwrap();
    let mut program = here.start(worker);
    let sleeps = "select count(*) > 0 from pg_stat_activity where wait_event = 'PgSleep' and query like '%2.5%'";
    wait_for(&mut here.db, sleeps, SOON);
    here.db
        .batch_execute("begin isolation level serializable; insert into counted select coalesce(max(n), 0) + 1 from counted; commit")
        .unwrap();
    for id in [&ids[..], &[conflicting]].concat() {
        here.waits_for(&id, "attempt = 1 and status = case job_name when 'fail' then 'FAILED' else 'SUCCESS' end");
    }
    assert_eq!(one::<String>(&mut here.db, "select string_agg(n::text, ' ' order by n) from counted"), "1 2");
    assert!(!program.printed().contains("connection:"), "{}", program.printed());
    end(&mut program);
}

/// Forty handlers that wait have no transaction, and their worker has ten connections. What it does at the end commits with the success.
fn finishes(worker: Worker) {
    let mut here = setting();
    let ids: Vec<String> = (0..40).map(|_| here.enqueue("wait", r#"{"seconds": 6}"#)).collect();
    let result = here.enqueue("list", "{}");
    let mut program = here.start_with(worker, &["--transaction", "finish", "--slots", "40", "--batch", "1"]);
    wait_for(&mut here.db, "select count(*) = 40 from sched.running", SOON);
    let connections = "select count(*) from pg_stat_activity where usename = 'app'";
    assert!(one::<i64>(&mut here.db, connections) <= 10);
    let idle = "select count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'";
    wait_for(&mut here.db, idle, SOON);
    assert!(one::<i64>(&mut here.db, "select count(*) from sched.running") >= 39, "they wait: {}", program.printed());
    for id in &ids {
        here.waits_for(id, "status = 'SUCCESS' and attempt = 1 and result = '{\"waited\": true}'");
    }
    assert_eq!(one::<i64>(&mut here.db, "select count(distinct execution_id) from effect"), 40);
    assert!(one::<i64>(&mut here.db, connections) <= 10);
    here.waits_for(&result, "status = 'SUCCESS' and result = '[1, 2]'");
    let told = here.enqueue("told", r#"{"message": "told to fail"}"#);
    here.waits_for(&told, "status = 'FAILED' and attempt = 1 and error_code = 'Told'");
    let snoozed = here.enqueue("snooze at the end", "{}");
    here.waits_for(&snoozed, "status = 'SUCCESS' and attempt = 1");
    assert_eq!(here.effects(&snoozed), 2, "{}", program.printed());
    let dead = here.enqueue("dead", "{}");
    here.waits_for(&dead, "status = 'FAILED' and next_retry_at is null");
    assert_eq!(here.effects(&dead), 1, "on_dead has a transaction: {}", program.printed());
    let given_back = here.enqueue("wait", r#"{"seconds": 60}"#);
    here.waits_for(&given_back, "status = 'RUNNING'");
    end(&mut program);
    here.waits_for(&given_back, "status = 'PENDING' and attempt = 0");
}

#[test]
fn clients_python_snoozes() {
    snoozes(python_worker);
}

#[test]
fn clients_asyncio_snoozes() {
    snoozes(asyncio_worker);
}

#[test]
fn clients_python_tells_errors() {
    tells_errors(python_worker);
}

#[test]
fn clients_asyncio_tells_errors() {
    tells_errors(asyncio_worker);
}

#[test]
fn clients_python_keeps_sessions() {
    keeps_sessions(python_worker);
}

#[test]
fn clients_asyncio_keeps_sessions() {
    keeps_sessions(asyncio_worker);
}

#[test]
fn clients_python_finishes() {
    finishes(python_worker);
}

#[test]
fn clients_asyncio_finishes() {
    finishes(asyncio_worker);
}
