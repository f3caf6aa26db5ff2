//! The worker that hands executions on to Celery (`examples/celery/worker.py`), with a Django project of the usual kind: result backend
//! `django-db`, shared tasks with queues of their own, and nothing in it that calls `django.setup()`.

use scheduler_cluster_tests::celery::{self, Redis};
use scheduler_cluster_tests::proc::Program;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{run, wait_for, wait_until, Client, Cluster, Shutdown};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);
/// What became of the executions: how many of each status.
const STATUSES: &str =
    "select coalesce(string_agg(concat_ws(' ', job_name, status, n), ', ' order by job_name, status), '')
      from (select job_name, status, count(*) as n from sched.execution group by 1, 2) as e";

/// How many messages wait in a queue of the broker that is made of files.
fn in_files(cluster: &Cluster, queue: &str) -> usize {
    let names = std::fs::read_dir(cluster.folder().join("broker")).unwrap();
    let end = format!(".{queue}.msg");
    names.filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().ends_with(&end)).count()
}

/// A server with tasks of the project's as `import_from` makes them, for the project's own role, which has `grant_use` and no more.
fn with_tasks() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    cluster.execute("create role shop login");
    cluster.execute("create database shop owner shop");
    cluster.with_extension("shop").batch_execute("select sched.grant_use('shop')").unwrap();
    let mut migrate = celery::python(&cluster, "shop", &["manage.py", "migrate", "--verbosity=0"]);
    migrate.env("PGUSER", "shop");
    run(migrate);
    let mut db = cluster.connect_as("shop", "shop");
    db.batch_execute(
        "insert into django_celery_beat_crontabschedule (id, minute, hour, day_of_month, month_of_year, day_of_week, timezone) values (1, '0', '0', '*', '*', '*', 'UTC');
         insert into django_celery_beat_periodictask (name, task, args, kwargs, headers, enabled, total_run_count, date_changed, description, one_off, crontab_id, queue)
         select name, task, args, '{}', '{}', true, 1, now(), '', false, 1, nullif(queue, '')
           from (values ('greet', 'shop.greet', '[\"you\"]', ''), ('report', 'shop.tasks.report', '[]', ''), ('moved', 'shop.tasks.report', '[]', 'elsewhere'),
                        ('unknown', 'nobody.knows', '[1]', ''), ('wrong', 'shop.greet', '[1, 2, 3]', '')) as t (name, task, args, queue);
         insert into django_celery_beat_periodictasks (ident, last_update) values (1, now());
         select sched.import_from('celery_beat'); select sched.alter_schedule(schedule_name, ownership => 'owned') from sched.schedules",
    )
    .unwrap();
    (cluster, db)
}

/// The worker, as the project's role.
fn sender(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut sender = celery::sender_command(cluster, "shop");
    sender.env("PGUSER", "shop").args(arguments);
    sender
}

/// The worker at work, to which something happens once its first message is sent, and before the ledger has heard.
fn at_first_message(cluster: &Cluster, what: &str) -> Program {
    let mut sender = sender(cluster, &[]);
    sender.env("CELERY_IMPORTS", "first_message pending").env("FIRST_MESSAGE", what);
    started(cluster, sender)
}

fn started(cluster: &Cluster, sender: Command) -> Program {
    Program::start(sender, &cluster.folder().join("sender.log"))
}

fn says(sender: &Program, what: &str) {
    wait_until(&format!("the worker to say \"{what}\""), PATIENCE, || sender.printed().contains(what).then_some(()));
}

/// Celery's fixup sets Django up, so the result backend is found, and the tasks are known with their own queues.
#[test]
fn a_django_project_is_loaded_as_beat_loads_it() {
    let (cluster, mut db) = with_tasks();
    db.batch_execute(
        "select sched.alter_job('wrong', max_attempts => 1), sched.fire_now(schedule_name) from sched.schedules",
    )
    .unwrap();
    let printed = run(sender(&cluster, &["--until-idle"]));
    assert_eq!(
        one::<String>(&mut db, STATUSES),
        "greet SUCCESS 1, moved SUCCESS 1, report SUCCESS 1, unknown SUCCESS 1, wrong FAILED 1",
        "{printed}"
    );
    // Its own queue, one that the row names, and the default one; also of what only workers know.
    assert_eq!(["reports", "elsewhere", "celery"].map(|queue| in_files(&cluster, queue)), [1, 1, 2], "{printed}");
    let error = "select error_code from sched.failed where job_name = 'wrong'";
    assert_eq!(one::<String>(&mut db, error), "TypeError");
}

