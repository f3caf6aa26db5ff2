//! Every setting takes effect on SIGHUP, in a server that runs. (`sched.databases` and `sched.enabled` in full: `worker.rs`;
//! `sched.log_ticks`: `logs.rs`.)

use scheduler_cluster_tests::scheduler::{asleep_since, heard, one, rest, served, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

const FIRING: &str =
    "select sched.define_job('job'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')";

#[test]
fn every_setting_that_there_is_has_a_test_here_or_there() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    let names: Vec<String> = db
        .query("select name from pg_settings where name like 'sched.%' and context = 'sighup' order by 1", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(
        names,
        [
            "sched.batch_size",
            "sched.cancel_grace",
            "sched.databases",
            "sched.enabled",
            "sched.fast_path",
            "sched.history_retention",
            "sched.log_ticks",
            "sched.max_sql_runners",
            "sched.max_sql_runners_per_role",
            "sched.misfire_grace",
            "sched.notify",
            "sched.runner_idle",
            "sched.stale_timeout",
            "sched.tick_interval",
            "sched.time_zone",
        ]
    );
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from pg_settings where name like 'sched.%'"),
        18,
        "with sched.worker_role, which needs a restart: worker_role.rs; sched.dispatch, a database's: dispatch_setting.rs; and sched.undefined_jobs, a session's: everyday.rs"
    );
}

#[test]
fn enabled_stops_a_dispatcher_that_never_comes_to_rest_within_a_tick() {
    let cluster = Cluster::builder().set("sched.batch_size", "1").start();
    let mut db = cluster.with_extension("postgres");
    // One schedule a transaction, and each is due again before all have had their turn.
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.batch_execute(
        "select sched.create_schedule('s ' || i, 'every 10 milliseconds', 'job') from generate_series(1, 200) as i",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 200 from sched.execution", SOON);
    let switching = Instant::now();
    switch_off(&cluster, &mut db);
    let took = switching.elapsed();
    assert!(took < SOON, "switched off after {took:?}");
    stays("the ledger", Duration::from_secs(1), || one::<i64>(&mut db, "select count(*) from sched.execution"));
    cluster.set("sched.enabled", "on");
    let before: i64 = one(&mut db, "select count(*) from sched.execution");
    wait_for(&mut db, &format!("select count(*) > {before} from sched.execution"), SOON);
    // So does a database that is no longer to be served.
    cluster.set("sched.databases", "none");
    wait_until("the dispatcher to leave", SOON, || served(&mut db).is_empty().then_some(()));
}

#[test]
fn tick_interval_is_the_longest_sleep_from_now_on() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    // At 60 s it stays asleep.
    stays("the dispatcher's sleep", Duration::from_secs(1), || asleep_since(&mut db));
    cluster.set("sched.tick_interval", "50ms");
    for _ in 0..3 {
        let since = wait_until("the dispatcher to sleep", SOON, || asleep_since(&mut db));
        wait_until("it to wake by itself", SOON, || asleep_since(&mut db).filter(|now| *now != since));
    }
    cluster.set("sched.tick_interval", "60s");
    // What it does now may still go by the old setting.
    wait_for(
        &mut db,
        "select case when query like 'asleep until %'
                     then substr(query, length('asleep until '))::timestamptz > clock_timestamp() + interval '30 seconds' end
           from pg_stat_activity where backend_type = 'scheduler dispatcher'",
        SOON,
    );
    rest(&mut db);
    stays("the dispatcher's sleep", Duration::from_secs(1), || asleep_since(&mut db));
}

#[test]
fn batch_size_is_how_many_one_transaction_dispatches() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    for (size, transactions) in [(7, 10), (70, 1)] {
        cluster.set("sched.batch_size", &size.to_string());
        wait_for(&mut db, &format!("select current_setting('sched.batch_size') = '{size}'"), SOON);
        rest(&mut db);
        // Due together by the same plan time, so that only the setting divides them; and all of them armed before that.
        let mut attempt = 0;
        let name = loop {
            attempt += 1;
            let name = format!("'{size} {attempt} %'");
            let at: String = one(&mut db, &format!("select (clock_timestamp() + interval '{attempt} seconds')::text"));
            db.batch_execute(&format!(
                "select sched.create_schedule('{size} {attempt} ' || i, 'at {at}', 'job') from generate_series(1, 70) as i"
            ))
            .unwrap();
            let armed = format!(
                "select count(*) = 70, clock_timestamp() > '{at}' from sched.schedules
                  where schedule_name like {name} and state = 'armed' and next_plan_time = '{at}'"
            );
            let in_time = wait_until("all to be armed, or it to be too late", SOON, || {
                let row = db.query_one(&armed, &[]).unwrap();
                let (all, over): (bool, bool) = (row.get(0), row.get(1));
                (all || over).then_some(all && !over)
            });
            if in_time {
                break name;
            }
        };
        wait_for(&mut db, &format!("select count(*) = 70 from sched.execution where schedule_name like {name}"), SOON);
        let seen: i64 = one(
            &mut db,
            &format!("select count(distinct xmin::text) from sched.ledger where schedule_name like {name}"),
        );
        // A batch is inserted in a subtransaction of its own, which has an id of its own.
        assert_eq!(seen, transactions, "with sched.batch_size = {size}");
    }
}

