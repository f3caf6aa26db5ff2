//! Buckets of scopes: what a server does whose buckets are not all of them.

use postgres::error::SqlState;
use postgres::Client;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{as_server_user, bin, run, stays, wait_for, wait_until, Cluster, Shutdown};
use std::time::Duration;

/// A scope id, or the name of a schedule, in the lower half of the buckets, which these tests give away, or in the upper.
fn id(db: &mut Client, kind: &str, is_here: bool) -> String {
    one(
        db,
        &format!(
            "select 'n' || n from generate_series(1, 1000) n where (sched.bucket('{kind}', 'n' || n) >= 512) = {is_here} limit 1"
        ),
    )
}

const UPPER: &str = "select sched.set_buckets('{[512,1024)}')";

/// Functions that take a scope or a schedule's name, each with a call for one; SELF is the schedule, SCOPE the scope.
const CALLS: [(&str, &str); 29] = [
    ("alter_schedule", "sched.alter_schedule('SELF', payload => '{\"a\": 1}')"),
    ("attempts_since_success", "sched.attempts_since_success('job', 'k', 'SCOPE')"),
    ("backfill", "sched.backfill('SELF', now() - interval '2 days', now())"),
    ("bucket", ""),
    ("cancel_many", ""),
    ("compare", ""),
    ("create_schedule", "sched.create_schedule('new', '@daily', 'job', scope_kind => 'k', scope_id => 'SCOPE')"),
    (
        "create_schedules",
        "sched.create_schedules('[{\"schedule_name\": \"a\", \"clock\": \"@daily\", \"job_name\": \"job\", \"scope_kind\": \"k\", \"scope_id\": \"HERE\"}, {\"schedule_name\": \"b\", \"clock\": \"@daily\", \"job_name\": \"job\", \"scope_kind\": \"k\", \"scope_id\": \"SCOPE\"}]')",
    ),
    ("declare_schedules", ""),
    ("drop_schedule", "sched.drop_schedule('SELF')"),
    ("due_plans", "sched.due_plans('job', '@daily', 'k', 'SCOPE')"),
    ("enqueue", "sched.enqueue('job', scope_kind => 'k', scope_id => 'SCOPE')"),
    ("enqueue_many", "sched.enqueue_many('job', array['{}', '{}']::jsonb[], scope_kind => 'k', scope_ids => array['HERE', 'SCOPE'])"),
    ("executions_of", "sched.executions_of('job', 'k', 'SCOPE')"),
    ("explain", "sched.explain('SELF', now() - interval '1 day', now())"),
    ("fire_now", "sched.fire_now('SELF')"),
    ("hand_back", "sched.hand_back(array['SELF'])"),
    ("import_crontab", ""),
    ("import_from", ""),
    ("latest_plan", "sched.latest_plan('job', 'k', 'SCOPE')"),
    ("pause", "sched.pause('SELF')"),
    ("report_fire", "sched.report_fire('SELF', now())"),
    ("resume", "sched.resume('SELF')"),
    ("schedule_sql", "sched.schedule_sql('OTHER', '@daily', 'select 1')"),
    ("take_over", "sched.take_over('pg_cron', array['SELF'])"),
    ("runs_of", "sched.runs_of('SELF')"),
    ("timeline", "sched.timeline('SELF')"),
    ("try_claim", "sched.try_claim('job', now(), 'k', 'SCOPE')"),
    ("unschedule", "sched.unschedule('OURS')"),
];