/// A broker that is down costs no attempt, for however long, and then what waits is sent by the same process.
#[test]
fn a_broker_that_is_down_is_waited_for() {
    let (cluster, mut db) = with_tasks();
    let broker = Redis::start(&cluster);
    let sender = started(&cluster, sender(&cluster, &[]));
    db.batch_execute("select sched.fire_now('greet')").unwrap();
    wait_until("a message", PATIENCE, || (broker.waiting("celery") == 1).then_some(()));
    drop(broker);
    // Without a pause between attempts an outage of any length uses up all of them.
    db.batch_execute("select sched.alter_job('report', retry_backoff => '{}'); select sched.fire_now('report')")
        .unwrap();
    says(&sender, "report: waits, the broker is down");
    says(&sender, "the broker does not answer");
    assert_eq!(one::<String>(&mut db, STATUSES), "greet SUCCESS 1, report PENDING 1", "{}", sender.printed());
    assert_eq!(one::<i32>(&mut db, "select attempt from sched.execution where job_name = 'report'"), 0);
    let broker = Redis::start(&cluster);
    wait_for(
        &mut db,
        "select status = 'SUCCESS' and attempt = 1 from sched.execution where job_name = 'report'",
        PATIENCE,
    );
    assert_eq!(broker.waiting("reports"), 1);
}

/// The same process goes on when PostgreSQL is back, and of what it has in hand nothing is lost or sent twice.
#[test]
fn a_server_that_is_down_is_waited_for() {
    let (cluster, mut db) = with_tasks();
    let broker = Redis::start(&cluster);
    let sender = at_first_message(&cluster, "disconnect");
    db.batch_execute("select sched.fire_now('greet')").unwrap();
    wait_for(&mut db, "select status = 'SUCCESS' and attempt = 1 from sched.execution", PATIENCE);
    says(&sender, "PostgreSQL is down");
    for how in [Shutdown::Immediate, Shutdown::Fast] {
        cluster.restart(how);
        db = cluster.connect_as("shop", "shop");
        db.batch_execute("select sched.fire_now('greet')").unwrap();
        wait_for(&mut db, "select bool_and(status = 'SUCCESS') from sched.execution", PATIENCE);
    }
    assert_eq!(broker.waiting("celery"), 3, "{}", sender.printed());
    // The project's own connection has broken as well, and was not gone on with.
    let pending = "select count(*) from django_celery_results_taskresult where status = 'PENDING'";
    assert_eq!(one::<i64>(&mut db, pending), 3, "{}", sender.printed());
}

/// At SIGTERM it gives back what it has not begun with. After SIGKILL its leases run out, and what it had sent is sent once more.
#[test]
fn a_worker_that_ends_leaves_the_rest_to_others() {
    let (cluster, mut db) = with_tasks();
    let broker = Redis::start(&cluster);
    db.execute("select sched.fire_now('greet')", &[]).unwrap();
    db.execute("select sched.fire_now('report')", &[]).unwrap();
    let mut ended = at_first_message(&cluster, "SIGTERM");
    assert!(wait_until("it to leave", PATIENCE, || ended.ended()).success(), "{}", ended.printed());
    let states = "select string_agg(status || ' ' || attempt, ', ' order by status) from sched.execution";
    assert_eq!(one::<String>(&mut db, states), "PENDING 0, SUCCESS 1", "{}", ended.printed());
    cluster.set("sched.stale_timeout", "5s");
    let mut killed = at_first_message(&cluster, "SIGKILL");
    assert!(!wait_until("it to end", PATIENCE, || killed.ended()).success());
    let first = broker.waiting("reports");
    let _other = started(&cluster, sender(&cluster, &[]));
    wait_for(&mut db, "select bool_and(status = 'SUCCESS') and sum(attempt) = 3 from sched.execution", PATIENCE);
    assert_eq!((first, broker.waiting("reports"), broker.waiting("celery")), (1, 2, 1));
}