#[test]
fn time_zone_is_that_of_schedules_that_name_none() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    for zone in ["UTC", "Asia/Tokyo", "America/Lima"] {
        cluster.set("sched.time_zone", zone);
        wait_for(&mut db, &format!("select current_setting('sched.time_zone') = '{zone}'"), SOON);
        db.batch_execute(&format!("select sched.create_schedule('{zone}', '0 12 * * *', 'job')")).unwrap();
        let noon = format!(
            "select (next_plan_time at time zone '{zone}')::time = '12:00' from sched.schedules where schedule_name = '{zone}'"
        );
        wait_for(&mut db, &noon, SOON);
    }
    // An administrator may write a POSIX text, which nobody else may: three hours ahead of UTC.
    cluster.set("sched.time_zone", "<+03>-3");
    wait_for(&mut db, "select current_setting('sched.time_zone') = '<+03>-3'", SOON);
    db.batch_execute("select sched.create_schedule('posix', '0 12 * * *', 'job')").unwrap();
    let noon =
        "select (next_plan_time at time zone 'UTC')::time = '09:00' from sched.schedules where schedule_name = 'posix'";
    wait_for(&mut db, noon, SOON);
    assert_eq!(one::<String>(&mut db, "select code from sched.validate('@daily')"), "posix_offset");
    db.batch_execute("select sched.create_schedule('other', '0 12 * * *', 'job', '<+04>-4')").unwrap_err();
}

/// Which way a call went shows in what its transaction has locked. A statement reads a job anew that a session remembers, and its
/// FOR UPDATE is a lock of its own.
#[test]
fn fast_path_is_whether_leases_and_fires_go_to_the_rows() {
    let cluster = Cluster::builder().row_by_row().start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create function public.halt() returns boolean language plpgsql
             as 'begin perform pg_advisory_xact_lock_shared(1); return true; end';
         alter table sched.ledger add constraint halt check (public.halt());
         select sched.try_claim('claimed', '2025-12-31')",
    )
    .unwrap();
    db.batch_execute(FIRING).unwrap();
    let mut runner = cluster.connect();
    let locked = |db: &mut Client, pid: i32, table: &str, mode: &str| -> bool {
        let lock = format!("pid = {pid} and relation = '{table}'::regclass and mode = '{mode}'");
        one(db, &format!("select exists (select from pg_locks where {lock})"))
    };
    let pid: i32 = one(&mut runner, "select pg_backend_pid()");
    for (day, setting) in [(1, "on"), (2, "off"), (3, "on")] {
        cluster.set("sched.fast_path", setting);
        wait_for(&mut runner, &format!("select current_setting('sched.fast_path') = '{setting}'"), SOON);
        let claim = |n: i32| format!("select sched.try_claim('claimed', '2026-01-0{day} 0{n}:00')");
        // What a session asks once.
        runner.batch_execute(&claim(1)).unwrap();
        runner.batch_execute(&format!("begin; {}", claim(2))).unwrap();
        assert_eq!(locked(&mut db, pid, "sched.job", "AccessShareLock"), setting == "off", "a claim with {setting}");
        runner.batch_execute("rollback").unwrap();
        dispatched(&mut db);
        runner.batch_execute("begin; select pg_advisory_xact_lock(1)").unwrap();
        let halted =
            "select pid from pg_stat_activity where backend_type = 'scheduler dispatcher' and wait_event = 'advisory'";
        let dispatcher = wait_until("the dispatcher to fire", SOON, || {
            db.query_opt(halted, &[]).unwrap().map(|row| row.get::<_, i32>(0))
        });
        let by_statement = locked(&mut db, dispatcher, TIMER_TABLE, "RowShareLock");
        assert_eq!(by_statement, setting == "off", "a fire with {setting}");
        runner.batch_execute("commit").unwrap();
    }
}

/// Dispatched from now on, three times: whoever did this has read the settings.
fn dispatched(db: &mut Client) {
    let now: String = one(db, "select clock_timestamp()::text");
    wait_for(db, &format!("select count(*) >= 3 from sched.execution where plan_time > '{now}'"), SOON);
}

#[test]
fn stale_timeout_is_the_lease_of_claims_that_name_none() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    for (setting, seconds) in [("5min", 300), ("7s", 7)] {
        cluster.set("sched.stale_timeout", setting);
        wait_for(&mut db, &format!("select current_setting('sched.stale_timeout') = '{setting}'"), SOON);
        db.batch_execute(&format!("select sched.try_claim('{setting}', '2026-01-01 00:00+00')")).unwrap();
        let lease = format!(
            "select extract(epoch from stale_after - started_at)::bigint from sched.execution where job_name = '{setting}'"
        );
        assert_eq!(one::<i64>(&mut db, &lease), seconds);
    }
}

