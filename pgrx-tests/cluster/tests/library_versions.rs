//! What library and objects do while they are of different versions: which the objects say here.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster};
use std::time::Duration;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// As an update by hand leaves it whose library was not loaded yet.
#[test]
fn objects_newer_than_the_library_make_the_dispatcher_wait_for_a_restart() {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").start();
    let mut db = cluster.with_extension("postgres");
    let set = |version: &str| format!("update pg_extension set extversion = '{version}' where extname = 'scheduler'");
    db.batch_execute(&set("99.1")).unwrap();
    let says = format!("waits: the scheduler's library is of version \"{VERSION}\", its objects in this database are of version \"99.1\"");
    wait_until("the dispatcher to say why it waits", SOON, || (!cluster.logged(&says).is_empty()).then_some(()));
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 100 milliseconds', 'j')")
        .unwrap();
    stays("the ledger", Duration::from_secs(1), || one::<i64>(&mut db, "select count(*) from sched.execution"));
    assert_eq!(cluster.logged(&says).len(), 1, "it says so once");
    assert_eq!(cluster.logged("HINT:  Restart the server, so that it loads the library of version 99.1.").len(), 1);
    db.batch_execute(&set(VERSION)).unwrap();
    wait_for(&mut db, "select count(*) > 2 from sched.execution", SOON);
    assert_eq!(cluster.logged("dispatcher for database \"postgres\" goes on").len(), 1);
}

/// A later library with the objects of an earlier patch release: it goes on where the tables are the same. (Here the objects say that they are older.)
#[test]
fn a_later_library_goes_on_with_the_same_tables() {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 100 milliseconds', 'j')")
        .unwrap();
    let minor = VERSION.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
    db.batch_execute(&format!("update pg_extension set extversion = '{minor}.0-a' where extname = 'scheduler'"))
        .unwrap();
    let mut user = cluster.connect();
    let health = "select severity || ' ' || (hint ~ 'ALTER EXTENSION scheduler UPDATE') || ' ' || sched.healthy() from sched.health() where component = 'versions'";
    assert_eq!(one::<String>(&mut user, health), "warning true true");
    let later =
        "select count(*) from sched.execution where created_at > clock_timestamp() - interval '300 milliseconds'";
    wait_for(&mut user, &format!("select ({later}) > 0"), SOON);
    user.batch_execute("select sched.finish_success(execution_id, lease_token) from sched.claim()").unwrap();
    assert!(cluster.logged("waits: the scheduler's library").is_empty());
    // What is new there and missing here says so.
    db.batch_execute(&format!("alter table {LEASE_TABLE} rename cancel_requested to other")).unwrap();
    let refused = cluster.connect().batch_execute("select sched.latest_plan('j')").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED), "{refused}");
    db.batch_execute(&format!("alter table {LEASE_TABLE} rename other to cancel_requested")).unwrap();
    // With other tables it waits.
    db.batch_execute("create or replace function sched_internal.table_layout() returns integer language sql immutable parallel safe set search_path = pg_catalog, pg_temp as 'SELECT 0'")
        .unwrap();
    wait_until("the dispatcher to wait", SOON, || {
        (!cluster.logged("waits: the scheduler's library").is_empty()).then_some(())
    });
    assert_eq!(one::<String>(&mut user, health), "critical true false");
    stays("the ledger", Duration::from_secs(1), || one::<i64>(&mut db, "select count(*) from sched.ledger"));
}

#[test]
fn a_function_that_does_not_fit_says_so_and_the_others_work() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'); select sched.enqueue('j')").unwrap();
    let rename = &format!("alter table {LEASE_TABLE} rename cancel_requested to other");
    let question = "select sched.latest_plan('j')";
    let of = |version: &str| format!("update pg_extension set extversion = '{version}' where extname = 'scheduler'");
    for (version, hint) in [("0.0.1", "Run ALTER EXTENSION"), ("99.1", "Restart the server")] {
        db.batch_execute(&format!("{}; {rename}", of(version))).unwrap();
        let mut user = cluster.connect();
        let refused = user.batch_execute(question).unwrap_err();
        let error = refused.as_db_error().unwrap();
        assert_eq!(error.code(), &SqlState::FEATURE_NOT_SUPPORTED, "{error}");
        assert!(error.message().contains(version) && error.message().contains(VERSION), "{error}");
        assert!(error.hint().unwrap().starts_with(hint), "{error:?}");
        // Other errors stay what they are, and what fits works.
        let refused = user.batch_execute("select sched.pause('nothing')").unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::UNDEFINED_OBJECT));
        user.batch_execute("select sched.enqueue('j'), sched.next_time('@daily')").unwrap();
        db.batch_execute(&format!("alter table {LEASE_TABLE} rename other to cancel_requested")).unwrap();
        user.batch_execute(question).unwrap();
    }
    // Without a difference of versions it is the server's error.
    db.batch_execute(&format!("{}; {rename}", of(VERSION))).unwrap();
    let error = cluster.connect().batch_execute(question).unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_COLUMN));
}
