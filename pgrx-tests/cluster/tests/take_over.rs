//! take_over and hand_back beside the real pg_cron, with a table that both sides write to.

use scheduler_cluster_tests::pg_cron;
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Client, Shutdown};
use std::time::Duration;

/// The SQLSTATE of what was refused.
pub fn state<T>(result: Result<T, postgres::Error>) -> String {
    result.err().and_then(|error| error.code().map(|code| code.code().to_owned())).unwrap_or_default()
}

pub const SWITCHED: &str = "select string_agg(concat_ws(' ', jobname, active), ', ' order by jobid) from cron.job";
const STATES: &str = "select string_agg(concat_ws(' ', schedule_name, ownership, enabled), ', ' order by schedule_name) from sched.schedules";

/// pg_cron's jobs that run each minute, each of which notes the minute and who has run it; imported.
pub fn each_minute(db: &mut Client, jobs: usize) {
    db.batch_execute(&format!(
        "create table witness (job text, minute timestamptz, by text);
         select cron.schedule('job ' || i, '* * * * *',
                    format('insert into witness values (%L, date_trunc(''minute'', clock_timestamp()), current_setting(''application_name''))', 'job ' || i))
           from generate_series(1, {jobs}) as i;
         select sched.import_from('pg_cron')"
    ))
    .unwrap();
}

/// Waits for the next full minute to have been seen to, by whomever.
pub fn next_minute(db: &mut Client, jobs: usize) {
    let next: String = one(db, "select (date_trunc('minute', clock_timestamp()) + interval '1 minute')::text");
    let done = format!("select count(distinct job) = {jobs} from witness where minute = '{next}'");
    wait_for(db, &done, Duration::from_secs(100));
}

/// Takes over what is theirs of the schedules of these names and numbers, and hands back what is ours.
pub fn change_hands(db: &mut Client, source: &str, name: &str, count: usize) {
    let ours = format!("select coalesce(array_agg(schedule_name), '{{}}') from sched.schedules where schedule_name like '{name} %' and ownership = 'owned'");
    let ours: Vec<String> = one(db, &ours);
    let names = (1..=count).map(|number| format!("{name} {number}"));
    let theirs: Vec<String> = names.filter(|name| !ours.contains(name)).collect();
    if !theirs.is_empty() {
        let rows = db.query("select * from sched.take_over($1, $2)", &[&source, &theirs]).unwrap();
        assert_eq!(rows.len(), theirs.len());
    }
    if !ours.is_empty() {
        db.execute("select sched.hand_back($1)", &[&ours]).unwrap();
    }
}

/// Of each job each minute between its first and its last once.
pub fn check_witness(db: &mut Client, jobs: usize) {
    let wrong = "select string_agg(format('%s %s: %s', w.job, m, w.runs), ', ')
                   from (select job, min(minute) as first, max(minute) as last from witness group by job) as j,
                        generate_series(first, last, '1 minute') as m
                   left join lateral (select j.job, count(*) as runs from witness where witness.job = j.job and minute = m) as w on true
                  where w.runs <> 1";
    assert_eq!(one::<Option<String>>(db, wrong), None);
    assert_eq!(one::<i64>(db, "select count(distinct job) from witness"), i64::try_from(jobs).unwrap());
}

