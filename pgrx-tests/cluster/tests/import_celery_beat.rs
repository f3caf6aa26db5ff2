//! import_from('celery_beat') beside django-celery-beat's own tables, Beat and worker, and Celery's own word on when a crontab is due.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{celery, run, wait_for, Cluster};
use std::io::Write as _;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(180);

fn database(with_tasks: bool) -> (Cluster, scheduler_cluster_tests::Client) {
    let cluster = Cluster::new();
    let db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", with_tasks);
    (cluster, db)
}

const VERDICTS: &str = "select string_agg(concat_ws(' | ', schedule_name, verdict, clock, time_zone, note), e'\\n' order by source_id::int)
      from sched.import_from('celery_beat')";

/// What the models made is imported or refused with a reason, and what is imported fires nothing.
#[test]
fn what_beat_has_is_imported_and_fires_nothing() {
    let (_cluster, mut db) = database(true);
    assert_eq!(
        one::<String>(&mut db, VERDICTS),
        "nightly | imported | 0 3 * * * | Europe/Berlin\n\
         office | imported | */15 9-17 * * 1-5 | America/New_York\n\
         friday 13th | imported | 0 0 13 * +5 | UTC\n\
         poll | imported | every 1 second after start | UTC\n\
         hourly | imported | every 1 hour after start | UTC\n\
         unsupported | a solar schedule: clocks here know nothing of the sun\n\
         once | imported | at 2038-01-01 09:00:00+00 | UTC\n\
         unsupported | the clocks of its zone change at 2027-03-28 02:30:00: it is run as much later as they go forward, and a clock here is not\n\
         until 2038 | imported | 0 9 * * * | UTC\n\
         from 2038 | imported | 0 9 * * * | UTC\n\
         unsupported | it is run at 2038-01-01 09:30:00+00 first, which is no time of its clock\n\
         unsupported | every 1500 microseconds: less than a second is not counted here"
    );
    let payloads = "select string_agg(s.payload::text, e'\\n' order by s.schedule_name) from sched.schedule s where s.schedule_name in ('office', 'friday 13th', 'hourly')";
    assert_eq!(
        one::<String>(&mut db, payloads),
        "{\"args\": [\"friday 13th\"], \"task\": \"shop.greet\", \"queue\": null, \"kwargs\": {}, \"options\": {\"headers\": {\"trace\": 12345678901234567890, \"periodic_task_name\": \"friday 13th\"}}}\n\
         {\"args\": [\"hourly\"], \"task\": \"shop.greet\", \"queue\": null, \"kwargs\": {}, \"options\": {\"expires\": 60, \"headers\": {\"periodic_task_name\": \"hourly\"}}}\n\
         {\"args\": [\"office\"], \"task\": \"shop.greet\", \"queue\": \"reports\", \"kwargs\": {\"loudly\": true}, \"options\": {\"headers\": {\"periodic_task_name\": \"office\"}, \"priority\": 3}}"
    );
    let jobs = "select string_agg(distinct concat_ws(' ', j.kind, j.queue, j.owner), ', ') from sched.job j";
    assert_eq!(one::<String>(&mut db, jobs), "pull celery postgres");
    let bounds = "select string_agg(concat_ws(' ', schedule_name, starts_at at time zone 'UTC', ends_at at time zone 'UTC'), ', ' order by 1)
                    from sched.schedule where coalesce(starts_at, ends_at) is not null";
    assert_eq!(one::<String>(&mut db, bounds), "from 2038 2038-01-01 09:00:00, until 2038 2038-01-01 09:00:00");
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
    let states = "select string_agg(distinct state, ' ') from sched.schedules";
    assert_eq!(one::<String>(&mut db, states), "external");
    let disabled = "select string_agg(schedule_name, ' ') from sched.schedule where not enabled";
    assert_eq!(one::<String>(&mut db, disabled), "hourly");
    // Beat writing down its runs is no edit. What it sends is.
    db.batch_execute(
        "update django_celery_beat_periodictask set last_run_at = now(), total_run_count = 7, date_changed = now() where name in ('nightly', 'poll');
         update django_celery_beat_periodictask set args = '[1, 2]', expires = null where name in ('office', 'until 2038');
         update django_celery_beat_periodictask set kwargs = '[]' where name = 'from 2038';
         delete from django_celery_beat_periodictask where name = 'hourly'",
    )
    .unwrap();
    let verdicts = "select string_agg(concat_ws(' ', schedule_name, verdict), ', ' order by schedule_name) from sched.import_from('celery_beat') where schedule_name is not null";
    assert_eq!(
        one::<String>(&mut db, verdicts),
        "friday 13th same, from 2038 unsupported, hourly removed, nightly same, office changed, once same, poll same, until 2038 changed"
    );
    let edited = "select string_agg(concat_ws(' ', payload -> 'args', ends_at), ', ' order by schedule_name) from sched.schedule where schedule_name in ('office', 'until 2038')";
    assert_eq!(one::<String>(&mut db, edited), "[1, 2], [1, 2]");
    // What was to be sent once, and was not, a Beat at work sends at once.
    db.batch_execute(
        "insert into django_celery_beat_clockedschedule (id, clocked_time) values (77, now() - interval '1 hour');
         insert into django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, clocked_id)
         select name, 'shop.greet', '[]', '{}', '{}', name = 'overdue', 0, now(), '', true, 77 from unnest('{overdue,over}'::text[]) name",
    )
    .unwrap();
    let overdue = "select string_agg(concat_ws(' ', verdict, note), ', ' order by source_id::int) from sched.import_from('celery_beat', only_ids => (select array_agg(id::text) from django_celery_beat_periodictask where name like 'over%'))";
    assert_eq!(
        one::<String>(&mut db, overdue),
        "unsupported its time has passed, and it was not sent: a Beat at work sends it at once, imported"
    );
}

