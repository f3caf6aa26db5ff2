//! Who enqueues marks the queue, and the dispatcher notifies it: once for what comes together, nothing of what was rolled back, everything that was
//! prepared; and where there is nobody to do so the transaction notifies by itself.

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::Notification;
use scheduler_cluster_tests::proc::{backends, freeze, is_stopped, kill, Signal};
use scheduler_cluster_tests::scheduler::{dispatcher, heard, one, SOON};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::collections::BTreeSet;
use std::time::Duration;

const ENQUEUE: &str = "select sched.enqueue('job')";

fn listening(cluster: &Cluster) -> (Client, Client) {
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job', queue => 'q')").unwrap();
    wait_for(&mut db, "select ok from sched.health() where component = 'dispatcher'", SOON);
    let mut ear = cluster.connect();
    ear.batch_execute("listen \"sched:q\"").unwrap();
    (db, ear)
}

fn next(ear: &mut Client) -> Notification {
    ear.notifications().timeout_iter(SOON).next().unwrap().expect("to hear of it")
}

/// It is the dispatcher that notifies, at once and once for each commit at most.
#[test]
fn the_dispatcher_notifies() {
    let cluster = Cluster::new();
    let (mut db, mut ear) = listening(&cluster);
    let sender = dispatcher(&mut db).unwrap();
    for _ in 0..20 {
        db.batch_execute(ENQUEUE).unwrap();
        let next = next(&mut ear);
        assert_eq!((next.channel(), next.payload(), next.process_id()), ("sched:q", "", sender));
    }
    db.batch_execute(&format!("begin; {ENQUEUE}; {ENQUEUE}; savepoint s; {ENQUEUE}; commit")).unwrap();
    assert_eq!(heard(&mut ear, &mut db, "sched:q"), 1, "one transaction, one notification");
    for nothing in ["begin; {}; rollback", "begin; savepoint s; {}; rollback to s; commit"] {
        db.batch_execute(&nothing.replace("{}", ENQUEUE)).unwrap();
        assert_eq!(heard(&mut ear, &mut db, "sched:q"), 0, "{nothing}");
    }
    db.batch_execute(&format!(
        "begin; savepoint s; {ENQUEUE}; release s; savepoint t; {ENQUEUE}; rollback to t; commit"
    ))
    .unwrap();
    assert_eq!(heard(&mut ear, &mut db, "sched:q"), 1, "what a savepoint leaves behind is heard of");
    // It goes on to sleep, and shows it.
    wait_for(
        &mut db,
        "select query like 'asleep until %' and state = 'idle' from pg_stat_activity where backend_type = 'scheduler dispatcher'",
        SOON,
    );
}

/// What comes while it sends is sent with the next.
#[test]
fn what_comes_together_is_sent_together() {
    const SESSIONS: usize = 4;
    const EACH: usize = 200;
    let cluster = Cluster::new();
    let (mut db, mut ear) = listening(&cluster);
    std::thread::scope(|scope| {
        for _ in 0..SESSIONS {
            scope.spawn(|| {
                let mut db = cluster.connect();
                (0..EACH).for_each(|_| db.batch_execute(ENQUEUE).unwrap());
            });
        }
    });
    let count = heard(&mut ear, &mut db, "sched:q");
    println!("{count} notifications of {} commits", SESSIONS * EACH);
    assert!(count > 0 && count < SESSIONS * EACH, "{count} notifications");
}

/// An enqueue can be prepared, and is heard of when that is committed.
#[test]
fn what_is_prepared_is_heard_of() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    let (mut db, mut ear) = listening(&cluster);
    db.batch_execute(&format!("begin; {ENQUEUE}; prepare transaction 'p'")).unwrap();
    assert_eq!(heard(&mut ear, &mut db, "sched:q"), 0);
    cluster.connect().batch_execute("commit prepared 'p'").unwrap();
    assert_eq!(next(&mut ear).channel(), "sched:q");
    // Also where another server process than the one that knew of it commits it.
    db.batch_execute(&format!("begin; {ENQUEUE}; prepare transaction 'p'")).unwrap();
    drop((db, ear));
    cluster.restart(Shutdown::Immediate);
    let mut db = cluster.connect();
    wait_for(&mut db, "select ok from sched.health() where component = 'dispatcher'", SOON);
    let mut ear = cluster.connect();
    ear.batch_execute("listen \"sched:q\"").unwrap();
    db.batch_execute("commit prepared 'p'").unwrap();
    assert_eq!(next(&mut ear).channel(), "sched:q");
}