#[test]
fn calls_for_scopes_of_other_servers_are_refused() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let (own, other) = (id(&mut db, "schedule", true), id(&mut db, "schedule", false));
    let (here, scope) = (id(&mut db, "k", true), id(&mut db, "k", false));
    let ours: String = one(
        &mut db,
        "select 's' || n from generate_series(1, 1000) n where sched.bucket('schedule', 's' || n) < 512 limit 1",
    );
    db.batch_execute(&format!(
        "select sched.define_job('job'), sched.create_schedule('{own}', '@daily', 'job'), sched.create_schedule('{other}', '@daily', 'job'),
                sched.schedule_sql('{ours}', '@daily', 'select 1')"
    ))
    .unwrap();
    db.batch_execute(&format!(
        "insert into sched.imported (source, source_schema, source_id, schedule_id, fingerprint, job_name)
         select 'pg_cron', 'cron', '7', schedule_id, 'x', job_name from sched.schedule where schedule_name = '{other}'"
    ))
    .unwrap();
    db.batch_execute(UPPER).unwrap();
    // Whatever takes a scope or a schedule has a call here.
    let known: Vec<String> = db
        .query(
            "select distinct p.proname::text from pg_proc p
              where p.pronamespace = 'sched'::regnamespace
                and p.proargnames && array['scope_kind', 'scope_id', 'scope_ids', 'schedule_name', 'schedule_names', 'specs', 'prefix']
                and exists (select from unnest(p.proargnames) with ordinality a (name, place)
                             where a.place <= p.pronargs
                               and a.name in ('scope_kind', 'scope_id', 'scope_ids', 'schedule_name', 'schedule_names', 'specs', 'prefix'))
              order by 1",
            &[],
        )
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    for name in &known {
        assert!(CALLS.iter().any(|(call, _)| call == name), "no call of {name}");
    }
    let counts = "select ((select count(*) from sched.ledger) + (select count(*) from sched.schedule) + (select sum(version) from sched.schedule))::text";
    let before: String = one(&mut db, counts);
    for (name, call) in CALLS.iter().filter(|(_, call)| !call.is_empty()) {
        let call = call
            .replace("SELF", &other)
            .replace("OTHER", &ours)
            .replace("OURS", &ours)
            .replace("SCOPE", &scope)
            .replace("HERE", &here);
        let error = db.batch_execute(&format!("select * from {call}")).expect_err(name);
        let error = error.as_db_error().expect(name).clone();
        assert_eq!(error.code(), &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{name}: {error}");
        assert!(error.message().contains("is in bucket "), "{name}: {error}");
    }
    let after: String = one(&mut db, counts);
    assert_eq!(before, after, "something was written");
    // And of this server's own, everything works.
    db.batch_execute(&format!(
            "begin;
             select sched.alter_schedule('{own}', payload => '{{}}'), sched.fire_now('{own}'), sched.pause('{own}'), sched.resume('{own}');
             select * from sched.runs_of('{own}'), sched.executions_of('job', 'k', '{here}');
             select * from sched.explain('{own}', now() - interval '1 day', now());
             select sched.timeline('{own}');
             select sched.enqueue('job', scope_kind => 'k', scope_id => '{here}');
             select * from sched.try_claim('job', now() + interval '1 second', 'k', '{here}');
             select sched.latest_plan('job', 'k', '{here}');
             rollback"
        ))
        .unwrap();
    // What is drawn is drawn here.
    let strangers: i64 = one(
        &mut db,
        "select count(*) from (select sched.enqueue('job') id from generate_series(1, 50) union all
                                   select sched.enqueue_many('job', array_fill('{}'::jsonb, array[50]))) i
               join sched.execution e using (id) where sched.bucket(e.scope_kind, e.scope_id) < 512",
    );
    assert_eq!(strangers, 0);
    // Nothing is here.
    db.batch_execute("select sched.set_buckets('{}')").unwrap();
    for call in ["sched.enqueue('job')", "sched.try_claim('job', now())", &format!("sched.pause('{own}')")] {
        let error = db.batch_execute(&format!("select * from {call}")).expect_err(call);
        assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{call}: {error}");
    }
    assert_eq!(one::<String>(&mut db, "select sched.buckets()::text"), "{}");
    db.batch_execute("select sched.set_buckets()").unwrap();
    assert_eq!(one::<String>(&mut db, "select sched.buckets()::text"), "{[0,1024)}");
    db.batch_execute(&format!("select sched.pause('{other}'), sched.drop_schedule('{other}')")).unwrap();
}

#[test]
fn who_may_set_buckets_and_to_what() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role app login; select sched.grant_use('app')").unwrap();
    let code = |db: &mut Client, call: &str| {
        db.batch_execute(call).expect_err(call).code().expect("the server refuses it").code().to_owned()
    };
    for (call, expected) in [
        ("select sched.set_buckets('{[0,1025)}')", "22023"),
        ("select sched.set_buckets('{[-1,1)}')", "22023"),
        ("select sched.set_buckets('{(,)}')", "22023"),
        ("select sched.set_buckets('{[2000,2001)}')", "22023"),
        ("set role app; select sched.set_buckets()", "42501"),
    ] {
        assert_eq!(code(&mut cluster.connect(), call), expected, "{call}");
    }
    db.batch_execute("set role app").unwrap();
    // As the page says: sha256 over kind, a zero byte and id.
    let expected: bool = one(
        &mut db,
        "select bool_and(sched.bucket('tenant', i::text) = ((get_byte(h, 0) << 8) + get_byte(h, 1)) & 1023)
           from generate_series(1, 500) i cross join lateral (select sha256(convert_to('tenant', 'UTF8') || '\\x00' || convert_to(i::text, 'UTF8')) h) s",
    );
    assert!(expected);
    assert!(one::<bool>(&mut db, "select sched.bucket(null, 'a') is null and sched.bucket('a', null) is null"));
    assert_eq!(one::<String>(&mut db, "select sched.buckets()::text"), "{[0,1024)}");
}

