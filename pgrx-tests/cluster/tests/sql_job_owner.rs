//! I7 for SQL jobs: a command is its job's owner, and never anybody else, whatever it does and whatever was done to its job.

use scheduler_cluster_tests::proc;
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, runners, sleeping, status};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};

/// Whoever calls it says who it is, and tries to become more.
const WITNESS: &str = "
    create table seen (line serial, place text, role name, session name, super text, run text);
    create table work (id int);
    create function witness(place text) returns text language plpgsql as $$
    begin
        insert into app.seen (place, role, session, super, run)
            values (place, current_user, session_user, current_setting('is_superuser'), (select string_agg(job_name, ',') from sched.this_run()));
        begin
            alter role evil superuser;
            raise warning 'escaped at %', place;
        exception when insufficient_privilege then null;
        end;
        return place;
    end $$;
    create function on_work() returns trigger language plpgsql as $$ begin perform app.witness(tg_argv[0]); return new; end $$;
    create function again() returns trigger language plpgsql as $$
    begin
        perform app.witness('again ' || new.id);
        set constraints all deferred;
        if new.id < 5 then insert into app.repeated values (new.id + 1); end if;
        return new;
    end $$;
    create table repeated (id int);
    create constraint trigger late after insert on work deferrable initially deferred for each row execute function on_work('deferred');
    create constraint trigger later after insert on repeated deferrable initially deferred for each row execute function again();
    create type mood as enum ('fine');
    create function mood_json(mood) returns json language plpgsql as $$ begin return to_json(app.witness('cast')); end $$;
    create cast (mood as json) with function mood_json(mood);
    create function same(text, text) returns boolean language plpgsql as $$ begin perform app.witness('operator'); return false; end $$;
    create operator = (leftarg = text, rightarg = text, function = same);
    create function definer() returns text language sql security definer as $$ select app.witness('definer') $$;
";

fn with_evil(builder: scheduler_cluster_tests::Builder) -> (Cluster, Client, Client) {
    let cluster = builder.start();
    let mut root = cluster.with_extension("postgres");
    root.batch_execute(
        "create role evil login; create role friend login; create role boss login superuser;
         select sched.grant_use('evil'), sched.grant_use('friend');
         create schema app authorization evil; grant create on database postgres to evil; grant usage on schema app to public",
    )
    .unwrap();
    let evil = cluster.connect_as("evil", "postgres");
    (cluster, root, evil)
}

