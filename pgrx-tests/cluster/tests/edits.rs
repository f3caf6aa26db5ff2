//! Edits and dispatches never wait for each other, and what is edited while it is dispatched fires once. An `on_terminal` schedule's life.

use scheduler_cluster_tests::scheduler::{asleep_since, in_endless_statement, one, rest, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

/// The plan time that is due of those that are created here. A clock of hours would be at its next now and then, in the middle of a test.
const DUE: &str = "date_bin('1000 days', now(), timestamptz '2020-01-01 00:00+00')";

/// Schedules with a clock of 1,000 days of which the last plan is due: as if they had been created before.
fn create(db: &mut Client, names: &[&str]) {
    for name in names {
        let mut work = db.transaction().unwrap();
        work.execute(
            "select sched.create_schedule($1, 'every 1000 days from 2020-01-01 00:00+00', 'job', payload => '{\"v\": 1}')",
            &[name],
        )
        .unwrap();
        work.execute(
            &format!("update sched.schedule set baseline_at = {DUE} - interval '1 second' where schedule_name = $1"),
            &[name],
        )
        .unwrap();
        work.commit().unwrap();
    }
}

/// A server whose worker waits, and a session that fails rather than waits for a lock.
fn without_dispatch() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); set lock_timeout = '20s'").unwrap();
    (cluster, db)
}

fn payloads(db: &mut Client) -> Vec<String> {
    let query = "select schedule_name || ' ' || (payload ->> 'v') from sched.execution where payload ? 'v' order by 1";
    db.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn edits_never_wait_for_a_dispatcher_nor_it_for_them() {
    let (cluster, mut db) = without_dispatch();
    create(&mut db, &["altered", "dropped", "paused", "renamed"]);
    let mut dispatcher = cluster.connect();
    dispatcher.batch_execute("set lock_timeout = '20s'; begin").unwrap();
    assert_eq!(one::<i64>(&mut dispatcher, "select sched.dispatch_due()"), 4);
    // Its transaction holds the timers, the changes and the new executions, and stays open.
    db.batch_execute(
        "select sched.alter_schedule('altered', payload => '{\"v\": 2}', clock => 'every 2000 days');
         select sched.drop_schedule('dropped', cancel_pending => true);
         select sched.pause('paused'); select sched.resume('paused');
         select sched.alter_schedule('renamed', new_name => 'new name');
         select sched.create_schedule('created', 'every 1 hour', 'job')",
    )
    .expect("an edit waits for nobody");
    dispatcher.batch_execute("commit").unwrap();

    // The other way round: edits that nobody has committed yet.
    create(&mut db, &["due"]);
    let mut editor = cluster.connect();
    editor
        .batch_execute(
            "begin; select sched.drop_schedule('due'); select sched.alter_schedule('created', jitter => '1s')",
        )
        .unwrap();
    assert!(one::<i64>(&mut dispatcher, "select sched.dispatch_due()") > 0, "dispatching waits for no edit");
    assert!(payloads(&mut db).contains(&"due 1".to_owned()), "it fires as it was when committed last");
    editor.batch_execute("rollback").unwrap();
    // And the worker gets along with all that was left.
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select count(*) = 0 from sched.schedules where state <> 'armed'", SOON);
}

#[test]
fn an_edit_committed_while_its_timer_is_locked_comes_after_the_fire() {
    let (cluster, mut db) = without_dispatch();
    create(&mut db, &["s"]);
    let mut dispatcher = cluster.connect();
    for (end, expected) in [("rollback", vec!["s 2"]), ("commit", vec!["s 2"])] {
        dispatcher.batch_execute("begin").unwrap();
        let fired: i64 = one(&mut dispatcher, "select sched.dispatch_due()");
        assert_eq!(fired, i64::from(end == "rollback"), "before the {end}");
        if end == "rollback" {
            db.batch_execute("select sched.alter_schedule('s', payload => '{\"v\": 2}')").unwrap();
            // Meanwhile others find it busy and pass on.
            assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 0);
        }
        dispatcher.batch_execute(end).unwrap();
        assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), i64::from(end == "rollback"));
        assert_eq!(payloads(&mut db), expected, "after the {end}");
    }
    // Now one that commits: it fired as it was, the edit is for the next.
    create(&mut db, &["t"]);
    dispatcher.batch_execute("begin").unwrap();
    assert_eq!(one::<i64>(&mut dispatcher, "select sched.dispatch_due()"), 1);
    db.batch_execute("select sched.alter_schedule('t', payload => '{\"v\": 3}')").unwrap();
    dispatcher.batch_execute("commit").unwrap();
    assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 0);
    assert!(payloads(&mut db).contains(&"t 1".to_owned()), "{:?}", payloads(&mut db));
    let applied = format!(
        "select state = 'armed' and next_plan_time = {DUE} + interval '1000 days'
           from sched.schedules where schedule_name = 't'"
    );
    assert!(one::<bool>(&mut db, &applied), "the edit was applied, and dropped no plan");
}

