//! take_over, row by row: what is off there, what counts from its last run, what runs without an end.

use crate::take_over::{state, SWITCHED};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{celery, pg_cron, wait_for, Client, Cluster};

/// Switched off there after the import: it fires nowhere, here neither.
#[test]
fn what_was_switched_off_there_since_the_import_stays_off() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule('on', '0 3 * * *', 'select 1'), cron.schedule('off', '0 3 * * *', 'select 1');
         select sched.import_from('pg_cron'); select cron.alter_job(2, active => false)",
    )
    .unwrap();
    let taken = "select string_agg(concat_ws(' ', schedule_name, first_ours > now()), ', ') from sched.take_over('pg_cron', force => true)";
    assert_eq!(one::<String>(&mut db, taken), "off, on t");
    let states = "select string_agg(concat_ws(' ', schedule_name, ownership, state), ', ' order by schedule_name) from sched.schedules";
    wait_for(&mut db, &format!("select ({states}) = 'off owned paused, on owned armed'"), SOON);
    db.batch_execute("select sched.hand_back('{on,off}')").unwrap();
    assert_eq!(one::<String>(&mut db, SWITCHED), "on t, off f");
}

/// A job that always runs is left out, and keeps nobody else there.
#[test]
fn a_run_that_goes_on_keeps_no_other_job_there() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "select cron.schedule('busy', '0 3 * * *', 'select 1'), cron.schedule('idle', '0 3 * * *', 'select 1'), cron.schedule('too', '0 3 * * *', 'select 1');
         select sched.import_from('pg_cron');
         insert into cron.job_run_details (jobid, runid, status, start_time, job_pid)
         select i, i, 'running', clock_timestamp(), pg_backend_pid() from unnest('{1,3}'::int[]) as i",
    )
    .unwrap();
    for (names, force) in [("{busy}", "true"), ("{idle,busy}", "true"), ("{busy,too}", "false")] {
        let take = format!("select sched.take_over('pg_cron', '{names}', force => {force})");
        assert_eq!(state(db.batch_execute(&take)), "55P03", "{names}");
    }
    assert_eq!(one::<String>(&mut db, SWITCHED), "busy t, idle t, too t");
    let taken = "select string_agg(concat_ws(' ', schedule_name, last_theirs is not null, first_ours > now()), ', ') from sched.take_over('pg_cron', force => true)";
    assert_eq!(one::<String>(&mut db, taken), "busy t, idle f t, too t");
    assert_eq!(one::<String>(&mut db, SWITCHED), "busy t, idle f, too t");
    for name in ["busy", "too"] {
        assert!(cluster.log().contains(&format!("WARNING:  a run of \"{name}\" is going on in pg_cron")), "{name}");
    }
    // Of nothing but those nothing changes.
    assert_eq!(one::<String>(&mut db, taken), "busy t, too t");
    db.batch_execute("select sched.hand_back('{idle}')").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from pg_trigger where tgname = 'scheduler_guard'"), 0);
}

/// A task of an interval that Beat has sent last so long ago.
fn interval(db: &mut Client, name: &str, every: i32, period: &str, last: &str) {
    db.batch_execute(&format!(
        "with i as (insert into django_celery_beat_intervalschedule (every, period) values ({every}, '{period}') returning id)
         insert into django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, interval_id, last_run_at)
         select '{name}', 'shop.greet', '[]', '{{}}', '{{}}', true, 1, now(), '', false, id, clock_timestamp() - interval '{last}' from i"
    ))
    .unwrap();
}

/// An interval goes on from their last run.
#[test]
fn an_interval_counts_from_their_last_run() {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", false);
    interval(&mut db, "hourly", 1, "hours", "50 minutes");
    interval(&mut db, "missed", 1, "hours", "70 minutes");
    // Beat writes down late what it has sent.
    interval(&mut db, "often", 1, "minutes", "100 seconds");
    db.batch_execute(
        "insert into django_celery_beat_periodictasks (ident, last_update) values (1, now()); select sched.import_from('celery_beat')",
    )
    .unwrap();
    let due = |of: &str| {
        format!("select coalesce(string_agg(schedule_name || ' ' || round(extract(epoch from {of} - clock_timestamp()) / 60), ', ' order by schedule_name), '')")
    };
    let taken = format!("{} from sched.take_over('celery_beat')", due("first_ours"));
    assert_eq!(one::<String>(&mut db, &taken), "hourly 10, missed -10, often 0");
    let armed = format!("{} from sched.schedules", due("next_plan_time"));
    let is_armed = |db: &mut Client| {
        wait_for(
            db,
            &format!("select count(*) = 3 from {TIMER} t where not waiting and next_plan_time is not null"),
            SOON,
        );
        let armed: String = one(db, &armed);
        assert!(
            ["hourly 10, missed 60, often 0", "hourly 10, missed 60, often 1"].contains(&armed.as_str()),
            "{armed}"
        );
    };
    is_armed(&mut db);
    assert_eq!(one::<String>(&mut db, "select string_agg(job_name, ', ') from sched.execution"), "missed");
    // Whatever is made anew.
    db.batch_execute("select sched.rebuild()").unwrap();
    is_armed(&mut db);
}
