//! I7 as attacks by load: what one role has due, however much, keeps no other waiting.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
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
    cluster.execute(&format!("update {TIMER_TABLE} set next_plan_time = next_plan_time - interval '61 minutes', fire_at = fire_at - interval '61 minutes'"));
    cluster.execute(TIMERS_ARE_NEW);
    begin(&cluster, None);
    let mut root = cluster.connect();
    wait_for(&mut root, "select exists (select from sched.ledger where schedule_name = 'middle')", SOON);
    let before = "select count(*) from sched.ledger e, sched.ledger m where m.schedule_name = 'middle' and e.job_name = 'e' and e.created_at < m.created_at";
    let before = one::<i64>(&mut root, before);
    assert!(before <= 2_000, "{before} fired before");
}

/// Where a role makes up for a backlog that no batch can take, another one that makes up for its own gets its part of each batch.
#[test]
fn a_backlog_of_thousands_of_schedules_leaves_others_their_part() {
    let (cluster, mut evil) = quiet();
    let mut victim = cluster.connect_as("victim", "postgres");
    victim
        .batch_execute("select sched.create_schedule('w', 'every 10 ms', 'v', scope_id => 'w', catch_up => 'every_plan', max_plans_per_tick => 1000)")
        .unwrap();
    evil.batch_execute(
        "select sched.create_schedules(jsonb_agg(jsonb_build_object('schedule_name', 'e' || i, 'clock', 'every 1 ms', 'job_name', 'e', 'scope_id', 'e' || i,
                                                                  'catch_up', 'every_plan', 'max_plans_per_tick', 10000)))
           from generate_series(1, 3000) as i",
    )
    .unwrap();
    begin(&cluster, Some("10 s"));
    let mut root = cluster.connect();
    wait_for(&mut root, "select count(*) > 0 from sched.ledger where job_name = 'e'", SOON);
    // With one plan time in each batch it would fall behind for ever.
    let caught_up = "select count(*) > 20 and max(plan_time) > clock_timestamp() - interval '2 seconds' from sched.ledger where scope_id = 'w'";
    let behind = &format!("select min(fire_at) < clock_timestamp() - interval '5 seconds' from {TIMER} t join sched.schedule s using (schedule_id) where s.job_name = 'e'");
    wait_for(&mut root, &format!("select ({caught_up}) and ({behind})"), SOON);
    for _ in 0..3 {
        root.batch_execute("create temp table if not exists seen as select max(plan_time) as plan_time from sched.ledger where scope_id = 'w'").unwrap();
        wait_for(
            &mut root,
            "select count(*) >= 100 from sched.ledger, seen where scope_id = 'w' and ledger.plan_time > seen.plan_time",
            SOON,
        );
        assert!(one::<bool>(&mut root, caught_up));
        root.batch_execute("drop table seen").unwrap();
    }
}

/// Plans that were made, and kept, while a table was empty are good for what a role puts there later.
#[test]
fn a_plan_is_good_for_a_table_that_fills() {
    let cluster = Cluster::builder()
        .set("shared_preload_libraries", "scheduler,auto_explain")
        .set("auto_explain.log_min_duration", "0")
        .set("auto_explain.log_nested_statements", "on")
        .set("sched.enabled", "off")
        .set("sched.fast_path", "off")
        .set("autovacuum", "off")
        .start();
    let mut root = cluster.with_extension("postgres");
    root.batch_execute("select sched.define_job('e', max_attempts => 2), sched.define_job('n', 'notify', 'n')")
        .unwrap();
    root.batch_execute(&format!("vacuum analyze {DELAYED_TABLE}, {READY_TABLE}, {LEASE_TABLE}, sched.ledger")).unwrap();
    root.batch_execute(
        "select sched.enqueue('e', run_at => clock_timestamp() + interval '10 ms'), sched.enqueue('n', run_at => clock_timestamp() + interval '10 ms');
         select pg_sleep(0.02); select sched.dispatch_due();
         select sched.finish_failure(execution_id, lease_token) from sched.claim('default')",
    )
    .unwrap();
    let log = cluster.log();
    let deletes = log.matches("Delete on retry").count();
    assert!(deletes > 0, "no plan of a retry that is due");
    // By what the statement has locked already, whatever else the table has.
    assert_eq!(log.matches("Tid Scan on retry").count(), deletes, "{log}");
    let reads_all = |line: &&str| {
        ["Seq Scan on retry", "Seq Scan on lease", "Seq Scan on ledger", "Index Scan using ledger_pkey on ledger"]
            .iter()
            .any(|scan| line.contains(scan))
    };
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if reads_all(&line) {
            assert!(lines.peek().is_some_and(|next| next.contains("Index Cond")), "{line}");
        }
    }
}

