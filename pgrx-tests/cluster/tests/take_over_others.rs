//! take_over and hand_back beside the real pgAgent, and on tables of pg_timetable and TimescaleDB as their public schema has them.

use crate::take_over::{change_hands, check_witness, next_minute, state};
use scheduler_cluster_tests::proc::{kill, Program, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{celery, pgagent, wait_for, wait_until, Client, Cluster, Shutdown};
use std::time::Duration;

const STATES: &str = "select string_agg(concat_ws(' ', schedule_name, ownership, enabled), ', ' order by schedule_name) from sched.schedules";

/// pgAgent's jobs that run each minute, each of which notes the minute and who has run it; imported.
pub fn each_minute(db: &mut Client, jobs: usize) {
    db.batch_execute(&format!(
        "create table witness (job text, minute timestamptz, by text);
         insert into pgagent.pga_job (jobjclid, jobname) select 1, 'job ' || i from generate_series(1, {jobs}) i;
         insert into pgagent.pga_jobstep (jstjobid, jstname, jstkind, jstcode, jstdbname, jstonerror)
         select jobid, 'a', 's', format('insert into witness values (%L, date_trunc(''minute'', clock_timestamp()), current_setting(''application_name''))', jobname), current_database(), 'f'
           from pgagent.pga_job;
         insert into pgagent.pga_schedule (jscjobid, jscname, jscstart, jscminutes, jschours)
         select jobid, 'each', '2026-01-01 00:00+00', array_fill(true, '{{60}}'), array_fill(true, '{{24}}') from pgagent.pga_job;
         select sched.import_from('pgagent')"
    ))
    .unwrap();
}

/// A server with pgAgent's tables.
pub fn server() -> Option<(Cluster, Client)> {
    if !pgagent::is_there() {
        return None;
    }
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let db = pgagent::database(&cluster);
    Some((cluster, db))
}

#[test]
fn a_job_that_its_agent_runs_or_is_about_to_is_not_taken() {
    let Some((cluster, mut db)) = server() else { return };
    db.batch_execute(
        "insert into pgagent.pga_job (jobjclid, jobname) values (1, 'two'), (1, 'late');
         insert into pgagent.pga_jobstep (jstjobid, jstname, jstkind, jstcode, jstdbname, jstonerror) select jobid, 'a', 's', 'select 1', current_database(), 'f' from pgagent.pga_job;
         insert into pgagent.pga_schedule (jscjobid, jscname, jscstart, jscminutes, jschours)
         select 1, name, '2026-01-01 00:00+00', array_fill(false, array[at]) || true || array_fill(false, array[59 - at]), array_fill(true, '{24}') from (values ('a', 7), ('b', 37)) s (name, at);
         insert into pgagent.pga_schedule (jscjobid, jscname, jscstart, jscminutes, jschours)
         values (2, 's', '2026-01-01 00:00+00', true || array_fill(false, '{59}'), array_fill(false, '{9}') || true || array_fill(false, '{14}'));
         select sched.import_from('pgagent')",
    )
    .unwrap();
    let as_they_were = "two / a external t, two / b external t";
    assert!(one::<String>(&mut db, STATES).ends_with(as_they_were));
    // An agent, which is a session that has written itself down.
    let mut agent = cluster.connect();
    agent
        .batch_execute("insert into pgagent.pga_jobagent (jagpid, jagstation) values (pg_backend_pid(), 'here')")
        .unwrap();
    db.batch_execute(
        "update pgagent.pga_job set jobagentid = (select jagpid from pgagent.pga_jobagent) where jobid = 1",
    )
    .unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pgagent', '{two / a}')")), "55P03");
    db.batch_execute("update pgagent.pga_job set jobagentid = null where jobid = 1; update pgagent.pga_job set jobnextrun = clock_timestamp() - interval '1 minute' where jobid = 2").unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pgagent', '{late}')")), "55P03");
    // No agent begins while a take-over is not committed.
    db.batch_execute("begin; select sched.take_over('pgagent', '{two / a}')").unwrap();
    agent.batch_execute("set lock_timeout = '200ms'").unwrap();
    let begins = "insert into pgagent.pga_jobagent (jagpid, jagstation) values (1, 'there')";
    assert_eq!(state(agent.batch_execute(begins)), "55P03");
    db.batch_execute("rollback").unwrap();
    // One that has gone keeps nobody; of two schedules of a job one can be had.
    drop(agent);
    wait_for(
        &mut db,
        "select not exists (select from pgagent.pga_jobagent join pg_stat_activity on pid = jagpid)",
        SOON,
    );
    let rows = "select string_agg(concat_ws(' ', schedule_name, last_theirs, first_ours > clock_timestamp()), ', ') from sched.take_over('pgagent', '{two / a,late}')";
    assert_eq!(one::<String>(&mut db, rows), "late t, two / a t");
    assert_eq!(
        one::<String>(
            &mut db,
            "select string_agg(jscname || ' ' || jscenabled, ', ' order by jscid) from pgagent.pga_schedule"
        ),
        "a false, b true, s false"
    );
    assert_eq!(
        one::<i64>(&mut db, "select extract(minute from jobnextrun)::bigint from pgagent.pga_job where jobid = 1"),
        37
    );
    assert_eq!(state(db.batch_execute("select sched.hand_back('{two / b}')")), "55000");
    db.batch_execute("select sched.hand_back('{two / a,late}')").unwrap();
    assert!(one::<String>(&mut db, STATES).ends_with(as_they_were));
    assert_eq!(one::<i64>(&mut db, "select count(*) from pg_trigger where tgname = 'scheduler_guard'"), 0);
}

#[test]
fn chains_of_pg_timetable_change_hands() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler").unwrap();
    db.batch_execute(&include_str!("../../data/pg_timetable.sql").replace("{schema}", "timetable")).unwrap();
    db.batch_execute(
        "insert into timetable.chain (chain_name, run_at, live) values ('daily', '0 3 * * *', true), ('off', '0 3 * * *', false), ('often', '@every 1 minute', true), ('other', '0 4 * * *', true);
         insert into timetable.task (chain_id, task_order, command) select chain_id, 1, 'select 1' from timetable.chain;
         insert into timetable.execution_log (chain_id, task_id, txid, last_run, finished, client_name)
         select 1, 1, d, date_trunc('day', now()) + interval '3 hours' - d * interval '1 day', date_trunc('day', now()) + interval '3 hours' - d * interval '1 day', 'worker'
           from generate_series(0, 3) d where date_trunc('day', now()) + interval '3 hours' - d * interval '1 day' < now();
         select sched.import_from('pg_timetable')",
    )
    .unwrap();
    let live = "select string_agg(chain_name || ' ' || live, ', ' order by chain_id) from timetable.chain";
    // Of a client that is connected: a run that goes on.
    let mut client = cluster.connect();
    client.batch_execute("insert into timetable.active_session (client_pid, server_pid, client_name) values (1, pg_backend_pid(), 'worker'); insert into timetable.active_chain (chain_id, client_name) values (1, 'worker')").unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_timetable', '{daily}')")), "55P03");
    drop(client);
    wait_for(
        &mut db,
        "select not exists (select from timetable.active_session join pg_stat_activity on pid = server_pid)",
        SOON,
    );
    assert_eq!(state(db.batch_execute("select sched.take_over('pg_timetable', '{often}')")), "0A000");
    assert_eq!(one::<String>(&mut db, live), "daily true, off false, often true, other true");
    let rows = "select string_agg(concat_ws(' ', schedule_name, last_theirs is not null, first_ours > clock_timestamp()), ', ') from sched.take_over('pg_timetable', '{daily,off}')";
    assert_eq!(one::<String>(&mut db, rows), "daily t t, off f");
    assert_eq!(one::<String>(&mut db, live), "daily false, off false, often true, other true");
    assert_eq!(state(db.batch_execute("update timetable.chain set live = true where chain_id = 1")), "55006");
    db.batch_execute(
        "update timetable.chain set live = live; update timetable.chain set live = false where chain_id = 3",
    )
    .unwrap();
    db.batch_execute("select sched.take_over('pg_timetable', '{often}', force => true)").unwrap();
    db.batch_execute("alter table timetable.chain disable trigger scheduler_guard; update timetable.chain set live = true where chain_id = 1").unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'daily'", SOON);
    wait_for(&mut db, "select count(*) = 1 from sched.alerts where kind = 'parked' and schedule_name = 'daily'", SOON);
    db.batch_execute(
        "update timetable.chain set live = false where chain_id = 1; select sched.hand_back('{daily,off,often}')",
    )
    .unwrap();
    assert_eq!(one::<String>(&mut db, live), "daily true, off false, often false, other true");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules where ownership = 'owned'"), 0);
    // Older versions do not say what runs now, but what has run.
    db.batch_execute("drop table timetable.active_chain").unwrap();
    assert_eq!(one::<String>(&mut db, &rows.replace("daily,off", "daily")), "daily t t");
}