/// After an outage the latest plan time of each task is sent, or all, as it is told; what was asked for besides the clock is sent.
#[test]
fn of_a_backlog_the_latest_of_each_task_is_sent() {
    let (cluster, mut db) = with_tasks();
    let backlog =
        "select sched.alter_schedule(name, clock => 'every 1 second') from unnest('{greet,report}'::text[]) as name";
    let waits = "select count(*) = 2 and min(n) >= 3 from (select count(*) as n from sched.execution where status = 'PENDING' group by job_name) as e";
    let pause = "select sched.pause('greet'), sched.pause('report')";
    db.batch_execute(backlog).unwrap();
    wait_for(&mut db, waits, SOON);
    db.batch_execute(pause).unwrap();
    db.batch_execute("select sched.backfill('moved', '2026-01-01', '2026-01-03')").unwrap();
    let printed = run(sender(&cluster, &["--until-idle"]));
    let sent = "select string_agg(concat_ws(' ', job_name, n), ', ' order by job_name) from (select job_name, count(*) as n from sched.execution where status = 'SUCCESS' group by 1) as e";
    assert_eq!(one::<String>(&mut db, sent), "greet 1, moved 2, report 1", "{printed}");
    let rest = "select bool_and(status = 'CANCELLED' and (progress ->> 'passed_over_for')::timestamptz > plan_time) from sched.execution e
                 where status <> 'SUCCESS' and plan_time < (select max(plan_time) from sched.execution l where l.job_name = e.job_name and l.status = 'SUCCESS')";
    assert!(one::<bool>(&mut db, rest), "{printed}");
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where status not in ('SUCCESS', 'CANCELLED')"),
        0
    );

    db.batch_execute("select sched.resume('greet'), sched.resume('report')").unwrap();
    wait_for(&mut db, waits, SOON);
    db.batch_execute(pause).unwrap();
    let waiting: i64 = one(&mut db, "select count(*) from sched.execution where status = 'PENDING'");
    let cancelled: i64 = one(&mut db, "select count(*) from sched.execution where status = 'CANCELLED'");
    let printed = run(sender(&cluster, &["--until-idle", "--backlog", "all"]));
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where status = 'SUCCESS'"),
        4 + waiting,
        "{printed}"
    );
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from sched.execution where status = 'CANCELLED'"),
        cancelled,
        "{printed}"
    );
}

