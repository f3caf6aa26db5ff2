//! A SQL job does what `psql -1 -f` does with the same script: the same rows, the same counts, the same error.

use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::scheduler::{heard, one, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, runners};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::fs;
use std::time::Duration;

/// Where each script runs: a schema of its own, in two databases' worth of identical state.
const WORLD: &str = "
    create table t (id int primary key, v text, n int default 0);
    insert into t select g, 'v' || g from generate_series(1, 10) g;
    create table parent (id int primary key);
    create table child (id int references parent deferrable initially deferred);
    create table log (line serial, what text);
    create sequence counter;
    create view low as select * from t where id <= 3;
    create function add(v text) returns int language sql as $$ insert into log (what) values (v) returning line $$;
    create function noted() returns trigger language plpgsql as $$ begin insert into log (what) values (tg_op || new.id); return new; end $$;
    create trigger noted after insert on t for each row execute function noted();
    create procedure proc(inout a int) language plpgsql as $$ begin a := a + 1; insert into log (what) values ('proc'); end $$;
    create procedure commits() language plpgsql as $$ begin insert into log (what) values ('before'); commit; insert into log (what) values ('after'); end $$;
";

/// What a script leaves, as one text.
const TRACES: &str = "select concat_ws(e'\\n',
        (select string_agg(t::text, ',' order by id) from t), (select string_agg(id::text, ',' order by id) from parent),
        (select string_agg(id::text, ',' order by id) from child), (select string_agg(log::text, ',' order by line) from log),
        (select string_agg(format('%s %s %s', c.relname, c.relkind, c.reltuples), ',' order by c.relname) from pg_class c where relnamespace = current_schema()::regnamespace and relkind <> 'i'),
        (select string_agg(p.proname, ',' order by p.proname) from pg_proc p where pronamespace = current_schema()::regnamespace),
        (select last_value::text from counter))";

