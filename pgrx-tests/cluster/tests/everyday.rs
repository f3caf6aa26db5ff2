//! The second week of an application team: a database of tests with a clock of its own, schedules declared at each start, executions that are moved,
//! jobs that change hands, one job for another role.

use std::thread;

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{refused, stays, wait_until, Client, Cluster};
use std::time::Duration;

/// Nothing fires by itself; each plan time fires when it is due, however far the clock is moved.
#[test]
fn a_database_of_tests_has_a_clock_of_its_own() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    for call in ["advance('1 hour')", "reset()", "drain_sql()"] {
        assert_eq!(
            refused(&mut db, &format!("select * from sched.{call}")),
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE
        );
    }
    db.batch_execute(
        "select sched.test_mode(); select sched.define_job('mail');
         select sched.create_schedule('soon', 'every 1 second', 'mail', catch_up => 'every_plan', max_plans_per_tick => 1000);
         select sched.create_schedule('hourly', '0 * * * *', 'mail')",
    )
    .unwrap();
    wait_until("the dispatcher to leave", SOON, || dispatcher(&mut db).is_none().then_some(()));
    stays("nothing", Duration::from_secs(2), || one::<i64>(&mut db, "select count(*) from sched.execution") == 0);
    assert_eq!(cluster.logged("the database is in test mode").len(), 1);
    assert_eq!(one::<String>(&mut db, "select component from sched.health() limit 1"), "test_mode");
    assert!(one::<bool>(&mut db, "select sched.healthy()"), "a due schedule is no fault");
    db.batch_execute("select sched.drop_schedule('soon'), sched.dispatch_due(), sched.reset()").unwrap();
    let moved = "select abs(extract(epoch from sched.advance('3 days') - clock_timestamp()) - 259200) < 10";
    assert!(one::<bool>(&mut db, moved));
    assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 72);
    let late = "select max(created_at - plan_time) = '0' from sched.execution where schedule_name = 'hourly'";
    assert!(one::<bool>(&mut db, late), "each at its time");
    // What waits for a time, leases and retries go by that clock.
    db.batch_execute("select sched.reset(); select sched.enqueue('mail', run_at => sched.now() + '2 hours')").unwrap();
    let claimed = "select count(*) from sched.claim(stale_timeout => '1 minute')";
    assert_eq!(one::<i64>(&mut db, claimed), 0);
    db.batch_execute("select sched.advance('2 hours')").unwrap();
    assert_eq!(one::<i64>(&mut db, claimed), 1);
    db.batch_execute("select sched.advance('2 minutes'), sched.dispatch_due()").unwrap();
    assert_eq!(one::<String>(&mut db, "select error_code from sched.failed"), "stale_timeout");
    // By zero, by less, and before a reset.
    assert_eq!(refused(&mut db, "select sched.advance('0')"), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(refused(&mut db, "select sched.advance('-1 hour')"), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(refused(&mut db, "select sched.test_mode(false)"), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    // A rollback takes an advance back.
    db.batch_execute("begin; select sched.advance('1 day'); rollback").unwrap();
    assert!(one::<bool>(&mut db, "select sched.now() < clock_timestamp() + '3 days 3 hours'"));
    db.batch_execute("select sched.reset(false), sched.test_mode(false)").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.jobs"), 0);
    assert!(one::<bool>(&mut db, "select sched.now() < clock_timestamp() + '1 minute'"));
    wait_until("a dispatcher", SOON, || dispatcher(&mut db));
}

/// A copy by TEMPLATE is in test mode, and needs no adoption; SQL jobs run when they are told to.
#[test]
fn a_copy_of_a_database_of_tests_is_one() {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    cluster.execute("create database tests owner app");
    let mut root = cluster.connect_as("postgres", "tests");
    root.batch_execute("create extension scheduler; select sched.grant_use('app'); create table done (at timestamptz); alter table done owner to app").unwrap();
    drop(root);
    let mut owner = cluster.connect_as("app", "tests");
    owner.batch_execute("select sched.test_mode(); select sched.schedule_sql('work', '@hourly', 'insert into done values (sched.now())')").unwrap();
    wait_until("the dispatcher to leave", SOON, || dispatcher(&mut owner).is_none().then_some(()));
    drop(owner);
    cluster.execute("create database clone template tests owner app");
    let mut clone = cluster.connect_as("app", "clone");
    assert_eq!(
        one::<i64>(&mut clone, "select count(*) from sched.health() where component in ('test_mode', 'home') and ok"),
        2
    );
    clone.batch_execute("select sched.advance('1 hour'), sched.dispatch_due()").unwrap();
    assert_eq!(one::<String>(&mut clone, "select string_agg(status, ' ') from sched.drain_sql()"), "SUCCESS");
    assert!(
        one::<bool>(&mut clone, "select at > clock_timestamp() + '50 minutes' from done"),
        "it ran by the clock of the test"
    );
    assert_eq!(one::<i64>(&mut clone, "select count(*) from sched.drain_sql()"), 0);
    // A command that fails is a row as well, and each execution has a process of its own.
    clone.batch_execute("select sched.define_job('bad', 'sql', 'select 1 / 0'); select sched.enqueue('bad'), sched.enqueue('work'), sched.enqueue('work')").unwrap();
    let each = "select string_agg(status, ' ' order by status) from sched.drain_sql(2)";
    assert_eq!(one::<String>(&mut clone, each).split(' ').count(), 2);
    assert_eq!(one::<i64>(&mut clone, "select count(*) from sched.drain_sql()"), 1);
    let error = clone.batch_execute("begin isolation level repeatable read; select sched.drain_sql()").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    clone.batch_execute("rollback").unwrap();
}

/// Test mode is refused where somebody's schedules have fired.
#[test]
fn a_database_in_use_is_none_of_tests() {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 1 second', 'j')")
        .unwrap();
    wait_until("a fire", SOON, || one::<bool>(&mut app, "select count(*) > 0 from sched.execution").then_some(()));
    assert_eq!(refused(&mut db, "select sched.test_mode()"), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    assert_eq!(refused(&mut app, "select sched.test_mode()"), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// What a declaration did: action and detail of each schedule.
fn declare(client: &mut Client, specs: &str, more: &str) -> String {
    let call = format!(
        "select coalesce(string_agg(concat_ws(' ', schedule_name, action, detail), ', '), '') from sched.declare_schedules('app', '{specs}'{more})"
    );
    one(client, &call)
}

#[test]
fn a_group_has_exactly_the_schedules_that_were_declared() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('loose', '@daily', 'job')").unwrap();
    let first = r#"[{"schedule_name": "a", "clock": "0 3 * * *", "job_name": "job"}, {"schedule_name": "b", "clock": "@daily", "command": "select 1"}]"#;
    assert_eq!(declare(&mut db, first, ", true"), "a created, b created");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules"), 1, "a dry run writes nothing");
    assert_eq!(declare(&mut db, first, ""), "a created, b created");
    let versions = "select string_agg(schedule_name || version || baseline_at::text, ' ' order by schedule_name) from sched.schedule";
    let before: String = one(&mut db, versions);
    assert_eq!(declare(&mut db, first, ""), "a unchanged, b unchanged");
    assert_eq!(one::<String>(&mut db, versions), before);
    assert_eq!(one::<String>(&mut db, "select string_agg(distinct group_name, ' ') from sched.schedules"), "app");
    // A pause by hand stays; what is left out has its default.
    db.batch_execute("select sched.pause('a')").unwrap();
    let second = r#"[{"schedule_name": "a", "clock": "0 6 * * *", "job_name": "job", "payload": {"n": 1}}, {"schedule_name": "b", "clock": "@daily", "command": "select 2"}]"#;
    let says =
        "a altered clock: 0 3 * * * → 0 6 * * *; payload: {} → {\"n\": 1}, b altered command: select 1 → select 2";
    assert_eq!(declare(&mut db, second, ", dry_run => true"), says);
    assert_eq!(declare(&mut db, second, ""), says);
    assert!(!one::<bool>(&mut db, "select enabled from sched.schedules where schedule_name = 'a'"));
    // Renamed, which is said once; its scope stays.
    let third = r#"[{"schedule_name": "c", "was": "a", "clock": "0 6 * * *", "job_name": "job", "payload": {"n": 1}}, {"schedule_name": "d", "was": "b", "clock": "@daily", "command": "select 2"}]"#;
    let says = "c renamed schedule_name: a → c, d renamed schedule_name: b → d; job_name: b → d";
    assert_eq!(declare(&mut db, third, ""), says);
    assert_eq!(declare(&mut db, third, ""), "c unchanged, d unchanged");
    assert_eq!(one::<String>(&mut db, "select string_agg(job_name, ' ' order by job_name) from sched.jobs"), "d job");
    assert_eq!(one::<String>(&mut db, "select scope_id from sched.schedule where schedule_name = 'c'"), "a");
    // What is of no group is not touched, unless it is asked for.
    let fourth = r#"[{"schedule_name": "loose", "clock": "@daily", "job_name": "job"}]"#;
    let call = format!("select sched.declare_schedules('app', '{fourth}')");
    assert_eq!(refused(&mut db, &call), SqlState::DUPLICATE_OBJECT);
    let fifth = fourth.replace("}]", ", \"adopt\": true}]");
    assert_eq!(
        declare(&mut db, &fifth, ", prune => false"),
        "loose altered group_name: (none) → app, c unchanged, d unchanged"
    );
    assert_eq!(declare(&mut db, &fifth, ""), "loose unchanged, c dropped, d dropped");
    assert_eq!(one::<String>(&mut db, "select string_agg(job_name, ' ') from sched.jobs"), "job");
    // Bad input names the element and the key, and changes nothing.
    for (specs, code) in [
        (
            r#"[{"schedule_name": "x", "clock": "@daily", "job_name": "job"}, {"schedule_name": "x", "clock": "@daily", "job_name": "job"}]"#,
            "22023",
        ),
        (r#"[{"schedule_name": "x", "clock": "@daily", "job_name": "job", "command": "select 1"}]"#, "22023"),
        (r#"[{"schedule_name": "x", "clock": "daily!", "job_name": "job"}]"#, "22023"),
        (r#"[{"schedule_name": "x", "clock": "@daily", "job_name": "none"}]"#, "42704"),
        (r#"[{"schedule_name": "x", "clock": "@daily", "job_name": "job", "color": "red"}]"#, "22023"),
        (r#"{}"#, "22023"),
    ] {
        let error = db.batch_execute(&format!("select sched.declare_schedules('app', '{specs}')")).unwrap_err();
        assert_eq!(error.code().map(SqlState::code), Some(code), "{specs}: {error}");
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules"), 1);
    // Another role's group.
    cluster.execute("create role other login; select sched.grant_use('other')");
    let mut other = cluster.connect_as("other", "postgres");
    assert_eq!(refused(&mut other, "select sched.declare_schedules('app', '[]')"), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// Three instances start at once, again and again: the first applies a change, and the others wait and find nothing to do.
#[test]
fn instances_that_start_at_once_agree() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job')").unwrap();
    for round in 0..10 {
        let specs: Vec<String> = (round..round + 50)
            .map(|n| format!(r#"{{"schedule_name": "s{n}", "clock": "0 {} * * *", "job_name": "job"}}"#, round % 24))
            .collect();
        let specs = format!("[{}]", specs.join(","));
        let changed: Vec<i64> = thread::scope(|scope| {
            let start = || {
                let mut client = cluster.connect();
                one::<i64>(
                    &mut client,
                    &format!(
                        "select count(*) from sched.declare_schedules('app', '{specs}') where action <> 'unchanged'"
                    ),
                )
            };
            let starts: Vec<_> = (0..3).map(|_| scope.spawn(start)).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(changed.iter().filter(|changed| **changed == 0).count(), 2, "round {round}: {changed:?}");
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules where group_name = 'app'"), 50);
    }
}

#[test]
fn what_waits_is_moved_and_changes_hands() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(
        "create role a login; create role b login; create role member login in role a, b; create role guest login",
    );
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('a'), sched.grant_use('b'), sched.grant_use('member')").unwrap();
    let mut a = cluster.connect_as("a", "postgres");
    a.batch_execute(
        "select sched.define_job('j', queue => 'old', max_attempts => 2); select sched.define_job('s', 'sql', 'select 1');
         select sched.create_schedule('sj', '@daily', 'j');
         select sched.enqueue_many('j', array_fill('{}'::jsonb, array[5])); select sched.enqueue('s'), sched.enqueue('j', run_at => now() + '1 hour')",
    )
    .unwrap();
    for call in ["alter_many(priority => 1)", "alter_many('j')", "alter_many('j', max_executions => 0, priority => 1)"]
    {
        assert_eq!(refused(&mut a, &format!("select sched.{call}")), SqlState::INVALID_PARAMETER_VALUE, "{call}");
    }
    assert_eq!(
        one::<i64>(&mut a, "select sched.alter_many('j', new_queue => 'new', priority => 7, max_executions => 2)"),
        2
    );
    assert_eq!(one::<i64>(&mut a, "select count(*) from sched.claim('new', 10)"), 2);
    assert_eq!(one::<i64>(&mut a, "select sched.alter_many(queue => 'old', new_queue => 'new')"), 4);
    let mut b = cluster.connect_as("b", "postgres");
    assert_eq!(one::<i64>(&mut b, "select sched.alter_many('j', priority => 9)"), 0, "another role's");
    let waiting: String = one(
        &mut a,
        "select id::text from sched.execution where status = 'PENDING' and job_name = 'j' and run_at is null limit 1",
    );
    assert!(one::<bool>(
        &mut a,
        &format!("select sched.alter_execution('{waiting}', queue => 'third', max_attempts => 5)")
    ));
    let is = format!("select queue || ' ' || max_attempts from sched.execution where id = '{waiting}'");
    assert_eq!(one::<String>(&mut a, &is), "third 5");
    assert_eq!(
        refused(&mut a, &format!("select sched.alter_execution('{waiting}', max_attempts => 0)")),
        SqlState::INVALID_PARAMETER_VALUE
    );
    // To a role of which one is no member; by a member of both.
    assert_eq!(refused(&mut a, "select sched.alter_job('j', owner => 'b')"), SqlState::INSUFFICIENT_PRIVILEGE);
    let mut member = cluster.connect_as("member", "postgres");
    member.batch_execute("select sched.alter_job('j', owner => 'b'), sched.alter_job('s', owner => 'b')").unwrap();
    assert_eq!(one::<String>(&mut db, "select string_agg(distinct owner::text, ' ') from sched.jobs"), "b");
    let owners = &format!("select string_agg(distinct owner::text, ' ') from {PENDING} w");
    assert_eq!(one::<String>(&mut db, owners), "b");
    let queue = &format!("select bool_and(route = 'server' and queue = 'default' and runs_as = 'b'::regrole) from {READY} r where execution_id in (select id from sched.ledger where job_name = 's')");
    assert!(one::<bool>(&mut db, queue), "its runner is one of the new owner");
    assert_eq!(one::<i64>(&mut b, "select count(*) from sched.claim('new', 10)"), 2);
    assert_eq!(refused(&mut a, "select sched.pause('sj')"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(refused(&mut db, "select sched.alter_job('j', owner => '4000000000')"), SqlState::UNDEFINED_OBJECT);
    db.batch_execute("select sched.alter_job('s', command => 'select 2', owner => 'a')").unwrap();
    assert_eq!(
        one::<String>(&mut db, "select command || ' ' || owner from sched.jobs where job_name = 's'"),
        "select 2 a"
    );
    // One job for a role without other grants.
    b.batch_execute("select sched.grant_enqueue('j', 'guest')").unwrap();
    let mut guest = cluster.connect_as("guest", "postgres");
    guest.batch_execute("select sched.enqueue('j', '{\"from\": \"guest\"}')").unwrap();
    let owner = "select owner::text from sched.ledger where payload ->> 'from' = 'guest'";
    assert_eq!(one::<String>(&mut db, owner), "b");
    for call in ["enqueue('s')", "enqueue('undefined')", "claim()", "define_job('x')", "grant_enqueue('j', 'a')"] {
        assert_eq!(refused(&mut guest, &format!("select sched.{call}")), SqlState::INSUFFICIENT_PRIVILEGE, "{call}");
    }
    assert_eq!(refused(&mut a, "select sched.grant_enqueue('j', 'a')"), SqlState::INSUFFICIENT_PRIVILEGE);
    db.batch_execute("select sched.revoke_all('guest')").unwrap();
    assert_eq!(refused(&mut guest, "select sched.enqueue('j')"), SqlState::INSUFFICIENT_PRIVILEGE);
}

/// A slip of the pen is told of; and what retention no longer keeps goes at once.
#[test]
fn a_job_that_was_never_defined_is_warned_of() {
    let cluster = Cluster::builder().set("sched.history_retention", "1s").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('send_mail')").unwrap();
    let said = |text: &str| cluster.logged(text).len();
    db.batch_execute("select sched.enqueue('sendmail')").unwrap();
    assert_eq!((said("job \"sendmail\" is not defined"), said("Did you mean \"send_mail\"?")), (1, 1));
    db.batch_execute("select count(*) from sched.enqueue_many('other', array_fill('{}'::jsonb, array[3]))").unwrap();
    assert_eq!(said("job \"other\" is not defined"), 1, "once for a call");
    db.batch_execute("set sched.undefined_jobs = 'allow'; select sched.enqueue('quiet')").unwrap();
    assert_eq!(said("job \"quiet\" is not defined"), 0);
    db.batch_execute("select sched.try_claim('tick', '2026-01-01')").unwrap();
    db.batch_execute("set sched.undefined_jobs = 'refuse'").unwrap();
    assert_eq!(refused(&mut db, "select sched.enqueue('never')"), SqlState::UNDEFINED_OBJECT);
    db.batch_execute("select sched.enqueue('send_mail')").unwrap();
    db.batch_execute("select sched.finish_success(execution_id, lease_token) from sched.claim('default', 100)")
        .unwrap();
    let ended: i64 = one(&mut db, "select count(*) from sched.history");
    wait_until("retention to pass", SOON, || {
        one::<bool>(&mut db, "select min(clock_timestamp() - finished_at) > '1 second' from sched.history")
            .then_some(())
    });
    assert_eq!(one::<i64>(&mut db, "select sched.prune(2)"), 2);
    assert_eq!(one::<i64>(&mut db, "select sched.prune()"), ended - 2);
}

#[test]
fn a_claim_of_what_belongs_to_others_is_told_so_once() {
    for fast_path in ["on", "off"] {
        let settings = [("log_min_messages", "notice"), ("sched.enabled", "off"), ("sched.fast_path", fast_path)];
        let cluster =
            settings.iter().fold(Cluster::builder(), |builder, (name, value)| builder.set(name, value)).start();
        let mut db = cluster.with_extension("postgres");
        let mut worker = cluster.connect();
        let create = "create role app login; create role worker login;
            select sched.grant_use('app'), sched.grant_use('worker')";
        db.batch_execute(create).unwrap();
        worker.batch_execute("set session authorization worker").unwrap();
        let claim = "select count(*) from sched.claim('default', 10)";
        let said = || cluster.logged("belong to other roles").len();
        assert_eq!(one::<i64>(&mut worker, claim), 0);
        assert_eq!(said(), 0, "an empty queue");
        db.batch_execute("set role app; select sched.define_job('mail'); select sched.enqueue('mail'); reset role")
            .unwrap();
        assert_eq!(one::<i64>(&mut worker, claim), 0);
        assert_eq!(one::<i64>(&mut worker, claim), 0);
        assert_eq!(said(), 1, "once for a session and queue");
        worker.batch_execute("select sched.define_job('own'); select sched.enqueue('own')").unwrap();
        let mut second = cluster.connect();
        second.batch_execute("set session authorization worker").unwrap();
        assert_eq!(one::<i64>(&mut second, claim), 1);
        assert_eq!(said(), 1, "one that waits is the worker's");
        assert_eq!(one::<i64>(&mut second, claim), 0);
        assert_eq!(said(), 2, "of the other session");
    }
}

/// The caller of `drain_sql` may have moved the clock in its transaction, for which a run would wait.
#[test]
fn no_run_moves_the_clock_of_its_test() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.test_mode(); select sched.define_job('mover', 'sql', $$select sched.advance('1 hour')$$, max_attempts => 1);
         select sched.enqueue('mover')",
    )
    .unwrap();
    db.batch_execute("begin; select sched.advance('1 minute'); set local statement_timeout = '30s'").unwrap();
    assert_eq!(one::<String>(&mut db, "select status from sched.drain_sql()"), "FAILED");
    db.batch_execute("commit").unwrap();
    assert_eq!(one::<String>(&mut db, "select error_code from sched.history"), "55000");
}
