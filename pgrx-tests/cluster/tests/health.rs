//! What `sched.health()` says is true where a server has no workers, has stopped ones, is a copy or a standby, and somebody keeps a table to himself.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::time::{Duration, Instant};

/// The components that are not ok, each with its severity.
fn troubles(client: &mut Client) -> Vec<(String, String)> {
    let rows = client
        .query("select component, severity, since is null or hint is null or since > clock_timestamp() from sched.health() where not ok", &[])
        .unwrap();
    rows.iter()
        .map(|row| {
            assert!(!row.get::<_, bool>(2), "{} has no hint or no time", row.get::<_, String>(0));
            (row.get(0), row.get(1))
        })
        .collect()
}

fn trouble(component: &str, severity: &str) -> Vec<(String, String)> {
    vec![(component.to_owned(), severity.to_owned())]
}

/// What is said of one component.
fn says(client: &mut Client, component: &str) -> String {
    one(client, &format!("select severity || ': ' || message from sched.health() where component = '{component}'"))
}

const COMPONENTS: &str =
    "launcher dispatcher dispatch queues leases runners schedules home versions notify_queue worker_slots autovacuum wraparound";

#[test]
fn a_stopped_dispatcher_is_seen_by_what_it_misses_and_only_then() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let names: String = one(&mut db, "select string_agg(component, ' ') from sched.health()");
    assert_eq!(names, COMPONENTS);
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 1 second', 'j')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    assert_eq!(troubles(&mut db), []);
    assert!(one::<bool>(&mut db, "select sched.healthy()"));

    let pid = dispatcher(&mut db).unwrap();
    proc::freeze(pid);
    let fires = "select coalesce(max(plan_time), '-infinity')::text from sched.execution";
    let last: String = one(&mut db, fires);
    wait_for(&mut db, "select not sched.healthy('2 seconds')", SOON);
    // Five seconds after the first fire that was missed, at most; this machine may be busy for some of them.
    let late: f64 =
        one(&mut db, &format!("select extract(epoch from clock_timestamp() - '{last}'::timestamptz)::float8 - 1"));
    assert!(late < 8.0, "{late} s");
    assert_eq!(troubles(&mut db), trouble("dispatch", "critical"));
    assert!(says(&mut db, "dispatch").contains("1 due"), "{}", says(&mut db, "dispatch"));
    // The rows beside it are ok: the hint leads to the process.
    let hint: String = one(&mut db, "select hint from sched.health() where component = 'dispatch'");
    assert!(hint.contains(&format!("pg_terminate_backend({pid})")) && !hint.contains("launcher, "), "{hint}");

    // A schedule that it has never heard of is missed as well.
    db.batch_execute("select sched.pause('s'), sched.create_schedule('new', 'every 1 second', 'j')").unwrap();
    wait_for(&mut db, "select not sched.healthy('1 second')", SOON);
    db.batch_execute("select sched.pause('new')").unwrap();
    assert_eq!(troubles(&mut db), [], "nothing is due of what is paused");
    db.batch_execute("select sched.resume('s')").unwrap();
    wait_for(&mut db, "select not sched.healthy('1 second')", SOON);
    proc::kill(pid, Signal::CONT);
    wait_for(&mut db, "select sched.healthy('1 second')", SOON);
    wait_until("all well", SOON, || troubles(&mut db).is_empty().then_some(()));
}

#[test]
fn what_is_switched_off_is_named_and_what_it_misses_is_critical() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 1 second', 'j')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    cluster.set("sched.enabled", "off");
    wait_for(&mut db, "select not sched.healthy('1 second')", SOON);
    wait_until("both", SOON, || {
        let found = troubles(&mut db);
        (found == [trouble("dispatcher", "warning"), trouble("dispatch", "critical")].concat()).then_some(())
    });
    assert!(says(&mut db, "dispatcher").contains("sched.enabled"));
    cluster.set("sched.enabled", "on");
    wait_until("all well", SOON, || troubles(&mut db).is_empty().then_some(()));
}

