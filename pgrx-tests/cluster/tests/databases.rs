//! Commands on whole databases: they never fail or wait because of a dispatcher, and whatever becomes of them, it is back where it belongs.

use postgres::error::SqlState;
use scheduler_cluster_tests::proc::backends;
use scheduler_cluster_tests::scheduler::{
    begin_endless_statement, dispatcher, dispatcher_of, one, served, serves_exactly, whole_grid, SOON,
};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::thread;
use std::time::{Duration, Instant};

const FIRING: &str = "select sched.define_job('job');
    select sched.create_schedule('s', 'every 200 milliseconds', 'job', catch_up => 'every_plan')";
const FIRED: &str = "select count(*) >= 2 from sched.execution where schedule_name = 's'";

/// A cluster whose database `app` has the extension and fires; the client is connected to `postgres`.
fn cluster_with_app() -> (Cluster, Client) {
    let cluster = Cluster::new();
    cluster.execute("create database app");
    let mut app = cluster.with_extension("app");
    app.batch_execute(FIRING).unwrap();
    wait_for(&mut app, FIRED, SOON);
    let db = cluster.connect();
    (cluster, db)
}

/// Waits for a dispatcher that fires plans of after this moment.
fn fires_in(cluster: &Cluster, database: &str) {
    let mut db = cluster.connect_as("postgres", database);
    let now: String = one(&mut db, "select clock_timestamp()::text");
    wait_until(&format!("a dispatcher in {database}"), SOON, || dispatcher(&mut db));
    wait_for(&mut db, &format!("select count(*) > 0 from sched.execution where plan_time > '{now}'"), SOON);
}

fn adopt(cluster: &Cluster) {
    cluster.connect_as("postgres", "copy").batch_execute("select sched.adopt()").unwrap();
}

/// Runs a command, which has to succeed in time: where somebody stays in its database the server refuses it after 5 s, and who waits for
/// the end of his sleep or of his statement is there for a minute or an hour.
fn prompt(db: &mut Client, command: &str) {
    let started = Instant::now();
    db.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    let took = started.elapsed();
    println!("{command}: {took:?}");
    assert!(took < SOON, "{command} took {took:?}");
}

#[test]
fn the_extension_lives_in_five_databases_that_come_and_go() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    let names = ["five", "four", "one", "three", "two"];
    for name in names {
        cluster.execute(&format!("create database {name}"));
        cluster.with_extension(name).batch_execute(FIRING).unwrap();
    }
    serves_exactly(&mut db, &names);
    for name in names {
        fires_in(&cluster, name);
    }
    // One loses the extension, one is dropped, one is dropped under its users, two are left.
    cluster.connect_as("postgres", "one").batch_execute("drop extension scheduler").unwrap();
    prompt(&mut db, "drop database two");
    let user = cluster.connect_as("postgres", "three");
    prompt(&mut db, "drop database three with (force)");
    drop(user);
    serves_exactly(&mut db, &["five", "four"]);
    stays("who has a dispatcher", Duration::from_secs(2), || served(&mut db));
    cluster.set("sched.databases", "four, one");
    serves_exactly(&mut db, &["four"]);
    cluster.connect_as("postgres", "one").batch_execute("create extension scheduler").unwrap();
    serves_exactly(&mut db, &["four", "one"]);
    cluster.set("sched.databases", "*");
    serves_exactly(&mut db, &["five", "four", "one"]);
    for name in ["five", "four"] {
        fires_in(&cluster, name);
        whole_grid(&mut cluster.connect_as("postgres", name), "s", "200 milliseconds");
    }
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
}

