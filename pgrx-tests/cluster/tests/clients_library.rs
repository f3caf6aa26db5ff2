//! The behaviour that the libraries in `clients/` share, stated once for all languages. Each library has one driver program, whose options and
//! handlers docs/guides/write-a-worker.md lists. Another language is another driver, and its lines in `library!` and in clients.rs.

mod cases;

use crate::clients::{asyncio_worker, javascript_worker, python_worker, signal, Setting, Worker};
use cases::{Case, BOTH, CASES};
use scheduler_cluster_tests::pooler::Pooler;
use scheduler_cluster_tests::proc::{Program, Signal};
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, wait_until};
use std::time::Instant;

const JOBS: &str =
    "snooze, snooze by method, later, sql, list, told, last, dead, payload, exact, enqueue, progress, wait";

fn setting() -> Setting {
    let mut here = Setting::new();
    let define = format!(
        "select sched.define_job(j, queue => 'conformance', retry_backoff => '{{1 hour}}', stale_timeout => '4 s', max_attempts => 2)
           from unnest('{{{JOBS}}}'::text[]) as j;
         select sched.alter_job('last', max_attempts => 1);
         select sched.define_job('wait elsewhere', queue => 'other', stale_timeout => '4 s'), sched.define_job('elsewhere', queue => 'of nobody')"
    );
    here.cluster.connect_as("app", "postgres").batch_execute(&define).unwrap();
    here.db
        .batch_execute(
            "create role other; grant other to app; create table counted (n bigint); create table conflicting (execution_id uuid);
             create sequence tries; create function conflict() returns trigger language plpgsql security definer as $$ begin
               if nextval('tries') < 3 then raise serialization_failure using message = 'a conflict'; end if; return null; end $$;
             create constraint trigger conflict after insert on conflicting deferrable initially deferred for each row execute function conflict();
             grant all on counted, conflicting to app",
        )
        .unwrap();
    here
}

fn end(program: &mut Program) {
    signal(program, Signal::TERM);
    let ended = wait_until("the worker to end", SOON, || program.ended());
    assert!(ended.success(), "{ended}: {}", program.printed());
}