/// The same, where the change that the client has in hand could not be applied at first; what is still to be tried again is in nobody's
/// hands, and keeps no edit from being applied.
#[test]
fn an_edit_waits_for_no_change_that_is_tried_again() {
    let (cluster, mut db) = without_dispatch();
    db.batch_execute("set lock_timeout = '1s'").unwrap();
    for (name, retry) in [("later", "+ interval '1 hour'"), ("now", "- interval '1 second'")] {
        create(&mut db, &[name]);
        db.batch_execute(&format!(
            "update sched.schedule_change set failures = 1, retry_at = clock_timestamp() {retry}
              where schedule_id = (select schedule_id from sched.schedule where schedule_name = '{name}')"
        ))
        .unwrap();
    }
    db.batch_execute("select sched.alter_schedule('later', payload => '{\"v\": 2}')").unwrap();
    let mut client = cluster.connect();
    client.batch_execute("begin").unwrap();
    assert_eq!(one::<i64>(&mut client, "select sched.dispatch_due()"), 2);
    // The timer of `now` is just being inserted by the client.
    db.batch_execute("select sched.alter_schedule('now', payload => '{\"v\": 2}')").unwrap();
    assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 0);
    let last = "select failures = 0 from sched.schedule_change order by change_id desc limit 1";
    assert!(one::<bool>(&mut db, last), "the edit's change ran into the lock_timeout");
    client.batch_execute("commit").unwrap();
    assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 0);
    let versions =
        &format!("select bool_and(t.version = s.version) from sched.schedule s join {TIMER} t using (schedule_id)");
    assert!(one::<bool>(&mut db, versions), "the edit was applied");
    assert_eq!(payloads(&mut db), ["later 2", "now 1"]);
}

#[test]
fn what_a_client_holds_the_worker_takes_up_when_it_is_free() {
    for (end, expected) in [("rollback", "held 2"), ("commit", "held 1")] {
        let (cluster, mut db) = without_dispatch();
        create(&mut db, &["held"]);
        let mut client = cluster.connect();
        client.batch_execute("begin").unwrap();
        assert_eq!(one::<i64>(&mut client, "select sched.dispatch_due()"), 1);
        cluster.set("sched.enabled", "on");
        // The worker sees this edit, but the timer that it is about is just being inserted by the client.
        db.batch_execute("select sched.alter_schedule('held', payload => '{\"v\": 2}')").unwrap();
        db.batch_execute("select sched.create_schedule('healthy', 'every 100 milliseconds', 'job')").unwrap();
        wait_for(&mut db, "select count(*) > 5 from sched.execution", SOON);
        db.batch_execute("select sched.drop_schedule('healthy')").unwrap();
        wait_for(&mut db, &none(TIMER), SOON);
        let quiet = transactions_within(&mut db, Duration::from_secs(2));
        println!("{quiet} transactions in 2 s while a client holds what is due");
        assert!(quiet < 600, "the worker runs hot: {quiet} transactions in 2 s");

        client.batch_execute(end).unwrap();
        let applied = "select state = 'armed' and next_plan_time > now() from sched.schedules";
        wait_for(&mut db, applied, Duration::from_secs(10));
        assert_eq!(payloads(&mut db), [expected], "after the {end}");
    }
}

#[test]
fn a_finish_that_is_not_committed_yet_is_left_alone_by_the_sweeper() {
    // Switched on when the end is open: before that it would be the first to come.
    let (cluster, mut db) = without_dispatch();
    let mut runner = cluster.connect();
    let claim = "sched.try_claim('job', date_trunc('hour', now()), stale_timeout => '300 milliseconds')";
    runner.batch_execute(&format!("create table mine as select * from {claim}")).unwrap();
    runner.batch_execute("begin; select sched.finish_success(execution_id, lease_token) from mine").unwrap();
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select clock_timestamp() > stale_after from mine", SOON);
    let quiet = transactions_within(&mut db, Duration::from_secs(2));
    println!("{quiet} transactions in 2 s while a stale lease is being finished");
    assert!(quiet < 600, "the worker runs hot: {quiet} transactions in 2 s");
    assert_eq!(one::<String>(&mut db, "select status from sched.execution"), "RUNNING");
    runner.batch_execute("commit").unwrap();
    assert_eq!(one::<String>(&mut db, "select status from sched.execution"), "SUCCESS");
}