/// What came due while the server was down is no fault of those who have just started.
#[test]
fn a_restart_is_no_false_alarm() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 1 second', 'j')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    cluster.set("sched.enabled", "off");
    wait_for(&mut db, "select not sched.healthy('3 seconds')", SOON);
    cluster.restart(Shutdown::Fast);
    let mut db = cluster.connect();
    // A machine that was busy may have come here late.
    let fault = "select severity = 'critical' and clock_timestamp() - pg_postmaster_start_time() < '2 seconds' from sched.health() where component = 'dispatch'";
    assert!(!one::<bool>(&mut db, fault), "{}", says(&mut db, "dispatch"));
    wait_for(&mut db, "select not sched.healthy('3 seconds')", SOON);
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select sched.healthy('1 second')", SOON);
}

#[test]
fn a_server_without_the_library_and_a_database_without_a_dispatcher_are_asked_as_well() {
    let cluster = Cluster::builder().without_preload().start();
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler").unwrap();
    assert_eq!(troubles(&mut db), trouble("launcher", "warning"));
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 100 milliseconds', 'j')")
        .unwrap();
    wait_for(&mut db, "select not sched.healthy('2 seconds')", SOON);
    assert_eq!(troubles(&mut db), [trouble("launcher", "warning"), trouble("dispatch", "critical")].concat());
    db.batch_execute("select sched.dispatch_due(), sched.pause('s'), sched.dispatch_due()").unwrap();
    assert!(one::<bool>(&mut db, "select sched.healthy()"));

    let cluster = Cluster::builder().set("sched.databases", "other").start();
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler; select sched.define_job('j')").unwrap();
    assert_eq!(troubles(&mut db), trouble("dispatcher", "warning"));
}

/// Whichever of the two is newer, nothing fires until somebody has done something about it.
#[test]
fn library_and_objects_of_different_versions_are_critical() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', '@yearly', 'j')").unwrap();
    let version: String = one(&mut db, "select extversion from pg_extension where extname = 'scheduler'");
    for (other, hint) in [("0.0.1", "Run ALTER EXTENSION"), ("99.1", "Restart the server")] {
        db.batch_execute(&format!("update pg_extension set extversion = '{other}' where extname = 'scheduler'"))
            .unwrap();
        let mut reader = cluster.connect();
        assert!(!one::<bool>(&mut reader, "select sched.healthy()"), "{other}");
        let severity = "select severity || ' ' || hint from sched.health() where component = 'versions'";
        let says: String = one(&mut reader, severity);
        assert!(says.starts_with(&format!("critical {hint}")), "{says}");
    }
    db.batch_execute(&format!("update pg_extension set extversion = '{version}' where extname = 'scheduler'")).unwrap();
    assert!(one::<bool>(&mut cluster.connect(), "select sched.healthy()"));
}

#[test]
fn a_locked_table_is_a_warning_and_never_a_wait() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j')").unwrap();
    let mut other = cluster.connect();
    for (lock, component) in [
        (format!("lock table {TIMER_TABLE}"), "dispatch"),
        (format!("lock table {READY_TABLE}"), "queues"),
        (format!("lock table {LEASE_TABLE}"), "leases"),
        ("lock table sched.home".to_owned(), "home"),
        ("reindex table sched.ledger".to_owned(), "queues"),
    ] {
        other.batch_execute(&format!("begin; {lock}")).unwrap();
        let began = Instant::now();
        let found: String = one(
            &mut db,
            &format!("select message from sched.health() where component = '{component}' and severity = 'warning'"),
        );
        assert!(found.contains("locked"), "{lock}: {found}");
        assert!(began.elapsed() < Duration::from_secs(5), "{lock}: {:?}", began.elapsed());
        other.batch_execute("rollback").unwrap();
    }
    wait_until("all well", SOON, || troubles(&mut db).is_empty().then_some(()));
}

