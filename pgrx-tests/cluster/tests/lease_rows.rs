//! Claims and ends go to the rows without a plan: what happens to the tables, and between sessions, must not be noticed.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::collections::HashSet;
use std::thread;

/// No worker that would end stale runs first.
fn quiet() -> Cluster {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create extension scheduler");
    cluster
}

/// Everything that goes row by row, once; all that is left are three runs that have ended.
fn life(db: &mut Client) {
    db.batch_execute(
        &format!("{NO_EXECUTIONS};
         create temp table if not exists held (execution_id uuid, lease_token uuid); truncate held;
         insert into held select execution_id, lease_token from sched.try_claim('life', '2026-01-01', stale_timeout => '1 microsecond');
         select outcome from sched.try_claim('life', '2026-01-01', max_attempts => 3);
         select sched.enqueue_many('life', '{{1,2}}');
         truncate held; insert into held select execution_id, lease_token from {LEASE} l;
         insert into held select execution_id, lease_token from sched.claim(max_claims => 2);
         select sched.heartbeat(execution_id, lease_token, progress => '1') from held"),
    )
    .unwrap();
}

fn end_of_life(db: &mut Client) {
    let lost = "select count(*) from sched.finish_success_many(
                    (select array_agg(execution_id order by ctid) from held where ctid > '(0,1)'),
                    (select array_agg(lease_token order by ctid) from held where ctid > '(0,1)'))";
    assert_eq!(one::<i64>(db, lost), 0);
    db.batch_execute("select sched.finish_success(execution_id, lease_token) from held where ctid = '(0,1)'").unwrap();
    let ended = "select count(*) from sched.execution where status = 'SUCCESS' and progress = '1'";
    assert_eq!(one::<i64>(db, ended), 3);
}

/// A backend that has used the tables goes on when they are written anew, and when the extension is another one.
#[test]
fn tables_may_be_rewritten_between_two_calls() {
    let cluster = quiet();
    let (mut db, mut admin) = (cluster.connect(), cluster.connect());
    life(&mut db);
    end_of_life(&mut db);
    for rewrite in [
        &format!("vacuum full sched.ledger; vacuum full {LEASE_TABLE}; vacuum full {READY_TABLE}; vacuum full sched.job"),
        &format!("cluster sched.ledger using ledger_key; cluster {LEASE_TABLE} using {LEASE_INDEX}; cluster {READY_TABLE} using {READY_INDEX}"),
        &format!("reindex table concurrently sched.ledger; reindex table concurrently {LEASE_TABLE}; reindex table concurrently {READY_TABLE}"),
        &format!("alter table sched.ledger set (fillfactor = 90); alter table {LEASE_TABLE} alter runner_id set storage external"),
        &format!("create index on sched.ledger (status); create index on {LEASE_TABLE} (heartbeat_at)"),
        "drop extension scheduler; create extension scheduler",
    ] {
        life(&mut db);
        // Each in a transaction of its own, as VACUUM wants it.
        for statement in rewrite.split("; ") {
            if statement.starts_with("drop") {
                end_of_life(&mut db);
            }
            admin.batch_execute(statement).unwrap();
        }
        if rewrite.starts_with("drop") {
            life(&mut db);
        }
        end_of_life(&mut db);
    }
    assert!(cluster.logged("leak").is_empty(), "{:#?}", cluster.logged("leak"));
}

/// Names that this session knows are looked up again when they name something else, also by its own doing, and when that is undone.
#[test]
fn an_extension_may_come_and_go_within_a_transaction() {
    let cluster = quiet();
    let mut db = cluster.connect();
    life(&mut db);
    end_of_life(&mut db);
    db.batch_execute("begin").unwrap();
    for _ in 0..2 {
        db.batch_execute("savepoint s; drop extension scheduler; create extension scheduler").unwrap();
        life(&mut db);
        db.batch_execute("rollback to s").unwrap();
        let rows = "select count(*) from sched.execution where status = 'SUCCESS'";
        assert_eq!(one::<i64>(&mut db, rows), 3);
    }
    life(&mut db);
    db.batch_execute("rollback").unwrap();
    life(&mut db);
    end_of_life(&mut db);
    db.batch_execute("begin; alter schema sched rename to moved").unwrap();
    let error = db.batch_execute("select moved.try_claim('life', '2026-02-01')").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INVALID_SCHEMA_NAME), "{error}");
    db.batch_execute("rollback").unwrap();
    life(&mut db);
    end_of_life(&mut db);
}

