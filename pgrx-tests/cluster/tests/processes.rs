//! The processes of the scheduler beside the server's own: ended, starved of slots, stopped, and run for long.

use scheduler_cluster_tests::proc::{self, backends, Signal};
use scheduler_cluster_tests::scheduler::{
    asleep_since, begin_endless_statement, dispatcher, in_endless_statement, launcher, mostly_within, one, rest,
    served, serves_exactly, whole_grid, BACK, SOON,
};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster, Shutdown};
use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

const FIRING: &str = "select sched.define_job('job');
    select sched.create_schedule('s', 'every 200 milliseconds', 'job', catch_up => 'every_plan')";

fn fires_on(db: &mut Client) {
    let now: String = one(db, "select clock_timestamp()::text");
    wait_for(db, &format!("select count(*) > 2 from sched.execution where plan_time > '{now}'"), SOON);
}

#[test]
fn each_worker_is_back_within_5_s_however_often_it_is_terminated() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(FIRING).unwrap();
    for (name, find) in [("dispatcher", dispatcher as fn(&mut Client) -> Option<i32>), ("launcher", launcher)] {
        let mut took = Vec::new();
        for _ in 0..20 {
            let old = find(&mut db).unwrap();
            let started = Instant::now();
            db.execute("select pg_terminate_backend($1)", &[&old]).unwrap();
            wait_until(name, SOON, || find(&mut db).filter(|pid| *pid != old));
            took.push(started.elapsed());
        }
        println!("{name} terminated 20 times: back after {:?} at the latest", took.iter().max());
        mostly_within(BACK, &took);
    }
    fires_on(&mut db);
    whole_grid(&mut db, "s", "200 milliseconds");
}

#[test]
fn a_cancelled_dispatcher_loses_its_statement_and_nothing_else() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    rest(&mut db);
    let pid = dispatcher(&mut db).unwrap();
    // Like any idle session it does not care.
    for worker in ["scheduler dispatcher", "scheduler launcher"] {
        db.execute("select pg_cancel_backend(pid) from pg_stat_activity where backend_type = $1", &[&worker]).unwrap();
    }
    // It has heard of it before it has something to do.
    rest(&mut db);
    db.batch_execute(FIRING).unwrap();
    fires_on(&mut db);
    begin_endless_statement(&mut db);
    db.execute("select pg_cancel_backend($1)", &[&pid]).unwrap();
    let line = "dispatching due schedules failed: canceling statement due to user request";
    wait_until("the step to fail", SOON, || (cluster.logged(line).len() == 1).then_some(()));
    // It tries again.
    wait_until("the dispatcher to be in the statement", SOON, || in_endless_statement(&mut db).then_some(()));
    assert_eq!(dispatcher(&mut db), Some(pid));
    assert_eq!(cluster.logged("WARNING").len(), 1, "{:#?}", cluster.logged("WARNING"));
}

/// Nothing of a worker's is cancelled but a statement.
#[test]
fn a_cancel_ends_no_worker_whenever_it_comes() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(FIRING).unwrap();
    let workers = (launcher(&mut db).unwrap(), dispatcher(&mut db).unwrap());
    for _ in 0..20 {
        for _ in 0..2000 {
            proc::kill(workers.0, Signal::INT);
            proc::kill(workers.1, Signal::INT);
        }
        db.batch_execute("create database brief strategy file_copy").unwrap();
        db.batch_execute("drop database brief").unwrap();
    }
    fires_on(&mut db);
    assert_eq!((launcher(&mut db), dispatcher(&mut db)), (Some(workers.0), Some(workers.1)));
    assert!(cluster.logged("exited with exit code").is_empty(), "{:#?}", cluster.logged("exited with exit code"));
}

#[test]
fn a_fast_shutdown_does_not_wait_for_a_tick() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    begin_endless_statement(&mut db);
    drop(db);
    let started = Instant::now();
    cluster.stop(Shutdown::Fast);
    let took = started.elapsed();
    println!("fast shutdown in a long statement: {took:?}");
    // Who waits for the statement waits for an hour.
    assert!(took < SOON, "{took:?}");

    // At rest the workers end as quietly as the server's own. (A launcher that hears that the dispatcher left before it hears that it is to
    // leave may be listing the databases then, and ends as any backend does: that may happen once.)
    cluster.start();
    let mut db = cluster.connect();
    wait_until("the dispatcher to be in the statement", SOON, || in_endless_statement(&mut db).then_some(()));
    cluster.set("sched.enabled", "off");
    db.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'", &[]).unwrap();
    wait_until("another dispatcher", SOON, || dispatcher(&mut db).filter(|_| !in_endless_statement(&mut db)));
    let ends_quietly = |mut db: Client| {
        wait_until("it to sleep", SOON, || asleep_since(&mut db));
        drop(db);
        let count = |text: &str| cluster.logged(text).len();
        let before = (count("launcher stopped"), count("dispatcher for database \"postgres\" stopped"), count("FATAL"));
        cluster.stop(Shutdown::Fast);
        let fatal: Vec<_> = cluster.logged("FATAL").split_off(before.2);
        let ours: Vec<_> = fatal.iter().filter(|line| line.contains("scheduler")).collect();
        assert!(
            ours.iter().all(|line| line.contains("scheduler launcher[") && line.contains("terminating")),
            "{ours:#?}"
        );
        assert_eq!(count("dispatcher for database \"postgres\" stopped"), before.1 + 1);
        ours.is_empty() && count("launcher stopped") == before.0 + 1
    };
    if !ends_quietly(db) {
        cluster.start();
        let mut db = cluster.connect();
        wait_until("a dispatcher", SOON, || dispatcher(&mut db));
        assert!(ends_quietly(db), "{}", cluster.log());
    }
}