#[test]
fn a_take_over_is_refused_with_a_reason_and_then_nothing_has_changed() {
    let Some(cluster) = pg_cron::server(&[("max_prepared_transactions", "1")]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule('a', '0 3 * * *', 'select 1'), cron.schedule('b', '0 3 * * *', 'select 1'), cron.schedule('off', '0 3 * * *', 'select 1');
         select cron.alter_job(3, active => false);
         select sched.import_from('pg_cron');
         select sched.define_job('own'), sched.create_schedule('own', '@daily', 'own')",
    )
    .unwrap();
    let as_they_were = |db: &mut Client| {
        assert_eq!(one::<String>(db, SWITCHED), "a t, b t, off f");
        assert_eq!(one::<String>(db, STATES), "a external t, b external t, off external f, own owned t");
    };
    for (call, wanted) in [
        ("select sched.take_over('pg_cron', '{own}')", "42704"),
        ("select sched.take_over('pg_cron', '{a,nobody}')", "42704"),
        ("select sched.take_over('cron')", "22023"),
        ("select sched.take_over('pg_cron', '{NULL}')", "22004"),
        ("select sched.hand_back('{a}')", "55000"),
        ("select sched.hand_back(NULL)", "22004"),
        ("begin; select sched.take_over('pg_cron'); select 1 / 0", "22012"),
        ("begin isolation level repeatable read; select sched.take_over('pg_cron')", "0A000"),
        ("begin; select sched.take_over('pg_cron'); prepare transaction 'p'", "0A000"),
    ] {
        assert_eq!(state(db.batch_execute(call)), wanted, "{call}");
        db.batch_execute("rollback").unwrap();
        as_they_were(&mut db);
    }
    // What a savepoint takes back is no reason any more.
    db.batch_execute(
        "begin; savepoint s; select sched.take_over('pg_cron'); rollback to s; create table own_rows (i int)",
    )
    .unwrap();
    db.batch_execute("prepare transaction 'p'").unwrap();
    db.batch_execute("rollback prepared 'p'").unwrap();
    as_they_were(&mut db);
    // They ran what we would not have run.
    db.batch_execute(
        "insert into cron.job_run_details (jobid, runid, status, start_time, end_time)
         select 1, i, 'succeeded', clock_timestamp() - i * interval '7 hours', clock_timestamp() - i * interval '7 hours' from generate_series(1, 9) as i",
    )
    .unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_cron', '{a}')")), "55000");
    as_they_were(&mut db);
    // Somebody's trigger would run with our rights.
    db.batch_execute(
        "create role planter; grant trigger on cron.job to planter; grant usage on schema cron to planter; create schema own authorization planter; set role planter;
         create function own.planted() returns trigger language plpgsql as $$ begin return new; end $$;
         create trigger planted before update on cron.job for each row execute function own.planted(); reset role",
    )
    .unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_cron', '{b}')")), "42501");
    as_they_were(&mut db);
    db.batch_execute("drop schema own cascade").unwrap();
    // A run that a crash has left keeps nobody, one of a live process does.
    db.batch_execute("delete from cron.job_run_details; insert into cron.job_run_details (jobid, runid, status, start_time, job_pid) values (1, 1, 'running', clock_timestamp(), pg_backend_pid())").unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_cron', '{a,b,off}')")), "55P03");
    as_they_were(&mut db);
    db.batch_execute("update cron.job_run_details set job_pid = 4000000").unwrap();
    // Edited there since.
    db.batch_execute("select cron.alter_job(2, schedule => '0 4 * * *')").unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_cron')")), "55000");
    db.batch_execute("select sched.import_from('pg_cron'); select sched.take_over('pg_cron', force => true)").unwrap();
    assert_eq!(one::<String>(&mut db, SWITCHED), "a f, b f, off f");
    assert_eq!(one::<String>(&mut db, STATES), "a owned t, b owned t, off owned f, own owned t");
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_cron', '{a}')")), "55000");
    // Nobody would fire it any more.
    assert_eq!(state(db.batch_execute("select sched.alter_schedule('a', ownership => 'external')")), "55000");
    db.batch_execute("select sched.alter_schedule('a', payload => '[1]'), sched.pause('a'), sched.resume('a')")
        .unwrap();
    // All of it that is left is nothing.
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.take_over('pg_cron')"), 0);
    db.batch_execute("select sched.hand_back('{a,b,off}')").unwrap();
    as_they_were(&mut db);
    assert_eq!(one::<i64>(&mut db, "select count(*) from pg_trigger where tgname = 'scheduler_guard'"), 0);
}