/// What this database commits in a while in which nothing happens, this session's few included.
fn transactions_within(db: &mut Client, period: Duration) -> i64 {
    // What sessions have counted reaches the others after a second at most.
    let count = "select xact_commit from pg_stat_database where datname = current_database()";
    stays("nothing", Duration::from_secs(1), || ());
    let before: i64 = one(db, count);
    stays("nothing", period, || ());
    one::<i64>(db, count) - before
}

#[test]
fn a_plan_that_a_client_is_just_claiming_delays_no_other() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    let plan: String = one(&mut db, "select (clock_timestamp() + interval '5 seconds')::text");
    // The plan belongs to the schedule's scope; the client's claim of it is not committed yet.
    let mut client = cluster.connect();
    client.batch_execute("begin").unwrap();
    let claim = format!("select outcome from sched.try_claim('job', '{plan}', 'schedule', 'mine')");
    assert_eq!(one::<String>(&mut client, &claim), "won");
    db.batch_execute(&format!("select sched.create_schedule('mine', 'every 1 hour from {plan}', 'job')")).unwrap();
    db.batch_execute("select sched.create_schedule('healthy', 'every 200 milliseconds', 'job')").unwrap();
    // All of it while the claim is open.
    wait_for(
        &mut db,
        &format!("select count(*) > 5 from sched.execution where schedule_name = 'healthy' and plan_time > '{plan}'"),
        SOON,
    );
    let healthy = "select percentile_cont(0.5) within group (order by created_at - plan_time) < '1 second'
                     from sched.execution where schedule_name = 'healthy'";
    assert!(one::<bool>(&mut db, healthy), "the healthy schedule was delayed");
    client.batch_execute("commit").unwrap();
    // What the ledger already holds counts as fired.
    wait_for(&mut db, &format!("select state = 'armed' and next_plan_time = timestamptz '{plan}' + interval '1 hour' from sched.schedules where schedule_name = 'mine'"), SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where scope_id = 'mine'"), 1);
}

/// A plan that is in the ledger is fired, whether or not somebody is just ending its run.
#[test]
fn a_plan_whose_run_a_client_is_just_ending_is_fired() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let plan: String = one(&mut db, "select (clock_timestamp() + interval '5 seconds')::text");
    let mut runner = cluster.connect();
    db.batch_execute(&format!(
        "select sched.define_job('job');
         create table mine as select * from sched.try_claim('job', '{plan}', 'schedule', 'mine')"
    ))
    .unwrap();
    runner.batch_execute("begin; select sched.finish_success(execution_id, lease_token) from mine").unwrap();
    db.batch_execute(&format!("select sched.create_schedule('mine', 'every 1 hour from {plan}', 'job')")).unwrap();
    // What the timer says: the views know from the ledger that this plan has been claimed.
    let fired = format!(
        "select exists (select from {TIMER} t where next_plan_time = timestamptz '{plan}' + interval '1 hour')"
    );
    wait_for(&mut db, &fired, SOON);
    // The key of a row that somebody is deleting may become free: that is waited for.
    runner.batch_execute("commit").unwrap();
    let again: String = one(&mut db, "select (clock_timestamp() + interval '5 seconds')::text");
    db.batch_execute(&format!("select sched.try_claim('job', '{again}', 'schedule', 'other')")).unwrap();
    runner.batch_execute("begin; delete from sched.ledger where scope_id = 'other'").unwrap();
    db.batch_execute(&format!("select sched.create_schedule('other', 'every 1 hour from {again}', 'job')")).unwrap();
    let waits = format!(
        "select clock_timestamp() > timestamptz '{again}' + interval '300 milliseconds' and exists (
             select from {TIMER} t join sched.schedule s using (schedule_id)
              where s.schedule_name = 'other' and t.next_plan_time = '{again}')"
    );
    wait_for(&mut db, &waits, SOON);
    runner.batch_execute("commit").unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.execution where schedule_name = 'other'", SOON);
}

