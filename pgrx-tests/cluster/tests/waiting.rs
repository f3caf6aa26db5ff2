//! What waits for a time or for a scope, under a running server: on time and never early, through crashes, forgotten with its history; and of what
//! two sessions say of one scope nothing is lost.

use postgres::fallible_iterator::FallibleIterator as _;
use scheduler_cluster_tests::scheduler::{heard, mostly_within, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Whoever listens hears of each when its time has come, claims it then, and not before.
#[test]
fn a_delayed_execution_is_heard_of_and_claimed_at_its_time() {
    const EXECUTIONS: i64 = 30;
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let mut listener = cluster.connect();
    listener.batch_execute("listen \"sched:later\"").unwrap();
    db.batch_execute("select sched.define_job('later', queue => 'later')").unwrap();
    db.execute(
        "select sched.enqueue_many('later', array(select to_jsonb(i) from generate_series(1, $1::bigint) i),
                run_ats => array(select clock_timestamp() + make_interval(secs => 0.5 + i * 0.1) from generate_series(1, $1::bigint) i))",
        &[&EXECUTIONS],
    )
    .unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim('later', 100)"), 0);
    let mut late = Vec::new();
    while late.len() < usize::try_from(EXECUTIONS).unwrap() {
        {
            let mut notifications = listener.notifications();
            notifications.timeout_iter(SOON).next().unwrap().expect("to hear of it");
        }
        db.batch_execute("select sched.claim('later', 100)").unwrap();
        let claimed =
            "select extract(epoch from started_at - run_at)::float8 from sched.execution where status = 'RUNNING'";
        late = db.query(claimed, &[]).unwrap().iter().map(|row| row.get::<_, f64>(0)).collect();
    }
    assert!(late.iter().all(|late| *late >= 0.0), "claimed early: {late:?}");
    let took: Vec<Duration> = late.iter().map(|late| Duration::from_secs_f64(*late)).collect();
    mostly_within(Duration::from_millis(100), &took);
}

/// The dispatcher looks again in a quarter of a second at what somebody has in hand; what comes due meanwhile does not wait for that.
#[test]
fn what_others_have_in_hand_delays_nothing_else() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('later', queue => 'later')").unwrap();
    let at = |millis: u32| {
        format!("select sched.enqueue('later', run_at => clock_timestamp() + interval '{millis} milliseconds')::text")
    };
    let held: String = one(&mut db, &at(2000));
    let mut other = cluster.connect();
    other.batch_execute("begin").unwrap();
    let lock = format!("select from {DELAYED} d where execution_id = '{held}' for update");
    assert_eq!(other.query(&lock, &[]).unwrap().len(), 1, "it was locked before its time");
    wait_for(&mut db, &format!("select run_at < clock_timestamp() from sched.execution where id = '{held}'"), SOON);
    let mut late: Vec<Duration> = (0..20)
        .map(|_| {
            // The enqueue wakes the dispatcher, which looks at both.
            let id: String = one(&mut db, &at(20));
            wait_for(&mut db, &format!("select exists (select from {READY} r where execution_id = '{id}')"), SOON);
            let late = format!(
                "select extract(epoch from clock_timestamp() - run_at)::float8 from sched.execution where id = '{id}'"
            );
            Duration::from_secs_f64(one(&mut db, &late))
        })
        .collect();
    late.sort();
    assert!(late[late.len() / 2] < Duration::from_millis(150), "{late:?}");
    other.batch_execute("commit").unwrap();
    wait_for(&mut db, &none(DELAYED), SOON);
}

/// Jobs of kind notify and log are told then, by the dispatcher.
#[test]
fn what_is_delivered_is_delivered_at_its_time() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let mut listener = cluster.connect();
    listener.batch_execute("listen news").unwrap();
    db.batch_execute(
        "select sched.define_job('tells', 'notify', 'news'), sched.define_job('logs', 'log');
         select sched.enqueue('tells', '\"now\"'), sched.enqueue('tells', '\"later\"', run_at => clock_timestamp() + interval '500 milliseconds'),
                sched.enqueue('logs', '\"a line\"', run_at => clock_timestamp() + interval '700 milliseconds')",
    )
    .unwrap();
    let mut hear = || {
        let mut notifications = listener.notifications();
        let said = notifications.timeout_iter(SOON).next().unwrap().expect("to hear of it").payload().to_owned();
        said
    };
    assert_eq!(hear(), "\"now\"");
    assert_eq!(hear(), "\"later\"");
    wait_until("the line", SOON, || cluster.logged("\"a line\"").first().cloned());
    let early: bool = one(&mut db, "select bool_or(started_at < run_at) from sched.execution where run_at is not null");
    assert!(!early);
    wait_for(
        &mut db,
        "select count(*) = 3 and bool_and(status = 'SUCCESS' and attempt = 1) from sched.execution",
        SOON,
    );
}

