//! What may not grow: the ledger of a queue beyond its retention, a session's memory with each edit, the server's transaction ids.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};
use std::thread;

/// How many executions each tick that forgot some has forgotten, by what `sched.log_ticks` says.
fn forgotten(cluster: &Cluster) -> Vec<i64> {
    let count = |line: &String| {
        let (before, _) = line.split_once(" old executions forgotten")?;
        before.rsplit(' ').next()?.parse().ok()
    };
    cluster.logged("old executions forgotten").iter().filter_map(count).collect()
}

/// Each enqueue has a scope of its own, so the newest of a scope is no reason to keep it. What is kept is what due_plans, latest_plan and
/// timers go by.
#[test]
fn a_queues_ledger_is_as_large_as_its_retention_says() {
    let cluster = Cluster::builder()
        .set("sched.history_retention", "2s")
        .set("sched.enabled", "off")
        .set("sched.log_ticks", "on")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('work');
         select sched.create_schedule(name, 'never', 'work') from unnest('{stays, dropped}'::text[]) name;
         select sched.fire_now(name) from unnest('{stays, dropped}'::text[]) name;
         select sched.drop_schedule('dropped');
         select count(*) from sched.enqueue_many('work', array_fill('{}'::jsonb, array[6000]));
         select sched.enqueue('work', scope_kind => 'customer', scope_id => i::text) from generate_series(1, 300) i;
         select sched.enqueue('work', plan_time => '2026-01-01'::timestamptz + i * interval '1 day', scope_id => 'order') from generate_series(1, 200) i;
         select sched.enqueue('work', plan_time => '2026-01-01', scope_kind => 'global', scope_id => 'global');
         select count(*) from (select sched.finish_success_many(array_agg(execution_id), array_agg(lease_token)) from sched.claim(max_claims => 10000)) f;
         select sched.finish_success(execution_id, lease_token) from sched.try_claim('tick', '2026-01-01');
         select sched.finish_success(execution_id, lease_token) from sched.try_claim('tick', '2026-01-02');
         select sched.enqueue('work', '\"pending\"')",
    )
    .unwrap();
    // An enqueue that is newer than a claim, in its scope, does not take the claim's place.
    db.batch_execute(
        "select sched.finish_success(execution_id, lease_token) from sched.try_claim('mixed', '2026-01-01', 'both', '1');
         select sched.enqueue('mixed', plan_time => '2026-01-02', scope_kind => 'both', scope_id => '1');
         select sched.finish_success(execution_id, lease_token) from sched.try_claim('mixed', '2026-01-02', 'both', '1')",
    )
    .unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where status = 'SUCCESS'"), 6507);
    wait_for(
        &mut db,
        "select max(finished_at) < clock_timestamp() - interval '2.5 seconds' from sched.execution",
        SOON,
    );
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select count(*) = 5 from sched.ledger", SOON);
    let left = "select string_agg(concat_ws(' ', job_name, origin, scope_kind, payload #>> '{}'), ', ' order by job_name, origin, scope_kind) from sched.ledger";
    assert_eq!(
        one::<String>(&mut db, left),
        "mixed claim both {}, tick claim global {}, work enqueue adhoc pending, work enqueue global {}, work manual schedule {}"
    );
    // A thousand at a time, while there is something to forget: at ten ticks a second ten times what ends at 1,000 a second.
    let steps = forgotten(&cluster);
    assert_eq!(steps.iter().sum::<i64>(), 6503);
    assert!(steps.iter().all(|count| *count <= 1000) && steps.len() <= 9, "{steps:?}");
    // What due_plans goes by is what is left.
    let due =
        |job| format!("select count(*) from sched.due_plans('{job}', 'every 36500 days from 2000-01-01 00:00+00')");
    assert_eq!(one::<i64>(&mut db, &due("tick")), 0);
    assert_eq!(one::<i64>(&mut db, &due("work")), 0);
}

