//! The session of a SQL job: what it can do that a client's can, what others see of it, what is left of it for the next run, and what it costs.

use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::scheduler::{heard, one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, runners};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{bin, stays, wait_for, wait_until, Client, Cluster};
use std::fs;
use std::time::Duration;

/// The result of a job's only execution from now on.
fn result(db: &mut Client, job: &str) -> String {
    let id = enqueue(db, job, 1).remove(0);
    let (status, code) = ended(db, &id);
    let row = db.query_one("select coalesce(error_msg, ''), coalesce(result, '{}')::text from sched.execution where id = $1::text::uuid", &[&id]).unwrap();
    assert_eq!((status.as_str(), code.as_str()), ("SUCCESS", ""), "{job}: {}", row.get::<_, String>(0));
    row.get(1)
}

#[test]
fn a_command_has_parallel_plans_and_is_seen_by_those_who_watch() {
    // A server built from source has no others beside it.
    let has_contrib = bin().with_file_name("lib").join("pg_stat_statements.so").exists();
    let libraries = if has_contrib { "scheduler, pg_stat_statements, auto_explain" } else { "scheduler" };
    let cluster = Cluster::builder()
        .set("shared_preload_libraries", libraries)
        .set("auto_explain.log_min_duration", "0")
        .set("pg_stat_statements.track", "top")
        .set("log_min_messages", "log")
        .start();
    let mut db = cluster.with_extension("postgres");
    if has_contrib {
        db.batch_execute("create extension pg_stat_statements").unwrap();
    }
    db.batch_execute("create table big as select g as id from generate_series(1, 100000) g; analyze big").unwrap();
    let parallel = "settings => '{\"parallel_setup_cost\": 0, \"parallel_tuple_cost\": 0, \"min_parallel_table_scan_size\": 0, \"max_parallel_workers_per_gather\": 2}'";
    define(
        &mut db,
        "parallel",
        "insert into big select -1; explain (analyze, costs off, timing off) select count(*), sum(id) from big",
        parallel,
    );
    let explained = result(&mut db, "parallel");
    // The extra row is uncommitted and makes no plan serial; the workers see it.
    assert!(
        explained.contains("Gather")
            && (explained.contains("Workers Launched: 1") || explained.contains("Workers Launched: 2")),
        "{explained}"
    );
    define(
        &mut db,
        "parallel rows",
        "select count(*) as c, sum(id) as s, 'seen by those who watch' as w from big",
        parallel,
    );
    let rows = result(&mut db, "parallel rows");
    assert!(rows.contains("[100001, 5000049999, \"seen by those who watch\"]"), "{rows}");
    if has_contrib {
        let counted: i64 = one(&mut db, "select coalesce(sum(calls), 0)::bigint from pg_stat_statements where query like 'select count(*) as c, sum(id) as s%'");
        assert_eq!(counted, 1);
        wait_until("auto_explain to show the plan", SOON, || {
            cluster.log().contains("Query Text: select count(*) as c, sum(id)").then_some(())
        });
    }

    define(&mut db, "seen", "select pg_sleep(3600) as my_nap", "");
    enqueue(&mut db, "seen", 1);
    wait_for(&mut db, "select exists (select from pg_stat_activity where wait_event = 'PgSleep' and backend_type = 'scheduler runner')", SOON);
    let seen: String = one(&mut db, "select concat_ws('|', backend_type, application_name, query, state, usename, datname, xact_start is not null, query_start is not null) from pg_stat_activity where wait_event = 'PgSleep'");
    assert_eq!(seen, "scheduler runner|scheduler: seen|select pg_sleep(3600) as my_nap|active|postgres|postgres|t|t");
    db.batch_execute("select sched.cancel(id) from sched.running").unwrap();
}

