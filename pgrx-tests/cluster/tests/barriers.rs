//! Since PostgreSQL 15 DROP DATABASE waits until every process of the server has taken part in a barrier, whatever database it is in. Ours do
//! at once, whatever they wait for.

use scheduler_cluster_tests::scheduler::{dispatcher, one, rest, switch_off, SOON};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};

/// Drops databases beside what waits now; each has its barrier.
fn drops_are_prompt(db: &mut Client) {
    // Less than `sched.tick_interval`, after which everybody wakes up.
    db.batch_execute("set statement_timeout = '40s'").unwrap();
    for _ in 0..4 {
        db.batch_execute("create database brief").unwrap();
        db.batch_execute("drop database brief").unwrap();
    }
}

fn asleep(cluster: &Cluster) -> Client {
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('s', '@yearly', 'job')").unwrap();
    rest(&mut db);
    db
}

/// Waits until the dispatcher of the client's database shows this while it is idle.
fn shows(db: &mut Client, what: &str) {
    let idle = format!(
        "select exists (select from pg_stat_activity where backend_type = 'scheduler dispatcher' and datname = current_database()
                           and state = 'idle' and query like '{what}')"
    );
    wait_for(db, &idle, SOON);
}

#[test]
fn the_launcher_alone_takes_part_at_once() {
    let cluster = Cluster::new();
    drops_are_prompt(&mut cluster.connect());
}

#[test]
fn a_dispatcher_that_sleeps_for_long_takes_part_at_once() {
    let cluster = Cluster::new();
    let mut db = asleep(&cluster);
    drops_are_prompt(&mut db);
}

#[test]
fn a_dispatcher_that_is_switched_off_takes_part_at_once() {
    let cluster = Cluster::new();
    let mut db = asleep(&cluster);
    switch_off(&cluster, &mut db);
    drops_are_prompt(&mut db);
}

#[test]
fn a_dispatcher_that_waits_for_an_update_takes_part_at_once() {
    let cluster = Cluster::new();
    let mut db = asleep(&cluster);
    db.batch_execute("update pg_extension set extversion = '99.1' where extname = 'scheduler'; select sched.alter_schedule('s', clock => '@daily')")
        .unwrap();
    wait_until("the dispatcher to say why it waits", SOON, || {
        (!cluster.logged("objects in this database are of version \"99.1\"").is_empty()).then_some(())
    });
    shows(&mut db, "asleep%");
    drops_are_prompt(&mut db);
}

/// It rests for longer each time, up to minutes.
#[test]
fn a_dispatcher_that_rests_after_a_failed_look_takes_part_at_once() {
    let cluster = Cluster::new();
    let mut db = asleep(&cluster);
    db.batch_execute("alter table sched.home rename to elsewhere").unwrap();
    // After the seventh it rests for a minute.
    let pid = dispatcher(&mut db).unwrap();
    wait_until("looks to fail", SOON, || {
        db.query("select pg_reload_conf()", &[]).unwrap();
        (cluster.logged("looking whether to work failed").len() > 7).then_some(())
    });
    assert_eq!(dispatcher(&mut db), Some(pid));
    drops_are_prompt(&mut db);
}

/// Nobody serves a copy, nor a database whose extension is being dropped; the launcher waits for both.
#[test]
fn where_no_dispatcher_may_be_the_launcher_takes_part_at_once() {
    let cluster = Cluster::new();
    let mut db = asleep(&cluster);
    db.batch_execute("create database copy template postgres").unwrap();
    let left = "dispatcher for database \"copy\" stopped";
    wait_until("the copy to be left alone", SOON, || (!cluster.logged(left).is_empty()).then_some(()));
    let mut held = cluster.connect();
    held.batch_execute("begin; drop extension scheduler").unwrap();
    wait_until("the dispatcher to leave", SOON, || dispatcher(&mut db).is_none().then_some(()));
    drops_are_prompt(&mut db);
    held.batch_execute("rollback").unwrap();
    assert!(one::<bool>(&mut db, "select sched.is_home()"));
}
