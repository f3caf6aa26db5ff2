//! Gauges are true, cheap, and there for whoever may see them: also where nothing works.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, launcher, one, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

/// The value of a sample whose labels are these; none where there is none.
fn value(client: &mut Client, name: &str, labels: &str) -> Option<f64> {
    client
        .query_opt(&format!("select value from sched.metrics() where name = '{name}' and labels = '{labels}'"), &[])
        .unwrap()
        .map(|row| row.get(0))
}

fn of_queue(client: &mut Client, name: &str, queue: &str) -> Option<f64> {
    value(client, name, &format!(r#"{{"queue": "{queue}"}}"#))
}

const GAUGES: [&str; 6] = [
    "sched_alerts_open",
    "sched_timers_armed",
    "sched_timers_due",
    "sched_schedules_parked",
    "sched_schedules_failing",
    "sched_next_fire_timestamp_seconds",
];

#[test]
fn gauges_say_what_waits_runs_and_is_due() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    switch_off(&cluster, &mut db);
    db.batch_execute(
        "select sched.define_job('j', queue => 'mail'), sched.define_job('sql', 'sql', 'select 1', queue => 'of sql');
         select sched.pause_queue('held')",
    )
    .unwrap();
    // Nothing waits in these: that is 0, and not nothing.
    for queue in ["mail", "of sql", "held"] {
        for gauge in ["sched_queue_depth", "sched_queue_oldest_claimable_seconds", "sched_running"] {
            assert_eq!(of_queue(&mut db, gauge, queue), Some(0.0), "{gauge} of {queue}");
        }
    }
    assert_eq!(value(&mut db, "sched_next_fire_timestamp_seconds", "{}"), None);
    assert_eq!(value(&mut db, "sched_timers_armed", "{}"), Some(0.0));
    db.batch_execute(
        "select sched.enqueue_many('j', array['1', '2', '3']::jsonb[]); select sched.enqueue('sql'), sched.enqueue('free');
         select sched.enqueue('j', run_at => now() + interval '1 day');
         update sched.ledger set created_at = created_at - interval '10 minutes';
         select sched.claim('mail');
         select sched.create_schedule('s', 'every 1 hour', 'j'), sched.create_schedule('t', 'every 1 hour', 'j'), sched.dispatch_due();
         select sched.create_schedule('paused', 'every 1 hour', 'j'), sched.pause('paused'), sched.dispatch_due()",
    )
    .unwrap();
    assert_eq!(of_queue(&mut db, "sched_queue_depth", "mail"), Some(2.0));
    assert_eq!(of_queue(&mut db, "sched_queue_depth", "of sql"), Some(1.0));
    assert_eq!(of_queue(&mut db, "sched_queue_depth", "default"), Some(1.0));
    assert_eq!(of_queue(&mut db, "sched_running", "mail"), Some(1.0));
    let oldest = of_queue(&mut db, "sched_queue_oldest_claimable_seconds", "mail").unwrap();
    assert!((600.0..1200.0).contains(&oldest), "{oldest}");
    assert_eq!(value(&mut db, "sched_timers_armed", "{}"), Some(2.0));
    assert_eq!(value(&mut db, "sched_timers_due", "{}"), Some(0.0));
    let next: f64 = one(&mut db, "select extract(epoch from min(next_fire_at))::float8 from sched.schedules");
    assert!((value(&mut db, "sched_next_fire_timestamp_seconds", "{}").unwrap() - next).abs() < 0.001);
    db.batch_execute(&format!(
        "update {TIMER_TABLE} set fire_at = fire_at - interval '1 day' where fire_at is not null;
         {TIMERS_ARE_NEW}"
    ))
    .unwrap();
    assert_eq!(value(&mut db, "sched_timers_due", "{}"), Some(2.0));
    db.batch_execute(&format!(
        "update {TIMER_TABLE} set parked = true, fire_at = null, next_plan_time = null where fire_at is not null"
    ))
    .unwrap();
    assert_eq!(value(&mut db, "sched_schedules_parked", "{}"), Some(2.0));
    assert_eq!(value(&mut db, "sched_schedules_failing", "{}"), Some(0.0));
    // Each family is said once, whatever has samples of it.
    let twice: i64 = one(
        &mut db,
        "select count(*) from (select name, labels from sched.metrics() group by 1, 2 having count(*) > 1) twice",
    );
    assert_eq!(twice, 0);
    let same: bool = one(
        &mut db,
        "select count(*) = (select count(*) from regexp_split_to_table(sched.openmetrics(), '\\n') line where line ~ '^sched_') from sched.metrics()",
    );
    assert!(same);
}

#[test]
fn what_is_much_is_estimated_and_what_is_little_beside_it_counted() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    switch_off(&cluster, &mut db);
    db.batch_execute(
        "select sched.define_job('j', queue => 'long'), sched.define_job('k', queue => 'short');
         select count(*) from (select sched.enqueue_many('j', array_fill('1'::jsonb, array[10000]))) e;
         select count(*) from (select sched.enqueue_many('k', array_fill('1'::jsonb, array[7]))) e;
         select count(*) from (select sched.enqueue_many('j', array_fill('1'::jsonb, array[10000]))) e;
         select count(*) from (select sched.enqueue_many('j', array_fill('1'::jsonb, array[10000]))) e;
         create role its login; select sched.grant_use('its'); set role its;
         select sched.define_job('own', queue => 'long'); select count(*) from (select sched.enqueue_many('own', array_fill('1'::jsonb, array[9]))) e;
         reset role",
    )
    .unwrap();
    let is_about = |found: Option<f64>, expected: f64| {
        let found = found.unwrap();
        assert!((found - expected).abs() < expected / 5.0, "{found}, not about {expected}");
    };
    is_about(of_queue(&mut db, "sched_queue_depth", "long"), 30_009.0);
    assert_eq!(of_queue(&mut db, "sched_queue_depth", "short"), Some(7.0));
    // Half of it is claimed.
    db.batch_execute("select count(*) from sched.claim('long', 15000)").unwrap();
    is_about(of_queue(&mut db, "sched_queue_depth", "long"), 15_009.0);
    is_about(of_queue(&mut db, "sched_running", "long"), 15_000.0);
    assert_eq!(of_queue(&mut db, "sched_running", "short"), Some(0.0));
    let mut reader = cluster.connect_as("its", "postgres");
    assert_eq!(of_queue(&mut reader, "sched_queue_depth", "short"), None);
    assert_eq!(of_queue(&mut reader, "sched_running", "long"), Some(0.0));
    // Schedules.
    db.batch_execute(
        "select sched.create_schedules(jsonb_agg(jsonb_build_object('schedule_name', 's' || i, 'clock', 'every 1 hour', 'job_name', 'j'))) from generate_series(1, 20000) i",
    )
    .unwrap();
    wait_until("all to be armed", SOON, || {
        db.batch_execute("select sched.dispatch_due()").unwrap();
        one::<bool>(&mut db, "select not exists (select from sched.schedule_change)").then_some(())
    });
    is_about(value(&mut db, "sched_timers_armed", "{}"), 20_000.0);
}