#[test]
fn jobs_of_timescaledb_change_hands() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler").unwrap();
    db.batch_execute(crate::import_timescaledb::NEW).unwrap();
    db.batch_execute(crate::import_timescaledb::ACTIONS).unwrap();
    db.batch_execute(
        "create schema _timescaledb_cache; create table _timescaledb_cache.cache_inval_bgw_job ();
         create table _timescaledb_internal.bgw_job_stat (job_id integer primary key, last_start timestamptz not null default '-infinity', last_finish timestamptz not null default '-infinity', next_start timestamptz not null default '-infinity');
         insert into _timescaledb_catalog.bgw_job (id, application_name, schedule_interval, fixed_schedule, initial_start, timezone) values
            (1000, 'daily [1000]', '1 day', true, date_trunc('day', now()) - interval '10 days' + interval '3 hours', 'UTC'), (1001, 'drifts [1001]', '36 hours', false, null, null);
         insert into _timescaledb_internal.bgw_job_stat_history (job_id, execution_start, execution_finish, succeeded)
         select 1000, at, at, true from generate_series(date_trunc('day', now()) - interval '3 days' + interval '3 hours', now(), '1 day') at;
         select sched.import_from('timescaledb')",
    )
    .unwrap();
    let names: Vec<String> =
        one(&mut db, "select array_agg(schedule_name order by schedule_name) from sched.schedules");
    assert_eq!(names.len(), 2, "{names:?}");
    // A worker of that name that lives.
    let mut worker = cluster.connect();
    worker.batch_execute("set application_name = 'daily [1000]'; insert into _timescaledb_internal.bgw_job_stat values (1000, clock_timestamp(), '-infinity')").unwrap();
    let take = format!("select string_agg(concat_ws(' ', schedule_name, last_theirs is not null, first_ours > clock_timestamp()), ', ') from sched.take_over('timescaledb', '{{\"{}\"}}')", names[0]);
    assert_eq!(state(db.batch_execute(&take)), "55P03");
    drop(worker);
    wait_for(&mut db, "select not exists (select from pg_stat_activity where application_name = 'daily [1000]')", SOON);
    assert_eq!(one::<String>(&mut db, &take), format!("{} t t", names[0]));
    let scheduled = "select string_agg(id || ' ' || scheduled, ', ' order by id) from _timescaledb_catalog.bgw_job";
    assert_eq!(one::<String>(&mut db, scheduled), "1000 false, 1001 true");
    assert_eq!(
        state(db.batch_execute("update _timescaledb_catalog.bgw_job set scheduled = true where id = 1000")),
        "55006"
    );
    // Somebody's trigger would run with our rights there as well.
    db.batch_execute(
        "create role planter; grant trigger on _timescaledb_internal.bgw_job_stat to planter; create schema own authorization planter; grant usage on schema _timescaledb_internal to planter; set role planter;
         create function own.planted() returns trigger language plpgsql as $$ begin return new; end $$;
         create trigger planted before update on _timescaledb_internal.bgw_job_stat for each row execute function own.planted(); reset role",
    )
    .unwrap();
    let back = format!("select sched.hand_back('{{\"{}\"}}')", names[0]);
    assert_eq!(state(db.batch_execute(&back)), "42501");
    db.batch_execute("drop schema own cascade").unwrap();
    db.batch_execute(&back).unwrap();
    assert_eq!(one::<String>(&mut db, scheduled), "1000 true, 1001 true");
    // What was run here meanwhile is not run again at once: it begins with our next plan time.
    let next = "select next_start between clock_timestamp() and clock_timestamp() + interval '1 day' and extract(hour from next_start at time zone 'UTC') = 3 from _timescaledb_internal.bgw_job_stat where job_id = 1000";
    assert!(one::<bool>(&mut db, next));
    // What counts from the end of a run begins there no sooner than if that ended now.
    db.batch_execute(&format!(
        "insert into _timescaledb_internal.bgw_job_stat values (1001, '2026-01-01', '2026-01-01', '2026-01-02');
         create or replace procedure tidy(job_id int, config jsonb) language sql as 'select pg_sleep(1000)';
         select sched.take_over('timescaledb', '{{\"{0}\"}}', force => true); select sched.alter_schedule('{0}', clock => 'every 1 second after end')",
        names[1]
    ))
    .unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.running", SOON);
    db.batch_execute(&format!(
        "select sched.alter_schedule('{0}', clock => 'every 1 hour after end'); select sched.hand_back('{{\"{0}\"}}')",
        names[1]
    ))
    .unwrap();
    let next = "select next_start between clock_timestamp() + interval '50 minutes' and clock_timestamp() + interval '1 hour' from _timescaledb_internal.bgw_job_stat where job_id = 1001";
    assert!(one::<bool>(&mut db, next));
}