#[test]
fn commands_on_a_database_never_wait_for_its_dispatcher() {
    let (cluster, mut db) = cluster_with_app();
    db.batch_execute("set allow_in_place_tablespaces = on").unwrap();
    db.batch_execute("create tablespace other location ''").unwrap();
    // Once while the dispatcher fires and sleeps by turns, once while it is in a statement that takes an hour.
    for endless in [false, true] {
        if endless {
            begin_endless_statement(&mut cluster.connect_as("postgres", "app"));
        }
        let back = |database: &str| {
            if endless {
                let mut db = cluster.connect();
                wait_until(&format!("a dispatcher in {database}"), SOON, || dispatcher_of(&mut db, database));
            } else {
                fires_in(&cluster, database);
            }
        };
        prompt(&mut db, "create database copy template app");
        // The copy has the extension too, and gets a dispatcher of its own once it is adopted.
        adopt(&cluster);
        back("copy");
        back("app");
        // A session can copy the database that it is in.
        prompt(&mut cluster.connect_as("postgres", "app"), "create database second template app");
        back("app");
        prompt(&mut db, "drop database second with (force)");
        prompt(&mut db, "alter database app rename to renamed");
        back("renamed");
        prompt(&mut db, "alter database renamed rename to app");
        back("app");
        prompt(&mut db, "alter database app set tablespace other");
        back("app");
        prompt(&mut db, "alter database app set tablespace pg_default");
        back("app");
        prompt(&mut db, "drop database copy");
    }
    prompt(&mut db, "create database copy template app");
    adopt(&cluster);
    wait_until("a dispatcher in the copy", SOON, || dispatcher_of(&mut db, "copy"));
    prompt(&mut db, "drop database copy with (force)");
    prompt(&mut db, "drop database app");
    serves_exactly(&mut db, &[]);
    cluster.was_quiet(&["canceling"]);
}

/// Of two databases with the extension one is a copy, and there is a worker slot for one of them (the launcher and the server's own take two).
#[test]
fn a_copy_that_nobody_adopts_leaves_the_worker_slot_to_others() {
    let cluster = Cluster::builder().set("max_worker_processes", "3").start();
    cluster.execute("create database app");
    cluster.with_extension("app").batch_execute(FIRING).unwrap();
    fires_in(&cluster, "app");
    let mut db = cluster.connect();
    prompt(&mut db, "create database copy template app");
    // The copy has the slot to itself.
    let says = "dispatcher for database \"copy\" stopped: database \"copy\" is a copy that nobody has adopted";
    let before = cluster.logged(says).len();
    cluster.set("sched.databases", "copy");
    wait_until("the copy's dispatcher to leave", SOON, || (cluster.logged(says).len() > before).then_some(()));
    serves_exactly(&mut db, &[]);
    cluster.set("sched.databases", "app, copy");
    serves_exactly(&mut db, &["app"]);
    fires_in(&cluster, "app");
    prompt(&mut db, "drop database app");
    adopt(&cluster);
    serves_exactly(&mut db, &["copy"]);
    fires_in(&cluster, "copy");
}

/// The launcher looks into a few databases at a time. One whose extension was found is none of these, whatever its dispatcher then waits for.
#[test]
fn locked_tables_in_some_databases_keep_no_other_waiting() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    let mut owners = Vec::new();
    for database in ["locked_1", "locked_2", "locked_3"] {
        cluster.execute(&format!("create database {database}"));
        let mut owner = cluster.with_extension(database);
        let before = wait_until("a dispatcher", SOON, || dispatcher_of(&mut db, database));
        owner.batch_execute("begin; lock table sched.home in access exclusive mode").unwrap();
        db.query_one("select pg_terminate_backend($1)", &[&before]).unwrap();
        let waits = format!(
            "select exists (select from pg_stat_activity where datname = '{database}' and pid <> {before}
                               and backend_type = 'scheduler dispatcher' and wait_event_type = 'Lock')"
        );
        wait_for(&mut db, &waits, SOON);
        owners.push(owner);
    }
    cluster.execute("create database app");
    cluster.with_extension("app").batch_execute(FIRING).unwrap();
    fires_in(&cluster, "app");
    for owner in &mut owners {
        owner.batch_execute("rollback").unwrap();
    }
}

#[test]
fn databases_that_are_created_and_dropped_in_haste_leave_no_line_behind() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    // The launcher looks into each of them, at whatever moment.
    for _ in 0..15 {
        prompt(&mut db, "create database brief");
        prompt(&mut db, "create database copy template brief");
        prompt(&mut db, "alter database brief rename to renamed");
        prompt(&mut db, "drop database renamed");
        prompt(&mut db, "drop database copy");
    }
    serves_exactly(&mut db, &["postgres"]);
    cluster.was_quiet(&["canceling"]);
}