#[test]
fn own_transactions_are_one_for_each_statement() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table log (line serial, what text, xid bigint default txid_current());
         create procedure commits() language plpgsql as $$ begin
             for i in 1..3 loop insert into log (what) values ('step ' || i); commit; end loop; insert into log (what) values ('undone'); rollback; end $$;
         do $$ begin for i in 1..200 loop execute format('create table many_%s as select generate_series(1, 10) as id', i); end loop; end $$",
    )
    .unwrap();
    let own = "own_transactions => true, max_attempts => 1";
    define(&mut db, "vacuum", "vacuum (verbose, analyze)", own);
    let said = result(&mut db, "vacuum");
    assert!(
        said.len() <= 16384 && said.contains("\"truncated\": true") && said.contains("VACUUM") && said.contains("INFO"),
        "{said}"
    );
    define(&mut db, "index", "create index concurrently many_index on many_1 (id); reindex table concurrently many_1; insert into log (what) values ('one'); insert into log (what) values ('two'); call commits(); do $$ begin insert into log (what) values ('do'); commit; end $$; set work_mem = '3MB'; vacuum many_2; insert into log (what) select current_setting('work_mem'); select 5 as five", own);
    let done = result(&mut db, "index");
    assert!(done.contains("[[5]]"), "{done}");
    let lines: String = one(&mut db, "select string_agg(what, ',' order by line) from log");
    assert_eq!(lines, "one,two,step 1,step 2,step 3,do,3MB");
    assert_eq!(one::<i64>(&mut db, "select count(distinct xid) from log"), 7);
    assert!(one::<bool>(&mut db, "select indisvalid from pg_index where indexrelid = 'many_index'::regclass"));
    // What came before a failure stays, what follows does not happen.
    define(&mut db, "half", "insert into log (what) values ('kept'); insert into log (what) select (1 / 0)::text; insert into log (what) values ('never')", own);
    let id = enqueue(&mut db, "half", 1).remove(0);
    assert_eq!(ended(&mut db, &id), ("FAILED".into(), "22012".into()));
    let message: String = one(&mut db, "select error_msg from sched.failed where job_name = 'half'");
    assert!(message.ends_with("\nstatement 2 of 3"), "{message}");
    assert_eq!(one::<String>(&mut db, "select string_agg(what, ',') from log where what in ('kept', 'never')"), "kept");
}

/// The server itself lets no background process listen: there is no client to be told.
#[test]
fn nobody_listens_in_a_run_and_all_hear_of_it() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "listens", "do $$ begin execute 'listen news'; end $$", "");
    let id = enqueue(&mut db, "listens", 1).remove(0);
    assert_eq!(ended(&mut db, &id), ("FAILED".into(), "0A000".into()));
    db.batch_execute("listen news").unwrap();
    define(&mut db, "tells", "notify news, 'from a run'; select pg_notify('news', 'again')", "");
    define(&mut db, "fails", "notify news, 'never'; select 1 / 0", "");
    for job in ["fails", "tells"] {
        let id = enqueue(&mut db, job, 1).remove(0);
        ended(&mut db, &id);
    }
    let mut other = cluster.connect();
    assert_eq!(heard(&mut db, &mut other, "news"), 2);
}

/// What a session has that DISCARD ALL clears.
const LEFTOVERS: &str = "select concat_ws('|',
    (select count(*) from pg_class where relname = 'left_temp'), (select count(*) from pg_prepared_statements where name = 'left_plan'),
    (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()), current_setting('work_mem'), coalesce(current_setting('mine.custom', true), ''),
    (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors where name = 'left_cursor'), session_user = current_user,
    current_setting('default_transaction_isolation'), current_setting('search_path'), current_setting('application_name'))";

#[test]
fn settings_hold_for_one_run_and_nothing_is_left_for_the_next() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "1").set("sched.runner_idle", "60s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role other; create sequence seq; create table said (line serial, pid int default pg_backend_pid(), what text); create schema app; grant all on said to public; grant all on sequence said_line_seq to public").unwrap();
    let look = format!("insert into said (what) {LEFTOVERS}; do $$ begin perform currval('seq'); insert into said (what) values ('currval'); exception when object_not_in_prerequisite_state then null; end $$");
    let leave = "create temp table left_temp (); prepare left_plan as select 1; select pg_advisory_lock(1), pg_advisory_lock_shared(2); set work_mem = '77MB'; set mine.custom = 'x';
        declare left_cursor cursor with hold for select 1; select nextval('seq'); set application_name = 'left'; set search_path = app, public; set default_transaction_isolation = 'serializable'; set session statement_timeout = '7s'; set role other";
    define(&mut db, "look", &look, "");
    define(&mut db, "leave", leave, "settings => '{\"work_mem\": \"66MB\", \"search_path\": \"public, app\", \"default_transaction_isolation\": \"repeatable read\", \"mine.custom\": 1}'");
    define(&mut db, "leave and fail", &leave.replace("set role other", "set role other; select 1 / 0"), "");
    define(&mut db, "leave alone", leave, "own_transactions => true");
    define(&mut db, "inside", &look, "settings => '{\"work_mem\": \"66MB\", \"search_path\": \"public, app\", \"default_transaction_isolation\": \"repeatable read\", \"mine.custom\": 1}'");
    let mut said = Vec::new();
    for job in ["look", "leave", "look", "leave and fail", "look", "leave alone", "look", "inside", "look"] {
        let id = enqueue(&mut db, job, 1).remove(0);
        let (status, code) = ended(&mut db, &id);
        assert_eq!(code, if job == "leave and fail" { "22012" } else { "" }, "{job}: {status}");
        if job == "look" || job == "inside" {
            said.push(one::<String>(&mut db, "select what from said order by line desc limit 1"));
        }
    }
    let clean = "0|0|0|4MB||0|0|t|read committed|\"$user\", public|scheduler: look";
    assert_eq!(
        said,
        [clean, clean, clean, clean, "0|0|0|66MB|1|0|0|t|repeatable read|public, app|scheduler: inside", clean]
    );
    assert_eq!(one::<i64>(&mut db, "select count(distinct pid) from said"), 1, "one process ran all of them");
    assert_eq!(one::<i64>(&mut db, "select count(*) from said where what = 'currval'"), 0);
}