/// Scripts, and the SQLSTATE that each ends with, if any. FILE is a file that the server may write.
const SCRIPTS: &[(&str, &str)] = &[
    ("insert into t values (11, 'x'); update t set n = n + 1 where id > 5; delete from t where id < 3", ""),
    ("create table made (id int); insert into made select generate_series(1, 5); alter table made add column more text default 'm'; insert into log (what) select more from made", ""),
    ("create table made as select * from t; create index on made (v); analyze made; drop table made; create table made ()", ""),
    ("with gone as (delete from t where id <= 4 returning *) insert into log (what) select v from gone; select count(*) from log", ""),
    ("with recursive r (i) as (select 1 union all select i + 1 from r where i < 100) insert into log (what) select i::text from r", ""),
    ("insert into t (id) values (20), (21) returning id, v; update t set v = 'u' where id = 20 returning *", ""),
    ("select add('one'); select add('two'); select * from log", ""),
    ("do $$ begin for i in 1..5 loop insert into log (what) values (i::text); end loop; end $$; select add('after')", ""),
    ("create temp table scratch on commit drop as select * from t; insert into log (what) select v from scratch where id = 7", ""),
    ("create temp table scratch (id int) on commit delete rows; insert into scratch values (1); insert into log (what) select id::text from scratch", ""),
    ("declare c cursor for select id from t order by id; fetch 3 from c; move 2 in c; fetch next from c; close c; select add('cursor')", ""),
    ("declare c scroll cursor for select id from t order by id; fetch last from c; fetch prior from c; update t set n = 5 where id = 9", ""),
    ("declare c cursor for select * from t for update; fetch 4 from c; update t set v = 'here' where current of c", ""),
    ("prepare p (int) as update t set n = $1 where id = $1; execute p (4); execute p (5); deallocate p", ""),
    ("prepare p as select id from t order by id; execute p; create table made as execute p", ""),
    ("copy t to 'FILE'; delete from t; alter table t disable trigger all; copy t from 'FILE'; update t set n = 1", ""),
    ("copy (select id, v from t order by id) to 'FILE' csv header; create table made (id int, v text); copy made from 'FILE' csv header", ""),
    ("copy t (id) from program 'echo 31; echo 32'", ""),
    ("do $$ begin begin insert into t values (1); exception when unique_violation then insert into log (what) values ('taken'); end; insert into t values (12); end $$", ""),
    ("do $$ begin for i in 1..20 loop begin insert into t values (i); exception when others then null; end; end loop; end $$; select add('end')", ""),
    ("insert into child values (1); insert into child values (2); insert into parent values (1), (2)", ""),
    ("set constraints all immediate; insert into parent values (1); insert into child values (1)", ""),
    ("set local work_mem = '1MB'; set local enable_hashagg = off; insert into log (what) select current_setting('work_mem')", ""),
    ("set search_path = pg_catalog; select count(*) from pg_class; reset search_path", ""),
    ("set transaction isolation level serializable; insert into log (what) select current_setting('transaction_isolation')", ""),
    ("set transaction isolation level repeatable read; select count(*) from t; insert into log (what) select current_setting('transaction_isolation')", ""),
    ("set transaction isolation level serializable, read only, deferrable; select count(*) from t", ""),
    ("set transaction read only; select count(*) from t", ""),
    ("set transaction_read_only = on; select 1", ""),
    ("create table made as select g as id, md5(g::text) as h from generate_series(1, 20000) g; set local work_mem = '64kB'; create table sorted as select row_number() over (order by h, id) as place, * from made; select count(*) from sorted", ""),
    ("merge into t using (values (1, 'm'), (40, 'new')) as s (id, v) on t.id = s.id when matched then update set v = s.v when not matched then insert values (s.id, s.v)", ""),
    ("merge into t using (select 2 as id) as s on t.id = s.id when matched then delete; insert into t values (2, 'again')", ""),
    ("notify news, 'something'; unlisten *; insert into t values (13)", ""),
    ("call proc(1); call proc(2)", ""),
    ("explain (analyze, costs off) insert into t values (14); explain select 1; show work_mem", ""),
    ("select nextval('counter'), nextval('counter'); insert into log (what) select currval('counter')::text", ""),
    ("update low set v = 'through a view' where id = 2; insert into low values (50, 'v')", ""),
    ("truncate log restart identity; select add('first')", ""),
    ("lock table t; select id from t for update; grant select on t to public; comment on table t is 'x'", ""),
    ("create function made(i int) returns int begin atomic select i * 2; end; insert into log (what) select made(21)::text; drop function made; create function made() returns int return 1", ""),
    ("create rule r as on insert to parent do also insert into log (what) values ('rule'); insert into parent values (3)", ""),
    ("create materialized view made as select count(*) from t; insert into t values (15); refresh materialized view made; insert into log (what) select count::text from made", ""),
    ("insert into t values (1, 'other') on conflict (id) do update set v = excluded.v, n = t.n + 1 returning *; insert into t values (1) on conflict do nothing", ""),
    ("create table part (id int) partition by range (id); create table part1 partition of part for values from (0) to (10); insert into part select generate_series(0, 9); delete from part where id = 3", ""),
    ("insert into t values (11); insert into t values (1); insert into t values (12)", "23505"),
    ("insert into t values (11); select 1 / 0", "22012"),
    ("insert into child values (9); insert into t values (11)", "23503"),
    ("insert into t values (11); select * from nowhere", "42P01"),
    ("select add('lost'); do $$ begin raise exception 'own' using errcode = 'OWN01'; end $$", "OWN01"),
    ("set transaction read only; insert into t values (11)", "25006"),
    ("select 1; set transaction isolation level serializable", "25001"),
    ("insert into t values (11); vacuum t", "25001"),
    ("insert into t values (11); create index concurrently on t (v)", "25001"),
    ("call commits()", "2D000"),
    ("do $$ begin rollback; end $$", "2D000"),
    ("copy t from '/nowhere/at/all'", "58P01"),
    ("set local statement_timeout = '50ms'; select pg_sleep(60)", "57014"),
    ("set lock_timeout = '1ms'; create table made (); drop table made; select add('quick')", ""),
    ("fetch 1 from nothing", "34000"),
    ("execute nothing", "26000"),
    ("declare c cursor with hold for select 1 / (id - 5) from t order by id; insert into t values (60)", "22012"),
];

/// The counts that psql shows, in order: of INSERT, UPDATE, DELETE and MERGE; of SELECT it shows rows.
fn counts_of_psql(output: &str) -> Vec<String> {
    let tags = ["INSERT 0 ", "UPDATE ", "DELETE ", "MERGE "];
    let count = |line: &str| {
        let tag = tags.iter().find(|tag| line.starts_with(**tag))?;
        line[tag.len()..].parse::<u64>().ok().map(|count| format!("{}{count}", tag.replace(" 0 ", " ")))
    };
    output.lines().filter_map(count).collect()
}

fn traces(db: &mut Client, schema: &str) -> String {
    db.batch_execute(&format!("set search_path = {schema}")).unwrap();
    let traces: String = one(db, TRACES);
    db.batch_execute("reset search_path").unwrap();
    traces.replace(schema, "SCHEMA")
}

