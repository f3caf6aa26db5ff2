//! A SQL job does what `psql -1 -f` does with the same script: the same rows, the same counts, the same error.

use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue};
use scheduler_cluster_tests::{Client, Cluster};
use std::fs;

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
