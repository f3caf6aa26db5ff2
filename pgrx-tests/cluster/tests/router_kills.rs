//! Four servers that share scopes, killed one after the other behind their router.

use postgres::Client;
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{router, wait_for, wait_until, Cluster};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVERS: usize = 4;

/// What producers are told, and tell.
#[derive(Default)]
struct Load {
    stops: AtomicBool,
    acknowledged: AtomicU64,
}

/// What was acknowledged, by scope and plan time.
type Acknowledged = Vec<(String, i64)>;

/// Enqueues through the router until it is told to stop, each execution until it is acknowledged; and how long those took that were at once.
fn produce(mut connect: impl FnMut() -> Client, name: &str, load: &Load) -> (Acknowledged, Vec<Duration>) {
    let (mut acknowledged, mut took) = (Vec::new(), Vec::new());
    let mut client = connect();
    for n in 0_i64.. {
        if load.stops.load(Ordering::Relaxed) {
            break;
        }
        let scope = format!("{name}{}", n % 500);
        let call = format!(
            "select sched.enqueue('work', scope_kind => 'tenant', scope_id => '{scope}', plan_time => timestamptz '2026-01-01' + {n} * interval '1 second')"
        );
        let began = Instant::now();
        let mut tries = 0;
        let is_done = wait_until("the server to be back", Duration::from_secs(60), || {
            tries += 1;
            if client.is_closed() {
                client = connect();
            }
            let is_done = client.batch_execute(&call).is_ok();
            (is_done || load.stops.load(Ordering::Relaxed)).then_some(is_done)
        });
        if !is_done {
            break;
        }
        acknowledged.push((scope, n));
        load.acknowledged.fetch_add(1, Ordering::Relaxed);
        if tries == 1 {
            took.push(began.elapsed());
        }
    }
    (acknowledged, took)
}

