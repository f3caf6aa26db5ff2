//! Two transactions at a time on one execution, at each isolation level: the specs of `pgrx-tests/cluster/isolation`, played by
//! Postgres' own isolationtester. `isolation/expected` says what comes of each; `SCHEDULER_BLESS=1` writes it anew.
//! A spec names tables by the words of `pgrx-tests/support/tables.rs`.

use scheduler_cluster_tests::tables::fill;
use scheduler_cluster_tests::{bin, repository, Cluster};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// No worker, and no autovacuum that could change a plan and with it what SERIALIZABLE sees.
fn quiet() -> Cluster {
    let cluster = Cluster::builder()
        .set("sched.enabled", "off")
        .set("autovacuum", "off")
        .set("max_prepared_transactions", "5")
        .set("sched.undefined_jobs", "allow")
        .start();
    cluster.execute("create extension scheduler");
    cluster
}

/// Plays a spec at one level; what isolationtester printed.
fn play(cluster: &Cluster, spec: &str, level: &str) -> String {
    let tester = bin().join("../lib/pgxs/src/test/isolation/isolationtester");
    let mut tester = cluster.client(Command::new(tester), "postgres", "postgres");
    tester.arg("dbname=postgres").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tester.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(spec.replace("LEVEL LEVEL", &format!("LEVEL {level}")).as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap().replace(&format!("LEVEL {level}"), "LEVEL LEVEL");
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// Who claims or sweeps never waits; errors are a lost lease or, where the level demands it, 40001.
fn decent(printed: &str, level: &str) {
    for line in printed.lines() {
        let never_waits = ["claim:", "steal:", "sweep:", "new:", "queue:", "alter:", "many:", "cancel:"];
        let waits = line.ends_with("<waiting ...>") && never_waits.iter().any(|step| line.contains(step));
        assert!(!waits, "{level}: {line}");
        if let Some(message) = line.strip_prefix("ERROR:  ") {
            let serialization = message.starts_with("could not serialize access") && level != "READ COMMITTED";
            assert!(message == "lease lost" || serialization, "{level}: {message}");
        }
    }
}

fn compare(name: &str) {
    let cluster = quiet();
    let folder = repository().join("pgrx-tests/cluster/isolation");
    let spec = fill(&fs::read_to_string(folder.join(format!("{name}.spec"))).unwrap());
    for level in LEVELS {
        let printed = play(&cluster, &spec, level);
        decent(&printed, level);
        let file = folder.join(format!("expected/{name}-{}.out", level.to_lowercase().replace(' ', "-")));
        if std::env::var_os("SCHEDULER_BLESS").is_some() {
            fs::create_dir_all(folder.join("expected")).unwrap();
            fs::write(&file, &printed).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap();
        // Both are 40001. Which of the two is said hangs on the table that was looked at first, and so on the way that was taken.
        let same = |line: &str| line.replace("due to concurrent delete", "due to concurrent update");
        for (number, (found, wanted)) in printed.lines().zip(expected.lines()).enumerate() {
            assert_eq!(same(found), same(wanted), "{}:{}", file.display(), number + 1);
        }
        assert_eq!(printed.lines().count(), expected.lines().count(), "{}", file.display());
    }
}

#[test]
fn every_pair_of_actions_on_one_run() {
    compare("pairs");
}

#[test]
fn every_pair_of_actions_on_what_waits() {
    compare("waiting");
}

#[test]
fn a_rolled_back_savepoint_gives_back_what_it_took() {
    compare("savepoint");
}

#[test]
fn a_prepared_transaction_holds_its_claim() {
    compare("prepared");
}