/// A role takes over from tables of its own as well. It decides what runs when they are read, and what is locked: nobody else runs that, nor waits.
#[test]
fn a_roles_own_tables_are_taken_over_and_trap_nobody() {
    let Some(cluster) = pg_cron::server(&[("sched.tick_interval", "100ms")]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "create role app login; select sched.grant_use('app'); create schema \"it's own\" authorization app;
         select cron.schedule('theirs', '0 3 * * *', 'select 1'), sched.import_from('pg_cron', 'cron'), sched.take_over('pg_cron', '{theirs}');
         select sched.define_job('tick', kind => 'log'), sched.create_schedule('tick', 'every 1 second', 'tick')",
    )
    .unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "set search_path = \"it's own\";
         create table job (jobid bigint primary key, schedule text, command text, nodename text, nodeport int, database text, username text, active boolean, jobname text);
         create table job_run_details (jobid bigint, runid bigint, job_pid int, status text, start_time timestamptz, end_time timestamptz);
         insert into job select i, '0 3 * * *', 'select 1', 'localhost', 5432, 'postgres', 'app', true, 'own ' || i from generate_series(1, 3) i;
         select sched.import_from('pg_cron', 'it''s own'); select sched.take_over('pg_cron', force => true)",
    )
    .unwrap();
    let on = "select string_agg(jobid || ' ' || active, ', ' order by jobid) from \"it's own\".job";
    assert_eq!(one::<String>(&mut app, on), "1 false, 2 false, 3 false");
    for session in [&mut app, &mut db] {
        assert_eq!(state(session.batch_execute("update \"it's own\".job set active = true where jobid = 1")), "55006");
    }
    app.batch_execute("select sched.hand_back('{own 1}')").unwrap();
    assert_eq!(one::<String>(&mut app, on), "1 true, 2 false, 3 false");
    // Past the guard: found.
    app.batch_execute("alter table job disable trigger scheduler_guard; update job set active = true where jobid = 2; alter table job enable always trigger scheduler_guard").unwrap();
    let parked = "select string_agg(schedule_name, ', ') from sched.schedules where state = 'parked'";
    wait_for(&mut db, &format!("select ({parked}) = 'own 2'"), SOON);
    // Traps: what reads an id runs the owner's function; a column has gone; others may not read; the index, and then all of it, is locked. A sequence
    // tells it, which no rollback takes back.
    app.batch_execute(
        "create sequence sprung;
         create type trap as enum ('3');
         create function spring(trap) returns text language plpgsql as $$ begin perform nextval('\"it''s own\".sprung'); return '3'; end $$;
         create cast (trap as text) with function spring(trap) as implicit;
         create function spring_json(trap) returns json language plpgsql as $$ begin perform nextval('\"it''s own\".sprung'); return '3'; end $$;
         create cast (trap as json) with function spring_json(trap);
         create function spring_now() returns bigint language plpgsql as $$ begin perform nextval('\"it''s own\".sprung'); return 3; end $$;
         create function spring_planned() returns bigint language plpgsql immutable as $$ begin return \"it's own\".spring_now(); end $$;
         create function cancel(trap) returns json language plpgsql as $$ begin raise 'no' using errcode = '57014'; end $$",
    )
    .unwrap();
    let mut locker = cluster.connect_as("app", "postgres");
    for (trap, freed) in [
        ("alter table job add more trap default '3'", "alter table job drop more"),
        ("create statistics spying on (jobid + spring_planned()), active from job", "drop statistics spying"),
        (
            "drop cast (trap as json); create cast (trap as json) with function cancel(trap); alter table job add more trap default '3'",
            "alter table job drop more",
        ),
        (
            "alter table job alter jobid type trap using '3'; update job set active = true",
            // (Before the id can be read again: one that is on is found, rightly.)
            "update job set active = false; alter table job alter jobid type bigint using 3",
        ),
        ("alter table job rename active to inactive", "alter table job rename inactive to active"),
        ("revoke all on job from app", "grant all on job to app"),
        ("begin; alter index job_pkey set (fillfactor = 90); reindex index job_pkey", "rollback"),
        ("begin; lock table job in access exclusive mode", "rollback"),
    ] {
        if trap.contains("type trap") {
            app.batch_execute("delete from job where jobid <> 3").unwrap();
        }
        locker.batch_execute("set search_path = \"it's own\"").unwrap();
        locker.batch_execute(trap).unwrap();
        // All fire meanwhile, and a superuser's table is looked at.
        let since: String = one(&mut db, "select clock_timestamp()::text");
        db.batch_execute(
            "select sched.hand_back('{theirs}'); select sched.take_over('pg_cron', '{theirs}', force => true)",
        )
        .unwrap();
        db.batch_execute("alter table cron.job disable trigger scheduler_guard; update cron.job set active = true where jobname = 'theirs'").unwrap();
        wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'theirs'", SOON);
        db.batch_execute("alter table cron.job enable always trigger scheduler_guard").unwrap();
        wait_for(
            &mut db,
            &format!("select count(*) > 2 from sched.execution where job_name = 'tick' and created_at > '{since}'"),
            SOON,
        );
        assert_eq!(one::<i64>(&mut db, "select count(*) filter (where is_called) from \"it's own\".sprung"), 0, "{trap}");
        locker.batch_execute(freed).unwrap();
    }
    // A table that somebody else puts there says nothing of it.
    assert_eq!(one::<String>(&mut db, parked), "own 2, theirs");
    // A superuser's tables that are locked keep no dispatcher either.
    let mut locker = cluster.connect();
    locker.batch_execute("begin; lock table cron.job in access exclusive mode").unwrap();
    let since: String = one(&mut db, "select clock_timestamp()::text");
    wait_for(
        &mut db,
        &format!("select count(*) > 2 from sched.execution where job_name = 'tick' and created_at > '{since}'"),
        SOON,
    );
}

