//! The application in examples/fastapi: three instances and two workers behind PgBouncer, whose processes are killed while orders come in.
//! Each effect is there once. Its tables have no unique constraint that would hide a second one.

mod load;
mod shop;

use load::Load;
use scheduler_cluster_tests::random::Random;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::wait_until;
use shop::{Kind, Shop};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Each order has two runs. `kills` come in any order, spread over the runs; between them all processes are restarted `rolls` times.
fn survives(lease: &str, orders: u64, ahead: u64, kills: &[(Kind, usize)], rolls: usize) -> Shop {
    let began = Instant::now();
    let mut random = Random::seeded();
    let mut shop = Shop::open(lease, &mut random);
    let load = Load::new(&shop.ports, orders, ahead);
    let clients = load.begin(8, &mut random);
    let mut events: Vec<Option<Kind>> = kills.iter().flat_map(|(kind, number)| vec![Some(*kind); *number]).collect();
    for last in (1..events.len()).rev() {
        events.swap(last, usize::try_from(random.below(last as u64 + 1)).unwrap());
    }
    for roll in 0..rolls {
        events.insert(events.len() * (roll + 1) / (rolls + 1), None);
    }
    let runs = orders * 2;
    let until = |shop: &mut Shop, number: u64| {
        let deadline = Duration::from_secs(120 + runs / 2);
        wait_until(&format!("{number} runs"), deadline, || (shop.look(&load) >= number).then_some(()));
    };
    for (number, event) in events.iter().enumerate() {
        until(&mut shop, runs * (number as u64 + 1) / (events.len() as u64 + 2));
        match event {
            Some(kind) => shop.kill(*kind, &mut random),
            None => shop.roll(),
        }
    }
    until(&mut shop, runs);
    load.over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("a client of the application");
    }
    shop.cluster.connect_as("shop", "shop").execute("select sched.pause('shop report')", &[]).unwrap();
    wait_until("nothing to be left", Duration::from_secs(60), || {
        shop.look(&load);
        let left =
            "select count(*) from sched.execution where status in ('PENDING', 'RUNNING') or next_retry_at is not null";
        (one::<i64>(&mut shop.db, left) == 0).then_some(())
    });
    let path: String = one(&mut shop.db, "select '/orders/' || id from placed_order order by random() limit 1");
    let answer = load::request(shop.ports[0], "GET", &path, "").expect("an answer");
    assert!(answer.contains(r#"{"reserved":true,"paid":true}"#), "{answer}");
    shop.close();
    report(&mut shop, &load, began.elapsed());
    each_effect_is_there_once(&mut shop, orders);
    attempts_are_explained(&mut shop);
    assert!(shop.connections.values().all(|most| *most <= 10), "connections: {:?}", shop.connections);
    shop
}

fn each_effect_is_there_once(shop: &mut Shop, orders: u64) {
    let db = &mut shop.db;
    let wrong = "select string_agg(job_name || ' ' || status || ' ' || coalesce(error_msg, ''), e'\\n') from sched.execution where status <> 'SUCCESS'";
    assert_eq!(one::<Option<String>>(db, wrong), None);
    for (job, table) in [("shop reserve", "reservation"), ("shop charge", "payment")] {
        let counted = one::<String>(
            db,
            &format!(
                "select concat_ws(' ', count(*), count(distinct order_id), count(distinct execution_id)) from {table}"
            ),
        );
        assert_eq!(counted, format!("{orders} {orders} {orders}"), "{table}");
        let ledger = format!(
            "select count(*) from sched.execution e join {table} t on t.execution_id = e.id and t.attempt = e.attempt
              where e.job_name = '{job}' and e.scope_id = t.order_id::text"
        );
        assert_eq!(one::<i64>(db, &ledger), i64::try_from(orders).unwrap(), "{job}");
        assert_eq!(
            one::<i64>(db, &format!("select count(*) from sched.execution where job_name = '{job}'")),
            i64::try_from(orders).unwrap()
        );
    }
    let reports = "select count(*) > 0 and count(*) = count(distinct plan_time)
                      and count(*) = (select count(*) from sched.execution where job_name = 'shop report') from sales_report";
    assert!(one::<bool>(db, reports), "each report is there once");
    let declared =
        "select string_agg(schedule_name || ' ' || group_name, ', ' order by schedule_name) from sched.schedules";
    assert_eq!(one::<String>(db, declared), "shop report shop, shop tidy shop");
}

/// Each attempt beyond the first follows one whose worker was killed, or whose server process was.
fn attempts_are_explained(shop: &mut Shop) {
    let lost = "select id::text || ' ' || n, job_name from sched.execution, generate_series(1, attempt - 1) as n where attempt > 1";
    let lost: Vec<(String, String)> =
        shop.db.query(lost, &[]).unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    let unexplained: BTreeSet<_> = lost.iter().filter(|(run, _)| !shop.killed_attempts.contains(run)).collect();
    println!("attempts: {} lost, {} of them not by a killed worker: {unexplained:?}", lost.len(), unexplained.len());
    let odd: Vec<_> = unexplained
        .iter()
        .filter(|(run, _)| {
            let crashed = shop.failures.get(run).is_some_and(|failure| failure.contains("server conn crashed?"));
            !shop.cut_off_attempts.contains(run) && !crashed
        })
        .collect();
    assert!(odd.is_empty(), "attempts that nothing explains: {odd:?}\n{}", shop.printed);
}

fn report(shop: &mut Shop, load: &Load, took: Duration) {
    println!(
        "took {} s; kills {:?}; restarts {}, instances that ended by themselves {}; orders refused {} times, repeated {}",
        took.as_secs(), shop.kills, shop.restarts, shop.web_ended, load.refused.load(Ordering::Relaxed), load.repeated.load(Ordering::Relaxed)
    );
    println!(
        "connections of a worker in mode finish: at most {:?}; its runs at a time: {}; runs that were in hand when a worker was killed: {}",
        shop.connections.values().max(), shop.most_at_once, shop.killed_attempts.len()
    );
    let mut failures = BTreeMap::<&str, u32>::new();
    for failure in shop.failures.values() {
        *failures.entry(failure).or_default() += 1;
    }
    println!("failed attempts: {failures:#?}");
    let statuses = "select job_name || ' ' || status || ' attempt ' || attempt || ' ' || coalesce(error_code, '') || ': ' || count(*)
                      from sched.execution group by job_name, status, attempt, error_code order by 1";
    for row in shop.db.query(statuses, &[]).unwrap() {
        println!("{}", row.get::<_, String>(0));
    }
}

#[test]
fn a_sample_application_survives_five_kills() {
    survives("6 s", 100, 100, &[(Kind::Worker, 1), (Kind::Web, 1), (Kind::Session, 2), (Kind::Pooler, 1)], 1);
}

#[test]
#[ignore = "long: ten minutes"]
fn long_a_sample_application_survives_a_hundred_kills() {
    let shop = survives(
        "20 s",
        5_000,
        400,
        &[(Kind::Worker, 25), (Kind::Web, 25), (Kind::Session, 40), (Kind::Pooler, 10)],
        4,
    );
    assert_eq!(shop.most_at_once, 40, "all slots are to be in use, for the number of connections to say something");
}