/// More queues than have an entry, in one transaction and in many.
#[test]
fn every_queue_is_heard_of() {
    const QUEUES: i32 = 600;
    let cluster = Cluster::new();
    let (mut db, mut ear) = listening(&cluster);
    let all = format!("generate_series(1, {QUEUES}) i");
    db.batch_execute(&format!("select sched.define_job('job' || i, queue => 'q' || i) from {all}")).unwrap();
    for number in 1..=QUEUES {
        ear.batch_execute(&format!("listen \"sched:q{number}\"")).unwrap();
    }
    let mut others: Vec<Client> = (0..2).map(|_| cluster.connect()).collect();
    let mut enqueue = |together: bool| {
        if together {
            db.batch_execute(&format!("select sched.enqueue('job' || i) from {all}")).unwrap();
        } else {
            // Each begins before the others' commits: entries change hands in between.
            for number in (1..=QUEUES).step_by(2) {
                for (offset, other) in (0..).zip(&mut others) {
                    other.batch_execute(&format!("begin; select sched.enqueue('job{}')", number + offset)).unwrap();
                }
                others.iter_mut().for_each(|other| other.batch_execute("commit").unwrap());
            }
        }
    };
    for together in [true, false] {
        enqueue(together);
        let mut missing: BTreeSet<String> = (1..=QUEUES).map(|number| format!("sched:q{number}")).collect();
        while !missing.is_empty() {
            missing.remove(next(&mut ear).channel());
        }
    }
}

/// Where nobody serves the database, and where who does is stuck, the transaction notifies by itself.
#[test]
fn without_a_dispatcher_the_transaction_notifies() {
    let cluster = Cluster::new();
    let (mut db, mut ear) = listening(&cluster);
    let me: i32 = one(&mut db, "select pg_backend_pid()");
    let sender = dispatcher(&mut db).unwrap();
    freeze(sender);
    wait_until("it to be stopped", SOON, || is_stopped(sender).then_some(()));
    // Those who come first cannot know that it is stuck.
    let heard_of = wait_until("to hear of it", SOON, || {
        db.batch_execute(ENQUEUE).unwrap();
        let mut heard = ear.notifications();
        let next = heard.timeout_iter(Duration::from_millis(50)).next().unwrap();
        next
    });
    assert_eq!(heard_of.process_id(), me);
    kill(sender, Signal::CONT);
    wait_until("it to send what is left", SOON, || {
        let next = next(&mut ear);
        (next.process_id() == sender).then_some(())
    });
    cluster.set("sched.databases", "none");
    wait_until("it to leave", SOON, || backends(&mut db, "scheduler dispatcher").is_empty().then_some(()));
    heard(&mut ear, &mut db, "sched:q");
    db.batch_execute(ENQUEUE).unwrap();
    assert_eq!(next(&mut ear).process_id(), me);
    // What it left behind is no reason to be silent for the next.
    cluster.set("sched.databases", "*");
    wait_for(&mut db, "select ok from sched.health() where component = 'dispatcher'", SOON);
    wait_until("another to notify", SOON, || {
        db.batch_execute(ENQUEUE).unwrap();
        (next(&mut ear).process_id() != me).then_some(())
    });
}

/// What a dispatcher has taken, and not sent because it was cancelled or ended, is sent all the same.
#[test]
fn what_could_not_be_sent_is_sent_later() {
    let cluster = Cluster::new();
    let (mut db, mut ear) = listening(&cluster);
    db.batch_execute("create table written (n int)").unwrap();
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        assert_eq!(heard(&mut ear, &mut db, "sched:q"), 0, "nothing of before is left");
        cluster.set("synchronous_standby_names", "nobody");
        // It keeps the lock of all that notify until its commit is somewhere else as well.
        let mut holder = cluster.connect();
        let pid: i32 = one(&mut holder, "select pg_backend_pid()");
        let holder = std::thread::spawn(move || holder.batch_execute("insert into written values (1); notify z"));
        wait_for(&mut db, &format!("select wait_event = 'SyncRep' from pg_stat_activity where pid = {pid}"), SOON);
        db.batch_execute("set synchronous_commit = local").unwrap();
        db.batch_execute(ENQUEUE).unwrap();
        let sends = "from pg_stat_activity where backend_type = 'scheduler dispatcher' and wait_event_type = 'Lock'";
        wait_for(&mut db, &format!("select count(*) = 1 {sends}"), SOON);
        db.batch_execute(&format!("select {end}(pid) {sends}")).unwrap();
        wait_for(&mut db, &format!("select count(*) = 0 {sends} and query = 'notifying queues'"), SOON);
        cluster.set("synchronous_standby_names", "");
        holder.join().unwrap().unwrap();
        assert_eq!(next(&mut ear).channel(), "sched:q", "after {end}");
        db.batch_execute("select sched.cancel_many(queue => 'q')").unwrap();
    }
}
