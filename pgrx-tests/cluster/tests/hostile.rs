//! I7 as attacks by the owner of a database, who is no superuser: he prepares it before the extension comes, sets what sessions begin
//! with, and tries to put something of his on the tables.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{refused, wait_for, wait_until, Client, Cluster};
use std::collections::BTreeSet;

/// In schema public: every function and every operator of pg_catalog again, raising; and some that fit better than those there.
const SHADOWS: &str = include_str!("../../data/shadows.sql");

/// What anybody may execute of `sched_internal`.
const CALLED_BY_VIEWS: [&str; 5] = ["skipped_so_far", "skip_parts", "next_open", "ids_of_scope", "ids_of_schedule"];

/// A database that belongs to `evil`; a superuser in it whose session began before its owner could change anything.
pub fn prey() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    cluster.execute("create role evil login; create role victim login");
    cluster.execute("create database prey owner evil");
    let root = cluster.connect_as("postgres", "prey");
    (cluster, root)
}

#[test]
fn what_the_owner_of_a_database_planted_is_never_called() {
    let (cluster, mut root) = prey();
    let mut evil = cluster.connect_as("evil", "prey");
    // A schema of our name makes CREATE EXTENSION fail, rather than own what is put into it.
    for schema in ["sched", "sched_internal"] {
        evil.batch_execute(&format!("create schema {schema}")).unwrap();
        assert_eq!(refused(&mut root, "create extension scheduler"), SqlState::DUPLICATE_SCHEMA);
        evil.batch_execute(&format!("drop schema {schema}")).unwrap();
    }

    evil.batch_execute(SHADOWS).unwrap();
    evil.batch_execute("alter database prey set search_path = public, pg_temp, pg_catalog").unwrap();
    // Creating the extension and granting, under that path.
    let mut admin = cluster.connect_as("postgres", "prey");
    admin.batch_execute("create extension scheduler").unwrap();
    for call in [
        "grant_use('evil')",
        "grant_monitor('evil')",
        "grant_worker('evil')",
        "grant_queue('q', 'evil')",
        "prune()",
        "revoke_all('evil')",
        "adopt()",
    ] {
        admin.batch_execute(&format!("select sched.{call}")).unwrap_or_else(|error| panic!("{call}: {error:?}"));
    }
    admin.batch_execute("select sched.grant_use('evil'), sched.grant_use('victim')").unwrap();
    cluster.connect_as("postgres", "prey").batch_execute(scheduler_cluster_tests::pg_cron::A_JOB_OF_EVIL).unwrap();
    // What the views call, he is to call himself as well.
    admin.batch_execute("grant usage on schema sched_internal to evil").unwrap();
    let trapped = admin.batch_execute("select clock_timestamp()").expect_err("the trap is armed");
    assert_eq!(trapped.as_db_error().map(|error| error.message()), Some("trapped by clock_timestamp"));

    // Every function that a user has, as a user, with all of it in the way.
    let mut evil = cluster.connect_as("evil", "prey");
    evil.batch_execute(&scheduler_cluster_tests::catalog::temporary()).unwrap();
    evil.batch_execute("set search_path = pg_temp, public, pg_catalog").unwrap();
    let mut called = BTreeSet::new();
    let mut call = |function: &str, arguments: &str| -> Option<String> {
        called.insert(function.to_owned());
        let schema = if CALLED_BY_VIEWS.contains(&function) { "sched_internal" } else { "sched" };
        let statement = format!("select * from {schema}.{function}({arguments})");
        let rows = evil.simple_query(&statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        rows.iter().find_map(|message| {
            let postgres::SimpleQueryMessage::Row(row) = message else { return None };
            match row.len() {
                1 => row.get(0).map(|value| format!("'{value}'")),
                _ => Some(format!("'{}', '{}'", row.get(0)?, row.get(1)?)),
            }
        })
    };
    call("define_job", "'j', max_attempts => 9, retry_backoff => '{1 hour}', queue => 'q'");
    call("define_job", "'logs', 'log'");
    call("alter_job", "'logs', priority => 1, reset => '{queue}'");
    call("define_job", "'tells', 'notify', 'channel'");
    call("create_schedule", "'s', 'every 1 hour', 'j', overlap => 'buffer_one', alert_job => 'logs'");
    call(
        "create_schedules",
        r#"'[{"schedule_name": "t", "clock": "every 1 second", "job_name": "logs", "delay": "0 s"}]'"#,
    );
    call("create_schedule", "'u', 'every 1 second', 'tells', rearm => 'on_terminal'");
    call("dispatch_due", "");
    call("alter_schedule", "'s', payload => '{\"n\": 1}', new_name => 's2', overlap => 'skip', max_lateness => '1 s'");
    call("pause", "'s2'");
    call("skipped_so_far", "");
    call(
        "skip_parts",
        "'@daily', 'UTC', '2026-01-01', null, null, null, '2026-01-01', '2026-01-03', 3, '{2026-01-02}', null",
    );
    call("resume", "'s2'");
    call("next_open", "'s2'");
    call("ids_of_scope", "'j', 'schedule', 's', null, null");
    call("ids_of_schedule", "'s2', null, null");
    call("executions_of", "'j', 'schedule', 's'");
    call("runs_of", "'s2'");
    call("explain", "'s2', '2026-01-01 00:00+00', '2026-01-02 00:00+00'");
    for _ in 0..3 {
        call("fire_now", "'s2'");
    }
    call("backfill", "'s2', '2026-01-01 00:00+00', '2026-01-01 05:00+00'");
    let lease = call("claim", "'q'").expect("something to claim");
    call("heartbeat", &format!("{lease}, '1 minute', '1'"));
    let (id, token) = lease.split_once(", ").unwrap();
    call("heartbeat_many", &format!("array[{id}]::pg_catalog.uuid[], array[{token}]::pg_catalog.uuid[]"));
    call("assert_lease", &lease);
    call("finish_failure", &format!("{lease}, 'code', 'message'"));
    let lease = call("claim", "'q'").expect("something to claim");
    call("snooze", &format!("{lease}, '2026-01-01 00:00+00'"));
    let lease = call("claim", "'q'").expect("something to claim");
    call("finish_success", &lease);
    let lease = call("claim", "'q'").expect("something to claim");
    let (id, token) = lease.split_once(", ").unwrap();
    call("finish_success_many", &format!("array[{id}]::pg_catalog.uuid[], array[{token}]::pg_catalog.uuid[]"));
    let id = call("enqueue", "'j', '{}', '2026-01-01 00:00+00'").expect("an id");
    call("cancel", &id);
    let opened = "insert into sched.alert (kind, schedule_id, schedule_name, owner, since, message, opened_at) select 'long', schedule_id, schedule_name, 'evil', updated_at, '', updated_at from sched.schedule where schedule_name = 's2' returning alert_id";
    call("acknowledge", &format!("{}, '2100-01-01 00:00+00'", one::<i64>(&mut root, opened)));
    call("pause_queue", "'q'");
    call("resume_queue", "'q'");
    call("enqueue_many", "'j', '{1, 2}'");
    let id = call("enqueue", "'j', '{}', run_at => '2100-01-01 00:00+00', scope_id => 'one', unique_by => 'scope'")
        .expect("an id");
    call("enqueue", "'j', '{}', scope_id => 'one', unique_by => 'scope', if_exists => 'replace'");
    call("enqueue_many", "'j', '{1, 2}', scope_ids => '{one, two}', run_ats => '{2100-01-01 00:00+00, 2100-01-01 00:00+00}', unique_by => 'scope', if_exists => 'replace'");
    call("alter_execution", &format!("{id}, '2', '2100-01-01 00:00+00', 4"));
    call("cancel_many", "'j', 'q', 'two', 5");
    for function in ["is_home", "health", "metrics", "openmetrics", "healthy", "report"] {
        call(function, "");
    }
    call("bucket", "'k', 'i'");
    call("buckets", "");
    call("timeline", "'s2'");
    call("recent", "'j', 5");
    call("try_claim", "'k', '2026-01-01 00:00+00', stale_timeout => '1 microsecond'");
    call("mark_stale_as_failed", "'k'");
    call("try_claim", "'k', '2026-01-01 00:00+00', max_attempts => 5");
    call("latest_plan", "'k'");
    call("due_plans", "'k', '@hourly', catch_up => 'every_plan'");
    call("attempts_since_success", "'k'");
    call("import_crontab", "'@daily a'");
    call("import_from", "'pg_cron', 'cron'");
    call("take_over", "'pg_cron', '{}'");
    call("report_fire", "'s2', '2026-01-01'");
    call("hand_back", "'{}'");
    call("compare", "'pg_cron', '2026-01-01', '2026-01-02'");
    call("next_time", "'0 9 * * mon', time_zone => 'Europe/Berlin'");
    call("preview", "'every 1 month'");
    call("validate", "'0 9 31 2 *'");
    call(
        "schedule_sql",
        "'sql', 'never', 'select 1 as one', settings => '{\"search_path\": \"public, pg_temp, pg_catalog\"}'",
    );
    call("test_job", "'sql', '{}', '2026-01-01 00:00+00'");
    call("this_run", "");
    let run = call("fire_now", "'sql'").expect("an id");
    // Its runner has all of it in the way, too.
    wait_for(&mut root, &format!("select status = 'SUCCESS' from sched.execution where id = {run}"), SOON);
    call("unschedule", "'sql'");
    call("drop_schedule", "'s2', true");
    call("define_job", "'gone'");
    call("drop_job", "'gone'");
    call("now", "");
    call("alter_many", "'j', priority => 1");
    call("declare_schedules", r#"'group', '[{"schedule_name": "d", "clock": "never", "command": "select 1"}]'"#);
    call("declare_schedules", "'group', '[]'");
    call("grant_enqueue", "'j', 'victim'");
    // He owns the database.
    call("test_mode", "");
    call("advance", "'1 hour'");
    call("dispatch_due", "");
    call("drain_sql", "");
    call("reset", "");
    call("test_mode", "false");
    for view in
        ["execution", "running", "failed", "history", "jobs", "schedules", "skipped", "queues", "last_runs", "waiting"]
    {
        evil.simple_query(&format!("select * from sched.{view}")).unwrap_or_else(|error| panic!("{view}: {error:?}"));
    }
    let granted = "select array_agg(distinct proname::text order by proname::text) from pg_proc p
                    where pronamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) and has_function_privilege('evil', p.oid, 'execute')";
    let granted: Vec<String> = one(&mut root, granted);
    assert_eq!(called.into_iter().collect::<Vec<_>>(), granted, "a function was not attacked");

    // And the dispatcher, which starts under everything that the owner of a database can set for its sessions.
    root.batch_execute(
        "select sched.define_job('of root', max_attempts => 2, retry_backoff => '{50 milliseconds}', queue => 'root');
         select sched.create_schedule('of root', 'every 300 milliseconds', 'of root')",
    )
    .unwrap();
    let mut settings = vec![
        "role = evil",
        "session_authorization = evil",
        "default_transaction_read_only = on",
        "default_transaction_isolation = serializable",
        "lock_timeout = 1",
        "statement_timeout = 1",
        "idle_in_transaction_session_timeout = 1",
        "idle_session_timeout = 1",
        "datestyle = german",
        "timezone = 'Asia/Kathmandu'",
        "transform_null_equals = on",
        "exit_on_error = on",
        "row_security = off",
        "debug_print_parse = on",
        "debug_print_rewritten = on",
        "debug_print_plan = on",
        "trace_sort = on",
        "plan_cache_mode = force_custom_plan",
    ];
    if one::<bool>(&mut root, "select current_setting('server_version_num')::int >= 170000") {
        settings.push("transaction_timeout = 1");
    }
    for setting in settings {
        evil.batch_execute(&format!("alter database prey set {setting}")).unwrap();
    }
    root.batch_execute(
        "create schema watch; grant usage on schema watch to public; create table watch.seen (who text); grant insert on watch.seen to public;
         create function watch.who() returns trigger language plpgsql set search_path = pg_catalog as
             $$ begin insert into watch.seen values (session_user || ' ' || current_user || ' ' || current_setting('role')); return null; end $$;
         create trigger who after insert on sched.ledger for each row execute function watch.who()",
    )
    .unwrap();
    // And a schedule whose every fire is an error: too much for a notification.
    root.batch_execute(
        "select sched.define_job('too long', 'notify', 'channel');
         select sched.create_schedule('too long', 'every 300 milliseconds', 'too long');
         update sched.schedule set payload = to_jsonb(repeat('x', 9000)) where schedule_name = 'too long'",
    )
    .unwrap();
    let old = wait_until("a dispatcher", SOON, || dispatcher(&mut root));
    root.execute("select pg_terminate_backend($1)", &[&old]).unwrap();
    wait_until("another dispatcher", SOON, || dispatcher(&mut root).filter(|pid| *pid != old));
    // It fires, ends stale runs and offers retries, of every role.
    root.batch_execute(
        "select sched.try_claim('stale', '2026-01-01', stale_timeout => '1 microsecond', max_attempts => 2)",
    )
    .unwrap();
    wait_for(&mut root, "select max(created_at) > (select max(backend_start) from pg_stat_activity where backend_type = 'scheduler dispatcher' and datname = 'prey') from sched.execution where schedule_name = 'of root'", SOON);
    wait_for(&mut root, "select error_code = 'stale_timeout' from sched.execution where job_name = 'stale'", SOON);
    wait_for(&mut root, &some_ready_of("stale"), SOON);
    let who: Vec<String> = one(&mut root, "select array_agg(distinct who) from watch.seen");
    assert_eq!(who, ["postgres postgres none"]);
    assert!(
        cluster.logged("trapped").iter().all(|line| line.contains("trapped by clock_timestamp")),
        "{:#?}",
        cluster.logged("trapped")
    );
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
    // What it says is about itself.
    let mut lines = cluster.logged("scheduler dispatcher[").into_iter().filter(|line| line.contains("LOG:"));
    assert!(lines.all(|line| line.contains("LOG:  scheduler: ")), "{:#?}", cluster.logged("scheduler dispatcher["));
}

/// The extension in the hands of an owner who is no superuser, with a schedule that fires; a superuser, and that owner.
fn kept() -> (Cluster, Client, Client) {
    let cluster = Cluster::new();
    cluster.execute("create role dba superuser login; create role keeper login");
    let mut root = cluster.connect();
    cluster.connect_as("dba", "postgres").batch_execute("create extension scheduler").unwrap();
    root.batch_execute(
        "reassign owned by dba to keeper; select sched.define_job('job');
         select sched.create_schedule('s', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    let keeper = cluster.connect_as("keeper", "postgres");
    (cluster, root, keeper)
}

/// The owner of the tables can put triggers on them. What these do at once they do as him; what they put off to the end of the
/// transaction would run as whoever called us.
#[test]
fn what_an_owner_who_is_no_superuser_puts_off_does_not_run_as_whoever_called_us() {
    let (_cluster, mut root, mut keeper) = kept();
    wait_for(&mut root, "select count(*) > 2 from sched.execution", SOON);
    keeper
        .batch_execute(
            "create function sched.evil() returns boolean language plpgsql as
                 $$ begin execute 'alter role keeper superuser'; return true; end $$;
             create function sched.deferred() returns trigger language plpgsql as
                 $$ begin perform sched.evil(); return null; end $$;
             create function sched.held() returns trigger language plpgsql as
                 $$ begin execute 'declare c cursor with hold for select sched.evil()'; return null; end $$",
        )
        .unwrap();
    for trigger in [
        "create constraint trigger evil after insert on sched.ledger deferrable initially deferred for each row execute function sched.deferred()",
        "create trigger evil after insert on sched.ledger for each row execute function sched.held()",
    ] {
        keeper.batch_execute(trigger).unwrap();
        wait_for(&mut root, "select state = 'failing' from sched.schedules", SOON);
        refused(&mut root, "select sched.enqueue('job')");
        keeper.batch_execute("drop trigger evil on sched.ledger").unwrap();
        wait_for(&mut root, "select state = 'armed' from sched.schedules", SOON);
    }
    assert!(!one::<bool>(&mut root, "select rolsuper from pg_roles where rolname = 'keeper'"));
}

/// What a trigger of such an owner sets would otherwise stay a setting of whoever called us, and of the dispatcher.
#[test]
fn an_owners_trigger_sets_nothing_for_others() {
    let (_cluster, mut root, mut keeper) = kept();
    keeper
        .batch_execute(
            "create function sched.sets() returns trigger language plpgsql as
                 $$ begin
                      perform set_config('search_path', 'sched, pg_catalog', false), set_config('row_security', 'off', false),
                              set_config('default_transaction_read_only', 'on', false);
                      return null;
                    end $$;
             create trigger sets after insert on sched.ledger for each row execute function sched.sets();
             create trigger sets after update on sched.schedule for each row execute function sched.sets()",
        )
        .unwrap();
    let fired: i64 = one(&mut root, "select count(*) from sched.execution");
    wait_for(&mut root, &format!("select count(*) > {fired} + 5 from sched.execution"), SOON);
    for path in ["public", "pg_catalog, pg_temp"] {
        root.batch_execute(&format!(
            "set search_path = {path}; select sched.enqueue('job'); select sched.try_claim('job', '2026-01-01');
             select sched.pause('s'); select sched.resume('s'); begin; select sched.enqueue('job'); commit"
        ))
        .unwrap();
        let settings = "select concat_ws(';', current_setting('search_path'), current_setting('row_security'),
                                         current_setting('default_transaction_read_only'))";
        assert_eq!(one::<String>(&mut root, settings), format!("{path};on;off"));
        root.batch_execute("select sched.finish_success(id, lease_token) from sched.running; delete from sched.ledger where job_name = 'job' and plan_time = '2026-01-01'").ok();
    }
}

#[test]
fn the_owner_of_a_database_can_attach_nothing_to_the_tables() {
    let (cluster, mut root) = prey();
    root.batch_execute("create extension scheduler; select sched.grant_use('evil')").unwrap();
    let mut evil = cluster.connect_as("evil", "prey");
    evil.batch_execute(
        "create table bait (id uuid primary key);
         create function f() returns trigger language plpgsql as 'begin return new; end';
         create function e() returns event_trigger language plpgsql as 'begin end'",
    )
    .unwrap();
    let tables =
        "select array_agg(oid::regclass::text) from pg_class where relnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) and relkind = 'r'";
    for table in one::<Vec<String>>(&mut root, tables) {
        for statement in [
            "create trigger t before insert or update or delete on TABLE for each row execute function f()",
            "create constraint trigger t after insert on TABLE deferrable initially deferred for each row execute function f()",
            "create rule r as on insert to TABLE do also select f()",
            "create policy p on TABLE using (true)",
            "alter table TABLE enable row level security",
            "alter table TABLE add column c text default current_user",
            "alter table TABLE add check (f() is null)",
            "alter table TABLE owner to evil",
            "alter table TABLE set schema public",
            "alter table TABLE disable trigger all",
            "create index on TABLE ((1))",
            "create statistics s on ctid, xmin from TABLE",
            "create publication p for table TABLE",
            "create table child () inherits (TABLE)",
            "create table same (like TABLE)",
            "create view v as select * from TABLE; select * from v",
            "copy TABLE to stdout",
            "grant all on TABLE to evil",
            "comment on table TABLE is ''",
            "drop table TABLE cascade",
        ] {
            let statement = statement.replace("TABLE", &table);
            let code = refused(&mut evil, &statement);
            assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
        }
    }
    for statement in [
        "create table referrer (id uuid references sched.ledger (id))",
        &format!("create table referrer (id uuid references {LEASE_TABLE})"),
        "create event trigger t on ddl_command_end execute function e()",
        "create function sched.f() returns int language sql as 'select 1'",
        "create or replace function sched_internal.uuid_v7() returns uuid language sql as 'select null::uuid'",
        "create table sched.t ()",
        "alter schema sched rename to mine",
        "alter schema sched owner to evil",
        "drop schema sched cascade",
        "create function sched_internal.f() returns int language sql as 'select 1'",
        "create table sched_internal.t ()",
        "alter schema sched_internal rename to mine",
        "alter schema sched_internal owner to evil",
        "drop schema sched_internal cascade",
        "grant usage on schema sched_internal to evil",
        "alter function sched_internal.wake_dispatcher() owner to evil",
        "drop extension scheduler",
        "alter extension scheduler update",
        "alter extension scheduler add table bait",
        "alter function sched.claim owner to evil",
        "alter function sched.grant_use set search_path = public",
        "alter view sched.jobs set (security_barrier = off)",
        "create rule r as on insert to sched.execution do instead nothing",
        "create trigger t instead of insert on sched.execution for each row execute function f()",
        "create or replace view sched.monitors as select 1",
        "alter sequence sched.fence restart",
        "reassign owned by postgres to evil",
        "drop owned by postgres",
        "alter default privileges for role postgres grant all on tables to evil",
        "select sched.grant_use('evil')",
        "select sched.grant_worker('evil')",
        "create trigger t before update on bait for each row execute function sched_internal.schedule_before_update()",
        "create cast (text as uuid) with inout as implicit",
        "create cast (regrole as name) with inout as implicit",
        "alter system set sched.worker_role = 'evil'",
        "alter database prey set sched.enabled = off",
        "set session_replication_role = replica",
    ] {
        let code = refused(&mut evil, statement);
        let allowed = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::CANT_CHANGE_RUNTIME_PARAM];
        assert!(allowed.contains(&code), "{statement}: {code:?}");
    }
}
