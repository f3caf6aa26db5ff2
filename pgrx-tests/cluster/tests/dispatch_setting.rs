//! `ALTER DATABASE … SET sched.dispatch`: whose setting it is, what a dispatcher does with it, and how soon.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{asleep_since, dispatcher, one, rest, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

const OFF: &str = "alter database app set sched.dispatch = off";
const FIRES: &str = "select count(*) from sched.execution where origin = 'schedule'";

/// A server whose dispatchers look around once a minute, and a database with a schedule that fires.
fn firing() -> (Cluster, Client) {
    let cluster = Cluster::new();
    cluster.execute("create database app");
    let mut db = cluster.with_extension("app");
    db.batch_execute("select sched.define_job('j'), sched.create_schedule('s', 'every 100 milliseconds', 'j')")
        .unwrap();
    fires_on(&mut db);
    (cluster, db)
}

fn fires_on(db: &mut Client) {
    let before: i64 = one(db, FIRES);
    wait_for(db, &format!("select ({FIRES}) > {before} + 2"), SOON);
}

/// Nothing fires by itself any more.
fn fires_nothing(db: &mut Client) {
    // What the dispatcher has in hand at the commit may fire within a second.
    let seen: String = one(db, "select clock_timestamp()::text");
    wait_for(db, &format!("select clock_timestamp() > '{seen}'::timestamptz + interval '1 second'"), SOON);
    stays("what has fired", Duration::from_secs(2), || one::<i64>(db, FIRES));
}

fn row(db: &mut Client, component: &str) -> String {
    one(db, &format!("select severity || ': ' || message from sched.health() where component = '{component}'"))
}

/// From a database of its own, and with a dispatcher that would not look by itself in time.
#[test]
fn a_dispatcher_follows_alter_database_without_a_restart() {
    let (cluster, mut db) = firing();
    let pid = dispatcher(&mut db);
    for (off, on) in [
        (OFF, "alter database app reset sched.dispatch"),
        ("alter database app set sched.dispatch = 0", "alter database app set sched.dispatch = on"),
        ("begin; alter database app set sched.dispatch to false; commit", "alter database app reset all"),
    ] {
        cluster.connect().batch_execute(off).unwrap();
        fires_nothing(&mut db);
        wait_until("the oldest to be due", SOON, || {
            one::<bool>(
                &mut db,
                &format!("select max(fire_at) < clock_timestamp() - interval '3 seconds' from {TIMER} t"),
            )
            .then_some(())
        });
        for component in ["dispatcher", "dispatch"] {
            let says = row(&mut db, component);
            assert!(says.starts_with("ok: ") && says.contains("sched.dispatch is off"), "{component}: {says}");
        }
        assert!(one::<bool>(&mut db, "select sched.healthy('0 seconds')"), "a due schedule is no fault");
        assert!(one::<bool>(&mut db, "select value = 0 from sched.metrics() where name = 'sched_timers_due'"));
        assert!(one::<i64>(&mut db, "select sched.dispatch_due()") > 0);
        cluster.connect().batch_execute(on).unwrap();
        fires_on(&mut db);
        assert!(!row(&mut db, "dispatcher").contains("sched.dispatch"));
    }
    assert_eq!(dispatcher(&mut db), pid, "the same process");
    let fires_no = cluster.logged("fires no schedule: sched.dispatch is off");
    assert_eq!(
        (fires_no.len(), cluster.logged("fires schedules again: sched.dispatch is on").len()),
        (3, 3),
        "{fires_no:#?}"
    );
}

/// A rolled back ALTER DATABASE is none, nor is anything that is not the database's.
#[test]
fn sessions_roles_and_the_configuration_do_not_count() {
    let (cluster, mut db) = firing();
    let mut other = cluster.connect_as("postgres", "app");
    for (set, reset) in [
        ("set sched.dispatch = off", "reset sched.dispatch"),
        ("alter role postgres set sched.dispatch = off", "alter role postgres reset sched.dispatch"),
        (
            "alter role postgres in database app set sched.dispatch = off",
            "alter role postgres in database app reset sched.dispatch",
        ),
        ("alter role all set sched.dispatch = off", "alter role all reset sched.dispatch"),
        ("alter system set sched.dispatch = off", "alter system reset sched.dispatch"),
        ("alter database postgres set sched.dispatch = off", "alter database postgres reset sched.dispatch"),
    ] {
        other.batch_execute(set).unwrap();
        cluster.reload();
        let mut fresh = cluster.connect_as("postgres", "app");
        wait_for(&mut fresh, "select clock_timestamp() > backend_start + interval '1 second' from pg_stat_activity where pid = pg_backend_pid()", SOON);
        fires_on(&mut fresh);
        assert!(!row(&mut fresh, "dispatcher").contains("sched.dispatch"), "{set}");
        other.batch_execute(reset).unwrap();
    }
    db.batch_execute(&format!("begin; {OFF}; rollback")).unwrap();
    fires_on(&mut db);
    // A session that says on does not have a database fire that says off.
    db.batch_execute(OFF).unwrap();
    other
        .batch_execute("set sched.dispatch = on; alter role postgres in database app set sched.dispatch = on")
        .unwrap();
    fires_nothing(&mut db);
    assert!(row(&mut db, "dispatcher").contains("sched.dispatch is off"));
}