#[test]
fn each_role_sees_what_it_may() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role one login; create role two login; create role watcher login; create role pgm login in role pg_monitor; create role nobody login;
         select sched.grant_use('one'), sched.grant_use('two'), sched.grant_monitor('watcher');
         set role one; select sched.define_job('of one', queue => 'one'), sched.enqueue('of one'), sched.enqueue('shared'); select sched.claim('one');
         set role two; select sched.define_job('of two', queue => 'two'), sched.enqueue('of two'), sched.enqueue('shared'); reset role",
    )
    .unwrap();
    let jobs =
        "select coalesce(string_agg(distinct labels->>'job', ', ' order by labels->>'job'), '') from sched.metrics()";
    let queues = "select string_agg(labels->>'queue', ', ' order by labels->>'queue') from sched.metrics() where name = 'sched_queue_depth'";
    for (role, its_jobs, its_queues, shared, all_queues_depth) in [
        ("one", "of one, shared", "default, one", 1.0, 1.0),
        ("two", "of two, shared", "default, two", 1.0, 2.0),
        ("watcher", "of one, of two, shared", "default, one, two", 2.0, 3.0),
        ("pgm", "of one, of two, shared", "default, one, two", 2.0, 3.0),
        ("postgres", "of one, of two, shared", "default, one, two", 2.0, 3.0),
    ] {
        let mut reader = cluster.connect_as(role, "postgres");
        assert_eq!(one::<String>(&mut reader, jobs), its_jobs, "{role}");
        assert_eq!(one::<String>(&mut reader, queues), its_queues, "{role}");
        let enqueued = value(&mut reader, "sched_enqueued_total", r#"{"job": "shared", "queue": "default"}"#);
        assert_eq!(enqueued, Some(shared), "{role}");
        let depth: f64 = one(&mut reader, "select sum(value) from sched.metrics() where name = 'sched_queue_depth'");
        assert_eq!(depth, all_queues_depth, "{role}");
        assert!(one::<bool>(&mut reader, "select sched.openmetrics() like '%# EOF' || chr(10)"), "{role}");
    }
    let mut reader = cluster.connect_as("nobody", "postgres");
    for function in ["metrics", "openmetrics"] {
        let error = reader.batch_execute(&format!("select sched.{function}()")).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{function}");
    }
}

