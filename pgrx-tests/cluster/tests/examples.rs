//! The workers in `examples/` that users copy: each runs as an ordinary role, as its users would start it, until the ledger says
//! that it has finished three executions.
//!
//! What the test expects of a worker: it takes its connection from the usual `PG*` variables, `--queue NAME` says what to claim,
//! and `--max N` ends it after N finished executions. `worker.sql` gets the same as psql variables (`-v queue=… -v max=…`); it may
//! end before that when nothing is left to claim, and is then started again.

use scheduler_cluster_tests::proc::Program;
use scheduler_cluster_tests::{conn, python, repository, wait_for, wait_until, Cluster};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const RUNS: &str = "3";
const PATIENCE: Duration = Duration::from_secs(60);
const DONE: &str = "select count(*) >= 3 from sched.execution where status = 'SUCCESS'";

#[test]
fn python_worker() {
    let path = example("python/worker.py");
    let mut worker = Command::new(python());
    worker.arg(path).args(["--queue", "work", "--max", RUNS]);
    runs_three(worker);
}

#[test]
fn javascript_worker() {
    let path = example("javascript/worker.js");
    let mut worker = Command::new("node");
    worker.arg(path).args(["--queue", "work", "--max", RUNS]);
    runs_three(worker);
}

#[test]
fn sql_worker() {
    let path = example("sql/worker.sql");
    let cluster = cluster_with_work();
    let mut ledger = cluster.connect_as("postgres", "app");
    wait_until("three executions to succeed", PATIENCE, || {
        let mut psql = cluster.psql("app", "app");
        psql.args(["-v", "ON_ERROR_STOP=1", "-v", "queue=work", "-v", &format!("max={RUNS}"), "-f"]).arg(&path);
        let output = psql.output().expect("cannot run psql");
        assert!(output.status.success(), "{} failed:\n{}", path.display(), conn::text(&output));
        ledger.query_one(DONE, &[]).unwrap().get::<_, bool>(0).then_some(())
    });
}

fn example(name: &str) -> PathBuf {
    let path = repository().join("examples").join(name);
    assert!(path.exists(), "the example {} is missing", path.display());
    path
}

/// A database in which the role `app` has a job that is due every second.
fn cluster_with_work() -> Cluster {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    cluster.execute("create database app");
    let mut admin = cluster.connect_as("postgres", "app");
    admin.batch_execute("create extension scheduler; select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "app");
    app.batch_execute(
        "select sched.define_job('example', queue => 'work');
         select sched.create_schedule('example', 'every 1 second', 'example', catch_up => 'every_plan')",
    )
    .unwrap();
    cluster
}

fn runs_three(worker: Command) {
    let cluster = cluster_with_work();
    let mut worker = Program::start(cluster.client(worker, "app", "app"), &cluster.folder().join("worker.log"));
    let ended = wait_until("the worker to end by itself", PATIENCE, || worker.ended());
    assert!(ended.success(), "the worker failed ({ended}):\n{}", worker.printed());
    wait_for(&mut cluster.connect_as("postgres", "app"), DONE, PATIENCE);
}
