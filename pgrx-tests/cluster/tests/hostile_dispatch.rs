//! I7 as attacks by load: what one role has due, however much, keeps no other waiting.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Client, Cluster};

/// A server in which nothing fires yet: a schedule of the role `victim` that fires often, and the role `evil` with a job.
fn quiet() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.enabled", "off").set("sched.batch_size", "1000").start();
    cluster.execute("create extension scheduler; create role evil login; create role victim login");
    cluster.execute("select sched.grant_use('evil'), sched.grant_use('victim')");
    let mut victim = cluster.connect_as("victim", "postgres");
    victim.batch_execute("select sched.define_job('v'), sched.create_schedule('v', 'every 100 ms', 'v')").unwrap();
    let mut evil = cluster.connect_as("evil", "postgres");
    evil.batch_execute("select sched.define_job('e'); create temp table noise as select string_agg(md5(random()::text), '') as it from generate_series(1, 10000)").unwrap();
    (cluster, evil)
}

/// Lets the schedules of `evil` have been there for a while, and the server dispatch.
fn begin(cluster: &Cluster, since: Option<&str>) {
    since.iter().for_each(|since| cluster.execute(&format!(
        "update sched.schedule set created_at = created_at - interval '{since}', baseline_at = baseline_at - interval '{since}', defined_at = defined_at - interval '{since}'
          where job_name = 'e'"
    )));
    cluster.execute("alter system set sched.enabled = on");
    cluster.execute("select pg_reload_conf()");
}

/// The other role's schedule goes on firing after something of the attack has fired, and before all of it has.
fn others_fire_meanwhile(cluster: &Cluster, all: i64) {
    let mut root = cluster.connect();
    wait_for(&mut root, "select count(*) > 0 from sched.ledger where job_name = 'e'", SOON);
    root.batch_execute("create temp table before as select count(*) as fired from sched.ledger where job_name = 'v'")
        .unwrap();
    let meanwhile = format!(
        "select (select count(*) from sched.ledger where job_name = 'v') >= fired + 5
            and (select count(*) from sched.ledger where job_name = 'e') < {all} from before"
    );
    wait_for(&mut root, &meanwhile, SOON);
}

#[test]
fn a_long_backlog_of_large_payloads_keeps_no_other_role_waiting() {
    let (cluster, mut evil) = quiet();
    evil.batch_execute(
        "select sched.create_schedule('e', 'every 1 ms', 'e', catch_up => 'every_plan', max_plans_per_tick => 10000, payload => to_jsonb(it)) from noise",
    )
    .unwrap();
    begin(&cluster, Some("10 s"));
    others_fire_meanwhile(&cluster, 9_000);
}

#[test]
fn many_large_payloads_that_are_due_together_keep_no_other_role_waiting() {
    let (cluster, mut evil) = quiet();
    let call =
        "sched.create_schedule('e' || i, 'every 1 day', 'e', payload => (select to_jsonb(repeat(it, 3)) from noise))";
    evil.batch_execute(&format!("select {call} from generate_series(1, 60) as i")).unwrap();
    begin(&cluster, Some("25 hours"));
    let mut root = cluster.connect();
    wait_for(&mut root, "select count(*) = 60 from sched.ledger where job_name = 'e'", SOON);
    // No transaction wrote more than a few.
    wait_for(
        &mut root,
        "select max(count) <= 2 from (select count(*) from sched.ledger where job_name = 'e' group by xmin::text) as t",
        SOON,
    );
    let longer = evil.batch_execute("select sched.create_schedule('longer', 'every 1 day', 'e', payload => (select to_jsonb(repeat(it, 90)) from noise))");
    assert_eq!(longer.unwrap_err().code().unwrap().code(), "54000");
}

#[test]
fn many_large_payloads_that_are_logged_together_keep_no_other_role_waiting() {
    let (cluster, mut evil) = quiet();
    let call = "sched.enqueue('l', (select to_jsonb(repeat(it, 3)) from noise), run_at => clock_timestamp() + interval '1 second')";
    evil.batch_execute("select sched.define_job('l', 'log')").unwrap();
    evil.batch_execute(&format!("select {call} from generate_series(1, 20) as i")).unwrap();
    let mut root = cluster.connect();
    wait_for(&mut root, "select max(next_retry_at) < clock_timestamp() from sched.ledger where job_name = 'l'", SOON);
    begin(&cluster, None);
    wait_for(&mut root, "select count(*) = 20 from sched.ledger where job_name = 'l' and status = 'SUCCESS'", SOON);
    let most =
        "select max(count) from (select count(*) from sched.ledger where job_name = 'l' group by xmin::text) as t";
    assert_eq!(one::<i64>(&mut root, most), 1, "delivered in one transaction");
}

#[test]
fn many_schedules_that_are_due_together_keep_no_other_role_waiting() {
    let (cluster, mut evil) = quiet();
    let many = |from, to| {
        format!("select count(sched.create_schedule('e' || i, 'every 1 hour', 'e')) from generate_series({from}, {to}) as i")
    };
    evil.batch_execute(&many(1, 10_000)).unwrap();
    let mut victim = cluster.connect_as("victim", "postgres");
    victim.batch_execute("select sched.create_schedule('middle', 'every 1 hour', 'v')").unwrap();
    evil.batch_execute(&many(10_001, 20_000)).unwrap();
    // Armed, and then due: all of them at once, that of the other role neither first nor last.
    cluster.execute("select sched.dispatch_due()");
    cluster.execute("update sched.timer set next_plan_time = next_plan_time - interval '61 minutes', fire_at = fire_at - interval '61 minutes'");
    cluster.execute("select sched_internal.table_is_new('sched.timer'::regclass)");
    begin(&cluster, None);
    let mut root = cluster.connect();
    wait_for(&mut root, "select exists (select from sched.ledger where schedule_name = 'middle')", SOON);
    let before = "select count(*) from sched.ledger e, sched.ledger m where m.schedule_name = 'middle' and e.job_name = 'e' and e.created_at < m.created_at";
    let before = one::<i64>(&mut root, before);
    assert!(before <= 2_000, "{before} fired before");
}
