//! One bad schedule delays no other (I4): it is found alone, recorded, backed off or parked, and said once.

use scheduler_cluster_tests::scheduler::{one, switch_off, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

const HEALTHY: i64 = 50;

/// 50 schedules that run each of their plans, and one to be spoilt, which fires each second.
fn start() -> (Cluster, Client) {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.execute(
        "select sched.create_schedule('healthy ' || i, 'every 500 milliseconds from epoch', 'job', catch_up => 'every_plan')
           from generate_series(1, $1::bigint) as i",
        &[&HEALTHY],
    )
    .unwrap();
    db.batch_execute("select sched.create_schedule('bad', 'every 500 milliseconds from epoch', 'job', payload => '{\"poison\": true}')")
        .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution where schedule_name = 'bad'", SOON);
    (cluster, db)
}

/// All 50 fired on, each plan of the last seconds once and on time.
fn healthy(db: &mut Client, since: &str) {
    for number in 1..=HEALTHY {
        let name = format!("healthy {number}");
        whole_grid(db, &name, "500 milliseconds");
    }
    let row = db
        .query_one(
            &format!(
                "select count(distinct schedule_name), count(*),
                        max(extract(epoch from created_at - plan_time))::float8,
                        (percentile_cont(0.5) within group (order by extract(epoch from created_at - plan_time)))::float8,
                        extract(epoch from clock_timestamp() - timestamptz '{since}')::float8
                   from sched.execution where schedule_name like 'healthy%' and plan_time > '{since}'"
            ),
            &[],
        )
        .unwrap();
    let (schedules, executions): (i64, i64) = (row.get(0), row.get(1));
    let (latest, late, seconds): (f64, f64, f64) = (row.get(2), row.get(3), row.get(4));
    println!(
        "{executions} executions of {schedules} healthy schedules in {seconds:.1} s, half of them at most {:.0} ms late, the latest {:.0} ms",
        late * 1000.0,
        latest * 1000.0
    );
    assert_eq!(schedules, HEALTHY);
    // Whoever shares a bad one's fate waits for as long as that is put off: for seconds, and longer each time.
    assert!(late < 0.5, "half of the healthy ones fired {late} s late");
}

fn now(db: &mut Client) -> String {
    one(db, "select clock_timestamp()::text")
}

#[test]
fn a_schedule_that_cannot_be_read_is_parked() {
    let (cluster, mut db) = start();
    let spoilt = now(&mut db);
    for (column, value) in [("clock", "garbage"), ("time_zone", "Mars/Olympus"), ("job_name", "nobody's")] {
        let logged = cluster.logged("is parked").len();
        let before: String = one(&mut db, &format!("select {column} from sched.schedule where schedule_name = 'bad'"));
        db.execute(&format!("update sched.schedule set {column} = $1 where schedule_name = 'bad'"), &[&value]).unwrap();
        wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'bad'", SOON);
        let reason: String = one(&mut db, "select last_error from sched.schedules where schedule_name = 'bad'");
        assert!(reason.contains(value), "the reason names the fault: {reason}");
        let fired: i64 = one(&mut db, "select count(*) from sched.execution where schedule_name = 'bad'");
        let state = stays("the parked schedule", Duration::from_millis(1500), || {
            let state: String = one(&mut db, "select state from sched.schedules where schedule_name = 'bad'");
            (state, one::<i64>(&mut db, "select count(*) from sched.execution where schedule_name = 'bad'"))
        });
        assert_eq!(state, ("parked".to_owned(), fired));
        let lines = cluster.logged("is parked");
        assert_eq!(lines.len(), logged + 1, "one line each: {lines:#?}");
        // Put right again it goes on.
        db.execute(&format!("update sched.schedule set {column} = $1 where schedule_name = 'bad'"), &[&before])
            .unwrap();
        wait_for(&mut db, &format!("select count(*) > {fired} from sched.execution where schedule_name = 'bad'"), SOON);
        wait_for(&mut db, "select state = 'armed' and error_count = 0 and last_error is null from sched.schedules where schedule_name = 'bad'", SOON);
    }
    healthy(&mut db, &spoilt);
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
}

#[test]
fn a_stale_run_that_cannot_be_ended_keeps_no_other_waiting() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job', max_attempts => 2, retry_backoff => '{1h}');
         create table claimed as
             select t.* from generate_series(1, 21) as i,
                    sched.try_claim('job', date_trunc('hour', now()), scope_id => i::text, stale_timeout => '1 second') as t;
         alter table sched.ledger add constraint no_end check (scope_id <> '11' or status = 'PENDING')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 20 from sched.execution where status = 'FAILED'", SOON);
    let late: f64 = one(
        &mut db,
        "select extract(epoch from max(e.finished_at - c.stale_after))::float8
           from sched.execution e join claimed c on c.execution_id = e.id",
    );
    assert!(late < 5.0, "a stale run was ended {late} s late");
    assert_eq!(one::<String>(&mut db, "select status from sched.execution where scope_id = '11'"), "RUNNING");
    let lines = cluster.logged("no_end").iter().filter(|line| line.contains("could not be ended")).count();
    assert!((1..4).contains(&lines), "{lines} lines about the bad one");
    // Put right, it ends as well.
    db.batch_execute("alter table sched.ledger drop constraint no_end").unwrap();
    wait_for(&mut db, "select count(*) = 21 from sched.execution where status = 'FAILED'", SOON);
}