/// The words of the command line in this mode, with others.
fn mode<'a>(mode: &'a str, others: &[&'a str]) -> Vec<&'a str> {
    [&["--transaction", mode], others].concat()
}

/// Each case ends as it says, with these effects.
fn ends(here: &mut Setting, program: &Program, cases: &[&Case]) {
    let payload =
        |case: &Case| case.payload.split_whitespace().collect::<Vec<_>>().join(" ").replace("LONG", &"m".repeat(9_000));
    let ids: Vec<String> = cases.iter().map(|case| here.enqueue(case.job, &payload(case))).collect();
    for (case, id) in cases.iter().zip(&ids) {
        let said =
            "select format('%s %s, %s: %s, %s', status, attempt, error_code, error_msg, result) from sched.execution";
        let ended = format!("select {} from sched.execution where id = '{id}'", case.ends);
        let since = Instant::now();
        let is_so = wait_until("the end or its deadline", 2 * SOON, || {
            let is_so = one::<Option<bool>>(&mut here.db, &ended).unwrap_or(false);
            (is_so || since.elapsed() > SOON).then_some(is_so)
        });
        let found: String = one(&mut here.db, &format!("{said} where id = '{id}'"));
        assert!(is_so, "{case:?}: {found}\n{}", program.printed());
        let effects = format!("select coalesce(string_agg(coalesce(what, '-'), ' ' order by at), '') from effect where execution_id = '{id}'");
        assert_eq!(one::<String>(&mut here.db, &effects), case.effects, "{case:?}: {found}\n{}", program.printed());
    }
}

/// The list of cases, in each mode in which a case is.
fn ends_runs(worker: Worker) {
    let mut here = setting();
    for transaction in BOTH {
        let mut program = here.start_with(worker, &mode(transaction, &[]));
        let cases: Vec<&Case> = CASES.iter().filter(|case| case.modes.contains(transaction)).collect();
        ends(&mut here, &program, &cases);
        assert_eq!(one::<i64>(&mut here.db, "select nextval('tries')"), 4, "the conflict at COMMIT came twice");
        let early = "select count(*) from (select max(at) - min(at) as apart from effect where what in ('snoozed', 'done') group by execution_id having count(*) = 2) e
                      where apart not between interval '0.8 s' and interval '30 s'";
        assert_eq!(one::<i64>(&mut here.db, early), 0, "a snooze is until its time");
        let waiting = "select string_agg(scope_id || ' ' || payload, ', ' order by scope_id) from sched.execution where job_name = 'elsewhere' and status = 'PENDING'";
        assert_eq!(one::<String>(&mut here.db, waiting), r#"7 {"n": 123456789012345678901234567890}, 9 {"list": [1]}"#);
        // Others see it while the run goes on.
        let shown = here.enqueue("progress", "{}");
        here.waits_for(&shown, "status = 'RUNNING' and progress = '{\"done\": 0.5}'");
        here.waits_for(&shown, "status = 'SUCCESS'");
        assert!(!program.printed().contains("lease was lost"), "{}", program.printed());
        end(&mut program);
        here.db.batch_execute("alter sequence tries restart").unwrap();
        here.db
            .execute(
                "select sched.cancel(id) from sched.execution where job_name = 'elsewhere' and status = 'PENDING'",
                &[],
            )
            .unwrap();
    }
}

/// Numbers that a language's floats cannot hold arrive with all their digits, or not at all.
fn keeps_digits(worker: Worker) {
    let mut here = setting();
    let program = here.start_with(worker, &["--json", "exact"]);
    ends(&mut here, &program, &cases::EXACT.iter().collect::<Vec<_>>());
}

/// What a handler leaves in its session is gone, what a role sets does not matter, and a conflict at COMMIT costs no attempt.
fn keeps_sessions(worker: Worker) {
    let leave = r#"{"sql": "set search_path = pg_catalog; create temp table left_behind (); select pg_advisory_lock(7); set role other"}"#;
    let ask = r#"{"sql": "select 1", "ask": "select json_build_object('role', current_user, 'path', current_setting('search_path'), 'temp', to_regclass('pg_temp.left_behind'),
        'locks', (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()))"}"#.replace('\n', "").replace('\'', "''");
    let conflict = r#"{"sql": "set transaction isolation level serializable; insert into counted select coalesce(max(n), 0) + 1 from counted; select pg_sleep(2.5)"}"#;
    let mut here = setting();
    for transaction in BOTH {
        here.db.batch_execute("alter role app reset all; truncate counted").unwrap();
        let left = here.enqueue("sql", leave);
        let asked = here.enqueue("sql", &ask);
        let mut program = here.start_with(worker, &mode(transaction, &["--queues", "conformance=1"]));
        here.waits_for(&left, "status = 'SUCCESS' and attempt = 1");
        let new = r#"result->'asked' = '{"role": "app", "path": "\"$user\", public", "temp": null, "locks": 0}'"#;
        here.waits_for(&asked, new);
        end(&mut program);

        let jobs: &[&str] =
            if *transaction == "run" { &["effect", "batch", "slow", "fail"] } else { &["list", "told"] };
        let mut ids: Vec<String> =
            jobs.iter().map(|job| here.enqueue(job, r#"{"seconds": 6, "message": "told to fail"}"#)).collect();
        ids.push(here.enqueue("sql", r#"{"sql": "select pg_sleep(4)"}"#));
        ids.push(here.enqueue("sql", conflict));
        here.db
            .batch_execute(
                "alter role app set default_transaction_isolation = 'serializable'; alter role app set default_transaction_read_only = on;
                 alter role app set idle_in_transaction_session_timeout = '2s'; alter role app set statement_timeout = '3s'",
            )
            .unwrap();
        let mut program = here.start_with(worker, &mode(transaction, &["--queues", "conformance=3"]));
        let sleeps = "select count(*) > 0 from pg_stat_activity where wait_event = 'PgSleep' and query like '%2.5%'";
        wait_for(&mut here.db, sleeps, SOON);
        here.db
            .batch_execute("begin isolation level serializable; insert into counted select coalesce(max(n), 0) + 1 from counted; commit")
            .unwrap();
        for id in &ids {
            here.waits_for(
                id,
                "attempt = 1 and status = case when job_name in ('fail', 'told') then 'FAILED' else 'SUCCESS' end",
            );
        }
        assert_eq!(one::<String>(&mut here.db, "select string_agg(n::text, ' ' order by n) from counted"), "1 2");
        assert!(!program.printed().contains("connection:"), "{}", program.printed());
        end(&mut program);
    }
}

/// Forty handlers that wait have no transaction, and their worker has ten connections. What it does at the end commits with the success.
fn holds_no_connection(worker: Worker) {
    let mut here = setting();
    let ids: Vec<String> = (0..40).map(|_| here.enqueue("wait", r#"{"seconds": 6}"#)).collect();
    let mut program = here.start_with(worker, &mode("finish", &["--queues", "conformance=40", "--batch", "1"]));
    wait_for(&mut here.db, "select count(*) = 40 from sched.running", SOON);
    let connections = "select count(*) from pg_stat_activity where usename = 'app'";
    assert!(one::<i64>(&mut here.db, connections) <= 10);
    let idle = "select count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'";
    wait_for(&mut here.db, idle, SOON);
    assert!(one::<i64>(&mut here.db, "select count(*) from sched.running") >= 39, "they wait: {}", program.printed());
    for id in &ids {
        here.waits_for(id, "status = 'SUCCESS' and attempt = 1 and result = '{\"waited\": true}'");
    }
    assert_eq!(one::<i64>(&mut here.db, "select count(distinct execution_id) from effect"), 40);
    assert!(one::<i64>(&mut here.db, connections) <= 10);
    end(&mut program);
}

/// Two workers in one process, each with two queues; one SIGTERM stops both, which give back what they have.
fn shares_a_process(worker: Worker) {
    let mut here = setting();
    for transaction in BOTH {
        let ids: Vec<String> = ["wait", "wait", "wait elsewhere", "wait elsewhere"]
            .map(|job| here.enqueue(job, r#"{"seconds": 60}"#))
            .into();
        let words = ["--queues", "conformance=1,other=1", "--workers", "2", "--batch", "1"];
        let mut program = here.start_with(worker, &mode(transaction, &words));
        for id in &ids {
            here.waits_for(id, "status = 'RUNNING'");
        }
        end(&mut program);
        for id in &ids {
            here.waits_for(id, "status = 'PENDING' and attempt = 0");
            here.db.execute(&format!("select sched.cancel('{id}')"), &[]).unwrap();
        }
    }
}

/// Behind PgBouncer in transaction mode it works, polls, and says once that LISTEN has no effect. A direct connection hears.
fn works_behind_a_pooler(worker: Worker) {
    let mut here = setting();
    let pooler = Pooler::start(&here.cluster, "transaction", &["app"], 8);
    here.pooler = Some(pooler.host());
    let direct = here.cluster.folder().display().to_string();
    for transaction in BOTH {
        let mut program = here.start_with(worker, &mode(transaction, &["--prepare", "off"]));
        wait_until("the warning", SOON, || program.printed().contains("LISTEN").then_some(()));
        let ids: Vec<String> = (0..20).map(|_| here.enqueue("sql", r#"{"sql": "select 1"}"#)).collect();
        for id in &ids {
            here.waits_for(id, "status = 'SUCCESS' and attempt = 1");
        }
        end(&mut program);
        let warnings = program.printed().lines().filter(|line| line.contains("LISTEN")).count();
        assert_eq!(warnings, 1, "{}", program.printed());
        assert!(!program.printed().contains("connection:"), "{}", program.printed());

        let mut program = here.start_with(worker, &mode(transaction, &["--listen", &direct]));
        let listens = "select count(*) = 1 from pg_stat_activity where query like 'LISTEN%sched:cancel%'";
        wait_for(&mut here.db, listens, SOON);
        for _ in 0..3 {
            let id = here.enqueue("list", "{}");
            here.waits_for(&id, "status = 'SUCCESS' and finished_at - created_at < interval '2 s'");
        }
        end(&mut program);
        assert!(!program.printed().contains("LISTEN"), "{}", program.printed());
    }
}

/// A worker declares its schedules when it starts, those beside handlers as well, in any number of instances; then the group has no other.
fn declares(worker: Worker) {
    let mut here = setting();
    let clock = "0 5 * * *";
    let spec = |name: &str| format!(r#"{{"schedule_name": "{name}", "clock": "{clock}", "job_name": "list"}}"#);
    let mut app = here.cluster.connect_as("app", "postgres");
    app.batch_execute(&format!("select sched.declare_schedules('conformance', '[{}]')", spec("of before"))).unwrap();
    app.batch_execute(&format!("select sched.create_schedules('[{}]')", spec("of no group"))).unwrap();
    let all = "select string_agg(format('%s %s %s %s', schedule_name, group_name, job_name, clock), ', ' order by schedule_name) from sched.schedules";
    let declared =
        "beside conformance beside 30 8 * * mon, declared conformance effect 0 6 * * *, of no group  list 0 5 * * *";
    for number in 1..3 {
        let mut programs: Vec<Program> = (0..3).map(|_| here.start_with(worker, &["--declare"])).collect();
        wait_until("the schedules", SOON, || (one::<String>(&mut here.db, all) == declared).then_some(()));
        assert_eq!(
            one::<String>(&mut here.db, "select time_zone from sched.schedules where schedule_name = 'beside'"),
            "Europe/Berlin"
        );
        assert_eq!(
            one::<String>(&mut here.db, "select queue from sched.jobs where job_name = 'beside'"),
            "conformance"
        );
        app.batch_execute("select sched.fire_now('beside')").unwrap();
        let done =
            format!("select count(*) = {number} from sched.execution where job_name = 'beside' and result = '[1, 2]'");
        wait_for(&mut here.db, &done, SOON);
        // Before that, a signal would find one that has just begun to start.
        let all_listen = "select count(*) = 3 from pg_stat_activity where query like 'LISTEN%sched:cancel%'";
        wait_for(&mut here.db, all_listen, SOON);
        programs.iter_mut().for_each(end);
        // What others do meanwhile: what is missing comes again, a pause stays, and a job keeps its definition.
        let kept = "select state || ' ' || max_attempts from sched.schedules, sched.jobs j where schedule_name = 'declared' and j.job_name = 'beside'";
        assert_eq!(one::<String>(&mut here.db, kept) == "paused 7", number == 2);
        app.batch_execute("select sched.pause('declared'), sched.drop_schedule('beside'), sched.alter_job('beside', max_attempts => 7)").unwrap();
    }
}

macro_rules! library {
    ($language:ident, $worker:expr, $($behaviour:ident),+) => {
        mod $language {
            use super::*;
            $(#[test] fn $behaviour() { super::$behaviour($worker); })+
        }
    };
    ($language:ident, $worker:expr) => {
        library!($language, $worker, ends_runs, keeps_digits, keeps_sessions, holds_no_connection, shares_a_process, works_behind_a_pooler);
    };
}

library!(python, python_worker);
library!(asyncio, asyncio_worker);
library!(typescript, javascript_worker);
library!(python_schedules, python_worker, declares);
library!(asyncio_schedules, asyncio_worker, declares);
library!(typescript_schedules, javascript_worker, declares);
