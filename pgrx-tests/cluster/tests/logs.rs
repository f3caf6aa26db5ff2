//! What a DBA sees of the workers: few lines in the log, their state in pg_stat_activity, and their tables in the statistics.

use scheduler_cluster_tests::scheduler::{begin_endless_statement, dispatcher, one, rest, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster, Shutdown};
use std::time::Duration;

/// The lines of our processes since the server was started, without their prefix.
fn lines(cluster: &Cluster) -> Vec<String> {
    let ours = |line: &str| line.split_once("scheduler: ").map(|(_, text)| text.to_owned());
    cluster.log().lines().filter_map(ours).collect()
}

#[test]
fn one_line_each_at_start_stop_park_and_unpark_and_none_for_a_tick() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s', 'every 100 milliseconds', 'job');
         select sched.create_schedule('bad', 'every 1 hour', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 10 from sched.execution", SOON);
    db.batch_execute("update sched.schedule set time_zone = 'Mars/Olympus' where schedule_name = 'bad'").unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'bad'", SOON);
    // An edit that does not put it right says nothing new.
    db.batch_execute("update sched.schedule set payload = '[]' where schedule_name = 'bad'").unwrap();
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    db.batch_execute("select sched.alter_schedule('bad', time_zone => 'Europe/Berlin')").unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'bad'", SOON);
    // Pausing and resuming a schedule that is not parked says nothing.
    db.batch_execute("select sched.pause('bad'); select sched.resume('bad'); select sched.pause('s')").unwrap();
    rest(&mut db);
    drop(db);
    cluster.stop(Shutdown::Fast);
    // When the launcher stops is another matter: it may be listing the databases then, and end as any backend does.
    let mut lines = lines(&cluster);
    lines.retain(|line| line != "launcher stopped");
    assert_eq!(
        lines,
        [
            "launcher started".to_owned(),
            "dispatcher for database \"postgres\" started".to_owned(),
            "schedule \"bad\" of database \"postgres\" is parked: time zone \"Mars/Olympus\" is not known to the server".to_owned(),
            "schedule \"bad\" of database \"postgres\" is no longer parked".to_owned(),
            "dispatcher for database \"postgres\" stopped".to_owned(),
        ],
        "{}",
        cluster.log()
    );
}

/// A schedule that is due when its edit is committed is armed anew by the step that fires, before the edit's turn comes.
#[test]
fn a_due_schedule_that_an_edit_parks_has_its_line_too() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.execution", SOON);
    cluster.set("sched.enabled", "off");
    let off = "select query = 'switched off by sched.enabled' from pg_stat_activity where backend_type = 'scheduler dispatcher'";
    wait_for(&mut db, off, SOON);
    db.batch_execute("update sched.schedule set time_zone = 'Mars/Olympus'").unwrap();
    wait_for(&mut db, &format!("select fire_at < clock_timestamp() from {TIMER} t"), SOON);
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select state = 'parked' from sched.schedules", SOON);
    rest(&mut db);
    assert_eq!(cluster.logged("is parked: time zone \"Mars/Olympus\"").len(), 1, "{}", cluster.log());
}

/// What could not be written has not happened yet.
#[test]
fn a_schedule_is_said_to_be_parked_when_it_is() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('s', 'every 1 hour', 'job')")
        .unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules", SOON);
    db.batch_execute(&format!("alter table {TIMER_TABLE} add constraint never check (not parked)")).unwrap();
    db.batch_execute("update sched.schedule set time_zone = 'Mars/Olympus'").unwrap();
    wait_for(&mut db, "select count(*) > 0 from sched.schedule_change where failures > 0", SOON);
    assert!(cluster.logged("is parked").is_empty(), "{}", cluster.log());
    db.batch_execute(&format!("alter table {TIMER_TABLE} drop constraint never")).unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules", SOON);
    rest(&mut db);
    assert_eq!(cluster.logged("is parked: time zone \"Mars/Olympus\"").len(), 1, "{}", cluster.log());
}