/// The application's own role imports its own tables, in the schema of whoever owns the database; others' are refused.
#[test]
fn the_application_imports_what_is_its_own() {
    let cluster = Cluster::new();
    cluster.execute("create role app login");
    cluster.execute("create role other login");
    cluster.execute("create database app owner app");
    let mut admin = cluster.with_extension("app");
    admin.batch_execute("select sched.grant_use('app'), sched.grant_use('other')").unwrap();
    let mut migrate = celery::python(&cluster, "app", &["manage.py", "migrate", "--verbosity=0"]);
    migrate.env("PGUSER", "app");
    run(migrate);
    let mut tasks = celery::python(&cluster, "app", &["manage.py", "periodic_tasks"]);
    tasks.env("PGUSER", "app");
    run(tasks);
    admin.batch_execute("grant select on all tables in schema public to other").unwrap();
    let import = "select count(*) filter (where verdict = 'imported') from sched.import_from('celery_beat')";
    for role in ["postgres", "other"] {
        let error = cluster.connect_as(role, "app").query(import, &[]).unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{role}: {error}");
    }
    assert_eq!(one::<i64>(&mut cluster.connect_as("app", "app"), import), 8);
}

/// Runs beside a Beat and a worker at work: compared, switched over, and handed on to the same worker by the example.
#[test]
#[ignore = "long: on a busy machine Celery's processes take minutes"]
fn long_what_is_fired_here_is_done_by_celery() {
    let (cluster, mut db) = database(true);
    let _broker = celery::Redis::start(&cluster);
    let (_beat, _worker) = (celery::beat(&cluster, "postgres"), celery::worker(&cluster, "postgres"));
    one::<String>(&mut db, VERDICTS);
    // (A busy machine lets its worker begin some seconds late, which is a difference.)
    let compared = "select count(*) filter (where verdict = 'both') >= 3
                      from sched.compare('celery_beat', now() - interval '1 hour', now() + interval '1 hour', '5 seconds')
                     where schedule_name = 'poll'";
    wait_for(&mut db, compared, PATIENCE);
    db.batch_execute(
        "begin;
         update django_celery_beat_periodictask set enabled = false where name = 'poll';
         update django_celery_beat_periodictasks set last_update = clock_timestamp();
         select sched.alter_schedule('poll', ownership => 'owned');
         commit",
    )
    .unwrap();
    let _sender = celery::sender(&cluster, "postgres");
    let done = "select count(*) >= 3 from django_celery_results_taskresult r join sched.execution e on e.id::text = r.task_id
                 where r.periodic_task_name = 'poll' and r.status = 'SUCCESS' and r.result = '\"hello poll\"' and e.status = 'SUCCESS'";
    wait_for(&mut db, done, PATIENCE);
}

