//! Delayed executions that are replaced, altered and snoozed while sessions claim them, their queue is paused, and processes die: none early,
//! none in a pause, none lost, none twice, and what was said last is what ran.

use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_until, Client, Cluster};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How much of it.
struct Load {
    executions: usize,
    writers: usize,
    claimers: usize,
    /// How often the server dies, and how often a session does before each time.
    crashes: usize,
    terminations: usize,
}

fn connect(cluster: &Cluster) -> Client {
    wait_until("the server to accept a session", SOON * 2, || cluster.try_connect_as("postgres", "postgres").ok())
}

/// What may run of an execution: what was last said of it, and what was said before where nobody knows whether the last was committed.
type Said = HashMap<String, Vec<i64>>;

/// Replaces and alters executions of its own scopes; what it was told of each execution.
fn write(cluster: &Cluster, writer: usize, load: &Load) -> Said {
    let mut random = Random(writer as u64);
    let mut db = connect(cluster);
    let (mut said, mut last): (Said, Vec<Option<String>>) =
        (HashMap::new(), vec![None; load.executions / load.writers]);
    let mut version = 0;
    for round in 0..load.executions / load.writers * 3 {
        let place = if round < last.len() { round } else { random.below(last.len() as u64) as usize };
        version += 1;
        let at = format!("clock_timestamp() + interval '{} milliseconds'", random.below(3000));
        let id = last[place].clone().filter(|_| random.below(2) == 0);
        let query = match &id {
            Some(id) => format!("select case when sched.alter_execution('{id}', '{version}', {at}, {version} % 3) then '{id}' else '' end"),
            None => format!("select sched.enqueue('load', '{version}', scope_id => 'w{writer} {place}', run_at => {at}, unique_by => 'scope', if_exists => 'replace')::text"),
        };
        match db.query_one(&query, &[]) {
            Ok(row) => {
                let told: String = row.get(0);
                if !told.is_empty() {
                    said.insert(told.clone(), vec![version]);
                    last[place] = Some(told);
                }
            }
            Err(_) => {
                // It died with the answer: whether this was committed nobody knows.
                let payload = format!("select coalesce((select id::text from sched.execution where payload = '{version}' and scope_id = 'w{writer} {place}'), '')");
                let found: String = wait_until("an answer", SOON * 2, || {
                    db = connect(cluster);
                    db.query_one(&payload, &[]).ok().map(|row| row.get(0))
                });
                if !found.is_empty() {
                    said.insert(found.clone(), vec![version]);
                    last[place] = Some(found);
                } else if let Some(known) = last[place].as_ref().and_then(|id| said.get_mut(id)) {
                    known.push(version);
                }
            }
        }
    }
    said
}

fn nothing_left(db: &mut Client) -> bool {
    let query = "select not exists (select from sched.execution where status <> 'SUCCESS')";
    db.query_one(query, &[]).is_ok_and(|row| row.get(0))
}

/// Claims and finishes until nothing is left; one in ten it gives back for a while.
fn run(cluster: &Cluster, claimer: usize, over: &AtomicBool, done: &AtomicUsize) {
    let mut random = Random(claimer as u64 + 1000);
    let mut db = connect(cluster);
    loop {
        let was_over = over.load(Ordering::Relaxed);
        let mut work = |db: &mut Client| -> Result<usize, postgres::Error> {
            let leases = db.query("select execution_id::text, lease_token::text, payload::text from sched.claim('load', 5, stale_timeout => '2 seconds')", &[])?;
            for row in &leases {
                let (id, token, payload): (String, String, String) = (row.get(0), row.get(1), row.get(2));
                // What was claimed is what is recorded, with when it was claimed and might be.
                let ran = format!("select id, {payload}, started_at >= coalesce(run_at, '-infinity'), started_at from sched.execution where id = '{id}'");
                db.batch_execute(&if random.below(10) == 0 {
                    let until = format!("clock_timestamp() + interval '{} milliseconds'", random.below(500));
                    format!(
                        "begin; insert into given_back {ran}; select sched.snooze('{id}', '{token}', {until}); commit"
                    )
                } else {
                    format!("begin; insert into ran {ran}; select sched.finish_success('{id}', '{token}'); commit")
                })?;
            }
            Ok(leases.len())
        };
        match work(&mut db) {
            Ok(0) if was_over && nothing_left(&mut db) => return,
            Ok(0) => stays("a pause", Duration::from_millis(5), || ()),
            Ok(count) => {
                done.fetch_add(count, Ordering::Relaxed);
            }
            Err(error) if error.code().is_some_and(|code| code.code() == "55000") => {
                // Its lease ran out while the machine was busy: somebody else has it.
                let _ = db.batch_execute("rollback");
            }
            Err(_) => db = connect(cluster),
        }
    }
}

