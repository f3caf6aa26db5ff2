//! Streaming standbys: what can be asked of one, and what happens when it takes over.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{launcher, mostly_within, one, whole_grid, BACK, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Builder, Client, Cluster, Shutdown};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn settings() -> Builder {
    Cluster::builder().set("wal_log_hints", "on").set("wal_keep_size", "256MB").set("sched.tick_interval", "1s")
}

/// Waits until the standby has replayed all that the primary has written so far.
fn caught_up(primary: &mut Client, standby: &mut Client) {
    let written: String = one(primary, "select pg_current_wal_lsn()::text");
    wait_for(standby, &format!("select pg_last_wal_replay_lsn() >= '{written}'"), SOON);
}

/// Functions that only read: with what to call them on a standby.
const READS: [&str; 35] = [
    "now()",
    "router_sql('cluster')",
    "bucket('kind', 'id')",
    "buckets()",
    "compare('pg_cron', '2026-01-01', '2026-01-02')",
    "next_time('@daily')",
    "preview('@daily', n => 2)",
    "validate('5/15 * * * *')",
    "latest_plan('job', 'adhoc', 'running')",
    "due_plans('job', '@daily', catch_up => 'every_plan')",
    "attempts_since_success('job', 'adhoc', 'retry')",
    "is_home()",
    "health()",
    "healthy()",
    "metrics()",
    "openmetrics()",
    "recent()",
    // They lock nothing before they have found a schedule.
    "take_over('pg_cron')",
    "hand_back('{}')",
    "report()",
    "timeline('s')",
    "explain('s', now() - interval '1 day', now() + interval '2 days')",
    "skipped_so_far()",
    "skip_parts('@daily', 'UTC', now(), null, null, null, '2026-01-01', '2026-01-03', 3, '{2026-01-02}', null)",
    "next_open('s')",
    "ids_of_scope('job', 'adhoc', 'running', null, null)",
    "ids_of_schedule('s', null, null)",
    "executions_of('job', 'adhoc', 'running')",
    "runs_of('s', now() - interval '1 day')",
    "scope_key('a', 'b', 'c')",
    "table_layout()",
    "grantee('app'::regrole)",
    "command_statements('select 1')",
    "this_run()",
    "test_job('reads')",
];

/// Functions that write: so that there is something to write. A word in braces is an id and a token.
const WRITES: [&str; 60] = [
    "drop_elsewhere()",
    "set_buckets()",
    "define_job('new')",
    "create_sql_job('new', '@daily', 'select 1', 'UTC', 10, true)",
    "alter_sql_job('reads', 'select 1')",
    "alter_job('idle', priority => 1)",
    "drop_job('idle')",
    "create_schedule('new', '@daily', 'job')",
    "create_schedules('[{\"schedule_name\": \"new\", \"clock\": \"@daily\", \"job_name\": \"job\"}]')",
    "alter_schedule('s', payload => '[]')",
    "drop_schedule('s')",
    "pause('s')",
    "resume('paused')",
    "fire_now('s')",
    "backfill('s', '2026-01-01', '2026-01-02')",
    "import_crontab('@daily true')",
    "import_from('pg_cron')",
    "report_fire('s', '2026-01-01')",
    "dispatch_due()",
    "try_claim('job', '2026-01-01')",
    "try_claim('job', '2026-01-01', 'adhoc', 'pending')",
    "try_claim('job', '2026-01-01', 'adhoc', 'stale')",
    "claim('q')",
    "claim('nothing in it')",
    "enqueue('job')",
    "enqueue_many('job', '{1, 2}')",
    "enqueue('job', run_at => '2100-01-01')",
    "enqueue('job', scope_id => 'one', unique_by => 'scope')",
    "alter_execution({pending}, '1')",
    "cancel_many('job')",
    "heartbeat({running})",
    "heartbeat_many({arrays})",
    "finish_success({running})",
    "finish_failure({running})",
    "finish_success_many({arrays})",
    "snooze({running}, '2030-01-01')",
    "assert_lease({running})",
    "cancel({pending})",
    "cancel({id})",
    "acknowledge(1, now())",
    "pause_queue('q')",
    "resume_queue('q')",
    "mark_stale_as_failed()",
    "schedule_sql('written', 'never', 'select 1')",
    "unschedule('written')",
    "adopt()",
    "rebuild()",
    "grant_again()",
    "grant_pg_monitor()",
    "grant_database_owner()",
    "grant_enqueue('job', 'app')",
    "prune()",
    "alter_many('job', priority => 1)",
    "declare_schedules('group', '[]')",
    "test_mode()",
    "grant_use('app')",
    "grant_monitor('app')",
    "grant_queue('q', 'app')",
    "grant_worker('app')",
    "revoke_all('app')",
];

