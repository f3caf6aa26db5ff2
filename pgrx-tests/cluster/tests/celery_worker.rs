//! The worker that hands executions on to Celery (`examples/celery/worker.py`), with a Django project of the usual kind: result backend
//! `django-db`, shared tasks with queues of their own, and nothing in it that calls `django.setup()`.

use scheduler_cluster_tests::celery::{self, Redis};
use scheduler_cluster_tests::proc::{kill, Program, Signal};
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

/// A server with tasks of the project's as `import_from` makes them.
fn with_tasks() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.tick_interval", "1s").start();
    let mut db = cluster.with_extension("postgres");
    celery::tables(&cluster, "postgres", false);
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

fn started(cluster: &Cluster, mut sender: Command, broker: &Redis) -> Program {
    sender.env("BROKER_URL", broker.url());
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
    let mut sender = celery::sender_command(&cluster, "postgres");
    sender.arg("--until-idle");
    let printed = run(sender);
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
    let sender = started(&cluster, celery::sender_command(&cluster, "postgres"), &broker);
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
    let mut command = celery::sender_command(&cluster, "postgres");
    // The connection breaks when the message is sent, and the ledger does not know yet.
    command.env("CELERY_IMPORTS", "sever");
    let mut sender = started(&cluster, command, &broker);
    db.batch_execute("select sched.fire_now('greet')").unwrap();
    wait_for(&mut db, "select status = 'SUCCESS' and attempt = 1 from sched.execution", PATIENCE);
    says(&sender, "PostgreSQL is down");
    for how in [Shutdown::Immediate, Shutdown::Fast] {
        cluster.restart(how);
        cluster.connect().batch_execute("select sched.fire_now('greet')").unwrap();
        wait_for(&mut cluster.connect(), "select bool_and(status = 'SUCCESS') from sched.execution", PATIENCE);
    }
    assert_eq!(broker.waiting("celery"), 3, "{}", sender.printed());
    kill(sender.pid(), Signal::TERM);
    assert!(wait_until("it to leave", SOON, || sender.ended()).success());
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
    let mut sender = celery::sender_command(&cluster, "postgres");
    sender.arg("--until-idle");
    let printed = run(sender);
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
    let mut sender = celery::sender_command(&cluster, "postgres");
    sender.args(["--until-idle", "--backlog", "all"]);
    let printed = run(sender);
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