#[test]
fn what_waits_what_ran_out_and_what_is_parked() {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").set("sched.max_sql_runners", "0").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role somebody login; create role watcher login; create role sees login in role pg_monitor;
         select sched.grant_use('somebody'), sched.grant_monitor('watcher');
         select sched.define_job('j'), sched.define_job('sql', 'sql', 'select 1')",
    )
    .unwrap();
    // Nobody claims it; and it could for longer than is well.
    db.batch_execute(
        "select sched.enqueue('j'); update sched.ledger set created_at = created_at - interval '10 minutes'",
    )
    .unwrap();
    assert_eq!(troubles(&mut db), trouble("queues", "warning"));
    assert!(says(&mut db, "queues").contains("\"default\""));
    // Of many queues five are named, the one that waits longest first; and what was not defined, as where all is well.
    db.batch_execute(
        "select sched.define_job('q' || i, queue => 'q' || i), sched.enqueue('q' || i) from generate_series(1, 6) i; select sched.enqueue('forgotten');
         update sched.ledger set created_at = created_at - interval '20 minutes' where job_name = 'q6';
         update sched.ledger set created_at = created_at - interval '10 minutes' where job_name <> 'j'",
    )
    .unwrap();
    let said = says(&mut db, "queues");
    assert!(said.contains("executions of 7 queues could be claimed, the first for "), "{said}");
    assert!(
        said.contains(": \"q6\", ") && said.contains(" and 2 more; ") && said.ends_with("one attempt: \"forgotten\""),
        "{said}"
    );
    let mut reader = cluster.connect_as("somebody", "postgres");
    assert!(!says(&mut reader, "queues").contains("q6"));
    db.batch_execute("select sched.cancel(id) from sched.execution").unwrap();
    db.batch_execute("select sched.enqueue('sql')").unwrap();
    assert_eq!(troubles(&mut db), trouble("runners", "warning"));
    assert!(says(&mut db, "runners").contains("sched.max_sql_runners is 0"));
    db.batch_execute("select sched.cancel(id) from sched.execution where status = 'PENDING'").unwrap();
    assert_eq!(troubles(&mut db), []);
    // Jobs that somebody may have forgotten to define: waiting, waiting for a time, running; of others who sees theirs.
    db.batch_execute("select sched.enqueue('forgotten 1'), sched.enqueue('forgotten 2', run_at => clock_timestamp() + interval '1 hour'), sched.try_claim('forgotten 3', '2026-01-01'), sched.enqueue('j')").unwrap();
    let named = r#"; executions of jobs that sched.define_job has not defined have one attempt: "forgotten 1", "forgotten 2", "forgotten 3""#;
    assert!(says(&mut db, "queues").ends_with(named), "{}", says(&mut db, "queues"));
    assert_eq!(troubles(&mut db), []);
    db.batch_execute("set role somebody").unwrap();
    assert!(!says(&mut db, "queues").contains("forgotten"));
    db.batch_execute(&format!("reset role; select sched.cancel(id) from sched.execution where status in ('PENDING', 'RUNNING'); select sched.finish_success(execution_id, lease_token) from {LEASE} l")).unwrap();
    assert!(!says(&mut db, "queues").contains("forgotten"));

    // A schedule of a role that is gone is parked when it is due.
    db.batch_execute("set role somebody").unwrap();
    db.batch_execute(
        "select sched.define_job('its'), sched.create_schedule('its schedule', 'every 1 second', 'its'); reset role",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution where job_name = 'its'", SOON);
    db.batch_execute("select sched.revoke_all('somebody'); drop role somebody").unwrap();
    wait_until("a parked schedule", SOON, || (troubles(&mut db) == trouble("schedules", "warning")).then_some(()));
    db.batch_execute("create role user_of_it login; select sched.grant_use('user_of_it')").unwrap();
    for (role, names_it) in [("watcher", true), ("sees", true), ("user_of_it", false)] {
        let mut reader = cluster.connect_as(role, "postgres");
        assert_eq!(says(&mut reader, "schedules").contains("its schedule"), names_it, "{role}");
        assert!(one::<bool>(&mut reader, "select sched.healthy()"), "a parked schedule is no reason to page somebody");
    }
}

