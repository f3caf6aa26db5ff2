//! `drop_schedule` with `cancel_pending` cancels what nobody runs, waits for nobody, and costs what the schedule has open. Schedules that two
//! sessions create at once.

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

#[test]
fn nothing_is_fired_while_the_drop_of_its_schedule_is_open() {
    let (cluster, mut db) = without_dispatch();
    let create = |name: &str| format!("select sched.create_schedule('{name}', 'every 50 milliseconds', 'job')");
    let mut dispatcher = cluster.connect();
    let count = |name: &str| format!("(select count(*) from sched.ledger where schedule_name = '{name}')");
    let mut fires_until = |condition: &str| {
        wait_for(&mut dispatcher, &format!("select sched.dispatch_due() >= 0 and {condition}"), SOON);
    };
    db.batch_execute(&create("dropped")).unwrap();
    db.batch_execute(&create("kept")).unwrap();
    fires_until(&format!("{} > 0", count("dropped")));
    // Nobody waits for a dispatcher that is just firing it.
    let mut slow = cluster.connect();
    slow.batch_execute("begin").unwrap();
    wait_for(&mut slow, "select sched.dispatch_due() = 2", SOON);
    db.batch_execute("begin; select sched.drop_schedule('dropped', cancel_pending => true); rollback").unwrap();
    slow.batch_execute("rollback").unwrap();
    // While the drop is open the other one fires; rolled back it keeps nobody from anything.
    let mut fired = 0;
    for end in ["rollback", "commit"] {
        db.batch_execute("begin; select sched.drop_schedule('dropped', cancel_pending => true)").unwrap();
        db.batch_execute(&create("dropped")).unwrap();
        fired = one(&mut db, &format!("select {}", count("dropped")));
        let kept: i64 = one(&mut db, &format!("select {}", count("kept")));
        fires_until(&format!("{} > {kept} + 2", count("kept")));
        assert_eq!(one::<i64>(&mut db, &format!("select {}", count("dropped"))), fired, "{end}");
        db.batch_execute(end).unwrap();
        if end == "rollback" {
            fires_until(&format!("{} > {fired}", count("dropped")));
            // What it fired in another scope is its own as well.
            db.batch_execute("select sched.alter_schedule('dropped', scope_id => 'elsewhere')").unwrap();
            fires_until("exists (select from sched.ledger where scope_id = 'elsewhere')");
        }
    }
    let open = "select count(*) from sched.ledger where schedule_name = 'dropped' and status <> 'CANCELLED'";
    assert_eq!(one::<i64>(&mut db, open), 0, "of {fired}");
    let waiting = format!("select count(*) = {} from sched.ready", count("kept"));
    assert!(one::<bool>(&mut db, &waiting));
    // One of the same name begins anew.
    fires_until(&format!("{} > {fired}", count("dropped")));
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