/// A crash and a restart lose none, and make none come early.
#[test]
fn what_waits_survives_crashes() {
    let cluster = Cluster::builder().durable().start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('kept', queue => 'kept'), sched.define_job('told', 'notify', 'news');
         select sched.enqueue('kept', '1', scope_id => 'one', unique_by => 'scope', run_at => clock_timestamp() + interval '4 seconds'),
                sched.enqueue('told', '2', run_at => clock_timestamp() + interval '4 seconds'),
                sched.enqueue('kept', '3', run_at => clock_timestamp() + interval '1 year')",
    )
    .unwrap();
    drop(db);
    cluster.crash();
    cluster.start();
    cluster.restart(Shutdown::Fast);
    let mut db = cluster.connect();
    let claim = "select count(*) from sched.claim('kept', 10)";
    wait_until("the execution", SOON, || (one::<i64>(&mut db, claim) == 1).then_some(()));
    wait_for(&mut db, "select bool_and(status = 'SUCCESS') from sched.execution where job_name = 'told'", SOON);
    let row = db
        .query_one(
            "select count(*) filter (where status = 'PENDING'), bool_and(started_at >= run_at), (select count(*) from sched.unique_scope) from sched.execution",
            &[],
        )
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1), row.get::<_, i64>(2)), (1, true, 1));
}

/// The scope's row goes with the execution that it names.
#[test]
fn scopes_are_forgotten_with_their_history() {
    let cluster = Cluster::builder().set("sched.history_retention", "1s").set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('forgotten', queue => 'q')").unwrap();
    let enqueue =
        |scope: &str| format!("select sched.enqueue('forgotten', scope_id => '{scope}', unique_by => 'scope')");
    let mut holder = cluster.connect();
    db.batch_execute(&[enqueue("a"), enqueue("b")].join(";")).unwrap();
    db.batch_execute("select sched.finish_success(execution_id, lease_token) from sched.claim('q', 10)").unwrap();
    // Who enqueues there just now has the row in hand, and what it names stays as long.
    holder.batch_execute(&format!("begin; {}", enqueue("b"))).unwrap();
    wait_for(&mut db, "select count(*) = 0 from sched.execution where scope_id = 'a'", SOON);
    wait_for(&mut db, "select count(*) = 1 from sched.unique_scope", SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where scope_id = 'b'"), 1);
    holder.batch_execute("commit").unwrap();
    wait_for(&mut db, "select array_agg(status) = '{PENDING}' from sched.execution where scope_id = 'b'", SOON);
    wait_for(&mut db, "select bool_and(execution_id = (select id from sched.execution)) from sched.unique_scope", SOON);
}

/// What somebody kept in hand for a while, without changing it, is heard of again: who looked meanwhile was told that there is nothing.
#[test]
fn what_was_passed_over_is_heard_of() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let mut listener = cluster.connect();
    listener.batch_execute("listen \"sched:q\"").unwrap();
    db.batch_execute("select sched.define_job('kept', queue => 'q')").unwrap();
    let enqueue = |more: &str| format!("select sched.enqueue('kept', scope_id => 'a', unique_by => 'scope'{more})");
    for (more, heard_before) in [("", 1), (", run_at => clock_timestamp() + interval '300 milliseconds'", 0)] {
        db.batch_execute(&enqueue(more)).unwrap();
        db.batch_execute("begin").unwrap();
        db.batch_execute(&enqueue("")).unwrap();
        let mut worker = cluster.connect();
        wait_for(
            &mut worker,
            "select bool_and(run_at < clock_timestamp()) is not false from sched.execution where status = 'PENDING'",
            SOON,
        );
        assert_eq!(one::<i64>(&mut worker, "select count(*) from sched.claim('q')"), 0);
        assert_eq!(heard(&mut listener, &mut worker, "sched:q"), heard_before);
        db.batch_execute("commit").unwrap();
        let mut notifications = listener.notifications();
        assert_eq!(notifications.timeout_iter(SOON).next().unwrap().expect("to hear of it").payload(), "");
        drop(notifications);
        assert_eq!(one::<i64>(&mut worker, "select count(*) from sched.claim('q')"), 1);
    }
}

