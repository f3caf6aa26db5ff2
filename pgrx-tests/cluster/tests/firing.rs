//! Fires, retries and ends of leases come on time although the dispatcher sleeps.
//! All of it with the default `sched.tick_interval` of 60 s: nothing here can be seen by a poll.

use postgres::fallible_iterator::FallibleIterator as _;
use scheduler_cluster_tests::scheduler::{asleep_since, heard, one, rest, switch_off, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

#[test]
fn a_first_plan_a_second_away_fires_although_the_worker_sleeps() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    let clocks =
        ["'every 1 hour from ' || at", "'at ' || at", "'every 1 month from ' || at", "'at ' || at", "'at ' || at"];
    let mut late = Vec::new();
    for (number, clock) in clocks.iter().enumerate() {
        rest(&mut db);
        let create = format!(
            "select sched.create_schedule('s{number}', {clock}, 'job')
               from (select (clock_timestamp() + interval '1 second')::text as at) as soon"
        );
        cluster.connect().batch_execute(&create).unwrap();
        wait_for(&mut db, &format!("select count(*) = {} from sched.execution", number + 1), SOON);
        late.push(one::<f64>(
            &mut db,
            &format!("select extract(epoch from created_at - plan_time)::float8 * 1000 from sched.execution where schedule_name = 's{number}'"),
        ));
    }
    println!("milliseconds late: {late:.1?}");
    late.sort_by(f64::total_cmp);
    assert!(late[0] >= 0.0, "fired before its plan: {late:?}");
    // The median, because one hiccup of a busy machine is no fault of ours; a poll each second would hardly get there by luck.
    assert!(late[2] < 250.0, "milliseconds late: {late:?}");
}

/// 50 ms are less than any poll that this could be found by, and the commit comes while the dispatcher sleeps for a minute.
#[test]
fn a_schedule_that_another_session_commits_50_ms_before_its_plan_is_on_time() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    let mut app = cluster.connect();
    let mut late: Vec<f64> = Vec::new();
    // A busy machine may be late by itself; a poll each second would be on time once in twenty.
    let mut tries = 0;
    while late.iter().filter(|late| **late < 50.0).count() < 10 {
        tries += 1;
        assert!(tries <= 30, "milliseconds late: {late:.1?}");
        rest(&mut db);
        let plan = "to_char((clock_timestamp() + interval '50 milliseconds') at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US+00')";
        app.batch_execute(&format!("select sched.create_schedule('s{tries}', 'at ' || {plan}, 'job')")).unwrap();
        let fired = format!(
            "select extract(epoch from e.created_at - e.plan_time)::float8 * 1000
               from sched.schedules s left join sched.execution e using (schedule_name)
              where s.schedule_name = 's{tries}' and s.state = 'done'"
        );
        // Where it was created too late for its plan it has none.
        late.extend(wait_until("the fire", SOON, || {
            db.query_opt(&fired, &[]).unwrap().map(|row| row.get::<_, Option<f64>>(0))
        }));
    }
    println!("milliseconds late in {tries} tries: {late:.1?}");
}

/// Linux ends a wait late in proportion to its length, by a thousandth: 8 ms here. A busy machine may be late by itself, but not each time.
#[test]
fn the_end_of_a_long_sleep_is_on_time() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); listen \"sched:default\"").unwrap();
    let mut late = Vec::new();
    while late.iter().all(|late| *late > 4.0) {
        assert!(late.len() < 30, "milliseconds late: {late:.1?}");
        let name = format!("s{}", late.len());
        let plan =
            "to_char((clock_timestamp() + interval '8 seconds') at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US+00')";
        db.batch_execute(&format!("select sched.create_schedule('{name}', 'at ' || {plan}, 'job')")).unwrap();
        let fired = format!("select extract(epoch from created_at - plan_time)::float8 * 1000 from sched.execution where schedule_name = '{name}'");
        // Told and not asked for: whatever happens on a machine meanwhile, Linux takes as an opportunity to end other waits.
        db.notifications().timeout_iter(SOON).next().unwrap().expect("the fire");
        late.push(one::<f64>(&mut db, &fired));
    }
}