/// Ways out of the owner's rights, and the SQLSTATE that each ends with (or those that versions of the server have for it).
const WAYS: &[(&str, &str)] = &[
    ("reset role", ""),
    ("reset session authorization", ""),
    ("set session authorization default", ""),
    ("set role none", ""),
    ("reset all", ""),
    ("set session authorization postgres", "42501"),
    ("set local session authorization boss", "42501"),
    ("set role postgres", "42501"),
    ("set local role friend", "42501"),
    ("select set_config('role', 'postgres', false)", "42501"),
    ("select set_config('session_authorization', 'postgres', true)", "42501"),
    ("do $$ begin execute 'set role none'; execute 'reset session authorization'; perform app.witness('do'); end $$", ""),
    ("select app.lent()", "42501"),
    ("select app.definer()", ""),
    ("insert into app.work values (1)", ""),
    ("set constraints all deferred; insert into app.work values (1)", ""),
    ("insert into app.repeated values (1)", ""),
    ("declare held cursor with hold for select app.witness('held') from generate_series(1, 2)", ""),
    ("create temp table gone on commit drop as select app.witness('temp')", ""),
    ("select 'fine'::app.mood", ""),
    ("set search_path = app, pg_catalog; select 'a'::text = 'b'::text", ""),
    ("set search_path = app, pg_temp, pg_catalog; create function pg_temp.now() returns timestamptz language sql as $$ select app.witness('now'); select '2000-01-01'::timestamptz $$;
      create temp table ledger (id int); create temp table lease (id int); create temp table job (id int); create temp table regclass (id int); create domain pg_temp.uuid as text; create domain pg_temp.timestamptz as text", ""),
    ("create function app.uuid_out(text) returns text language sql as $$ select app.witness('function') $$; set search_path = app, pg_catalog", ""),
    ("create schema sched", "42P06"),
    ("alter schema sched rename to mine", "42501"),
    ("create function sched.mine() returns int return 1", "42501"),
    ("create table sched.mine ()", "42501"),
    ("create trigger mine after insert on sched.ledger execute function app.on_work()", "42501"),
    ("create rule mine as on insert to sched.ledger do instead nothing", "42501"),
    ("create event trigger mine on ddl_command_end execute function app.on_work()", "42501"),
    ("alter role evil superuser", "42501"),
    ("alter role evil set session_authorization = 'postgres'", ",22023,42501"),
    ("select app.witness('as before'); alter role evil reset session_authorization", ""),
    ("set session_replication_role = replica", "42501"),
    ("set sched.enabled = off", "55P02"),
    ("set sched.max_sql_runners = 100", "55P02"),
    ("load 'nothing'", "42501"),
    // (0A000 where the server has no such files.)
    ("create extension pg_stat_statements", "42501,0A000"),
    ("copy app.seen to program 'true'", "42501"),
    ("copy app.seen to '/tmp/never'", "42501"),
    ("select pg_read_file('postgresql.conf')", "42501"),
    ("insert into sched.ledger default values", "42501"),
    ("update sched.job set owner = 'evil'", "42501"),
    ("delete from {LEASE_TABLE}", "42501"),
    ("select * from {READY} r", "42501"),
    ("select setval('sched.fence', 1)", "42501"),
    ("select sched.grant_monitor('evil')", "42501"),
    ("select sched.define_job('secret', 'sql', 'select 1')", "42501"),
    ("select sched.test_job('secret')", "42501"),
    ("select sched.enqueue('secret')", "42501"),
    ("select sched.drop_job('secret')", "42501"),
    ("select sched.finish_success(e.id, e.lease_token) from sched.execution e join sched.this_run() r on r.execution_id = e.id", "55000"),
    ("select sched.finish_failure(e.id, e.lease_token) from sched.execution e join sched.this_run() r on r.execution_id = e.id", "55000"),
    ("select sched.heartbeat(e.id, e.lease_token, '1 second') from sched.execution e join sched.this_run() r on r.execution_id = e.id", "55000"),
    ("select sched.finish_success(id, gen_random_uuid()) from app.secret_ids", "55000"),
    ("select sched.cancel(id) from app.secret_ids", "42501"),
    ("select pg_terminate_backend(pid) from app.pids", "42501"),
    ("select pg_cancel_backend(pid) from app.pids", "42501"),
];

#[test]
fn no_way_leads_out_of_the_owners_rights() {
    let (cluster, mut root, mut evil) =
        with_evil(Cluster::builder().set("sched.max_sql_runners", "2").set("sched.runner_idle", "60s"));
    evil.batch_execute(&format!("set search_path = app, pg_catalog; {WITNESS}; create table secret_ids (id uuid); create table pids (pid int); reset search_path"))
        .unwrap();
    root.batch_execute("create function app.lent() returns text language sql set role = 'postgres' as $$ select app.witness('lent') $$; alter function app.lent() owner to evil").unwrap();
    define(&mut root, "secret", "select pg_sleep(3600) /* swordfish */", "");
    root.batch_execute("select sched.enqueue('secret', '\"swordfish\"')").unwrap();
    let (_, secret) = sleeping(&mut root, "secret", 1).remove(0);
    root.batch_execute(
        "insert into app.secret_ids select id from sched.running;
         insert into app.pids select pid from pg_stat_activity where backend_type in ('scheduler dispatcher', 'scheduler launcher', 'scheduler runner')",
    )
    .unwrap();
    let dispatcher_before = dispatcher(&mut root);
    let mut wrong = Vec::new();
    for (number, (way, codes)) in WAYS.iter().enumerate() {
        // Once with a witness after it, and once more in the same process, which must be clean.
        let (job, way) = (format!("way {number}"), fill(way));
        define(&mut evil, &job, &format!("{way}; select app.witness('after {number}')"), "");
        let id = enqueue(&mut evil, &job, 1).remove(0);
        let (status, code) = ended(&mut root, &id);
        if !codes.split(',').any(|wanted| wanted == code) {
            let message: String =
                one(&mut root, &format!("select coalesce(error_msg, '') from sched.execution where id = '{id}'"));
            wrong.push(format!("{way}: {status} {code}, not {codes}: {message}"));
        }
        // The same in transactions of its own.
        define(&mut evil, &job, &format!("{way}; select app.witness('own {number}')"), "own_transactions => true");
        let id = enqueue(&mut evil, &job, 1).remove(0);
        let (status, code) = ended(&mut root, &id);
        if !codes.split(',').any(|wanted| wanted == code)
            && !["25P01", "25001", "42P07", "42723", "42710"].contains(&&*code)
        {
            wrong.push(format!("own: {way}: {status} {code}, not {codes}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let row = root
        .query_one(
            "select count(*), array_agg(distinct place order by place) filter (where place !~ '^(after|own) ')
               from app.seen",
            &[],
        )
        .unwrap();
    let (all, places): (i64, Vec<String>) = (row.get(0), row.get(1));
    let strange: String = one(&mut root, "select coalesce(string_agg(seen::text, e'\\n'), '') from app.seen where role <> 'evil' or session <> 'evil' or super <> 'off' or (run ~ '^way') is not true");
    assert!(strange.is_empty(), "of {all}: {strange}");
    assert!(all > 60, "{all}");
    for place in ["again 1", "again 5", "cast", "deferred", "definer", "do", "held", "operator", "temp"] {
        assert!(places.iter().any(|known| known == place), "{place} was not reached: {places:?}");
    }
    assert!(!places.iter().any(|place| ["now", "function", "lent"].contains(&place.as_str())), "{places:?}");
    assert!(!one::<bool>(&mut root, "select rolsuper from pg_roles where rolname = 'evil'"));
    assert!(cluster.logged("escaped").is_empty());
    assert!(proc::is_alive(secret), "the other's run goes on");
    assert_eq!(dispatcher(&mut root), dispatcher_before);
    assert_eq!(one::<String>(&mut root, "select string_agg(job_name, ',') from sched.running"), "secret");
}

#[test]
fn nothing_of_another_owner_is_shown_to_a_command_and_no_run_is_forged() {
    let (_cluster, mut root, mut evil) = with_evil(Cluster::builder());
    define(&mut root, "secret", "select pg_sleep(3600) /* swordfish */", "");
    define(&mut root, "secret too", "select 'swordfish'", "");
    let done = {
        root.batch_execute("select sched.enqueue('secret', '\"swordfish\"')").unwrap();
        enqueue(&mut root, "secret too", 1).remove(0)
    };
    assert_eq!(ended(&mut root, &done).0, "SUCCESS");
    sleeping(&mut root, "secret", 1);
    evil.batch_execute("create table app.found (t text)").unwrap();
    // Everything that may be read at all.
    let look = "insert into app.found select e::text from sched.execution e; insert into app.found select e::text from sched.running e;
        insert into app.found select e::text from sched.history e; insert into app.found select e::text from sched.schedules e;
        insert into app.found select e::text from pg_stat_activity e; insert into app.found select e::text from pg_prepared_statements e;
        insert into app.found select e::text from pg_cursors e; insert into app.found select e::text from pg_stat_progress_vacuum e";
    define(&mut evil, "look", look, "");
    let id = enqueue(&mut evil, "look", 1).remove(0);
    assert_eq!(ended(&mut root, &id), ("SUCCESS".into(), String::new()));
    let found: i64 = one(&mut root, "select count(*) from app.found where t like '%swordfish%'");
    assert_eq!(found, 0);
    // What looks like this_run, and is nobody's.
    define(
        &mut evil,
        "forge",
        "create function app.this_run() returns table (execution_id uuid) language sql as $$ select gen_random_uuid() $$;
         create function pg_temp.this_run() returns table (execution_id uuid) language sql as $$ select gen_random_uuid() $$;
         set search_path = app, pg_temp, sched; set sched.execution_id = 'x'; select set_config('application_name', 'scheduler: secret', false);
         select job_name, payload, attempt from sched.this_run()",
        "",
    );
    let id = enqueue(&mut evil, "forge", 1).remove(0);
    let (_, code) = ended(&mut root, &id);
    // (A setting of our prefix is none before version 15.)
    assert!(["", "42602"].contains(&code.as_str()), "{code}");
    let own = "select job_name from sched.this_run()";
    define(&mut evil, "own", &format!("create table app.mine as {own}; do $$ begin assert (select execution_id = id from sched.this_run(), sched.running); end $$"), "");
    let id = enqueue(&mut evil, "own", 1).remove(0);
    assert_eq!(ended(&mut root, &id).1, "");
    assert_eq!(one::<String>(&mut root, "select job_name from app.mine"), "own");
    // No row for those who are in no run, whatever they call themselves.
    evil.batch_execute("set application_name = 'scheduler: own'").unwrap();
    assert_eq!(one::<i64>(&mut evil, "select count(*) from sched.this_run()"), 0);
}

/// Settings that a command may change without harm to how its run ends.
const OBSTACLES: &[&str] = &[
    "set transaction read only",
    "set transaction isolation level serializable read only deferrable",
    "set default_transaction_read_only = on",
    "set lock_timeout = '1ms'",
    "set statement_timeout = '500ms'",
    "set idle_in_transaction_session_timeout = '1ms'",
    "set search_path = ''",
    "set search_path = pg_temp",
    "set array_nulls = off",
    "set transform_null_equals = on",
    "set standard_conforming_strings = off",
    "set datestyle = 'german'; set intervalstyle = 'iso_8601'; set timezone = 'Pacific/Chatham'; set bytea_output = 'escape'; set lc_numeric = 'C'",
    "set enable_indexscan = off; set enable_bitmapscan = off; set enable_seqscan = off; set enable_nestloop = off",
    "set plan_cache_mode = force_generic_plan; set jit = off; set work_mem = '64kB'",
    "set row_security = off",
    "set client_min_messages = debug5",
    "set default_table_access_method = heap; set default_tablespace = ''; set temp_buffers = 100",
    "set synchronous_commit = off; set commit_delay = 0",
    "set quote_all_identifiers = on; set from_collapse_limit = 1; set join_collapse_limit = 1",
    "set check_function_bodies = off; set extra_float_digits = -15",
];

#[test]
fn no_setting_of_a_command_keeps_its_run_from_ending() {
    let (cluster, mut root, mut evil) =
        with_evil(Cluster::builder().set("sched.max_sql_runners", "1").set("sched.runner_idle", "60s"));
    for (number, obstacle) in OBSTACLES.iter().enumerate() {
        for own in ["", "own_transactions => true"] {
            let job = format!("obstacle {number}");
            define(&mut evil, &job, &format!("{obstacle}; select 1 as one"), own);
            let id = enqueue(&mut evil, &job, 1).remove(0);
            let code = ended(&mut root, &id).1;
            // (commit_delay is for superusers.)
            assert!(code.is_empty() || (code == "42501" && obstacle.contains("commit_delay")), "{obstacle}: {code}");
        }
    }
    assert!(cluster.logged("FATAL").is_empty() && cluster.logged("PANIC").is_empty());
}

/// What is enqueued while it is off waits.
fn switched(cluster: &Cluster, on: &str) {
    cluster.set("sched.enabled", on);
}

#[test]
fn a_job_that_changed_hands_runs_neither_command() {
    let (cluster, mut root, mut evil) = with_evil(Cluster::builder());
    root.batch_execute("create table ran (who name default current_user, what text); grant insert on ran to public")
        .unwrap();
    let mut friend = cluster.connect_as("friend", "postgres");
    switched(&cluster, "off");
    // Dropped, and defined by another role; given away by a superuser; redefined by its owner, which is its right.
    for job in ["dropped", "given", "redefined", "renamed"] {
        define(&mut evil, job, "insert into ran (what) values ('before')", "");
    }
    let ids: Vec<String> = ["dropped", "given", "redefined"].map(|job| enqueue(&mut evil, job, 1).remove(0)).into();
    evil.batch_execute("select sched.drop_job('dropped')").unwrap();
    define(&mut friend, "dropped", "insert into ran (what) values ('after')", "");
    root.batch_execute("update sched.job set owner = 'friend', command = 'insert into ran (what) values (''given'')' where job_name = 'given'").unwrap();
    define(&mut evil, "redefined", "insert into ran (what) values ('redefined')", "");
    switched(&cluster, "on");
    for (id, expected) in ids.iter().zip([("FAILED", "42501"), ("FAILED", "42501"), ("SUCCESS", "")]) {
        let (status, code) = ended(&mut root, id);
        assert_eq!((status.as_str(), code.as_str()), expected);
    }
    assert_eq!(one::<String>(&mut root, "select string_agg(who || ' ' || what, ',') from ran"), "evil redefined");
    // Of those that were made since, each runs as its owner.
    let id = enqueue(&mut friend, "dropped", 1).remove(0);
    assert_eq!(ended(&mut root, &id).1, "");
    assert_eq!(
        one::<String>(&mut root, "select string_agg(who || ' ' || what, ',') from ran"),
        "evil redefined,friend after"
    );
    // A new name is the same role.
    switched(&cluster, "off");
    let id = enqueue(&mut evil, "renamed", 1).remove(0);
    drop(evil);
    root.batch_execute("alter role evil rename to villain").unwrap();
    switched(&cluster, "on");
    assert_eq!(ended(&mut root, &id).1, "");
    assert_eq!(one::<i64>(&mut root, "select count(*) from ran where who = 'villain'"), 1);
}

#[test]
fn who_may_not_connect_runs_nothing() {
    let (cluster, mut root, mut evil) = with_evil(Cluster::builder());
    root.batch_execute("create table ran (who name default current_user); grant insert on ran to public; revoke connect on database postgres from public; grant connect on database postgres to evil, friend").unwrap();
    define(&mut evil, "job", "insert into ran default values", "max_attempts => 1");
    let run = |root: &mut Client| {
        let id = one::<String>(root, "select sched.enqueue('job')::text");
        ended(root, &id)
    };
    assert_eq!(run(&mut root), ("SUCCESS".into(), String::new()));
    let before_17 = one::<bool>(&mut root, "select current_setting('server_version_num')::int < 170000");
    root.batch_execute("alter role evil nologin").unwrap();
    let without_login =
        if before_17 { ("FAILED".to_owned(), "28000".to_owned()) } else { ("SUCCESS".into(), String::new()) };
    assert_eq!(run(&mut root), without_login);
    root.batch_execute("alter role evil login; revoke connect on database postgres from evil").unwrap();
    assert_eq!(run(&mut root), ("FAILED".into(), "28000".into()));
    let message: String = one(
        &mut root,
        "select error_msg from sched.history where error_code = '28000' order by finished_at desc limit 1",
    );
    assert!(message.contains("may not connect to database \"postgres\"") && message.contains("HINT:"), "{message}");
    root.batch_execute("grant connect on database postgres to evil").unwrap();
    assert_eq!(run(&mut root), ("SUCCESS".into(), String::new()));
    // Nor is it whom its settings name. (A superuser sets them; the role itself may not name one that it is no member of.)
    root.batch_execute("alter role evil set role = 'boss'; alter database postgres set role = 'friend'; alter role evil set work_mem = '9MB'").unwrap();
    let (state, code) = run(&mut root);
    assert!(state == "SUCCESS" || code == "28000", "{state} {code}");
    root.batch_execute("alter role evil reset role; alter database postgres reset role").unwrap();
    assert_eq!(run(&mut root), ("SUCCESS".into(), String::new()));
    assert_eq!(one::<String>(&mut root, "select string_agg(distinct who::text, ',') from ran"), "evil");
    // Dropped, with what it leaves.
    drop(evil);
    let id = one::<String>(&mut root, "select sched.enqueue('job')::text");
    ended(&mut root, &id);
    wait_until("the role to be dropped", SOON, || {
        root.batch_execute("drop owned by evil cascade; drop role evil").ok()
    });
    let count: i64 = one(&mut root, "select count(*) from ran");
    assert_eq!(run(&mut root), ("FAILED".into(), "28000".into()));
    assert_eq!(one::<i64>(&mut root, "select count(*) from ran"), count);
    // Everybody else goes on.
    let mut friend = cluster.connect_as("friend", "postgres");
    define(&mut friend, "friend's", "insert into ran default values", "");
    let id = enqueue(&mut friend, "friend's", 1).remove(0);
    assert_eq!(ended(&mut root, &id).1, "");
}

#[test]
fn who_is_a_superuser_no_more_has_no_more_rights() {
    let (cluster, mut root, _evil) = with_evil(Cluster::builder().set("sched.runner_idle", "60s"));
    let mut boss = cluster.connect_as("boss", "postgres");
    define(
        &mut boss,
        "job",
        "do $$ begin assert (select current_setting('is_superuser') = 'on'); end $$; select pg_read_file('PG_VERSION')",
        "",
    );
    let id = enqueue(&mut boss, "job", 1).remove(0);
    assert_eq!(ended(&mut root, &id), ("SUCCESS".into(), String::new()));
    let before = runners(&mut root);
    root.batch_execute("alter role boss nosuperuser").unwrap();
    define(&mut root, "other", "select 1", "");
    let id = one::<String>(&mut root, "select sched.enqueue('job')::text");
    let (state, code) = ended(&mut root, &id);
    assert_eq!(state, "FAILED", "{code}; runners {before:?}");
    root.batch_execute("update sched.job set command = 'select pg_read_file(''PG_VERSION'')' where job_name = 'job'")
        .unwrap();
    let id = one::<String>(&mut root, "select sched.enqueue('job')::text");
    assert_eq!(ended(&mut root, &id), ("FAILED".into(), "42501".into()));
}

#[test]
fn a_dispatcher_without_superuser_has_each_command_run_as_its_owner() {
    let cluster = Cluster::builder().set("sched.worker_role", "worker").start();
    let mut root = cluster.connect();
    root.batch_execute("create role worker login; create role app login; create extension scheduler; select sched.grant_worker('worker'), sched.grant_use('app')").unwrap();
    wait_until("a dispatcher", SOON, || dispatcher(&mut root));
    root.batch_execute("create table ran (who name default current_user, session name default session_user, super text default current_setting('is_superuser')); grant insert on ran to public").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    define(&mut root, "of the superuser", "insert into ran default values; select pg_read_file('PG_VERSION')", "");
    define(&mut app, "of the app", "insert into ran default values", "");
    define(&mut app, "more", "insert into ran default values; select pg_read_file('PG_VERSION')", "");
    for (job, code) in [("of the superuser", ""), ("of the app", ""), ("more", "42501")] {
        let id = enqueue(&mut root, job, 1).remove(0);
        assert_eq!(ended(&mut root, &id).1, code, "{job}");
    }
    let ran: String =
        one(&mut root, "select string_agg(concat_ws(' ', who, session, super), ',' order by who) from ran");
    assert_eq!(ran, "app app off,postgres postgres on");
    // Whoever can log in as that role writes to the ledger, but has no command run as another.
    let mut worker = cluster.connect_as("worker", "postgres");
    for statement in [
        "update sched.job set command = 'select 2'",
        "insert into sched.job (job_name, owner) values ('x', 'postgres')",
    ] {
        let refused = worker.batch_execute(statement).expect_err(statement);
        assert_eq!(refused.code().map(postgres::error::SqlState::code), Some("42501"), "{statement}");
    }
    let id = enqueue(&mut app, "of the app", 1).remove(0);
    ended(&mut root, &id);
    assert_eq!(status(&mut root, &id).0, "SUCCESS");
    wait_for(&mut root, &none(LEASE), SOON);
}
