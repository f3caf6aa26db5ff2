//! I7 where memory is short: what a user passes may be as large as PostgreSQL lets it be. A call with it fails, and no process does.

use std::time::Duration;

use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{as_server_user, run, wait_for, Client, Cluster};

/// For each process of the server, in bytes: what is passed fits in it, and one or two copies.
const ADDRESS_SPACE: usize = 500_000_000;

/// Types of arguments: an ordinary value, and the column of the table `huge` that has a huge one.
const VALUES: [(&str, &str, Option<&str>); 16] = [
    ("text", "'x'", Some("one_text")),
    ("jsonb", "'{}'", Some("one_jsonb")),
    ("text[]", "'{x}'", Some("texts")),
    ("jsonb[]", "'{1}'", Some("jsonbs")),
    ("uuid[]", "'{00000000-0000-0000-0000-000000000000}'", Some("uuids")),
    ("timestamp with time zone[]", "'{2026-01-01}'", Some("times")),
    ("interval[]", "'{1 hour}'", Some("intervals")),
    ("uuid", "gen_random_uuid()", None),
    ("timestamp with time zone", "'2026-01-01'", None),
    ("interval", "'1 hour'", None),
    ("integer", "1", None),
    ("bigint", "1", None),
    ("boolean", "false", None),
    ("regrole", "'postgres'", None),
    ("oid", "1", None),
    ("int4multirange", "'{}'", None),
];

fn value(sql_type: &str) -> &'static (&'static str, &'static str, Option<&'static str>) {
    VALUES.iter().find(|value| value.0 == sql_type).unwrap_or_else(|| panic!("no value for the type {sql_type}"))
}

