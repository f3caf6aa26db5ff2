//! Some go to the rows while others still, or already, go by statements, as at each reload that switches. (That a reload does switch:
//! `settings.rs`.)

use scheduler_cluster_tests::scheduler::{one, whole_grid, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Claims what there is, also one plan time after the other that every runner wants, and ends it; how many of the latter it won.
fn runner(db: &mut Client, over: &AtomicBool) -> i32 {
    let (mut number, mut won) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let (id, token, outcome): (Option<String>, Option<String>, String) = db
            .query_one(
                "select execution_id::text, lease_token::text, outcome from sched.try_claim('wanted', to_timestamp($1::int))",
                &[&number],
            )
            .map(|row| (row.get(0), row.get(1), row.get(2)))
            .unwrap();
        assert!(outcome == "won" || outcome == "conflicted", "{outcome}");
        if let (Some(id), Some(token), "won") = (id, token, outcome.as_str()) {
            won += 1;
            let beat: String = one(db, &format!("select sched.heartbeat('{id}', '{token}')"));
            assert_eq!(beat, "ok");
            db.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).unwrap();
        }
        db.batch_execute("select sched.enqueue('work')").unwrap();
        let batch = "with batch as materialized (select * from sched.claim('work', 20))
                     select count(*) from sched.finish_success_many(array(select execution_id from batch),
                                                                    array(select lease_token from batch))";
        assert_eq!(one::<i64>(db, batch), 0, "leases were lost");
    }
    won
}

#[test]
fn switching_under_load_loses_nothing_and_doubles_nothing() {
    const SCHEDULES: usize = 10;
    let cluster = Cluster::builder().row_by_row().start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(&format!(
        "select sched.define_job('work', queue => 'work');
         select sched.create_schedule('s' || i, 'every 100 milliseconds', 'work', catch_up => 'every_plan')
           from generate_series(1, {SCHEDULES}) as i"
    ))
    .unwrap();
    let over = AtomicBool::new(false);
    let won: i32 = thread::scope(|scope| {
        let runners: Vec<_> = (0..4)
            .map(|_| {
                let mut client = cluster.connect();
                client.batch_execute("set lock_timeout = '20s'").unwrap();
                scope.spawn(|| {
                    let mut client = client;
                    runner(&mut client, &over)
                })
            })
            .collect();
        for setting in ["off", "on"].repeat(5) {
            cluster.set("sched.fast_path", setting);
            let now: String = one(&mut db, "select clock_timestamp()::text");
            // Each schedule's, one that every runner wanted, and what was enqueued have been fired, claimed and ended since.
            for since in [
                format!("count(distinct schedule_name) = {SCHEDULES} from sched.execution where plan_time"),
                "count(*) > 4 from sched.execution where job_name = 'wanted' and created_at".into(),
                "count(*) > 4 from sched.execution where origin = 'enqueue' and created_at".into(),
            ] {
                wait_for(&mut db, &format!("select {since} > '{now}' and status = 'SUCCESS'"), SOON);
            }
        }
        db.batch_execute("select sched.pause(schedule_name) from sched.schedule").unwrap();
        let drained = "select not exists (select from sched.schedule_change) and
                              not exists (select from sched.execution where schedule_name is not null and status <> 'SUCCESS')";
        wait_for(&mut db, drained, SOON);
        over.store(true, Ordering::Relaxed);
        runners.into_iter().map(|runner| runner.join().unwrap()).sum()
    });
    for number in 1..=SCHEDULES {
        whole_grid(&mut db, &format!("s{number}"), "100 milliseconds");
    }
    let wanted: i64 = one(&mut db, "select count(*) from sched.ledger where job_name = 'wanted'");
    assert_eq!(wanted, i64::from(won), "each was won once");
    let again = "select count(*) from sched.execution where attempt > 1 or status not in ('SUCCESS', 'PENDING')";
    assert_eq!(one::<i64>(&mut db, again), 0, "something was claimed twice");
    cluster.was_quiet(&["ERROR"]);
    cluster.check_indexes();
}
