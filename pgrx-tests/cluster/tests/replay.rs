//! What is written row by row, below the executor: WAL that replays to the same pages, and indexes that agree with their tables.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Rounds of each session.
const ROUNDS: usize = 25;

/// One session's share: claims of new and known keys, batches, heartbeats, ends of both kinds, rollbacks, and cancels (which may wait
/// for somebody's open claim, so each in a transaction of its own).
fn work(db: &mut Client, session: usize) {
    for round in 0..ROUNDS {
        let end = if round % 5 == 0 { "rollback" } else { "commit" };
        db.batch_execute(&format!(
            "begin;
             select sched.enqueue_many('batch', array_fill('{{\"a\": 1}}'::jsonb, '{{20}}'));
             select sched.try_claim('hot', '2026-01-01'::timestamptz + interval '1 hour' * ({round} / 2), max_attempts => 9);
             select sched.try_claim('own', '2026-01-01'::timestamptz + interval '1 hour' * {round}, 'session', '{session}', max_attempts => 9);
             savepoint s;
             select sched.claim('default', 10);
             rollback to s;
             {end};
             begin;
             create temp table mine on commit drop as select * from sched.claim('default', 15, stale_timeout => '1 second');
             select sched.heartbeat(execution_id, lease_token, '1 minute') from mine limit 5;
             select sched.finish_failure(execution_id, lease_token) from mine limit 3;
             select sched.finish_success_many(coalesce(array_agg(execution_id), '{{}}'), coalesce(array_agg(lease_token), '{{}}')) from (select * from mine offset 3 limit 10) as rest;
             commit;
             select sched.cancel(id) from (select id from sched.execution where status = 'PENDING' limit 1) as one"
        ))
        .unwrap();
    }
}

/// Each page that a standby replays is compared with what the primary made of it. A difference ends the standby's recovery.
#[test]
fn every_page_replays_as_it_was_written() {
    let primary = Cluster::builder()
        .set("wal_consistency_checking", "all")
        .set("wal_keep_size", "4GB")
        .set("sched.tick_interval", "1s")
        .start();
    let mut db = primary.with_extension("postgres");
    let standby = Cluster::builder().set("wal_consistency_checking", "all").start_standby_of(&primary);
    db.batch_execute(
        "select sched.define_job('batch', max_attempts => 3, retry_backoff => '{10 milliseconds}'), sched.define_job('fired', queue => 'fired');
         select sched.create_schedule('s' || i, format('every %s milliseconds', 50 + i), 'fired', catch_up => 'every_plan')
           from generate_series(1, 20) as i",
    )
    .unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Tables and indexes are rewritten meanwhile.
        let maintenance = scope.spawn(|| {
            let mut db = primary.connect();
            let commands = [
                "reindex table concurrently sched.ledger",
                &format!("vacuum {READY_TABLE}"),
                &format!("vacuum full {LEASE_TABLE}"),
                &format!("reindex table concurrently {READY_TABLE}"),
                &format!("vacuum full {READY_TABLE}"),
                "vacuum sched.ledger",
                &format!("reindex table concurrently {TIMER_TABLE}"),
                "cluster sched.ledger using ledger_pkey",
            ];
            for command in commands.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                db.batch_execute(command).unwrap();
            }
        });
        let sessions: Vec<_> = (0..4)
            .map(|session| {
                let primary = &primary;
                scope.spawn(move || work(&mut primary.connect(), session))
            })
            .collect();
        let results: Vec<_> = sessions.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        maintenance.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    let written: String = one(&mut db, "select pg_current_wal_lsn()::text");
    let mut reader = standby.connect();
    wait_for(&mut reader, &format!("select pg_last_wal_replay_lsn() >= '{written}'"), SOON * 6);
    // It still replays.
    db.batch_execute("select sched.enqueue('batch')").unwrap();
    let written: String = one(&mut db, "select pg_current_wal_lsn()::text");
    wait_for(&mut reader, &format!("select pg_is_in_recovery() and pg_last_wal_replay_lsn() >= '{written}'"), SOON);
    assert!(!standby.log().contains("inconsistent page"), "{}", standby.log());
    assert!(one::<i64>(&mut db, "select count(*) from sched.execution where status = 'SUCCESS'") >= 100);
    primary.check_indexes();
    standby.promote();
    wait_for(&mut reader, "select not pg_is_in_recovery()", SOON);
    standby.check_indexes();
}