#[test]
fn schedules_and_executions_stay_where_their_bucket_goes() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    let (own, other) = (id(&mut db, "schedule", true), id(&mut db, "schedule", false));
    let scope = id(&mut db, "k", false);
    let external: String = one(
        &mut db,
        "select 'e' || n from generate_series(1, 1000) n where sched.bucket('schedule', 'e' || n) < 512 limit 1",
    );
    db.batch_execute(&format!(
        "select sched.define_job('log', kind => 'log'), sched.define_job('pull', max_attempts => 3, retry_backoff => array[interval '1 millisecond']),
                sched.define_job('sql', kind => 'sql', command => 'select 1', queue => 'sqls');
         select sched.create_schedule('{own}', 'every 1 second', 'log'), sched.create_schedule('{other}', 'every 1 second', 'log'),
                sched.create_schedule('{external}', '@daily', 'log', ownership => 'external')"
    ))
    .unwrap();
    let fired = |db: &mut Client, name: &str| {
        one::<i64>(db, &format!("select count(*) from sched.history where schedule_name = '{name}'"))
    };
    wait_for(&mut db, "select count(distinct schedule_name) = 2 from sched.history", SOON);
    // One that waits, one that is delayed, one that runs and will fail, one that runs and will succeed; and one of the server's.
    let put = |db: &mut Client, more: &str| -> String {
        one(db, &format!("select sched.enqueue('pull', scope_kind => 'k', scope_id => '{scope}', {more})::text"))
    };
    let mut leases = Vec::new();
    for _ in 0..2 {
        put(&mut db, "plan_time => clock_timestamp()");
        let row = db.query_one("select execution_id::text, lease_token::text from sched.claim()", &[]).unwrap();
        leases.push((row.get::<_, String>(0), row.get::<_, String>(1)));
    }
    let waits = put(&mut db, "plan_time => clock_timestamp()");
    let delayed = put(&mut db, "run_at => clock_timestamp() + interval '1 second'");
    db.batch_execute(
        "begin; select sched.set_buckets('{[512,1024)}'); savepoint s; select sched.set_buckets(); rollback to s; commit",
    )
    .unwrap();
    let states = |db: &mut Client| {
        let all = db.query("select schedule_name, state, ownership from sched.schedules", &[]).unwrap();
        let state = |name: &str| {
            let row = all.iter().find(|row| row.get::<_, &str>(0) == name).expect("it is there");
            (row.get::<_, String>(1), row.get::<_, String>(2))
        };
        (state(&own), state(&other), state(&external))
    };
    let (_, left, theirs) = states(&mut db);
    assert_eq!(left, ("elsewhere".to_owned(), "owned".to_owned()));
    assert_eq!(theirs, ("elsewhere".to_owned(), "external".to_owned()));
    let count = fired(&mut db, &other);
    let before = fired(&mut db, &own);
    wait_until("the others to go on", SOON, || (fired(&mut db, &own) >= before + 3).then_some(()));
    assert_eq!(fired(&mut db, &other), count, "it fired though its bucket had left");
    // Nobody claims what waits, is due or was tried.
    let [(failing, failing_token), (good, good_token)] = [leases[0].clone(), leases[1].clone()];
    db.batch_execute(&format!(
        "select sched.heartbeat('{good}', '{good_token}'), sched.assert_lease('{good}', '{good_token}');
         select sched.finish_success('{good}', '{good_token}'); select sched.finish_failure('{failing}', '{failing_token}')"
    ))
    .unwrap();
    wait_for(&mut db, &format!("select run_at < clock_timestamp() from sched.execution where id = '{delayed}'"), SOON);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim(max_claims => 100)"), 0);
    db.batch_execute("select sched.define_job('pull', max_attempts => 3)").unwrap();
    let of = |db: &mut Client, id: &str| {
        let row = db.query_one("select status, queue from sched.execution where id = $1::text::uuid", &[&id]).unwrap();
        (row.get::<_, String>(0), row.get::<_, String>(1))
    };
    for (id, status) in [(&waits, "PENDING"), (&delayed, "PENDING"), (&failing, "FAILED"), (&good, "SUCCESS")] {
        assert_eq!(of(&mut db, id), (status.to_owned(), "default".to_owned()));
    }
    assert!(one::<bool>(&mut db, "select coalesce(sum(ready + delayed + retrying), 0) = 0 from sched.queues"));
    assert!(one::<bool>(&mut db, "select count(*) = 0 from sched.waiting"));
    // It comes back: what waits is claimable, and the schedule begins anew.
    let at: String = one(&mut db, "select clock_timestamp()::text");
    db.batch_execute("listen \"sched:default\"; select sched.set_buckets()").unwrap();
    wait_for(
        &mut db,
        &format!("select exists (select from sched.history where schedule_name = '{other}' and plan_time > '{at}')"),
        SOON,
    );
    assert!(!one::<bool>(
        &mut db,
        &format!(
            "select exists (select from sched.history h where h.schedule_name = '{other}' and h.plan_time < '{at}'
                              and h.plan_time > (select max(plan_time) from (select plan_time from sched.history where schedule_name = '{other}' and plan_time < '{at}'
                                                  order by plan_time limit {count}) first))"
        )
    ));
    let claimed: Vec<String> = db
        .query("select execution_id::text from sched.claim(max_claims => 100)", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    for id in [&waits, &delayed, &failing] {
        assert!(claimed.contains(id), "{id} of {claimed:?}");
    }
    assert_eq!(states(&mut db).2 .0, "external");
    // Once they have moved, what is left of them goes.
    let waits = put(&mut db, "plan_time => clock_timestamp()");
    db.batch_execute(UPPER).unwrap();
    assert_eq!(one::<i64>(&mut db, "select sched.drop_elsewhere()"), 2);
    assert_eq!(of(&mut db, &waits).0, "CANCELLED");
    assert_eq!(one::<String>(&mut db, "select string_agg(schedule_name, ' ') from sched.schedules"), own);
    db.batch_execute("select sched.set_buckets()").unwrap();
    wait_for(&mut db, "select exists (select from sched.schedules where state = 'armed')", SOON);
}

