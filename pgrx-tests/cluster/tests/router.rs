//! Servers that share scopes behind PL/Proxy: every function and view by its stub.

use postgres::error::SqlState;
use postgres::Client;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{router, wait_for, Cluster};
use std::collections::HashSet;

const SERVERS: usize = 4;

/// Four servers and a router, as an application's role sees them.
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) root: Client,
    pub(crate) app: Client,
    pub(crate) servers: Vec<Client>,
}

pub(crate) fn shared() -> Option<Shared> {
    if !router::is_there() {
        return None;
    }
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").set("max_worker_processes", "24").start();
    cluster.execute("create role app login");
    let (mut root, servers) = router::databases(&cluster, SERVERS);
    root.batch_execute("select sched.grant_use('app')").unwrap();
    let app = cluster.connect_as("app", "router");
    Some(Shared { cluster, root, app, servers })
}

/// On how many servers a query says true.
fn servers_where(servers: &mut [Client], query: &str) -> usize {
    servers.iter_mut().filter_map(|server| one::<bool>(server, query).then_some(())).count()
}

#[test]
fn every_function_has_a_stub() {
    let Some(Shared { cluster: _cluster, mut root, mut app, mut servers }) = shared() else { return };
    // The same names, arguments, defaults and results.
    let signatures = "select string_agg(p.proname || ' (' || pg_get_function_arguments(p.oid) || ') ' || pg_get_function_result(p.oid), e'\\n' order by p.proname)
                        from pg_proc p where p.pronamespace = 'sched'::regnamespace and p.proname not in ('advance', 'drain_sql', 'reset', 'test_mode')";
    assert_eq!(one::<String>(&mut root, signatures), one::<String>(&mut servers[0], signatures));
    let views = "select string_agg(c.relname || ' ' || a.columns, e'\\n' order by c.relname) from pg_class c
                  cross join lateral (select string_agg(a.attname, ' ' order by attnum) as columns from pg_attribute a where a.attrelid = c.oid and a.attnum > 0) a
                  where c.relnamespace = 'sched'::regnamespace and c.relkind = 'v'";
    assert_eq!(one::<String>(&mut root, views), one::<String>(&mut servers[0], views));
    // Not PUBLIC's.
    root.batch_execute("create role nobody login").unwrap();
    let open = "select count(*) from pg_proc p where p.pronamespace in ('sched'::regnamespace, 'sched_router'::regnamespace) and has_function_privilege('nobody', p.oid, 'execute')";
    assert_eq!(one::<i64>(&mut root, open), 0);
    assert!(!one::<bool>(&mut root, "select has_schema_privilege('nobody', 'sched', 'usage') or has_table_privilege('nobody', 'sched.execution', 'select')"));
    // It may be run again, and whoever had it has it.
    router::install(&mut root, &mut servers[0]);
    let same = "select sched.bucket('tenant', 'Bäcker ' || i) from generate_series(1, 100) i";
    let of = |db: &mut Client| db.query(same, &[]).unwrap().iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>();
    assert_eq!(of(&mut app), of(&mut servers[1]));
    assert_eq!(one::<String>(&mut app, "select sched.buckets()::text"), "{[0,1024)}");
    // The script is run by a superuser: a name ends no comment and no string in it.
    for name in ["a'\nDROP TABLE x;\n--", "$f$", "a\\"] {
        let refused = servers[0].query("select sched.router_sql($1)", &[&name]).expect_err(name);
        assert_eq!(refused.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{refused}");
    }
    // A server of its own is none.
    let script: String = one(&mut servers[0], "select sched.router_sql('servers')");
    let refused = servers[1].batch_execute(&script).expect_err("it has the extension");
    assert_eq!(refused.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{refused}");
}

#[test]
fn calls_go_to_the_server_that_has_the_scope() {
    let Some(Shared { cluster: _cluster, mut root, mut app, mut servers }) = shared() else { return };
    app.batch_execute("select sched.define_job('job', queue => 'q', max_attempts => 3); select sched.define_job('log', kind => 'log')").unwrap();
    assert_eq!(servers_where(&mut servers, "select count(*) = 2 from sched.jobs"), SERVERS);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.jobs"), 2);
    // By scope: each is on the server of its bucket, and there alone.
    for n in 0..40 {
        app.batch_execute(&format!(
            "select sched.create_schedule('s{n}', 'every 1 second', 'log'); select sched.enqueue('job', '{{\"n\": {n}}}', scope_kind => 'tenant', scope_id => 't{n}')"
        ))
        .unwrap();
    }
    let mut schedules = HashSet::new();
    for server in &mut servers {
        let strangers = "select (select count(*) from sched.execution where not sched.buckets() @> sched.bucket(scope_kind, scope_id))";
        assert_eq!(one::<i64>(server, strangers), 0);
        let rows = server.query("select schedule_name from sched.schedules", &[]).unwrap();
        assert!(rows.len() >= 2, "{}", rows.len());
        rows.iter().for_each(|row| assert!(schedules.insert(row.get::<_, String>(0))));
    }
    assert_eq!(schedules.len(), 40);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules"), 40);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.execution where job_name = 'job'"), 40);
    wait_for(&mut app, "select count(distinct schedule_name) = 40 from sched.history", SOON);
    // By name.
    app.batch_execute(
        "select sched.pause('s1'), sched.alter_schedule('s2', clock => '@daily'), sched.fire_now('s2'), sched.backfill('s2', now() - interval '3 days', now());
         select sched.explain('s3', now() - interval '1 minute', now()); select sched.timeline('s3')",
    )
    .unwrap();
    assert_eq!(
        one::<String>(&mut app, "select string_agg(schedule_name, ' ') from sched.schedules where state = 'paused'"),
        "s1"
    );
    assert!(one::<bool>(&mut app, "select sched.drop_schedule('s1') and not sched.drop_schedule('s1')"));
    let unknown = app.batch_execute("select sched.pause('s1')").expect_err("it is gone");
    assert_eq!(unknown.code(), Some(&SqlState::UNDEFINED_OBJECT), "{unknown}");
    servers[2].batch_execute("select sched.define_job('twice', kind => 'log')").unwrap();
    for (server, scope) in [(0, 0), (3, 768)] {
        servers[server].batch_execute(&format!(
            "select sched.create_schedule('twice', '@daily', 'log', scope_kind => 'k',
                        scope_id => (select 'i' || i from generate_series(1, 10000) i where sched.bucket('k', 'i' || i) >= {scope} and sched.buckets() @> sched.bucket('k', 'i' || i) limit 1))"
        ))
        .unwrap();
    }
    let twice = root.batch_execute("select sched.pause('twice')").expect_err("which of them");
    assert_eq!(twice.code(), Some(&SqlState::CARDINALITY_VIOLATION), "{twice}");
    // By execution, and what is handed out is never more than was asked for.
    let mut claimed = Vec::new();
    loop {
        let rows =
            app.query("select execution_id::text, lease_token::text, scope_id from sched.claim('q', 7)", &[]).unwrap();
        assert!(rows.len() <= 7);
        if rows.is_empty() {
            break;
        }
        claimed.extend(rows.iter().map(|row| [0, 1, 2].map(|column| row.get::<_, String>(column))));
    }
    assert_eq!(claimed.len(), 40);
    assert_eq!(claimed.iter().map(|row| &row[2]).collect::<HashSet<_>>().len(), 40);
    let ids =
        |some: &[[String; 3]], column: usize| some.iter().map(|row| row[column].clone()).collect::<Vec<_>>().join(",");
    let (id, token) = (&claimed[0][0], &claimed[0][1]);
    app.batch_execute(&format!("select sched.cancel('{}')", claimed[2][0])).unwrap();
    let answers: Vec<String> = app
        .query(
            &format!(
                "select answer from sched.heartbeat_many(array['{}', gen_random_uuid(), '{}']::uuid[], array['{}', gen_random_uuid(), '{}']::uuid[])",
                claimed[1][0], claimed[2][0], claimed[1][1], claimed[2][1]
            ),
            &[],
        )
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(answers, ["ok", "lost", "cancel"]);
    assert_eq!(one::<String>(&mut app, &format!("select sched.heartbeat('{id}', '{token}')")), "ok");
    app.batch_execute(&format!(
        "select sched.finish_success('{id}', '{token}'), sched.finish_failure('{}', '{}', terminal => true), sched.snooze('{}', '{}', now())",
        claimed[1][0], claimed[1][1], claimed[3][0], claimed[3][1]
    ))
    .unwrap();
    let lost = app.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).expect_err("it has ended");
    assert_eq!(lost.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{lost}");
    let not_held: Vec<String> = app
        .query(
            &format!(
                "select f::text from sched.finish_success_many('{{{},{id}}}', '{{{},{token}}}') f",
                ids(&claimed[4..], 0),
                ids(&claimed[4..], 1)
            ),
            &[],
        )
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(not_held, std::slice::from_ref(id));
    assert_eq!(
        one::<i64>(&mut app, "select count(*) from sched.execution where job_name = 'job' and status = 'SUCCESS'"),
        37
    );
}

