//! Every setting takes effect on SIGHUP, in a server that runs. (`sched.databases` and `sched.enabled` in full: `worker.rs`;
//! `sched.log_ticks`: `logs.rs`.)

use postgres::fallible_iterator::FallibleIterator;
use scheduler_cluster_tests::scheduler::{asleep_since, one, rest, served, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster};
use std::time::Duration;

const FIRING: &str =
    "select sched.define_job('job'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')";

#[test]
fn every_setting_that_there_is_has_a_test_here_or_there() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    let names: Vec<String> = db
        .query("select name from pg_settings where name like 'sched.%' and context = 'sighup' order by 1", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(
        names,
        [
            "sched.batch_size",
            "sched.databases",
            "sched.enabled",
            "sched.history_retention",
            "sched.log_ticks",
            "sched.misfire_grace",
            "sched.notify",
            "sched.stale_timeout",
            "sched.tick_interval",
            "sched.time_zone",
        ]
    );
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from pg_settings where name like 'sched.%'"),
        11,
        "with sched.worker_role, which needs a restart: worker_role.rs"
    );
}

#[test]
fn enabled_stops_a_dispatcher_that_never_comes_to_rest_within_a_tick() {
    let cluster = Cluster::builder().set("sched.batch_size", "1").start();
    let mut db = cluster.with_extension("postgres");
    // One schedule a transaction, and each is due again before all have had their turn.
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.batch_execute(
        "select sched.create_schedule('s ' || i, 'every 10 milliseconds', 'job') from generate_series(1, 200) as i",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 200 from sched.execution", SOON);
    cluster.set("sched.enabled", "off");
    wait_for(
        &mut db,
        "select max(created_at) < clock_timestamp() - interval '1 second' from sched.execution",
        Duration::from_secs(5),
    );
    stays("the ledger", Duration::from_secs(1), || one::<i64>(&mut db, "select count(*) from sched.execution"));
    cluster.set("sched.enabled", "on");
    let before: i64 = one(&mut db, "select count(*) from sched.execution");
    wait_for(&mut db, &format!("select count(*) > {before} from sched.execution"), SOON);
    // So does a database that is no longer to be served.
    cluster.set("sched.databases", "none");
    wait_until("the dispatcher to leave", Duration::from_secs(5), || served(&mut db).is_empty().then_some(()));
}

#[test]
fn tick_interval_is_the_longest_sleep_from_now_on() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    // At 60 s it stays asleep.
    stays("the dispatcher's sleep", Duration::from_secs(1), || asleep_since(&mut db));
    cluster.set("sched.tick_interval", "50ms");
    for _ in 0..3 {
        let since = wait_until("the dispatcher to sleep", SOON, || asleep_since(&mut db));
        wait_until("it to wake by itself", SOON, || asleep_since(&mut db).filter(|now| *now != since));
    }
    cluster.set("sched.tick_interval", "60s");
    rest(&mut db);
    stays("the dispatcher's sleep", Duration::from_secs(1), || asleep_since(&mut db));
}

#[test]
fn batch_size_is_how_many_one_transaction_dispatches() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    for (size, transactions) in [(7, 10), (70, 1)] {
        cluster.set("sched.batch_size", &size.to_string());
        wait_for(&mut db, &format!("select current_setting('sched.batch_size') = '{size}'"), SOON);
        rest(&mut db);
        db.batch_execute(&format!(
            "select sched.create_schedule('{size} ' || i, 'at ' || (clock_timestamp() + interval '2 seconds')::text, 'job')
               from generate_series(1, 70) as i"
        ))
        .unwrap();
        let name = format!("'{size} %'");
        // Due together by the same plan time, so that only the setting divides them.
        db.batch_execute(&format!(
            "update sched.schedule set clock = (select max(clock) from sched.schedule where schedule_name like {name}) where schedule_name like {name}"
        ))
        .unwrap();
        wait_for(&mut db, &format!("select count(*) = 70 from sched.execution where schedule_name like {name}"), SOON);
        let seen: i64 = one(
            &mut db,
            &format!("select count(distinct xmin::text) from sched.ledger where schedule_name like {name}"),
        );
        // A batch is inserted in a subtransaction of its own, which has an id of its own.
        assert_eq!(seen, transactions, "with sched.batch_size = {size}");
    }
}

