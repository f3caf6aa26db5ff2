//! import_from('pg_cron') beside the real pg_cron.

use scheduler_cluster_tests::pg_cron;
use scheduler_cluster_tests::random::Random;
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

/// What another database runs is moved there by the statements of its note. It has no cron.job, and where pg_cron connects to is told by the port too.
#[test]
fn the_note_of_another_databases_job_moves_it_there() {
    let Some(cluster) = pg_cron::server(&[("cron.use_background_workers", "off")]) else { return };
    let mut db = pg_cron::database(&cluster);
    cluster.execute("create database other");
    let mut other = cluster.with_extension("other");
    db.batch_execute(
        r"select cron.schedule_in_database(E'it''s {id} \\', '0 3 * * *', 'select ''{name}''; select 2', 'other'), cron.schedule_in_database('off', '0 3 * * *', 'vacuum', 'other'),
                 cron.schedule('far', '0 3 * * *', 'select 1');
          select cron.alter_job(2, active => false); update cron.job set nodeport = 5433 where jobid = 3",
    )
    .unwrap();
    let notes: Vec<String> = one(
        &mut db,
        "select array_agg(note order by source_id) from sched.import_from('pg_cron') where verdict = 'elsewhere'",
    );
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes[2], "it is run on the server at \"localhost\" port 5433");
    let (there, rest) = notes[0].split_once(", run: ").unwrap().1.split_once(". Then here: ").unwrap();
    let (here, resume) = rest.split_once(". Then there: ").unwrap();
    let off = notes[1].split_once(", run: ").unwrap().1;
    other.batch_execute(&format!("{there}; {off}")).unwrap();
    db.batch_execute(here).unwrap();
    other.batch_execute(resume).unwrap();
    let made = "select string_agg(concat_ws('|', schedule_name, clock, time_zone, s.enabled, overlap, command, own_transactions), E'\\n' order by s.schedule_id) from sched.schedule s join sched.job using (job_name)";
    assert_eq!(
        one::<String>(&mut other, made),
        "it's {id} \\|0 3 * * *|GMT|t|buffer_one|select '{name}'; select 2|f\noff|0 3 * * *|GMT|f|buffer_one|vacuum|t"
    );
    assert_eq!(
        one::<String>(&mut db, "select string_agg(jobid || ' ' || active, ', ' order by jobid) from cron.job"),
        "1 false, 2 false, 3 true"
    );
    // With workers of its own it connects to nowhere.
    cluster.set("cron.use_background_workers", "on");
    cluster.restart(scheduler_cluster_tests::Shutdown::Fast);
    let mut db = cluster.connect();
    assert_eq!(
        one::<String>(&mut db, "select string_agg(verdict, ' ' order by source_id) from sched.import_from('pg_cron')"),
        "elsewhere elsewhere imported"
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
        // (A scope that fails waits for its threads.)
        other.batch_execute("set statement_timeout = '2min'").unwrap();
        let second = scope.spawn(move || one::<String>(&mut other, import));
        wait_for(&mut db, "select exists (select from pg_locks where not granted and locktype = 'advisory')", SOON);
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

/// A schedule as somebody may have typed it, right or wrong.
fn typed(random: &mut Random) -> String {
    const ITEMS: [&str; 22] = [
        "*", "*/5", "*/70", "0", "7", "59", "60", "1-5", "5-1", "1-5/2", "5/2", "1,2", "1,,2", "mon", "Sun", "fri-sun",
        "jan", "monday", "L", "*5", "3x", "-1",
    ];
    let fields = 4 + random.below(3);
    let words: Vec<&str> = (0..fields).map(|_| ITEMS[random.below(22) as usize]).collect();
    let blank = [" ", "  ", "\t"][random.below(3) as usize];
    match random.below(12) {
        0 => ["@daily", "@hourly", "@often", "@weekly ", "@"][random.below(5) as usize].to_owned(),
        1 => format!("{}{}", words[0], words[1]),
        // Mostly right.
        2..=7 => format!("{}{blank}{}{blank}{} * {}", random.below(60), random.below(24), words[0], words[1]),
        _ => words.join(blank),
    }
}

/// What pg_cron refuses is refused here, and what it takes is imported, or refused with one of the reasons that the guide lists.
#[test]
fn what_pg_cron_takes_and_refuses() {
    const SEED: u64 = 20_261_123;
    println!("seed {SEED}");
    let Some(cluster) = pg_cron::server(&[("sched.enabled", "off")]) else { return };
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "create schema refused; create table refused.job (like cron.job including defaults);
         create function try(text) returns void language plpgsql as $$
         begin
             perform cron.schedule($1, 'select 1');
         exception when others then
             insert into refused.job (jobid, schedule, command, nodeport) values ((select count(*) from refused.job), $1, 'select 1', 5432);
         end $$",
    )
    .unwrap();
    let mut random = Random(SEED);
    db.batch_execute("begin").unwrap();
    for _ in 0..1_500 {
        db.execute("select try($1)", &[&typed(&mut random)]).unwrap();
    }
    db.batch_execute("update cron.job set active = false; commit").unwrap();
    let taken = "select coalesce(string_agg(j.schedule || ': ' || i.note, e'\\n'), '')
                   from sched.import_from('pg_cron', dry_run => true) i join cron.job j on j.jobid = i.source_id::bigint
                  where i.verdict <> 'imported' and i.note not like '%which versions of pg_cron read differently%'";
    assert_eq!(one::<String>(&mut db, taken), "", "pg_cron takes these");
    let refused = "select coalesce(string_agg(j.schedule || ' is ' || i.clock, e'\\n'), '')
                     from sched.import_from('pg_cron', 'refused', dry_run => true) i join refused.job j on j.jobid = i.source_id::bigint
                    where i.verdict <> 'unsupported'";
    assert_eq!(one::<String>(&mut db, refused), "", "pg_cron refuses these");
    let counts: String = one(
        &mut db,
        "select (select count(*) from cron.job) || ' taken, ' || (select count(*) from refused.job) || ' refused'",
    );
    println!("{counts}");
    assert!(
        one::<bool>(
            &mut db,
            "select (select count(*) from cron.job) > 200 and (select count(*) from refused.job) > 300"
        ),
        "{counts}"
    );
}

/// What is not UTF-8 is refused row by row: nothing else than what pg_cron runs is imported.
#[test]
fn bytes_that_cannot_be_read_are_unsupported() {
    let cluster = scheduler_cluster_tests::Cluster::new();
    cluster.execute("create database ascii template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'");
    let mut db = cluster.with_extension("ascii");
    db.batch_execute(
        "create schema cron;
         create table cron.job (jobid bigint, schedule text default '0 9 * * *', command text default 'select 1', nodename text default '',
                                database text default current_database(), username text default current_user, jobname text);
         insert into cron.job (jobid, command, jobname) values (1, E'select ''caf\\351''', 'command'), (2, 'select ''café''', 'café'), (3, 'select 1', E'\\351')",
    )
    .unwrap();
    let import = "select string_agg(concat_ws(' ', source_id, schedule_name, verdict, note), ', ') from sched.import_from('pg_cron')";
    assert_eq!(
        one::<String>(&mut db, import),
        "1 unsupported its command is not valid UTF-8: \"select \\'caf\\xe9\\'\", 2 café imported, 3 unsupported its name is not valid UTF-8: \"\\xe9\""
    );
    let command = "select string_agg(command, ', ') from sched.job";
    assert_eq!(one::<String>(&mut db, command), "select 'café'");
}