/// A number of `/proc/PID/status`, in kB.
fn memory(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The most that a process has had in memory. Without the pages of its programme: those of a build for tests are many, and all share them.
fn most_memory(pid: i32) -> u64 {
    memory(pid, "VmHWM:").saturating_sub(memory(pid, "RssFile:"))
}

#[test]
fn many_rows_and_many_messages_take_no_memory() {
    let cluster = Cluster::builder().set("sched.runner_idle", "60s").set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    define(
        &mut db,
        "rows",
        "select g, repeat('x', 10) from generate_series(1, 10000000) g",
        "settings => '{\"work_mem\": \"1MB\"}'",
    );
    define(
        &mut db,
        "one query",
        "with recursive r (i) as (select 1 union all select i + 1 from r where i < 10000000) select i, i::text from r",
        "",
    );
    define(&mut db, "messages", "do $$ begin for i in 1..10000 loop raise notice '%', repeat('n', 100); end loop; raise notice '%', repeat('n', 1000000); end $$", "");
    define(&mut db, "row", "select repeat('x', 1000000) from generate_series(1, 1000)", "");
    for (job, rows) in
        [("rows", Some(10_000_000)), ("messages", None), ("one query", Some(10_000_000)), ("row", Some(1000))]
    {
        let id = enqueue(&mut db, job, 1).remove(0);
        wait_until(&format!("{job} to end"), Duration::from_secs(200), || {
            one::<bool>(&mut db, &format!("select exists (select from sched.history where id = '{id}')")).then_some(())
        });
        let row = db.query_one("select status, rows_affected, octet_length(result::text) <= 16384, coalesce(result ->> 'truncated', '') from sched.execution where id = $1::text::uuid", &[&id]).unwrap();
        assert_eq!(
            (row.get::<_, String>(0), row.get::<_, Option<i64>>(1), row.get::<_, bool>(2), row.get::<_, String>(3)),
            ("SUCCESS".into(), rows, true, "true".into()),
            "{job}"
        );
        let pid = runners(&mut db)[0];
        assert!(pid > 0 && most_memory(pid) < 64 * 1024, "{job}: {} kB", most_memory(pid));
    }
}

/// Runs so many executions through the pool; whatever process has had its first few runs grows no more.
fn leaks_nothing(count: i32, batch: i32) {
    let cluster = Cluster::builder().set("sched.runner_idle", "60s").set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create table t (id int, v text); create table seen (pid int, run serial, kb int)").unwrap();
    define(&mut db, "small", "insert into t values (1, 'x'); do $$ begin raise notice 'said'; begin perform 1 / 0; exception when others then null; end; end $$; select * from sched.this_run(); delete from t", "");
    define(&mut db, "failing", "create temp table x (id int); insert into x values (1); select 1 / 0", "");
    let mut seen: Vec<(i32, u64)> = Vec::new();
    for _ in 0..count / batch {
        for job in ["small", "failing"] {
            enqueue(&mut db, job, batch / 2);
        }
        wait_for(
            &mut db,
            &format!("select not exists (select from {LEASE} l) and not exists (select from {READY} r)"),
            SOON * 3,
        );
        if let Some(pid) = runners(&mut db).first() {
            seen.push((*pid, memory(*pid, "RssAnon:")));
        }
        db.batch_execute(&format!("vacuum sched.ledger, {READY_TABLE}, {LEASE_TABLE}, t")).unwrap();
    }
    for (pid, kb) in &seen {
        let first = seen.iter().find(|(other, _)| other == pid).map_or(*kb, |(_, kb)| *kb);
        assert!(*kb <= first + 1024, "process {pid}: {first} kB after its first runs, then {kb} kB: {seen:?}");
    }
    let (ok, failed): (i64, i64) = {
        let row = db.query_one("select count(*) filter (where status = 'SUCCESS'), count(*) filter (where error_code = '22012') from sched.execution", &[]).unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!((ok, failed), (i64::from(count / 2), i64::from(count / 2)));
    let whole = seen.iter().map(|(_, kb)| *kb).collect::<Vec<_>>();
    let half = whole.len() / 2;
    let mean = |part: &[u64]| part.iter().sum::<u64>() / part.len().max(1) as u64;
    assert!(mean(&whole[half..]) <= mean(&whole[..half]) + 1024, "{whole:?}");
}

/// What a process has had of the processors, in ticks of a hundredth of a second.
fn ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[test]
fn a_runner_does_not_spin_on_what_somebody_has_in_hand() {
    let cluster = Cluster::builder().set("sched.runner_idle", "60s").set("sched.max_sql_runners", "1").start();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "job", "select 1", "");
    let id = enqueue(&mut db, "job", 1).remove(0);
    ended(&mut db, &id);
    let pid = wait_until("a runner", SOON, || runners(&mut db).first().copied());
    // An execution that whoever looks can see, and nobody can take.
    let mut holder = cluster.connect();
    cluster.set("sched.enabled", "off");
    wait_for(&mut db, "select not exists (select from pg_stat_activity where backend_type = 'scheduler runner')", SOON);
    let id = enqueue(&mut db, "job", 1).remove(0);
    holder.batch_execute(&format!("begin; select from {READY} r for update")).unwrap();
    cluster.set("sched.enabled", "on");
    let pid = wait_until("another runner", SOON, || runners(&mut db).first().copied().filter(|new| *new != pid));
    wait_for(&mut db, &format!("select state = 'idle' from pg_stat_activity where pid = {pid}"), SOON);
    let before = ticks(pid);
    stays("what waits", Duration::from_secs(3), || one::<i64>(&mut db, &count_of(READY)));
    let used = ticks(pid) - before;
    assert!(used < 60, "{used} hundredths of 3 s");
    holder.batch_execute("rollback").unwrap();
    assert_eq!(ended(&mut db, &id), ("SUCCESS".into(), String::new()));
}

#[test]
fn two_thousand_runs_leak_nothing() {
    leaks_nothing(2000, 20);
}

#[test]
#[ignore = "takes minutes"]
fn long_hundred_thousand_runs_leak_nothing() {
    leaks_nothing(100_000, 50);
}

/// A database that checks no bytes: what is no UTF-8 is shown as well as it can be, and spoils no run.
#[test]
fn bytes_that_are_no_text_spoil_no_run() {
    let cluster = Cluster::new();
    cluster.execute("create database bytes encoding 'SQL_ASCII' locale 'C' template template0");
    let mut db = cluster.with_extension("bytes");
    let odd = "convert_from('\\x41ff42', 'SQL_ASCII')";
    for (number, (command, code)) in [
        (format!("select {odd} as a, 'ü' as b"), ""),
        ("select '\"\\u00e9\\u0041\\u0000\"'::json, '{\"\\ud83d\\ude00\": 1}'::json".to_owned(), ""),
        (format!("do $$ begin raise notice '%', {odd} using hint = {odd}; end $$; select 1"), ""),
        (format!("do $$ begin execute format('create temp table made (%I int)', {odd}); end $$; select * from made; insert into made values (1); select * from made"), ""),
        (format!("do $$ begin raise exception '%', {odd} using detail = {odd}; end $$"), "P0001"),
        (format!("select {odd}::int"), "22P02"),
    ]
    .iter()
    .enumerate()
    {
        let job = format!("job {number}");
        define(&mut db, &job, command, "");
        let id = enqueue(&mut db, &job, 1).remove(0);
        assert_eq!(ended(&mut db, &id).1, *code, "run: {command}");
        let tested: String = one(&mut db, &format!("select coalesce(error_code, '') from sched.test_job('{job}')"));
        assert_eq!(tested, *code, "test: {command}");
    }
    let first: String = one(&mut db, "select result::text from sched.execution where job_name = 'job 0'");
    assert!(first.contains("[[\"A\u{fffd}B\", \"ü\"]]"), "{first}");
}

#[test]
fn the_limit_of_who_tests_a_job_ends_the_test_as_any_statement() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    define(&mut db, "long", "create table made (); select pg_sleep(3600)", "");
    db.batch_execute("set statement_timeout = '200ms'").unwrap();
    let error = db.batch_execute("select * from sched.test_job('long')").expect_err("it is cancelled");
    assert_eq!(error.code().map(postgres::error::SqlState::code), Some("57014"));
    assert!(one::<bool>(&mut db, "select to_regclass('made') is null and not exists (select from sched.this_run())"));
    // Messages go to the client again.
    let mut psql = cluster.psql("postgres", "postgres");
    let shown = psql
        .args([
            "-c",
            "select ok from sched.test_job('long', plan_time => null)",
            "-c",
            "do $$ begin raise notice 'heard'; end $$",
        ])
        .output()
        .unwrap();
    assert!(text(&shown).contains("NOTICE:  heard"), "{}", text(&shown));
}