/// The same, where the client comes between the dispatcher's look into the ledger and its insert: the one moment at which the dispatcher
/// has to wait for a client. A trigger holds it there.
#[test]
fn a_plan_that_a_client_claims_in_the_middle_of_a_fire_delays_no_other() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let plan: String = one(&mut db, "select (clock_timestamp() + interval '5 seconds')::text");
    db.batch_execute(&format!(
        "create table public.gate ();
         create function public.wait_at_gate() returns trigger language plpgsql as $$
             begin
                 while not exists (select from public.gate) loop perform pg_catalog.pg_sleep(0.01); end loop;
                 return new;
             end $$;
         create trigger gate before insert on sched.ledger
             for each row when (new.origin = 'schedule') execute function public.wait_at_gate();
         select sched.define_job('job');
         select sched.create_schedule(name, 'every 1 hour from {plan}', 'job') from unnest('{{first,mine,last}}'::text[]) as name"
    ))
    .unwrap();
    wait_until("the dispatcher to be in its insert", SOON, || in_endless_statement(&mut db).then_some(()));
    let mut client = cluster.connect();
    client.batch_execute("begin").unwrap();
    let claim = format!("select outcome from sched.try_claim('job', '{plan}', 'schedule', 'mine')");
    assert_eq!(one::<String>(&mut client, &claim), "won");
    let opened: String = one(&mut db, "select clock_timestamp()::text");
    db.batch_execute("insert into public.gate default values").unwrap();
    wait_for(&mut db, &format!("select count(*) = 2 from sched.execution where plan_time = '{plan}'"), SOON);
    let took: f64 = one(
        &mut db,
        &format!("select extract(epoch from max(created_at) - timestamptz '{opened}')::float8 from sched.execution"),
    );
    println!("the others fired {:.0} ms after the client had claimed", took * 1000.0);
    assert!(took < 5.0, "the others fired after {took} s");
    client.batch_execute("commit").unwrap();
    // What the ledger already holds counts as fired; the client was no fault of the schedule.
    wait_for(&mut db, &format!("select state = 'armed' and next_plan_time = timestamptz '{plan}' + interval '1 hour' from sched.schedules where schedule_name = 'mine'"), SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where scope_id = 'mine'"), 1);
    assert!(cluster.logged("could not be fired").is_empty(), "{}", cluster.log());
}

/// A lock that stands in the way of all (here a trigger's, else one that a table grows under) is no fault of a schedule, and a batch
/// waits for it for a moment only, not once for each of its schedules.
#[test]
fn a_batch_that_runs_into_a_lock_waits_for_a_moment_and_blames_no_schedule() {
    let (cluster, mut db) = without_dispatch();
    let names: Vec<String> = (0..200).map(|number| format!("s{number}")).collect();
    create(&mut db, &names.iter().map(String::as_str).collect::<Vec<_>>());
    db.batch_execute(
        "create function public.take_lock() returns trigger language plpgsql as $$
             begin perform pg_catalog.pg_advisory_xact_lock(7); return new; end $$;
         create trigger takes_lock before insert on sched.ledger for each row execute function public.take_lock()",
    )
    .unwrap();
    let mut holder = cluster.connect();
    holder.batch_execute("select pg_advisory_lock(7)").unwrap();
    let began = std::time::Instant::now();
    assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 0);
    println!("it gave up after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(15), "it waited for {:?}", began.elapsed());
    assert_eq!(one::<i64>(&mut db, &format!("select count(*) from {TIMER} t where error_count = 0")), 200);
    holder.batch_execute("select pg_advisory_unlock(7)").unwrap();
    let mut fired = 0;
    wait_until("all to fire", SOON, || {
        fired += one::<i64>(&mut db, "select sched.dispatch_due()");
        (fired == 200).then_some(())
    });
    assert!(cluster.logged("could not be fired").is_empty(), "{}", cluster.log());
}