#[test]
fn copies_and_standbys_say_so_and_are_well() {
    let primary = Cluster::new();
    let mut db = primary.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 1 second', 'j')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    let standby = Cluster::builder().start_standby_of(&primary);
    let mut reader = standby.connect();
    wait_for(&mut reader, "select count(*) > 0 from sched.schedules", SOON);
    // What the primary has not fired yet is not fired there either, for a moment.
    wait_until("all well", SOON, || troubles(&mut reader).is_empty().then_some(()));
    assert!(says(&mut reader, "dispatcher").contains("standby") && says(&mut reader, "launcher").contains("standby"));
    drop(reader);
    standby.promote();
    let mut reader = standby.connect();
    wait_until("all well", SOON, || {
        (troubles(&mut reader).is_empty() && dispatcher(&mut reader).is_some()).then_some(())
    });

    drop(db);
    primary.connect_as("postgres", "template1").batch_execute("create database copy template postgres").unwrap();
    let mut copy = primary.connect_as("postgres", "copy");
    assert_eq!(troubles(&mut copy), trouble("home", "critical"), "it has a schedule");
    assert!(!one::<bool>(&mut copy, "select sched.healthy()"), "nothing fires there and somebody may rely on it");
    // An alert that was open in the original is nobody's in the copy, nor is what waits for a worker.
    copy.batch_execute(
        "insert into sched.alert (schedule_id, schedule_name, owner, kind, since, opened_at, message)
         select schedule_id, schedule_name, 'postgres', 'failed', clock_timestamp(), clock_timestamp(), 'm' from sched.schedule;
         update sched.ledger set created_at = created_at - interval '1 hour'",
    )
    .unwrap();
    assert_eq!(troubles(&mut copy), trouble("home", "critical"));
    let gauges = "select bool_and(value = 0) from sched.metrics() where name in ('sched_alerts_open', 'sched_timers_due', 'sched_queue_oldest_claimable_seconds')";
    assert!(one::<bool>(&mut copy, gauges));
    // One that is meant to stay a copy is told so.
    copy.batch_execute("alter database copy set sched.dispatch = off").unwrap();
    assert_eq!(troubles(&mut copy), []);
    assert!(says(&mut copy, "home").contains("stays one") && says(&mut copy, "dispatcher").contains("sched.dispatch"));
    assert!(one::<bool>(&mut copy, "select sched.healthy('0 seconds')"), "nothing is to fire in a copy");
    copy.batch_execute("alter database copy reset sched.dispatch").unwrap();
    assert_eq!(troubles(&mut copy), trouble("home", "critical"));
    // Work that waits counts as schedules do; a copy with neither misses nothing.
    copy.batch_execute(
        "select sched.drop_schedule('s'), sched.cancel(id) from sched.execution where status = 'PENDING'",
    )
    .unwrap();
    for (work, severity) in [
        ("select 1", "warning"),
        ("select sched.enqueue('j')", "critical"),
        ("select sched.cancel(id) from sched.execution", "warning"),
        ("select sched.enqueue('j', run_at => clock_timestamp() + interval '1 hour')", "critical"),
    ] {
        copy.batch_execute(work).unwrap();
        assert_eq!(troubles(&mut copy), trouble("home", severity), "{work}");
        assert_eq!(one::<bool>(&mut copy, "select sched.healthy()"), severity == "warning", "{work}");
    }
    copy.batch_execute("select sched.adopt()").unwrap();
    wait_until("all well", SOON, || troubles(&mut copy).is_empty().then_some(()));
}
