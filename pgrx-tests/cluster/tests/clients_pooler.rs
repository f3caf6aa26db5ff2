//! The worker libraries behind a real PgBouncer, in each of its modes (docs/guides/pgbouncer.md). Python's tests are in `clients_python/pooler.py`.

use crate::clients::{asyncio_worker, python_worker, signal, Setting, Worker};
use crate::clients_python::passes_with;
use scheduler_cluster_tests::pooler::Pooler;
use scheduler_cluster_tests::proc::{is_alive, Program, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, wait_until, Cluster};
use std::time::Duration;

fn passes(mode: &str, test: &str) {
    let cluster = Cluster::new();
    let pooler = Pooler::start(&cluster, mode, &["app"], 3);
    passes_with(&cluster, "pooler", test, &[&pooler.host()]);
}

#[test]
fn a_worker_behind_transaction_pooling_polls_and_says_so_once() {
    passes("transaction", "polls_and_says_so_once");
}

#[test]
fn a_worker_behind_transaction_pooling_hears_by_a_direct_connection() {
    passes("transaction", "hears_by_a_direct_connection");
}

#[test]
fn a_worker_behind_transaction_pooling_leaves_nothing_in_sessions() {
    passes("transaction", "leaves_nothing_in_sessions");
}

#[test]
fn a_worker_behind_session_pooling_hears_and_resets() {
    passes("session", "hears_and_resets");
}

#[test]
fn statement_pooling_enqueues_and_runs_no_worker() {
    passes("statement", "enqueues_and_runs_no_worker");
}

/// Two workers of twenty slots whose handlers have no transaction, over eight connections of the pooler, with the role's defaults against them;
/// each is killed or restarted again and again. Each execution has its effect once, and only what was killed has lost an attempt.
fn survives(worker: Worker, executions: i64, ends: u32) {
    let mut here = Setting::new();
    let pooler = Pooler::start(&here.cluster, "transaction", &["app"], 8);
    here.pooler = Some(pooler.host());
    let mut app = here.cluster.connect_as("app", "postgres");
    app.batch_execute("select sched.define_job('wait', queue => 'conformance', retry_backoff => '{0 s}', stale_timeout => '4 s', max_attempts => 100)")
        .unwrap();
    app.execute(
        "select count(*) from sched.enqueue_many('wait', array(select jsonb_build_object('seconds', i % 20 * 0.05) from generate_series(1, $1::bigint) i))",
        &[&executions],
    )
    .unwrap();
    here.db
        .batch_execute(
            "alter role app set default_transaction_isolation = 'serializable'; alter role app set idle_in_transaction_session_timeout = '1s'",
        )
        .unwrap();
    let arguments = ["--transaction", "finish", "--queues", "conformance=20", "--batch", "1"];
    let mut random = Random::seeded();
    let mut programs: Vec<Program> = (0..2).map(|_| here.start_with(worker, &arguments)).collect();
    let done = "select count(*) from sched.execution where status = 'SUCCESS'";
    for number in 0..ends {
        let before = one::<i64>(&mut here.db, done);
        let some = executions * i64::from(number + 1) / i64::from(ends + 1);
        wait_until("some to be done", Duration::from_secs(120), || {
            (one::<i64>(&mut here.db, done) >= some.max(before)).then_some(())
        });
        let program = here.start_with(worker, &arguments);
        let mut ended = std::mem::replace(&mut programs[usize::try_from(number).unwrap() % 2], program);
        wait_until("it to have begun", SOON, || {
            (ended.printed().contains(": done") || one::<i64>(&mut here.db, done) == executions).then_some(())
        });
        if one::<i64>(&mut here.db, done) == executions {
            break;
        }
        if random.below(2) == 0 {
            signal(&ended, Signal::KILL);
            wait_until("it to be gone", SOON, || (!is_alive(ended.pid())).then_some(()));
        } else {
            signal(&ended, Signal::TERM);
            let status = wait_until("it to end", SOON, || ended.ended());
            assert!(status.success(), "{status}: {}", ended.printed());
        }
    }
    wait_for(
        &mut here.db,
        &format!("select count(*) = {executions} from sched.execution where status = 'SUCCESS'"),
        Duration::from_secs(120),
    );
    let once = "select count(*) || ' ' || count(distinct execution_id) from effect";
    assert_eq!(one::<String>(&mut here.db, once), format!("{executions} {executions}"));
    let odd = "select count(*) from sched.execution where error_code is not null and error_code <> 'stale_timeout'";
    assert_eq!(one::<i64>(&mut here.db, odd), 0);
}

#[test]
fn python_survives_ten_ends_behind_transaction_pooling() {
    survives(python_worker, 800, 10);
}

#[test]
fn asyncio_survives_ten_ends_behind_transaction_pooling() {
    survives(asyncio_worker, 800, 10);
}
