//! Paused queues: nothing of them is claimed, whoever asks and whoever dies; and a resumed one is heard of.

use crate::copies::{dump, restore};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{asleep_since, heard, one, rest, SOON};
use scheduler_cluster_tests::sql_jobs::{all_ended, define, enqueue};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, Client, Cluster, Shutdown};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Claims, tries keys of its own, and finishes, until it is told to stop; whatever happens to its session.
fn claimer(cluster: &Cluster, number: usize, stop: &AtomicBool, done: &AtomicUsize) {
    let mut turn = 0_u32;
    while !stop.load(Ordering::SeqCst) {
        let Ok(mut db) = cluster.try_connect_as("postgres", "postgres") else {
            stays("this loop", Duration::from_millis(10), || ());
            continue;
        };
        let _ = db.batch_execute(&format!("set application_name = 'claimer {number}'"));
        while !stop.load(Ordering::SeqCst) {
            turn += 1;
            let claim = if turn.is_multiple_of(3) {
                format!("select execution_id::text, lease_token::text from sched.try_claim('work', '2026-01-01', 'claimer {number}', '{turn}') where outcome <> 'conflicted'")
            } else {
                "select execution_id::text, lease_token::text from sched.claim('q', 2)".to_owned()
            };
            let Ok(rows) = db.query(&claim, &[]) else { break };
            for row in &rows {
                let (id, token): (String, String) = (row.get(0), row.get(1));
                if db.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).is_ok() {
                    done.fetch_add(1, Ordering::SeqCst);
                }
            }
            if rows.is_empty() {
                let _ = db.batch_execute("select pg_sleep(0.002)");
            }
        }
    }
}

/// Has those who claim stop, also when the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn nothing_of_a_paused_queue_is_claimed_through_kills() {
    let cluster = Cluster::builder()
        .durable()
        .set("max_connections", "50")
        .set("sched.max_sql_runners", "3")
        .set("sched.runner_idle", "300ms")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table effect (execution_id uuid, attempt int);
         select sched.define_job('work', queue => 'q', max_attempts => 1000, stale_timeout => '300 milliseconds')",
    )
    .unwrap();
    let command = "insert into effect select execution_id, attempt from sched.this_run()";
    define(&mut db, "run", command, "queue => 'q', max_attempts => 1000");
    define(&mut db, "other", command, "queue => 'other', max_attempts => 1000");
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut random = Random::seeded();
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for number in 0..8 {
            let (cluster, stop, done) = (&cluster, &stop, &done);
            scope.spawn(move || claimer(cluster, number, stop, done));
        }
        let work = |db: &mut Client| {
            for job in ["work", "run", "other"] {
                enqueue(db, job, 20);
            }
        };
        for round in 0..8 {
            work(&mut db);
            let before = done.load(Ordering::SeqCst);
            wait_for(
                &mut db,
                "select exists (select from sched.execution where job_name = 'run' and started_at is not null)",
                SOON,
            );
            db.batch_execute("select sched.pause_queue('q')").unwrap();
            // What was under way then may have seen no pause.
            let under_way = "select not exists (select from pg_stat_activity where xact_start < $1::text::timestamptz and pid <> pg_backend_pid())";
            let paused_at: String = one(&mut db, "select clock_timestamp()::text");
            wait_for(&mut db, &under_way.replace("$1::text", &format!("'{paused_at}'")), SOON);
            let paused_at: String = one(&mut db, "select clock_timestamp()::text");
            work(&mut db);
            if round == 4 {
                cluster.restart(Shutdown::Immediate);
                db = cluster.connect();
            }
            for _ in 0..3 {
                let victims = "select pid from pg_stat_activity where application_name like 'claimer %' or backend_type like 'scheduler %' order by pid";
                let pids: Vec<i32> = db.query(victims, &[]).unwrap().iter().map(|row| row.get(0)).collect();
                if !pids.is_empty() {
                    let pid = pids[random.below(pids.len() as u64) as usize];
                    db.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
                }
                // Another queue goes on.
                let id = enqueue(&mut db, "other", 1).remove(0);
                wait_for(&mut db, &format!("select status = 'SUCCESS' from sched.execution where id = '{id}'"), SOON);
            }
            let claimed =
                format!("select count(*) from sched.execution where queue = 'q' and started_at > '{paused_at}'");
            assert_eq!(one::<i64>(&mut db, &claimed), 0, "round {round}: claimed while it was paused");
            assert!(one::<bool>(&mut db, "select paused and ready > 0 from sched.queues where queue = 'q'"));
            db.batch_execute("select sched.resume_queue('q')").unwrap();
            wait_for(&mut db, "select ready = 0 from sched.queues where queue = 'q'", SOON);
            assert!(done.load(Ordering::SeqCst) > before);
        }
    });
    // What killed claimers have left is of nobody who still claims: it stays to be claimed.
    wait_for(&mut db, &none(LEASE), SOON);
    let left = "select sched.finish_success(c.execution_id, c.lease_token) from sched.claim('q', 1000) as c";
    db.batch_execute(left).unwrap();
    all_ended(&mut db);
    let wrong = "select count(*) from sched.execution where status <> 'SUCCESS'";
    assert_eq!(one::<i64>(&mut db, wrong), 0);
    let effects = "select count(*) from sched.execution e where job_name <> 'work'
                     and (select count(*) from effect f where f.execution_id = e.id) <> 1";
    assert_eq!(one::<i64>(&mut db, effects), 0, "each run has its effect, once");
}

