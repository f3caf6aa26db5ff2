//! Claims begin where the first entry of a queue can be: nothing is passed over, and nothing that was claimed is in the way.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Builder, Client, Cluster};
use std::thread;
use std::time::{Duration, Instant};

/// Two jobs of one queue, of which one goes first; no worker.
fn quiet() -> Cluster {
    quiet_with(Cluster::builder())
}

fn quiet_with(builder: Builder) -> Cluster {
    let cluster = builder
        .set("sched.enabled", "off")
        .set("autovacuum", "off")
        .set("max_prepared_transactions", "5")
        .set("sched.notify", "off")
        .start();
    cluster
        .execute("create extension scheduler; select sched.define_job('low'), sched.define_job('high', priority => 9)");
    cluster
}

/// Claims one execution in a session of its own, which looks for the first entry; its job, or "" where there is none.
fn claimed(cluster: &Cluster) -> String {
    one(&mut cluster.connect(), "select coalesce((select job_name from sched.claim()), '')")
}

/// Row by row: the statements know no marks, and go past all of it each time.
#[test]
fn an_old_transaction_makes_no_claim_longer() {
    let cluster = quiet_with(Cluster::builder().row_by_row());
    let (mut db, mut old) = (cluster.connect(), cluster.connect());
    old.batch_execute("begin isolation level repeatable read; select 1").unwrap();
    db.batch_execute("select sched.enqueue_many('low', array_fill('1'::jsonb, '{6000}'))").unwrap();
    // One that was kept alive leaves a version more.
    let beaten =
        "with one as materialized (select * from sched.claim('default', 100, stale_timeout => '1 millisecond'))
                  select count(sched.heartbeat(execution_id, lease_token, '1 hour')) from one";
    assert_eq!(one::<i64>(&mut db, beaten), 100);
    assert_eq!(
        one::<i64>(
            &mut db,
            &format!(
                "select count(*) from sched.finish_success_many((select array_agg(execution_id) from {LEASE} l),
                                                               (select array_agg(lease_token) from {LEASE} l))"
            )
        ),
        0
    );
    // The leases run out while they are held: every claim looks for stale ones.
    let round =
        "with batch as materialized (select * from sched.claim('default', 100, stale_timeout => '1 microsecond'))
                 select count(*) from sched.finish_success_many((select array_agg(execution_id) from batch),
                                                               (select array_agg(lease_token) from batch))";
    for _ in 0..49 {
        assert_eq!(one::<i64>(&mut db, round), 0);
    }
    db.batch_execute("select pg_stat_force_next_flush()").unwrap();
    for (index, table) in [(READY_INDEX, READY_TABLE), (LEASE_INDEX, LEASE_TABLE)] {
        let entries: i64 = one(&mut db, &format!("select pg_stat_get_tuples_returned('sched.{index}'::regclass)"));
        // Each claim goes past what the one before has taken. From the head it would be 50 × 51 / 2 × 100.
        assert!((4_900..20_000).contains(&entries), "{index}: {entries}");
        assert!(one::<i64>(&mut db, &format!("select pg_stat_get_dead_tuples('{table}'::regclass)")) >= 5_000);
    }
}