#[test]
fn misfire_grace_is_how_late_a_skip_missed_plan_may_run() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    // The dispatcher is kept from a plan for more than a second; whether that one runs is up to the setting it wakes with.
    for (setting, runs) in [("0", false), ("60s", true)] {
        cluster.set("sched.misfire_grace", setting);
        rest(&mut db);
        let mut holder = cluster.connect();
        // Held before its time, or it is another one's turn.
        let mut attempt = 0;
        let (name, at) = loop {
            attempt += 1;
            let name = format!("s {setting} {attempt}");
            let at: String = one(&mut db, &format!("select (clock_timestamp() + interval '{attempt} seconds')::text"));
            db.batch_execute(&format!(
                "select sched.create_schedule('{name}', 'at {at}', 'job', catch_up => 'skip_missed')"
            ))
            .unwrap();
            wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
            holder.batch_execute(&format!("begin; lock table {TIMER_TABLE} in access exclusive mode")).unwrap();
            if one(&mut holder, &format!("select clock_timestamp() < '{at}'")) {
                break (name, at);
            }
            holder.batch_execute("rollback").unwrap();
        };
        let passed = format!("select clock_timestamp() > timestamptz '{at}' + interval '1500 milliseconds'");
        wait_for(&mut db, &passed, SOON);
        holder.batch_execute("commit").unwrap();
        wait_for(&mut db, &format!("select state = 'done' from sched.schedules where schedule_name = '{name}'"), SOON);
        let count: i64 = one(&mut db, &format!("select count(*) from sched.execution where schedule_name = '{name}'"));
        assert_eq!(count == 1, runs, "with sched.misfire_grace = {setting}");
    }
}

/// A dispatcher rests for up to an hour between two walks through history, but not once less of it is to stay.
#[test]
fn a_lowered_history_retention_holds_at_once() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'), sched.enqueue_many('job', '{1,2,3}');
         select sched.finish_success(execution_id, lease_token) from sched.claim('default', 3);
         update sched.ledger set id = ('01700000-0000-7000-8000-' || lpad(payload::text, 12, '0'))::uuid, finished_at = finished_at - interval '10 days'",
    )
    .unwrap();
    rest(&mut db);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger"), 3);
    cluster.set("sched.history_retention", "1d");
    wait_for(&mut db, "select count(*) = 0 from sched.ledger", SOON);
}

#[test]
fn history_retention_is_how_long_ended_executions_stay() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job', kind => 'log'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')")
        .unwrap();
    wait_for(&mut db, "select count(*) > 20 from sched.execution", SOON);
    db.batch_execute("select sched.pause('s')").unwrap();
    rest(&mut db);
    let all: i64 = one(&mut db, "select count(*) from sched.execution");
    stays("the ledger", Duration::from_secs(1), || one::<i64>(&mut db, "select count(*) from sched.execution"));
    assert!(all > 20);
    cluster.set("sched.history_retention", "1s");
    // All but the newest of the job and scope.
    wait_for(&mut db, "select count(*) = 1 from sched.execution", SOON);

    // What has gone is not offered again by due_plans; and nobody else's newer plan takes somebody's newest away.
    let finish = "select sched.finish_success(execution_id, lease_token) from sched.try_claim";
    db.batch_execute(&format!(
        "create role one; create role two; select sched.grant_use('one'), sched.grant_use('two');
         set role one; {finish}('tick', '2000-01-01 00:00+00'); {finish}('tick', '2000-03-01'); {finish}('tick', '2000-01-01 00:00+00', 'shared');
         set role two; {finish}('tick', '2000-04-01', 'shared'); reset role"
    ))
    .unwrap();
    wait_for(&mut db, "select count(*) = 3 from sched.ledger where job_name = 'tick'", SOON);
    // The next walk has been here, too.
    db.batch_execute(&format!("{finish}('tick', '2001-01-01', 'later'); {finish}('tick', '2001-01-02', 'later')"))
        .unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.ledger where scope_kind = 'later'", SOON);
    let offered = |scope| {
        format!("select count(*) from sched.due_plans('tick', 'every 36500 days from 2000-01-01 00:00+00', '{scope}')")
    };
    db.batch_execute("set role one").unwrap();
    assert_eq!(one::<i64>(&mut db, &offered("global")), 0);
    assert_eq!(one::<i64>(&mut db, &offered("shared")), 0);
}

#[test]
fn notify_is_whether_queues_hear_of_new_work() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(FIRING).unwrap();
    let mut listener = cluster.connect();
    listener.batch_execute("listen \"sched:default\"").unwrap();
    dispatched(&mut db);
    assert!(heard(&mut listener, &mut db, "sched:default") >= 3);
    cluster.set("sched.notify", "off");
    dispatched(&mut db);
    heard(&mut listener, &mut db, "sched:default");
    dispatched(&mut db);
    assert_eq!(heard(&mut listener, &mut db, "sched:default"), 0);
    cluster.set("sched.notify", "on");
    dispatched(&mut db);
    assert!(heard(&mut listener, &mut db, "sched:default") >= 3);
}