#[test]
fn where_nothing_works_there_are_gauges_and_where_nothing_is_preloaded_no_counters() {
    let counters = "select count(*) from sched.metrics() where name like '%\\_total' or name like '%reset%'";
    let gauges = |client: &mut Client| GAUGES.iter().filter(|name| value(client, name, "{}").is_some()).count();
    let cluster = Cluster::builder().without_preload().start();
    let mut db = cluster.connect();
    let work = "create extension scheduler; select sched.define_job('j'), sched.create_schedule('s', 'every 1 hour', 'j'), sched.enqueue('j');
                select sched.dispatch_due(); select sched.claim()";
    db.batch_execute(work).unwrap();
    assert_eq!((one::<i64>(&mut db, counters), gauges(&mut db)), (0, GAUGES.len()));
    assert_eq!(of_queue(&mut db, "sched_running", "default"), Some(1.0));

    // With every worker stopped, and on a standby.
    let primary = Cluster::new();
    let mut db = primary.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 1 second', 'j')").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    let standby = Cluster::builder().start_standby_of(&primary);
    let mut reader = standby.connect();
    wait_for(&mut reader, "select count(*) > 0 from sched.execution", SOON);
    assert_eq!(gauges(&mut reader), GAUGES.len());
    assert_eq!(value(&mut reader, "sched_timers_due", "{}"), Some(0.0));
    let workers = [launcher(&mut db).unwrap(), dispatcher(&mut db).unwrap()];
    workers.iter().for_each(|pid| proc::freeze(*pid));
    wait_until("a fire that is missed", SOON, || value(&mut db, "sched_timers_due", "{}").filter(|due| *due == 1.0));
    assert!(value(&mut db, "sched_counters_reset_timestamp_seconds", "{}").is_some());
    workers.iter().for_each(|pid| proc::kill(*pid, Signal::CONT));
    drop(db);

    // In a copy nothing is to fire. Who counted for the original has not counted for it.
    primary.connect_as("postgres", "template1").batch_execute("create database copy template postgres").unwrap();
    let mut copy = primary.connect_as("postgres", "copy");
    wait_for(&mut copy, &format!("select min(fire_at) < clock_timestamp() from {TIMER} t"), SOON);
    assert_eq!(value(&mut copy, "sched_timers_due", "{}"), Some(0.0));
    assert_eq!(value(&mut copy, "sched_fires_total", r#"{"job": "j", "queue": "default"}"#), None);
}

#[test]
fn a_locked_table_is_left_out_and_nobody_waits() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // Who waits fails, and does not hang.
    db.batch_execute("set lock_timeout = '20s'; select sched.define_job('j'), sched.enqueue('j')").unwrap();
    let mut other = cluster.connect();
    for (table, gone, there) in [
        (READY_TABLE, "sched_queue_depth", "sched_timers_armed"),
        (LEASE_TABLE, "sched_running", "sched_schedules_parked"),
        (TIMER_TABLE, "sched_timers_armed", "sched_queue_depth"),
        ("sched.ledger", "sched_queue_depth", "sched_timers_due"),
        (DELAYED_TABLE, "sched_queue_depth", "sched_timers_due"),
        ("sched.paused_queue", "sched_queue_depth", "sched_timers_due"),
        ("sched.job", "sched_queue_depth", "sched_timers_due"),
        ("sched.schedule", "sched_timers_due", "sched_queue_depth"),
        ("sched.home", "sched_timers_due", "sched_queue_depth"),
        ("sched.alert", "sched_alerts_open", "sched_queue_depth"),
    ] {
        other.batch_execute(&format!("begin; lock table {table}")).unwrap();
        let began = Instant::now();
        let found: Vec<String> = one(&mut db, "select array_agg(name) from sched.metrics()");
        assert!(began.elapsed() < Duration::from_secs(5), "{table}: {:?}", began.elapsed());
        let has = |name: &str| found.iter().any(|found| found == name);
        assert!(!has(gone) && has(there) && has("sched_enqueued_total"), "{table}: {found:?}");
        other.batch_execute("rollback").unwrap();
    }
}

#[test]
fn no_queue_hides_behind_those_of_others() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    switch_off(&cluster, &mut db);
    // Another's 1,200 queues and jobs come first by name, and its entries in the shared queue first by priority.
    db.batch_execute(
        "create role many login; create role few login; select sched.grant_use('many'), sched.grant_use('few');
         set role many;
         select count(sched.define_job('a ' || i, queue => 'a ' || i)) from generate_series(1, 1200) i;
         select count(sched.enqueue('a ' || i)) from generate_series(1, 1200) i;
         select sched.define_job('first', queue => 'shared', priority => 9);
         select count(*) from (select sched.enqueue_many('first', array_fill('1'::jsonb, array[3500]))) e;
         set role few;
         select sched.define_job('z', queue => 'z'), sched.define_job('idle', queue => 'zz'), sched.define_job('behind', queue => 'shared');
         select sched.enqueue('z'), sched.enqueue('behind'); reset role;
         update sched.ledger set created_at = created_at - interval '10 minutes' where job_name in ('z', 'behind')",
    )
    .unwrap();
    let mut few = cluster.connect_as("few", "postgres");
    for queue in ["z", "shared"] {
        assert_eq!(of_queue(&mut few, "sched_queue_depth", queue), Some(1.0), "{queue}");
        let oldest = of_queue(&mut few, "sched_queue_oldest_claimable_seconds", queue).unwrap();
        assert!((600.0..4200.0).contains(&oldest), "{queue}: {oldest}");
    }
    assert_eq!(of_queue(&mut few, "sched_queue_depth", "zz"), Some(0.0));
    let total = "select sum(value) from sched.metrics() where name = 'sched_queue_depth'";
    assert_eq!(one::<f64>(&mut db, total), 4702.0);
    // What waits behind a higher priority is the oldest.
    let oldest = of_queue(&mut db, "sched_queue_oldest_claimable_seconds", "other").unwrap();
    assert!((600.0..4200.0).contains(&oldest), "{oldest}");
}