/// A tick begins behind what has ended, fired and was applied, whatever VACUUM has to leave there.
#[test]
fn an_old_transaction_makes_no_tick_longer() {
    const DEAD: i64 = 5_000;
    let cluster = Cluster::builder().row_by_row().set("autovacuum", "off").start();
    let mut db = cluster.with_extension("postgres");
    let mut old = cluster.connect();
    old.batch_execute("begin; select pg_current_xact_id()").unwrap();
    db.batch_execute("select sched.define_job('job'), sched.enqueue_many('job', array_fill('1'::jsonb, '{5000}'))")
        .unwrap();
    let round = "with batch as materialized (select * from sched.claim('default', 5000))
                 select count(*) from sched.finish_success_many((select array_agg(execution_id) from batch), (select array_agg(lease_token) from batch))";
    assert_eq!(one::<i64>(&mut db, round), 0);
    // Edits of schedules that never fire leave an entry each, and timers.
    db.batch_execute(
        "select sched.create_schedule('s' || i, 'every 1 hour', 'job', scope_id => i::text) from generate_series(1, 500) i;
         select sched.create_schedule('often', 'every 50 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    db.batch_execute(&format!("do $$ begin for i in 1 .. 9 loop update {TIMER_TABLE} set fire_at = fire_at + interval '1 microsecond' where fire_at > now() + '1 minute'::interval; end loop; end $$"))
        .unwrap();
    db.batch_execute("select sched.drop_schedule('s' || i) from generate_series(1, 500) i").unwrap();
    wait_for(
        &mut db,
        &format!("select not exists (select from sched.schedule_change) and (select count(*) = 1 from {TIMER} t)"),
        SOON,
    );
    db.batch_execute("select pg_stat_force_next_flush()").unwrap();
    let read = |db: &mut Client| -> Vec<(i64, i64)> {
        [TIMER_INDEX, LEASE_INDEX, "schedule_change_pkey"].map(|index| {
            let row = db.query_one(&format!("select pg_stat_get_tuples_returned(i), pg_stat_get_numscans(i) from (select 'sched.{index}'::regclass::oid) o (i)"), &[]).unwrap();
            (row.get(0), row.get(1))
        }).to_vec()
    };
    // After a first look at each.
    let fired = |db: &mut Client, count: i64| {
        let since: String = one(db, "select clock_timestamp()::text");
        wait_for(db, &format!("select count(*) >= {count} from sched.execution where schedule_name = 'often' and created_at > '{since}'"), SOON);
    };
    fired(&mut db, 40);
    let before = read(&mut db);
    fired(&mut db, 100);
    let mut after = read(&mut db);
    // A process writes its numbers once a second. (Edits are looked for where one can have come, and once a second.)
    wait_until("100 ticks", SOON, || {
        after = read(&mut db);
        before.iter().zip(&after).take(2).all(|(before, after)| after.1 - before.1 >= 80).then_some(())
    });
    for (before, after) in before.iter().zip(&after) {
        let (entries, scans) = (after.0 - before.0, after.1 - before.1);
        // From the very head each time it would be a hundred times as many. Once in ten seconds it is.
        assert!(entries < 3 * DEAD, "{entries} entries in {scans} looks");
    }
    // Nor does it make health longer, which asks for the first of each queue, of the leases and of the retries.
    let read = |db: &mut Client| -> i64 {
        one(db, &format!("select sum(pg_stat_get_tuples_returned(indexrelid))::bigint from pg_index where indrelid in ('{READY_TABLE}'::regclass, '{LEASE_TABLE}'::regclass, '{DELAYED_TABLE}'::regclass)"))
    };
    const LOOKS: i64 = 30;
    db.batch_execute("select count(*) from sched.health()").unwrap();
    // (Dispatchers read these too, and add a little.)
    let before = read(&mut db);
    for _ in 0..LOOKS {
        db.batch_execute("select count(*) from sched.health()").unwrap();
    }
    let mut entries = 0;
    db.batch_execute("select pg_stat_force_next_flush()").unwrap();
    wait_until("what was read to be counted", SOON, || {
        entries = read(&mut db) - before;
        (entries >= LOOKS).then_some(())
    });
    assert!(entries < 6 * DEAD, "{entries} entries in {LOOKS} calls of health");
    old.batch_execute("commit").unwrap();
}

/// Whatever open transactions add or take counts, also where their session has gone.
#[test]
fn what_may_yet_become_claimable_is_not_passed() {
    let cluster = quiet();
    let mut db = cluster.connect();
    let mut other = cluster.connect();
    let enqueue = "select sched.enqueue('high')";
    let claim = "select count(*) from sched.claim()";
    for (what, open, end) in [
        ("an insert", enqueue, "commit"),
        ("a prepared insert", enqueue, "prepare transaction 'p'; commit prepared 'p'"),
        ("a claim", claim, "rollback"),
        ("a prepared claim", claim, "prepare transaction 'p'; rollback prepared 'p'"),
        (
            "a cancel",
            "select sched.cancel(id) from sched.execution where job_name = 'high' and status = 'PENDING'",
            "rollback",
        ),
    ] {
        if open != enqueue {
            db.batch_execute(enqueue).unwrap();
        }
        let (first, last) = end.split_once("; ").unwrap_or(("", end));
        other.batch_execute(&format!("begin; {open}; {first}")).unwrap();
        db.batch_execute("select sched.enqueue_many('low', '{1,2,3}')").unwrap();
        let found: Vec<String> = (0..5).map(|_| claimed(&cluster)).collect();
        assert_eq!(found, ["low", "low", "low", "", ""], "{what}");
        other.batch_execute(last).unwrap();
        assert_eq!([claimed(&cluster), claimed(&cluster)], ["high", ""], "{what}");
    }
}

/// A table that its transaction has emptied is full again for everybody else, and after a rollback for all.
#[test]
fn an_emptied_table_comes_back() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute("select sched.enqueue('low')").unwrap();
    db.batch_execute(
        &format!("begin; truncate {READY_TABLE}; select sched.claim(); select sched.enqueue('low'); select sched.claim(); rollback"),
    )
    .unwrap();
    assert_eq!([claimed(&cluster), claimed(&cluster)], ["low", ""]);
}

/// What a transaction has itself taken, and gives back.
#[test]
fn a_savepoint_gives_back() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute("select sched.enqueue('high'), sched.enqueue('low')").unwrap();
    db.batch_execute("begin; savepoint s; select sched.claim(); select sched.claim(max_claims => 100); rollback to s")
        .unwrap();
    assert_eq!(
        one::<String>(&mut db, "select string_agg(job_name, ' ') from sched.claim(max_claims => 100)"),
        "high low"
    );
    db.batch_execute("rollback").unwrap();
    assert_eq!([claimed(&cluster), claimed(&cluster), claimed(&cluster)], ["high", "low", ""]);
}

