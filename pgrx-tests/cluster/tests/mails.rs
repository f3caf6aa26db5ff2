//! A job with the defaults survives workers that die: each mail is sent once.

use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Cluster};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const MAILS: i64 = 3000;
const KILLS: usize = 100;

/// Claims a mail and sends it in the transaction that finishes it, until it is told to stop; a new session follows one that was killed.
fn mailer(cluster: &Cluster, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let Ok(mut db) = cluster.try_connect_as("postgres", "postgres") else { continue };
        let _ = db.batch_execute("set application_name = 'mailer'");
        while !stop.load(Ordering::SeqCst) {
            let Ok(rows) = db.query("select execution_id::text, lease_token::text from sched.claim('mail')", &[])
            else {
                break;
            };
            let Some(row) = rows.first() else {
                stays("this loop", Duration::from_millis(20), || ());
                continue;
            };
            let (id, token): (String, String) = (row.get(0), row.get(1));
            let send = format!(
                "begin; insert into sent values ('{id}'); select pg_sleep(0.002); select sched.finish_success('{id}', '{token}'); commit"
            );
            if db.batch_execute(&send).is_err() {
                break;
            }
        }
    }
}

#[test]
fn mails_are_sent_once_by_workers_that_die() {
    // A lease lasts 5 minutes otherwise: a second, so that nobody waits for them.
    let cluster = Cluster::builder().set("sched.stale_timeout", "1s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table sent (execution_id uuid); select sched.define_job('mail', queue => 'mail')")
        .unwrap();
    db.batch_execute(&format!("select sched.enqueue_many('mail', array_fill('1'::jsonb, array[{MAILS}]))")).unwrap();
    let stop = AtomicBool::new(false);
    let mut random = Random::seeded();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| mailer(&cluster, &stop));
        }
        for _ in 0..KILLS {
            let pick = random.below(4);
            let kill = format!(
                "select pg_terminate_backend(pid) from (select pid from pg_stat_activity where application_name = 'mailer' order by pid offset {pick} limit 1) as a"
            );
            wait_until("somebody to kill", SOON, || (!db.query(&kill, &[]).unwrap().is_empty()).then_some(()));
            stays("the next ones at work", Duration::from_millis(20 + random.below(60)), || ());
        }
        wait_for(
            &mut db,
            &format!("select count(*) = {MAILS} from sched.execution where status = 'SUCCESS'"),
            3 * SOON,
        );
        stop.store(true, Ordering::SeqCst);
    });
    let sent = "select count(*) || ' ' || count(distinct execution_id) from sent";
    assert_eq!(one::<String>(&mut db, sent), format!("{MAILS} {MAILS}"));
    let lost: i64 = one(&mut db, "select count(*) from sched.execution where attempt > 1");
    assert!(lost > 0, "no kill hit a mail that was claimed");
}
