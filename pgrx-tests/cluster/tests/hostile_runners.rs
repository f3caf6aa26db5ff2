//! Attacks by SQL jobs on what their processes keep and take: the rights of a login that no longer holds, and the places of all others.

use scheduler_cluster_tests::scheduler::{one, rest, SOON};
use scheduler_cluster_tests::sql_jobs::{define, ended, enqueue, sleeping, status};
use scheduler_cluster_tests::{stays, wait_for, wait_until, Client, Cluster};
use std::time::Duration;

/// Runs a job once; by which process, and the first value that it returned. No attempt is lost on the way.
fn run_once(db: &mut Client, job: &str) -> (i32, String) {
    let id = enqueue(db, job, 1).remove(0);
    assert_eq!(ended(db, &id), ("SUCCESS".to_owned(), String::new()), "{job}");
    let query =
        format!("select runner_id, attempt, result -> 'rows' -> 0 ->> 0 from sched.execution where id = '{id}'");
    let row = db.query_one(&query, &[]).unwrap();
    assert_eq!(row.get::<_, i32>(1), 1, "attempts of {job}");
    (row.get::<_, String>(0).strip_prefix("sql/").unwrap().parse().unwrap(), row.get(2))
}

/// A cluster whose runners wait for long, and a client of the role `evil` that was made with these attributes.
fn with_evil(attributes: &str) -> (Cluster, Client, Client) {
    let cluster = Cluster::builder().set("sched.runner_idle", "1h").start();
    let mut root = cluster.with_extension("postgres");
    root.batch_execute(&format!("create role evil login {attributes}; select sched.grant_use('evil')")).unwrap();
    let evil = cluster.connect_as("evil", "postgres");
    (cluster, root, evil)
}

const IS_SUPERUSER: &str = "select current_setting('is_superuser')";

#[test]
fn a_role_that_has_lost_superuser_has_it_in_no_process() {
    let (_cluster, mut root, mut evil) = with_evil("superuser");
    define(&mut evil, "who", IS_SUPERUSER, "");
    define(&mut evil, "escape", "set session authorization postgres; create role escaped superuser", "");
    let (before, is_superuser) = run_once(&mut root, "who");
    assert_eq!(is_superuser, "on");
    root.batch_execute("alter role evil nosuperuser").unwrap();
    let id = enqueue(&mut root, "escape", 1).remove(0);
    assert_eq!(ended(&mut root, &id), ("FAILED".to_owned(), "42501".to_owned()));
    assert!(!one::<bool>(&mut root, "select exists (select from pg_roles where rolname = 'escaped')"));
    let (after, is_superuser) = run_once(&mut root, "who");
    assert_eq!(is_superuser, "off");
    assert_ne!(after, before);
    // And the other way round.
    root.batch_execute("alter role evil superuser").unwrap();
    assert_eq!(run_once(&mut root, "who").1, "on");
}

#[test]
fn a_process_ends_with_any_change_of_what_its_login_read() {
    let (cluster, mut root, mut evil) = with_evil("");
    define(&mut evil, "who", IS_SUPERUSER, "");
    let mut before = run_once(&mut root, "who").0;
    for (change, ends) in [
        ("alter role evil bypassrls", true),
        ("alter role evil nobypassrls", true),
        ("alter role evil valid until '2100-01-01'", true),
        ("alter role evil connection limit 50", true),
        ("alter role evil createrole", true),
        ("alter role evil rename to other", true),
        ("alter role other rename to evil", true),
        ("alter role evil set work_mem = '5MB'", true),
        ("alter role evil in database postgres set app.name = 'x'", true),
        ("alter role all set app.name = 'x'", true),
        ("alter database postgres set app.name = 'y'", true),
        ("alter database postgres connection limit 90", true),
        // Back to what it was is not what it was: a session may have begun in between.
        ("alter role evil superuser; alter role evil nosuperuser", true),
        ("create role friend; alter role friend superuser; alter role friend set work_mem = '5MB'", false),
        ("create database another; alter database another connection limit 5", false),
        ("vacuum pg_authid; vacuum pg_database", false),
    ] {
        change.split("; ").for_each(|statement| cluster.execute(statement));
        let (after, is_superuser) = run_once(&mut root, "who");
        assert_eq!(is_superuser, "off", "after {change}");
        assert_eq!(after != before, ends, "a process of before, after {change}");
        before = after;
    }
}

#[test]
fn a_role_that_has_the_name_of_one_that_was_dropped_has_no_process_of_it() {
    let (_cluster, mut root, mut evil) = with_evil("superuser");
    define(&mut evil, "of the old", IS_SUPERUSER, "");
    let (before, _) = run_once(&mut root, "of the old");
    drop(evil);
    root.batch_execute(
        "select sched.revoke_all('evil'); drop role evil; create role evil login; select sched.grant_use('evil')",
    )
    .unwrap();
    let id = enqueue(&mut root, "of the old", 1).remove(0);
    assert_eq!(ended(&mut root, &id), ("FAILED".to_owned(), "28000".to_owned()));
    root.batch_execute("set role evil").unwrap();
    define(&mut root, "of the new", IS_SUPERUSER, "");
    root.batch_execute("reset role").unwrap();
    let (after, is_superuser) = run_once(&mut root, "of the new");
    assert_eq!(is_superuser, "off");
    assert_ne!(after, before);
}