#[test]
fn all_else_goes_on() {
    let (_cluster, mut db) = firing();
    db.batch_execute(OFF).unwrap();
    fires_nothing(&mut db);
    db.batch_execute(
        "select sched.define_job('told', 'log'), sched.define_job('sql', 'sql', 'select 1'),
                sched.define_job('tried', max_attempts => 2, retry_backoff => '{100 milliseconds}', queue => 'tried');
         select sched.enqueue('told'), sched.enqueue('sql'), sched.enqueue('told', run_at => clock_timestamp() + interval '200 milliseconds');
         select sched.try_claim('stale', '2026-01-01', stale_timeout => '100 milliseconds');
         select sched.finish_failure(execution_id, lease_token, 'c', 'm') from sched.try_claim('tried', '2026-01-01', max_attempts => 2);
         select sched.create_schedule('new', '@hourly', 'gone') from sched.define_job('gone');
         select sched.create_schedule('watched', 'every 100 milliseconds', 'told', max_lateness => '100 milliseconds');
         select sched.alter_schedule('s', clock => 'every 50 milliseconds')",
    )
    .unwrap();
    let told = "select count(*) = 2 from sched.execution where job_name = 'told' and status = 'SUCCESS'";
    wait_for(&mut db, told, SOON);
    wait_for(&mut db, "select status = 'SUCCESS' from sched.execution where job_name = 'sql'", SOON);
    wait_for(&mut db, "select status = 'FAILED' from sched.execution where job_name = 'stale'", SOON);
    wait_for(&mut db, &some_ready_of("tried"), SOON);
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'new'", SOON);
    let edited = &format!("select t.version = s.version from sched.schedule s join {TIMER} t using (schedule_id) where schedule_name = 's'");
    wait_for(&mut db, edited, SOON);
    fires_nothing(&mut db);
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.alerts"),
        0,
        "a plan time that waits for dispatch_due is not late"
    );
}

#[test]
fn changing_it_needs_the_right_to_set_it() {
    let cluster = Cluster::new();
    cluster.execute("create role owner login");
    cluster.execute("create database app owner owner");
    drop(cluster.with_extension("app"));
    let mut owner = cluster.connect_as("owner", "app");
    for refused in [OFF, "set sched.dispatch = off"] {
        let error = owner.batch_execute(refused).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}");
    }
    cluster.execute("grant set on parameter sched.dispatch to owner");
    owner.batch_execute(OFF).unwrap();
    let mut db = cluster.connect_as("postgres", "app");
    wait_until("the row", SOON, || row(&mut db, "dispatcher").contains("sched.dispatch is off").then_some(()));
    owner.batch_execute("alter database app reset all").unwrap();
    assert!(!row(&mut db, "dispatcher").contains("sched.dispatch"));
}

/// A role that may not run the command wakes no dispatcher by it, also where the error is caught.
#[test]
fn a_role_that_may_not_change_it_wakes_nobody() {
    let cluster = Cluster::new();
    cluster.execute("create role stranger login");
    cluster.execute("create database app");
    let mut db = cluster.with_extension("app");
    rest(&mut db);
    let before = asleep_since(&mut db);
    for refused in [OFF, "alter role all in database app set sched.dispatch = off"] {
        let caught =
            format!("do $$ begin {refused}; raise 'it may'; exception when insufficient_privilege then null; end $$");
        cluster.connect_as("stranger", "postgres").batch_execute(&caught).unwrap();
    }
    stays("the dispatcher's sleep", Duration::from_secs(1), || asleep_since(&mut db));
    assert_eq!(asleep_since(&mut db), before);
    cluster.connect().batch_execute("alter role all in database app set sched.dispatch = off").unwrap();
    wait_until("the dispatcher to look", SOON, || {
        (asleep_since(&mut db).is_some_and(|since| Some(since) != before)).then_some(())
    });
    assert!(row(&mut db, "dispatcher").contains("sched.dispatch is off"));
}

/// Who locks the catalog keeps neither dispatchers nor `health` waiting.
#[test]
fn a_locked_catalog_is_not_waited_for() {
    let (cluster, mut db) = firing();
    let mut reader = cluster.connect_as("postgres", "app");
    reader.batch_execute("select sched.health()").unwrap();
    let mut locks = cluster.connect();
    locks.batch_execute("begin; lock table pg_db_role_setting in access exclusive mode").unwrap();
    fires_on(&mut db);
    assert!(one::<bool>(&mut reader, "select sched.healthy()"));
    locks.batch_execute("rollback").unwrap();
    fires_on(&mut db);
}
