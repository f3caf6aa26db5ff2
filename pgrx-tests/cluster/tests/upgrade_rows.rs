//! What becomes of the rows in `data/releases` once their database is updated: what each release was the first to have goes on.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::ROUTE;
use scheduler_cluster_tests::{wait_for, Client, Cluster};

use crate::upgrade::{prepared, ROLES};

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
    // (Of 0.3.0 alone.)
    let told = format!(
        "select coalesce(bool_and(w.route = 'dispatcher' and w.queue = 'default' and w.runs_as = e.owner), true)
           from sched.ledger e join {ROUTE} w on w.execution_id = e.id where scope_id = 'told'"
    );
    assert!(one::<bool>(db, &told));
    let waiting = "select id from sched.execution where (scope_kind, scope_id) = ('customer', '8')";
    let again =
        "sched.enqueue('work', scope_kind => 'customer', scope_id => '8', unique_by => 'scope', if_exists => 'keep')";
    assert!(one::<bool>(app, &format!("select {again} = ({waiting})")));
    let alerts =
        "select string_agg(kind || ' ' || (resolved_at is null), ', ' order by kind) from sched.alerts where kind in ('failed', 'parked')";
    assert_eq!(one::<String>(app, alerts), "failed false, parked true");
    assert_eq!(one::<String>(db, "select sched.buckets()::text"), "{[0,1024)}");
}

/// What data/releases/0.3.1.sql has besides: an execution that was to be cancelled while another transaction had it in hand, a queue that is
/// paused for one owner, a role whose pauses hold for all.
pub fn what_0_3_1_added_goes_on(app: &mut Client, db: &mut Client) {
    wait_for(app, "select status = 'CANCELLED' from sched.execution where scope_id = 'asked'", SOON);
    wait_for(db, "select not exists (select from sched.cancel_request)", SOON);
    let waits =
        |app: &mut Client, queue: &str| -> i64 { one(app, &format!("select count(*) from sched.claim('{queue}')")) };
    app.batch_execute("select sched.define_job('theirs', queue => 'theirs'); select sched.enqueue('theirs')").unwrap();
    assert_eq!(waits(app, "theirs"), 0);
    app.batch_execute("select sched.resume_queue('theirs')").unwrap();
    assert_eq!(waits(app, "theirs"), 1);
    app.batch_execute("select sched.resume_queue('held'), sched.pause_queue('held')").unwrap();
    assert!(one::<bool>(db, "select owner is null from sched.paused_queue where queue = 'held'"));
}

/// A job of kind sql and a schedule of one name, which is how releases before this one knew what schedule_sql has made.
#[test]
fn pairs_of_before_are_found_and_put_right() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(ROLES);
    let mut db = prepared(&cluster, "pairs", "0.3.0");
    db.batch_execute(
        "insert into sched.job (job_name, kind, command, queue, max_attempts, retry_backoff, allow_stale_reentry, priority, owner)
         select name, kind, 'select 1', 'default', 1, '{}', true, 0, 'postgres'
           from (values ('dropped', 'sql'), ('renamed', 'sql'), ('other', 'pull'), ('alone', 'sql')) as j (name, kind);
         insert into sched.schedule (schedule_name, clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, max_plans_per_tick, rearm,
                                     overlap, delay, jitter, ownership, enabled, created_at, baseline_at, updated_at)
         select name, '@daily', 'UTC', name, '{}', 'schedule', name, 'latest_only', 100, 'on_dispatch', 'skip', '0', '0', 'owned', true, now(), now(), now()
           from unnest('{dropped,renamed,other}'::text[]) as name",
    )
    .unwrap();
    let edits = "select string_agg(concat_ws(' ', schedule_id, version, baseline_at, updated_at), ', ' order by schedule_id) from sched.schedule";
    let before: String = one(&mut db, edits);
    db.batch_execute("alter extension scheduler update").unwrap();
    assert_eq!(one::<String>(&mut db, edits), before, "an update is no edit");
    let call = |name: &str| format!("select sched.schedule_sql('{name}', '@daily', 'select 1')");
    let id: i64 = one(&mut db, "select schedule_id from sched.schedule where schedule_name = 'renamed'");
    db.batch_execute("select sched.drop_schedule('dropped'), sched.alter_schedule('renamed', new_name => 'between')")
        .unwrap();
    db.batch_execute(&call("dropped")).unwrap();
    assert_eq!(one::<i64>(&mut db, &call("renamed")), id);
    for name in ["other", "alone"] {
        let error = db.batch_execute(&call(name)).expect_err(name);
        assert_eq!(error.code(), Some(&SqlState::DUPLICATE_OBJECT), "{name}: {error}");
    }
}
