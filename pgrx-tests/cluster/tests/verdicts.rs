//! One verdict for each plan time, the same in every view: what the ledger has was fired, whichever definition's clock said so and
//! whoever put it there, and nothing that was fired is skipped or still to come.

use scheduler_cluster_tests::scheduler::{one, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};

/// What the ledger, explain, sched.skipped and sched.schedules say about the plan times of a schedule up to a moment, where two of them
/// do not agree.
fn contradictions(db: &mut Client, name: &str, until: &str) -> Vec<String> {
    let query = format!(
        "with x as materialized (
             select e.* from sched.schedule s, sched.explain('{name}', s.created_at - interval '1 day', '{until}') e where s.schedule_name = '{name}'
         ), e as materialized (
             select * from sched.execution where schedule_name = '{name}' and plan_time < '{until}' and origin in ('schedule', 'backfill')
         ), k as materialized (
             select * from sched.skipped where schedule_name = '{name}' and plan_from < '{until}'
         )
         select 'fired, which nobody explains: ' || plan_time from e
          where not exists (select from x where x.plan_time = e.plan_time and x.verdict = 'fired' and x.execution_id is not null)
         union all
         select 'explained twice: ' || plan_time from x group by plan_time having count(*) > 1
         union all
         select 'fired and skipped: ' || plan_time || ' ' || reason from e join k on plan_time between plan_from and plan_to
         union all
         select 'skipped in ' || n || ' rows of the view: ' || plan_time || ' ' || reason
           from (select plan_time, x.reason, count(k) as n from x left join k on plan_time between plan_from and plan_to and k.reason = x.reason
                  where verdict = 'skipped' group by plan_time, x.reason) a
          where n <> 1
         union all
         select format('%s skipped of which explain says so of %s', counted, explained)
           from (select (select coalesce(sum(count), 0) from k where plan_to < '{until}'
                            -- what is parked waits
                            and not exists (select from x where x.plan_time between plan_from and plan_to and x.verdict = 'waiting')) as counted,
                        (select count(*) from x where verdict = 'skipped'
                            and not exists (select from k where x.plan_time between plan_from and plan_to and plan_to >= '{until}')) as explained) a
          where counted <> explained
         union all
         select 'no longer known: ' || plan_time from x where verdict = 'forgotten'
         union all
         select format('%s comes next and is %s', n.next_plan_time, x.verdict)
           from sched.schedules n join x on x.plan_time = n.next_plan_time
          where n.schedule_name = '{name}' and x.verdict not in ('due', 'waiting', 'planned')"
    );
    db.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn agree(db: &mut Client, names: &[String], when: &str) {
    let until: String = one(db, "select clock_timestamp()::text");
    for name in names {
        let found = contradictions(db, name, &until);
        assert!(found.is_empty(), "{name} {when}: {found:#?}");
    }
}

/// Dispatches until nothing is due and no edit waits, and a little longer: what is due then is later than all that went before.
fn dispatch(db: &mut Client) {
    let moment: String = one(db, "select clock_timestamp()::text");
    let decided = format!(
        "select not exists (select from {TIMER} t where next_plan_time <= '{moment}') and not exists (select from sched.schedule_change)"
    );
    wait_until("what was due to be dispatched", SOON, || {
        db.batch_execute("select sched.dispatch_due()").unwrap();
        one::<bool>(db, &decided).then_some(())
    });
}

