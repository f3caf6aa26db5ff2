//! hand_back: what the other scheduler is told, what becomes of a job that has gone there, and what comes after a drop.

use crate::take_over::{state, SWITCHED};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{celery, pg_cron, wait_for, Client, Cluster};

/// The SQLSTATE, the message and the hint of what was refused.
fn refused(db: &mut Client, statement: &str) -> String {
    let error = db.batch_execute(statement).expect_err(statement);
    let error = error.as_db_error().expect("an error of the server");
    format!("{} {} / {}", error.code().code(), error.message(), error.hint().unwrap_or_default())
}

#[test]
fn a_job_that_has_gone_there_is_not_handed_back() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule(name, '0 3 * * *', 'select 1') from unnest('{gone,it''s,other}'::text[]) as name;
         select sched.import_from('pg_cron'); select sched.take_over('pg_cron', force => true); select cron.unschedule('gone')",
    )
    .unwrap();
    let hint = "Drop the schedule (sched.drop_schedule), or keep it: it goes on here.";
    let gone = "55000 schedule \"gone\" cannot be handed back: 1 of pg_cron, from which it was taken over, is not there any more";
    assert_eq!(refused(&mut db, "select sched.hand_back('{gone,other}')"), format!("{gone} / {hint}"));
    let owned =
        "select string_agg(schedule_name, ', ' order by schedule_name) from sched.schedules where ownership = 'owned'";
    assert_eq!(one::<String>(&mut db, owned), "gone, it's, other");
    // What would stay switched off keeps the extension, whoever asks for whatever.
    let kept = "55006 schedule \"it's\" was taken over from pg_cron, where nothing would run it / Call sched.hand_back(ARRAY['it''s', 'other']) first, which gives back what was taken over.";
    for drop in [
        "drop extension scheduler",
        "drop extension scheduler cascade",
        "drop extension pg_cron, scheduler",
        "drop extension plpgsql cascade",
    ] {
        assert_eq!(refused(&mut db, drop), kept, "{drop}");
    }
    db.batch_execute("create role nobody login").unwrap();
    assert_eq!(
        state(cluster.connect_as("nobody", "postgres").batch_execute("drop extension scheduler cascade")),
        "42501"
    );
    // It fires on meanwhile.
    db.batch_execute(
        "select sched.define_job('tick', kind => 'log'), sched.create_schedule('tick', 'every 1 second', 'tick')",
    )
    .unwrap();
    wait_for(&mut db, "select count(*) > 1 from sched.execution where job_name = 'tick'", SOON);
    db.batch_execute("select sched.hand_back(ARRAY['it''s', 'other'])").unwrap();
    assert_eq!(one::<String>(&mut db, SWITCHED), "it's t, other t");
    // What nobody can give back keeps nothing.
    let guards = "select count(*) from pg_trigger where tgname = 'scheduler_guard'";
    assert_eq!(one::<i64>(&mut db, guards), 1);
    db.batch_execute("begin; drop extension scheduler cascade").unwrap();
    assert_eq!(one::<i64>(&mut db, guards), 0);
    db.batch_execute("rollback").unwrap();
    // Neither does what has no tables any more.
    db.batch_execute("select sched.take_over('pg_cron', '{other}', force => true); drop extension pg_cron").unwrap();
    assert_eq!(refused(&mut db, "select sched.hand_back('{gone}')"), format!("{gone} / {hint}"));
    db.batch_execute("drop extension scheduler cascade").unwrap();
}

/// What was fired here between a take-over and a hand-back is no difference, and Beat goes on from there.
#[test]
fn a_second_take_over_finds_no_difference() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", false);
    db.batch_execute(
        "insert into django_celery_beat_crontabschedule (id, minute, hour, day_of_month, month_of_year, day_of_week, timezone) values (1, '*/5', '*', '*', '*', '*', 'UTC');
         insert into django_celery_beat_intervalschedule (id, every, period) values (1, 1, 'hours');
         insert into django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, crontab_id, interval_id, last_run_at)
         values ('fives', 'shop.greet', '[]', '{}', '{}', true, 1, now(), '', false, 1, null, date_bin('5 minutes', now(), '2026-01-01') - interval '1 hour'),
                ('hourly', 'shop.greet', '[]', '{}', '{}', true, 1, now(), '', false, null, 1, now() - interval '40 minutes');
         insert into django_celery_beat_periodictasks (ident, last_update) values (1, now());
         select sched.import_from('celery_beat'); create table before as select name, last_run_at from django_celery_beat_periodictask",
    )
    .unwrap();
    for round in 1..=3 {
        db.batch_execute("select sched.take_over('celery_beat')").unwrap();
        wait_for(&mut db, "select count(*) = 1 from sched.execution", SOON);
        db.batch_execute("select sched.hand_back('{fives,hourly}')").unwrap();
        // When it was due last, and, of the interval, which was not run here, when they have sent it last.
        let last = "select string_agg(concat_ws(' ', name, enabled, last_run_at = b.last_run_at, last_run_at = date_bin('5 minutes', now(), '2026-01-01')), ', ' order by name)
                      from django_celery_beat_periodictask join before b using (name)"
            .replace(", last_run_at =", ", django_celery_beat_periodictask.last_run_at =");
        assert_eq!(one::<String>(&mut db, &last), "fives t f t, hourly t t f", "round {round}");
    }
    let compared = "select string_agg(distinct schedule_name || ' ' || verdict, ', ') from sched.compare('celery_beat', now() - interval '1 day', now() + interval '1 minute')";
    assert_eq!(one::<String>(&mut db, compared), "fives both");
}