/// Tasks of a Beat at work that it sends each minute, imported; and who does them: both sides' go to the same worker.
fn sent_each_minute(cluster: &Cluster, tasks: usize) -> (Client, [Program; 3], celery::Redis) {
    let broker = celery::Redis::start(cluster);
    let mut db = cluster.with_extension("postgres");
    celery::tables(cluster, "postgres", false);
    db.batch_execute(&format!(
        "insert into django_celery_beat_crontabschedule (id, minute, hour, day_of_month, month_of_year, day_of_week, timezone) values (1, '*', '*', '*', '*', '*', 'UTC');
         insert into django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, crontab_id)
         select 'task ' || i, 'shop.greet', '[\"you\"]', '{{}}', '{{}}', true, 0, now(), '', false, 1 from generate_series(1, {tasks}) i;
         insert into django_celery_beat_periodictasks (ident, last_update) values (1, now());
         select sched.import_from('celery_beat');
         create view witness as select periodic_task_name::text as job, date_trunc('minute', date_created) as minute,
                case when exists (select from sched.execution e where e.id::text = task_id) then 'scheduler' else 'beat' end as by
           from django_celery_results_taskresult where periodic_task_name is not null"
    ))
    .unwrap();
    let programs =
        [celery::beat(cluster, "postgres"), celery::worker(cluster, "postgres"), celery::sender(cluster, "postgres")];
    (db, programs, broker)
}