/// What changes while a process connects, and before it has looked for a run.
#[test]
fn a_process_that_has_just_connected_has_nothing_of_before() {
    let (cluster, mut root, mut evil) = with_evil("superuser");
    define(
        &mut evil,
        "who",
        "select current_setting('is_superuser') || coalesce(current_setting('app.name', true), '')",
        "",
    );
    cluster.set("sched.max_sql_runners", "0");
    wait_for(&mut root, "select current_setting('sched.max_sql_runners') = '0'", SOON);
    let id = enqueue(&mut root, "who", 1).remove(0);
    // Nothing but the reload makes the dispatcher read the jobs.
    rest(&mut root);
    let mut holder = cluster.connect();
    holder.batch_execute("begin; lock table sched.job in access exclusive mode").unwrap();
    cluster.set("sched.max_sql_runners", "2");
    let stopped =
        "select pid from pg_stat_activity where backend_type = 'scheduler runner' and wait_event_type = 'Lock'";
    let mut watcher = cluster.connect();
    wait_until("a runner that has connected", SOON, || watcher.query_opt(stopped, &[]).unwrap());
    watcher.batch_execute("alter role evil nosuperuser; alter role evil set app.name = ' new'").unwrap();
    holder.batch_execute("commit").unwrap();
    assert_eq!(ended(&mut root, &id), ("SUCCESS".to_owned(), String::new()));
    let result = format!("select result -> 'rows' -> 0 ->> 0 || attempt from sched.execution where id = '{id}'");
    assert_eq!(one::<String>(&mut root, &result), "off new1");
}

/// How many runs of these jobs have a process, in this database.
fn running(db: &mut Client, job: &str) -> i64 {
    one(db, &format!("select count(*) from sched.running where job_name = '{job}'"))
}

#[test]
fn one_role_cannot_take_all_runners() {
    let cluster = Cluster::new();
    cluster.execute("create database other");
    let mut root = cluster.with_extension("postgres");
    let mut far = cluster.with_extension("other");
    root.batch_execute("create role evil login; create role victim login").unwrap();
    for db in [&mut root, &mut far] {
        db.batch_execute("select sched.grant_use('evil'), sched.grant_use('victim')").unwrap();
    }
    for database in ["postgres", "other"] {
        let mut evil = cluster.connect_as("evil", database);
        define(&mut evil, "endless", "select pg_sleep(100000)", "");
        enqueue(&mut evil, "endless", 8);
    }
    wait_until("its share of the runners", SOON, || {
        (running(&mut root, "endless") + running(&mut far, "endless") >= 3).then_some(())
    });
    // In both databases others have their turn, again and again.
    for (number, database) in ["postgres", "other", "postgres", "other"].iter().enumerate() {
        let mut victim = cluster.connect_as("victim", database);
        let job = format!("theirs {number}");
        define(&mut victim, &job, "select 1", "");
        let id = enqueue(&mut victim, &job, 1).remove(0);
        assert_eq!(ended(&mut victim, &id).0, "SUCCESS", "in {database}");
    }
    stays("its runs", Duration::from_secs(1), || running(&mut root, "endless") + running(&mut far, "endless"));
    assert_eq!(running(&mut root, "endless") + running(&mut far, "endless"), 3);
    // What waits says why.
    let message = "select message from sched.health() where component = 'runners'";
    wait_until("health to name the role", SOON, || {
        one::<String>(&mut root, message)
            .ends_with("; runs of role \"evil\" wait for sched.max_sql_runners_per_role (3)")
            .then_some(())
    });
    let mut victim = cluster.connect_as("victim", "postgres");
    assert!(
        one::<String>(&mut victim, message).ends_with("; runs of 1 role wait for sched.max_sql_runners_per_role (3)")
    );
    cluster.set("sched.max_sql_runners_per_role", "4");
    wait_until("another run", SOON, || {
        (running(&mut root, "endless") + running(&mut far, "endless") == 4).then_some(())
    });
}

/// A role that has its share and waits in many databases keeps no place from others by that.
#[test]
fn who_has_his_share_is_not_in_line() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "3").set("max_worker_processes", "20").start();
    let databases = ["postgres", "b", "c", "d"];
    let mut roots = Vec::new();
    cluster.execute("create role evil login");
    cluster.execute("create role victim login");
    for database in databases {
        if database != "postgres" {
            cluster.execute(&format!("create database {database}"));
        }
        let mut root = cluster.with_extension(database);
        root.batch_execute("select sched.grant_use('evil'), sched.grant_use('victim')").unwrap();
        let mut evil = cluster.connect_as("evil", database);
        define(&mut evil, "endless", "select pg_sleep(100000)", "");
        if database == "postgres" {
            enqueue(&mut evil, "endless", 2);
            sleeping(&mut root, "endless", 2);
        } else {
            let id = enqueue(&mut evil, "endless", 1).remove(0);
            // Its dispatcher has looked, and says so.
            wait_until("its dispatcher to say who waits", SOON, || {
                one::<String>(&mut root, "select message from sched.health() where component = 'runners'")
                    .contains("sched.max_sql_runners_per_role (2)")
                    .then_some(())
            });
            assert_eq!(status(&mut root, &id).0, "PENDING");
        }
        roots.push(root);
    }
    let mut victim = cluster.connect_as("victim", "postgres");
    define(&mut victim, "theirs", "select 1", "");
    // Also while some run of the victim has a place: as many as the others have, and none is kept for those who may not have one.
    let ids = enqueue(&mut victim, "theirs", 5);
    for id in ids {
        assert_eq!(ended(&mut victim, &id).0, "SUCCESS");
    }
}
