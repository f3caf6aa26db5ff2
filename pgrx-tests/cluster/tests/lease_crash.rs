//! What was acknowledged survives: every process of the server dies right after it said that a run is finished, to clients that
//! had asked for a commit that does not wait for the disk.

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{wait_until, Client, Cluster};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const CLIENTS: usize = 4;
const CRASHES: usize = 20;

#[derive(Default)]
struct Acknowledged {
    /// Plans of acknowledged claims and finishes: how many hours after 2026.
    claims: Vec<i32>,
    finishes: Vec<i32>,
    tokens: Vec<String>,
    fences: Vec<i64>,
}

/// Claims and finishes one plan after the other, until the server is gone; notes what it was told.
fn work(db: &mut Client, next: &AtomicUsize, noted: &Mutex<Acknowledged>) -> Result<(), postgres::Error> {
    db.batch_execute("set synchronous_commit = off")?;
    loop {
        let plan = i32::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
        let claim = "select execution_id::text, lease_token::text, fence
                       from sched.try_claim('job', '2026-01-01'::timestamptz + $1::int * interval '1 hour', stale_timeout => '1 day')";
        let row = db.query_one(claim, &[&plan])?;
        let (id, token): (String, String) = (row.get(0), row.get(1));
        {
            let mut noted = noted.lock().unwrap();
            noted.claims.push(plan);
            noted.tokens.push(token.clone());
            noted.fences.push(row.get(2));
        }
        db.execute("select sched.finish_success($1::text::uuid, $2::text::uuid)", &[&id, &token])?;
        noted.lock().unwrap().finishes.push(plan);
    }
}

#[test]
fn what_was_acknowledged_survives_20_crashes() {
    // A writer that comes by itself would hide a commit that did not wait.
    let cluster =
        Cluster::builder().durable().set("wal_writer_delay", "10s").set("log_min_messages", "warning").start();
    cluster.execute("create extension scheduler");
    let (next, noted) = (AtomicUsize::new(0), Mutex::new(Acknowledged::default()));
    for crash in 1..=CRASHES {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let (next, noted) = (&next, &noted);
                let mut db = cluster.connect();
                scope.spawn(move || work(&mut db, next, noted).unwrap_err());
            }
            let before = noted.lock().unwrap().finishes.len();
            wait_until("some finishes", Duration::from_secs(60), || {
                (noted.lock().unwrap().finishes.len() >= before + 20).then_some(())
            });
            cluster.crash();
        });
        cluster.start();
        let mut db = cluster.connect();
        let noted = noted.lock().unwrap();
        let missing = |plans: &[i32], statuses: &str| -> i64 {
            let query = format!(
                "select count(*) from unnest($1::int[]) p
                  where not exists (select from sched.execution e where e.job_name = 'job' and e.status in ({statuses})
                                       and e.plan_time = '2026-01-01'::timestamptz + p * interval '1 hour')"
            );
            cluster.connect().query_one(&query, &[&plans]).unwrap().get(0)
        };
        assert_eq!(missing(&noted.finishes, "'SUCCESS'"), 0, "acknowledged finishes lost in crash {crash}");
        assert_eq!(missing(&noted.claims, "'SUCCESS', 'RUNNING'"), 0, "acknowledged claims lost in crash {crash}");
        let next_fence: i64 = one(&mut db, "select nextval('sched.fence')");
        assert!(noted.fences.iter().all(|fence| *fence < next_fence), "a fence comes again after crash {crash}");
    }
    let noted = noted.lock().unwrap();
    assert!(noted.finishes.len() >= 20 * CRASHES);
    assert_eq!(noted.fences.iter().collect::<HashSet<_>>().len(), noted.fences.len(), "a fence came twice");
    assert_eq!(noted.tokens.iter().collect::<HashSet<_>>().len(), noted.tokens.len(), "a token came twice");
    cluster.check_indexes();
}