/// Of a database in test mode: refused in this one before anything is written.
const OF_TESTS: [&str; 3] = ["advance", "drain_sql", "reset"];

/// Called by the extension's own statements only.
const INTERNAL: [&str; 8] = [
    "guard_taken_over",
    "request_dispatcher",
    "schedule_before_update",
    "schedule_changed",
    "table_changed",
    "table_is_new",
    "uuid_v7",
    "wake_dispatcher",
];

#[test]
fn a_standby_answers_questions_and_writes_nothing() {
    let primary = settings().set("sched.enabled", "off").start();
    primary.execute("create role app login; create role ops login");
    let mut db = primary.with_extension("postgres");
    db.batch_execute(
        "create schema cron; create table cron.job (jobid bigint, schedule text, command text, nodename text, nodeport int, database text, username text)",
    )
    .unwrap();
    db.batch_execute(
        "select sched.grant_use('app'), sched.grant_monitor('ops');
         select sched.define_job('job', queue => 'q', max_attempts => 3, retry_backoff => '{1 hour}'), sched.define_job('idle'),
                sched.define_job('reads', 'sql', 'select count(*) from pg_class');
         select sched.create_schedule('s', '@daily', 'job'), sched.create_schedule('paused', '@daily', 'job', enabled => false);
         select sched.dispatch_due();
         insert into sched.alert (kind, schedule_id, schedule_name, owner, since, message, opened_at)
         select 'late', schedule_id, schedule_name, 'postgres', now(), 'late', now() from sched.schedule where schedule_name = 's';
         select sched.enqueue('job', '{}', '2026-01-01', 'adhoc', 'pending');
         select sched.try_claim('job', '2026-01-01', 'adhoc', 'running');
         select sched.try_claim('job', '2026-01-01', 'adhoc', 'stale', stale_timeout => '1 microsecond');
         select sched.finish_failure(execution_id, lease_token) from sched.try_claim('job', '2026-01-01', 'adhoc', 'retry')",
    )
    .unwrap();
    let running: String =
        one(&mut db, "select format('%L, %L', id, lease_token) from sched.execution where scope_id = 'running'");
    let (id, token) = running.split_once(", ").unwrap();
    let pending: String = one(&mut db, "select quote_literal(id) from sched.execution where scope_id = 'pending'");
    let fill = |call: &str| {
        call.replace("{running}", &running)
            .replace("{arrays}", &format!("array[{id}]::uuid[], array[{token}]::uuid[]"))
            .replace("{id}", id)
            .replace("{pending}", &pending)
    };

    let standby = settings().start_standby_of(&primary);
    let mut copy = standby.connect();
    assert_eq!(launcher(&mut copy), None);
    stays("the workers of a standby", Duration::from_secs(1), || launcher(&mut copy));
    assert!(standby.logged("scheduler:").is_empty());

    let internal = "select proname::text from pg_proc where pronamespace = 'sched_internal'::regnamespace";
    let internal: Vec<String> = db.query(internal, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let name = |call: &str| call.split('(').next().unwrap().to_owned();
    let schema = |call: &str| if internal.contains(&name(call)) { "sched_internal" } else { "sched" };
    for call in READS {
        for client in [&mut db, &mut copy] {
            client.batch_execute("begin").unwrap();
            client
                .batch_execute(&format!("select * from {}.{call}", schema(call)))
                .unwrap_or_else(|error| panic!("{call}: {error:?}"));
            let written: Option<String> = one(client, "select pg_current_xact_id_if_assigned()::text");
            assert_eq!(written, None, "{call} has taken a transaction id");
            let locks: i64 = one(
                client,
                "select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'relation'
                                            and mode <> 'AccessShareLock' and relation::regclass::text like 'sched.%'",
            );
            assert_eq!(locks, 0, "{call} has locked a table for writing");
            client.batch_execute("commit").unwrap();
        }
    }
    for role in ["postgres", "app", "ops"] {
        let (mut there, mut here) = (primary.connect_as(role, "postgres"), standby.connect_as(role, "postgres"));
        for view in ["execution", "running", "failed", "history", "schedules", "alerts"] {
            let query = format!("select coalesce(string_agg(to_jsonb(v)::text, ' ' order by to_jsonb(v) ->> 'id', to_jsonb(v) ->> 'schedule_name'), '')
                                   from (select (to_jsonb(v) - 'age' - 'time_to_stale') as v from sched.{view} v) x");
            assert_eq!(one::<String>(&mut there, &query), one::<String>(&mut here, &query), "{role}: {view}");
        }
    }
    assert_eq!(one::<String>(&mut copy, "select status from sched.latest_plan('job', 'adhoc', 'running')"), "RUNNING");
    assert!(one::<bool>(&mut copy, "select sched.is_home()"));

    for call in WRITES {
        let statement = format!("select * from {}.{}", schema(call), fill(call));
        let error = copy.batch_execute(&statement).expect_err(&statement);
        assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION), "{statement}: {error:?}");
        // On the primary there is something to write.
        db.batch_execute(&format!("begin; {statement}; rollback"))
            .unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    let mut known: Vec<String> =
        READS.iter().chain(&WRITES).chain(&OF_TESTS).chain(&INTERNAL).map(|call| name(call)).collect();
    known.sort_unstable();
    known.dedup();
    let all = "select distinct proname::text collate \"C\" from pg_proc where pronamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) order by 1";
    let all: Vec<String> = db.query(all, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(all, known, "each function reads, writes, or is internal");
}

/// A runner: claims, and finishes in the transaction that writes the effect, on whichever server takes writes. Every tenth claim is
/// forgotten, as by a process that died.
fn run(folder: &Mutex<std::path::PathBuf>, stop: &AtomicBool, done: &AtomicUsize) {
    let mut config = postgres::Config::new();
    config.user("postgres").dbname("postgres").connect_timeout(Duration::from_secs(2));
    let mut turn = 0_u32;
    while !stop.load(Ordering::SeqCst) {
        let socket = folder.lock().unwrap().clone();
        let Ok(mut db) = config.clone().host_path(socket).connect(postgres::NoTls) else {
            // Until its server is another one, or there again.
            stays("this loop", Duration::from_millis(10), || ());
            continue;
        };
        let claim =
            "select execution_id::text, lease_token::text from sched.claim('q', 3, stale_timeout => '1 second')";
        // Until the server goes, or is found to be a standby.
        while let (false, Ok(rows)) = (stop.load(Ordering::SeqCst), db.query(claim, &[])) {
            for row in &rows {
                turn += 1;
                let (id, token): (String, String) = (row.get(0), row.get(1));
                let work = format!(
                    "begin; insert into effect values ('{id}'); select sched.finish_success('{id}', '{token}'); commit"
                );
                if !turn.is_multiple_of(10) && db.batch_execute(&work).is_ok() {
                    done.fetch_add(1, Ordering::SeqCst);
                }
            }
            if rows.is_empty() {
                let _ = db.batch_execute("select pg_sleep(0.05)");
            }
        }
    }
}

const PERIOD: &str = "200 milliseconds";

/// Two servers that take turns: the primary stops or crashes, its standby takes over, and the old one follows it again.
fn promotions(rounds: usize) {
    let mut primary = settings().start();
    let mut db = primary.with_extension("postgres");
    db.batch_execute(
        "create table effect (execution_id uuid primary key);
         select sched.define_job('job', queue => 'q', max_attempts => 100, retry_backoff => '{}');
         select sched.create_schedule('s', 'every 200 milliseconds', 'job', catch_up => 'every_plan', max_plans_per_tick => 5)",
    )
    .unwrap();
    for n in 1..=10 {
        let clock = format!("every {} milliseconds", 100 + 30 * n);
        db.execute("select sched.create_schedule($1, $2, 'job')", &[&format!("load {n}"), &clock]).unwrap();
    }
    let mut standby = settings().start_standby_of(&primary);
    let folder = Arc::new(Mutex::new(primary.folder().to_owned()));
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let runners: Vec<_> = (0..2)
        .map(|_| {
            let (folder, stop, done) = (Arc::clone(&folder), Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || run(&folder, &stop, &done))
        })
        .collect();

    let mut times = Vec::new();
    for round in 1..=rounds {
        let before = done.load(Ordering::SeqCst);
        wait_until("the runners to finish something", SOON, || {
            (done.load(Ordering::SeqCst) > before + 10).then_some(())
        });
        // Every other time without a chance to ship the rest.
        if round % 2 == 0 {
            primary.crash();
        } else {
            primary.stop(Shutdown::Fast);
        }
        let mut db = standby.connect();
        let history = "select coalesce(string_agg(format('%s %s %s', id, plan_time, case when status in ('SUCCESS', 'CANCELLED') then status end), ',' order by id), '') from sched.execution";
        wait_until("the standby to have replayed what it got", SOON, || {
            one::<Option<bool>>(&mut db, "select pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn()")
                .and_then(|all| all.then_some(()))
        });
        let shipped: String = one(&mut db, history);
        let effects: i64 = one(&mut db, "select count(*) from effect");

        standby.promote();
        let started = Instant::now();
        let promoted: String = one(&mut db, "select clock_timestamp()::text");
        wait_for(
            &mut db,
            &format!(
                "select exists (select from sched.execution where schedule_name = 's' and created_at > '{promoted}')"
            ),
            SOON,
        );
        let took = started.elapsed();
        times.push(took);
        *folder.lock().unwrap() = standby.folder().to_owned();

        // What had been shipped is as it was.
        let ids = shipped.split(',').count();
        let kept: String = one(&mut db, history);
        let kept: std::collections::HashSet<&str> = kept.split(',').collect();
        for row in shipped.split(',').filter(|row| row.ends_with("SUCCESS")) {
            assert!(kept.contains(row), "after promotion {round} this is gone: {row}");
        }
        assert!(one::<i64>(&mut db, "select count(*) from effect") >= effects);
        let plans = whole_grid(&mut db, "s", PERIOD);
        // Leases that nobody holds any more, those of the old primary too, end.
        wait_for(&mut db, &format!("select not exists (select from {LEASE} l where started_at < '{promoted}')"), SOON);
        println!("promotion {round}: dispatching after {took:?}; {plans} plans, {ids} executions shipped");

        primary.rejoin(&standby);
        (primary, standby) = (standby, primary);
        let mut behind = standby.connect();
        caught_up(&mut db, &mut behind);
        assert_eq!(launcher(&mut behind), None, "a server that was the primary runs no worker once it follows");
    }
    stop.store(true, Ordering::SeqCst);
    for runner in runners {
        runner.join().unwrap();
    }
    let mut db = primary.connect();
    let twice = "select count(*) from sched.execution e full join effect f on f.execution_id = e.id
                  where (e.status is distinct from 'SUCCESS') <> (f.execution_id is null)";
    assert_eq!(one::<i64>(&mut db, twice), 0, "a finish and its effect stand or fall together");
    wait_for(&mut db, &none(LEASE), SOON);
    println!(
        "{rounds} promotions, the slowest until a plan was dispatched: {:?}; {} runs finished",
        times.iter().max(),
        done.load(Ordering::SeqCst)
    );
    mostly_within(BACK, &times);
}

#[test]
fn a_promoted_standby_goes_on_where_the_primary_stopped() {
    promotions(3);
}

#[test]
#[ignore = "minutes"]
fn long_twenty_promotions_in_a_row() {
    promotions(20);
}

/// A runner whose connection moves to the new primary still has its lease.
#[test]
fn a_lease_survives_a_failover() {
    let primary = settings().start();
    let mut db = primary.with_extension("postgres");
    let claim = "select execution_id::text, lease_token::text, fence from sched.try_claim('job', '2026-01-01', stale_timeout => '1 hour')";
    let row = db.query_one(claim, &[]).unwrap();
    let (id, token, fence): (String, String, i64) = (row.get(0), row.get(1), row.get(2));
    let standby = settings().start_standby_of(&primary);
    caught_up(&mut db, &mut standby.connect());
    primary.crash();
    standby.promote();
    let mut db = standby.connect();
    assert_eq!(one::<String>(&mut db, &format!("select sched.heartbeat('{id}', '{token}')")), "ok");
    let later: i64 = one(&mut db, "select fence from sched.try_claim('job', '2026-01-02')");
    assert!(later > fence, "fence {later} was given after {fence}");
    db.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).unwrap();
}