#[test]
#[ignore = "long: on a busy machine Celery's processes take minutes"]
fn long_each_minute_of_beat_is_sent_once_through_a_take_over_and_back() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let (mut db, _programs, _broker) = sent_each_minute(&cluster, 3);
    wait_for(&mut db, "select count(distinct job) = 3 from witness", Duration::from_secs(180));
    next_minute(&mut db, 3);
    let taken = "select string_agg(concat_ws(' ', schedule_name, last_theirs is not null, first_ours > clock_timestamp()), ', ') from sched.take_over('celery_beat', '{task 1,task 2}')";
    assert_eq!(one::<String>(&mut db, taken), "task 1 t t, task 2 t t");
    let enabled = "select string_agg(name || ' ' || enabled, ', ' order by id) from django_celery_beat_periodictask";
    assert_eq!(one::<String>(&mut db, enabled), "task 1 false, task 2 false, task 3 true");
    assert_eq!(
        state(db.batch_execute("update django_celery_beat_periodictask set enabled = true where name = 'task 1'")),
        "55006"
    );
    next_minute(&mut db, 3);
    let by = "select string_agg(distinct job || ' ' || by, ', ') from witness where minute = (select max(minute) from witness)";
    assert_eq!(one::<String>(&mut db, by), "task 1 scheduler, task 2 scheduler, task 3 beat");
    db.batch_execute("select sched.hand_back('{task 1}')").unwrap();
    next_minute(&mut db, 3);
    assert_eq!(one::<String>(&mut db, by), "task 1 beat, task 2 scheduler, task 3 beat");
    check_witness(&mut db, 3);
    db.batch_execute("alter table django_celery_beat_periodictask disable trigger scheduler_guard; update django_celery_beat_periodictask set enabled = true where name = 'task 2'").unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'task 2'", SOON);
}

