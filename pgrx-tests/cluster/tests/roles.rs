//! What becomes of schedules when something becomes of the role that owns their job (docs/operations/monitoring.md). Whatever it is, the
//! schedules of others fire on.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

/// A role `app` with a job and a schedule of the same name, and the superuser's own beside it.
fn start() -> (Cluster, Client) {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app')").unwrap();
    for (role, name) in [("app", "app"), ("postgres", "other")] {
        let create = format!(
            "select sched.define_job('{name}', queue => '{name}');
             select sched.create_schedule('{name}', 'every 100 milliseconds', '{name}')"
        );
        cluster.connect_as(role, "postgres").batch_execute(&create).unwrap();
    }
    fires(&mut db, "app");
    fires(&mut db, "other");
    (cluster, db)
}

fn now(db: &mut Client) -> String {
    one(db, "select clock_timestamp()::text")
}

/// Waits for executions of plans of after this moment.
fn fires(db: &mut Client, schedule: &str) {
    let now = now(db);
    let fired =
        format!("select count(*) > 2 from sched.execution where schedule_name = '{schedule}' and plan_time > '{now}'");
    wait_for(db, &fired, SOON);
}

fn is_parked(db: &mut Client, why: &str) {
    wait_for(db, "select state = 'parked' from sched.schedules where schedule_name = 'app'", SOON);
    assert_eq!(one::<String>(db, "select last_error from sched.schedules where schedule_name = 'app'"), why);
    stays("the executions of a parked schedule", Duration::from_millis(500), || {
        one::<i64>(db, "select count(*) from sched.execution where schedule_name = 'app'")
    });
    fires(db, "other");
}

#[test]
fn renamed_or_without_login_it_changes_nothing() {
    let (cluster, mut db) = start();
    let pid = dispatcher(&mut db);
    db.batch_execute("alter role app rename to renamed").unwrap();
    fires(&mut db, "app");
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job where job_name = 'app'"), "renamed");
    let mut renamed = cluster.connect_as("renamed", "postgres");
    assert!(one::<i64>(&mut renamed, "select count(*) from sched.claim('app')") > 0);
    db.batch_execute("alter role renamed nologin").unwrap();
    fires(&mut db, "app");
    fires(&mut db, "other");
    assert_eq!(dispatcher(&mut db), pid);
    assert!(cluster.logged("parked").is_empty());
}

#[test]
fn without_its_rights_its_schedules_fire_on_and_it_cannot_claim() {
    let (cluster, mut db) = start();
    db.batch_execute("select sched.revoke_all('app')").unwrap();
    fires(&mut db, "app");
    let error = cluster.connect_as("app", "postgres").batch_execute("select sched.claim('app')").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    // Who wants them to stop pauses them.
    db.batch_execute("select sched.pause('app')").unwrap();
    fires(&mut db, "other");
    db.batch_execute("select sched.resume('app'); select sched.grant_use('app')").unwrap();
    fires(&mut db, "app");
    assert!(one::<i64>(&mut cluster.connect_as("app", "postgres"), "select count(*) from sched.claim('app')") > 0);
}

#[test]
fn dropped_it_parks_its_schedules_until_a_superuser_takes_the_job() {
    let (cluster, mut db) = start();
    // What stands in the way are its rights, as for any role; not its jobs.
    let error = db.batch_execute("drop role app").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST));
    let detail = error.as_db_error().unwrap().detail().unwrap().to_owned();
    assert!(detail.contains("privileges for function sched.") && !detail.contains("owner of"), "{detail}");
    fires(&mut db, "app");
    db.batch_execute("select sched.revoke_all('app')").unwrap();
    db.batch_execute("drop role app").unwrap();
    is_parked(&mut db, "the owner of job \"app\" was dropped");

    // A new role of the same name is another role: it sees nothing, gets nothing, and can take nothing.
    db.batch_execute("create role app login; select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules"), 0);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.claim('app')"), 0);
    let error = app.batch_execute("select sched.define_job('app', queue => 'app')").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    is_parked(&mut db, "the owner of job \"app\" was dropped");

    // A superuser who defines the job again has it, and it goes on with what comes.
    let before: i64 = one(&mut db, "select count(*) from sched.execution where schedule_name = 'app'");
    db.batch_execute("select sched.define_job('app', queue => 'app')").unwrap();
    fires(&mut db, "app");
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job where job_name = 'app'"), "postgres");
    assert!(one::<i64>(&mut db, "select count(*) from sched.execution where schedule_name = 'app'") > before);
    let lines: Vec<_> = cluster.logged("parked").into_iter().filter(|line| line.contains("LOG:")).collect();
    assert_eq!(lines.len(), 2, "parked and no longer parked: {lines:#?}");
}