#[test]
fn time_zone_is_that_of_schedules_that_name_none() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    for zone in ["UTC", "Asia/Tokyo", "America/Lima"] {
        cluster.set("sched.time_zone", zone);
        wait_for(&mut db, &format!("select current_setting('sched.time_zone') = '{zone}'"), SOON);
        db.batch_execute(&format!("select sched.create_schedule('{zone}', '0 12 * * *', 'job')")).unwrap();
        let noon = format!(
            "select (next_plan_time at time zone '{zone}')::time = '12:00' from sched.schedules where schedule_name = '{zone}'"
        );
        wait_for(&mut db, &noon, SOON);
    }
}

#[test]
fn stale_timeout_is_the_lease_of_claims_that_name_none() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    for (setting, seconds) in [("5min", 300), ("7s", 7)] {
        cluster.set("sched.stale_timeout", setting);
        wait_for(&mut db, &format!("select current_setting('sched.stale_timeout') = '{setting}'"), SOON);
        db.batch_execute(&format!("select sched.try_claim('{setting}', '2026-01-01 00:00+00')")).unwrap();
        let lease = format!(
            "select extract(epoch from stale_after - started_at)::bigint from sched.execution where job_name = '{setting}'"
        );
        assert_eq!(one::<i64>(&mut db, &lease), seconds);
    }
}

#[test]
fn misfire_grace_is_how_late_a_skip_missed_plan_may_run() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    // The dispatcher is kept from a plan for more than a second; whether that one runs is up to the setting it wakes with.
    for (setting, runs) in [("0", false), ("60s", true)] {
        cluster.set("sched.misfire_grace", setting);
        rest(&mut db);
        let name = format!("s {setting}");
        let create = format!(
            "select sched.create_schedule('{name}', 'at ' || (clock_timestamp() + interval '1 second')::text, 'job', catch_up => 'skip_missed')"
        );
        db.batch_execute(&create).unwrap();
        let state = |what: &str| format!("select state = '{what}' from sched.schedules where schedule_name = '{name}'");
        wait_for(&mut db, &state("armed"), SOON);
        let mut holder = cluster.connect();
        holder.batch_execute("begin; lock table sched.timer in access exclusive mode").unwrap();
        wait_for(&mut db, &format!("select clock_timestamp() > created_at + interval '2500 milliseconds' from sched.schedule where schedule_name = '{name}'"), SOON);
        holder.batch_execute("commit").unwrap();
        wait_for(&mut db, &state("done"), SOON);
        let count: i64 = one(&mut db, &format!("select count(*) from sched.execution where schedule_name = '{name}'"));
        assert_eq!(count == 1, runs, "with sched.misfire_grace = {setting}");
    }
}

#[test]
fn history_retention_is_how_long_ended_executions_stay() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job', kind => 'log'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')")
        .unwrap();
    wait_for(&mut db, "select count(*) > 20 from sched.execution", SOON);
    db.batch_execute("select sched.pause('s')").unwrap();
    rest(&mut db);
    let all: i64 = one(&mut db, "select count(*) from sched.execution");
    stays("the ledger", Duration::from_secs(1), || one::<i64>(&mut db, "select count(*) from sched.execution"));
    assert!(all > 20);
    cluster.set("sched.history_retention", "1s");
    // All but the newest of the job and scope.
    wait_for(&mut db, "select count(*) = 1 from sched.execution", SOON);
}

#[test]
fn notify_is_whether_queues_hear_of_new_work() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(FIRING).unwrap();
    let mut listener = cluster.connect();
    listener.batch_execute("listen \"sched:default\"").unwrap();
    let mut hears = |count: usize| {
        let heard = listener.notifications().timeout_iter(Duration::from_millis(500)).take(count).count();
        heard.unwrap() == count
    };
    wait_until("notifications", SOON, || hears(3).then_some(()));
    cluster.set("sched.notify", "off");
    wait_until("the notifications to end", SOON, || (!hears(1)).then_some(()));
    wait_for(&mut db, "select max(created_at) > clock_timestamp() - interval '1 second' from sched.execution", SOON);
    assert!(!hears(1));
    cluster.set("sched.notify", "on");
    wait_until("notifications", SOON, || hears(3).then_some(()));
}