fn p99(took: &mut [Duration]) -> Duration {
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Kills so many servers, each a time after the one before, with schedules and enqueues all the while, and looks for what was lost or doubled.
fn kills(schedules: i64, kills: usize) {
    if !router::is_there() {
        return;
    }
    let front = Cluster::new();
    let clusters: Vec<Cluster> =
        (0..SERVERS).map(|_| Cluster::builder().durable().set("sched.tick_interval", "1s").start_other()).collect();
    let mut servers: Vec<Client> = Vec::new();
    for (n, cluster) in clusters.iter().enumerate() {
        let mut server = cluster.with_extension("postgres");
        server.batch_execute(&format!("select sched.set_buckets('{}')", router::part(n, SERVERS))).unwrap();
        servers.push(server);
    }
    let strings: Vec<String> = clusters
        .iter()
        .map(|cluster| format!("host={} port=5432 dbname=postgres", cluster.folder().display()))
        .collect();
    front.execute("create database router");
    let mut root = front.connect_as("postgres", "router");
    router::connect(&mut root, &strings);
    router::install(&mut root, &mut servers[0]);
    root.batch_execute("select sched.define_job('tick'); select sched.define_job('work', queue => 'work')").unwrap();
    let specs = format!(
        "(select jsonb_agg(jsonb_build_object('schedule_name', 's' || i, 'clock', 'every 5 seconds from epoch', 'job_name', 'tick', 'catch_up', 'every_plan'))
            from generate_series(1, {schedules}) i)"
    );
    assert_eq!(one::<i64>(&mut root, &format!("select sched.create_schedules({specs})")), schedules);
    // The fullest has a tenth more than the mean at most.
    let mut counts: Vec<i64> =
        servers.iter_mut().map(|server| one(server, "select count(*) from sched.schedules")).collect();
    counts.sort_unstable();
    let fullest = counts[SERVERS - 1] as f64 / (schedules as f64 / SERVERS as f64);
    println!("the fullest server has {fullest:.3} of the mean");
    if schedules >= 10_000 {
        assert!(fullest <= 1.10, "{counts:?}");
    }
    for server in &mut servers {
        wait_for(server, "select not exists (select from sched.schedules where last_plan_time is null)", SOON);
    }
    let load = Arc::new(Load::default());
    let producers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let load = Arc::clone(&load);
            let folder = front.folder().to_owned();
            let connect = move || {
                let mut config = postgres::Config::new();
                config.host_path(&folder).user("postgres").dbname("router").connect(postgres::NoTls).unwrap()
            };
            std::thread::spawn(move || produce(connect, name, &load))
        })
        .collect();
    let mut random = Random::seeded();
    for n in 0..kills {
        let victim = usize::try_from(random.below(SERVERS as u64)).unwrap();
        // At a moment of theirs.
        let then = load.acknowledged.load(Ordering::Relaxed) + 1 + random.below(1_500);
        wait_until("more to be enqueued", SOON, || (load.acknowledged.load(Ordering::Relaxed) >= then).then_some(()));
        clusters[victim].crash();
        // The others go on.
        let scope: String = one(
            &mut root,
            &format!("select 'o' || i from generate_series(1, 1000) i where sched.bucket('tenant', 'o' || i) * {SERVERS} / 1024 <> {victim} limit 1"),
        );
        let call = format!("select sched.enqueue('work', scope_kind => 'tenant', scope_id => '{scope}', plan_time => timestamptz '2026-01-01' + {n} * interval '1 second')");
        wait_until("the others to answer", SOON, || root.batch_execute(&call).is_ok().then_some(()));
        clusters[victim].start();
    }
    load.stops.store(true, Ordering::Relaxed);
    let produced: Vec<(Acknowledged, Vec<Duration>)> =
        producers.into_iter().map(|thread| thread.join().unwrap()).collect();
    let mut servers: Vec<Client> = clusters.iter().map(Cluster::connect).collect();
    let until: String = one(&mut servers[0], "select clock_timestamp()::text");
    let mut keys = HashSet::new();
    let mut work = HashSet::new();
    let mut fires = 0;
    for server in &mut servers {
        wait_for(
            server,
            &format!(
                "select not exists (select from sched.schedules where next_plan_time <= '{until}' or state <> 'armed')"
            ),
            Duration::from_secs(120),
        );
        let row = server
            .query_one(
                &format!(
                    "with grid as (
                        select s.schedule_name, g.plan_time
                          from sched.schedule s
                         cross join generate_series(to_timestamp(ceil(extract(epoch from s.created_at) / 5) * 5), '{until}', interval '5 seconds') as g (plan_time)),
                     fired as (select schedule_name, plan_time from sched.ledger where job_name = 'tick' and plan_time <= '{until}')
                     select (select count(*) from (select * from grid except all select * from fired) m),
                            (select count(*) from (select * from fired except all select * from grid) m), (select count(*) from fired)"
                ),
                &[],
            )
            .unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 0), "plan times missing, and too many");
        fires += row.get::<_, i64>(2);
        for row in server.query("select distinct key::text from sched.ledger", &[]).unwrap() {
            assert!(keys.insert(row.get::<_, String>(0)), "a key is on two servers");
        }
        for row in server
            .query("select scope_id, extract(epoch from plan_time - timestamptz '2026-01-01')::bigint from sched.ledger where job_name = 'work'", &[])
            .unwrap()
        {
            assert!(work.insert((row.get::<_, String>(0), row.get::<_, i64>(1))), "enqueued twice");
        }
    }
    let mut count = 0;
    for (acknowledged, mut took) in produced {
        count += acknowledged.len();
        for one in acknowledged {
            assert!(work.contains(&one), "{one:?} was acknowledged and is lost");
        }
        println!("a routed enqueue at once took {:?} at p99", p99(&mut took));
    }
    println!("{fires} fires, {count} enqueues acknowledged, {kills} kills");
    assert!(count > 100 && fires >= schedules);
}

#[test]
fn a_server_that_is_killed_loses_nothing() {
    kills(200, 2);
}

#[test]
#[ignore = "minutes"]
fn long_twenty_kills_with_ten_thousand_schedules() {
    kills(10_000, 20);
}
