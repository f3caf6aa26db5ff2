//! SUCCESS in the ledger if and only if what exactly one attempt did is committed, whoever dies in the middle of it.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{dispatcher, launcher, one, SOON};
use scheduler_cluster_tests::sql_jobs::{
    all_ended, define, effects_are_those_of_the_ledger, enqueue, runners, runs_without_process, ENDED_AFTER_CRASH,
};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster, Shutdown};
use std::time::{Duration, Instant};

/// The effect of an attempt is a row; then, mostly, it has come to its end: what is killed is as often in a commit as in the command.
const EFFECT: &str = "insert into effect select execution_id, attempt from sched.this_run();
    select count(*) from generate_series(1, 100);
    select pg_sleep(0.005) where random() < 0.1";
/// The same in transactions of its own: what has begun, and what has come to its end.
const STEPS: &str = "insert into began select execution_id, attempt from sched.this_run();
    select pg_sleep(random() * 0.01);
    insert into ended select execution_id, attempt from sched.this_run()";
/// How long one is stopped that may have a lock: longer than its time limit and the grace after it.
const FROZEN: Duration = Duration::from_millis(1500);
/// Those whose runs are short.
const SHORT: [&str; 5] = ["often", "twice", "once", "own", "own again"];
const IN_ONE: &str = "'often', 'twice', 'once', 'limited'";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    RunnerTerminated,
    AnyRunnersTerminated,
    RunnerKilled,
    RunnerFrozen,
    RunnerFrozenAnywhere,
    DispatcherTerminated,
    DispatcherKilled,
    LauncherTerminated,
    Server,
}

/// One turn of kills; those that restart the server are rarer.
const VICTIMS: [Victim; 10] = [
    Victim::RunnerTerminated,
    Victim::RunnerFrozen,
    Victim::DispatcherTerminated,
    Victim::RunnerKilled,
    Victim::AnyRunnersTerminated,
    Victim::LauncherTerminated,
    Victim::RunnerTerminated,
    Victim::DispatcherKilled,
    Victim::RunnerFrozenAnywhere,
    Victim::Server,
];

fn define_jobs(db: &mut Client) {
    db.batch_execute(
        "create table effect (execution_id uuid, attempt int, unique (execution_id, attempt));
         create table began (like effect including all);
         create table ended (like effect including all)",
    )
    .unwrap();
    define(db, "often", EFFECT, "max_attempts => 1000");
    define(
        db,
        "twice",
        EFFECT,
        "max_attempts => 2, retry_backoff => '{20 milliseconds}', allow_stale_reentry => false",
    );
    define(db, "once", EFFECT, "");
    let limited = format!("{EFFECT}; select pg_sleep(0.4)");
    define(db, "limited", &limited, "max_attempts => 1000, run_timeout => '1 second', priority => 1");
    define(db, "own", STEPS, "max_attempts => 1000, own_transactions => true, allow_stale_reentry => false");
    define(db, "own again", STEPS, "max_attempts => 1000, own_transactions => true");
}

fn reconnect(cluster: &Cluster) -> Client {
    wait_until("the server to accept connections", SOON * 2, || cluster.try_connect_as("postgres", "postgres").ok())
}

/// Some process that is on a run of a `job`, and its execution. What it does not find any more it enqueues again.
fn busy_runner(db: &mut Client, job: &str, condition: &str, acknowledged: &mut Vec<String>) -> (String, i32) {
    let query = format!(
        "select r.id::text, r.pid from sched.running r join pg_stat_activity a on a.pid = r.pid
          where r.pid is not null and {condition} order by random() limit 1"
    );
    let unfinished =
        format!("select count(*) from sched.execution where job_name = '{job}' and status in ('PENDING', 'RUNNING')");
    wait_until("a runner at work", SOON, || {
        let found = db.query_opt(&query, &[]).unwrap().map(|row| (row.get(0), row.get(1)));
        if found.is_none() && one::<i64>(db, &unfinished) == 0 {
            acknowledged.extend(enqueue(db, job, 10));
        }
        found
    })
}