#[test]
fn a_crash_of_any_backend_brings_everything_back() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(FIRING).unwrap();
    for victim in ["scheduler launcher", "scheduler dispatcher", "client backend", "checkpointer"] {
        // A busy machine may be late by itself, but not each time.
        let mut took = Vec::new();
        while took.iter().all(|took| *took >= BACK + BACK) {
            assert!(took.len() < 3, "{victim} killed: dispatcher back after {took:?}");
            let (pid, old) = (backends(&mut db, victim)[0], dispatcher(&mut db));
            let started = Instant::now();
            proc::kill(pid, Signal::KILL);
            // A connection that was made just before the server noticed breaks as well.
            db = wait_until("another dispatcher", SOON, || {
                let mut db = cluster.try_connect_as("postgres", "postgres").ok()?;
                let query = "select pid from pg_stat_activity where backend_type = 'scheduler dispatcher'";
                let pid: i32 = db.query_opt(query, &[]).ok()??.get(0);
                (Some(pid) != old).then_some(db)
            });
            took.push(started.elapsed());
            println!("{victim} killed: dispatcher back after {:?}", started.elapsed());
            fires_on(&mut db);
        }
    }
    whole_grid(&mut db, "s", "200 milliseconds");
}

#[test]
fn missing_worker_slots_are_said_once_and_the_lack_heals_by_itself() {
    // The server's own launcher of logical replication has one, ours has one: one is left.
    let cluster = Cluster::builder().set("max_worker_processes", "3").set("sched.databases", "none").start();
    let names = ["one", "two", "three"];
    for name in names {
        cluster.execute(&format!("create database {name}"));
        cluster.connect_as("postgres", name).batch_execute("create extension scheduler").unwrap();
    }
    cluster.set("sched.databases", "*");
    let mut db = cluster.connect();
    wait_until("the warning", SOON, || (!cluster.logged("no worker slot is free").is_empty()).then_some(()));
    let mut turn = Vec::new();
    // Whoever has the slot gives it up: each time another database has its turn, without anybody's help.
    for left in [2, 1] {
        let first = wait_until("a dispatcher", SOON, || served(&mut db).first().cloned());
        assert!(!turn.contains(&first), "{first} has no extension any more");
        stays("who has a dispatcher", Duration::from_secs(1), || served(&mut db));
        cluster.connect_as("postgres", &first).batch_execute("drop extension scheduler").unwrap();
        turn.push(first);
        wait_until(&format!("one of {left} more"), SOON, || {
            served(&mut db).first().filter(|name| !turn.contains(name)).cloned()
        });
    }
    wait_until("the end of the lack in the log", Duration::from_secs(90), || {
        (!cluster.logged("every database has its dispatcher again").is_empty()).then_some(())
    });
    let lines = cluster.logged("no worker slot is free");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    // It names those that waited then, all but the one that had the slot.
    let waiting: Vec<&str> = names.into_iter().filter(|name| *name != turn[0]).collect();
    let named = lines[0].split_once(" (waiting: ").map(|(_, named)| named).unwrap_or_default();
    assert!(waiting.iter().all(|name| named.contains(&format!("\"{name}\""))), "{waiting:?}: {lines:#?}");
    assert!(!named.contains(&turn[0]), "{lines:#?}");
    assert_eq!(cluster.logged("FATAL").len(), 0, "{:#?}", cluster.logged("FATAL"));
}