/// Entries of one time that have gone are passed over once, also while a transaction of a role keeps VACUUM from taking them away.
#[test]
fn what_is_gone_of_one_time_is_passed_over_once() {
    let (cluster, mut evil) = quiet();
    let mut old = cluster.connect_as("evil", "postgres");
    old.batch_execute("begin isolation level repeatable read; create temp table mine (); select 1").unwrap();
    evil.batch_execute(
        "select count(*) from sched.enqueue_many('e', array_fill('{}'::jsonb, array[20000]), run_ats => array_fill(clock_timestamp() + interval '1 second', array[20000]))",
    )
    .unwrap();
    cluster.execute("alter system set sched.enabled = on");
    cluster.execute("select pg_reload_conf()");
    let mut root = cluster.connect();
    wait_for(&mut root, &none(DELAYED), SOON);
    let read = &format!("select pg_stat_get_tuples_returned('sched.{DELAYED_INDEX}'::regclass)");
    // Each tick looks at one entry or none, and not at all of those that are gone.
    wait_for(&mut root, &format!("select ({read}) > 0"), SOON);
    let entries: i64 = one(&mut root, read);
    assert!(entries < 20 * 20_000, "{entries} entries were read");
    old.batch_execute("rollback").unwrap();
}

/// What one role has enqueued for a time, however much and with whatever priority, is not delivered before all that another role has for the same
/// time.
#[test]
fn what_waits_for_a_time_is_delivered_in_turns() {
    let (cluster, mut evil) = quiet();
    evil.batch_execute(
        "select sched.define_job('noise', 'notify', 'c');
         select count(*) from sched.enqueue_many('noise', array_fill('{}'::jsonb, array[30000]), run_ats => array_fill(date_trunc('second', clock_timestamp()) + interval '2 seconds', array[30000]), priority => 1000)",
    )
    .unwrap();
    let mut victim = cluster.connect_as("victim", "postgres");
    victim.batch_execute("select sched.define_job('heard', 'notify', 'c')").unwrap();
    let mut root = cluster.connect();
    let of_noise: String = one(
        &mut root,
        "select (max(run_at) - interval '1 microsecond')::text from sched.execution where job_name = 'noise'",
    );
    victim.batch_execute(&format!("select sched.enqueue('heard', run_at => '{of_noise}')")).unwrap();
    // All of it is due when the dispatcher begins.
    wait_for(&mut root, "select max(run_at) < clock_timestamp() from sched.execution", SOON);
    cluster.execute("alter system set sched.enabled = on");
    cluster.execute("select pg_reload_conf()");
    wait_for(
        &mut root,
        "select count(*) = 0 from sched.execution where job_name in ('noise', 'heard') and status <> 'SUCCESS'",
        SOON,
    );
    let before: i64 = one(
        &mut root,
        "select count(*) from sched.ledger e, sched.ledger v where v.job_name = 'heard' and e.job_name = 'noise' and e.started_at < v.started_at",
    );
    assert!(before < 10_000, "{before} of 30,000 came first");
}