#[test]
fn commands_wait_for_their_bucket_too() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    let scope = id(&mut db, "k", false);
    db.batch_execute(&format!(
        "create table done (i int); select sched.define_job('sql', kind => 'sql', command => 'insert into done values (1)');
         begin; select sched.enqueue('sql', scope_kind => 'k', scope_id => '{scope}'); select sched.set_buckets('{{[512,1024)}}'); commit"
    ))
    .unwrap();
    let ran = "select count(*) from done";
    assert_eq!(stays("nothing to run", Duration::from_millis(1500), || one::<i64>(&mut db, ran)), 0);
    // What its job is now says where it goes.
    db.batch_execute("select sched.set_buckets(null)").unwrap();
    wait_for(&mut db, "select count(*) = 1 from done", SOON);
    db.batch_execute(&format!(
        "begin; select sched.enqueue('sql', scope_kind => 'k', scope_id => '{scope}'); select sched.set_buckets('{{[512,1024)}}'); commit;
         select sched.define_job('sql'); select sched.set_buckets()"
    ))
    .unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim(max_claims => 9)"), 1);
}

#[test]
fn buckets_change_between_transactions() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let (scope, own) = (id(&mut db, "k", false), id(&mut db, "k", true));
    db.batch_execute("select sched.define_job('job')").unwrap();
    let claim = |id: &str| format!("select outcome from sched.try_claim('job', clock_timestamp(), 'k', '{id}')");
    // Who has written is waited for; who comes meanwhile waits, and is told.
    let (mut writer, mut old, mut setter, mut late) =
        (cluster.connect(), cluster.connect(), cluster.connect(), cluster.connect());
    late.batch_execute(&claim(&scope)).unwrap();
    old.batch_execute("begin isolation level repeatable read; select 1").unwrap();
    writer.batch_execute(&format!("begin; {}", claim(&scope))).unwrap();
    let pid: i32 = one(&mut setter, "select pg_backend_pid()");
    let setter = std::thread::spawn(move || setter.batch_execute(UPPER));
    wait_for(&mut db, &format!("select wait_event_type = 'Lock' from pg_stat_activity where pid = {pid}"), SOON);
    writer.batch_execute(&claim(&scope)).unwrap();
    let late = std::thread::spawn({
        let call = claim(&scope);
        move || late.batch_execute(&call)
    });
    writer.batch_execute("commit").unwrap();
    setter.join().unwrap().unwrap();
    let told = late.join().unwrap().expect_err("its bucket has left");
    assert_eq!(told.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{told}");
    let stale = old.batch_execute(&claim(&own)).expect_err("its snapshot is older");
    assert_eq!(stale.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{stale}");
    let declares = declare(&[&own]);
    for call in ["sched.claim()", "sched.dispatch_due()", "sched.enqueue('job')", &declares] {
        old.batch_execute("rollback; begin isolation level repeatable read; select 1").unwrap();
        db.batch_execute(UPPER).unwrap();
        let stale = old.batch_execute(&format!("select * from {call}")).expect_err(call);
        assert_eq!(stale.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{call}: {stale}");
    }
    old.batch_execute(&format!("rollback; begin isolation level repeatable read; {}; commit", claim(&own))).unwrap();
    // What is rolled back was nothing, also for the session that did it.
    writer.batch_execute("begin; select sched.set_buckets()").unwrap();
    writer.batch_execute(&claim(&scope)).unwrap();
    writer.batch_execute("rollback").unwrap();
    let told = writer.batch_execute(&claim(&scope)).expect_err("its bucket has left");
    assert_eq!(told.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{told}");
    db.batch_execute("select sched.set_buckets()").unwrap();
    writer.batch_execute(&claim(&scope)).unwrap();
}

/// A call that declares a group of schedules, one for each of these scopes.
fn declare(scopes: &[&str]) -> String {
    let specs = scopes.iter().map(|scope| {
        format!(r#"{{"schedule_name": "{scope}", "clock": "@daily", "job_name": "job", "scope_kind": "k", "scope_id": "{scope}"}}"#)
    });
    format!("sched.declare_schedules('app', '[{}]')", specs.collect::<Vec<_>>().join(", "))
}

/// Each server is told of all schedules of an application, and keeps those whose scope is its own.
#[test]
fn a_group_is_declared_on_each_server() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let (own, other) = (id(&mut db, "k", true), id(&mut db, "k", false));
    db.batch_execute("select sched.define_job('job')").unwrap();
    db.batch_execute(UPPER).unwrap();
    let declared = |db: &mut Client, scopes: &[&str]| -> String {
        let call = declare(scopes);
        one(db, &format!("select coalesce(string_agg(schedule_name || ' ' || action, ', '), '') from {call}"))
    };
    assert_eq!(declared(&mut db, &[&own, &other]), format!("{own} created"));
    db.batch_execute("select sched.set_buckets()").unwrap();
    assert_eq!(declared(&mut db, &[&own, &other]), format!("{own} unchanged, {other} created"));
    // The group that is left here is the one whose buckets are here: no more than that goes with what is not declared.
    db.batch_execute(UPPER).unwrap();
    assert_eq!(declared(&mut db, &[&other]), format!("{own} dropped"));
    assert_eq!(declared(&mut db, &[]), "");
    assert_eq!(one::<String>(&mut db, "select string_agg(schedule_name, ' ') from sched.schedules"), other);
}

/// The server's transactions are numbered round and round: a number that was given again is not taken for that of who set the buckets.
#[test]
fn buckets_that_were_set_long_ago_are_nobodys_news() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.with_extension("postgres").batch_execute(&format!("{UPPER}; select sched.define_job('job')")).unwrap();
    let far = 3_u64 << 29;
    for turn in 0..2 {
        // What is older than the server can tell from what is to come is frozen.
        cluster.execute("update pg_database set datallowconn = true");
        let databases = cluster.connect().query("select datname::text from pg_database", &[]).unwrap();
        for database in databases {
            cluster.connect_as("postgres", database.get(0)).batch_execute("vacuum freeze").unwrap();
        }
        cluster.execute("checkpoint");
        let next = one::<i64>(
            &mut cluster.connect(),
            "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint % (1::bigint << 32)",
        );
        // The first one of a file in which the states of a million transactions are.
        let next = (u64::try_from(next).unwrap() + far) >> 20 << 20;
        cluster.stop(Shutdown::Fast);
        let states = cluster.data().join(format!("pg_xact/{:04X}", next >> 20));
        let mut zeros = as_server_user("dd");
        zeros.args(["if=/dev/zero", &format!("of={}", states.display()), "bs=262144", "count=1"]);
        run(zeros);
        let mut reset = as_server_user(bin().join("pg_resetwal"));
        reset.args(["-f", "-x", &(next % (1 << 32)).to_string(), "-D"]).arg(cluster.data());
        run(reset);
        cluster.start();
        let mut db = cluster.connect();
        db.batch_execute("begin isolation level repeatable read; select 1; select sched.enqueue('job'); commit")
            .unwrap_or_else(|error| panic!("after {} turns: {error}", turn + 1));
        assert_eq!(one::<String>(&mut db, "select sched.buckets()::text"), "{[512,1024)}");
    }
}