/// What a lease had stored beside its row goes with the lease; the ledger has a copy.
#[test]
fn a_large_progress_outlives_its_lease() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute(
        "create table held as select execution_id, lease_token from sched.try_claim('large', '2026-01-01');
         create table noise as select to_jsonb(string_agg(md5(random()::text), '')) as value from generate_series(1, 3200);
         select sched.heartbeat(execution_id, lease_token, progress => value) from held, noise;
         select sched.heartbeat(execution_id, lease_token) from held;
         select sched.finish_success(execution_id, lease_token) from held",
    )
    .unwrap();
    db.batch_execute(&format!("vacuum full {LEASE_TABLE}")).unwrap();
    let kept = "select progress = value and length(value::text) > 100000 from sched.execution, noise";
    assert!(one::<bool>(&mut db, kept));
}

/// Of two sessions that end the same runs in opposite orders, one ends them and one hears that it lost them.
#[test]
fn ends_in_opposite_orders_are_no_deadlock() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute(
        "select sched.enqueue('circle') from generate_series(1, 3);
         create table held as select execution_id as id, lease_token as token from sched.claim(max_claims => 3)",
    )
    .unwrap();
    let mut blocker = cluster.connect();
    let mut open = blocker.transaction().unwrap();
    // Both have one end of the list, or wait for it, when they come to the middle.
    open.batch_execute(
        "select sched.assert_lease(id, token) from (select * from held order by id offset 1 limit 1) as middle",
    )
    .unwrap();
    let finish = |order: &'static str| {
        let mut db = cluster.connect();
        thread::spawn(move || {
            let query = format!(
                "select count(*) from sched.finish_success_many((select array_agg(id order by id {order}) from held),
                                                                (select array_agg(token order by id {order}) from held))"
            );
            db.query_one(&query, &[]).map(|row| row.get::<_, i64>(0)).map_err(|error| error.to_string())
        })
    };
    let (up, down) = (finish("asc"), finish("desc"));
    wait_for(&mut db, "select count(*) = 2 from pg_locks where not granted", SOON);
    open.rollback().unwrap();
    let mut lost = [up.join().unwrap(), down.join().unwrap()];
    lost.sort();
    assert_eq!(lost, [Ok(0), Ok(3)]);
}

/// Whoever is first without having committed yet is not waited for, whichever function it used.
#[test]
fn a_claim_does_not_wait_for_an_enqueue() {
    let cluster = quiet();
    let (mut db, mut other) = (cluster.connect(), cluster.connect());
    let mut open = other.transaction().unwrap();
    open.batch_execute("select sched.enqueue_many('k', '{1}', '{2026-01-01}', 'global', '{global}')").unwrap();
    db.batch_execute("set statement_timeout = '30 s'").unwrap();
    assert_eq!(one::<String>(&mut db, "select outcome from sched.try_claim('k', '2026-01-01')"), "conflicted");
    open.rollback().unwrap();
    assert_eq!(one::<String>(&mut db, "select outcome from sched.try_claim('k', '2026-01-01')"), "won");
}

/// A claim that fails half-way, again and again in one transaction, leaves nothing open and nothing behind.
#[test]
fn failures_inside_a_transaction_leave_nothing_open() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute(
        &format!("alter table {LEASE_TABLE} add constraint odd check (attempt > 0 and runner_id <> 'even');
         select sched.enqueue_many('fail', array_fill('1'::jsonb, '{{10}}'));
         do $$ begin
             for i in 1..200 loop
                 begin
                     if i % 3 = 0 then
                         perform sched.claim(max_claims => 4, runner_id => case when i % 2 = 0 then 'even' else 'odd' end);
                     else
                         perform sched.try_claim('fail', '2026-01-01', 'i', (i / 2)::text, case when i % 2 = 0 then 'even' else 'odd' end);
                     end if;
                 exception when check_violation then null;
                 end;
             end loop;
         end $$"),
    )
    .unwrap();
    let row = db
        .query_one(
            &format!("select (select count(*) from sched.ledger e where scope_kind = 'i'
                        and not exists (select from {LEASE} l where l.execution_id = e.id)),
                    (select count(*) from {LEASE} l where runner_id = 'even'),
                    (select count(*) from {READY} r), (select count(*) from {LEASE} l join sched.ledger e on e.id = l.execution_id
                        where scope_kind = 'adhoc')"),
            &[],
        )
        .unwrap();
    let counts: Vec<i64> = (0..4).map(|column| row.get(column)).collect();
    assert_eq!(counts, [0, 0, 0, 10], "ledger without lease, refused, still ready, claimed from the queue");
    assert!(cluster.logged("leak").is_empty(), "{:#?}", cluster.logged("leak"));
}