#[test]
fn a_schedule_that_cannot_be_fired_is_tried_again_with_backoff() {
    let (cluster, mut db) = start();
    // Each failure is noted when it is written down: whoever only looks from time to time may miss one.
    db.batch_execute(&format!(
        "create table failures (errors int, wait float8);
         create function note() returns trigger language plpgsql as $$
         begin
             insert into public.failures values (new.error_count, extract(epoch from new.fire_at - clock_timestamp()));
             return null;
         end $$;
         create trigger note after update on {TIMER_TABLE} for each row when (new.error_count > old.error_count)
             execute function public.note();
         alter table sched.ledger add constraint no_poison check (not payload ? 'poison') not valid"
    ))
    .unwrap();
    let spoilt = now(&mut db);
    let bad = "from sched.schedules where schedule_name = 'bad'";
    for (failures, wait) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
        wait_for(&mut db, &format!("select count(*) > 0 from failures where errors = {failures}"), SOON);
        let next: f64 = one(&mut db, &format!("select wait from failures where errors = {failures}"));
        assert!(
            next <= wait && next > wait - 0.9,
            "after failure {failures} it is tried again in {next} s, not {wait}"
        );
        assert_eq!(one::<String>(&mut db, &format!("select state {bad}")), "failing");
        let reason: String = one(&mut db, &format!("select last_error {bad}"));
        assert!(reason.contains("no_poison"), "{reason}");
    }
    let lines: Vec<_> = cluster.logged("no_poison");
    assert_eq!(
        lines.iter().filter(|line| !line.contains("STATEMENT")).count(),
        1,
        "one line, not one a try: {lines:#?}"
    );
    healthy(&mut db, &spoilt);

    // Put right it goes on with the next try; the missed plans become one execution.
    let mended = now(&mut db);
    db.batch_execute("alter table sched.ledger drop constraint no_poison").unwrap();
    wait_for(&mut db, &format!("select state = 'armed' and error_count = 0 and last_error is null {bad}"), SOON);
    let fired = format!("from sched.execution where schedule_name = 'bad' and plan_time > '{spoilt}'");
    wait_for(&mut db, &format!("select count(*) > 1 {fired}"), SOON);
    let missed: i64 = one(&mut db, &format!("select count(*) {fired} and plan_time <= '{mended}'"));
    assert!(missed <= 1, "{missed} executions for what was missed");
}

/// What a superuser's trigger refuses only at the end of the transaction is found alone all the same.
#[test]
fn a_schedule_whose_commit_fails_keeps_no_other_waiting() {
    let (cluster, mut db) = start();
    db.batch_execute(
        "create function poisoned() returns trigger language plpgsql as $$ begin raise exception 'poisoned at the end'; end $$;
         create constraint trigger poisoned after insert on sched.ledger deferrable initially deferred
             for each row when (new.payload ? 'poison') execute function poisoned()",
    )
    .unwrap();
    wait_for(
        &mut db,
        "select last_error like '%poisoned at the end%' from sched.schedules where schedule_name = 'bad'",
        SOON,
    );
    let since = now(&mut db);
    wait_for(&mut db, &format!("select count(*) > 200 from sched.execution where plan_time > '{since}'"), SOON);
    healthy(&mut db, &since);
    assert_eq!(cluster.logged("poisoned at the end").len(), 1, "{:#?}", cluster.logged("poisoned"));
    db.batch_execute("drop trigger poisoned on sched.ledger").unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'bad'", SOON);
}