#[test]
fn a_rollback_leaves_nothing_and_wakes_nobody() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table own (i int); select sched.define_job('job')").unwrap();
    let mut app = cluster.connect();
    app.batch_execute("select 1").unwrap();
    let both = "insert into own values (1); select sched.create_schedule('s', 'every 1 second', 'job')";
    let asleep = rest(&mut db);
    app.batch_execute(&format!("begin; {both}; rollback")).unwrap();
    let failed = app.batch_execute(&format!("begin; {both}; select 1 / 0; commit"));
    assert!(failed.is_err());
    app.batch_execute("rollback").unwrap();
    let since = stays("since when the dispatcher sleeps", Duration::from_secs(2), || asleep_since(&mut db));
    assert_eq!(since, Some(asleep));
    let left: i64 = one(
        &mut db,
        &format!("select (select count(*) from own) + (select count(*) from sched.schedule) + (select count(*) from {TIMER} t)
              + (select count(*) from sched.schedule_change) + (select count(*) from sched.execution)"),
    );
    assert_eq!(left, 0);
    // The same, committed, does wake it: what was watched is the right thing.
    app.batch_execute(&format!("begin; {both}; commit")).unwrap();
    wait_until("the dispatcher to wake", SOON, || (asleep_since(&mut db) != since).then_some(()));
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
}

#[test]
fn a_clock_that_is_faster_than_any_dispatcher_leaves_time_for_others() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('hog', 'every 1 microsecond', 'job');
         select sched.create_schedule('other', 'every 200 milliseconds', 'job', catch_up => 'every_plan')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) >= 20 from sched.execution where schedule_name = 'other'", SOON);
    whole_grid(&mut db, "other", "200 milliseconds");
    // Whoever has to wait for the hog waits for ever.
    let late =
        "select (percentile_cont(0.5) within group (order by extract(epoch from created_at - plan_time)))::float8
                  from sched.execution where schedule_name = 'other'";
    let late: f64 = one(&mut db, late);
    println!("the other one: half of its fires at most {:.0} ms late", late * 1000.0);
    assert!(late < 0.5, "the other one is {late} s late");
    let hog = "select extract(epoch from max(created_at) - min(created_at))::float8 / count(*) * 1000
                 from sched.execution where schedule_name = 'hog'";
    let apart: f64 = one(&mut db, hog);
    assert!(apart > 0.9, "fires {apart} ms apart: nobody rests between them");
    // It still listens.
    cluster.set("sched.enabled", "off");
    let count = "select count(*) from sched.execution";
    wait_until("the hog to stop", SOON, || {
        let before: i64 = one(&mut db, count);
        stays("this loop", Duration::from_millis(300), || ());
        (one::<i64>(&mut db, count) == before).then_some(())
    });
}

#[test]
fn a_backlog_delays_nothing_that_is_due_now() {
    const MISSED: i64 = 10_000;
    let cluster = Cluster::builder().set("sched.batch_size", "100").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.execute(
        "select sched.create_schedules(jsonb_agg(jsonb_build_object('schedule_name', 'missed ' || i, 'clock', 'every 1 hour',
                                                                    'job_name', 'job')))
           from generate_series(1, $1::bigint) as i",
        &[&MISSED],
    )
    .unwrap();
    let armed = format!("select count(*) = {MISSED} from sched.schedules where state = 'armed'");
    wait_for(&mut db, &armed, Duration::from_secs(120));
    switch_off(&cluster, &mut db);
    // As if it had been off for half an hour. A call of dispatch_due applies all changes and fires one schedule.
    db.batch_execute(
        "update sched.schedule set created_at = created_at - interval '90 minutes', baseline_at = baseline_at - interval '90 minutes';
         select sched.dispatch_due(1);
         select sched.create_schedule('now', 'every 50 milliseconds', 'job')",
    )
    .unwrap();
    cluster.set("sched.enabled", "on");
    let missed = "from sched.execution where schedule_name like 'missed%'";
    wait_for(&mut db, &format!("select count(*) = {MISSED} {missed}"), Duration::from_secs(240));
    let row = db
        .query_one(
            &format!(
                "select count(*), coalesce(max(extract(epoch from created_at - plan_time)), 0)::float8,
                        coalesce(percentile_cont(0.5) within group (order by extract(epoch from created_at - plan_time)), 0)::float8
                   from sched.execution
                  where schedule_name = 'now' and plan_time between (select min(created_at) {missed})
                                                                 and (select max(created_at) {missed})"
            ),
            &[],
        )
        .unwrap();
    let (fires, latest, late): (i64, f64, f64) = (row.get(0), row.get(1), row.get(2));
    println!("{fires} fires among the backlog, half of them at most {late} s late, the latest {latest}");
    assert!(fires >= 3, "only {fires} fires while the backlog went down");
    assert!(late < 0.5, "half of them were {late} s late, behind the backlog");
}

