//! Databases whose encoding is not UTF8. In SQL_ASCII what is ASCII or UTF-8 works, and bytes that cannot be read are refused with a SQLSTATE
//! of their own.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};

fn refused(db: &mut Client, call: &str, sqlstate: &str) {
    let error = db.batch_execute(&format!("select * from sched.{call}")).expect_err(call);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{call}: {error}"));
    assert_eq!(error.code().code(), sqlstate, "{call}: {}", error.message());
    assert!(error.message().is_ascii() && error.hint().is_some(), "{call}: {}", error.message());
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let cluster = Cluster::new();
    cluster.execute("create database ascii template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'");
    let mut db = cluster.with_extension("ascii");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('there', 'never', 'job')").unwrap();
    let before: String =
        one(&mut db, "select (select count(*) from sched.job)::text || (select count(*) from sched.schedule)");
    for call in [
        "define_job(E'caf\\351')",
        "define_job('x', queue => E'\\351')",
        "define_job('x', kind => E'\\351')",
        "drop_job(E'\\351')",
        "create_schedule(E'\\351', 'never', 'job')",
        "create_schedule('x', E'\\351', 'job')",
        "create_schedule('x', 'never', 'job', E'\\351')",
        "alter_schedule('x', clock => E'\\351')",
        "alter_schedule('there', reset => array[E'\\351'])",
        "pause(E'\\351')",
        "try_claim(E'\\351', '2026-01-01')",
        "try_claim('job', '2026-01-01', scope_id => E'\\351')",
        "try_claim('job', '2026-01-01', runner_id => E'\\351')",
        "claim(E'\\351')",
        "enqueue(E'\\351')",
        "finish_failure(gen_random_uuid(), gen_random_uuid(), E'\\351')",
        "finish_failure(gen_random_uuid(), gen_random_uuid(), 'code', E'\\351')",
        "mark_stale_as_failed(E'\\351')",
        "latest_plan(E'\\351')",
        "due_plans('job', E'\\351')",
        "next_time(E'\\351')",
        "validate(E'\\351')",
        "preview('@daily', E'\\351')",
        "import_crontab(E'@daily echo \\351')",
    ] {
        refused(&mut db, call, "22021");
    }
    let specs = "create_schedules(E'[{\"schedule_name\": \"\\351\", \"clock\": \"never\", \"job_name\": \"job\"}]')";
    refused(&mut db, specs, "22023");
    let after: String =
        one(&mut db, "select (select count(*) from sched.job)::text || (select count(*) from sched.schedule)");
    assert_eq!(after, before);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger"), 0);
    // JSON is carried as it is, and a schedule runs as anywhere.
    db.batch_execute("select sched.enqueue('job', E'{\"name\": \"caf\\351\"}')").unwrap();
    assert!(one::<bool>(&mut db, "select payload = E'{\"name\": \"caf\\351\"}' from sched.claim()"));
    db.batch_execute("select sched.create_schedule('tick', 'every 200 milliseconds', 'job')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution where schedule_name = 'tick'", SOON);
}

#[test]
fn a_database_of_another_encoding_is_refused() {
    let cluster = Cluster::new();
    cluster.execute("create database latin1 template template0 encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'");
    let mut db = cluster.connect_as("postgres", "latin1");
    let error = db.batch_execute("create extension scheduler").expect_err("an extension in LATIN1");
    assert_eq!(error.code().map(postgres::error::SqlState::code), Some("0A000"), "{error}");
}