/// Random crontabs in random zones: each is refused with a reason, or its times are those that Celery gives.
fn as_celery_says(count: usize, seed: u64) {
    println!("seed {seed}");
    let (cluster, mut db) = database(false);
    let said = run(celery::python(&cluster, "postgres", &["oracle.py", &count.to_string(), &seed.to_string()]));
    db.batch_execute(
        "create table spec (id int, minute text, hour text, day_of_month text, month_of_year text, day_of_week text, timezone text);
         create table times (id int, begin bigint, until bigint, sent bigint[]);
         create table refused (id int)",
    )
    .unwrap();
    for table in ["spec", "times", "refused"] {
        let mut copy = db.copy_in(&format!("copy {table} from stdin")).unwrap();
        for line in said.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix('\t')) {
            writeln!(copy, "{line}").unwrap();
        }
        copy.finish().unwrap();
    }
    db.batch_execute(
        "insert into django_celery_beat_crontabschedule (id, minute, hour, day_of_month, month_of_year, day_of_week, timezone)
         select id, minute, hour, day_of_month, month_of_year, day_of_week, timezone from spec;
         insert into django_celery_beat_periodictask (id, name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, crontab_id)
         select id, 'task ' || id, 'shop.greet', '[]', '{}', '{}', true, 0, now(), '', false, id from spec;
         create table imported as select i.* from sched.import_from('celery_beat', dry_run => true) i",
    )
    .unwrap();
    let wrong: String = one(
        &mut db,
        "select coalesce(string_agg(format('%s %s: %s', i.source_id, i.verdict, i.note), e'\\n'), '') from imported i
          where not (i.verdict = 'imported' and i.note is null or i.verdict = 'unsupported' and i.note <> '')
             or i.verdict = 'imported' and exists (select from refused r where r.id = i.source_id::int)
             or i.verdict = 'unsupported' and i.note not like '%the clocks of its zone change%'
                and not exists (select from refused r where r.id = i.source_id::int)",
    );
    assert_eq!(wrong, "", "refused by one and taken by the other");
    let differ: String = one(
        &mut db,
        "select coalesce(string_agg(format('%s is %s, in %s from %s', s, i.clock, i.time_zone, to_timestamp(t.begin)), e'\\n'), '')
           from imported i join spec s on s.id = i.source_id::int join times t using (id)
          where i.verdict = 'imported'
            and t.sent is distinct from array(select extract(epoch from p.plan_time)::bigint
                  from sched.preview(i.clock, i.time_zone, to_timestamp(t.begin), cardinality(t.sent) + 1) p
                 where p.plan_time <= to_timestamp(t.until))",
    );
    assert_eq!(differ, "", "other times than Celery's");
    let counts: String = one(
        &mut db,
        "select format('%s equal, %s refused here, %s by Celery', (select count(*) from imported where verdict = 'imported'),
                       (select count(*) from imported where verdict = 'unsupported'), (select count(*) from refused))",
    );
    println!("{counts}");
    let most = format!("select count(*) >= {count} * 7 / 10 from imported where verdict = 'imported'");
    assert!(one::<bool>(&mut db, &most), "{counts}");
    assert!(one::<bool>(&mut db, "select count(*) > 0 from times where cardinality(sent) > 0"));
}

#[test]
fn three_hundred_random_crontabs_are_as_celery_says() {
    as_celery_says(300, 20_261_123);
}

#[test]
#[ignore = "long: 10,000 crontabs over five years"]
fn long_ten_thousand_random_crontabs_are_as_celery_says() {
    as_celery_says(10_000, 42);
}

#[test]
#[ignore = "long: 100,000 tasks"]
fn long_a_hundred_thousand_tasks() {
    let (_cluster, mut db) = database(false);
    db.batch_execute(
        "insert into django_celery_beat_crontabschedule (id, minute, hour, day_of_month, month_of_year, day_of_week, timezone)
         select i, i % 60, 3 + i % 20, '*', '*', i % 7, 'Europe/Berlin' from generate_series(1, 1000) i;
         insert into django_celery_beat_periodictask (id, name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, crontab_id)
         select i, 'task ' || i, 'shop.greet', '[1]', '{}', '{}', true, 0, now(), '', false, 1 + i % 1000 from generate_series(1, 100000) i",
    )
    .unwrap();
    for verdict in ["imported", "same"] {
        let began = std::time::Instant::now();
        let query = format!("select count(*) from sched.import_from('celery_beat') where verdict = '{verdict}'");
        assert_eq!(one::<i64>(&mut db, &query), 100_000);
        println!("100,000 rows {verdict}: {:?}", began.elapsed());
        assert!(began.elapsed() < std::time::Duration::from_secs(10) || cfg!(debug_assertions), "{verdict}");
    }
}