/// In tables of the application's role, as Django makes them.
#[test]
fn tasks_of_celery_change_hands() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", true);
    db.batch_execute(
        "create role app login; select sched.grant_use('app'); grant create on schema public to app;
         do $$ begin execute (select string_agg(format('alter table %I owner to app', tablename), '; ') from pg_tables where schemaname = 'public'); end $$",
    )
    .unwrap();
    let mut db = cluster.connect_as("app", "postgres");
    db.batch_execute("select sched.import_from('celery_beat')").unwrap();
    let of = "select concat_ws(' ', enabled, last_run_at > clock_timestamp() - interval '1 day') from django_celery_beat_periodictask where name = 'nightly'";
    // What it has not sent for long is sent at once; what it may have sent and not written down is not.
    for (last, at_once) in [("interval '3 days'", true), ("interval '0'", false)] {
        db.batch_execute(&format!(
            "update django_celery_beat_periodictask set last_run_at = clock_timestamp() - {last} where name = 'nightly';
             create temporary table before on commit preserve rows as select last_update from django_celery_beat_periodictasks"
        ))
        .unwrap();
        let taken =
            "select first_ours < clock_timestamp() from sched.take_over('celery_beat', '{nightly}', force => true)";
        assert_eq!(one::<bool>(&mut db, taken), at_once, "{last}");
        assert!(one::<bool>(&mut db, "select bool_and(u.last_update > b.last_update) is not false from django_celery_beat_periodictasks u, before b"));
        assert!(one::<String>(&mut db, of).starts_with('f'));
        db.batch_execute("select sched.hand_back('{nightly}'); drop table before").unwrap();
        assert_eq!(one::<String>(&mut db, of), "t t");
    }
    // Beat takes the first word of a change for none.
    db.batch_execute("delete from django_celery_beat_periodictasks").unwrap();
    assert_eq!(state(db.batch_execute("select sched.take_over('celery_beat', '{nightly}', force => true)")), "0A000");
    db.batch_execute("update django_celery_beat_periodictask set enabled = false where name = 'nightly'; select sched.take_over('celery_beat', '{nightly}', force => true); select sched.resume('nightly')").unwrap();
    let on = "update django_celery_beat_periodictask set enabled = true where name = 'nightly'";
    assert_eq!(state(db.batch_execute(on)), "55006");
    // Another's are nobody's to take, a superuser's neither: the owner does it.
    let mut postgres = cluster.connect();
    assert_eq!(state(postgres.batch_execute("select sched.hand_back('{nightly}')")), "42501");
    db.batch_execute(&format!("alter table django_celery_beat_periodictask disable trigger scheduler_guard; {on}"))
        .unwrap();
    wait_for(&mut db, "select state = 'parked' from sched.schedules where schedule_name = 'nightly'", SOON);
    // What is read to see that is to be of Postgres' own types.
    db.batch_execute(
        "alter table django_celery_beat_periodictask enable always trigger scheduler_guard; select sched.hand_back('{nightly}');
         create domain flag as bool; alter table django_celery_beat_periodictask alter enabled type flag",
    )
    .unwrap();
    let refused = db.batch_execute("select sched.take_over('celery_beat', '{nightly}', force => true)").unwrap_err();
    let message = refused.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
    assert!(message.contains("django_celery_beat_periodictask.enabled"), "{refused}");
}

