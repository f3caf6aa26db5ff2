//! DROP EXTENSION, and what else locks all of our tables, beside sessions that enqueue, claim and finish: no deadlock, for nobody.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::SOON;
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Short, so that a deadlock is seen soon. Half of it is how long anybody waits with locks in hand, and a busy machine may add a tenth of a second.
const DEADLOCK_TIMEOUT: &str = "300ms";

/// What clients do again and again: each in one statement, and in a transaction of several.
const CLIENTS: [&str; 6] = [
    "select sched.enqueue_many('job', array_fill('1'::jsonb, '{20}'))",
    "select sched.finish_success(execution_id, lease_token) from sched.claim(max_claims => 5)",
    "begin; select sched.enqueue('job'); select sched.heartbeat(execution_id, lease_token) from sched.claim(); select count(*) from sched.execution; commit",
    "begin; select count(*) from sched.running; select sched.finish_failure(execution_id, lease_token) from sched.claim(max_claims => 3); commit",
    "begin; select sched.create_schedule(gen_random_uuid()::text, 'every 1 second', 'job'); select sched.dispatch_due(); commit",
    "begin; select sched.define_job('job', max_attempts => 2); select sched.fire_now(schedule_name) from (select schedule_name from sched.schedules limit 1) s;
     select sched.drop_schedule(schedule_name, cancel_pending => true) from (select schedule_name from sched.schedules limit 1) s; commit",
];

fn beside_clients(cluster: &Cluster, commands: impl FnOnce(&mut Client)) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for work in CLIENTS {
            let mut db = cluster.connect();
            let done = &done;
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    if let Err(error) = db.batch_execute(work) {
                        // The extension is not there, or has just gone.
                        let code = error.code().unwrap_or_else(|| panic!("{work}: {error}")).clone();
                        assert_ne!(code, SqlState::T_R_DEADLOCK_DETECTED, "{work}: {error:?}");
                        db.batch_execute("rollback; select pg_sleep(0.005)").unwrap();
                    }
                }
            });
        }
        let mut db = cluster.connect();
        // Ends the clients whatever becomes of the commands.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let _end = End(&done);
        commands(&mut db);
    });
}

#[test]
fn drop_extension_beside_busy_sessions_is_no_deadlock() {
    let cluster = Cluster::builder().set("deadlock_timeout", DEADLOCK_TIMEOUT).start();
    beside_clients(&cluster, |db| {
        for _ in 0..25 {
            db.batch_execute("create extension scheduler; select sched.define_job('job')").unwrap();
            wait_for(db, "select count(*) > 20 from sched.execution where attempt > 0", SOON);
            db.batch_execute("drop extension scheduler").unwrap();
        }
    });
    assert!(cluster.logged("deadlock").is_empty(), "{:#?}", cluster.logged("deadlock"));
}

#[test]
fn updates_and_new_owners_beside_busy_sessions_are_no_deadlock() {
    let cluster = Cluster::builder().set("deadlock_timeout", DEADLOCK_TIMEOUT).start();
    cluster.execute("create role dba superuser login; create role heir superuser login");
    beside_clients(&cluster, |db| {
        for _ in 0..6 {
            cluster
                .connect_as("dba", "postgres")
                .batch_execute("create extension scheduler; select sched.define_job('job')")
                .unwrap();
            wait_for(db, "select count(*) > 20 from sched.execution where attempt > 0", SOON);
            db.batch_execute("reassign owned by dba to heir").unwrap();
            wait_for(db, "select count(*) > 40 from sched.execution where attempt > 0", SOON);
            db.batch_execute("drop owned by heir cascade").unwrap();
        }
    });
    assert!(cluster.logged("deadlock").is_empty(), "{:#?}", cluster.logged("deadlock"));
}

/// Who waits for a transaction that is open keeps nobody from the tables for longer than that, and gives way to a lock_timeout.
#[test]
fn a_drop_that_may_not_wait_leaves_everything_as_it_is() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.enqueue('job')").unwrap();
    let mut claimer = cluster.connect();
    claimer.batch_execute("begin; select sched.claim()").unwrap();
    let refused = db.batch_execute("set lock_timeout = '300ms'; drop extension scheduler").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{refused:?}");
    claimer.batch_execute("select sched.enqueue('job'); commit").unwrap();
    db.batch_execute("select sched.enqueue('job'); drop extension scheduler").unwrap();
}
