//! A router before servers whose buckets move, are on two servers, or are where the PL/Proxy cluster does not lead; and what is on one server only.

use crate::router::{shared, Shared};
use postgres::error::SqlState;
use postgres::Client;
use scheduler_cluster_tests::scheduler::one;

/// Has these buckets of the PL/Proxy cluster lead to this server.
fn lead(root: &mut Client, buckets: std::ops::Range<usize>, server: usize) {
    let socket: String = one(root, "select current_setting('unix_socket_directories')");
    let options: Vec<String> =
        buckets.map(|bucket| format!("set p{bucket} 'host={socket} port=5432 dbname=server{server}'")).collect();
    root.batch_execute(&format!("alter server servers options ({})", options.join(", "))).unwrap();
}

/// Scopes of the kind `k`, so many, in these buckets.
fn scopes(db: &mut Client, buckets: &str, count: usize) -> Vec<String> {
    let query = format!(
        "select 'i' || i from generate_series(1, 100000) i where int4range '{buckets}' @> sched.bucket('k', 'i' || i) limit {count}"
    );
    db.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn enqueue(db: &mut Client, scopes: &[String]) {
    for scope in scopes {
        db.batch_execute(&format!("select sched.enqueue('job', scope_kind => 'k', scope_id => '{scope}')")).unwrap();
    }
}

/// What a claim hands out, as (id, token).
fn claim(db: &mut Client, max_claims: usize) -> Vec<[String; 2]> {
    let rows = db
        .query(&format!("select execution_id::text, lease_token::text from sched.claim('q', {max_claims})"), &[])
        .unwrap();
    rows.iter().map(|row| [0, 1].map(|column| row.get(column))).collect()
}

fn texts(db: &mut Client, query: &str) -> Vec<String> {
    db.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// Each call on a lease that is held, one lease for each way to end one.
fn end_in_every_way(app: &mut Client, leases: &[[String; 2]]) {
    let [first, second, third, fourth, ..] = leases else { panic!("{leases:?}") };
    for [id, token] in leases {
        assert_eq!(one::<String>(app, &format!("select sched.heartbeat('{id}', '{token}')")), "ok");
    }
    assert!(one::<bool>(app, &format!("select sched.cancel('{}')", second[0])));
    let [ids, tokens] = [0, 1].map(|n| leases.iter().map(|lease| lease[n].clone()).collect::<Vec<_>>().join(","));
    let answers = texts(
        app,
        &format!("select answer from sched.heartbeat_many('{{{ids},{}}}', '{{{tokens},{}}}')", first[0], second[1]),
    );
    let mut expected = vec!["ok"; leases.len()];
    expected[1] = "cancel";
    expected.push("lost");
    assert_eq!(answers, expected);
    app.batch_execute(&format!(
        "select sched.finish_success('{}', '{}'); select sched.finish_failure('{}', '{}'); select sched.snooze('{}', '{}', now() + interval '1 hour')",
        first[0], first[1], second[0], second[1], third[0], third[1]
    ))
    .unwrap();
    // An id that is named twice is held where one of its tokens is.
    let not_held = texts(
        app,
        &format!(
            "select f::text from sched.finish_success_many('{{{},{},{}}}', '{{{},{},{}}}') f",
            fourth[0], fourth[0], first[0], first[1], fourth[1], first[1]
        ),
    );
    assert_eq!(not_held, [first[0].clone()]);
    let states = texts(
        app,
        &format!(
            "select status from sched.execution where id = any ('{{{ids}}}') order by array_position('{{{ids}}}', id)"
        ),
    );
    assert_eq!(states[..4], ["SUCCESS", "CANCELLED", "PENDING", "SUCCESS"]);
}

#[test]
fn a_map_that_lags_leads_nobody_astray() {
    let Some(Shared { cluster: _cluster, mut root, mut app, mut servers }) = shared() else { return };
    app.batch_execute("select sched.define_job('job', queue => 'q', max_attempts => 3)").unwrap();
    // The lowest bucket of server1 is one that leads to server0.
    servers[0].batch_execute("select sched.set_buckets('{[0,128)}')").unwrap();
    servers[1].batch_execute("select sched.set_buckets('{[128,512)}')").unwrap();
    let there = scopes(&mut app, "[256,512)", 4);
    let astray = scopes(&mut app, "[128,256)", 4);
    enqueue(&mut app, &there);
    let leases = claim(&mut servers[1], 4);
    end_in_every_way(&mut app, &leases);
    app.batch_execute(&format!(
        "select sched.create_schedule('there', '@daily', 'job', scope_kind => 'k', scope_id => '{}'); select sched.pause('there'), sched.fire_now('there')",
        there[0]
    ))
    .unwrap();
    assert_eq!(one::<String>(&mut app, "select state from sched.schedules"), "paused");
    assert!(one::<bool>(&mut app, "select sched.unschedule('none') is false and sched.drop_schedule('there')"));
    // What asks one server after the other, or would be split, says so.
    for call in [
        "sched.claim('q', 4)".to_owned(),
        "sched.cancel_many('job')".to_owned(),
        format!("sched.enqueue('job', scope_kind => 'k', scope_id => '{}')", astray[0]),
        format!(
            "sched.enqueue_many('job', '{{1,2}}', scope_kind => 'k', scope_ids => '{{{},{}}}')",
            there[0], astray[0]
        ),
        "sched.create_schedules('[{\"schedule_name\": \"x\", \"clock\": \"@daily\", \"job_name\": \"job\"}]')"
            .to_owned(),
    ] {
        let error = app.batch_execute(&format!("select * from {call}")).expect_err(&call);
        assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{call}: {error}");
    }
    assert_eq!(one::<i64>(&mut app, "select count(*) from sched.execution where status = 'PENDING'"), 2);
    // Until the map has caught up.
    lead(&mut root, 128..256, 1);
    enqueue(&mut app, &astray);
    assert_eq!(claim(&mut app, 9).len(), 5);
}

#[test]
fn leases_of_a_server_without_buckets_can_be_ended() {
    let Some(Shared { cluster, mut root, mut app, mut servers }) = shared() else { return };
    app.batch_execute("select sched.define_job('job', queue => 'q', max_attempts => 3)").unwrap();
    let there = scopes(&mut app, "[256,512)", 5);
    enqueue(&mut app, &there);
    let leases = claim(&mut app, 5);
    servers[1].batch_execute("select sched.set_buckets('{}')").unwrap();
    end_in_every_way(&mut app, &leases[..4]);
    assert!(claim(&mut app, 9).is_empty());
    // Nor is it ended twice, or by somebody else.
    let [id, token] = &leases[0];
    let lost = app.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).expect_err("it has ended");
    assert_eq!(lost.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{lost}");
    cluster.execute("create role stranger login");
    root.batch_execute("select sched.grant_use('stranger')").unwrap();
    let [id, token] = &leases[4];
    let mut stranger = cluster.connect_as("stranger", "router");
    assert!(stranger.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).is_err());
    let answers = texts(&mut stranger, &format!("select answer from sched.heartbeat_many('{{{id}}}', '{{{token}}}')"));
    assert_eq!(answers, ["lost"]);
    app.batch_execute(&format!("select sched.finish_success('{id}', '{token}')")).unwrap();
}

#[test]
fn a_bucket_on_two_servers_is_refused() {
    let Some(Shared { cluster: _cluster, root: _root, mut app, mut servers }) = shared() else { return };
    app.batch_execute("select sched.define_job('job', queue => 'q')").unwrap();
    servers[0].batch_execute("select sched.set_buckets('{[0,300)}')").unwrap();
    let scopes = [scopes(&mut app, "[256,300)", 1), scopes(&mut app, "[600,900)", 4)].concat();
    let specs = format!(
        "(select jsonb_agg(jsonb_build_object('schedule_name', scope, 'clock', '@daily', 'job_name', 'job', 'scope_kind', 'k', 'scope_id', scope)) from unnest('{{{}}}'::text[]) as scope)",
        scopes.join(",")
    );
    for call in [
        format!(
            "sched.enqueue_many('job', '{{1,2,3,4,5}}', scope_kind => 'k', scope_ids => '{{{}}}')",
            scopes.join(",")
        ),
        format!("sched.create_schedules({specs})"),
        "sched.import_crontab('*/5 * * * * true')".to_owned(),
    ] {
        let error = app.batch_execute(&format!("select * from {call}")).expect_err(&call);
        assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{call}: {error}");
        assert!(format!("{error:?}").contains("is on 2 servers"), "{error:?}");
    }
    for server in &mut servers {
        let count = "select (select count(*) from sched.execution) + (select count(*) from sched.schedules)";
        assert_eq!(one::<i64>(server, count), 0);
    }
}

#[test]
fn jobs_are_changed_where_they_are() {
    let Some(Shared { cluster: _cluster, root: _root, mut app, mut servers }) = shared() else { return };
    // A job that its schedule needs is dropped nowhere.
    app.batch_execute("select sched.define_job('job', queue => 'q'), sched.define_job('alerts'), sched.create_schedule('s', '@daily', 'job', alert_job => 'alerts')").unwrap();
    for job in ["job", "alerts"] {
        let used = app.batch_execute(&format!("select sched.drop_job('{job}')")).expect_err("it is used");
        assert_eq!(used.code(), Some(&SqlState::DEPENDENT_OBJECTS_STILL_EXIST), "{used}");
    }
    for server in &mut servers {
        assert_eq!(one::<i64>(server, "select count(*) from sched.jobs"), 2);
    }
    app.batch_execute("select sched.drop_schedule('s')").unwrap();
    assert!(one::<bool>(&mut app, "select sched.drop_job('job') and not sched.drop_job('job')"));
    // One that a schedule came with is on the schedule's server.
    app.batch_execute("select sched.schedule_sql('x', '@daily', 'select 1')").unwrap();
    for _ in 0..12 {
        assert!(one::<bool>(&mut app, "select ok from sched.test_job('x')"));
    }
    app.batch_execute("select sched.alter_job('x', priority => 5), sched.alter_job('alerts', priority => 6)").unwrap();
    let priorities = "select job_name || ' ' || priority from sched_router.view_jobs() order by 1";
    let mut expected = vec!["alerts 6"; servers.len()];
    expected.push("x 5");
    assert_eq!(texts(&mut app, priorities), expected);
    for call in ["sched.alter_job('none', priority => 5)", "sched.test_job('none')"] {
        let unknown = app.batch_execute(&format!("select * from {call}")).expect_err(call);
        assert_eq!(unknown.code(), Some(&SqlState::UNDEFINED_OBJECT), "{call}: {unknown}");
    }
    assert!(one::<bool>(&mut app, "select sched.unschedule('x')"));
}

#[test]
fn elements_keep_their_places() {
    let Some(Shared { cluster: _cluster, root: _root, mut app, servers: _servers }) = shared() else { return };
    app.batch_execute("select sched.define_job('job', queue => 'q')").unwrap();
    // Whatever the first subscript is.
    let scopes: Vec<String> = (0..12).map(|i| format!("k{i}")).collect();
    let ids = texts(
        &mut app,
        &format!(
            "select sched.enqueue_many('job', payloads => '[7:18]={{{}}}', scope_kind => 'k', scope_ids => '[5:16]={{{}}}',
                        plan_times => '[3:14]={{{}}}', run_ats => '[0:11]={{{}}}')::text",
            (0..12).map(|i| i.to_string()).collect::<Vec<_>>().join(","),
            scopes.join(","),
            (0..12).map(|i| format!("{}-01-01 00:00+00", 2000 + i)).collect::<Vec<_>>().join(","),
            (0..12).map(|i| format!("{}-01-01 00:00+00", 2100 + i)).collect::<Vec<_>>().join(","),
        ),
    );
    for (n, id) in ids.iter().enumerate() {
        let row = "payload::text || ' ' || scope_id || ' ' || extract(year from plan_time at time zone 'UTC') || ' ' || extract(year from run_at at time zone 'UTC')";
        let row: String = one(&mut app, &format!("select {row} from sched.execution where id = '{id}'"));
        assert_eq!(row, format!("{n} k{n} {} {}", 2000 + n, 2100 + n));
    }
    // An error names the element as the caller numbered it.
    let clock = |n: usize| if n == 17 { "nonsense" } else { "@daily" };
    let specs: Vec<String> = (1..=20)
        .map(|n| format!(r#"{{"schedule_name": "e{n}", "clock": "{}", "job_name": "job"}}"#, clock(n)))
        .collect();
    let error =
        app.batch_execute(&format!("select sched.create_schedules('[{}]')", specs.join(","))).expect_err("clock");
    assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{error}");
    let error = error.as_db_error().unwrap();
    assert!(error.message().contains("element 17, key \"clock\""), "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
}