/// Pauses the queue again and again, and writes down from when to when nobody can have claimed from it.
fn pause(cluster: &Cluster, over: &AtomicBool) {
    let mut random = Random(17);
    let mut db = connect(cluster);
    let mut paused = 0;
    while !over.load(Ordering::Relaxed) {
        let mut work = |db: &mut Client| -> Result<(), postgres::Error> {
            db.batch_execute("select sched.pause_queue('load')")?;
            // What was under way then may have seen no pause.
            let since: String = db.query_one("select clock_timestamp()::text", &[])?.get(0);
            let under_way = format!(
                "select exists (select from pg_stat_activity where xact_start < '{since}' and pid <> pg_backend_pid())"
            );
            while db.query_one(&under_way, &[])?.get(0) {}
            let since: String = db.query_one("select clock_timestamp()::text", &[])?.get(0);
            stays("the pause", Duration::from_millis(random.below(40)), || ());
            db.batch_execute(&format!("insert into pause select '{since}', clock_timestamp()"))?;
            db.batch_execute("select sched.resume_queue('load')")
        };
        match work(&mut db) {
            Ok(()) => paused += 1,
            Err(_) => db = connect(cluster),
        }
        stays("between pauses", Duration::from_millis(100 + random.below(200)), || ());
    }
    connect(cluster).batch_execute("select sched.resume_queue('load')").unwrap();
    assert!(paused > 0);
}

fn under_load(load: &Load) {
    let cluster = Cluster::builder().durable().set("max_connections", "60").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table ran (id uuid, payload bigint, in_time boolean, started_at timestamptz);
         create table given_back (like ran);
         create table pause (since timestamptz, until timestamptz);
         select sched.define_job('load', queue => 'load', max_attempts => 1000)",
    )
    .unwrap();
    let (over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let said: Vec<Said> = thread::scope(|scope| {
        let (cluster, over, done) = (&cluster, &over, &done);
        let claimers: Vec<_> =
            (0..load.claimers).map(|claimer| scope.spawn(move || run(cluster, claimer, over, done))).collect();
        let pauser = scope.spawn(|| pause(cluster, over));
        let writers: Vec<_> =
            (0..load.writers).map(|writer| scope.spawn(move || write(cluster, writer, load))).collect();
        let mut random = Random(7);
        for _ in 0..load.crashes {
            for _ in 0..load.terminations {
                let before = done.load(Ordering::Relaxed);
                wait_until("some runs", SOON * 3, || {
                    (done.load(Ordering::Relaxed) > before + 10 || writers.iter().all(|writer| writer.is_finished()))
                        .then_some(())
                });
                let mut root = connect(cluster);
                let _ = root.batch_execute(&format!(
                    "select pg_terminate_backend(pid) from pg_stat_activity where backend_type in ('client backend', 'scheduler dispatcher') and pid <> pg_backend_pid()
                      order by md5(pid::text || {}) limit 1",
                    random.below(1000)
                ));
            }
            cluster.crash();
            cluster.start();
        }
        let said = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        pauser.join().unwrap();
        claimers.into_iter().for_each(|claimer| claimer.join().unwrap());
        said
    });
    let mut db = connect(&cluster);
    let rows = db.query("select id::text, payload, in_time from ran", &[]).unwrap();
    let ran: Vec<(String, i64, bool)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let ids: HashSet<&String> = ran.iter().map(|(id, ..)| id).collect();
    assert_eq!(ids.len(), ran.len(), "an execution ran twice");
    let early = ran.iter().filter(|(.., in_time)| !in_time).count();
    let by: String = one(&mut db, "select coalesce(string_agg((e.started_at - e.run_at)::text || ' ' || e.attempt || ' ' || (l.next_retry_at is null), ', '), '') from sched.execution e join sched.ledger l using (id) where e.started_at < e.run_at");
    assert_eq!(early, 0, "claimed early: {by}");
    let snoozed: i64 = one(&mut db, "select count(*) from given_back");
    assert!(snoozed > 0, "some are given back");
    assert_eq!(
        one::<i64>(&mut db, "select count(*) from given_back where not in_time"),
        0,
        "claimed early, and given back"
    );
    let in_a_pause = "select count(*) from (table ran union all table given_back) as r join pause on r.started_at between since and until";
    assert_eq!(one::<i64>(&mut db, in_a_pause), 0, "claimed while the queue was paused");
    let known: i64 = one(&mut db, "select count(*) from sched.execution where status = 'SUCCESS'");
    assert_eq!(usize::try_from(known).unwrap(), ran.len(), "what ended has run");
    let payloads: HashMap<&String, i64> = ran.iter().map(|(id, payload, _)| (id, *payload)).collect();
    let mut altered = 0;
    for said in &said {
        for (id, versions) in said {
            let Some(payload) = payloads.get(id) else { panic!("{id} was lost") };
            assert!(versions.contains(payload), "{id}: said {versions:?}, ran {payload}");
            altered += 1;
        }
    }
    println!("{} executions, {altered} of them known to their writers, {snoozed} snoozes", ran.len());
    assert!(altered >= load.executions, "too few of them: {altered}");
    assert_eq!(one::<i64>(&mut db, &format!("select (select count(*) from {READY} r) + (select count(*) from {DELAYED} d) + (select count(*) from {LEASE} l)")), 0);
}

#[test]
fn what_was_said_last_of_thousands_is_what_runs() {
    under_load(&Load { executions: 3_000, writers: 4, claimers: 6, crashes: 2, terminations: 5 });
}

#[test]
#[ignore = "minutes"]
fn long_what_was_said_last_of_100_000_is_what_runs() {
    under_load(&Load { executions: 100_000, writers: 8, claimers: 16, crashes: 10, terminations: 30 });
}
