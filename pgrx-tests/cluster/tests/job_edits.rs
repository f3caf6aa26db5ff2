//! Jobs that two sessions alter at once, and what goes on meanwhile.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::thread;

const WAITS: &str =
    "select exists (select from pg_stat_activity where wait_event_type = 'Lock' and query like '%alter_job%')";

/// A job with an execution that waits; a session in whose open transaction it has been altered.
fn being_altered(cluster: &Cluster) -> (Client, Client) {
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job', queue => 'q'), sched.enqueue('job'); set lock_timeout = '20s'")
        .unwrap();
    let mut first = cluster.connect();
    first.batch_execute("begin; select sched.alter_job('job', max_attempts => 7, queue => 'r')").unwrap();
    (db, first)
}

#[test]
fn both_changes_hold_of_two_that_are_made_at_once() {
    let cluster = Cluster::new();
    let (mut db, mut first) = being_altered(&cluster);
    let mut second = cluster.connect();
    thread::scope(|scope| {
        let altered = scope
            .spawn(|| second.batch_execute("select sched.alter_job('job', priority => 5, reset => '{run_timeout}')"));
        wait_for(&mut db, WAITS, SOON);
        first.batch_execute("commit").unwrap();
        altered.join().unwrap().unwrap();
    });
    assert_eq!(one::<String>(&mut db, "select concat_ws(' ', queue, max_attempts, priority) from sched.jobs"), "r 7 5");
}

#[test]
fn what_is_dropped_meanwhile_is_unknown() {
    let cluster = Cluster::new();
    let (mut db, mut first) = being_altered(&cluster);
    first.batch_execute("select sched.drop_job('job')").unwrap();
    let mut second = cluster.connect();
    let refused = thread::scope(|scope| {
        let altered = scope.spawn(|| second.batch_execute("select sched.alter_job('job', priority => 5)"));
        wait_for(&mut db, WAITS, SOON);
        first.batch_execute("commit").unwrap();
        altered.join().unwrap().unwrap_err()
    });
    assert_eq!(refused.code().map(|code| code.code()), Some("42704"), "{refused:?}");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.jobs"), 0);
}

/// Work goes on under the definition that is committed; each session takes the new one as soon as that is.
#[test]
fn nobody_waits_for_an_edit_that_is_not_committed() {
    for row_by_row in [true, false] {
        let mut builder = Cluster::builder();
        if !row_by_row {
            builder = builder.set("sched.fast_path", "off");
        }
        let cluster = builder.start();
        let (mut db, mut first) = being_altered(&cluster);
        db.batch_execute("set lock_timeout = '1s'").unwrap();
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim('q')"), 1);
        let outcome = "select outcome || ' ' || max_attempts from sched.try_claim('job', '2026-01-01')";
        assert_eq!(one::<String>(&mut db, outcome), "won 3");
        db.batch_execute("select sched.enqueue('job')").unwrap();
        first.batch_execute("commit").unwrap();
        let outcome = "select outcome || ' ' || max_attempts from sched.try_claim('job', '2026-01-02')";
        assert_eq!(one::<String>(&mut db, outcome), "won 7");
        db.batch_execute("select sched.enqueue('job')").unwrap();
        let waiting = "select string_agg(queue || ' ' || ready, ', ' order by queue) from sched.queues";
        assert_eq!(one::<String>(&mut db, waiting), "q 1, r 1");
    }
}