#[test]
fn a_command_that_fails_or_is_rolled_back_brings_the_dispatcher_back() {
    let (cluster, mut db) = cluster_with_app();
    let pid = |db: &mut Client| dispatcher_of(db, "app");
    let gone = |db: &mut Client| {
        wait_until("the dispatcher to be away", SOON, || pid(db).is_none().then_some(()));
        stays("the dispatcher that is kept away", Duration::from_millis(1500), || pid(db));
    };
    let mut other = cluster.connect();

    // For as long as the transaction is open, and no longer.
    other.batch_execute("begin; alter database app rename to renamed").unwrap();
    gone(&mut db);
    other.batch_execute("rollback").unwrap();
    fires_in(&cluster, "app");

    other.batch_execute("begin; savepoint s; alter database app rename to renamed").unwrap();
    gone(&mut db);
    other.batch_execute("rollback to s").unwrap();
    fires_in(&cluster, "app");
    other.batch_execute("commit").unwrap();

    // A savepoint that is released hands its hold to the transaction.
    other.batch_execute("begin; savepoint s; alter database app rename to renamed; release s").unwrap();
    gone(&mut db);
    other.batch_execute("rollback").unwrap();
    fires_in(&cluster, "app");

    // The session ends in the middle: terminated, and without a word.
    for terminated in [true, false] {
        let mut holder = cluster.connect();
        holder.batch_execute("begin; alter database app rename to renamed").unwrap();
        gone(&mut db);
        if terminated {
            let holder: i32 = one(&mut holder, "select pg_backend_pid()");
            db.execute("select pg_terminate_backend($1)", &[&holder]).unwrap();
        }
        drop(holder);
        fires_in(&cluster, "app");
    }

    // Somebody else is in the way: the command fails as it would without us, and not because of us.
    let user = cluster.connect_as("postgres", "app");
    for command in ["drop database app", "create database copy template app", "alter database app rename to renamed"] {
        let error = other.batch_execute(command).expect_err(command);
        assert_eq!(error.code(), Some(&SqlState::OBJECT_IN_USE), "{error:?}");
        assert!(error.as_db_error().unwrap().detail().unwrap().contains("There is 1 other session"), "{error:?}");
        fires_in(&cluster, "app");
    }
    // What Postgres refuses at once makes nobody leave.
    let before = pid(&mut db);
    other.batch_execute("begin").unwrap();
    other.batch_execute("drop database app").unwrap_err();
    other.batch_execute("rollback").unwrap();
    other.batch_execute("do $$ begin execute 'drop database app'; end $$").unwrap_err();
    assert_eq!(pid(&mut db), before);
    drop(user);

    // An error of the command keeps all of its fields.
    let error = other.batch_execute("create table t (a int check (b > 0))").unwrap_err();
    assert!(error.as_db_error().unwrap().position().is_some(), "{error:?}");
    whole_grid(&mut cluster.connect_as("postgres", "app"), "s", "200 milliseconds");
    assert!(cluster.logged("WARNING").is_empty(), "{:#?}", cluster.logged("WARNING"));
}

#[test]
fn a_dispatcher_that_waits_to_connect_makes_way_as_well() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    cluster.execute("create database app");
    cluster.with_extension("app").batch_execute(FIRING).unwrap();
    let mut db = cluster.connect();
    // The hold ends with the session's part; the lock on the database stays, and whoever connects waits for it.
    db.batch_execute("begin; alter database app rename to renamed; prepare transaction 'rename'").unwrap();
    let waiting = "select count(*) from pg_locks where not granted and classid = 'pg_database'::regclass";
    wait_for(&mut db, &format!("select ({waiting}) = 1"), SOON);
    let mut other = cluster.connect();
    let drop = thread::spawn(move || other.batch_execute("drop database app"));
    // First both wait, then only DROP does.
    wait_for(&mut db, "select exists (select from pg_locks where not granted and mode = 'AccessExclusiveLock')", SOON);
    wait_for(&mut db, &format!("select ({waiting}) = 1"), SOON);
    db.batch_execute("rollback prepared 'rename'").unwrap();
    drop.join().unwrap().unwrap();
    serves_exactly(&mut db, &[]);
    cluster.was_quiet(&["canceling"]);
}

