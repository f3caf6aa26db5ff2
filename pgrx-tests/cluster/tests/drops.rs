//! `drop_schedule` with `cancel_pending` cancels what nobody runs, whatever a dispatcher is at, and costs what the schedule has open. Schedules
//! that two sessions create at once.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::thread;

/// Schedules of which a plan is due that a policy of theirs makes up.
fn due(db: &mut Client, names: &[&str]) {
    for name in names {
        db.batch_execute(&format!(
            "begin; select sched.create_schedule('{name}', 'every 1000 days from 2020-01-01 00:00+00', 'job');
             update sched.schedule set baseline_at = '2020-01-01 00:00+00' where schedule_name = '{name}'; commit"
        ))
        .unwrap();
    }
}

fn without_dispatch() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); set lock_timeout = '20s'; set statement_timeout = '20s'")
        .unwrap();
    (cluster, db)
}

const STATUS: &str = "select string_agg(schedule_name || ' ' || status, ', ' order by schedule_name)
                             || ' ' || (select count(*) from sched.ready) from sched.ledger";

#[test]
fn what_is_fired_while_its_schedule_is_dropped_is_cancelled_as_well() {
    let (cluster, mut db) = without_dispatch();
    due(&mut db, &["fired", "kept", "moved"]);
    // What it fires is not committed yet when two schedules are dropped,
    let mut dispatcher = cluster.connect();
    dispatcher.batch_execute("begin").unwrap();
    assert_eq!(one::<i64>(&mut dispatcher, "select sched.dispatch_due()"), 3);
    db.batch_execute(
        "select sched.alter_schedule('moved', scope_id => 'elsewhere');
         select sched.drop_schedule('fired', cancel_pending => true); select sched.drop_schedule('moved', true);
         select sched.drop_schedule('kept')",
    )
    .unwrap();
    dispatcher.batch_execute("commit").unwrap();
    assert_eq!(one::<String>(&mut db, STATUS), "fired PENDING, kept PENDING, moved PENDING 3");
    dispatcher.batch_execute("select sched.dispatch_due()").unwrap();
    assert_eq!(one::<String>(&mut db, STATUS), "fired CANCELLED, kept PENDING, moved CANCELLED 1");

    // or the drop is not committed when it fires.
    db.batch_execute("truncate sched.ledger, sched.ready").unwrap();
    due(&mut db, &["late"]);
    db.batch_execute("begin; select sched.drop_schedule('late', cancel_pending => true)").unwrap();
    assert_eq!(one::<i64>(&mut dispatcher, "select sched.dispatch_due()"), 1);
    db.batch_execute("commit").unwrap();
    assert_eq!(one::<String>(&mut db, STATUS), "late PENDING 1");
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select status = 'CANCELLED' and not exists (select from sched.ready) from sched.ledger", SOON);
    wait_for(
        &mut db,
        "select not exists (select from sched.schedule_change) and not exists (select from sched.timer)",
        SOON,
    );
}

/// A month of minutes that have ended, and a backlog of somebody else's.
#[test]
fn to_cancel_what_is_open_takes_no_walk_through_what_else_waits() {
    let (_cluster, mut db) = without_dispatch();
    due(&mut db, &["s"]);
    db.batch_execute(
        "select sched.dispatch_due();
         insert into sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, max_attempts, allow_stale_reentry,
                                   origin, owner, schedule_id, schedule_name, status, attempt, finished_at)
         select key, job_name, scope_kind, scope_id, plan_time - n * interval '1 minute', queue, priority, payload, max_attempts, true,
                origin, owner, schedule_id, schedule_name, 'SUCCESS', 1, now()
           from sched.ledger, generate_series(1, 43200) n;
         select sched.define_job('other', queue => 'other');
         select count(*) from sched.enqueue_many('other', array_fill('1'::jsonb, '{10000}'))",
    )
    .unwrap();
    db.batch_execute("set statement_timeout = '5s'; select sched.drop_schedule('s', cancel_pending => true)").unwrap();
    let open = "select array_agg(distinct status order by status)::text from sched.ledger where schedule_name = 's'";
    assert_eq!(one::<String>(&mut db, open), "{CANCELLED,SUCCESS}");
    db.batch_execute("select sched.dispatch_due()").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ready"), 10_000);
}

/// Of two sessions that create the same schedules in opposite orders, one creates them and one hears that they are there.
#[test]
fn creating_in_opposite_orders_is_no_deadlock() {
    let (cluster, mut db) = without_dispatch();
    let create = |names: [&'static str; 3]| {
        let specs: Vec<String> = names
            .iter()
            .map(|name| format!("{{\"schedule_name\": \"{name}\", \"clock\": \"never\", \"job_name\": \"job\"}}"))
            .collect();
        let statement = format!("select sched.create_schedules('[{}]')", specs.join(", "));
        let mut db = cluster.connect();
        thread::spawn(move || {
            let answer = db.query_one(&statement, &[]);
            answer.map(|row| row.get::<_, i64>(0)).map_err(|error| error.code().unwrap().code().to_owned())
        })
    };
    // Both have created one end of the list, or wait for it, when they come to the middle.
    let mut blocker = cluster.connect();
    let mut open = blocker.transaction().unwrap();
    open.batch_execute("select sched.create_schedule('m', 'never', 'job')").unwrap();
    let (up, down) = (create(["a", "m", "z"]), create(["z", "m", "a"]));
    wait_for(&mut db, "select count(*) = 2 from pg_locks where not granted", SOON);
    open.rollback().unwrap();
    let mut answers = [up.join().unwrap(), down.join().unwrap()];
    answers.sort();
    assert_eq!(answers, [Ok(3), Err("42710".to_owned())]);
}