fn timers(db: &mut Client) -> Vec<String> {
    let timers = &format!(
        "select concat_ws(' ', schedule_id, version, next_plan_time, buffered_plan, waiting, last_plan_time)
                    from {TIMER} t order by schedule_id"
    );
    db.query(timers, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// The old clock goes on while the edit is not committed; then the new one holds from the edit on. What the old one has fired stays fired, and
/// what it has passed over meanwhile is none of its plan times any more.
#[test]
fn what_fires_while_an_edit_is_not_committed_has_one_verdict() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    let mut names = Vec::new();
    let mut edits = String::new();
    let policies = [
        ("latest", ""),
        ("each", ", catch_up => 'every_plan'"),
        ("skip", ", overlap => 'skip'"),
        ("buffer", ", overlap => 'buffer_one'"),
        ("terminal", ", rearm => 'on_terminal'"),
    ];
    let changes = [
        ("slower", "clock => 'every 1 second'"),
        ("faster", "clock => 'every 70 milliseconds'"),
        ("double", "clock => 'every 400 milliseconds'"),
        ("never", "clock => 'never'"),
        ("paused", "enabled => false"),
        ("ends", "ends_at => clock_timestamp() + interval '300 milliseconds'"),
        ("external", "ownership => 'external'"),
        ("elsewhere", "clock => 'every 100 milliseconds', scope_id => 'elsewhere'"),
    ];
    for (policy, arguments) in policies {
        for (change, edit) in changes {
            let name = format!("{policy} {change}");
            db.batch_execute(&format!(
                "select sched.create_schedule('{name}', 'every 200 milliseconds', 'job', scope_kind => '{policy}'{arguments})"
            ))
            .unwrap();
            edits.push_str(&format!("select sched.alter_schedule('{name}', {edit});"));
            names.push(name);
        }
    }
    db.batch_execute("select sched.dispatch_due()").unwrap();
    let mut editor = cluster.connect();
    for end in ["rollback", "commit"] {
        editor.batch_execute(&format!("begin; {edits}")).unwrap();
        let since: String = one(&mut editor, "select max(defined_at)::text from sched.schedule");
        let ahead = format!(
            "select count(*) = 40
               from (select schedule_name from sched.execution where plan_time > '{since}' and schedule_name !~ '^skip' group by schedule_name having count(*) > 3
                     union all
                     select schedule_name from {TIMER} t join sched.schedule using (schedule_id)
                      where cursor_at > timestamptz '{since}' + interval '1 second' and schedule_name ~ '^skip') s"
        );
        wait_until("fires of the old clock", SOON, || {
            db.batch_execute(
                "select sched.dispatch_due();
                 select sched.cancel(id) from sched.execution
                  where schedule_name ~ '^(buffer|terminal)' and created_at < clock_timestamp() - interval '500 milliseconds'",
            )
            .unwrap();
            one::<bool>(&mut db, &ahead).then_some(())
        });
        agree(&mut db, &names, "while the edit is open");
        editor.batch_execute(end).unwrap();
        agree(&mut db, &names, &format!("after {end}"));
        dispatch(&mut db);
        agree(&mut db, &names, &format!("after {end}, and dispatched"));
    }
    let before = timers(&mut db);
    db.batch_execute(REBUILT_TIMERS).unwrap();
    assert_eq!(timers(&mut db), before);
    agree(&mut db, &names, "with timers made anew");
    // Also once that definition is over, and with the end of the runs.
    let resume: String = names
        .iter()
        .map(|name| {
            format!("select sched.alter_schedule('{name}', clock => 'every 300 milliseconds', enabled => true);")
        })
        .collect();
    db.batch_execute(&resume).unwrap();
    agree(&mut db, &names, "after another edit");
    db.batch_execute("select sched.cancel(id) from sched.execution").unwrap();
    dispatch(&mut db);
    agree(&mut db, &names, "after another edit, and dispatched");
}

/// A clock so fast that some plan time always passes between an edit and its commit.
#[test]
fn edits_of_a_fast_clock_leave_no_contradiction() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 4 milliseconds', 'job');
         select sched.create_schedule('e', 'every 4 milliseconds', 'job', catch_up => 'every_plan')",
    )
    .unwrap();
    let names = ["s".to_owned(), "e".to_owned()];
    let mut editor = cluster.connect();
    for round in 0..120 {
        let clock = ["every 4 milliseconds", "every 5 milliseconds", "every 6 milliseconds", "every 10 milliseconds"]
            [round % 4];
        let before: i64 = one(&mut db, "select count(*) from sched.execution");
        editor
            .batch_execute(&format!(
                "select sched.alter_schedule(name, clock => '{clock}') from unnest('{{s,e}}'::text[]) name"
            ))
            .unwrap();
        wait_for(&mut db, &format!("select count(*) > {before} from sched.execution"), SOON);
    }
    switch_off(&cluster, &mut db);
    dispatch(&mut db);
    agree(&mut db, &names, "after 120 edits");
}

/// Runs of plan times that did not run, in which some are fired afterwards, by the schedule's owner or by a client in its scope.
#[test]
fn what_is_made_up_for_is_no_longer_skipped() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'), sched.define_job('gone');
         select sched.create_schedule('missed', 'every 100 milliseconds', 'job'), sched.create_schedule('paused', 'every 100 milliseconds', 'job', enabled => false),
                sched.create_schedule('parked', 'every 100 milliseconds', 'gone'), sched.create_schedule('overlap', 'every 100 milliseconds', 'job', overlap => 'skip'),
                sched.create_schedule('cron', '* * * * * *', 'job');
         select sched.dispatch_due(); delete from sched.job where job_name = 'gone'",
    )
    .unwrap();
    let names = ["missed", "paused", "parked", "overlap", "cron"].map(str::to_owned);
    wait_for(&mut db, "select max(created_at) < clock_timestamp() - interval '3 seconds' from sched.schedule", SOON);
    dispatch(&mut db);
    agree(&mut db, &names, "at first");
    let skips = "select count(*) from sched.skipped where schedule_name = 'missed' and reason = 'missed'";
    let rows: i64 = one(&mut db, skips);
    let counted = "select sum(count)::bigint from sched.skipped where schedule_name = 'missed'";
    let count: i64 = one(&mut db, counted);
    // A client's claim of one plan time, of one that is none, and of the last of a run; five that are made up for.
    db.batch_execute(
        "select sched.try_claim(job_name, created_at + n * interval '100 milliseconds', scope_kind, scope_id)
           from sched.schedule, unnest('{3,4.5}'::float[]) n where schedule_name <> 'parked'",
    )
    .unwrap();
    agree(&mut db, &names, "with claims");
    assert_eq!(one::<i64>(&mut db, skips), rows + 1);
    assert_eq!(one::<i64>(&mut db, counted), count - 1);
    db.batch_execute(
        "select sched.backfill(schedule_name, created_at + interval '1 second', created_at + interval '1450 milliseconds')
           from sched.schedule where schedule_name <> 'parked'",
    )
    .unwrap();
    agree(&mut db, &names, "with what was made up for");
    assert_eq!(one::<i64>(&mut db, skips), rows + 2);
    assert_eq!(one::<i64>(&mut db, counted), count - 6);
    db.batch_execute("select sched.resume('paused'), sched.alter_schedule('parked', job_name => 'job')").unwrap();
    db.batch_execute(
        "select sched.backfill('parked', created_at, created_at + interval '1 second') from sched.schedule where schedule_name = 'parked'",
    )
    .unwrap();
    agree(&mut db, &names, "resumed");
    dispatch(&mut db);
    agree(&mut db, &names, "resumed and dispatched");
    // All of a run; and what there was before there was a schedule.
    db.batch_execute(
        "select sched.backfill(schedule_name, created_at - interval '10 seconds', created_at + interval '2 seconds') from sched.schedule",
    )
    .unwrap();
    agree(&mut db, &names, "with all made up for");
    let before: i64 = one(
        &mut db,
        "select count(*) from sched.schedule s, sched.explain('cron', created_at - interval '10 seconds', created_at) where schedule_name = 'cron'",
    );
    assert_eq!(before, 10);
    dispatch(&mut db);
    let before = timers(&mut db);
    db.batch_execute(REBUILT_TIMERS).unwrap();
    assert_eq!(timers(&mut db), before);
}

