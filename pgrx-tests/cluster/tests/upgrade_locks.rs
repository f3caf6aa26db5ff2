//! An update takes the tables that it changes for itself, and waits for nobody for long.

use std::time::{Duration, Instant};

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::Cluster;

use crate::upgrade::{prepared, ROLES};

#[test]
fn an_update_that_must_wait_names_the_process_that_it_waits_for() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(ROLES);
    let mut db = prepared(&cluster, "held", "0.3.0");
    let mut reader = cluster.connect_as("postgres", "held");
    let pid: i32 = one(&mut reader, "select pg_backend_pid()");
    let mut open = reader.transaction().unwrap();
    open.batch_execute("select from sched.schedule").unwrap();
    db.batch_execute("set lock_timeout = '100ms'").unwrap();
    let refused = db.batch_execute("alter extension scheduler update").unwrap_err();
    let error = refused.as_db_error().unwrap();
    assert_eq!(error.code(), &SqlState::LOCK_NOT_AVAILABLE);
    assert!(error.message().contains(&format!("process {pid} (postgres, transaction since ")), "{}", error.message());
    assert!(error.hint().unwrap().contains(&format!("pg_terminate_backend({pid})")), "{:?}", error.hint());
    assert_eq!(one::<String>(&mut db, "select extversion from pg_extension where extname = 'scheduler'"), "0.3.0");
    open.rollback().unwrap();
    db.batch_execute("alter extension scheduler update").unwrap();
}

/// What a view holds is waited for with nothing in hand, and for as long as was said.
#[test]
fn an_update_that_must_wait_gives_back_what_it_took() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(ROLES);
    let mut db = prepared(&cluster, "held", "0.3.0");
    let mut reader = cluster.connect_as("postgres", "held");
    let mut open = reader.transaction().unwrap();
    open.batch_execute("select from sched.history").unwrap();
    db.batch_execute("set lock_timeout = '2s'").unwrap();
    let began = Instant::now();
    let refused = db.batch_execute("alter extension scheduler update").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{refused}");
    assert!(began.elapsed() < Duration::from_millis(3500), "{:?}", began.elapsed());
    assert!(!cluster.log().contains("you don't own a lock"), "{}", cluster.log());
    open.rollback().unwrap();
    db.batch_execute("alter extension scheduler update").unwrap();
}