/// A look at what comes next that fails says so with growing pauses, whatever is committed meanwhile; what is due fires.
#[test]
fn a_look_that_fails_is_no_flood_and_stops_no_fire() {
    let (cluster, mut db) = start();
    db.batch_execute(&format!("alter table {LEASE_TABLE} rename column sweep_at to sweep")).unwrap();
    wait_until("the look to fail", SOON, || {
        (!cluster.logged("looking for what is next failed").is_empty()).then_some(())
    });
    let since = now(&mut db);
    for _ in 0..200 {
        db.batch_execute("select sched.alter_schedule('bad', payload => '{}')").unwrap();
    }
    wait_for(&mut db, &format!("select count(*) > 200 from sched.execution where plan_time > '{since}'"), SOON);
    let said = cluster.logged("looking for what is next failed").len();
    assert!(said < 10, "{said} lines");
    db.batch_execute(&format!("alter table {LEASE_TABLE} rename column sweep to sweep_at")).unwrap();
    wait_for(&mut db, "select count(*) = 0 from sched.schedule_change", SOON);
}

#[test]
fn a_change_that_cannot_be_applied_keeps_no_other_waiting() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('bad', 'every 1 second', 'job');
         select sched.create_schedule('good', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) = 2 from sched.schedules where state = 'armed'", SOON);
    let id: i64 = one(&mut db, "select schedule_id from sched.schedule where schedule_name = 'bad'");
    db.batch_execute(&format!(
        "alter table {TIMER_TABLE} add constraint no_arm check (schedule_id <> {id} or version = 1) not valid"
    ))
    .unwrap();
    // One commit, so one batch: the bad one in the middle.
    db.batch_execute(
        "begin;
         select sched.create_schedule('before ' || i, 'every 1 hour', 'job') from generate_series(1, 20) as i;
         select sched.alter_schedule('bad', clock => 'every 2 days');
         select sched.create_schedule('after ' || i, 'every 1 hour', 'job') from generate_series(1, 20) as i;
         commit",
    )
    .unwrap();
    wait_for(
        &mut db,
        "select count(*) = 40 from sched.schedules where state = 'armed' and schedule_name similar to '(before|after)%'",
        SOON,
    );
    wait_for(&mut db, "select failures >= 2 from sched.schedule_change", SOON);
    assert_eq!(one::<String>(&mut db, "select state from sched.schedules where schedule_name = 'bad'"), "arming");
    let lines = cluster.logged("no_arm").iter().filter(|line| line.contains("could not be armed")).count();
    assert_eq!(lines, 1, "one line, not one a try");
    // The timer that it has from before the edit falls due, cannot be made anew either, and delays nobody.
    wait_for(&mut db, &format!("select error_count >= 2 from {TIMER} t where schedule_id = {id}"), SOON);
    let now: String = one(&mut db, "select clock_timestamp()::text");
    let fires_on =
        format!("select count(*) > 5 from sched.execution where schedule_name = 'good' and plan_time > '{now}'");
    wait_for(&mut db, &fires_on, SOON);
    // While it waits for its next try the others' changes are applied at once.
    db.batch_execute("select sched.create_schedule('later', 'every 1 hour', 'job')").unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'later'", SOON);
    // Put right, it is armed with its next try.
    db.batch_execute(&format!("alter table {TIMER_TABLE} drop constraint no_arm")).unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'bad'", SOON);
    // The step that fires may have armed it, before the turn of the change has come.
    wait_for(&mut db, "select count(*) = 0 from sched.schedule_change", SOON);
}

#[test]
fn a_schedule_that_is_parked_while_its_job_is_put_right_goes_on() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    for (name, spoil) in
        [("dropped", "drop role dropped"), ("deleted", "delete from sched.job where job_name = 'deleted'")]
    {
        db.batch_execute(&format!(
            "create role {name}; select sched.grant_use('{name}'); set role {name}; select sched.define_job('{name}');
             select sched.create_schedule('{name}', 'every 300 milliseconds', '{name}'); reset role;
             select sched.revoke_all('{name}')"
        ))
        .unwrap();
        wait_for(&mut db, &format!("select state = 'armed' from sched.schedules where schedule_name = '{name}'"), SOON);
        switch_off(&cluster, &mut db);
        wait_for(&mut db, &format!("select fire_at < now() from {TIMER} t join sched.schedule using (schedule_id) where schedule_name = '{name}'"), SOON);
        db.batch_execute(spoil).unwrap();
        let mut late = cluster.connect();
        late.batch_execute(&format!("begin; select sched.define_job('{name}')")).unwrap();
        cluster.set("sched.enabled", "on");
        wait_for(
            &mut db,
            &format!("select state = 'parked' from sched.schedules where schedule_name = '{name}'"),
            SOON,
        );
        late.batch_execute("commit").unwrap();
        wait_for(&mut db, &format!("select state = 'armed' from sched.schedules where schedule_name = '{name}'"), SOON);
        let since: String = one(&mut db, "select clock_timestamp()::text");
        let fires = format!(
            "select count(*) > 0 from sched.execution where schedule_name = '{name}' and plan_time > '{since}'"
        );
        wait_for(&mut db, &fires, SOON);
    }
}