#[test]
fn an_on_terminal_schedule_goes_on_when_its_run_has_ended() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job', queue => 'work', max_attempts => 2, retry_backoff => '{}');
         select sched.create_schedule('s', 'every 200 milliseconds', 'job', rearm => 'on_terminal')",
    )
    .unwrap();
    let fired =
        |db: &mut Client, count: i64| wait_for(db, &format!("select count(*) = {count} from sched.execution"), SOON);
    let waits = |db: &mut Client| {
        rest(db);
        stays("an unfinished run's schedule", Duration::from_millis(700), || {
            let state: String = one(db, "select state from sched.schedules");
            // While an alert is open a dispatcher looks whether it is over.
            let alerted: bool = one(db, "select exists (select from sched.alerts where resolved_at is null)");
            let asleep = if alerted { None } else { asleep_since(db) };
            (state, one::<i64>(db, "select count(*) from sched.execution"), asleep)
        })
    };
    let ends = [
        "sched.finish_success(execution_id, lease_token)",
        "sched.finish_failure(execution_id, lease_token, terminal => true)",
        "sched.finish_failure(execution_id, lease_token)", // to be tried again: this is not the end
        "sched.finish_success(execution_id, lease_token)",
    ];
    let mut runs = 1;
    for (step, end) in ends.iter().enumerate() {
        fired(&mut db, runs);
        assert_eq!(waits(&mut db).0, "waiting", "step {step}: unclaimed");
        let mut work = db.transaction().unwrap();
        work.batch_execute("create temp table mine on commit drop as select * from sched.claim('work')").unwrap();
        work.batch_execute(&format!("select {end} from mine")).unwrap();
        work.commit().unwrap();
        runs += i64::from(step != 2);
    }
    fired(&mut db, runs);
    let after = "select bool_and(plan_time > before) from (select plan_time, lag(finished_at) over (order by plan_time) as before from sched.execution) as e where before is not null";
    assert!(one::<bool>(&mut db, after), "each plan is the first after the end of the run before");
    // … unless the machine was too busy to dispatch that one before the next had come.
    let first = "select min(plan_time - before) <= '200 milliseconds' from (select plan_time, lag(finished_at) over (order by plan_time) as before from sched.execution) as e";
    assert!(one::<bool>(&mut db, first), "the first, not a later one");
    // While it waited it missed plans; they do not come afterwards.
    db.batch_execute("select sched.alter_schedule('s', rearm => 'on_dispatch', catch_up => 'every_plan')").unwrap();
    wait_for(&mut db, &format!("select count(*) > {runs} + 3 from sched.execution"), SOON);
    db.batch_execute(&format!(
        "delete from sched.ledger where id in (select id from sched.execution order by plan_time limit {})",
        runs - 1
    ))
    .unwrap();
    whole_grid(&mut db, "s", "200 milliseconds");
}

#[test]
fn a_runner_that_keeps_its_end_open_holds_up_no_edit() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('dropped', 'every 100 milliseconds', 'job', overlap => 'skip');
         select sched.create_schedule('cares', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 2 from sched.execution", SOON);
    let mut runner = cluster.connect();
    runner
        .batch_execute(
            "begin; select sched.finish_success(execution_id, lease_token) from sched.claim('default', max_claims => 1000)",
        )
        .unwrap();
    // One is no longer there to wait for its run, the other one cares about its runs from now on: of both the runner has some in hand.
    db.batch_execute(
        "select sched.drop_schedule('dropped'); select sched.alter_schedule('cares', overlap => 'skip');
         select sched.create_schedule('other', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 5 from sched.execution where schedule_name = 'other'", SOON);
    runner.batch_execute("commit").unwrap();
    wait_for(&mut db, "select count(*) = 0 from sched.schedule_change", SOON);
    wait_for(&mut db, "select state in ('armed', 'waiting') from sched.schedules where schedule_name = 'cares'", SOON);
    wait_for(
        &mut db,
        &format!(
            "select count(*) = 0 from {TIMER} t where schedule_id not in (select schedule_id from sched.schedule)"
        ),
        SOON,
    );
}

/// A superuser may put a schedule back as it was: with an older version than its timer has.
#[test]
fn a_schedule_that_was_put_back_begins_anew() {
    let (_cluster, mut db) = without_dispatch();
    db.batch_execute(
        "set statement_timeout = '20s';
         select sched.create_schedule('s', 'every 1 hour', 'job');
         create temp table copy as select * from sched.schedule;
         select sched.alter_schedule('s', payload => '1'); select sched.dispatch_due();
",
    )
    .unwrap();
    let columns: String = one(
        &mut db,
        "select string_agg(quote_ident(attname), ', ') from pg_attribute
          where attrelid = 'sched.schedule'::regclass and attnum > 0 and attgenerated = '' and not attisdropped",
    );
    db.batch_execute(&format!(
        "begin; delete from sched.schedule;
         insert into sched.schedule ({columns}) overriding system value select {columns} from copy; commit;
         select sched.dispatch_due()"
    ))
    .unwrap();
    assert_eq!(one::<String>(&mut db, "select state from sched.schedules"), "armed");
    assert!(one::<bool>(
        &mut db,
        &format!("select t.version = s.version from {TIMER} t join sched.schedule s using (schedule_id)")
    ));
}