/// Whoever adds something before the first entry is heard, however it is added.
#[test]
fn what_comes_before_the_first_entry_is_found() {
    let cluster = quiet();
    let mut db = cluster.connect();
    let at =
        |year: i32| format!("select sched.enqueue_many('low', '{{1}}', '{{{year}-01-01}}', 'global', '{{global}}')");
    let year = |cluster: &Cluster| -> i32 {
        one(&mut cluster.connect(), "select coalesce((select extract(year from plan_time)::int from sched.claim()), 0)")
    };
    for added in [2030, 2029, 2031] {
        db.batch_execute(&at(added)).unwrap();
    }
    assert_eq!(year(&cluster), 2029);
    db.batch_execute(&at(2005)).unwrap();
    db.batch_execute("select sched.enqueue('high')").unwrap();
    assert_eq!([claimed(&cluster), claimed(&cluster)], ["high", "low"]);
    assert_eq!([year(&cluster), year(&cluster), year(&cluster)], [2030, 2031, 0]);

    // A schedule, a retry at once and one that the worker makes due.
    db.batch_execute(
        "select sched.define_job('again', max_attempts => 9, retry_backoff => '{0}');
         select sched.create_schedule('s', 'at 2001-01-01', 'again'); select sched.fire_now('s')",
    )
    .unwrap();
    for _ in 0..3 {
        let mut runner = cluster.connect();
        let lease = runner.query_one("select execution_id::text, lease_token::text from sched.claim()", &[]).unwrap();
        let (id, token): (String, String) = (lease.get(0), lease.get(1));
        assert_eq!(claimed(&cluster), "");
        db.batch_execute(&format!("select sched.finish_failure('{id}', '{token}')")).unwrap();
    }
    db.batch_execute("select sched.dispatch_due()").unwrap();
    assert_eq!([claimed(&cluster), claimed(&cluster)], ["again", ""]);

    // Rows that a superuser writes, and says so.
    db.batch_execute(&at(2040)).unwrap();
    db.batch_execute("update sched.ledger set plan_time = '1999-01-01' where plan_time = '2040-01-01'").unwrap();
    db.batch_execute(&format!("{}; select sched.rebuild()", ready_planned_at("1999-01-01"))).unwrap();
    assert_eq!([year(&cluster), year(&cluster)], [1999, 0]);
}