#[test]
fn a_server_that_crashes_with_a_hold_forgets_it() {
    let (cluster, _) = cluster_with_app();
    let mut holder = cluster.connect();
    holder.batch_execute("begin; alter database app rename to renamed").unwrap();
    let backend: i32 = one(&mut holder, "select pg_backend_pid()");
    scheduler_cluster_tests::proc::kill(backend, scheduler_cluster_tests::proc::Signal::KILL);
    wait_until("the connection to break", SOON, || holder.is_valid(Duration::from_secs(1)).err());
    wait_until("the server to accept connections", SOON, || cluster.try_connect_as("postgres", "app").ok());
    fires_in(&cluster, "app");
}

#[test]
fn who_may_not_run_the_command_makes_no_dispatcher_leave() {
    let (cluster, mut db) = cluster_with_app();
    db.batch_execute("create role nobody login; create role creator login createdb; create role owner login").unwrap();
    db.batch_execute("create database owned owner owner").unwrap();
    cluster.with_extension("owned").batch_execute(FIRING).unwrap();
    let before = (dispatcher_of(&mut db, "app"), wait_until("a dispatcher", SOON, || dispatcher_of(&mut db, "owned")));
    for (role, command) in [
        ("nobody", "drop database app"),
        ("nobody", "drop database app with (force)"),
        ("nobody", "alter database app rename to renamed"),
        ("nobody", "alter database app set tablespace pg_default"),
        ("nobody", "create database copy template app"),
        ("creator", "create database copy template app"),
        ("creator", "alter database app rename to renamed"),
        // An owner needs CREATEDB to rename.
        ("owner", "alter database owned rename to renamed"),
        ("owner", "create database copy template owned"),
    ] {
        let error = cluster.connect_as(role, "postgres").batch_execute(command).expect_err(command);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{command}: {error:?}");
    }
    for command in ["drop extension scheduler", "alter extension scheduler update", "drop owned by postgres"] {
        let error = cluster.connect_as("nobody", "app").batch_execute(command).expect_err(command);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{command}: {error:?}");
    }
    assert_eq!((dispatcher_of(&mut db, "app"), dispatcher_of(&mut db, "owned").unwrap()), before);
    assert_eq!(cluster.logged("stopped").len(), 0, "{:#?}", cluster.logged("stopped"));
    // Who may, can.
    prompt(&mut cluster.connect_as("owner", "postgres"), "drop database owned");
}

#[test]
fn an_unrelated_drop_database_never_waits_for_a_dispatcher() {
    let (cluster, mut db) = cluster_with_app();
    let mut app = cluster.connect_as("postgres", "app");
    let mut holder = cluster.connect_as("postgres", "app");
    for state in ["firing", "waiting for a lock", "in a long statement"] {
        if state == "waiting for a lock" {
            holder.batch_execute("begin; lock table sched.ledger in access exclusive mode").unwrap();
            let pid = wait_until("a dispatcher", SOON, || dispatcher(&mut app));
            wait_for(
                &mut app,
                &format!("select exists (select from pg_locks where pid = {pid} and not granted)"),
                SOON,
            );
        } else if state == "in a long statement" {
            holder.batch_execute("rollback").unwrap();
            begin_endless_statement(&mut app);
        }
        db.batch_execute("create database unrelated").unwrap();
        let started = Instant::now();
        db.batch_execute("drop database unrelated").unwrap();
        let took = started.elapsed();
        println!("DROP DATABASE while the dispatcher of another is {state}: {took:?}");
        assert!(took < SOON, "{took:?} ({state})");
    }
    assert_eq!(backends(&mut db, "scheduler launcher").len(), 1);
}