#[test]
fn a_retry_becomes_claimable_and_is_announced_without_any_client() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job', queue => 'work', max_attempts => 3, retry_backoff => '{200ms}')")
        .unwrap();
    let mut ear = cluster.connect();
    ear.batch_execute("listen \"sched:work\"").unwrap();
    rest(&mut db);
    let run = db
        .query_one(
            "select execution_id::text, lease_token::text from sched.try_claim('job', date_trunc('hour', now()))",
            &[],
        )
        .unwrap();
    let (id, token): (String, String) = (run.get(0), run.get(1));
    db.batch_execute(&format!("select sched.finish_failure('{id}', '{token}')")).unwrap();
    let execution = format!("from sched.execution where id = '{id}'");
    let waits: String =
        one(&mut db, &format!("select status || ' ' || (next_retry_at - finished_at)::text {execution}"));
    assert_eq!(waits, "FAILED 00:00:00.2");
    // Nobody calls anything: looking into the tables moves nothing.
    wait_for(&mut db, &format!("select count(*) = 1 from {READY} r where queue = 'work'"), SOON);
    let late: f64 =
        one(&mut db, &format!("select extract(epoch from clock_timestamp() - next_retry_at)::float8 {execution}"));
    println!("claimable {:.0} ms after its time", late * 1000.0);
    assert!((0.0..5.0).contains(&late), "claimable {late} s after its time");
    assert_eq!(heard(&mut ear, &mut db, "sched:work"), 1, "one transaction, one notification");
    assert_eq!(one::<i32>(&mut db, "select attempt from sched.claim('work')"), 2);
}

#[test]
fn a_stale_lease_is_ended_promptly_and_a_kept_one_is_not() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let claim = |scope: &str, timeout: &str| {
        format!("select execution_id::text, lease_token::text from sched.try_claim('job', date_trunc('hour', now()), scope_id => '{scope}', stale_timeout => '{timeout}')")
    };
    rest(&mut db);
    // Kept: its first end passes, a heartbeat has moved it on. Both are committed at once, before anybody can find it stale.
    let mut work = db.transaction().unwrap();
    let kept = work.query_one(&claim("kept", "200 milliseconds"), &[]).unwrap();
    let (id, token): (String, String) = (kept.get(0), kept.get(1));
    let beat = format!("select sched.heartbeat('{id}', '{token}', stale_timeout => '1 hour')");
    assert_eq!(work.query_one(&beat, &[]).unwrap().get::<_, String>(0), "ok");
    work.commit().unwrap();
    db.query_one(&claim("left", "300 milliseconds"), &[]).unwrap();
    wait_for(&mut db, "select status = 'FAILED' from sched.execution where scope_id = 'left'", SOON);
    let left = db
        .query_one(
            "select error_code, next_retry_at is null,
                    extract(epoch from finished_at - started_at - interval '300 milliseconds')::float8
               from sched.execution where scope_id = 'left'",
            &[],
        )
        .unwrap();
    assert_eq!((left.get::<_, &str>(0), left.get::<_, bool>(1)), ("stale_timeout", true));
    let late: f64 = left.get(2);
    println!("swept {:.0} ms after its end", late * 1000.0);
    assert!((0.0..5.0).contains(&late), "swept {late} s after its end");
    // Once it has looked at the kept lease too, there is nothing left to do for an hour.
    rest(&mut db);
    stays("the kept lease", Duration::from_secs(1), || {
        one::<String>(&mut db, "select status from sched.execution where scope_id = 'kept'")
    });
    assert_eq!(one::<String>(&mut db, "select status from sched.execution where scope_id = 'kept'"), "RUNNING");
    let token_after: String = one(&mut db, "select lease_token::text from sched.execution where scope_id = 'kept'");
    assert_eq!(token_after, token);
}

