//! Many sessions at once: each plan is dispatched once, each execution claimed once, and nobody waits for anybody's open transaction.

use scheduler_cluster_tests::scheduler::{backlog, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Runs `body` in as many sessions, all at the same moment; what each returned.
fn sessions<T: Send>(cluster: &Cluster, count: usize, body: impl Fn(&mut Client) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(count);
    // Connected before that: who failed to would leave the others waiting.
    let clients: Vec<Client> = (0..count).map(|_| impatient(cluster)).collect();
    let (start, body) = (&start, &body);
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                scope.spawn(move || {
                    start.wait();
                    body(&mut client)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A session that fails rather than waits for the end of somebody's transaction, whatever it is that keeps a busy machine.
fn impatient(cluster: &Cluster) -> Client {
    let mut client = cluster.connect();
    client.batch_execute("set lock_timeout = '20s'; set statement_timeout = '600s'").unwrap();
    client
}

fn nothing_left() -> String {
    format!("select not exists (select from sched.schedule_change) and not exists (select from {TIMER} t where fire_at <= now())")
}

#[test]
fn eight_sessions_and_the_worker_dispatch_each_plan_once() {
    each_plan_once(10_000);
}

#[test]
#[ignore = "a minute, and more on a busy machine"]
fn long_eight_sessions_and_the_worker_dispatch_each_of_100_000_plans_once() {
    each_plan_once(100_000);
}

fn each_plan_once(schedules: i64) {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.execute(
        "select sched.create_schedules(jsonb_agg(jsonb_build_object(
                    'schedule_name', 's' || i, 'clock', 'every 1 week from 2020-01-01 00:00+00', 'job_name', 'job')))
           from generate_series(1, $1::bigint) as i",
        &[&schedules],
    )
    .unwrap();
    // Due since a while ago: one missed plan each.
    db.batch_execute("update sched.schedule set baseline_at = date_bin('7 days', now(), '2020-01-01 00:00+00') - interval '1 second'")
        .unwrap();
    assert_eq!(one::<i64>(&mut db, &count_of(READY)), 0, "nobody has dispatched yet");
    cluster.set("sched.enabled", "on");
    let dispatched: i64 = sessions(&cluster, 8, |client| {
        let mut total = 0;
        loop {
            let some: i64 = one(client, "select sched.dispatch_due(250)");
            total += some;
            if some == 0 && one(client, &nothing_left()) {
                return total;
            }
        }
    })
    .into_iter()
    .sum();
    let row = db
        .query_one(
            &format!(
                "select count(*), count(distinct schedule_name), count(distinct plan_time),
                    (select count(*) from {TIMER} t where next_plan_time <= now() or last_plan_time is null)
               from sched.execution"
            ),
            &[],
        )
        .unwrap();
    println!("{dispatched} by the sessions, {} by the worker", schedules - dispatched);
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (schedules, schedules));
    assert_eq!(row.get::<_, i64>(2), 1, "all of the same week");
    assert_eq!(row.get::<_, i64>(3), 0, "every timer has moved on");
    assert!(dispatched <= schedules, "more was reported than there is: {dispatched}");
}

#[test]
fn sixteen_sessions_claim_each_execution_once_and_never_more_than_asked() {
    const EXECUTIONS: i64 = 2000;
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job', queue => 'work')").unwrap();
    backlog(&mut db, "job", EXECUTIONS);
    let batches: Vec<Vec<(String, i64)>> = sessions(&cluster, 16, |client| {
        let mut batches = Vec::new();
        loop {
            let rows = client
                .query("select execution_id::text, fence from sched.claim('work', max_claims => 7)", &[])
                .unwrap();
            if rows.is_empty() && one(client, &none(READY)) {
                return batches;
            }
            batches.push(rows.iter().map(|row| (row.get(0), row.get(1))).collect());
        }
    })
    .into_iter()
    .flatten()
    .collect();
    let largest = batches.iter().map(Vec::len).max();
    assert_eq!(largest, Some(7), "claimed in one call");
    let all: Vec<_> = batches.into_iter().flatten().collect();
    let ids: HashSet<_> = all.iter().map(|(id, _)| id).collect();
    let fences: HashSet<_> = all.iter().map(|(_, fence)| fence).collect();
    let expected = usize::try_from(EXECUTIONS).unwrap();
    assert_eq!((all.len(), ids.len(), fences.len()), (expected, expected, expected), "claims, executions, fences");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where status = 'RUNNING'"), EXECUTIONS);
}

const TRY: &str = "select outcome from sched.try_claim('job', '2026-01-01 00:00+00')";

fn count(outcomes: &[(String, Duration)], wanted: &str) -> usize {
    outcomes.iter().filter(|(outcome, _)| outcome == wanted).count()
}

fn timed_try(client: &mut Client) -> (String, Duration) {
    let started = Instant::now();
    (one(client, TRY), started.elapsed())
}

#[test]
fn of_32_sessions_that_want_one_key_one_wins() {
    let cluster = Cluster::new();
    let _db = cluster.with_extension("postgres");
    let outcomes = sessions(&cluster, 32, timed_try);
    assert_eq!((count(&outcomes, "won"), count(&outcomes, "conflicted")), (1, 31), "{outcomes:?}");
}

