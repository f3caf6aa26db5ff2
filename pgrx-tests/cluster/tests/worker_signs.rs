//! What workers of pull jobs are told while they run: that somebody cancels, that they last too long. And what they give back until a time.

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator as _;
use scheduler_cluster_tests::scheduler::{heard, one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, sleeping};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::time::{Duration, Instant};

/// Claims one execution of a queue: its id and the token.
fn claim(worker: &mut Client, queue: &str) -> (String, String) {
    wait_until("something to claim", SOON, || {
        let claim = format!("select execution_id::text, lease_token::text from sched.claim('{queue}')");
        worker.query_opt(&claim, &[]).unwrap().map(|row| (row.get(0), row.get(1)))
    })
}

/// The next payload on the channel of cancels.
fn next_cancel(worker: &mut Client) -> String {
    let mut notifications = worker.notifications();
    let mut all = notifications.timeout_iter(SOON);
    let next = all.next().unwrap().expect("a notification");
    assert_eq!(next.channel(), "sched:cancel");
    next.payload().to_owned()
}

#[test]
fn a_worker_hears_of_a_cancel_at_once() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('work', queue => 'q')").unwrap();
    define(&mut db, "run", "select pg_sleep(100)", "");
    let ids = enqueue(&mut db, "work", 3);
    let mut worker = cluster.connect();
    worker.batch_execute("listen \"sched:cancel\"").unwrap();
    let (id, token) = claim(&mut worker, "q");
    assert_eq!(id, ids[0]);
    // Nothing is told of a cancel that is taken back, or of what ends at once.
    let cancel = |id: &str| format!("select sched.cancel('{id}')");
    db.batch_execute(&format!("begin; {}; rollback", cancel(&id))).unwrap();
    db.batch_execute(&cancel(&ids[1])).unwrap();
    assert_eq!(heard(&mut worker, &mut db, "sched:cancel"), 0);
    db.batch_execute(&format!("begin; {}", cancel(&id))).unwrap();
    db.batch_execute("commit").unwrap();
    assert_eq!(next_cancel(&mut worker), id);
    assert_eq!(one::<String>(&mut worker, &format!("select sched.heartbeat('{id}', '{token}')")), "cancel");
    worker.batch_execute(&format!("select sched.finish_failure('{id}', '{token}')")).unwrap();
    assert_eq!(ended(&mut db, &id).0, "CANCELLED");
    // A run of the server is interrupted, which no worker needs to hear.
    let run = enqueue(&mut db, "run", 1).remove(0);
    sleeping(&mut db, "run", 1);
    db.batch_execute(&cancel(&run)).unwrap();
    assert_eq!(ended(&mut db, &run).0, "CANCELLED");
    assert_eq!(heard(&mut worker, &mut db, "sched:cancel"), 0);
    // Where notifications are off nobody hears, and the next heartbeat answers all the same.
    cluster.set("sched.notify", "off");
    let (id, token) = claim(&mut worker, "q");
    wait_for(&mut db, "select current_setting('sched.notify') = 'off'", SOON);
    db.batch_execute(&cancel(&id)).unwrap();
    assert_eq!(heard(&mut worker, &mut db, "sched:cancel"), 0);
    assert_eq!(one::<String>(&mut worker, &format!("select sched.heartbeat('{id}', '{token}')")), "cancel");
}

#[test]
fn a_worker_that_lasts_too_long_is_asked_to_stop_and_tried_again() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let limits = "max_attempts => 2, run_timeout => '700 milliseconds', stale_timeout => '30 seconds', retry_backoff => '{100 milliseconds}'";
    db.batch_execute(&format!("select sched.define_job('work', queue => 'q', {limits}); select sched.enqueue('work')"))
        .unwrap();
    let mut worker = cluster.connect();
    for attempt in [1, 2] {
        let (id, token) = claim(&mut worker, "q");
        let beat = format!("select sched.heartbeat('{id}', '{token}')");
        wait_until("a heartbeat that asks to stop", SOON, || {
            (one::<String>(&mut worker, &beat) == "cancel").then_some(())
        });
        let lasted: f64 = one(&mut db, &format!("select extract(epoch from clock_timestamp() - started_at)::float8 from sched.execution where id = '{id}'"));
        assert!(lasted >= 0.7, "after {lasted} s");
        worker.batch_execute(&format!("select sched.finish_failure('{id}', '{token}', 'run_timeout')")).unwrap();
        let state = format!("select status || attempt || error_code from sched.execution where id = '{id}'");
        assert_eq!(one::<String>(&mut db, &state), format!("FAILED{attempt}run_timeout"));
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.failed where not retryable"), 1);
}

#[test]
fn what_was_given_back_is_heard_of_when_its_time_has_come() {
    let cluster = Cluster::builder().durable().start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('work', queue => 'q'); select sched.enqueue('work')").unwrap();
    let mut worker = cluster.connect();
    worker.batch_execute("listen \"sched:q\"; set synchronous_commit = off").unwrap();
    for _ in 0..3 {
        let (id, token) = claim(&mut worker, "q");
        heard(&mut worker, &mut db, "sched:q");
        let began = Instant::now();
        worker
            .batch_execute(&format!(
                "select sched.snooze('{id}', '{token}', clock_timestamp() + interval '500 milliseconds')"
            ))
            .unwrap();
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim('q')"), 0);
        let mut notifications = worker.notifications();
        let mut all = notifications.timeout_iter(SOON);
        all.next().unwrap().expect("a notification");
        assert!(began.elapsed() >= Duration::from_millis(500), "after {:?}", began.elapsed());
    }
    // One that was acknowledged survives a crash, whatever the client has set.
    let (id, token) = claim(&mut worker, "q");
    worker
        .batch_execute(&format!("select sched.snooze('{id}', '{token}', clock_timestamp() + interval '1 hour')"))
        .unwrap();
    cluster.restart(Shutdown::Immediate);
    let mut db = cluster.connect();
    let state = format!(
        "select status || attempt || (run_at > now() + interval '50 minutes') from sched.execution where id = '{id}'"
    );
    assert_eq!(one::<String>(&mut db, &state), "PENDING0true");
    // Runs of the server are not a client's to give back.
    define(&mut db, "run", "select pg_sleep(100)", "");
    enqueue(&mut db, "run", 1);
    sleeping(&mut db, "run", 1);
    let theirs = "select sched.snooze(id, lease_token, now()) from sched.execution where job_name = 'run'";
    let error = db.batch_execute(theirs).expect_err(theirs);
    assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
}

/// Once a dispatcher has forgotten the drop, too.
#[test]
fn a_run_of_a_dropped_schedule_cannot_be_given_back() {
    let cluster = Cluster::builder().set("sched.tick_interval", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('work', queue => 'q', max_attempts => 5);
         select sched.create_schedule('s', 'never', 'work'); select sched.fire_now('s')",
    )
    .unwrap();
    let mut worker = cluster.connect();
    let (id, token) = claim(&mut worker, "q");
    db.batch_execute("select sched.drop_schedule('s', cancel_pending => true)").unwrap();
    wait_for(&mut db, "select not exists (select from sched.schedule_dropped)", SOON);
    let shown = format!("select run_at is null and status = 'RUNNING' from sched.execution where id = '{id}'");
    assert!(one::<bool>(&mut db, &shown));
    worker.batch_execute(&format!("select sched.snooze('{id}', '{token}', now())")).unwrap();
    assert_eq!(ended(&mut db, &id).0, "CANCELLED");
    assert_eq!(one::<i64>(&mut worker, "select count(*) from sched.claim('q')"), 0);
}
