//! A wall clock that was wrong for a while: what was written by it keeps no schedule silent once somebody has begun it anew.

use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::proc::{backends, freeze, kill, Signal};
use scheduler_cluster_tests::scheduler::{one, switch_off, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};

const DAY: i64 = 86_400;
const TOLD: &str = "the clock was set back by";

/// What a superuser reads who makes all timers anew.
fn rebuild(cluster: &Cluster) -> String {
    text(&cluster.psql("postgres", "postgres").args(["-At", "-c", "select sched.rebuild()"]).output().unwrap())
}

/// Every schedule whose first plan is more than an hour away, though each has one in less than a second.
fn silent(db: &mut Client) -> String {
    let query = "select coalesce(string_agg(schedule_name, ' ' order by schedule_name), '') from sched.schedules
                  where state <> 'armed' or next_plan_time > clock_timestamp() + interval '1 hour'";
    one(db, query)
}

/// A schedule fires since this moment, and fired nothing of what came before; each plan time that has come has one verdict, which the views share.
fn fires_since(db: &mut Client, name: &str, times: i32, moment: &str) {
    let fired = format!(
        "from sched.execution where schedule_name = '{name}' and origin = 'schedule' and created_at between '{moment}' and clock_timestamp() + interval '1 hour'"
    );
    wait_for(db, &format!("select count(*) >= {times} {fired}"), SOON);
    let early: i64 = one(db, &format!("select count(*) {fired} and plan_time <= '{moment}'"));
    assert_eq!(early, 0, "{name}: nothing of what came before fires");
    let until: String = one(db, &format!("select max(plan_time)::text {fired}"));
    let told = format!(
        "select coalesce(string_agg(distinct verdict || coalesce(' ' || reason, ''), ', '), '') from sched.schedule s, sched.explain(schedule_name, greatest(defined_at, '{moment}'), '{until}')
          where schedule_name = '{name}' and verdict <> 'fired' and (verdict, coalesce(reason, '')) not in (('skipped', 'missed'), ('skipped', 'overlap'))"
    );
    assert_eq!(one::<String>(db, &told), "", "{name}");
    let both = format!(
        "select count(*) from sched.skipped k join sched.execution e using (schedule_name)
          where schedule_name = '{name}' and e.plan_time between k.plan_from and k.plan_to and e.created_at >= '{moment}'"
    );
    assert_eq!(one::<i64>(db, &both), 0, "{name}: skipped and fired");
    let ahead =
        format!("select count(*) from sched.skipped where schedule_name = '{name}' and plan_to > clock_timestamp()");
    assert_eq!(one::<i64>(db, &ahead), 0, "{name}: skipped before it came");
}

/// What health says of schedules.
fn health(db: &mut Client) -> String {
    one(db, "select severity || ': ' || message from sched.health() where component = 'schedules'")
}