#[test]
fn of_many_databases_that_wait_for_a_worker_slot_the_log_names_the_first() {
    let cluster = Cluster::builder().set("max_worker_processes", "2").set("sched.databases", "none").start();
    let mut db = cluster.connect();
    for number in 0..13 {
        db.batch_execute(&format!("create database many_{number}")).unwrap();
    }
    cluster.set("sched.databases", "*");
    // There is a slot for the launcher, and none for a look into any of these: each of them is looked into, and `postgres`.
    let line = wait_until("the warning", SOON, || cluster.logged("no worker slot is free").first().cloned());
    let named = line.split_once("raise max_worker_processes (waiting: ").map(|(_, named)| named).unwrap_or_default();
    assert_eq!(named.matches("many_").count() + named.matches("\"postgres\"").count(), 10, "{line}");
    assert!(named.contains(" and ") && named.ends_with(" more)"), "{line}");
}

/// How many dispatchers there were at the same time at most, by what the postmaster says of its children at level debug1.
fn most_at_a_time(cluster: &Cluster) -> i32 {
    let (mut now, mut most) = (0, 0);
    for line in cluster.logged("registering background worker \"scheduler dispatcher\"") {
        now += if line.contains("unregistering") { -1 } else { 1 };
        most = most.max(now);
    }
    most
}

#[test]
fn many_databases_are_looked_into_a_few_at_a_time() {
    let cluster = Cluster::builder().set("sched.databases", "none").set("log_min_messages", "debug1").start();
    for i in 0..12 {
        cluster.execute(&format!("create database d{i}"));
    }
    cluster.connect_as("postgres", "d7").batch_execute("create extension scheduler").unwrap();
    assert_eq!(most_at_a_time(&cluster), 0);
    cluster.set("sched.databases", "*");
    let mut db = cluster.connect();
    serves_exactly(&mut db, &["d7"]);
    stays("who has a dispatcher", Duration::from_secs(2), || served(&mut db));
    // Three looks and the one that stays; the postmaster hears of an end a moment later.
    let most = most_at_a_time(&cluster);
    assert!((1..=8).contains(&most), "{most} dispatchers at a time");
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
}

#[test]
fn templates_and_databases_without_connections_are_left_alone() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    let names = ["closed", "invalid", "template"];
    for name in names {
        db.batch_execute(&format!("create database {name}")).unwrap();
        cluster.with_extension(name).batch_execute(FIRING).unwrap();
    }
    db.batch_execute("alter database template is_template true").unwrap();
    db.batch_execute("alter database closed allow_connections false").unwrap();
    wait_until("the dispatchers to leave", SOON, || (served(&mut db) == ["invalid"]).then_some(()));
    // What a DROP DATABASE leaves that was interrupted.
    db.batch_execute("update pg_database set datconnlimit = -2 where datname = 'invalid'").unwrap();
    cluster.reload();
    // Of those that have the extension: into others the launcher may look for a moment.
    let with_extension =
        |db: &mut Client| -> Vec<String> { served(db).into_iter().filter(|name| name != "postgres").collect() };
    wait_until("the dispatchers to leave", SOON, || with_extension(&mut db).is_empty().then_some(()));
    let lines = cluster.log().lines().count();
    stays("who has a dispatcher", Duration::from_secs(3), || with_extension(&mut db));
    cluster.restart(Shutdown::Fast);
    let mut db = cluster.connect();
    serves_exactly(&mut db, &[]);
    stays("who has a dispatcher", Duration::from_secs(2), || with_extension(&mut db));
    let log = cluster.log();
    assert!(log.lines().skip(lines).all(|line| !line.contains("dispatcher")), "{log}");

    db.batch_execute("create database copy template template").unwrap();
    cluster.connect_as("postgres", "copy").batch_execute("select sched.adopt()").unwrap();
    db.batch_execute("alter database template is_template false").unwrap();
    db.batch_execute("alter database closed allow_connections true").unwrap();
    db.batch_execute("drop database invalid").unwrap();
    wait_until("the dispatchers to be back", SOON, || {
        (served(&mut db) == ["closed", "copy", "template"]).then_some(())
    });
    let noise: Vec<_> = cluster
        .logged("scheduler")
        .into_iter()
        .filter(|line| !line.contains("LOG:") && !line.contains("HINT:"))
        .collect();
    assert!(noise.is_empty(), "{noise:#?}");
}

/// What a process holds at one moment.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// kB that it has for itself: not what it has mapped of shared buffers, which grows with what it reads.
    private: i64,
    /// kB in use of what the server has given out, as exact as a leak of ours in its contexts is small.
    contexts: i64,
    files: i64,
}

impl Held {
    fn by(pid: i32, cluster: &Cluster, db: &mut Client) -> Held {
        Held { private: private_memory(pid), contexts: memory_in_contexts(pid, cluster, db), files: open_files(pid) }
    }
}

fn private_memory(pid: i32) -> i64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a dispatcher runs");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux says RssAnon");
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse().ok()).expect("a number")
}