/// After a crash: a dispatcher comes, and within 2 s of that nothing is RUNNING whose process is not there.
fn recovered(cluster: &Cluster) -> Client {
    let mut db = reconnect(cluster);
    wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    wait_until("no run without its process", ENDED_AFTER_CRASH, || {
        runs_without_process(&mut db).is_empty().then_some(())
    });
    db
}

fn kill(cluster: &Cluster, mut db: Client, victim: Victim, acknowledged: &mut Vec<String>) -> Client {
    let terminate = |db: &mut Client, pid: Option<i32>| {
        if let Some(pid) = pid {
            db.execute("select pg_terminate_backend($1)", &[&pid]).unwrap();
        }
    };
    match victim {
        Victim::RunnerTerminated => {
            let (_, pid) = busy_runner(&mut db, "often", "r.job_name <> 'limited'", acknowledged);
            terminate(&mut db, Some(pid));
        }
        Victim::AnyRunnersTerminated => {
            // Also those that come, look for work, or leave.
            db.batch_execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'scheduler runner' and random() < 0.5",
            )
            .unwrap();
        }
        Victim::RunnerKilled => {
            // It may have left by itself, after its hundredth run.
            wait_until("the connection to break", SOON, || {
                let (_, pid) = busy_runner(&mut db, "often", "r.job_name <> 'limited'", acknowledged);
                proc::kill(pid, Signal::KILL);
                wait_until("the process to be gone", SOON, || (!proc::is_alive(pid)).then_some(()));
                let killed = Instant::now();
                wait_until("the connection to break, or a while to pass", SOON, || {
                    let broken = db.is_valid(Duration::from_secs(1)).is_err();
                    (broken || killed.elapsed() > Duration::from_secs(2)).then_some(broken)
                })
                .then_some(())
            });
            return recovered(cluster);
        }
        Victim::RunnerFrozen => {
            // In its command: one that is stopped while it has a lock of the server's keeps everybody waiting.
            let (id, pid) =
                busy_runner(&mut db, "limited", "r.job_name = 'limited' and a.wait_event = 'PgSleep'", acknowledged);
            proc::kill(pid, Signal::STOP);
            let given_up = format!("select not exists (select from sched.running where id = '{id}' and pid = {pid})");
            wait_for(&mut db, &given_up, SOON);
            proc::kill(pid, Signal::CONT);
        }
        Victim::RunnerFrozenAnywhere => {
            let (id, pid) = busy_runner(&mut db, "limited", "r.job_name = 'limited'", acknowledged);
            proc::kill(pid, Signal::STOP);
            // What it has locked nobody gets, not even who would give it up.
            let watched = Instant::now();
            let query = "select count(*) from sched.running where id = $1::text::uuid and pid = $2";
            wait_until("it to be given up, or a while to pass", SOON, || {
                let _ = db.batch_execute("set lock_timeout = '100ms'");
                let over = db.query_one(query, &[&id, &pid]).is_ok_and(|row| row.get::<_, i64>(0) == 0);
                (over || watched.elapsed() > FROZEN).then_some(())
            });
            proc::kill(pid, Signal::CONT);
        }
        Victim::DispatcherTerminated => {
            let pid = dispatcher(&mut db);
            terminate(&mut db, pid);
        }
        Victim::DispatcherKilled => {
            let pid = wait_until("a dispatcher", SOON, || dispatcher(&mut db));
            proc::kill(pid, Signal::KILL);
            wait_until("the connection to break", SOON, || db.is_valid(Duration::from_secs(1)).err());
            return recovered(cluster);
        }
        Victim::LauncherTerminated => {
            let pid = launcher(&mut db);
            terminate(&mut db, pid);
        }
        Victim::Server => {
            drop(db);
            cluster.restart(Shutdown::Immediate);
            return recovered(cluster);
        }
    }
    db
}