#[test]
fn log_ticks_says_what_each_tick_did_and_how_long_it_took() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let ticks = || cluster.logged("scheduler: tick in database \"postgres\": ");
    db.batch_execute("select sched.define_job('job', max_attempts => 2, retry_backoff => '{10 milliseconds}'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')").unwrap();
    wait_for(&mut db, "select count(*) > 5 from sched.execution", SOON);
    assert!(ticks().is_empty(), "{:#?}", ticks());

    cluster.set("sched.log_ticks", "on");
    let says = |what: &str| {
        wait_until(what, SOON, || ticks().iter().any(|line| line.contains(what)).then_some(()));
    };
    says("1 due schedules dispatched");
    db.batch_execute("select sched.pause('s')").unwrap();
    says("1 changed schedules applied");
    db.batch_execute("select * from sched.claim('default', max_claims => 1, stale_timeout => '100 milliseconds')")
        .unwrap();
    says("1 stale leases ended");
    says("1 retries offered");
    rest(&mut db);
    for line in ticks() {
        let (_, took) = line.rsplit_once(" in ").unwrap();
        let took: f64 = took.strip_suffix(" ms").unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        assert!(took > 0.0 && took < 10_000.0, "{line}");
    }
    // A wake-up that finds nothing to do is no tick to speak of.
    let before = ticks().len();
    db.batch_execute("select sched_internal.wake_dispatcher()").unwrap();
    rest(&mut db);
    assert_eq!(ticks().len(), before, "{:#?}", ticks());
    cluster.set("sched.log_ticks", "off");
}

/// What pg_stat_activity says of a kind of worker: state and text.
fn activity(db: &mut Client, kind: &str) -> Option<(String, String)> {
    let query = "select state, query from pg_stat_activity where backend_type = $1 order by backend_start desc limit 1";
    let row = db.query_opt(query, &[&kind]).unwrap()?;
    Some((row.get::<_, Option<String>>(0)?, row.get(1)))
}

#[test]
fn pg_stat_activity_shows_what_each_worker_does() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    let shows = |db: &mut Client, kind: &str, state: &str, text: &str| {
        wait_until(&format!("{kind} to be {state}: {text}"), SOON, || {
            activity(db, kind).filter(|(its, query)| its == state && query.starts_with(text))
        })
        .1
    };
    shows(&mut db, "scheduler launcher", "idle", "waiting for databases that lack a dispatcher");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'at 2100-01-01 12:00+00', 'job')",
    )
    .unwrap();
    let text = shows(&mut db, "scheduler dispatcher", "idle", "asleep until ");
    let wakes = text.strip_prefix("asleep until ").unwrap().to_owned();
    let seconds: f64 =
        one(&mut db, &format!("select extract(epoch from timestamptz '{wakes}' - clock_timestamp())::float8"));
    assert!(seconds > 0.0 && seconds <= 60.0, "{text}");
    cluster.set("sched.enabled", "off");
    shows(&mut db, "scheduler dispatcher", "idle", "switched off by sched.enabled");
    cluster.set("sched.enabled", "on");
    begin_endless_statement(&mut db);
    shows(&mut db, "scheduler dispatcher", "active", "dispatching due schedules");
    // Where and as what it runs, as a DBA looks for it.
    let named: bool = one(
        &mut db,
        "select application_name = 'scheduler dispatcher' and datname = 'postgres' and xact_start is not null
           from pg_stat_activity where backend_type = 'scheduler dispatcher'",
    );
    assert!(named);
}

#[test]
fn autovacuum_learns_of_what_the_dispatcher_does() {
    let cluster = Cluster::builder()
        .set("autovacuum_naptime", "1s")
        .set("autovacuum_vacuum_threshold", "20")
        .set("autovacuum_analyze_threshold", "20")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 50 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) >= 60 from sched.execution", SOON);
    // No client has written to these: what is counted is what the dispatcher did.
    let counted = &format!(
        "select (select n_tup_ins >= 50 from pg_stat_user_tables where relid = 'sched.ledger'::regclass)
                      and (select n_tup_ins >= 50 from pg_stat_user_tables where relid = '{READY_TABLE}'::regclass)
                      and (select n_tup_upd >= 50 from pg_stat_user_tables where relid = '{TIMER_TABLE}'::regclass)"
    );
    wait_for(&mut db, counted, SOON);
    let vacuumed =
        &format!("select last_autovacuum is not null from pg_stat_user_tables where relid = '{TIMER_TABLE}'::regclass");
    wait_for(&mut db, vacuumed, Duration::from_secs(60));
    let analyzed =
        "select last_autoanalyze is not null from pg_stat_user_tables where relid = 'sched.ledger'::regclass";
    wait_for(&mut db, analyzed, Duration::from_secs(60));
    assert!(dispatcher(&mut db).is_some());
}