/// Postgres refuses to change a row that a publication has and that nothing tells from others: a publication has every row.
#[test]
fn a_publication_of_all_tables_stops_nothing() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute("create publication everything for all tables").unwrap();
    let unknown = "select count(*) from pg_class c
                    where relnamespace = 'sched'::regnamespace and relkind = 'r' and relname <> 'monitor' and relreplident = 'd'
                      and not exists (select from pg_index where indrelid = c.oid and indisprimary)";
    assert_eq!(one::<i64>(&mut db, unknown), 0);
    life(&mut db);
    end_of_life(&mut db);
    db.batch_execute(
        "select sched.cancel(sched.enqueue('life')); select sched.define_job('life');
         select sched.create_schedule('s', 'every 1 hour', 'life', overlap => 'skip'); select sched.fire_now('s');
         select sched.dispatch_due(), sched.pause('s'), sched.dispatch_due(), sched.rebuild(); select sched.drop_schedule('s', true);
         select sched.dispatch_due(), sched.drop_job('life'); update sched.home set database = 1; select sched.adopt()",
    )
    .unwrap();
}

/// Eight sessions empty a queue, each at its own isolation level: every execution goes to one of them.
#[test]
fn sessions_of_all_levels_share_a_queue() {
    let cluster = quiet();
    let mut db = cluster.connect();
    db.batch_execute("select sched.enqueue_many('shared', array_fill('1'::jsonb, '{5000}'))").unwrap();
    let all: Vec<Vec<String>> = thread::scope(|scope| {
        let sessions: Vec<_> = (0..8)
            .map(|number| {
                let mut db = cluster.connect();
                scope.spawn(move || {
                    let level = ["read committed", "repeatable read", "serializable"][number % 3];
                    db.batch_execute(&format!("set default_transaction_isolation = '{level}'")).unwrap();
                    let mut mine = Vec::new();
                    let query = "with c as (select execution_id, lease_token from sched.claim(max_claims => 20))
                                 select array_agg(execution_id::text), (select count(*) from sched.finish_success_many(
                                     (select array_agg(execution_id) from c), (select array_agg(lease_token) from c)))
                                   from c having count(*) > 0";
                    loop {
                        match db.query_opt(query, &[]) {
                            Ok(Some(row)) => {
                                assert_eq!(row.get::<_, i64>(1), 0);
                                mine.extend(row.get::<_, Vec<String>>(0));
                            }
                            Ok(None) => return mine,
                            Err(error) => assert_eq!(error.code().map(|code| code.code()), Some("40001"), "{error}"),
                        }
                    }
                })
            })
            .collect();
        sessions.into_iter().map(|session| session.join().unwrap()).collect()
    });
    let distinct: HashSet<&String> = all.iter().flatten().collect();
    assert_eq!((all.iter().map(Vec::len).sum::<usize>(), distinct.len()), (5000, 5000));
    let ended = "select count(*) from sched.execution where status = 'SUCCESS' and attempt = 1";
    assert_eq!(one::<i64>(&mut db, ended), 5000);
}

