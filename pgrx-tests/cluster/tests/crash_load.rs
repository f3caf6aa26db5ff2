//! I1 through any crash: while schedules fire and callers dispatch beside the worker, processes die by SIGKILL at random moments.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CRASHES: usize = 50;
const SCHEDULES: i64 = 30;

/// Dispatches until told to stop, through every crash; every other transaction is rolled back. `pid` is its backend, where it has one.
fn dispatch(cluster: &Cluster, stop: &AtomicBool, pid: &Mutex<Option<i32>>) {
    while !stop.load(Ordering::Relaxed) {
        let connected = wait_until("the server to accept a caller", SOON * 2, || {
            let db = cluster.try_connect_as("postgres", "postgres").ok();
            (db.is_some() || stop.load(Ordering::Relaxed)).then_some(db)
        });
        let Some(mut db) = connected else { return };
        let Ok(row) = db.query_one("select pg_backend_pid()", &[]) else { continue };
        *pid.lock().unwrap() = Some(row.get(0));
        let work = |db: &mut Client| -> Result<(), postgres::Error> {
            db.batch_execute("begin; select sched.dispatch_due(5); commit")?;
            db.batch_execute("begin; select sched.dispatch_due(5); rollback; select pg_sleep(0.005)")
        };
        while !stop.load(Ordering::Relaxed) && work(&mut db).is_ok() {}
        *pid.lock().unwrap() = None;
    }
}

#[test]
fn fifty_kills_at_random_moments_under_a_firing_load_lose_no_plan_and_double_none() {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    println!("seed {seed}");
    let mut random = Random(seed);
    let cluster = Cluster::builder().durable().start();
    let mut db = cluster.with_extension("postgres");
    // Periods that do not share a grid, few plans a tick: what a crash leaves behind takes several.
    db.batch_execute(&format!(
        "select sched.define_job('job');
         select sched.create_schedule('s' || i, format('every %s milliseconds', 200 + 7 * i), 'job', catch_up => 'every_plan',
                                      max_plans_per_tick => 3)
           from generate_series(1, {SCHEDULES}) as i"
    ))
    .unwrap();
    let stop = AtomicBool::new(false);
    let callers: Vec<Mutex<Option<i32>>> = (0..3).map(|_| Mutex::new(None)).collect();
    let mut kills = [0; 3];
    let started = Instant::now();
    thread::scope(|scope| {
        for pid in &callers {
            scope.spawn(|| dispatch(&cluster, &stop, pid));
        }
        for round in 0..CRASHES {
            // The load is on, and then any moment of it.
            let plans: i64 = one(&mut db, "select count(*) from sched.execution");
            wait_for(&mut db, &format!("select count(*) > {plans} from sched.execution"), SOON);
            stays("the load", Duration::from_micros(random.below(150_000)), || ());
            let victim = usize::try_from(random.below(3)).unwrap();
            kills[victim] += 1;
            let pid = match victim {
                // Also one that has just come.
                0 => proc::backends(&mut db, "scheduler dispatcher").first().copied(),
                1 => Some(wait_until("a caller", SOON, || *callers[round % callers.len()].lock().unwrap())),
                _ => None,
            };
            // A caller may have lost its backend in the last crash, and not have heard of it.
            match pid.filter(|pid| proc::is_alive(*pid)) {
                Some(pid) => {
                    proc::kill(pid, Signal::KILL);
                    wait_until("the connection to break", SOON, || db.is_valid(Duration::from_secs(1)).err());
                }
                None => {
                    cluster.crash();
                    cluster.start();
                }
            }
            db = wait_until("the server to accept connections", SOON, || {
                cluster.try_connect_as("postgres", "postgres").ok()
            });
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!(
        "killed: dispatcher {}, caller {}, server {} times, in {:?}",
        kills[0],
        kills[1],
        kills[2],
        started.elapsed()
    );
    wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    let now: String = one(&mut db, "select clock_timestamp()::text");
    wait_for(&mut db, &format!("select count(*) = {SCHEDULES} from {TIMER} t where last_plan_time > '{now}'"), SOON);
    // Every schedule: the whole grid from its creation to its newest plan, each once.
    let row = db
        .query_one(
            "with plans as (select s.schedule_name, s.created_at, s.clock, e.plan_time
                              from sched.schedule s join sched.execution e using (schedule_name)),
                  grid as (select p.schedule_name,
                                  generate_series(p.created_at + substr(p.clock, 7)::interval, max(p.plan_time),
                                                  substr(p.clock, 7)::interval) as plan_time
                             from plans p group by p.schedule_name, p.created_at, p.clock)
             select (select count(*) from plans), (select count(*) from grid),
                    array(select format('%s at %s', schedule_name, plan_time) from grid
                          except all select format('%s at %s', schedule_name, plan_time) from plans),
                    array(select format('%s at %s', schedule_name, plan_time) from plans
                          except all select format('%s at %s', schedule_name, plan_time) from grid)",
            &[],
        )
        .unwrap();
    let (plans, grid): (i64, i64) = (row.get(0), row.get(1));
    let (missing, too_many): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
    println!("{plans} plans");
    assert!(missing.is_empty(), "missing: {missing:?}");
    assert!(too_many.is_empty(), "twice, or not on the grid: {too_many:?}");
    assert_eq!(plans, grid);
    cluster.check_indexes();
}