#[test]
fn a_claim_never_waits_for_another_claimers_open_transaction() {
    // Room for sessions that have not noticed yet that they are over.
    let cluster = Cluster::builder().set("max_connections", "200").start();
    let mut db = cluster.with_extension("postgres");
    let mut holder = impatient(&cluster);
    let conflicted = |what: &str| {
        // The holder's transaction is open all the while: whoever waited for it would run into the lock_timeout.
        let outcomes = sessions(&cluster, 32, timed_try);
        assert_eq!(count(&outcomes, "conflicted"), 32, "{what}: {outcomes:?}");
        println!("{what}: slowest answer {:?}", outcomes.iter().map(|(_, took)| *took).max().unwrap_or_default());
    };
    // A key that nobody has heard of yet.
    holder.batch_execute("begin").unwrap();
    assert_eq!(one::<String>(&mut holder, TRY), "won");
    conflicted("new key");
    holder.batch_execute("rollback").unwrap();

    // The holder gave up: the next one wins, and lets it go stale.
    let stale = TRY.replace("+00'", "+00', max_attempts => 2, stale_timeout => '1 second'");
    holder.batch_execute("begin").unwrap();
    assert_eq!(one::<String>(&mut holder, &stale), "won");
    conflicted("new key, second holder");
    holder.batch_execute("commit").unwrap();
    wait_for(&mut db, &format!("select count(*) = 1 from {READY} r"), SOON);

    // A run that may be tried again.
    holder.batch_execute("begin").unwrap();
    assert_eq!(one::<String>(&mut holder, TRY), "stole");
    conflicted("known key");
    // So does the queue's claim, and the rest of the queue is there.
    assert_eq!(one::<i64>(&mut impatient(&cluster), "select count(*) from sched.claim('default', 10)"), 0);
    holder.batch_execute("commit").unwrap();
    conflicted("committed");
}

#[test]
fn a_run_that_an_open_transaction_awaits_keeps_no_dispatcher_waiting() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role app; select sched.grant_use('app'); select sched.define_job('job');
         select sched.create_schedule('others', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    for (name, prepared) in [("open", false), ("prepared", true)] {
        // It rests while the other transaction comes to stand, which would otherwise fire it now and then, and keep it.
        db.batch_execute("select sched.pause('others')").unwrap();
        wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
        let mut app = impatient(&cluster);
        app.batch_execute(&format!(
            "set role app; select sched.define_job('{name}', queue => '{name}', max_attempts => 1);
             select sched.create_schedule('{name}', 'every 1 second', '{name}')"
        ))
        .unwrap();
        wait_for(&mut db, &format!("select count(*) > 0 from {READY} r where queue = '{name}'"), SOON);
        let claimed = app.query_one(
            "select execution_id::text, lease_token::text from sched.claim($1, 1, stale_timeout => '1 hour')",
            &[&name],
        );
        let (id, token): (String, String) = claimed.map(|row| (row.get(0), row.get(1))).unwrap();
        // The schedule cares about its runs from now on: the row of this one in the ledger is locked, and not its lease.
        wait_until("the run to be awaited", SOON, || {
            app.batch_execute(&format!(
                "begin; set local role app; select sched.alter_schedule('{name}', overlap => 'skip'), sched.dispatch_due()"
            ))
            .unwrap();
            app.batch_execute("reset role").unwrap();
            let awaited: bool = one(&mut app, &format!("select awaited from sched.ledger where id = '{id}'"));
            if !awaited {
                app.batch_execute("rollback").unwrap();
            }
            awaited.then_some(())
        });
        if prepared {
            app.batch_execute("prepare transaction 'awaits'").unwrap();
        }
        // It goes stale, and the sweep looks at it and passes on.
        one::<String>(&mut db, &format!("select sched.heartbeat('{id}', '{token}', stale_timeout => '1 millisecond')"));
        let passed = format!("select sweep_at > stale_after from {LEASE} l where execution_id = '{id}'");
        wait_for(&mut db, &passed, SOON);
        db.batch_execute("set lock_timeout = '20s'").unwrap();
        assert_eq!(one::<i64>(&mut db, "select sched.mark_stale_as_failed()"), 0);
        if prepared {
            cluster.restart(Shutdown::Fast);
            db = cluster.connect();
            app = cluster.connect();
        }
        db.batch_execute("select sched.resume('others')").unwrap();
        let since: String = one(&mut db, "select clock_timestamp()::text");
        let others = format!(
            "select count(*) > 20 from sched.execution where schedule_name = 'others' and created_at > '{since}'"
        );
        wait_for(&mut db, &others, SOON);
        assert_eq!(one::<String>(&mut db, &format!("select status from sched.execution where id = '{id}'")), "RUNNING");
        // It ends when the transaction does.
        app.batch_execute(if prepared { "commit prepared 'awaits'" } else { "commit" }).unwrap();
        wait_for(&mut db, &format!("select status = 'FAILED' from sched.execution where id = '{id}'"), SOON);
        wait_for(&mut db, &format!("select not exists (select from sched.awaited where execution_id = '{id}')"), SOON);
    }
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
}