fn memory_in_contexts(pid: i32, cluster: &Cluster, db: &mut Client) -> i64 {
    let before = cluster.logged("Grand total:").len();
    db.execute("select pg_log_backend_memory_contexts($1)", &[&pid]).unwrap();
    let line =
        wait_until("the memory contexts in the log", SOON, || cluster.logged("Grand total:").get(before).cloned());
    let used =
        line.rsplit("; ").next().and_then(|text| text.split_whitespace().find_map(|word| word.parse::<i64>().ok()));
    used.unwrap_or_else(|| panic!("{line}")) / 1024
}

/// How many files a process has open, but for one of each file of a table or an index: those the server keeps open from when it first
/// needs them, as many as there are. Twice the same one counts, and so does one that is deleted.
fn open_files(pid: i32) -> i64 {
    let mut tables = HashSet::new();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("a dispatcher runs");
    // What was closed since the directory was read has no target any more.
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()?.into_os_string().into_string().ok());
    let of_a_table = |target: &str| {
        let kept = target.contains("/base/") || target.contains("/global/");
        kept && target
            .rsplit('/')
            .next()
            .is_some_and(|name| name.bytes().all(|byte| b"0123456789_fsmv.".contains(&byte)))
    };
    targets.filter(|target| !(of_a_table(target) && tables.insert(target.clone()))).count() as i64
}

/// What grew between any two of these looks: a leak grows all the time; caches grow, and what they hold is opened, now and then, each in
/// its own time. The smallest piece of memory, left in each of 5,000 ticks, makes 80 kB: what grows by 32 kB at most is no leak.
fn leaks(looks: &[Held]) -> Vec<&'static str> {
    let grew = |of: fn(&Held) -> i64, by: i64| looks.windows(2).all(|two| of(&two[1]) - of(&two[0]) > by);
    let kinds = [
        ("private memory", grew(|held| held.private, 32)),
        ("memory in contexts", grew(|held| held.contexts, 32)),
        ("open files", grew(|held| held.files, 0)),
    ];
    kinds.into_iter().filter(|(_, grew)| *grew).map(|(name, _)| name).collect()
}

/// In three stretches of so many ticks, or more.
#[test]
#[ignore = "long: two minutes"]
fn long_nothing_leaks_over_ten_thousand_ticks() {
    let stretch = 5000;
    let cluster = Cluster::builder().set("sched.log_ticks", "on").set("max_wal_size", "4GB").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('job'); select sched.create_schedule('s', 'every 1 hour', 'job')")
        .unwrap();
    let pid = dispatcher(&mut db).unwrap();
    // Each edit wakes the dispatcher, which has seen it when the change is gone.
    let mut ticks = |count: usize| {
        for i in 0..count {
            let clock = if i % 2 == 0 { "at 2100-01-01 00:00+00" } else { "every 1 hour" };
            db.batch_execute(&format!("select sched.alter_schedule('s', clock => '{clock}')")).unwrap();
            while one::<bool>(&mut db, "select exists (select from sched.schedule_change)") {}
        }
        rest(&mut db);
        Held::by(pid, &cluster, &mut db)
    };
    ticks(1000);
    let mut looks: Vec<_> = (0..3).map(|_| ticks(stretch)).collect();
    // Caches may grow in each of two stretches by chance; what grows in each of six leaks.
    while looks.len() < 7 && !leaks(&looks).is_empty() {
        looks.push(ticks(stretch));
    }
    println!("after {stretch} ticks each: {looks:?}");
    let lines = cluster.logged("scheduler: tick in database").len();
    assert!(lines >= 1000 + stretch * looks.len(), "{lines} ticks");
    assert_eq!(dispatcher(&mut db), Some(pid));
    assert!(looks.iter().all(|held| held.private < 10_000), "{looks:?}");
    assert!(leaks(&looks).is_empty(), "{:?} grew all the time: {looks:?}", leaks(&looks));
    let locks: i64 = one(&mut db, &format!("select count(*) from pg_locks where pid = {pid}"));
    assert_eq!(locks, 0);
    let shared: i64 =
        one(&mut db, "select sum(allocated_size)::bigint from pg_shmem_allocations where name like 'scheduler%'");
    assert!(shared > 0 && shared < 3200 * 1024, "{shared} bytes of shared memory");
}

#[test]
#[ignore = "long: a minute"]
fn long_slots_of_databases_that_are_gone_are_used_again() {
    // More databases than there are slots in shared memory, which are 256, one after the other.
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    db.batch_execute("create database kept").unwrap();
    cluster.with_extension("kept").batch_execute(FIRING).unwrap();
    for _ in 0..260 {
        db.batch_execute("create database brief strategy file_copy").unwrap();
        db.batch_execute("drop database brief").unwrap();
    }
    db.batch_execute("create database last").unwrap();
    cluster.with_extension("last").batch_execute(FIRING).unwrap();
    fires_on(&mut cluster.connect_as("postgres", "last"));
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
}
