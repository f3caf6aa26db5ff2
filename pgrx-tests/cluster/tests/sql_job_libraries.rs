//! Which libraries the process of a run loads when it connects: those that a session of its owner loads.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, status};
use scheduler_cluster_tests::{bin, wait_for, wait_until, Client, Cluster};

/// What a session has of a library: a setting of it, where it is loaded.
const LOADED: &str = "select coalesce(current_setting('auto_explain.log_min_duration', true), 'not loaded')";

fn with_app(cluster: &Cluster) -> (Client, Client) {
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role app login; select sched.grant_use('app')").unwrap();
    let app = cluster.connect_as("app", "postgres");
    (db, app)
}

fn result(db: &mut Client, job: &str) -> String {
    let id = enqueue(db, job, 1).remove(0);
    assert_eq!(ended(db, &id), ("SUCCESS".to_owned(), String::new()), "{job}");
    one(db, &format!("select result -> 'rows' -> 0 ->> 0 from sched.execution where id = '{id}'"))
}

#[test]
fn a_run_loads_what_its_owners_sessions_load() {
    if !bin().with_file_name("lib").join("auto_explain.so").exists() {
        return;
    }
    let cluster = Cluster::new();
    let (mut db, mut app) = with_app(&cluster);
    let settings = "settings => '{\"session_preload_libraries\": \"auto_explain\"}'";
    let refused = app.execute(&format!("select sched.define_job('job', 'sql', 'select 1', {settings})"), &[]);
    assert_eq!(refused.unwrap_err().code().unwrap().code(), "42501");
    for (client, job) in [(&mut db, "theirs"), (&mut app, "mine")] {
        define(client, job, LOADED, "");
    }
    // As SET does: too late for this session.
    define(&mut db, "set", LOADED, settings);
    assert_eq!(result(&mut db, "set"), "not loaded");
    // Whoever may say so for a role has it loaded for that role.
    db.batch_execute("alter role postgres set session_preload_libraries = 'auto_explain'").unwrap();
    assert_eq!(result(&mut db, "theirs"), "-1");
    assert_eq!(result(&mut db, "mine"), "not loaded");
    db.batch_execute(
        "alter role app set auto_explain.log_min_duration = '1s';
         alter database postgres set session_preload_libraries = 'auto_explain'",
    )
    .unwrap();
    assert_eq!(one::<String>(&mut cluster.connect_as("app", "postgres"), LOADED), "1s");
    assert_eq!(result(&mut db, "mine"), "1s");
    assert!(cluster.logged("PANIC").is_empty() && cluster.logged("was terminated by signal").is_empty());
}

/// A process that was there before has none of them.
#[test]
fn a_reload_that_names_libraries_holds_for_the_next_run() {
    if !bin().with_file_name("lib").join("auto_explain.so").exists() {
        return;
    }
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    let (mut db, mut app) = with_app(&cluster);
    define(&mut app, "mine", LOADED, "");
    assert_eq!(result(&mut db, "mine"), "not loaded");
    cluster.set("session_preload_libraries", "auto_explain");
    wait_for(&mut db, "select current_setting('session_preload_libraries') = 'auto_explain'", SOON);
    let runner = "select count(*) = 0 from pg_stat_activity where backend_type = 'scheduler runner'";
    wait_for(&mut db, runner, SOON);
    assert_eq!(result(&mut db, "mine"), "-1");
}

/// A library that the owner's sessions cannot load keeps him out, and nobody else.
#[test]
fn a_library_that_is_missing_keeps_its_owners_runs_waiting() {
    let cluster = Cluster::new();
    let (mut db, mut app) = with_app(&cluster);
    define(&mut db, "theirs", "select 1", "");
    define(&mut app, "mine", "select 1", "");
    // Users may name those in a folder of their own only.
    for library in ["nothing", "$libdir/auto_explain"] {
        app.batch_execute(&format!("alter role app set local_preload_libraries = '{library}'")).unwrap();
        assert!(cluster.try_connect_as("app", "postgres").is_err(), "{library}");
        let said = cluster.logged("scheduler runner[").len();
        let id = enqueue(&mut app, "mine", 1).remove(0);
        wait_until("a runner to fail", SOON, || {
            let lines = cluster.logged("scheduler runner[");
            lines[said..].iter().any(|line| line.contains(" ERROR: ") || line.contains(" FATAL: ")).then_some(())
        });
        assert_eq!(status(&mut db, &id), ("PENDING".to_owned(), String::new()));
        let other = enqueue(&mut db, "theirs", 1).remove(0);
        assert_eq!(ended(&mut db, &other).0, "SUCCESS");
        app.batch_execute("alter role app reset local_preload_libraries").unwrap();
        assert_eq!(ended(&mut db, &id).0, "SUCCESS");
    }
    // In settings it comes too late, as in SET.
    define(&mut app, "mine", "select 1", "settings => '{\"local_preload_libraries\": \"nothing\"}'");
    let id = enqueue(&mut app, "mine", 1).remove(0);
    assert_eq!(ended(&mut db, &id).0, "SUCCESS");
}