#[test]
fn a_queue_hears_once_for_each_transaction_that_made_work_claimable() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('a', queue => 'a', max_attempts => 9, retry_backoff => '{}');
         select sched.define_job('b', queue => 'b');
         select sched.define_job('silent', queue => 'silent')",
    )
    .unwrap();
    let mut ears: Vec<Client> = ["a", "b", "silent"]
        .iter()
        .map(|queue| {
            let mut ear = cluster.connect();
            ear.batch_execute(&format!("listen \"sched:{queue}\"")).unwrap();
            ear
        })
        .collect();
    // 20 and 5 plans at one moment, and three later ones.
    db.batch_execute(
        "select sched.create_schedule(job || i, 'at ' || (now() + interval '4 seconds' + (case when i > 20 then i - 19 else 1 end) * interval '700 milliseconds'), job)
           from (select 'a' as job, generate_series(1, 23) as i union all select 'b', generate_series(1, 5)) as s",
    )
    .unwrap();
    wait_for(&mut db, &format!("select count(*) = 28 from {READY} r"), SOON);
    for (queue, ear) in ["a", "b", "silent"].iter().zip(&mut ears) {
        let transactions: i64 =
            one(&mut db, &format!("select count(distinct e.xmin::text) from {READY} r join sched.ledger e on e.id = r.execution_id where r.queue = '{queue}'"));
        let heard = heard(ear, &mut db, &format!("sched:{queue}"));
        println!("queue {queue}: {transactions} transactions, {heard} notifications");
        assert_eq!(heard, usize::try_from(transactions).unwrap(), "queue {queue}");
    }
    // Three failures that may be tried at once, in one transaction.
    db.batch_execute(
        "begin;
         select sched.finish_failure(execution_id, lease_token) from sched.claim('a', 3);
         commit",
    )
    .unwrap();
    assert_eq!(heard(&mut ears[0], &mut db, "sched:a"), 1);
    db.batch_execute(
        "begin;
         select sched.finish_failure(execution_id, lease_token) from sched.claim('a', 3);
         rollback",
    )
    .unwrap();
    assert_eq!(heard(&mut ears[0], &mut db, "sched:a"), 0);
}

#[test]
fn a_job_that_is_told_of_its_runs_from_now_on_hears_of_each() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let mut ear = cluster.connect();
    // Row by row, and by the statement, for which a superuser gave a table more to do.
    let by_statement = "create function public.nothing() returns trigger language plpgsql as 'begin return new; end';
         create trigger nothing before insert on sched.awaited for each row execute function public.nothing()";
    for (name, first) in [("rows", ""), ("statement", by_statement)] {
        db.batch_execute(&format!(
            "{first}; select sched.define_job('{name}'), sched.create_schedule('{name}', 'every 1 second', '{name}')"
        ))
        .unwrap();
        ear.batch_execute(&format!("listen \"{name}\"")).unwrap();
        wait_for(&mut db, &format!("select count(*) > 0 from sched.execution where job_name = '{name}'"), SOON);
        // The dispatcher has read what the job is, and not yet written a run of it.
        let mut held = cluster.connect();
        held.batch_execute(&format!("begin; lock table {READY_TABLE} in share mode")).unwrap();
        let waits =
            &format!("select exists (select from pg_locks where not granted and relation = '{READY_TABLE}'::regclass)");
        wait_for(&mut db, waits, SOON);
        db.batch_execute(&format!("select sched.define_job('{name}', 'notify', '{name}')")).unwrap();
        held.batch_execute("commit").unwrap();
        wait_for(
            &mut db,
            &format!("select count(*) > 0 from sched.execution where job_name = '{name}' and status = 'SUCCESS'"),
            SOON,
        );
        db.batch_execute(&format!("select sched.pause('{name}')")).unwrap();
        wait_for(
            &mut db,
            &format!("select state = 'paused' from sched.schedules where schedule_name = '{name}'"),
            SOON,
        );
        let done: i64 = one(
            &mut db,
            &format!("select count(*) from sched.execution where job_name = '{name}' and status = 'SUCCESS'"),
        );
        assert_eq!(heard(&mut ear, &mut db, name), usize::try_from(done).unwrap(), "{name}");
        ear.batch_execute("unlisten *").unwrap();
    }
}