/// Has others end when this goes, also where a test fails.
struct Over<'s>(&'s AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Debouncing: writers raise a counter and enqueue by scope in one transaction, runners read the counter. Whatever they do at the same time, the
/// last value is seen, by few runs.
fn debounce(if_exists: &str, fast: bool) {
    const WRITERS: usize = 4;
    const ROUNDS: i64 = 60;
    let mut builder = Cluster::builder();
    if !fast {
        builder = builder.set("sched.fast_path", "off");
    }
    let cluster = builder.start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table counter (n bigint); insert into counter values (0); create table seen (n bigint);
         select sched.define_job('sum', queue => 'sums')",
    )
    .unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&stop);
        let runners: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, stop) = (cluster.connect(), &stop);
                scope.spawn(move || loop {
                    let over = stop.load(Ordering::Relaxed);
                    let leases = client.query("select execution_id::text, lease_token::text from sched.claim('sums', 3)", &[]).unwrap();
                    for row in &leases {
                        let (id, token): (String, String) = (row.get(0), row.get(1));
                        client.batch_execute(&format!("begin; insert into seen select n from counter; select sched.finish_success('{id}', '{token}'); commit")).unwrap();
                    }
                    if leases.is_empty() && over {
                        return;
                    }
                })
            })
            .collect();
        let mut writers: Vec<Client> = (0..WRITERS).map(|_| cluster.connect()).collect();
        for round in 0..ROUNDS {
            thread::scope(|scope| {
                for (number, client) in writers.iter_mut().enumerate() {
                    scope.spawn(move || {
                        // One by one, and together with another scope.
                        let enqueue = if round % 2 == 0 {
                            format!("select sched.enqueue('sum', scope_id => 'all', unique_by => 'scope', if_exists => '{if_exists}')")
                        } else {
                            format!("select sched.enqueue_many('sum', '{{1,2}}', scope_ids => '{{all,w{number}}}', unique_by => 'scope', if_exists => '{if_exists}')")
                        };
                        // Time for a claim between the two.
                        let work = "select count(*) from generate_series(1, 10000)";
                        let raise = "update counter set n = n + 1";
                        client.batch_execute(&format!("begin; {enqueue}; {work}; {raise}; commit")).unwrap();
                    });
                }
            });
            // Nobody enqueues any more: what was raised last is seen.
            wait_for(&mut db, "select (select max(n) from seen) = (select n from counter)", SOON);
        }
        drop(over);
        runners.into_iter().for_each(|runner| runner.join().unwrap());
    });
    let raised = i64::try_from(WRITERS).unwrap() * ROUNDS;
    let row = db
        .query_one(
            &format!("select (select n from counter), (select max(n) from seen), (select count(*) from {PENDING} w)"),
            &[],
        )
        .unwrap();
    let said: [i64; 3] = std::array::from_fn(|column| row.get(column));
    assert_eq!(said, [raised, raised, 0], "{if_exists}");
    cluster.was_quiet(&["ERROR"]);
}

#[test]
fn the_last_change_is_seen_where_what_waits_is_kept() {
    debounce("keep", true);
}

#[test]
fn the_last_change_is_seen_where_what_waits_is_replaced() {
    debounce("replace", true);
}

#[test]
fn the_last_change_is_seen_by_statements() {
    debounce("keep", false);
}

/// What another transaction has said of a scope is waited for, and no longer than for that scope.
#[test]
fn nobody_waits_for_more_than_his_scope() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let enqueue = |scopes: &str| {
        format!("select sched.enqueue_many('held', array_fill('1'::jsonb, array[cardinality('{scopes}'::text[])]), scope_ids => '{scopes}', unique_by => 'scope')::text")
    };
    let mut holder = cluster.connect();
    holder.batch_execute("begin").unwrap();
    let held: String = one(&mut holder, &enqueue("{a}"));
    db.batch_execute("set lock_timeout = '20s'").unwrap();
    db.query(&enqueue("{b,c}"), &[]).unwrap();
    let waits = thread::scope(|scope| {
        let mut client: Client = cluster.connect();
        let (query, waits) = (enqueue("{a,b}"), "select count(*) = 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%enqueue_many%' and pid <> pg_backend_pid()");
        let waiter = scope.spawn(move || {
            client.query(&query, &[]).unwrap().iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
        });
        wait_for(&mut db, waits, SOON);
        holder.batch_execute("commit").unwrap();
        waiter.join().unwrap()
    });
    assert_eq!(waits[0], held, "what was made meanwhile is the same");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution"), 3);
}
