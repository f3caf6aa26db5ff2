//! import_from('pg_cron') beside the real pg_cron.

use scheduler_cluster_tests::pg_cron;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::wait_for;
use std::time::{Duration, Instant};

/// What pg_cron takes is imported or refused with a reason, and what is imported fires nothing.
#[test]
fn what_pg_cron_has_scheduled_is_imported_and_fires_nothing() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    cluster.execute("create database other");
    db.batch_execute(
        "create role tenant login; grant usage on schema cron to tenant; grant execute on all functions in schema cron to tenant;
         select sched.grant_use('tenant');
         select cron.schedule('nightly', '0 3 * * *', 'VACUUM'), cron.schedule('*/5 * * * *', 'select 1; select 2'),
                cron.schedule('boot', '@reboot', 'select 1'), cron.schedule('yearly', '@yearly', 'select 1'),
                cron.schedule('sloppy', '*5 9 * * * ignored', 'select 1'), cron.schedule_in_database('there', '0 3 * * *', 'select 1', 'other');
         select cron.alter_job(1, active => false);
         set role tenant;
         select cron.schedule('mine', '0 9 13 * fri', 'select 3');
         reset role",
    )
    .unwrap();
    let verdicts = "select string_agg(concat_ws(' ', source_id, schedule_name, verdict, clock), ', ') from sched.import_from('pg_cron')";
    db.batch_execute("set role tenant").unwrap();
    assert_eq!(one::<String>(&mut db, verdicts), "7 mine imported 0 9 13 * 5");
    db.batch_execute("reset role").unwrap();
    assert_eq!(
        one::<String>(&mut db, verdicts),
        "1 nightly imported 0 3 * * *, 2 job 2 imported */5 * * * *, 3 unsupported, 4 unsupported, 5 sloppy imported * 9 * * *, \
         6 elsewhere, 7 mine same 0 9 13 * 5"
    );
    let states = "select string_agg(concat_ws(' ', schedule_name, state, next_plan_time), ', ' order by schedule_name) from sched.schedules";
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    assert_eq!(one::<String>(&mut db, states), "job 2 external, mine external, nightly external, sloppy external");
    assert!(!one::<bool>(&mut db, "select enabled from sched.schedules where schedule_name = 'nightly'"));
    assert_eq!(one::<String>(&mut db, "select owner::text from sched.job where job_name = 'mine'"), "tenant");
    // pg_cron's own functions are what edits it.
    db.batch_execute("select cron.alter_job(5, schedule => '30 seconds', active => false)").unwrap_err();
    db.batch_execute("select cron.alter_job(5, schedule => '1 2 3 4 5', active => false), cron.unschedule(7)").unwrap();
    assert_eq!(
        one::<String>(&mut db, verdicts),
        "1 nightly same 0 3 * * *, 2 job 2 same */5 * * * *, 3 unsupported, 4 unsupported, 5 sloppy changed 1 2 3 4 5, 6 elsewhere, \
         7 mine removed 0 9 13 * 5"
    );
}

/// A transaction that fails leaves neither side with anything of it.
#[test]
fn an_import_that_is_rolled_back_was_none() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute("select cron.schedule('a', '0 3 * * *', 'select 1')").unwrap();
    db.batch_execute("begin; select sched.import_from('pg_cron'); select 1 / 0").unwrap_err();
    db.batch_execute("rollback").unwrap();
    let left = "select (select count(*) from sched.schedule) + (select count(*) from sched.job) + (select count(*) from sched.imported)";
    assert_eq!(one::<i64>(&mut db, left), 0);
    let imported = "select string_agg(verdict, ' ') from sched.import_from('pg_cron')";
    assert_eq!(one::<String>(&mut db, imported), "imported");
}

/// Two imports at once make each schedule once.
#[test]
fn two_imports_at_once_are_one_after_the_other() {
    let Some(cluster) = pg_cron::server(&[]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute("select cron.schedule('a', '0 3 * * *', 'select 1'), cron.schedule('b', '0 3 * * *', 'select 1')")
        .unwrap();
    let import = "select string_agg(verdict, ' ') from sched.import_from('pg_cron')";
    db.batch_execute("begin").unwrap();
    assert_eq!(one::<String>(&mut db, import), "imported imported");
    std::thread::scope(|scope| {
        let mut other = cluster.connect();
        let second = scope.spawn(move || one::<String>(&mut other, import));
        wait_for(
            &mut db,
            "select exists (select from pg_locks where not granted and relation = 'sched.imported'::regclass)",
            SOON,
        );
        db.batch_execute("commit").unwrap();
        assert_eq!(second.join().unwrap(), "same same");
    });
}

fn import_many(count: i64) -> (Duration, Duration) {
    let Some(cluster) = pg_cron::server(&[("sched.enabled", "off")]) else { return (Duration::ZERO, Duration::ZERO) };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(&format!(
        "insert into cron.job (schedule, command, nodename, nodeport, jobname)
         select format('%s %s * * %s', i % 60, i % 24, i % 7), format('select %s', i), 'localhost', 5432, 'job/' || i from generate_series(1, {count}) as i"
    ))
    .unwrap();
    let mut timed = |verdict: &str| {
        let began = Instant::now();
        let query = format!("select count(*) from sched.import_from('pg_cron') where verdict = '{verdict}'");
        assert_eq!(one::<i64>(&mut db, &query), count);
        began.elapsed()
    };
    (timed("imported"), timed("same"))
}

#[test]
fn a_thousand_rows() {
    import_many(1_000);
}

#[test]
#[ignore = "long: 100,000 rows"]
fn long_a_hundred_thousand_rows() {
    let (first, second) = import_many(100_000);
    println!("100,000 rows: {first:?}, again {second:?}");
    assert!(first < Duration::from_secs(10) || cfg!(debug_assertions), "{first:?}");
}