/// That many kills, while runners wait for so long for another run.
fn kills(count: usize, runner_idle: &str) {
    let mut random = Random::seeded();
    let cluster = Cluster::builder()
        .set("sched.cancel_grace", "200ms")
        .set("sched.max_sql_runners", "6")
        .set("sched.runner_idle", runner_idle)
        .set("log_min_messages", "warning")
        .start();
    let mut db = cluster.with_extension("postgres");
    define_jobs(&mut db);
    let mut acknowledged = Vec::new();
    let (mut crashes, started) = (0, Instant::now());
    for round in 0..count {
        let victim = VICTIMS[round % VICTIMS.len()];
        let waiting: i64 = one(&mut db, &count_of(READY));
        for job in SHORT.iter().filter(|_| waiting < 500) {
            acknowledged.extend(enqueue(&mut db, job, 100));
        }
        stays("the moment", Duration::from_micros(random.below(50_000)), || ());
        crashes += usize::from(matches!(victim, Victim::RunnerKilled | Victim::DispatcherKilled | Victim::Server));
        db = kill(&cluster, db, victim, &mut acknowledged);
    }
    let killed_within = started.elapsed();
    all_ended(&mut db);
    assert_eq!(runs_without_process(&mut db), Vec::<i32>::new());
    let row = db
        .query_one(
            "select count(*) filter (where status = 'SUCCESS'), count(*) filter (where attempt > 1), count(*) filter (where status = 'FAILED')
               from sched.execution",
            &[],
        )
        .unwrap();
    let (succeeded, retried, failed): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    println!(
        "{count} kills with {crashes} restarts in {killed_within:?}, all ended after {:?}: {succeeded} SUCCESS, {retried} tried again, {failed} FAILED",
        started.elapsed()
    );
    effects_are_those_of_the_ledger(&mut db, IN_ONE, &acknowledged);
    own_transactions_are_those_of_the_ledger(&mut db);
    // What failed has lost its process, and had no attempt left.
    let strange: String = one(
        &mut db,
        "select coalesce(string_agg(format('%s %s attempt %s of %s: %s %s', job_name, status, attempt, max_attempts, error_code, error_msg), e'\\n'), '')
           from sched.execution
          where status <> 'SUCCESS'
            and not (status = 'FAILED' and error_code = 'worker_lost' and (attempt = max_attempts or job_name = 'own'))",
    );
    assert!(strange.is_empty(), "{strange}");
    assert!(retried > 0, "no kill has hit a run");
    // Of those processes none is left that does nothing.
    assert!(runners(&mut db).len() <= 6);
}

/// At least once: each attempt that has begun is in the ledger, and without `allow_stale_reentry` there is one.
fn own_transactions_are_those_of_the_ledger(db: &mut Client) {
    let strange: String = one(
        db,
        "select coalesce(string_agg(format('%s %s %s attempt %s %s: began %s ended %s', e.id, e.job_name, e.status, e.attempt, e.error_code,
                                           b.attempts, n.attempts), e'\\n'), '')
           from (select * from sched.execution where job_name in ('own', 'own again')) as e
           full join (select execution_id, array_agg(attempt order by attempt) as attempts from began group by 1) as b on b.execution_id = e.id
           left join (select execution_id, array_agg(attempt order by attempt) as attempts from ended group by 1) as n on n.execution_id = e.id
          where e.id is null
             or (e.status = 'SUCCESS' and e.attempt <> all (coalesce(n.attempts, '{}')))
             or e.attempt < b.attempts[cardinality(b.attempts)]
             or (e.job_name = 'own' and (e.attempt > 1 or cardinality(b.attempts) > 1))",
    );
    assert!(strange.is_empty(), "{strange}");
}

#[test]
fn thirty_kills_lose_no_run_and_double_none() {
    kills(30, "5s");
}

#[test]
#[ignore = "minutes"]
fn long_two_hundred_kills_lose_no_run_and_double_none() {
    kills(200, "5s");
}

#[test]
fn ten_kills_with_a_process_for_each_run() {
    kills(10, "0");
}
