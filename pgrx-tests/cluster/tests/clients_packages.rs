//! What `make clients` builds, installed from its files.

use scheduler_cluster_tests::{built, conn, python, repository, run, Cluster};
use std::fs;
use std::process::Command;

const PROGRAM: &str = r#"
import importlib.metadata, sys
import psycopg
import pg_scheduler
from pg_scheduler import Worker, enqueue
from pg_scheduler.testing import drain

assert pg_scheduler.__file__.startswith(sys.argv[1]), pg_scheduler.__file__
assert importlib.metadata.metadata("pg-scheduler-client")["Requires-Dist"].startswith("psycopg"), "its one dependency"
with psycopg.connect(autocommit=True) as db:
    db.execute("select sched.define_job('effect')")
    enqueue(db, "effect")
worker = Worker()
worker.job("effect", lambda run: None)
assert drain(worker) == {"SUCCESS": 1}
"#;

#[test]
fn pythons_packages_install_from_a_file() {
    let cluster = Cluster::new();
    drop(cluster.with_extension("postgres"));
    let mut build = Command::new(repository().join("tools/clients.sh"));
    build.arg("python");
    run(build);
    let packages: Vec<_> = fs::read_dir(built("clients")).unwrap().flatten().map(|entry| entry.path()).collect();
    for end in [".whl", ".tar.gz"] {
        let is_it = |name: &str| name.starts_with("pg_scheduler_client") && name.ends_with(end);
        let package = packages.iter().find(|path| is_it(&path.file_name().unwrap().to_string_lossy()));
        let folder = cluster.folder().join(format!("installed{end}"));
        let mut install = Command::new(python());
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-build-isolation",
            "--target",
        ]);
        install.arg(&folder).arg(package.expect("it was built"));
        run(install);
        let mut program = Command::new(python());
        program.args(["-c", PROGRAM]).arg(&folder).env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1");
        let output = cluster.client(program, "postgres", "postgres").output().expect("it can be started");
        assert!(output.status.success(), "{end}: {}", conn::text(&output));
    }
}
