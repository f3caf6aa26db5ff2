//! The harness keeps its word: what it starts can be crashed and comes back, and nothing of it is left when a test is over or killed.

use scheduler_cluster_tests::proc::{self, Signal};
use scheduler_cluster_tests::{has_contrib, wait_until, Client, Cluster, Shutdown};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn count(client: &mut Client) -> i64 {
    client.query_one("select count(*) from t", &[]).unwrap().get(0)
}

#[test]
fn what_is_committed_survives_restart_and_crash() {
    let cluster = Cluster::builder().without_preload().durable().start();
    cluster.execute("create table t (i int)");
    cluster.execute("insert into t values (1)");
    cluster.restart(Shutdown::Immediate);
    cluster.execute("insert into t values (2)");
    cluster.crash();
    assert!(cluster.try_connect_as("postgres", "postgres").is_err());
    cluster.start();
    assert_eq!(count(&mut cluster.connect()), 2);
}

#[test]
fn a_killed_backend_restarts_the_others_but_not_the_postmaster() {
    let cluster = Cluster::builder().without_preload().start();
    let postmaster = cluster.postmaster();
    let checkpointer = proc::backends(&mut cluster.connect(), "checkpointer")[0];
    proc::kill(checkpointer, Signal::KILL);
    let again = wait_until("a new checkpointer", SOON, || {
        let mut client = cluster.try_connect_as("postgres", "postgres").ok()?;
        let row =
            client.query_opt("select pid from pg_stat_activity where backend_type = 'checkpointer'", &[]).ok()??;
        Some(row.get::<_, i32>(0)).filter(|pid| *pid != checkpointer)
    });
    assert!(proc::is_alive(again));
    assert_eq!(cluster.postmaster(), postmaster);
}

#[test]
fn roles_and_databases() {
    let cluster = Cluster::builder().without_preload().start();
    cluster.execute("create role app login");
    cluster.execute("create database shop owner app");
    let row =
        cluster.connect_as("app", "shop").query_one("select current_user::text || '@' || current_database()", &[]);
    assert_eq!(row.unwrap().get::<_, String>(0), "app@shop");
    let output = cluster.psql("app", "shop").args(["-Atc", "select current_user"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "app\n");
}

#[test]
fn nothing_is_left_of_a_dropped_cluster() {
    let cluster = Cluster::builder().without_preload().start();
    let (postmaster, folder) = (cluster.postmaster(), cluster.folder().to_owned());
    drop(cluster);
    assert!(!folder.exists());
    // It takes its lock file away just before it ends.
    wait_until("the postmaster to end", SOON, || (!proc::is_alive(postmaster)).then_some(()));
}

/// An index that lacks an entry is found, or the checks at the end of crashes and loads would say nothing.
#[test]
fn a_row_without_its_index_entry_is_found() {
    if !has_contrib() {
        println!("skipped: this server has no amcheck");
        return;
    }
    let cluster = Cluster::builder().without_preload().start();
    let with_index = "create schema sched; create table sched.t (i int); create index t_i on sched.t (i); insert into sched.t values (1)";
    cluster.execute(with_index);
    cluster.check_indexes();
    let ready =
        |is_ready| format!("update pg_index set indisready = {is_ready} where indexrelid = 'sched.t_i'::regclass");
    cluster.execute(&ready(false));
    cluster.execute("insert into sched.t values (2)");
    cluster.execute(&ready(true));
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cluster.check_indexes()));
    let message = *checked.expect_err("the index lacks a row").downcast::<String>().unwrap();
    assert!(message.contains("lacks matching index tuple"), "{message}");
}

#[test]
fn nothing_is_left_of_a_killed_test() {
    // This binary once more, with only the test below, which is killed while its server runs.
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "harness::victim", "--ignored", "--nocapture"]).env(VICTIM, "").stdout(Stdio::piped());
    let mut victim = victim.spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let started = lines.find_map(|line| Some(line.split_once("started ")?.1.to_owned())).expect("the victim starts");
    let (postmaster, folder) = started.split_once(' ').unwrap();
    let (postmaster, folder) = (postmaster.parse().unwrap(), PathBuf::from(folder));
    assert!(proc::is_alive(postmaster) && folder.exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_until("server and folder to be gone", SOON, || {
        (!proc::is_alive(postmaster) && !folder.exists()).then_some(())
    });
}

const VICTIM: &str = "SCHEDULER_VICTIM";

#[test]
#[ignore = "started, and killed, by nothing_is_left_of_a_killed_test"]
fn victim() {
    if std::env::var_os(VICTIM).is_none() {
        println!("skipped: nobody is there to kill it");
        return;
    }
    let cluster = Cluster::builder().without_preload().start();
    println!("started {} {}", cluster.postmaster(), cluster.folder().display());
    wait_until("being killed", SOON, || None)
}