/// Sessions add and take at random, roll back, or prepare; what is left at the end is found at once, and in order.
#[test]
fn nothing_is_left_behind() {
    let cluster = quiet();
    let mut db = cluster.connect();
    for priority in 0..5 {
        db.batch_execute(&format!("select sched.define_job('p{priority}', priority => {priority})")).unwrap();
    }
    db.batch_execute(
        "create function one_step(session int) returns void language plpgsql as $$
         declare dice double precision := random();
         begin
             if dice < 0.5 then
                 perform sched.enqueue_many('p' || floor(random() * 5), array_fill('1'::jsonb, array[ceil(random() * 9)::int]));
             elsif dice < 0.7 then
                 perform sched.enqueue_many('p' || floor(random() * 5), '{1}', array[timestamptz '2026-01-01' + random() * interval '1 year'],
                                            'global', array[gen_random_uuid()::text]);
             else
                 perform sched.claim('default', ceil(random() * 60)::int);
             end if;
             if random() < 0.2 then
                 perform pg_sleep(random() * 0.01);
             end if;
         end $$",
    )
    .unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    thread::scope(|scope| {
        for session in 0..6 {
            let mut db: Client = cluster.connect();
            scope.spawn(move || {
                let mut step = 0;
                while Instant::now() < end {
                    step += 1;
                    let last = match step % 10 {
                        0 => "rollback".to_owned(),
                        5 if session < 4 => format!("prepare transaction 's{session}'; rollback prepared 's{session}'"),
                        7 if session < 4 => format!("prepare transaction 's{session}'; commit prepared 's{session}'"),
                        _ => "commit".to_owned(),
                    };
                    let begin = format!("begin; select one_step({session}); select one_step({session})");
                    for statement in begin.split("; ").chain(last.split("; ")) {
                        db.batch_execute(statement).unwrap();
                    }
                }
            });
        }
    });
    let left: i64 = one(&mut db, &count_of(READY));
    db.batch_execute("create temp table drained (n bigint generated always as identity, priority int, plan_time timestamptz, id uuid)").unwrap();
    loop {
        let some = "insert into drained (priority, plan_time, id)
                    select e.priority, e.plan_time, e.id from sched.claim('default', 50) c join sched.ledger e on e.id = c.execution_id
                     order by e.priority desc, e.plan_time, e.id";
        if db.execute(some, &[]).unwrap() == 0 {
            break;
        }
    }
    assert_eq!((one::<i64>(&mut db, "select count(*) from drained"), one::<i64>(&mut db, &count_of(READY))), (left, 0));
    let swapped = "select count(*) from drained a join drained b on b.n = a.n + 1
                    where (-a.priority, a.plan_time, a.id) > (-b.priority, b.plan_time, b.id)";
    assert_eq!(one::<i64>(&mut db, swapped), 0);
    cluster.check_indexes();
}

/// The end of a run that its schedule waits for writes a change. Those that were applied are passed over once.
#[test]
fn an_old_transaction_makes_no_look_for_changes_longer() {
    let cluster = Cluster::builder().row_by_row().start();
    let mut db = cluster.with_extension("postgres");
    let mut old = cluster.connect();
    old.batch_execute("begin isolation level repeatable read; create temp table mine (); select 1").unwrap();
    db.batch_execute(
        "select sched.define_job('ends', 'sql', 'select 1');
         select sched.create_schedule('ends ' || i, 'every 1 ms after end', 'ends', scope_id => i::text) from generate_series(1, 4) as i",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 1000 from sched.history where job_name = 'ends'", SOON);
    db.batch_execute("select sched.pause(schedule_name) from sched.schedules").unwrap();
    wait_for(&mut db, "select pg_stat_get_tuples_returned('sched.schedule_change_pkey'::regclass) > 0", SOON);
    let entries: i64 = one(&mut db, "select pg_stat_get_tuples_returned('sched.schedule_change_pkey'::regclass)");
    let ends: i64 = one(&mut db, "select count(*) from sched.history where job_name = 'ends'");
    println!("{entries} entries in {ends} ends");
    assert!(entries < 50 * ends, "{entries} entries were read in {ends} ends");
    old.batch_execute("rollback").unwrap();
}