/// A walk through the ledger goes past all that is gone and not yet vacuumed only where it begins anew: not for long after that has kept
/// fires waiting.
#[test]
fn a_walk_goes_on_where_the_last_one_ended_where_its_beginning_is_slow() {
    let cluster = Cluster::builder().set("sched.history_retention", "1s").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let plan = |day| {
        format!("select sched.finish_success(execution_id, lease_token) from sched.try_claim('tick', '2026-01-0{day}')")
    };
    let run = |job| {
        format!(
            "select sched.enqueue('{job}'); select sched.finish_success(execution_id, lease_token) from sched.claim()"
        )
    };
    db.batch_execute(&format!("{}; {}", plan(1), run("slow"))).unwrap();
    db.batch_execute(
        "create function slow() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(1); return old; end $$;
         create trigger slow before delete on sched.ledger for each row when (old.job_name = 'slow') execute function slow()",
    )
    .unwrap();
    let mut blocker = cluster.connect();
    blocker.batch_execute("begin; select pg_advisory_xact_lock(1)").unwrap();
    cluster.set("sched.enabled", "on");
    wait_for(
        &mut db,
        "select exists (select from pg_stat_activity where backend_type = 'scheduler dispatcher'
                           and wait_event_type = 'Lock' and xact_start < clock_timestamp() - interval '1.5 seconds')",
        SOON,
    );
    blocker.batch_execute("commit").unwrap();
    wait_for(&mut db, "select not exists (select from sched.ledger where job_name = 'slow')", SOON);
    // The first plan could go now; what comes later does. (But one that a walk passes in the moment when it is old enough by its id, and not yet by
    // its end.)
    db.batch_execute(&plan(2)).unwrap();
    for _ in 0..5 {
        db.batch_execute(&run("later")).unwrap();
    }
    wait_for(&mut db, "select count(*) < 3 from sched.ledger where job_name = 'later'", SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger where job_name = 'tick'"), 2);
}

fn memory(db: &mut Client) -> i64 {
    one(db, "select sum(total_bytes)::bigint from pg_backend_memory_contexts")
}

/// Ten thousand edits in one transaction: what is left of each until its end is its row. (Of a row that it changes twice, the server itself
/// remembers some hundred bytes.)
#[test]
fn an_edit_keeps_no_memory_and_burns_no_transaction_id() {
    let cluster = Cluster::builder().set("sched.enabled", "off").set("autovacuum", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s' || i, 'every 1 hour', 'job') from generate_series(0, 99) i;
         begin",
    )
    .unwrap();
    let id: i64 = one(&mut db, "select pg_current_xact_id()::text::bigint");
    for edit in [
        "alter_schedule('s' || i % 100, payload => jsonb_build_object('n', i))",
        "alter_schedule('s' || i % 100, clock => format('every %s minutes', i + 1))",
        "alter_schedule('s' || i % 100, scope_id => i::text)",
        "pause('s' || i % 100)",
        "resume('s' || i % 100)",
        "alter_schedule(format('%s%s', case when i / 100 % 2 = 0 then 's' else 'renamed ' end, i % 100),
                        new_name => format('%s%s', case when i / 100 % 2 = 1 then 's' else 'renamed ' end, i % 100))",
    ] {
        let many = |from: i64, to: i64| {
            format!("do $$ begin for i in {from}..{to} loop perform sched.{edit}; end loop; end $$")
        };
        db.batch_execute(&many(0, 199)).unwrap();
        let before = memory(&mut db);
        db.batch_execute(&many(200, 1999)).unwrap();
        let kept = memory(&mut db) - before;
        assert!(kept < 1800 * 250, "1,800 times {edit} keep {kept} bytes");
    }
    db.batch_execute("commit").unwrap();
    assert_eq!(one::<i64>(&mut db, "select pg_current_xact_id()::text::bigint"), id + 1);
}

/// Whoever comes second to a name hears so, also where he could not see the first.
#[test]
fn a_name_that_is_taken_meanwhile_is_a_duplicate() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('old', '@daily', 'job')").unwrap();
    let mut first = cluster.connect();
    first.batch_execute("begin; select sched.create_schedule('new', '@daily', 'job')").unwrap();
    let mut second = cluster.connect();
    let pid: i32 = one(&mut second, "select pg_backend_pid()");
    let renames = thread::spawn(move || {
        second.batch_execute("begin; select sched.alter_schedule('old', new_name => 'new')").map_err(|error| {
            let error = error.as_db_error().unwrap();
            (error.code().clone(), error.message().to_owned())
        })
    });
    let waits = format!("select wait_event_type = 'Lock' from pg_stat_activity where pid = {pid}");
    wait_until("the second to wait", SOON, || one::<Option<bool>>(&mut db, &waits)?.then_some(()));
    first.batch_execute("commit").unwrap();
    let refusal = renames.join().unwrap().expect_err("the name is taken");
    assert_eq!(refusal, (SqlState::DUPLICATE_OBJECT, "schedule \"new\" already exists".to_owned()));
    // The name that is taken, and nothing else: what else must be unique says so itself.
    db.batch_execute("create unique index one_clock on sched.schedule (clock) where clock = '@hourly'; select sched.alter_schedule('new', clock => '@hourly')")
        .unwrap();
    let error =
        db.batch_execute("select sched.alter_schedule('old', clock => '@hourly')").expect_err("the clock is taken");
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let error = db
        .batch_execute("select sched.alter_schedule('old', clock => '@hourly', new_name => 'newer')")
        .expect_err("the clock is taken");
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
}