/// Nobody waits for the first of January to learn that a schedule fires nothing any more.
#[test]
fn dropped_it_parks_its_schedules_long_before_they_are_due_and_health_names_them() {
    let cluster = Cluster::builder().set("sched.tick_interval", "200ms").start();
    cluster.execute("create role leaver login; create role stays login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('leaver'), sched.grant_use('stays')").unwrap();
    for (role, names) in [("leaver", "{armed,ended,waits,paused}"), ("stays", "{other}")] {
        let mut owner = cluster.connect_as(role, "postgres");
        owner.batch_execute(&format!("select sched.define_job('{role}'); select sched.create_schedule(n, '@yearly', '{role}') from unnest('{names}'::text[]) n")).unwrap();
        owner
            .batch_execute("select sched.pause(schedule_name) from sched.schedules where schedule_name = 'paused'")
            .unwrap();
    }
    db.batch_execute("select sched.alter_schedule('waits', rearm => 'on_terminal'), sched.alter_schedule('ended', ends_at => clock_timestamp() + interval '2 years')").unwrap();
    let states = "select string_agg(schedule_name || ' ' || state, ', ' order by schedule_name) from sched.schedules";
    wait_for(
        &mut db,
        &format!("select ({states}) = 'armed armed, ended armed, other armed, paused paused, waits armed'"),
        SOON,
    );
    // Changed roles alone park nothing.
    db.batch_execute("alter role leaver nologin; create role new; drop role new").unwrap();
    let health = "select severity || ': ' || message from sched.health() where component = 'schedules'";
    stays("what health says", Duration::from_millis(500), || one::<String>(&mut db, health));

    db.batch_execute("drop owned by leaver; drop role leaver").unwrap();
    wait_for(
        &mut db,
        &format!("select ({states}) = 'armed parked, ended parked, other armed, paused paused, waits parked'"),
        SOON,
    );
    let names = r#"warning: 3 parked, 0 failing; the owner of the job was dropped of "armed", "ended", "waits""#;
    assert!(one::<String>(&mut db, health).starts_with(names), "{}", one::<String>(&mut db, health));
    let mut other = cluster.connect_as("stays", "postgres");
    assert!(!one::<String>(&mut other, health).contains('"'), "{}", one::<String>(&mut other, health));
    assert_eq!(cluster.logged("the owner of job \"leaver\" was dropped").len(), 3);
    db.batch_execute("select sched.resume('paused')").unwrap();
    wait_for(&mut db, &format!("select ({states}) like '%paused parked%'"), SOON);
    // Once the job is another's they are armed again, for what comes.
    db.batch_execute("select sched.define_job('leaver')").unwrap();
    wait_for(
        &mut db,
        "select count(*) = 5 from sched.schedules where state = 'armed' and next_plan_time > clock_timestamp()",
        SOON,
    );
    wait_for(&mut db, &format!("select ({health}) like 'ok: %'"), SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution"), 0);
}

/// It was dropped while no dispatcher could hear of it.
#[test]
fn a_dispatcher_that_starts_looks_for_owners_that_are_gone() {
    let cluster = Cluster::builder().set("sched.batch_size", "2").start();
    cluster.execute("create role leaver login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('leaver')").unwrap();
    let mut leaver = cluster.connect_as("leaver", "postgres");
    leaver.batch_execute("select sched.define_job('j'); select sched.create_schedule('s ' || i, '@yearly', 'j') from generate_series(1, 5) i").unwrap();
    wait_for(&mut db, "select count(*) = 5 from sched.schedules where state = 'armed'", SOON);
    drop(leaver);
    cluster.set("sched.databases", "none");
    wait_until("the dispatcher to leave", SOON, || dispatcher(&mut db).is_none().then_some(()));
    db.batch_execute("drop owned by leaver; drop role leaver").unwrap();
    cluster.set("sched.databases", "*");
    wait_for(&mut db, "select count(*) = 5 from sched.schedules where state = 'parked'", SOON);
}

#[test]
fn drop_owned_takes_its_rights_and_reassign_owned_leaves_its_jobs() {
    let (cluster, mut db) = start();
    // Jobs are rows, not objects: REASSIGN OWNED has nothing to say about them.
    db.batch_execute("create role heir login; reassign owned by app to heir").unwrap();
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job where job_name = 'app'"), "app");
    fires(&mut db, "app");
    let pid = dispatcher(&mut db);
    db.batch_execute("drop owned by app; drop role app").unwrap();
    is_parked(&mut db, "the owner of job \"app\" was dropped");
    assert_eq!(dispatcher(&mut db), pid, "a role that does not own the extension makes nobody leave");
    assert!(cluster.logged("WARNING").is_empty());
}

#[test]
fn the_extension_itself_can_change_hands() {
    let cluster = Cluster::new();
    cluster.execute("create role dba superuser login; create role keeper");
    cluster.connect_as("dba", "postgres").batch_execute("create extension scheduler").unwrap();
    let mut db = cluster.connect();
    db.batch_execute(
        "select sched.define_job('other'); select sched.create_schedule('other', 'every 100 milliseconds', 'other')",
    )
    .unwrap();
    fires(&mut db, "other");
    // Its new owner is no superuser and cannot log in. The dispatcher makes way and is back.
    db.batch_execute("reassign owned by dba to keeper; drop role dba").unwrap();
    fires(&mut db, "other");
    db.batch_execute("drop owned by keeper").unwrap();
    assert!(one::<bool>(&mut db, "select not exists (select from pg_extension where extname = 'scheduler')"));
    assert!(cluster.logged("WARNING").is_empty());
}