/// What was only skipped while the clock was ahead is in no execution: the dispatcher has seen it.
#[test]
fn health_names_schedules_that_only_skipped_while_the_clock_was_ahead() {
    let cluster = Cluster::builder().with_a_clock_to_set().set("sched.tick_interval", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('skips', 'every 100 milliseconds', 'job', overlap => 'skip')").unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.execution", SOON);
    wait_for(&mut db, "select count(*) > 0 from sched.skipped where reason = 'overlap'", SOON);
    assert_eq!(health(&mut db), "ok: none is parked or fails, and no alert is open");
    cluster.set_clock(DAY);
    wait_for(
        &mut db,
        &format!("select cursor_at > created_at + interval '23 hours' from {TIMER} t join sched.schedule using (schedule_id)"),
        SOON,
    );
    cluster.set_clock(0);
    wait_until("the dispatcher to tell", SOON, || (!cluster.logged(TOLD).is_empty()).then_some(()));
    let says = health(&mut db);
    assert!(
        says.contains(r#"1 schedule lies ahead of the clock and may fire nothing until it gets there: "skips""#),
        "{says}"
    );
    // The clock gets there.
    cluster.set_clock(DAY);
    wait_until("health to say nothing", SOON, || (!health(&mut db).contains("ahead of the clock")).then_some(()));
}

/// Timers made anew are what they were, but for what a dispatcher has still to hear of.
fn rebuilt_alike(cluster: &Cluster, db: &mut Client) {
    switch_off(cluster, db);
    let timers = &format!("select string_agg(concat_ws(' ', schedule_id, version, next_plan_time, buffered_plan, waiting, parked), E'\n' order by schedule_id)
                    from {TIMER} t where schedule_id not in (select schedule_id from sched.schedule_change)");
    let before: String = one(db, timers);
    db.batch_execute(REBUILT_TIMERS).unwrap();
    assert_eq!(one::<String>(db, timers), before);
}

/// A server with schedules of each kind, whose clock is a day ahead and is then set right: what was created, altered, paused, resumed and fired
/// meanwhile is silent.
fn after_a_day_ahead() -> (Cluster, Client) {
    let cluster = Cluster::builder().with_a_clock_to_set().set("sched.tick_interval", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'), sched.define_job('done', 'log');
         select sched.create_schedule('chained', 'every 100 milliseconds', 'done', rearm => 'on_terminal'),
                sched.create_schedule('skips', 'every 100 milliseconds', 'job', overlap => 'skip', starts_at => '2020-01-01');
         select sched.create_schedule(name, 'every 100 milliseconds', 'job', catch_up => case name when 'each' then 'every_plan' else 'latest_only' end,
                                      catch_up_window => case name when 'each' then interval '2 seconds' end)
           from unnest('{altered,each,fired,paused,resumed}'::text[]) name",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 7 from sched.execution", SOON);
    cluster.set_clock(DAY);
    db.batch_execute(
        "select sched.create_schedule('created', 'every 100 milliseconds', 'job'), sched.alter_schedule('altered', 'every 200 milliseconds'),
                sched.pause('paused'), sched.pause('resumed')",
    )
    .unwrap();
    db.batch_execute("select sched.resume('resumed')").unwrap();
    let fired = "select count(distinct schedule_name) = 6 from sched.execution
                  where plan_time > clock_timestamp() - interval '1 hour' and schedule_name <> 'paused'";
    wait_for(&mut db, fired, SOON);
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    cluster.set_clock(0);
    wait_until("the dispatcher to tell", SOON, || (!cluster.logged(TOLD).is_empty()).then_some(()));
    (cluster, db)
}

#[test]
fn an_edit_begins_anew_what_a_clock_that_was_ahead_has_silenced() {
    let (cluster, mut db) = after_a_day_ahead();
    let told = cluster.logged(TOLD);
    assert!(told.len() == 1 && told[0].contains("; 7 schedules of database \"postgres\" "), "{told:#?}");
    assert_eq!(silent(&mut db), "altered chained created each fired paused resumed skips");
    // So says health, to each role of its own schedules, until nothing lies ahead any more.
    let says = health(&mut db);
    assert!(says.starts_with("warning: the clock was set back: 7 schedules lie ahead of the clock"), "{says}");
    assert!(
        says.contains(r#""altered", "chained", "created", "each", "fired", … (the last of them is silent until "#),
        "{says}"
    );
    assert!(one::<bool>(&mut db, "select sched.healthy()"), "nothing is due");
    db.batch_execute("create role user_of_it; select sched.grant_use('user_of_it'); set role user_of_it").unwrap();
    let says = health(&mut db);
    assert!(says.contains("7 schedules lie ahead") && !says.contains("altered"), "{says}");
    db.batch_execute("reset role").unwrap();
    // Who makes the timers anew is told what is the matter, and changes nothing.
    let said = rebuild(&cluster);
    assert!(said.contains("WARNING") && said.contains("7 schedules lie ahead of the clock"), "{said}");
    assert!(said.contains(r#""altered", "chained", "created", "each", "fired", …"#) && said.contains("HINT"), "{said}");
    assert_eq!(silent(&mut db), "altered chained created each fired paused resumed skips");

    let moment: String = one(&mut db, "select clock_timestamp()::text");
    db.batch_execute(
        "select sched.alter_schedule('altered', payload => '[1]'), sched.alter_schedule('created', delay => '0'), sched.resume('paused'),
                sched.alter_schedule('each', catch_up_window => '1 minute'), sched.alter_schedule('fired', payload => '[2]')",
    )
    .unwrap();
    db.batch_execute("select sched.pause('resumed'), sched.alter_schedule('chained', payload => '[3]'), sched.alter_schedule('skips', jitter => '0')").unwrap();
    db.batch_execute(
        "select sched.resume('resumed'); select sched.cancel(id) from sched.execution where schedule_name = 'skips'",
    )
    .unwrap();
    fires_since(&mut db, "skips", 1, &moment);
    for name in ["altered", "chained", "created", "each", "fired", "paused", "resumed"] {
        fires_since(&mut db, name, 4, &moment);
    }
    // (One that goes on when its run has ended may be waiting for that at any moment.)
    wait_until("no schedule to be silent", SOON, || silent(&mut db).is_empty().then_some(()));
    let said = rebuild(&cluster);
    assert!(!said.contains("WARNING"), "{said}");
    assert!(!health(&mut db).contains("ahead of the clock"), "{}", health(&mut db));
    rebuilt_alike(&cluster, &mut db);
    assert_eq!(cluster.logged(TOLD).len(), 1);
}

#[test]
fn adopting_begins_anew_what_a_clock_that_was_ahead_has_silenced() {
    let (cluster, mut db) = after_a_day_ahead();
    // A server that starts with the right clock has not seen it set back.
    db.batch_execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'scheduler dispatcher'",
    )
    .unwrap();
    let told = "7 schedules of database \"postgres\" lie ahead of the clock";
    wait_until("the next dispatcher to tell", SOON, || (cluster.logged(told).len() == 2).then_some(()));
    let moment: String = one(&mut db, "select clock_timestamp()::text");
    db.batch_execute("select sched.adopt()").unwrap();
    for name in ["altered", "chained", "created", "each", "fired", "resumed"] {
        fires_since(&mut db, name, 4, &moment);
    }
    assert_eq!(one::<String>(&mut db, "select state from sched.schedules where schedule_name = 'paused'"), "paused");
    assert!(!rebuild(&cluster).contains("WARNING"));
    rebuilt_alike(&cluster, &mut db);
}

/// What failed while the clock was ahead rests as long as after any failure, not until that time comes.
#[test]
fn what_failed_while_the_clock_was_ahead_is_tried_again() {
    let cluster = Cluster::builder().with_a_clock_to_set().set("sched.tick_interval", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s', 'every 1 second', 'job', payload => '[1]'), sched.create_schedule('edited', 'every 1 second', 'job');
         alter table sched.ledger add constraint sweet check (payload <> '[1]') not valid",
    )
    .unwrap();
    let failing = |count| format!("select error_count >= {count} from sched.schedules where schedule_name = 's'");
    wait_for(&mut db, &failing(1), SOON);
    cluster.set_clock(DAY);
    wait_for(&mut db, "select next_fire_at > clock_timestamp() from sched.schedules where schedule_name = 's'", SOON);
    db.batch_execute(
        "insert into sched.schedule_change (schedule_id, failures, retry_at)
         select schedule_id, 3, clock_timestamp() + interval '4 seconds' from sched.schedule where schedule_name = 'edited'",
    )
    .unwrap();
    cluster.set_clock(0);
    wait_until("the dispatcher to tell", SOON, || (!cluster.logged(TOLD).is_empty()).then_some(()));
    db.batch_execute("alter table sched.ledger drop constraint sweet").unwrap();
    wait_for(&mut db, "select exists (select from sched.execution where schedule_name = 's')", SOON * 2);
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
}

/// What ran while the clock was ahead does not run again when that time comes.
#[test]
fn what_ran_while_the_clock_was_ahead_runs_once() {
    let cluster = Cluster::builder().with_a_clock_to_set().set("sched.tick_interval", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s', 'every 1 second', 'job', catch_up => 'every_plan', max_plans_per_tick => 10000)",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    cluster.set_clock(3600);
    wait_for(&mut db, "select max(plan_time) > clock_timestamp() - interval '2 seconds' from sched.execution", SOON);
    let until: String = one(&mut db, "select max(plan_time)::text from sched.execution");
    cluster.set_clock(0);
    wait_until("the dispatcher to tell", SOON, || (!cluster.logged(TOLD).is_empty()).then_some(()));
    let before: i64 = one(&mut db, "select count(*) from sched.ledger");
    db.batch_execute("select sched.alter_schedule('s', payload => '[]')").unwrap();
    wait_for(&mut db, &format!("select min(next_plan_time) between clock_timestamp() and clock_timestamp() + interval '2 seconds' from {TIMER} t"), SOON);
    let now: i64 = one(&mut db, "select count(*) from sched.ledger");
    assert_eq!(now, before, "all of them ran");
    cluster.set_clock(3600);
    wait_for(&mut db, &format!("select max(plan_time) > '{until}' from sched.execution"), SOON);
    whole_grid(&mut db, "s", "1 second");
    wait_for(&mut db, "select state = 'armed' and error_count = 0 from sched.schedules", SOON);
}

/// The same where a hand has written such times, wherever a dispatcher reads one.
#[test]
fn whatever_lies_ahead_of_the_clock_an_edit_begins_anew() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let writes = [
        ("baseline", "update sched.schedule set baseline_at = baseline_at + interval '1 day'"),
        ("defined", "update sched.schedule set defined_at = defined_at + interval '1 day'"),
        ("created", "update sched.schedule set created_at = created_at + interval '1 day', baseline_at = baseline_at + interval '1 day'"),
        ("cursor", &format!("update {TIMER_TABLE} set cursor_at = clock_timestamp() + interval '1 day', next_plan_time = clock_timestamp() + interval '1 day', fire_at = clock_timestamp() + interval '1 day'")),
        ("buffered", &format!("update {TIMER_TABLE} set buffered_plan = clock_timestamp() + interval '1 day', next_plan_time = clock_timestamp() + interval '1 day', fire_at = clock_timestamp() + interval '1 day'")),
        ("state", "insert into sched.timer_state (schedule_id, external_through, redefined_at) select schedule_id, d, d from sched.schedule, (select clock_timestamp() + interval '1 day') v (d)"),
        ("skip", "insert into sched.skip select schedule_id, defined_at, defined_at + interval '1 second', defined_at + interval '1 day', 86400, 'missed' from sched.schedule"),
    ];
    db.batch_execute("select sched.define_job('job')").unwrap();
    for (name, _) in writes {
        db.execute("select sched.create_schedule($1, 'every 1 second', 'job')", &[&name]).unwrap();
    }
    wait_for(&mut db, &format!("select count(distinct schedule_name) = {} from sched.execution", writes.len()), SOON);
    // Timers forget what is in them alone when they are made anew, and know what is beside them only then.
    for timers in [false, true] {
        for (name, write) in
            writes.iter().filter(|(_, write)| write.starts_with(&format!("update {TIMER_TABLE} ")) == timers)
        {
            let table = if write.starts_with("insert") { "sched.schedule" } else { write.split(' ').nth(1).unwrap() };
            let id = format!("(select schedule_id from sched.schedule where schedule_name = '{name}')");
            db.batch_execute(&format!("{write} where {table}.schedule_id = {id}")).unwrap();
        }
        if !timers {
            db.batch_execute("select sched.rebuild()").unwrap();
        }
    }
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    assert_eq!(silent(&mut db), "baseline buffered created cursor skip state");
    let moment: String = one(&mut db, "select clock_timestamp()::text");
    for (name, _) in writes {
        db.execute("select sched.alter_schedule($1, payload => '[]')", &[&name]).unwrap();
    }
    for (name, _) in writes {
        fires_since(&mut db, name, 4, &moment);
    }
    assert!(!rebuild(&cluster).contains("WARNING"));
    rebuilt_alike(&cluster, &mut db);
}

/// Before the clock gets to the server's start again, a dispatcher that hangs is seen.
#[test]
fn health_sees_what_does_not_fire_before_the_server_began() {
    let cluster = Cluster::builder().with_a_clock_to_set().start();
    let mut db = cluster.with_extension("postgres");
    cluster.set_clock(-3600);
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('s', 'every 1 second', 'job')")
        .unwrap();
    wait_for(&mut db, "select count(*) >= 1 from sched.execution", SOON);
    let pid = backends(&mut db, "scheduler dispatcher")[0];
    freeze(pid);
    wait_for(&mut db, "select not sched.healthy()", SOON);
    kill(pid, Signal::CONT);
    wait_for(&mut db, "select sched.healthy()", SOON);
}