#[test]
fn a_job_does_what_psql_does() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "2").start();
    let mut db = cluster.with_extension("postgres");
    let mut wrong = Vec::new();
    for (number, (script, sqlstate)) in SCRIPTS.iter().enumerate() {
        let (by_job, by_psql) = (format!("job{number}"), format!("psql{number}"));
        for schema in [&by_job, &by_psql] {
            db.batch_execute(&format!(
                "create schema {schema}; set search_path = {schema}; {WORLD}; reset search_path"
            ))
            .unwrap();
        }
        let file = |name: &str| cluster.folder().join(name).display().to_string();
        let command = script.replace("FILE", &file(&format!("{number}.job")));
        define(&mut db, &by_job, &command, &format!("settings => '{{\"search_path\": \"{by_job}\"}}'"));
        let id = enqueue(&mut db, &by_job, 1).remove(0);
        let script_file = file(&format!("{number}.sql"));
        fs::write(&script_file, script.replace("FILE", &file(&format!("{number}.psql")))).unwrap();
        let mut psql = cluster.psql("postgres", "postgres");
        psql.env("PGOPTIONS", format!("-c search_path={by_psql}"));
        let psql =
            psql.args(["-1", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-f", &script_file]).output().unwrap();
        let output = text(&psql);

        let (status, code) = ended(&mut db, &id);
        let row = db
            .query_one(
                "select coalesce(error_msg, ''), rows_affected,
                        array(select format('%s %s', s ->> 'tag', s ->> 'rows') from jsonb_array_elements(result -> 'statements') s
                               where s ->> 'tag' in ('INSERT', 'UPDATE', 'DELETE', 'MERGE'))
                   from sched.execution where id = $1::text::uuid",
                &[&id],
            )
            .unwrap();
        let (message, counts): (String, Vec<String>) = (row.get(0), row.get(2));
        if psql.status.success() != sqlstate.is_empty()
            || (!sqlstate.is_empty() && !output.contains(&format!("ERROR:  {sqlstate}: ")))
        {
            wrong.push(format!("{script}\n  psql, not {sqlstate:?}: {output}"));
        }
        if code != *sqlstate || (status == "SUCCESS") != sqlstate.is_empty() {
            wrong.push(format!("{script}\n  job, not {sqlstate:?}: {status} {code} {message}"));
        }
        let (job, psql) = (traces(&mut db, &by_job), traces(&mut db, &by_psql));
        if job != psql {
            wrong.push(format!("{script}\n  the job left\n{job}\n  psql left\n{psql}"));
        }
        // (Of a failed run nothing was written; of those of EXPLAIN and CALL psql shows another tag.)
        if sqlstate.is_empty() && counts != counts_of_psql(&output) {
            wrong.push(format!("{script}\n  counts {counts:?}, of psql {:?}", counts_of_psql(&output)));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    // The rows of a job can be seen at once by whoever sees that it has ended; nothing stays behind.
    assert_eq!(one::<i64>(&mut db, "select count(*) from pg_prepared_xacts"), 0);
    assert!(cluster.logged("PANIC").is_empty());
}

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
    let cluster = Cluster::builder()
        .set("shared_preload_libraries", "scheduler, pg_stat_statements, auto_explain")
        .set("auto_explain.log_min_duration", "0")
        .set("pg_stat_statements.track", "top")
        .set("log_min_messages", "log")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create extension pg_stat_statements; create table big as select g as id from generate_series(1, 100000) g; analyze big").unwrap();
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
    let counted: i64 = one(&mut db, "select coalesce(sum(calls), 0)::bigint from pg_stat_statements where query like 'select count(*) as c, sum(id) as s%'");
    assert_eq!(counted, 1);
    wait_until("auto_explain to show the plan", SOON, || {
        cluster.log().contains("Query Text: select count(*) as c, sum(id)").then_some(())
    });

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
    define(&mut db, "listens", "listen news", "");
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
            "select not exists (select from sched.lease) and not exists (select from sched.ready)",
            SOON * 3,
        );
        if let Some(pid) = runners(&mut db).first() {
            seen.push((*pid, memory(*pid, "RssAnon:")));
        }
        db.batch_execute("vacuum sched.ledger, sched.ready, sched.lease, t").unwrap();
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
    holder.batch_execute("begin; select from sched.ready for update").unwrap();
    cluster.set("sched.enabled", "on");
    let pid = wait_until("another runner", SOON, || runners(&mut db).first().copied().filter(|new| *new != pid));
    wait_for(&mut db, &format!("select state = 'idle' from pg_stat_activity where pid = {pid}"), SOON);
    let before = ticks(pid);
    stays("what waits", Duration::from_secs(3), || one::<i64>(&mut db, "select count(*) from sched.ready"));
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
