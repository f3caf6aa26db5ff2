//! A dispatcher that is no superuser (`sched.worker_role`): it does everything, as that role and as no other, and says what it lacks.

use scheduler_cluster_tests::scheduler::{dispatcher, one, rest, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::{Duration, Instant};

/// A trigger on each of our tables that notes as whom it runs. Only a superuser can put one there.
const CANARY: &str = "
    create table seen (pid int, place text, role name, session name, super text);
    grant insert on seen to public;
    create function canary() returns trigger language plpgsql as $$
    begin
        insert into public.seen values
            (pg_backend_pid(), tg_table_name || ' ' || tg_op, current_user, session_user, current_setting('is_superuser'));
        return null;
    end $$;
    do $$
    declare tab regclass;
    begin
        for tab in select oid from pg_class where relnamespace = 'sched'::regnamespace and relkind = 'r' loop
            execute format('create trigger canary after insert or update or delete on %s for each row execute function public.canary()', tab);
        end loop;
    end $$;
";

/// Everything that dispatchers do, within a second or two.
const WORK: &str = "
    select sched.define_job('pulls', queue => 'q', max_attempts => 2, retry_backoff => '{1 second}'),
           sched.define_job('tells', 'notify', 'news'), sched.define_job('logs', 'log');
    select sched.create_schedule('plain', 'every 200 milliseconds', 'pulls'),
           sched.create_schedule('all', 'every 200 milliseconds', 'pulls', catch_up => 'every_plan'),
           sched.create_schedule('one at a time', 'every 200 milliseconds', 'pulls', overlap => 'buffer_one'),
           sched.create_schedule('after the end', 'every 200 milliseconds', 'pulls', rearm => 'on_terminal'),
           sched.create_schedule('telling', 'every 200 milliseconds', 'tells', rearm => 'on_terminal'),
           sched.create_schedule('logging', 'every 200 milliseconds', 'logs', payload => '\"a line\"'),
           sched.create_schedule('dropped', 'every 200 milliseconds', 'pulls', overlap => 'skip'),
           sched.create_schedule('parked', 'every 1 hour', 'pulls');
    select sched.try_claim('pulls', '2026-01-01', 'stale', stale_timeout => '1 microsecond')";

/// Waits for an execution and then for a later one: how many there are at a time is up to retention.
fn fired(db: &mut Client, schedule: &str) {
    let newest = format!(
        "select coalesce(max(plan_time), '-infinity')::text from sched.execution where schedule_name = '{schedule}'"
    );
    for _ in 0..2 {
        let before: String = one(db, &newest);
        wait_until(&format!("{schedule} to fire"), SOON, || (one::<String>(db, &newest) != before).then_some(()));
    }
}

fn said(cluster: &Cluster, text: &str) {
    wait_until(text, SOON, || (!cluster.logged(text).is_empty()).then_some(()));
    assert_eq!(cluster.logged(text).len(), 1, "once: {:#?}", cluster.logged(text));
}

#[test]
fn a_role_without_superuser_does_all_that_a_dispatcher_does() {
    let cluster =
        Cluster::builder().set("sched.worker_role", "Odd 'worker'").set("sched.history_retention", "1s").start();
    let mut db = cluster.connect();
    // What is missing is said once, and mended without a restart.
    said(&cluster, "role \"Odd 'worker'\" of sched.worker_role does not exist");
    db.batch_execute("create role \"Odd 'worker'\" nologin; create role app login; create extension scheduler")
        .unwrap();
    if one::<bool>(&mut db, "select current_setting('server_version_num')::int < 170000") {
        said(&cluster, "role \"Odd 'worker'\" of sched.worker_role may not log in");
        db.batch_execute("alter role \"Odd 'worker'\" login").unwrap();
    }
    said(&cluster, "role \"Odd 'worker'\" of sched.worker_role may not dispatch in database \"postgres\"");
    db.batch_execute(CANARY).unwrap();
    db.batch_execute("select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("listen news").unwrap();
    // Nor does it become another role that it could, for a setting of its database.
    db.batch_execute("create role other; grant other to \"Odd 'worker'\"; alter database postgres set role = other")
        .unwrap();
    let old = wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    db.execute("select pg_terminate_backend($1)", &[&old]).unwrap();
    wait_until("another dispatcher", SOON, || dispatcher(&mut db).filter(|pid| *pid != old));
    app.batch_execute(WORK).unwrap();
    stays("the ledger while the role has no rights", Duration::from_secs(1), || {
        one::<i64>(&mut db, "select count(*) from sched.execution")
    });
    // The sleep of a dispatcher is a minute, but not for want of a right.
    db.batch_execute("select sched.grant_worker('\"Odd ''worker''\"')").unwrap();
    for schedule in ["plain", "all", "telling", "logging"] {
        fired(&mut db, schedule);
    }
    wait_until("a line in the log", SOON, || (!cluster.logged("logging at ").is_empty()).then_some(()));
    // Ends of runs that schedules wait for, failures and retries, stale runs.
    wait_for(&mut db, "select error_code = 'stale_timeout' from sched.execution where scope_kind = 'stale'", SOON);
    wait_for(&mut db, &format!("select exists (select from {READY} r join sched.ledger e on e.id = r.execution_id where scope_kind = 'stale')"), SOON);
    app.batch_execute("select sched.finish_failure(execution_id, lease_token) from sched.claim('q', 3)").unwrap();
    wait_for(
        &mut db,
        &format!("select count(*) > 1 from {READY} r join sched.ledger e on e.id = r.execution_id where e.attempt = 1"),
        SOON,
    );
    wait_until("on_terminal and buffer_one to go on", SOON, || {
        app.batch_execute("select sched.finish_success(execution_id, lease_token) from sched.claim('q', 100)").unwrap();
        let both = "select count(*) = 2 from (select schedule_name from sched.ledger where schedule_name in ('one at a time', 'after the end')
                     group by 1 having count(*) > 2) x";
        one::<bool>(&mut db, both).then_some(())
    });
    // A heartbeat moves the end of a lease, and the sweeper looks at it later.
    app.batch_execute("select sched.try_claim('alive', '2026-01-01', stale_timeout => '3 seconds')").unwrap();
    wait_until("a lease that lives to be looked at again", SOON, || {
        app.batch_execute(
            "select sched.heartbeat(id, lease_token, '3 seconds') from sched.execution where job_name = 'alive'",
        )
        .unwrap();
        one::<bool>(&mut db, &format!("select l.sweep_at > l.started_at + interval '3 seconds' from {LEASE} l join sched.ledger e on e.id = l.execution_id where job_name = 'alive'")).then_some(())
    });
    wait_for(&mut db, "select exists (select from sched.awaited a join sched.schedule s using (schedule_id) where schedule_name = 'dropped')", SOON);
    app.batch_execute("select sched.drop_schedule('dropped')").unwrap();
    db.batch_execute("update sched.schedule set clock = 'garbage' where schedule_name = 'parked'").unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'parked'", SOON);
    wait_for(&mut db, &format!("select count(*) = 7 from {TIMER} t"), SOON);
    wait_for(&mut db, "select exists (select from public.seen where place = 'ledger DELETE')", SOON);

    let pid = dispatcher(&mut db).unwrap();
    let user: String =
        one(&mut db, "select usename::text from pg_stat_activity where backend_type = 'scheduler dispatcher'");
    assert_eq!(user, "Odd 'worker'");
    let row = db
        .query_one(
            "select count(*) filter (where role <> 'Odd ''worker''' or session <> 'Odd ''worker''' or super <> 'off'),
                    array_agg(distinct place order by place)
               from public.seen where pid = $1",
            &[&pid],
        )
        .unwrap();
    let (wrong, places): (i64, Vec<String>) = (row.get(0), row.get(1));
    assert_eq!(wrong, 0, "as another role");
    for place in [
        "awaited DELETE",
        "awaited INSERT",
        "ledger DELETE",
        "ledger INSERT",
        "ledger UPDATE",
        "lease DELETE",
        "lease UPDATE",
        "ready INSERT",
        "retry DELETE",
        "retry INSERT",
        "schedule_change DELETE",
        "schedule_change INSERT",
        "timer DELETE",
        "timer INSERT",
        "timer UPDATE",
    ] {
        assert!(places.iter().any(|seen| seen == place), "{place} was not seen: {places:?}");
    }
    // What clients call goes on as the extension's owner.
    let others: Vec<String> =
        one(&mut db, &format!("select array_agg(distinct role::text) from public.seen where pid <> {pid}"));
    assert_eq!(others, ["postgres"]);
    let warnings = cluster.logged("WARNING");
    assert!(warnings.iter().all(|line| line.contains("of sched.worker_role")), "{warnings:#?}");
}

#[test]
fn what_is_missing_is_said_once_and_put_right_it_goes_on() {
    let cluster = Cluster::builder().set("sched.worker_role", "w").start();
    cluster.execute("create role w login");
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler; select sched.grant_worker('w')").unwrap();
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 200 milliseconds', 'j')")
        .unwrap();
    fired(&mut db, "s");
    db.batch_execute(&format!("revoke update on {TIMER_TABLE} from w")).unwrap();
    let refused = "role \"w\" of sched.worker_role may not dispatch in database \"postgres\"";
    wait_until("a warning", SOON, || (!cluster.logged(refused).is_empty()).then_some(()));
    stays("the log", Duration::from_secs(3), || cluster.logged("WARNING").len());
    said(&cluster, refused);
    // What was in the middle of a tick may have failed.
    assert!(cluster.logged("permission denied").len() <= 2, "{:#?}", cluster.logged("permission denied"));
    db.batch_execute("select sched.grant_worker('w'); delete from sched.ledger").unwrap();
    fired(&mut db, "s");

    // Neither a role that may not connect nor one that is gone is tried over and over.
    db.batch_execute("revoke connect on database postgres from public").unwrap();
    let pid = wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    db.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
    said(&cluster, "database \"postgres\" is not served: the role of sched.worker_role may not connect to it");
    assert!(cluster.logged("FATAL").iter().all(|line| line.contains("terminating")), "{:#?}", cluster.logged("FATAL"));
    db.batch_execute("grant connect on database postgres to w").unwrap();
    wait_until("another dispatcher", SOON, || dispatcher(&mut db));
    db.batch_execute("revoke connect on database postgres from w; select sched.revoke_all('w'); drop role w").unwrap();
    said(&cluster, "role \"w\" of sched.worker_role does not exist");
    db.batch_execute("grant connect on database postgres to public; create role w login; select sched.grant_worker('w'); delete from sched.ledger")
        .unwrap();
    fired(&mut db, "s");
}

/// Reasons that keep dispatchers away are told each, and the end of one does not wait for the end of another.
#[test]
fn a_database_that_is_closed_to_the_role_hides_nothing() {
    let cluster = Cluster::builder().set("sched.worker_role", "w").set("max_worker_processes", "3").start();
    cluster.execute("create role w login");
    cluster.execute("create database zz");
    cluster.execute("revoke connect on database zz from public");
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler; select sched.grant_worker('w')").unwrap();
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 200 milliseconds', 'j')")
        .unwrap();
    fired(&mut db, "s");
    said(&cluster, "database \"zz\" is not served");
    // Of two with the extension one has the only slot.
    cluster.execute("create database app");
    let mut app = cluster.connect_as("postgres", "app");
    app.batch_execute("create extension scheduler; select sched.grant_worker('w')").unwrap();
    said(&cluster, "no worker slot is free");
    db.batch_execute("drop extension scheduler").unwrap();
    wait_until("a dispatcher in app", SOON, || dispatcher(&mut app));
    said(&cluster, "every database has its dispatcher again");
    assert_eq!(cluster.logged("database \"zz\" is not served").len(), 1);
    // The pauses of what has lasted for long are not those of what is new.
    let started = Instant::now();
    app.batch_execute("alter role w rename to v").unwrap();
    let pid = dispatcher(&mut app).unwrap();
    app.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
    said(&cluster, "role \"w\" of sched.worker_role does not exist");
    app.batch_execute("alter role v rename to w").unwrap();
    let new = wait_until("another dispatcher", SOON, || dispatcher(&mut app));
    assert!(new != pid && started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn without_a_worker_role_dispatchers_act_as_the_owner_of_the_extension() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // It locks one table after the other, and so would a dispatcher at work.
    rest(&mut db);
    db.batch_execute(CANARY).unwrap();
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 200 milliseconds', 'j')")
        .unwrap();
    fired(&mut db, "s");
    assert_eq!(one::<Vec<String>>(&mut db, "select array_agg(distinct role::text) from public.seen"), ["postgres"]);
}

/// The owner of the tables can put triggers on them: they run as him, not as the role that serves everybody's databases.
#[test]
fn an_owner_who_is_no_superuser_does_not_become_the_worker_role() {
    let cluster = Cluster::builder().set("sched.worker_role", "worker").start();
    let mut db = cluster.connect();
    db.batch_execute("create role worker superuser login; create role dba superuser login; create role keeper login")
        .unwrap();
    cluster.connect_as("dba", "postgres").batch_execute("create extension scheduler").unwrap();
    db.batch_execute("select sched.grant_worker('worker'); reassign owned by dba to keeper; create table seen (who name); grant insert on seen to public")
        .unwrap();
    cluster
        .connect_as("keeper", "postgres")
        .batch_execute(
            "create function sched.seen() returns trigger language plpgsql as $$ begin insert into public.seen values (current_user); return new; end $$;
             create trigger seen before insert on sched.ledger for each row execute function sched.seen()",
        )
        .unwrap();
    db.batch_execute(
        "select sched.define_job('job'); select sched.create_schedule('s', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 2 from sched.execution", SOON);
    assert_eq!(one::<String>(&mut db, "select string_agg(distinct who, ' ') from seen"), "keeper");
}