#[test]
fn a_resumed_queue_is_heard_of_and_a_paused_one_disturbs_nobody() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "run", "select 1", "queue => 'q'");
    db.batch_execute("select sched.define_job('work', queue => 'q'), sched.define_job('retried', queue => 'q', max_attempts => 2, retry_backoff => '{300 milliseconds}')").unwrap();
    db.batch_execute(
        "select sched.finish_failure(execution_id, lease_token) from sched.try_claim('retried', '2026-01-01')",
    )
    .unwrap();
    let mut worker = cluster.connect();
    worker.batch_execute("listen \"sched:q\"").unwrap();
    db.batch_execute("select sched.pause_queue('q')").unwrap();
    enqueue(&mut db, "run", 5);
    enqueue(&mut db, "work", 5);
    wait_for(&mut db, "select ready = 11 from sched.queues where queue = 'q'", SOON);
    // The view goes by the clock. The dispatcher says so when it has moved what was to be tried again.
    wait_for(&mut db, &none(DELAYED), SOON);
    heard(&mut worker, &mut db, "sched:q");
    let since = rest(&mut db);
    stays("the dispatcher's sleep", Duration::from_secs(2), || asleep_since(&mut db) == Some(since.clone()));
    assert_eq!(one::<i64>(&mut db, "select count(*) from pg_stat_activity where backend_type = 'scheduler runner'"), 0);
    assert_eq!(one::<i64>(&mut worker, "select count(*) from sched.claim('q', 100)"), 0);
    assert_eq!(heard(&mut worker, &mut db, "sched:q"), 0);
    db.batch_execute("select sched.resume_queue('q')").unwrap();
    assert_eq!(heard(&mut worker, &mut db, "sched:q"), 1);
    assert_eq!(one::<i64>(&mut worker, "select count(*) from sched.claim('q', 100)"), 6);
    wait_for(&mut db, "select count(*) = 5 from sched.history where job_name = 'run' and status = 'SUCCESS'", SOON);
    // Of one that was not paused nobody hears.
    db.batch_execute("select sched.resume_queue('q')").unwrap();
    assert_eq!(heard(&mut worker, &mut db, "sched:q"), 0);
}

/// Runs of several queues: the first by priority, then by plan time, whatever queue it is in.
#[test]
fn a_runner_takes_what_comes_first_of_all_queues_of_its_owner() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table log (n serial, job text)").unwrap();
    for (queue, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        let more = format!("queue => '{queue}', priority => {priority}");
        define(
            &mut db,
            queue,
            "insert into log (job) select job_name || plan_time::date - '2026-01-01' from sched.this_run()",
            &more,
        );
    }
    for (job, day) in [("a", 1), ("a", 4), ("b", 2), ("b", 9), ("c", 0), ("c", 3), ("d", 1), ("d", 3)] {
        db.batch_execute(&format!(
            "select sched.enqueue('{job}', plan_time => '2026-01-01'::timestamptz + {day} * interval '1 day')"
        ))
        .unwrap();
    }
    cluster.set("sched.enabled", "on");
    all_ended(&mut db);
    let order: String = one(&mut db, "select string_agg(job, ' ' order by n) from log");
    assert_eq!(order, "d1 b2 d3 b9 c0 a1 c3 a4");
}

#[test]
fn a_dump_a_restart_and_a_standby_keep_what_is_paused() {
    let cluster = Cluster::builder().set("wal_level", "replica").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('work', queue => 'q'); select sched.enqueue('work'), sched.enqueue('free'); select sched.pause_queue('q'), sched.pause_queue('empty')").unwrap();
    let paused = "select string_agg(queue || ' ' || paused, ', ' order by queue) from sched.queues";
    let known = "default false, empty true, q true";
    let is_kept = |db: &mut Client, what: &str| {
        assert_eq!(one::<String>(db, paused), known, "{what}");
        assert_eq!(one::<i64>(db, "select count(*) from sched.claim('q')"), 0, "{what}");
        let tried = "select outcome from sched.try_claim('work', '2026-01-01')";
        assert_eq!(one::<String>(db, tried), "conflicted", "{what}");
    };
    is_kept(&mut db, "the first");
    cluster.restart(Shutdown::Immediate);
    is_kept(&mut cluster.connect(), "a crash");
    let mut db = cluster.connect();

    cluster.execute("create database copy");
    restore(&cluster, "copy", &dump(&cluster, "postgres", &[]));
    let mut copy = cluster.connect_as("postgres", "copy");
    copy.batch_execute("select sched.adopt()").unwrap();
    is_kept(&mut copy, "a dump");

    let standby = Cluster::builder().start_standby_of(&cluster);
    let lsn: String = one(&mut db, "select pg_current_wal_flush_lsn()::text");
    let mut there = standby.connect();
    wait_for(&mut there, &format!("select pg_last_wal_replay_lsn() >= '{lsn}'"), SOON);
    assert_eq!(one::<String>(&mut there, paused), known);
    cluster.stop(Shutdown::Fast);
    standby.promote();
    let mut there = standby.connect();
    wait_for(&mut there, "select not pg_is_in_recovery()", SOON);
    is_kept(&mut there, "a promotion");
    there.batch_execute("select sched.resume_queue('q')").unwrap();
    assert_eq!(one::<i64>(&mut there, "select count(*) from sched.claim('q')"), 1);
}

#[test]
fn what_is_to_be_delivered_waits_for_its_queue() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('tell', 'notify', 'news', queue => 'news'), sched.pause_queue('news');
         select sched.enqueue('tell', '1', run_at => clock_timestamp() + interval '100 milliseconds')",
    )
    .unwrap();
    wait_for(&mut db, "select ready = 1 from sched.queues where queue = 'news'", SOON);
    // It does not look for it again and again.
    rest(&mut db);
    assert_eq!(one::<String>(&mut db, "select status from sched.execution"), "PENDING");
    db.batch_execute("select sched.resume_queue('news')").unwrap();
    wait_for(&mut db, "select status = 'SUCCESS' from sched.execution", SOON);
}
