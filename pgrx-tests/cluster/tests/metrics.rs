//! Counters say what was committed, whoever did it: they are compared with the ledger, in which all of it is written.

use postgres::types::ToSql;
use scheduler_cluster_tests::scheduler::{dispatcher, one, rest, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{proc, wait_for, wait_until, Client, Cluster};

/// The sum of the samples of a name whose labels contain these; 0 where there is none.
fn sum(client: &mut Client, name: &str, labels: &str) -> f64 {
    let query =
        format!("select coalesce(sum(value), 0) from sched.metrics() where name = '{name}' and labels @> '{labels}'");
    one(client, &query)
}

/// What the counters of a job say.
#[derive(Debug, PartialEq)]
struct Counted {
    fires: i64,
    enqueued: i64,
    success: i64,
    cancelled: i64,
}

fn counted(client: &mut Client, job: &str) -> Counted {
    let mut count = |name: &str, more: &str| sum(client, name, &format!(r#"{{"job": "{job}"{more}}}"#)) as i64;
    Counted {
        fires: count("sched_fires_total", ""),
        enqueued: count("sched_enqueued_total", ""),
        success: count("sched_finishes_total", r#", "outcome": "SUCCESS""#),
        cancelled: count("sched_finishes_total", r#", "outcome": "CANCELLED""#),
    }
}

/// The same by the ledger.
fn in_ledger(client: &mut Client, job: &str) -> Counted {
    let row = client
        .query_one(
            "select count(*) filter (where origin in ('schedule', 'manual', 'backfill')), count(*) filter (where origin = 'enqueue'),
                    count(*) filter (where status = 'SUCCESS'), count(*) filter (where status = 'CANCELLED')
               from sched.execution where job_name = $1",
            &[&job as &(dyn ToSql + Sync)],
        )
        .unwrap();
    Counted { fires: row.get(0), enqueued: row.get(1), success: row.get(2), cancelled: row.get(3) }
}

fn agrees_with_ledger(client: &mut Client, job: &str) {
    let (counters, ledger) = (counted(client, job), in_ledger(client, job));
    assert_eq!(counters, ledger, "{job}");
}

fn claims(client: &mut Client, job: &str) -> [i64; 2] {
    ["won", "stole"].map(|outcome| {
        sum(client, "sched_claims_total", &format!(r#"{{"job": "{job}", "outcome": "{outcome}"}}"#)) as i64
    })
}

fn of_job(client: &mut Client, name: &str, job: &str) -> i64 {
    sum(client, name, &format!(r#"{{"job": "{job}"}}"#)) as i64
}

/// Claims one execution of a queue; its id and token.
fn claim(client: &mut Client, queue: &str) -> (String, String) {
    let row = client.query_one("select execution_id::text, lease_token::text from sched.claim($1)", &[&queue]).unwrap();
    (row.get(0), row.get(1))
}

fn finish(client: &mut Client, how: &str, (id, token): &(String, String), more: &str) {
    client.batch_execute(&format!("select sched.{how}('{id}', '{token}'{more})")).unwrap();
}

/// Each statement by itself: several that a client sends together are one transaction.
fn each(client: &mut Client, statements: &str) {
    for statement in statements.split(';') {
        client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

/// What is done and what of it is rolled back, by rows or by statements.
fn counts_what_was_committed(cluster: &Cluster) {
    let mut db = cluster.with_extension("postgres");
    switch_off(cluster, &mut db);
    each(&mut db, &format!("select sched.define_job('pull', queue => 'mail', max_attempts => 3, retry_backoff => '{{0}}'),
                sched.define_job('told', 'notify', 'channel'), sched.define_job('logged', 'log');
         select sched.create_schedule('s', 'every 1 hour from 2020-01-01', 'pull', scope_id => 's', catch_up => 'every_plan'),
                sched.create_schedule('t', 'every 1 hour', 'told'), sched.create_schedule('l', 'every 1 hour', 'logged');
         select sched.dispatch_due();
         {}", timers_pass("5 hours")));

    // Dispatched: rolled back, in a subtransaction that is, and then for good.
    each(
        &mut db,
        "begin; select sched.fire_now('s'); select sched.fire_now('t'); select sched.fire_now('l'); rollback",
    );
    assert_eq!(counted(&mut db, "pull"), Counted { fires: 0, enqueued: 0, success: 0, cancelled: 0 });
    each(&mut db, "begin; select sched.fire_now('s'); savepoint a; select sched.fire_now('t'); savepoint b; select sched.fire_now('l');
         release b; rollback to a; select sched.fire_now('t'); commit");
    assert_eq!(counted(&mut db, "logged"), Counted { fires: 0, enqueued: 0, success: 0, cancelled: 0 });
    agrees_with_ledger(&mut db, "told");
    assert_eq!(counted(&mut db, "told").success, 1);
    let ticks = sum(&mut db, "sched_ticks_total", "{}");
    each(
        &mut db,
        "select sched.dispatch_due(), sched.fire_now('l'), sched.backfill('s', '2020-01-01', '2020-01-01 05:00')",
    );
    assert_eq!(sum(&mut db, "sched_ticks_total", "{}"), ticks + 1.0);
    for job in ["pull", "told", "logged"] {
        agrees_with_ledger(&mut db, job);
    }
    assert!(counted(&mut db, "pull").fires > 2, "{:?}", counted(&mut db, "pull"));
    assert_eq!(of_job(&mut db, "sched_lateness_seconds_count", "told"), counted(&mut db, "told").success);

    // Enqueued: at once, for later, under names, by scope, of a kind that is delivered at once or later.
    each(&mut db, "select sched.enqueue('pull'), sched.enqueue('pull', run_at => now() + interval '1 day'),
                sched.enqueue('pull', plan_time => '2030-01-01', scope_kind => 'a', scope_id => 'b'), sched.enqueue('told'),
                sched.enqueue('logged', run_at => clock_timestamp() + interval '1 millisecond'), sched.enqueue('undefined');
         select sched.enqueue_many('pull', array['1', '2', '3']::jsonb[]);
         begin; select sched.enqueue_many('pull', array['1', '2', '3']::jsonb[]); rollback;
         select pg_sleep(0.01); select sched.dispatch_due()");
    for job in ["pull", "told", "logged", "undefined"] {
        agrees_with_ledger(&mut db, job);
    }
    assert_eq!(counted(&mut db, "logged").enqueued, 1);

    // Claimed by queue and by key, ended one by one and together, failed and tried again.
    assert_eq!(claims(&mut db, "pull"), [0, 0]);
    let first = claim(&mut db, "mail");
    each(&mut db, "begin");
    claim(&mut db, "mail");
    each(&mut db, "rollback");
    assert_eq!(claims(&mut db, "pull"), [1, 0]);
    finish(&mut db, "finish_success", &first, "");
    let second = claim(&mut db, "mail");
    finish(&mut db, "finish_failure", &second, ", 'bad', 'bad'");
    let again: (String, String) = {
        let key = "select t.execution_id::text, t.lease_token::text from sched.execution e, sched.try_claim(e.job_name, e.plan_time, e.scope_kind, e.scope_id) t where e.id = $1::text::uuid";
        let row = db.query_one(key, &[&second.0]).unwrap();
        (row.get(0), row.get(1))
    };
    finish(&mut db, "finish_failure", &again, ", 'bad', 'bad', terminal => true");
    assert_eq!(claims(&mut db, "pull"), [2, 1]);
    assert_eq!(of_job(&mut db, "sched_retries_total", "pull"), 1);
    assert_eq!(sum(&mut db, "sched_finishes_total", r#"{"job": "pull", "outcome": "FAILED"}"#), 2.0);
    each(
        &mut db,
        "select sched.finish_success_many(array_agg(execution_id), array_agg(lease_token)) from sched.claim('mail', 3)",
    );
    each(&mut db, "select sched.try_claim('pull', '2021-01-01'); select sched.try_claim('own', '2021-01-01')");
    assert_eq!((claims(&mut db, "pull"), claims(&mut db, "own")), ([6, 1], [1, 0]));
    agrees_with_ledger(&mut db, "pull");
    // Each end has a length, and each first attempt a delay, but those that make up for what was.
    assert_eq!(of_job(&mut db, "sched_duration_seconds_count", "pull"), 6);
    let late: i64 = one(
        &mut db,
        "select count(*) from sched.execution where job_name = 'pull' and attempt > 0 and origin <> 'backfill'",
    );
    assert_eq!(of_job(&mut db, "sched_lateness_seconds_count", "pull"), late);

    // Taken over, swept, given back.
    each(
        &mut db,
        "select * from sched.try_claim('pull', '2021-01-02', stale_timeout => '1 millisecond', max_attempts => 9);
         select pg_sleep(0.01);
         select * from sched.try_claim('pull', '2021-01-02', stale_timeout => '1 millisecond');
         select pg_sleep(0.01); select sched.mark_stale_as_failed('pull')",
    );
    assert_eq!(claims(&mut db, "pull"), [7, 2]);
    assert_eq!(of_job(&mut db, "sched_retries_total", "pull"), 2);
    let given = claim(&mut db, "mail");
    finish(&mut db, "snooze", &given, ", now() + interval '1 hour'");
    assert_eq!(sum(&mut db, "sched_finishes_total", r#"{"job": "pull", "outcome": "FAILED"}"#), 3.0);

    // Cancelled: what waits, one by one and together, what runs, with its schedule.
    each(&mut db, "select sched.enqueue_many('pull', array['1', '2', '3', '4']::jsonb[], scope_ids => array['a', 'b', 'c', 'd'], plan_times => array_fill('2035-01-01'::timestamptz, array[4]));
         select sched.cancel(id) from sched.execution where scope_id = 'a';
         select sched.cancel_many('pull', scope_id => 'b');
         begin; select sched.cancel_many('pull'); rollback;
         select sched.create_schedule('dropped', 'every 1 hour', 'pull', scope_id => 'dropped');
         select sched.fire_now('dropped'); select sched.drop_schedule('dropped', cancel_pending => true)");
    assert_eq!(counted(&mut db, "pull").cancelled, 4);
    agrees_with_ledger(&mut db, "pull");
    let asked = claim(&mut db, "mail");
    db.batch_execute(&format!("select sched.cancel('{}')", asked.0)).unwrap();
    finish(&mut db, "snooze", &asked, ", now() + interval '1 hour'");
    assert_eq!(counted(&mut db, "pull").cancelled, 5);
    agrees_with_ledger(&mut db, "pull");

    // A transaction that is prepared counts nothing, whatever becomes of it.
    let before = counted(&mut db, "pull");
    each(&mut db, "begin; select sched.fire_now('s'); prepare transaction 'p'; commit prepared 'p'");
    assert_eq!(counted(&mut db, "pull"), before);
    each(&mut db, "select sched.fire_now('s')");
    assert_eq!(counted(&mut db, "pull").fires, before.fires + 1);
}

#[test]
fn counters_say_what_was_committed() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").set("sched.notify", "off").start();
    counts_what_was_committed(&cluster);
}

#[test]
fn counters_say_what_was_committed_by_statements() {
    let cluster = Cluster::builder()
        .set("max_prepared_transactions", "2")
        .set("sched.notify", "off")
        .set("sched.fast_path", "off")
        .start();
    counts_what_was_committed(&cluster);
}

#[test]
fn dispatchers_and_runners_count_and_a_restart_of_theirs_forgets_nothing() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('sql', 'sql', 'select 1', queue => 'of sql'), sched.define_job('bad', 'sql', 'select 1/0');
         select sched.create_schedule('s', 'every 100 milliseconds', 'sql', catch_up => 'every_plan');
         select sched.enqueue('bad')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 5 from sched.execution where status = 'SUCCESS'", SOON);
    wait_for(&mut db, "select exists (select from sched.failed)", SOON);
    let reset = "select value from sched.metrics() where name = 'sched_counters_reset_timestamp_seconds'";
    let since: f64 = one(&mut db, reset);
    let old = dispatcher(&mut db).unwrap();
    proc::kill(old, proc::Signal::TERM);
    wait_until("another dispatcher", SOON, || dispatcher(&mut db).filter(|pid| *pid != old));
    // What was passed over while it was paused.
    db.batch_execute("select sched.pause('s')").unwrap();
    wait_for(&mut db, "select sum(count) > 3 from sched.skipped", SOON);
    db.batch_execute("select sched.resume('s')").unwrap();
    wait_for(&mut db, "select exists (select from sched.skip)", SOON);
    db.batch_execute("select sched.pause('s')").unwrap();
    wait_for(&mut db, "select not exists (select from sched.execution where status in ('PENDING', 'RUNNING'))", SOON);
    rest(&mut db);
    // (A process answers its client, or is asleep, a moment after others can see what it has committed.)
    wait_until("all that was committed to be counted", SOON, || {
        (counted(&mut db, "sql") == in_ledger(&mut db, "sql")).then_some(())
    });
    let skips: f64 = one(&mut db, "select sum(count)::float8 from sched.skip where reason = 'paused'");
    assert_eq!(sum(&mut db, "sched_skips_total", r#"{"job": "sql", "reason": "paused", "queue": "of sql"}"#), skips);
    assert_eq!(sum(&mut db, "sched_finishes_total", r#"{"job": "bad", "outcome": "FAILED", "queue": "default"}"#), 1.0);
    assert!(sum(&mut db, "sched_ticks_total", "{}") > 5.0);
    assert_eq!(one::<f64>(&mut db, reset), since);
    drop(db);

    // A crash resets them, with their time.
    cluster.crash();
    cluster.start();
    let mut db = cluster.connect();
    assert!(one::<f64>(&mut db, reset) > since);
    assert_eq!(sum(&mut db, "sched_fires_total", "{}"), 0.0);
    assert!(one::<i64>(&mut db, "select count(*) from sched.execution") > 5);
}

#[test]
fn the_names_of_a_few_hundred_jobs_fit_and_databases_make_room() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // Of one queue, so that only the jobs are too many; the one called so from the beginning belongs to the others.
    db.batch_execute(
        "select sched.enqueue('other'); select count(sched.enqueue('job ' || i)) from generate_series(1, 250) i",
    )
    .unwrap();
    let jobs = "select count(distinct labels->>'job') from sched.metrics() where name = 'sched_enqueued_total'";
    assert_eq!(one::<i64>(&mut db, jobs), 201);
    assert_eq!(sum(&mut db, "sched_enqueued_total", r#"{"job": "other", "queue": "other"}"#), 51.0);
    assert_eq!(sum(&mut db, "sched_enqueued_total", "{}"), 251.0);
    assert_eq!(sum(&mut db, "sched_queue_depth", r#"{"queue": "default"}"#), 251.0);

    // In a database of its own each begins at nothing, and what one had that is gone is another's.
    for number in 0..7 {
        cluster.execute("create database brief");
        let mut brief = cluster.connect_as("postgres", "brief");
        brief
            .batch_execute(
                "create extension scheduler; select count(sched.define_job('job ' || i, queue => 'queue ' || i)) from generate_series(1, 250) i;
                 select count(sched.enqueue('job ' || i)) from generate_series(1, 250) i",
            )
            .unwrap();
        assert_eq!(sum(&mut brief, "sched_enqueued_total", "{}"), 250.0);
        let queues = "select count(distinct labels->>'queue') from sched.metrics() where name = $$sched_queue_depth$$";
        assert_eq!((one::<i64>(&mut brief, jobs), one::<i64>(&mut brief, queues)), (201, 201), "database {number}");
        drop(brief);
        cluster.execute("drop database brief with (force)");
        // The launcher sees it.
        wait_until("the room to be free", SOON, || {
            cluster.execute("create database probe");
            let mut probe = cluster.connect_as("postgres", "probe");
            probe.batch_execute("create extension scheduler; select count(sched.enqueue('job ' || i)) from generate_series(1, 200) i").unwrap();
            let found = one::<i64>(&mut probe, jobs);
            drop(probe);
            cluster.execute("drop database probe with (force)");
            (found == 200).then_some(())
        });
    }
    // A new extension begins anew, also where it comes with work.
    db.batch_execute(
        "drop extension scheduler; begin; create extension scheduler; select sched.enqueue('first'); commit",
    )
    .unwrap();
    assert_eq!(sum(&mut db, "sched_enqueued_total", "{}"), 1.0);
    db.batch_execute("drop extension scheduler; create extension scheduler").unwrap();
    assert_eq!(sum(&mut db, "sched_enqueued_total", "{}"), 0.0);
    assert_eq!(one::<i64>(&mut db, jobs), 0);
}

#[test]
fn what_is_rolled_back_takes_no_place_and_no_owner_takes_all() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role greedy login; create role late login; select sched.grant_use('greedy'), sched.grant_use('late')",
    )
    .unwrap();
    let jobs = "select count(distinct labels->>'job') from sched.metrics() where name = 'sched_enqueued_total'";
    let mut greedy = cluster.connect_as("greedy", "postgres");
    for number in 0..3 {
        let enqueue = format!("select count(sched.enqueue('gone {number} ' || i)) from generate_series(1, 300) i");
        each(&mut greedy, &format!("begin; {enqueue}; rollback; begin; savepoint a; {enqueue}; rollback to a; commit"));
    }
    assert_eq!(one::<i64>(&mut db, jobs), 0);
    // One session counts in the same series before and after it has a place, and what is rolled back with it.
    each(
        &mut greedy,
        "begin; select sched.enqueue('a'); savepoint a; select sched.enqueue('a'), sched.enqueue('b'); rollback to a;
                       select sched.enqueue('a'); commit; select sched.enqueue('a'), sched.enqueue('b')",
    );
    for (job, count) in [("a", 3), ("b", 1)] {
        assert_eq!(of_job(&mut db, "sched_enqueued_total", job), count, "{job}");
    }
    each(&mut greedy, "select count(sched.enqueue('kept ' || i)) from generate_series(1, 300) i");
    each(&mut greedy, "select count(sched.enqueue('kept ' || i)) from generate_series(1, 300) i");
    assert_eq!(one::<i64>(&mut db, jobs), 201);
    assert_eq!(sum(&mut db, "sched_enqueued_total", "{}"), 604.0);
    let mut late = cluster.connect_as("late", "postgres");
    each(&mut late, "select count(sched.enqueue('late ' || i)) from generate_series(1, 150) i");
    assert_eq!(one::<i64>(&mut late, jobs), 150);
    assert_eq!(one::<i64>(&mut db, jobs), 351);
}

#[test]
fn a_creation_that_is_rolled_back_resets_nothing() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    each(&mut db, "select sched.enqueue('kept')");
    let reset = "select value from sched.metrics() where name = 'sched_counters_reset_timestamp_seconds'";
    let since: f64 = one(&mut db, reset);
    each(&mut db, "begin; savepoint a; drop extension scheduler; create extension scheduler; rollback to a; commit");
    assert_eq!((one::<f64>(&mut db, reset), of_job(&mut db, "sched_enqueued_total", "kept")), (since, 1));
    each(&mut db, "begin; savepoint a; drop extension scheduler; create extension scheduler; release a; commit");
    assert_eq!(of_job(&mut db, "sched_enqueued_total", "kept"), 0);
    assert!(one::<f64>(&mut db, reset) > since);
}

#[test]
fn a_plan_time_that_is_a_mere_name_is_not_late() {
    for fast_path in ["on", "off"] {
        let cluster = Cluster::builder().set("sched.fast_path", fast_path).start();
        let mut db = cluster.with_extension("postgres");
        switch_off(&cluster, &mut db);
        each(&mut db, "select sched.define_job('pull'), sched.define_job('told', 'notify', 'channel');
             select sched.enqueue('pull', plan_time => '1999-01-01'), sched.enqueue('told', plan_time => '1999-01-01');
             select sched.enqueue('told', plan_time => '1998-01-01', run_at => clock_timestamp() + interval '1 millisecond');
             select sched.claim(); select sched.try_claim('pull', '2001-01-01');
             select sched.enqueue('pull', plan_time => '2002-01-01'); select sched.try_claim('pull', '2002-01-01');
             select pg_sleep(0.01); select sched.dispatch_due()");
        for (job, count) in [("pull", 3), ("told", 2)] {
            assert_eq!(of_job(&mut db, "sched_lateness_seconds_count", job), count, "{job}, {fast_path}");
            let late = sum(&mut db, "sched_lateness_seconds_sum", &format!(r#"{{"job": "{job}"}}"#));
            assert!((0.0..3600.0).contains(&late), "{job}, {fast_path}: {late}");
        }
    }
}

#[test]
fn what_a_schedule_waits_for_is_not_late() {
    for fast_path in ["on", "off"] {
        let cluster = Cluster::builder().set("sched.fast_path", fast_path).start();
        let mut db = cluster.with_extension("postgres");
        switch_off(&cluster, &mut db);
        // Plan times of two hours ago, half an hour of which is lateness: the rest is intended.
        each(&mut db, &format!("select sched.define_job('pull'), sched.define_job('told', 'notify', 'channel');
             select sched.create_schedule(job, 'every 1 day from ' || date_trunc('second', now() - interval '2 hours')::text, job, scope_id => job,
                                          delay => '90 minutes', catch_up => 'every_plan') from unnest(array['pull', 'told']) job;
             select sched.dispatch_due();
             {};
             select sched.dispatch_due(); select sched.claim(); select sched.dispatch_due()", timers_pass("24 hours")));
        for job in ["pull", "told"] {
            let late = sum(&mut db, "sched_lateness_seconds_sum", &format!(r#"{{"job": "{job}"}}"#));
            assert!((1790.0..3600.0).contains(&late), "{job}, {fast_path}: {late}");
        }
    }
}