/// What a session remembers of a job is what is committed, whoever changed it and however.
#[test]
fn a_job_is_remembered_until_somebody_changes_it() {
    let cluster = Cluster::builder().set("sched.enabled", "off").set("max_prepared_transactions", "1").start();
    let mut admin = cluster.connect();
    admin.batch_execute("create extension scheduler; create role app; create role other").unwrap();
    admin.batch_execute("select sched.grant_use('app'), sched.grant_use('other')").unwrap();
    let mut app = cluster.connect();
    app.batch_execute("set role app").unwrap();
    let mut plans = 0..;
    // By the attempts that its job gives a claim; 1 where there is none.
    let mut attempts = |app: &mut Client| {
        let plan = plans.next().unwrap();
        let claim = format!(
            "select max_attempts from sched.try_claim('job', '2026-01-01'::timestamptz + {plan} * interval '1 hour')"
        );
        app.query_one(&claim, &[]).map(|row| row.get::<_, i32>(0))
    };
    assert_eq!(attempts(&mut app).unwrap(), 1);
    let define =
        |attempts: i32| format!("set role app; select sched.define_job('job', max_attempts => {attempts}); reset role");
    let changes = [
        (define(2), 2),
        (define(3), 3),
        ("update sched.job set max_attempts = 4".to_owned(), 4),
        ("set session_replication_role = replica; update sched.job set max_attempts = 5; reset session_replication_role".to_owned(), 5),
        (format!("begin; {}; savepoint a; {}; rollback to a; commit", define(6), define(7)), 6),
        (format!("begin; {}; rollback", define(7)), 6),
        (format!("begin; {}; prepare transaction 'p'", define(8)), 6),
        ("commit prepared 'p'".to_owned(), 8),
        ("delete from sched.job".to_owned(), 1),
        (define(9), 9),
        ("create temp table kept as select * from sched.job; alter table kept drop ready_queue, drop own_transactions, drop settings; truncate sched.job".to_owned(), 1),
        ("insert into sched.job select * from kept".to_owned(), 9),
        ("alter table sched.job disable trigger job_changed".to_owned(), 9),
        ("update sched.job set max_attempts = 10".to_owned(), 10),
        ("update sched.job set max_attempts = 11".to_owned(), 11),
        ("alter table sched.job enable always trigger job_changed".to_owned(), 11),
        (define(12), 12),
        ("set role app; select sched.drop_job('job'); reset role".to_owned(), 1),
        (define(13), 13),
    ];
    for (change, expected) in &changes {
        // Twice: read, and remembered. And once more within one transaction.
        for within in [false, true] {
            attempts(&mut app).unwrap();
            if within {
                app.batch_execute("begin").unwrap();
                attempts(&mut app).unwrap();
            } else {
                admin.batch_execute(change).unwrap_or_else(|error| panic!("{change}: {error:?}"));
            }
            assert_eq!(attempts(&mut app).unwrap(), *expected, "{change}");
        }
        app.batch_execute("commit").unwrap();
    }
    // A transaction that goes on hears of it as well, but for what others have not committed.
    app.batch_execute("begin").unwrap();
    assert_eq!(attempts(&mut app).unwrap(), 13);
    admin.batch_execute(&define(14)).unwrap();
    assert_eq!(attempts(&mut app).unwrap(), 14);
    // What it says itself is so until it takes it back.
    app.batch_execute("savepoint a; select sched.define_job('job', max_attempts => 15)").unwrap();
    assert_eq!(attempts(&mut app).unwrap(), 15);
    app.batch_execute("rollback to a").unwrap();
    assert_eq!(attempts(&mut app).unwrap(), 14);
    app.batch_execute("select sched.define_job('job', max_attempts => 16)").unwrap();
    assert_eq!(attempts(&mut app).unwrap(), 16);
    app.batch_execute("rollback").unwrap();
    assert_eq!(attempts(&mut app).unwrap(), 14);
    // Whose it is, too.
    admin.batch_execute("select sched.drop_job('job'); set role other; select sched.define_job('job')").unwrap();
    let refused = attempts(&mut app).expect_err("another role's job");
    assert_eq!(refused.code().map(|code| code.code()), Some("42501"));
    // As many names as a session likes cost it no memory to speak of, and none of them is wrong.
    let names = "select count(*) from generate_series(1, 300) as i, sched.try_claim('name ' || i % 100, i * interval '1 hour' + '2026-01-01'::timestamptz)";
    assert_eq!(one::<i64>(&mut app, names), 300);
}

