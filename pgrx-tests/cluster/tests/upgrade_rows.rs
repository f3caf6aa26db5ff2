//! What becomes of the rows in `data/releases` once their database is updated: what each release was the first to have goes on.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client};

/// What data/releases/0.2.0.sql has besides: a buffered plan, a backlog, a schedule that was dropped during a run, and the past of edits.
pub fn what_0_2_0_added_goes_on(app: &mut Client, db: &mut Client) {
    let end = |app: &mut Client, schedule: &str, how: &str| {
        let run = format!("from sched.execution where status = 'RUNNING' and schedule_name = '{schedule}'");
        app.batch_execute(&format!("select sched.{how} {run}")).unwrap();
    };
    // The plan that waited for the end of a run; of the backlog the next one.
    let ready = |app: &mut Client, schedule: &str, minutes: i32| {
        let it = format!(
            "select count(*) = 1 from sched.execution e, sched.execution r
              where e.schedule_name = '{schedule}' and e.status = 'PENDING' and r.schedule_name = 'pulse' and r.status = 'CANCELLED'
                and e.plan_time - r.plan_time = make_interval(mins => {minutes} - 32)"
        );
        wait_for(app, &it, SOON);
    };
    end(app, "buffered", "finish_success(id, lease_token)");
    ready(app, "buffered", 40);
    ready(app, "backlog", 10);
    assert_eq!(one::<String>(app, "select scope_id from sched.claim('s')"), "backlog");
    end(app, "backlog", "finish_success(id, lease_token)");
    ready(app, "backlog", 15);
    // A run whose schedule was dropped is not tried again.
    end(app, "dropped", "finish_failure(id, lease_token, 'x', 'y')");
    let dropped =
        "select status || coalesce(next_retry_at::text, '') from sched.execution where schedule_name = 'dropped'";
    assert!(["FAILED", "CANCELLED"].contains(&one::<String>(app, dropped).as_str()));
    wait_for(db, "select count(*) = 0 from sched.schedule_dropped", SOON);
    wait_for(db, "select count(*) = 0 from sched.schedule_definition where not settled", SOON);
    // Each plan time of an edited schedule by what held then.
    let past: String = one(
        app,
        "select string_agg(concat_ws(' ', x.verdict, x.reason), ', ' order by x.plan_time)
           from sched.execution e, sched.explain('edited', e.plan_time - interval '1 minute', e.plan_time + interval '45 minutes') x
          where e.schedule_name = 'edited'",
    );
    assert_eq!(past, "fired, skipped replaced, skipped paused, skipped paused, external");
}

/// What data/releases/0.3.0.sql has besides: a run of an SQL job, work for later, a paused queue, a scope in which one execution waits, alerts.
pub fn what_0_3_0_added_goes_on(app: &mut Client, db: &mut Client) {
    wait_for(
        app,
        "select status = 'SUCCESS' and attempt = 1 from sched.execution where job_name = 'say' and scope_id = 'next'",
        SOON,
    );
    let later =
        "select status = 'PENDING' and run_at > clock_timestamp() from sched.execution where scope_id = 'later'";
    assert!(one::<bool>(app, later));
    assert!(one::<bool>(db, "select paused from sched.queues where queue = 'held'"));
    let waiting = "select id from sched.execution where (scope_kind, scope_id) = ('customer', '8')";
    let again =
        "sched.enqueue('work', scope_kind => 'customer', scope_id => '8', unique_by => 'scope', if_exists => 'keep')";
    assert!(one::<bool>(app, &format!("select {again} = ({waiting})")));
    let alerts =
        "select string_agg(kind || ' ' || (resolved_at is null), ', ' order by kind) from sched.alerts where kind in ('failed', 'parked')";
    assert_eq!(one::<String>(app, alerts), "failed false, parked true");
    assert_eq!(one::<String>(db, "select sched.buckets()::text"), "{[0,1024)}");
}