/// What comes next is not what somebody has just seen to.
#[test]
fn a_plan_that_was_fired_does_not_come_next() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create role app login; select sched.grant_use('app');
         select sched.define_job('job'); select sched.create_schedule('s', 'every 1 second', 'job', delay => '1 hour', jitter => '1 hour');
         select sched.create_schedule('hour', 'every 1 hour', 'job', delay => '10 minutes');
         select sched.create_schedule('last', 'every 1 hour', 'job', ends_at => now() + interval '90 minutes'); select sched.dispatch_due()",
    )
    .unwrap();
    let names = ["s", "hour", "last"].map(str::to_owned);
    let plan = |db: &mut Client, name: &str, what: &str| -> Option<String> {
        let query = format!(
            "select ({what})::text from sched.schedules s join sched.schedule d using (schedule_name) where schedule_name = '{name}'"
        );
        one(db, &query)
    };
    let hours = "s.next_plan_time - d.created_at || ' ' || (s.next_fire_at - d.created_at)";
    assert_eq!(plan(&mut db, "hour", hours).unwrap(), "01:00:00 01:10:00");
    // A client runs the next two of its own accord.
    let claim = "select sched.try_claim(job_name, created_at + n * interval '1 hour', scope_kind, scope_id)
                   from sched.schedule, unnest('{1,2,4}'::int[]) n where schedule_name in ('hour', 'last')";
    db.batch_execute(&format!("begin; {claim}")).unwrap();
    assert_eq!(plan(&mut db, "hour", hours).unwrap(), "03:00:00 03:10:00");
    db.batch_execute("rollback").unwrap();
    assert_eq!(plan(&mut db, "hour", hours).unwrap(), "01:00:00 01:10:00");
    db.batch_execute(claim).unwrap();
    assert_eq!(plan(&mut db, "hour", hours).unwrap(), "03:00:00 03:10:00");
    assert_eq!(plan(&mut db, "last", hours), None);
    assert_eq!(plan(&mut db, "last", "s.state").unwrap(), "armed", "the dispatcher will find out");
    let mut app = cluster.connect_as("app", "postgres");
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules"), 0);
    // Whom somebody lets into the schema by hand is told no more.
    db.batch_execute("grant usage on schema sched_internal to app").unwrap();
    let next = "select (sched_internal.next_open('hour'))[1]::text";
    assert_eq!(one::<Option<String>>(&mut app, next), None, "of another's schedule");
    assert!(one::<Option<String>>(&mut db, next).is_some());
    // A plan that is due, and was made up for.
    wait_for(&mut db, "select next_plan_time < clock_timestamp() - interval '1 second' from sched.schedules where schedule_name = 's'", SOON);
    let due: String = plan(&mut db, "s", "s.next_plan_time").unwrap();
    db.batch_execute(
        "select sched.backfill('s', created_at, clock_timestamp()) from sched.schedule where schedule_name = 's'",
    )
    .unwrap();
    let after: bool = one(
        &mut db,
        &format!("select next_plan_time > '{due}' and next_plan_time = (select max(plan_time) from sched.execution where schedule_name = 's') + interval '1 second'
                     and next_fire_at between next_plan_time and next_plan_time + interval '1 second' from sched.schedules where schedule_name = 's'"),
    );
    assert!(after);
    agree(&mut db, &names, "after the backfill");
    dispatch(&mut db);
    agree(&mut db, &names, "dispatched");
}
