//! CREATE EXTENSION in a database that somebody has prepared for it, and whose a schedule is when jobs come and go.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{dispatcher, one, rest, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{refused, stays, wait_for, wait_until, Cluster};
use std::thread;
use std::time::Duration;

#[test]
fn default_privileges_give_nobody_a_right_on_the_tables() {
    let cluster = Cluster::new();
    cluster.execute(
        "create role app login; create role \"Odd name\" login;
         alter default privileges grant all on tables to app, \"Odd name\";
         alter default privileges grant all on sequences to app;
         alter default privileges grant all on functions to app;
         alter default privileges grant all on schemas to app",
    );
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("create function pg_temp.own() returns trigger language plpgsql as 'begin return new; end'")
        .unwrap();
    let tables = ["sched.job", "sched.schedule", "sched.schedule_change", TIMER_TABLE];
    for table in tables.into_iter().chain(EXECUTION_TABLES) {
        let trigger = format!("create trigger t before insert on {table} for each row execute function pg_temp.own()");
        assert_eq!(refused(&mut app, &trigger), SqlState::INSUFFICIENT_PRIVILEGE, "{table}");
    }
    assert_eq!(refused(&mut app, "select * from sched.ledger"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(refused(&mut app, "select nextval('sched.fence')"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(refused(&mut app, "select sched.grant_use('app')"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(refused(&mut app, "select sched_internal.uuid_v7()"), SqlState::INSUFFICIENT_PRIVILEGE);
    app.batch_execute("select sched.define_job('of app')").expect("what grant_use gives is there");
}

#[test]
fn a_planted_schema_and_an_encoding_that_cannot_be_read_are_refused() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    for schema in ["sched", "sched_internal"] {
        db.batch_execute(&format!("create schema {schema}")).unwrap();
        assert_eq!(refused(&mut db, "create extension scheduler"), SqlState::DUPLICATE_SCHEMA, "{schema}");
        db.batch_execute(&format!("drop schema {schema}")).unwrap();
    }
    cluster.execute("create database latin encoding 'LATIN1' locale 'C' template template0");
    let mut latin = cluster.connect_as("postgres", "latin");
    assert_eq!(refused(&mut latin, "create extension scheduler"), SqlState::FEATURE_NOT_SUPPORTED);
    assert!(one::<bool>(&mut latin, "select not exists (select from pg_namespace where nspname like 'sched%')"));
}

#[test]
fn a_failed_look_for_the_extension_ends_no_dispatcher() {
    let cluster = Cluster::builder().set("sched.tick_interval", "200ms").start();
    let mut db = cluster.with_extension("postgres");
    let pid = wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    // Its look waits for a lock, is cancelled there, and fails.
    // (Since version 18 it asks a cache, so there must be something new to see when the lock is taken: who waits for it gets it.)
    let mut writer = cluster.connect();
    writer.batch_execute("begin; update pg_extension set extversion = extversion").unwrap();
    let mut holder = cluster.connect();
    let locked = thread::spawn(move || {
        holder.batch_execute("begin; lock table pg_extension in access exclusive mode").unwrap();
        holder
    });
    wait_for(
        &mut db,
        "select exists (select from pg_locks where relation = 'pg_extension'::regclass and mode = 'AccessExclusiveLock')",
        SOON,
    );
    writer.batch_execute("commit").unwrap();
    let mut holder = locked.join().unwrap();
    let waits = format!("select exists (select from pg_locks where pid = {pid} and not granted)");
    wait_for(&mut db, &waits, SOON);
    db.execute("select pg_cancel_backend($1)", &[&pid]).unwrap();
    wait_until("the look to fail", SOON, || {
        (!cluster.logged("looking for the extension failed").is_empty()).then_some(())
    });
    holder.batch_execute("rollback").unwrap();
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 100 milliseconds', 'j')")
        .unwrap();
    wait_for(&mut db, "select count(*) > 2 from sched.execution", SOON);
    assert_eq!(dispatcher(&mut db), Some(pid));
}

#[test]
fn an_open_import_of_a_crontab_holds_nobody_elses_job() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role a login; create role b login; select sched.grant_use('a'), sched.grant_use('b')")
        .unwrap();
    let (mut a, mut b) = (cluster.connect_as("a", "postgres"), cluster.connect_as("b", "postgres"));
    a.batch_execute("select sched.define_job('crontab')").unwrap();
    b.batch_execute("begin; select sched.import_crontab('* * * * * true')").unwrap();
    a.batch_execute("set lock_timeout = '10s'; select sched.drop_job('crontab')").unwrap();
    b.batch_execute("commit").unwrap();
    assert_eq!(one::<String>(&mut db, "select string_agg(job_name, ' ') from sched.job"), "crontab/b");
}

/// Not even one that is committed while a superuser's import waits for it.
#[test]
fn an_import_of_a_crontab_changes_no_job_that_somebody_is_defining() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role a login; select sched.grant_use('a')").unwrap();
    let (mut a, mut importer) = (cluster.connect_as("a", "postgres"), cluster.connect());
    a.batch_execute("begin; select sched.define_job('crontab', 'notify', 'news', max_attempts => 5)").unwrap();
    let import = thread::spawn(move || {
        importer.batch_execute("begin; select sched.import_crontab('* * * * * true')").unwrap();
        importer
    });
    wait_for(&mut db, "select exists (select from pg_stat_activity where wait_event = 'transactionid')", SOON);
    a.batch_execute("commit").unwrap();
    let mut importer = import.join().unwrap();
    a.batch_execute(
        "set lock_timeout = '10s'; select sched.define_job('crontab', 'notify', 'news', max_attempts => 6)",
    )
    .unwrap();
    importer.batch_execute("commit").unwrap();
    let jobs =
        "select string_agg(concat_ws(' ', job_name, kind, max_attempts, owner), '; ' order by job_name) from sched.job";
    assert_eq!(one::<String>(&mut db, jobs), "crontab notify 6 a; crontab/postgres pull 1 postgres");
    assert_eq!(one::<String>(&mut db, "select job_name from sched.schedule"), "crontab/postgres");
}

#[test]
fn a_job_is_not_dropped_under_a_schedule_that_is_just_being_created() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j')").unwrap();
    let mut creator = cluster.connect();
    creator.batch_execute("begin; select sched.create_schedule('s', 'every 1 hour', 'j')").unwrap();
    let mut dropper = cluster.connect();
    let drop = thread::spawn(move || refused(&mut dropper, "select sched.drop_job('j')"));
    wait_for(&mut db, "select exists (select from pg_stat_activity where query like '%drop_job%' and wait_event_type = 'Lock' and pid <> pg_backend_pid())", SOON);
    creator.batch_execute("commit").unwrap();
    assert_eq!(drop.join().unwrap(), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 's'", SOON);
}

#[test]
fn a_superusers_crontab_never_becomes_the_property_of_another_role() {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("select sched.define_job('crontab', queue => 'mine')").unwrap();
    db.batch_execute("select sched.import_crontab(E'PASSWORD=hunter2\\n* * * * * root secret\\n', system => true)")
        .unwrap();
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules"), 0);
    assert_eq!(one::<String>(&mut db, "select job_name from sched.schedules"), "crontab/postgres");
}

#[test]
fn changes_that_somebody_holds_keep_no_other_schedule_waiting() {
    let cluster = Cluster::builder().set("sched.batch_size", "10").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('held', 'every 1 hour', 'j')")
        .unwrap();
    rest(&mut db);
    let mut holder = cluster.connect();
    holder.batch_execute(&format!("begin; select from {TIMER} t for update")).unwrap();
    for _ in 0..50 {
        db.batch_execute("select sched.pause('held'); select sched.resume('held')").unwrap();
    }
    db.batch_execute("select sched.create_schedule('free', 'every 1 hour', 'j')").unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'free'", SOON);
    holder.batch_execute("commit").unwrap();
    wait_for(&mut db, "select state = 'armed' from sched.schedules where schedule_name = 'held'", SOON);
}

#[test]
fn a_claim_takes_nobody_elses_retries_into_its_transaction() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create role app login; create role bob login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app'), sched.grant_use('bob')").unwrap();
    let mut bob = cluster.connect_as("bob", "postgres");
    bob.batch_execute(
        "select sched.define_job('of bob', queue => 'bobs', max_attempts => 2, retry_backoff => '{50 milliseconds}');
         select sched.enqueue('of bob');
         select sched.finish_failure(execution_id, lease_token) from sched.claim('bobs')",
    )
    .unwrap();
    wait_for(&mut db, &format!("select due_at < clock_timestamp() from {DELAYED} d"), SOON);
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("begin; select sched.claim('bobs'); select sched.claim('other')").unwrap();
    assert_eq!(one::<i64>(&mut bob, "select count(*) from sched.claim('bobs')"), 1);
}

#[test]
fn a_dropped_extension_leaves_no_error_behind_with_nothing_armed() {
    let cluster = Cluster::builder().set("sched.tick_interval", "500ms").start();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    db.batch_execute("drop extension scheduler").unwrap();
    wait_until("the dispatcher to leave", SOON, || dispatcher(&mut db).is_none().then_some(()));
    stays("the number of dispatchers", Duration::from_secs(2), || dispatcher(&mut db));
    assert!(cluster.logged("failed").is_empty(), "{:#?}", cluster.logged("failed"));
}