/// A task that has one time is as it was before its time, and is off once that was here.
#[test]
fn a_one_off_task_is_sent_once() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", false);
    db.batch_execute(
        "insert into django_celery_beat_clockedschedule (id, clocked_time) values (1, '2038-01-01'), (2, clock_timestamp() + interval '17 seconds');
         insert into django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, clocked_id)
         select case id when 1 then 'later' else 'soon' end, 'shop.greet', '[]', '{}', '{}', true, 0, now(), '', true, id from django_celery_beat_clockedschedule;
         insert into django_celery_beat_periodictasks (ident, last_update) values (1, now())",
    )
    .unwrap();
    db.batch_execute("select sched.import_from('celery_beat'); select sched.take_over('celery_beat')").unwrap();
    wait_for(&mut db, "select count(*) = 1 from sched.execution where job_name = 'soon'", SOON);
    db.batch_execute("select sched.hand_back('{later,soon}')").unwrap();
    let on = "select string_agg(concat_ws(' ', name, enabled, last_run_at), ', ' order by name) from django_celery_beat_periodictask";
    assert_eq!(one::<String>(&mut db, on), "later t, soon f");
    db.batch_execute("select sched.take_over('celery_beat', '{later}')").unwrap();
}

#[test]
fn what_was_fired_here_is_not_compared() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule('hourly', '0 * * * *', 'select 1'); select sched.import_from('pg_cron');
         insert into cron.job_run_details (jobid, runid, status, start_time, end_time)
         select 1, h, 'succeeded', at, at from (values (5), (1), (0)) r (h), lateral (select date_trunc('hour', now()) - h * interval '1 hour') a (at)",
    )
    .unwrap();
    let compared = "select string_agg(extract(epoch from date_trunc('hour', now()) - plan_time)::int / 3600 || ' ' || verdict, ', ' order by plan_time) from sched.compare('pg_cron', now() - interval '1 day', now())";
    assert_eq!(one::<String>(&mut db, compared), "5 both, 4 only_here, 3 only_here, 2 only_here, 1 both, 0 both");
    db.batch_execute("select sched.take_over('pg_cron', force => true); select sched.hand_back('{hourly}')").unwrap();
    // As if that had been then.
    db.batch_execute(
        "update sched.schedule_definition set valid_from = date_trunc('hour', now()) - interval '3 hours 1 minute', valid_to = date_trunc('hour', now()) - interval '2 hours'
          where ownership = 'owned'",
    )
    .unwrap();
    assert_eq!(one::<String>(&mut db, compared), "5 both, 4 only_here, 1 both, 0 both");
}

/// Newer versions of TimescaleDB have what they have run in another schema.
#[test]
fn timescaledb_has_its_runs_in_one_of_two_schemas() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(crate::import_timescaledb::NEW).unwrap();
    db.batch_execute(crate::import_timescaledb::ACTIONS).unwrap();
    db.batch_execute(
        "create table _timescaledb_internal.bgw_job_stat (job_id integer primary key, last_start timestamptz not null, last_finish timestamptz not null, next_start timestamptz not null default '-infinity');
         insert into _timescaledb_catalog.bgw_job (id, application_name, schedule_interval, fixed_schedule) values (1000, 'drifts [1000]', '2 days', false);
         insert into _timescaledb_internal.bgw_job_stat values (1000, now() - interval '37 hours', now() - interval '36 hours', now());
         select sched.import_from('timescaledb')",
    )
    .unwrap();
    let take = "select concat_ws(' ', round(extract(epoch from now() - last_theirs) / 3600), round(extract(epoch from first_ours - now()) / 3600)) from sched.take_over('timescaledb')";
    for schema in ["_timescaledb_internal", "_timescaledb_catalog"] {
        if schema.ends_with("catalog") {
            db.batch_execute("alter table _timescaledb_internal.bgw_job_stat set schema _timescaledb_catalog; alter table _timescaledb_internal.bgw_job_stat_history set schema _timescaledb_catalog").unwrap();
        }
        let mut worker = cluster.connect();
        worker.batch_execute(&format!("set application_name = 'drifts [1000]'; update {schema}.bgw_job_stat set last_start = now(), last_finish = '-infinity'")).unwrap();
        assert_eq!(
            state(db.batch_execute(
                "select sched.take_over('timescaledb', (select array_agg(schedule_name) from sched.schedules))"
            )),
            "55P03"
        );
        drop(worker);
        wait_for(
            &mut db,
            "select not exists (select from pg_stat_activity where application_name = 'drifts [1000]')",
            SOON,
        );
        db.batch_execute(&format!("update {schema}.bgw_job_stat set last_start = now() - interval '37 hours', last_finish = now() - interval '36 hours'")).unwrap();
        // It counts from the end of their last run.
        assert_eq!(one::<String>(&mut db, take), "37 12", "{schema}");
        db.batch_execute("select sched.hand_back((select array_agg(schedule_name) from sched.schedules))").unwrap();
        let next =
            format!("select round(extract(epoch from next_start - now()) / 3600)::bigint from {schema}.bgw_job_stat");
        assert_eq!(one::<i64>(&mut db, &next), 12, "{schema}");
        db.batch_execute(&format!("insert into {schema}.bgw_job_stat_history (job_id, execution_start, execution_finish, succeeded) values (1000, now() - interval '86 hours', now() - interval '85 hours', true), (1000, now() - interval '37 hours', now() - interval '36 hours', true)")).unwrap();
        let compared = "select string_agg(distinct verdict, ' ') from sched.compare('timescaledb', now() - interval '4 days', now())";
        assert_eq!(one::<String>(&mut db, compared), "both", "{schema}");
        db.batch_execute(&format!("delete from {schema}.bgw_job_stat_history")).unwrap();
    }
}