/// What `examples/celery/dict_to_tables.py` prints, which fails where it refuses an entry; and the verdicts of an import afterwards.
fn from_dictionary(
    cluster: &Cluster,
    db: &mut Client,
    app: &str,
    variables: &[(&str, &str)],
) -> (String, bool, String) {
    let path = scheduler_cluster_tests::repository().join("examples/celery/dict_to_tables.py");
    let mut command = celery::python(cluster, "postgres", &[&path.to_string_lossy(), "--app", app]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let verdicts = "select string_agg(concat_ws(' | ', schedule_name, verdict, clock, time_zone, note), e'\\n' order by schedule_name, note) from sched.import_from('celery_beat')";
    (printed, output.status.success(), one(db, verdicts))
}

/// Schedules that stand in a dictionary come over by way of the tables, without a message sent, or are refused with a reason.
#[test]
fn a_dictionary_becomes_tables() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", false);
    let (printed, is_whole, verdicts) = from_dictionary(&cluster, &mut db, "proj", &[("BEAT_SCHEDULE", "1")]);
    assert_eq!(
        printed.trim_end(),
        "written: nightly: 0 3 * * * (m/h/dM/MY/d) UTC\n\
         written: lists: 0,30 9-17 * * 1,5 (m/h/dM/MY/d) UTC\n\
         written: each half minute: every 30.0 seconds\n\
         written: hourly: every 3600.0 seconds\n\
         refused: half a second: an interval of 0.5 seconds: a row has whole seconds\n\
         written: sunset: Sunset (52.5, 13.4)\n\
         refused: own rule: a schedule of the class Weekdays has no table\n\
         refused: relative: relative intervals have no column\n\
         refused: countdown: no column for the option countdown: give it to the task itself\n\
         refused: lazy: an argument is worked out anew for each run\n\
         refused: no json: Object of type object is not JSON serializable\n\
         written: celery.backend_cleanup: 0 4 * * * (m/h/dM/MY/d) UTC"
    );
    assert!(!is_whole);
    assert_eq!(
        verdicts,
        "celery.backend_cleanup | imported | 0 4 * * * | UTC\n\
         each half minute | imported | every 30 seconds after start | UTC\n\
         hourly | imported | every 3600 seconds after start | UTC\n\
         lists | imported | */30 9-17 * * 1,5 | UTC\n\
         nightly | imported | 0 3 * * * | UTC\n\
         unsupported | a solar schedule: clocks here know nothing of the sun"
    );
    let payload = "select payload - 'args' - 'kwargs' from sched.schedule where schedule_name = 'each half minute'";
    assert_eq!(
        one::<String>(&mut db, &payload.replace("payload - 'args' - 'kwargs'", "(payload - 'args' - 'kwargs')::text")),
        "{\"task\": \"shop.greet\", \"queue\": \"reports\", \"options\": {\"expires\": 15, \"headers\": {\"periodic_task_name\": \"each half minute\"}}}"
    );
    assert_eq!(["reports", "celery"].map(|queue| in_files(&cluster, queue)), [0, 0]);
    // What JSON has no type for arrives as what it was; and old results are deleted, as by Beat.
    db.batch_execute(
        "insert into django_celery_results_taskresult (task_id, status, content_type, content_encoding, date_created, date_done)
         values ('old', 'SUCCESS', '', '', now() - interval '9 days', now() - interval '9 days');
         select sched.fire_now('hourly'), sched.fire_now('celery.backend_cleanup')",
    )
    .unwrap();
    let mut sender = celery::sender_command(&cluster, "postgres");
    sender.arg("--until-idle");
    run(sender);
    let mut worker = celery::worker_command(&cluster, "postgres");
    worker.env("BEAT_SCHEDULE", "1");
    let _worker = Program::start(worker, &cluster.folder().join("celery.log"));
    let done = "select count(*) = 1 and bool_and(result = '\"report of 2026-11-28 00:00:00+00:00\"')
                       and not exists (select from django_celery_results_taskresult where task_id = 'old')
                  from django_celery_results_taskresult where task_name = 'shop.tasks.report' and status = 'SUCCESS'";
    wait_for(&mut db, done, PATIENCE);
}

/// An application without Django gets the tables as well, and its schedules are handed on by the same worker.
#[test]
fn a_dictionary_without_django_becomes_tables() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let (printed, is_whole, verdicts) = from_dictionary(&cluster, &mut db, "plain", &[]);
    assert_eq!(
        printed,
        "written: mail: 30 7 * * * (m/h/dM/MY/d) Europe/Berlin\nwritten: each minute: every 60.0 seconds\nwritten: celery.backend_cleanup: 0 4 * * * (m/h/dM/MY/d) Europe/Berlin\n"
    );
    assert!(is_whole);
    assert_eq!(
        verdicts,
        "celery.backend_cleanup | imported | 0 4 * * * | Europe/Berlin\neach minute | imported | every 60 seconds after start | UTC\nmail | imported | 30 7 * * * | Europe/Berlin"
    );
    let owned =
        "select string_agg(concat_ws(' ', schedule_name, ownership), ', ' order by schedule_name) from sched.schedules";
    db.batch_execute("select sched.alter_schedule(schedule_name, ownership => 'owned'), sched.fire_now(schedule_name) from sched.schedules where ownership = 'external'").unwrap();
    assert_eq!(one::<String>(&mut db, owned), "celery.backend_cleanup owned, each minute owned, mail owned");
    let mut sender = celery::sender_command(&cluster, "postgres");
    sender.args(["--app=plain", "--until-idle"]);
    let printed = run(sender);
    assert_eq!(["mails", "celery"].map(|queue| in_files(&cluster, queue)), [1, 2], "{printed}");
}