/// What fell due since their last run is fired once; a report stands for a run.
#[test]
fn what_they_have_missed_is_fired_once() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "create table runs (job text);
         select cron.schedule(name, '0 * * * *', format('insert into runs values (%L)', name)) from unnest('{missed,ran,reported}'::text[]) as name;
         select sched.import_from('pg_cron');
         insert into cron.job_run_details (jobid, runid, status, start_time, end_time)
         select id, row_number() over (), 'succeeded', at, at from (values (1, 30), (2, 2), (2, 1), (2, 0), (3, 1)) as r (id, ago),
                lateral (select date_trunc('hour', clock_timestamp()) - ago * interval '1 hour') as a (at);
         select sched.report_fire('reported', date_trunc('hour', clock_timestamp()), date_trunc('hour', clock_timestamp()) + interval '1 second') from generate_series(1, 2)",
    )
    .unwrap();
    // The minute of a full hour would be another one.
    let rows = "select string_agg(concat_ws(' ', schedule_name, first_ours <= clock_timestamp()), ', ') from sched.take_over('pg_cron')";
    assert_eq!(one::<String>(&mut db, rows), "missed t, ran f, reported f");
    wait_for(&mut db, "select count(*) = 1 from runs", SOON);
    assert_eq!(one::<String>(&mut db, "select string_agg(job, ' ') from runs"), "missed");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.reported_fire"), 1);
}

/// They begin with the next plan time: one that waits here, for a run to end or for its delay, is run here.
#[test]
fn what_waits_is_run_here_when_it_is_handed_back() {
    let Some(cluster) = pg_cron::server(&[("sched.tick_interval", "1s")]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule(name, '* * * * *', 'select pg_sleep(1000) where current_setting(''application_name'') like ''scheduler%''') from unnest('{busy,both}'::text[]) as name;
         select cron.schedule('late', '* * * * *', 'select 1');
         select sched.import_from('pg_cron'); select sched.take_over('pg_cron', force => true);
         select sched.alter_schedule('late', delay => '1 hour'); select sched.alter_schedule(name, clock => 'every 10 seconds') from unnest('{busy,both,late}'::text[]) as name",
    )
    .unwrap();
    let buffered = |name: &str| {
        format!("select buffered_plan::text from {TIMER} t join sched.schedule using (schedule_id) where schedule_name = '{name}'")
    };
    for name in ["busy", "both"] {
        wait_for(&mut db, &format!("select ({}) is not null", buffered(name)), SOON * 2);
    }
    // What waits of this one may have been run there.
    db.batch_execute(
        "alter table cron.job disable trigger scheduler_guard; update cron.job set active = true where jobname = 'both'; alter table cron.job enable always trigger scheduler_guard",
    )
    .unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'both'", SOON);
    let [buffered, both]: [String; 2] = ["busy", "both"].map(|name| one(&mut db, &buffered(name)));
    db.batch_execute("select sched.hand_back('{busy,both,late}')").unwrap();
    let run =
        "select string_agg(plan_time::text, ', ') from sched.execution where origin = 'backfill' and job_name = 'busy'";
    assert_eq!(one::<String>(&mut db, run), buffered);
    assert_eq!(one::<Option<String>>(&mut db, &run.replace("busy", "both")), None);
    let late = "select count(*) filter (where origin = 'backfill') = 1 and max(plan_time) filter (where origin = 'backfill') = max(plan_time) and max(plan_time) - min(plan_time) = (count(*) - 1) * interval '10 seconds'
                  from sched.execution where job_name = 'late'";
    assert!(one::<bool>(&mut db, late));
    // Each plan time is run or passed over, not both.
    wait_for(&mut db, "select count(*) = 0 from sched.schedule_change", SOON);
    let passed_over = format!(
        "select count(*) from sched.skipped where schedule_name = 'both' and '{both}' between plan_from and plan_to"
    );
    assert_eq!(one::<i64>(&mut db, &passed_over), 1);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.skip k join sched.ledger e on e.schedule_id = k.schedule_id and e.plan_time between k.plan_from and k.plan_to"), 0);
}

/// A hundred switches to and fro, while others work and the server is killed.
#[test]
#[ignore = "long: nine minutes"]
fn long_a_hundred_take_overs_under_kills() {
    const JOBS: usize = 15;
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    each_minute(&mut db, JOBS);
    db.batch_execute("select sched.define_job('load', kind => 'log'), sched.create_schedule('load ' || i, 'every 1 second', 'load') from generate_series(1, 100) as i").unwrap();
    next_minute(&mut db, JOBS);
    let mut random = Random::seeded();
    for round in 0..7 {
        change_hands(&mut db, "pg_cron", "job", JOBS);
        if round % 2 == 1 {
            // Not at the full minute: what pg_cron misses while the server is down is nobody's fault.
            let at = 10 + random.below(30);
            let is_time = format!("select extract(second from clock_timestamp()) between {at} and 45");
            wait_for(&mut db, &is_time, Duration::from_secs(90));
            cluster.restart(Shutdown::Immediate);
            db = cluster.connect();
        }
        next_minute(&mut db, JOBS);
    }
    check_witness(&mut db, JOBS);
    let runs: i64 = one(&mut db, "select count(*) from witness");
    println!("{runs} runs, each minute of each job once");
}
