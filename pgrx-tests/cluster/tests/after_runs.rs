//! Schedules whose clock counts from their last run, with the real worker: through runs, and through a crash in one.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, sleeping};
use scheduler_cluster_tests::{wait_for, Cluster};

/// Each plan time but the first is one interval after what it counts from, to the microsecond after an end.
#[test]
fn each_run_is_planned_from_the_one_before() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    for (name, clock) in [("ends", "every 200 ms after end"), ("starts", "every 200 ms after start")] {
        define(&mut db, name, "select pg_sleep(0.05)", "");
        db.execute("select sched.create_schedule($1, $2, $1)", &[&name, &clock]).unwrap();
    }
    wait_for(&mut db, "select count(*) filter (where job_name = 'ends') >= 6 and count(*) filter (where job_name = 'starts') >= 6 from sched.history", SOON);
    let wrong: String = one(
        &mut db,
        "select coalesce(string_agg(format('%s: %s after one that began %s and ended %s', job_name, plan_time, began, ended), e'\\n'), '')
           from (select job_name, plan_time, lag(created_at) over w as began, lag(plan_time) over w as planned, lag(finished_at) over w as ended
                   from sched.execution window w as (partition by job_name order by plan_time)) as runs
          where (job_name = 'ends' and plan_time <> ended + interval '200 ms')
             or (job_name = 'starts' and (plan_time < planned + interval '200 ms' or plan_time > began + interval '200 ms'))",
    );
    assert!(wrong.is_empty(), "{wrong}");
}

/// The run ends when it is found lost, and the interval counts from then.
#[test]
fn a_run_that_a_crash_has_ended_is_counted_from() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "long", "select pg_sleep(3600)", "");
    db.batch_execute(
        "select sched.create_schedule('long', 'every 100 ms after end', 'long');
         select sched.create_schedule('beside', 'every 1 hour after start', 'long')",
    )
    .unwrap();
    sleeping(&mut db, "long", 1);
    db.batch_execute("select sched.alter_schedule('long', clock => 'every 1 hour after end')").unwrap();
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    let beside: String =
        one(&mut db, "select next_plan_time::text from sched.schedules where schedule_name = 'beside'");
    cluster.crash();
    cluster.start();
    let mut db = cluster.connect();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'long'", SOON);
    let counted: bool = one(
        &mut db,
        "select next_plan_time = (select finished_at + interval '1 hour' from sched.history where error_code = 'worker_lost')
           from sched.schedules where schedule_name = 'long'",
    );
    assert!(counted);
    // What was armed stays armed.
    let after: String = one(&mut db, "select next_plan_time::text from sched.schedules where schedule_name = 'beside'");
    assert_eq!(after, beside);
    db.batch_execute("select sched.rebuild()").unwrap();
    let counted: bool = one(
        &mut db,
        "select next_plan_time = (select finished_at + interval '1 hour' from sched.history where error_code = 'worker_lost')
           from sched.schedules where schedule_name = 'long'",
    );
    assert!(counted);
}