#[test]
fn due_retries_wait_and_pauses_are_shown() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    switch_off(&cluster, &mut db);
    db.batch_execute(
        &format!("select sched.define_job('j', queue => 'mail'), sched.enqueue_many('j', array['1', '2']::jsonb[], run_ats => array_fill(now() + interval '1 day', array[2]));
         {}", delays_pass("1 day 10 minutes")),
    )
    .unwrap();
    assert_eq!(of_queue(&mut db, "sched_queue_depth", "mail"), Some(2.0));
    let oldest = of_queue(&mut db, "sched_queue_oldest_claimable_seconds", "mail").unwrap();
    assert!((600.0..4200.0).contains(&oldest), "{oldest}");
    assert_eq!(of_queue(&mut db, "sched_queue_paused", "mail"), Some(0.0));
    db.batch_execute("select sched.pause_queue('mail')").unwrap();
    assert_eq!(of_queue(&mut db, "sched_queue_paused", "mail"), Some(1.0));
    assert_eq!(value(&mut db, "sched_alerts_open", "{}"), Some(0.0));
    let alert = "insert into sched.alert (kind, schedule_id, schedule_name, owner, since, message, opened_at)
                 values ('late', 1, 's', current_user::regrole, now(), 'm', now())";
    db.batch_execute(alert).unwrap();
    assert_eq!(value(&mut db, "sched_alerts_open", "{}"), Some(1.0));
}

/// Nobody is to claim what a dropped role has left: it waits for no worker.
#[test]
fn what_a_dropped_role_left_is_not_old() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    switch_off(&cluster, &mut db);
    db.batch_execute(
        "create role gone login; select sched.grant_use('gone'); select sched.define_job('kept', queue => 'both')",
    )
    .unwrap();
    let mut gone = cluster.connect_as("gone", "postgres");
    gone.batch_execute(
        "select sched.define_job('left', queue => 'both'), sched.define_job('waits', queue => 'alone');
         select sched.enqueue_many('left', '{1,2}'), sched.enqueue('waits'), sched.enqueue_many('left', '{3}', run_ats => array[now() + interval '1 day'])",
    )
    .unwrap();
    drop(gone);
    let age = &format!(
        "update sched.ledger set created_at = created_at - interval '1 hour'; {}",
        delays_pass("1 day 1 hour")
    );
    db.batch_execute(age).unwrap();
    let oldest = |db: &mut Client, queue| of_queue(db, "sched_queue_oldest_claimable_seconds", queue).unwrap();
    for queue in ["both", "alone"] {
        assert!(oldest(&mut db, queue) >= 3600.0, "{queue}");
    }
    db.batch_execute("drop owned by gone; drop role gone").unwrap();
    for queue in ["both", "alone"] {
        assert_eq!(oldest(&mut db, queue), 0.0, "{queue}");
    }
    db.batch_execute(
        "select sched.enqueue('kept'); update sched.ledger set created_at = created_at - interval '10 minutes'",
    )
    .unwrap();
    assert!((600.0..3600.0).contains(&oldest(&mut db, "both")));
}