#[test]
fn many_are_split_and_put_together_again() {
    let Some(Shared { cluster: _cluster, mut root, mut app, mut servers }) = shared() else { return };
    app.batch_execute("select sched.define_job('job', queue => 'q')").unwrap();
    let scopes = "array(select 'k' || i from generate_series(1, 60) i)";
    let ids: Vec<String> = app
        .query(&format!("select sched.enqueue_many('job', array(select to_jsonb(i) from generate_series(1, 60) i), scope_kind => 'k', scope_ids => {scopes})::text"), &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    for (n, id) in ids.iter().enumerate() {
        let payload: String = one(&mut app, &format!("select payload::text from sched.execution where id = '{id}'"));
        assert_eq!(payload, (n + 1).to_string());
    }
    assert!(servers_where(&mut servers, "select count(*) > 3 from sched.execution") == SERVERS);
    assert_eq!(
        app.query("select sched.enqueue_many('job', array_fill('{}'::jsonb, array[20]))", &[]).unwrap().len(),
        20
    );
    let specs = "(select jsonb_agg(jsonb_build_object('schedule_name', 'n' || i, 'clock', '@daily', 'job_name', 'job')) from generate_series(1, 50) i)";
    assert_eq!(one::<i64>(&mut app, &format!("select sched.create_schedules({specs})")), 50);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules where state in ('arming', 'armed')"), 50);
    // Each line of a crontab goes where its schedule belongs.
    let lines: i64 = one(
        &mut app,
        "select count(*) filter (where note is null) from sched.import_crontab((select string_agg('*/5 * * * * a' || i, e'\\n') from generate_series(1, 20) i))",
    );
    assert_eq!(lines, 20);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules"), 70);
    assert_eq!(one::<i64>(&mut app, "select ready from sched.queues where queue = 'q'"), 80);
    assert_eq!(one::<i64>(&mut app, "select sched.cancel_many('job', max_executions => 30)"), 30);
    assert_eq!(one::<i64>(&mut app, "select sched.cancel_many('job')"), 50);
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.recent('job', 5)"), 5);
    // Bad arguments get the servers' own errors, and what nobody has is sent to nobody.
    for (call, code) in [
        ("sched.enqueue_many('job', '{1,2}', scope_ids => '{a}')", "22023"),
        ("sched.enqueue_many('job', '{1,2}', scope_ids => '{a,null}')", "22023"),
        ("sched.create_schedules('{}')", "22023"),
        ("sched.create_schedules('[1]')", "22023"),
        ("sched.claim('q', 0)", "22023"),
        ("sched.create_schedule('x', 'nonsense', 'job')", "22023"),
        ("sched.pause(null)", "22004"),
        ("sched.heartbeat_many('{}', array[gen_random_uuid()])", "22023"),
        ("sched.take_over('pg_cron')", "0A000"),
        ("sched.set_buckets()", "0A000"),
    ] {
        let error = app.batch_execute(&format!("select * from {call}")).expect_err(call);
        assert_eq!(error.code().map(SqlState::code), Some(code), "{call}: {error:?}");
    }
    servers[1].batch_execute("select sched.set_buckets('{}')").unwrap();
    for call in [
        &*format!(
            "sched.enqueue_many('job', array_fill('{{}}'::jsonb, array[60]), scope_kind => 'k', scope_ids => {scopes})"
        ),
        &*format!("sched.create_schedules({})", specs.replace("'n'", "'m'")),
    ] {
        let error = app.batch_execute(&format!("select * from {call}")).expect_err(call);
        assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{call}: {error}");
    }
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.schedules where schedule_name like 'm%'"), 0);
    // Without stubs, and with them again.
    root.batch_execute("select sched.revoke_all('app')").unwrap();
    let denied = app.batch_execute("select sched.claim()").expect_err("it was taken away");
    assert_eq!(denied.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{denied}");
    assert!(!one::<bool>(&mut root, "select has_server_privilege('app', 'servers', 'usage')"));
    assert_eq!(servers_where(&mut servers, "select not has_schema_privilege('app', 'sched', 'usage')"), SERVERS);
    // As a superuser, all of what only those may.
    root.batch_execute(
        "select sched.health(), sched.healthy(), sched.is_home(), sched.dispatch_due(), sched.rebuild(), sched.drop_elsewhere(), sched.mark_stale_as_failed();
         select sched.grant_monitor('app'), sched.pause_queue('q'), sched.resume_queue('q'); select sched.preview('@daily'), sched.validate('@daily'), sched.next_time('@daily');
         select * from sched.running, sched.failed, sched.late, sched.alerts, sched.skipped, sched.waiting, sched.last_runs",
    )
    .unwrap();
}