/// Every function that a statement can call, with the types of its arguments.
fn functions(db: &mut Client) -> Vec<(String, Vec<String>)> {
    let query = "select p.oid::regproc::text, array(select format_type(t, null) from unnest(p.proargtypes) with ordinality as u (t, n) order by n)
                   from pg_proc p
                  where p.pronamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace, 'cron'::regnamespace)
                    and p.prorettype <> 'trigger'::regtype
                  order by 1";
    db.query(query, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn no_argument_is_too_large_for_the_server() {
    let cluster = Cluster::builder().set("shared_buffers", "16MB").set("sched.enabled", "off").start();
    cluster.execute("create extension scheduler; create extension scheduler_cron");
    // Some of the arrays are as long as they may be, and too large for two copies; others are too long.
    cluster.execute(
        "create table huge as
         select repeat('x', 120000000) as one_text, to_jsonb(repeat('x', 160000000)) as one_jsonb,
                array_fill(repeat('x', 120), array[900000]) as texts, array_fill(to_jsonb(repeat('x', 120)), array[900000]) as jsonbs,
                array_fill(gen_random_uuid(), array[5000000]) as uuids, array_fill(now(), array[8000000]) as times,
                array_fill(interval '1 hour', array[1000000]) as intervals",
    );
    for (job, command) in [
        ("notice", "raise notice using message = 'a', detail = repeat('x', 60000000)"),
        ("notices", "for i in 1..200000 loop raise notice using message = repeat('x', 3000); end loop"),
        // A cut between two characters of another encoding than the client's.
        ("cut", "set client_encoding = 'SQL_ASCII'; raise notice using message = 'a' || repeat('\u{e9}', 30000)"),
        ("error", "raise exception using message = 'a' || repeat('y', 20000000), detail = repeat('x', 40000000)"),
    ] {
        cluster.execute(&format!(
            "select sched.define_job('{job}', 'sql', $$do 'begin {}; end'$$)",
            command.replace('\'', "''")
        ));
    }
    cluster.execute("select sched.define_job('many', queue => 'many')");
    let mut limit = as_server_user("prlimit");
    limit.arg(format!("--pid={}", cluster.postmaster())).arg(format!("--as={ADDRESS_SPACE}"));
    run(limit);
    let mut db = cluster.connect();
    let all = functions(&mut db);
    assert!(all.len() > 80, "{} functions", all.len());
    let mut calls = 0;
    for (function, types) in &all {
        for huge in (0..types.len()).filter(|huge| value(&types[*huge]).2.is_some()) {
            let argument = |(place, sql_type): (usize, &String)| {
                let (sql_type, small, large) = value(sql_type);
                format!("{}::{sql_type}", large.filter(|_| place == huge).unwrap_or(small))
            };
            let arguments: Vec<_> = types.iter().enumerate().map(argument).collect();
            let call = format!("select count(*) from huge, {function}({}) as f", arguments.join(", "));
            let mut transaction = db.transaction().unwrap();
            if let Err(error) = transaction.batch_execute(&call) {
                assert!(error.as_db_error().is_some(), "{call}: {error}");
            }
            transaction.rollback().unwrap_or_else(|error| panic!("{call}: {error}"));
            calls += 1;
        }
    }
    // What is small by itself, and adds up.
    for call in [
        "sched.import_crontab('A=' || repeat('x', 100000) || e'\\n' || repeat(e'* * * * * x\\n', 600))",
        "sched.import_crontab('A=' || repeat('x', 100000) || e'\\n' || repeat(e'* * * * * x\\n', 6000))",
        "sched.define_job('j', 'sql', 'select 1', settings => jsonb_build_object('a', ('[' || repeat('1,', 2000000) || '1]')::jsonb))",
        "sched.create_schedules((select jsonb_agg(jsonb_build_object('schedule_name', i::text, 'clock', '@daily', 'job_name', 'none')) from generate_series(1, 300000) i))",
    ] {
        let mut transaction = db.transaction().unwrap();
        if let Err(error) = transaction.batch_execute(&format!("select count(*) from {call} as f")) {
            assert!(error.as_db_error().is_some(), "{call}: {error}");
        }
        transaction.rollback().unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    for statement in [
        "select count(*) from sched.enqueue_many('j', array_fill('{}'::jsonb, array[300000]))",
        "select count(*) from sched.enqueue_many('j', array_fill('{}'::jsonb, array[1000000]))",
        "select * from sched.test_job('notice')",
        "select * from sched.test_job('error')",
        "select * from sched.test_job('notices')",
        "select * from sched.test_job('cut')",
    ] {
        if let Err(error) = db.batch_execute(statement) {
            assert!(error.as_db_error().is_some(), "{statement}: {error}");
        }
    }
    // Each is small by itself.
    db.batch_execute("select sched.enqueue('many', to_jsonb(repeat('x', 200000))) from generate_series(1, 1500)")
        .unwrap();
    for limit in [100, 500, 1000, 1500] {
        let mut transaction = db.transaction().unwrap();
        if let Err(error) = transaction.batch_execute(&format!("select count(*) from sched.claim('many', {limit})")) {
            assert!(error.as_db_error().is_some(), "claim of {limit}: {error}");
        }
        transaction.rollback().unwrap_or_else(|error| panic!("claim of {limit}: {error}"));
    }
    assert!(calls > 100, "{calls} calls");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.next_time('@daily')"), 1);
    assert!(!cluster.log().contains("terminated by signal"), "{}", cluster.log());
    // What has a limit is refused for that.
    for (call, code) in [
        ("sched.validate(repeat('x', 1001))", "54000"),
        ("sched.validate(repeat('x', 100000000))", "54000"),
        ("sched.next_time(repeat('x', 100000000))", "54000"),
        ("sched.next_time('@daily', time_zone => repeat('x', 100000000))", "54000"),
        ("sched.create_schedule('s', repeat(' ', 1001) || '@daily', 'job')", "54000"),
        ("sched.enqueue_many('job', array_fill('{}'::jsonb, array[1000001]))", "54000"),
        ("sched.finish_success_many(array_fill(gen_random_uuid(), array[1000001]), '{}')", "54000"),
        ("sched.heartbeat_many('{}', array_fill(gen_random_uuid(), array[1000001]))", "54000"),
    ] {
        let error = db.batch_execute(&format!("select count(*) from {call} as f")).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some(code), "{call}: {error}");
    }
}

/// A command that takes all memory in pieces of every size, and goes on where there is none.
const TAKES_ALL: &str = "do $$ declare f text[]; a text[]; b int := 65536; begin
    begin for i in 1..1000 loop f := array_append(f, repeat('f', 3000000)); end loop; exception when out_of_memory then null; end;
    for k in 1..3000 loop begin a := array_append(a, repeat('x', b)); exception when out_of_memory then b := greatest(b / 2, 16); end; end loop;
    raise exception using message = 'the end', errcode = '01000'; end $$";

#[test]
fn an_error_that_finds_no_memory_ends_one_session() {
    let cluster = Cluster::builder().set("shared_buffers", "16MB").start();
    cluster.execute("create extension scheduler");
    let define = format!("select sched.define_job('all', 'sql', $job${TAKES_ALL}$job$, max_attempts => 1)");
    cluster.execute(&define);
    let mut limit = as_server_user("prlimit");
    limit.arg(format!("--pid={}", cluster.postmaster())).arg(format!("--as={ADDRESS_SPACE}"));
    run(limit);
    for _ in 0..3 {
        // The session may end; no other does.
        let _ = cluster.connect().batch_execute("select * from sched.test_job('all')");
    }
    let mut db = cluster.connect();
    let id: String = db.query_one("select sched.enqueue('all')::text", &[]).unwrap().get(0);
    let failed = format!("select status = 'FAILED' from sched.execution where id = '{id}'");
    wait_for(&mut db, &failed, Duration::from_secs(120));
    assert!(!cluster.log().contains("PANIC"), "{}", cluster.log());
    assert!(!cluster.log().contains("terminated by signal"), "{}", cluster.log());
}