/// Ends a program of Celery's as an administrator does. Killed otherwise it forgets what it has not written down, and sends or loses that itself.
fn end(mut program: Program) {
    kill(program.pid(), Signal::TERM);
    wait_until("it to end", SOON, || program.ended());
}

/// A round is a minute, so many tasks change hands in few of them, and in each something is killed.
#[test]
#[ignore = "minutes"]
fn long_a_hundred_take_overs_of_beat_under_kills() {
    const TASKS: usize = 17;
    const ROUNDS: usize = 6;
    let cluster = Cluster::new();
    let (mut db, programs, _broker) = sent_each_minute(&cluster, TASKS);
    let [mut beat, mut worker, mut sender] = programs.map(Some);
    wait_for(&mut db, &format!("select count(distinct job) = {TASKS} from witness"), Duration::from_secs(180));
    next_minute(&mut db, TASKS);
    let mut random = Random::seeded();
    for round in 0..ROUNDS {
        change_hands(&mut db, "celery_beat", "task", TASKS);
        // In the middle of a minute: what they have sent by then is done.
        let at = 20 + random.below(15);
        let is_time = format!("select extract(second from clock_timestamp()) between {at} and 40");
        wait_for(&mut db, &is_time, Duration::from_secs(90));
        if round % 2 == 1 {
            beat.take().into_iter().for_each(end);
            beat = Some(celery::beat(&cluster, "postgres"));
            worker.take().into_iter().for_each(end);
            worker = Some(celery::worker(&cluster, "postgres"));
            drop(sender.take());
            sender = Some(celery::sender(&cluster, "postgres"));
        } else {
            // Beat and what hands on to Celery go on by themselves.
            cluster.restart(Shutdown::Immediate);
            db = cluster.connect();
        }
        next_minute(&mut db, TASKS);
    }
    check_witness(&mut db, TASKS);
    let runs: i64 = one(&mut db, "select count(*) from witness");
    println!("{runs} runs, each minute of each task once, through {} changes of hands", TASKS * ROUNDS);
}

#[test]
#[ignore = "minutes"]
fn long_a_hundred_take_overs_of_pgagent_under_kills() {
    const JOBS: usize = 15;
    let Some((cluster, mut db)) = server() else { return };
    each_minute(&mut db, JOBS);
    db.batch_execute("select sched.define_job('load', kind => 'log'), sched.create_schedule('load ' || i, 'every 1 second', 'load') from generate_series(1, 100) as i").unwrap();
    let mut agent = Some(pgagent::daemon(&cluster));
    next_minute(&mut db, JOBS);
    let mut random = Random::seeded();
    for round in 0..7 {
        change_hands(&mut db, "pgagent", "job", JOBS);
        if round % 2 == 1 {
            // Not at the full minute, nor just after it: what pgAgent has begun then goes with the server.
            let at = 20 + random.below(20);
            let is_time = format!("select extract(second from clock_timestamp()) between {at} and 45");
            wait_for(&mut db, &is_time, Duration::from_secs(90));
            drop(agent.take());
            cluster.restart(Shutdown::Immediate);
            db = cluster.connect();
            agent = Some(pgagent::daemon(&cluster));
        }
        next_minute(&mut db, JOBS);
    }
    check_witness(&mut db, JOBS);
    let runs: i64 = one(&mut db, "select count(*) from witness");
    println!("{runs} runs, each minute of each job once");
}