/// What logical replication brings calls no trigger of a statement.
#[test]
fn what_a_subscription_brings_is_heard_of() {
    let cluster = Cluster::builder().set("wal_level", "logical").set("sched.enabled", "off").start();
    for name in ["source", "target"] {
        cluster.execute(&format!("create database {name}"));
    }
    let mut source = cluster.connect_as("postgres", "source");
    let mut target = cluster.connect_as("postgres", "target");
    for db in [&mut source, &mut target] {
        db.batch_execute("create extension scheduler").unwrap();
    }
    source.batch_execute("select sched.define_job('job', max_attempts => 2)").unwrap();
    source.batch_execute("create publication jobs for table sched.job").unwrap();
    // By hand, since to create it from the same server waits for itself.
    source.batch_execute("select pg_create_logical_replication_slot('jobs', 'pgoutput')").unwrap();
    let port: String = one(&mut source, "show port");
    let sockets: String = one(&mut source, "show unix_socket_directories");
    target
        .batch_execute(&format!(
            "create subscription jobs connection 'host={sockets} port={port} user=postgres dbname=source' publication jobs
               with (create_slot = false, slot_name = 'jobs', copy_data = true)"
        ))
        .unwrap();
    wait_for(&mut target, "select count(*) = 1 from sched.job", SOON);
    let attempts = |target: &mut Client, plan: i32| {
        one::<i32>(
            target,
            &format!(
                "select max_attempts from sched.try_claim('job', '2026-01-01'::timestamptz + {plan} * interval '1 h')"
            ),
        )
    };
    assert_eq!((attempts(&mut target, 1), attempts(&mut target, 2)), (2, 2));
    source.batch_execute("select sched.define_job('job', max_attempts => 7)").unwrap();
    let mut other = cluster.connect_as("postgres", "target");
    wait_for(&mut other, "select max_attempts = 7 from sched.job", SOON);
    assert_eq!(attempts(&mut target, 3), 7);
    // So is that the database has become a copy.
    source.batch_execute("alter publication jobs add table sched.home").unwrap();
    target.batch_execute("alter subscription jobs refresh publication with (copy_data = false)").unwrap();
    source.batch_execute("insert into sched.home select * from sched.home").unwrap();
    wait_for(&mut other, "select not sched.is_home()", SOON);
    let refused = target.batch_execute("select sched.try_claim('job', '2026-01-01')").expect_err("a copy");
    assert_eq!(refused.code().map(|code| code.code()), Some("55000"));
    target
        .batch_execute(
            "alter subscription jobs disable; alter subscription jobs set (slot_name = none); drop subscription jobs",
        )
        .unwrap();
}

/// Who waits for a row keeps no page of an index from VACUUM: no deadlock with that is ever detected.
#[test]
fn a_batch_that_waits_for_a_row_lets_vacuum_pass() {
    let cluster = quiet();
    let mut holder = cluster.connect();
    holder
        .batch_execute(
            "select sched.enqueue_many('job', array_fill('1'::jsonb, array[40]));
             create table held as select row_number() over () as n, * from sched.claim('default', 40)",
        )
        .unwrap();
    let finish = |which: &str| {
        format!(
            "select count(*) from sched.finish_success_many((select array_agg(execution_id) from held where {which}),
                                                           (select array_agg(lease_token) from held where {which}))"
        )
    };
    // Entries for it to remove.
    assert_eq!(one::<i64>(&mut holder, &finish("n > 20")), 0);
    holder.batch_execute("begin; select sched.heartbeat(execution_id, lease_token) from held where n = 4").unwrap();
    let mut waiter = cluster.connect();
    let pid: i32 = one(&mut waiter, "select pg_backend_pid()");
    let batch = finish("n <= 20");
    let waiting = thread::spawn(move || one::<i64>(&mut waiter, &batch));
    let mut db = cluster.connect();
    let waits = format!("select wait_event_type = 'Lock' from pg_stat_activity where pid = {pid}");
    wait_for(&mut db, &waits, SOON);
    db.batch_execute("set statement_timeout = '40s'").unwrap();
    for table in [LEASE_TABLE, "sched.ledger"] {
        db.batch_execute(&format!("vacuum (truncate off) {table}")).unwrap();
    }
    assert!(one::<bool>(&mut db, &waits));
    holder.batch_execute("commit").unwrap();
    assert_eq!(waiting.join().unwrap(), 0);
}
