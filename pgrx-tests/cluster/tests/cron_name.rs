//! The empty extension pg_cron beside `scheduler_cron`: files that ask for pg_cron by name run unchanged.

use crate::copies::{dump, restore};
use crate::take_over::state;
use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{bin, repository, run, Builder, Cluster};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn install(pg_config: &Path) -> Output {
    Command::new(repository().join("tools/pg-cron-name.sh")).arg(pg_config).output().unwrap()
}

fn folder(pg_config: &Path, which: &str) -> String {
    let mut ask = Command::new(pg_config);
    ask.arg(which);
    run(ask).trim().to_owned()
}

/// As `make install PG_CRON_NAME=1` does it, once no pg_cron of Debian's is there.
fn with_the_name(pg_config: &Path) {
    let scripts = format!("{}/extension", folder(pg_config, "--sharedir"));
    let library = format!("{}/pg_cron.so", folder(pg_config, "--pkglibdir"));
    for real in [format!("{scripts}/pg_cron.control"), library] {
        if fs::exists(&real).unwrap() {
            let refused = install(pg_config);
            assert!(!refused.status.success() && text(&refused).contains(&real), "{refused:?}");
            fs::remove_file(&real).unwrap();
        }
    }
    for file in fs::read_dir(&scripts).unwrap().map(|file| file.unwrap()) {
        if file.file_name().to_string_lossy().starts_with("pg_cron--") {
            fs::remove_file(file.path()).unwrap();
        }
    }
    for _ in 0..2 {
        let installed = install(pg_config);
        assert!(installed.status.success(), "{installed:?}");
    }
}

fn server() -> Builder {
    Cluster::builder().with_files_of_its_own(with_the_name)
}

const JOBS: &str =
    "select string_agg(concat_ws('|', jobname, schedule, username, active), E'\\n' order by jobname) from cron.job";

#[test]
fn files_of_pg_cron_run_unchanged() {
    let cluster = server().start();
    let mut db = cluster.connect();
    // As a hosted project has them.
    db.batch_execute("create schema extensions; create role app login").unwrap();
    assert_eq!(state(db.batch_execute("create extension pg_cron")), "42704", "scheduler_cron comes first");
    db.batch_execute("create extension scheduler_cron cascade").unwrap();
    let files = repository().join("pgrx-tests/data/pg_cron_files");
    // Migrations are run again.
    for _ in 0..2 {
        for file in ["extension_first", "guarded", "available", "roles", "dashboard"] {
            let mut psql = cluster.psql("postgres", "postgres");
            psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(files.join(file).with_extension("sql"));
            let output = psql.output().unwrap();
            assert!(output.status.success(), "{file}: {}", text(&output));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.lines().all(|line| line.contains("already exists, skipping")), "{file}: {said}");
        }
    }
    assert_eq!(
        one::<String>(&mut db, JOBS),
        "app-heartbeat|* * * * *|app|f\nnightly|0 3 * * *|postgres|t\npurge-sessions|*/15 * * * *|postgres|t\n\
         refresh-stats|30 seconds|postgres|t\nrollup-hourly|5 * * * *|postgres|t\nversioned|0 4 * * 0|postgres|t"
    );
    let there = "select concat_ws(' ', extversion, extnamespace::regnamespace, (select count(*) from pg_depend where refclassid = 'pg_extension'::regclass and refobjid = e.oid))
                   from pg_extension e where extname = 'pg_cron'";
    assert_eq!(one::<String>(&mut db, there), "1.6 extensions 0");
}

/// It is no scheduler: dropping it takes nothing along, a dump brings it back, and nothing is imported from it.
#[test]
fn the_name_is_never_taken_for_a_scheduler() {
    let cluster = server().start();
    let mut db = cluster.connect();
    db.batch_execute("create extension pg_cron cascade; select cron.schedule('a', '0 3 * * *', 'select 1')").unwrap();
    for call in ["import_from('pg_cron')", "import_from('pg_cron', 'cron')"] {
        assert_eq!(state(db.batch_execute(&format!("select * from sched.{call}"))), "42P01", "{call}");
    }
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.take_over('pg_cron')"), 0);
    cluster.execute("create database copy");
    restore(&cluster, "copy", &dump(&cluster, "postgres", &[]));
    let mut copy = cluster.connect_as("postgres", "copy");
    let names = "select string_agg(extname::text, ' ' order by extname) from pg_extension where extname <> 'plpgsql'";
    assert_eq!(one::<String>(&mut copy, names), "pg_cron scheduler scheduler_cron");
    assert_eq!(one::<String>(&mut copy, JOBS), one::<String>(&mut db, JOBS));
    db.batch_execute("alter extension pg_cron update").unwrap();
    let warned = |database: &str, statement: &str| {
        let output = cluster.psql("postgres", database).args(["-q", "-c", statement]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output).contains("WARNING:  the jobs of cron.job go on")
    };
    assert!(warned("postgres", "drop extension if exists pg_cron"));
    assert!(!warned("postgres", "drop extension if exists pg_cron"), "there is none");
    assert!(!warned("copy", "drop extension pg_cron, scheduler_cron"));
    db.batch_execute("create extension pg_cron").unwrap();
    assert_eq!(one::<String>(&mut db, JOBS), "a|0 3 * * *|postgres|t");
    assert_eq!(state(db.batch_execute("drop extension scheduler_cron")), "2BP01");
    db.batch_execute("drop extension scheduler_cron cascade").unwrap();
    assert_eq!(one::<String>(&mut db, names), "scheduler");
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.schedules"), 1);
    db.batch_execute("create extension pg_cron cascade").unwrap();
}

/// With the library of the real one in the server its launcher would read the views as its tables.
#[test]
fn the_name_is_not_created_where_pg_cron_is_preloaded() {
    let keep_the_library = |pg_config: &Path| {
        let library = format!("{}/pg_cron.so", folder(pg_config, "--pkglibdir"));
        let kept = fs::exists(&library).unwrap().then(|| fs::read(&library).unwrap());
        with_the_name(pg_config);
        kept.into_iter().for_each(|bytes| fs::write(&library, bytes).unwrap());
    };
    if !bin().with_file_name("lib").join("pg_cron.so").exists() {
        println!("skipped: there is no pg_cron for this server");
        return;
    }
    for libraries in ["scheduler, \"pg_cron\"", "$libdir/pg_cron.so,scheduler"] {
        let mut builder = Cluster::builder().with_files_of_its_own(keep_the_library);
        for (name, value) in [
            ("shared_preload_libraries", libraries),
            ("cron.database_name", "elsewhere"),
            ("max_worker_processes", "24"),
        ] {
            builder = builder.set(name, value);
        }
        let cluster = builder.start();
        let mut db = cluster.connect();
        db.batch_execute("create extension scheduler_cron cascade").unwrap();
        assert_eq!(state(db.batch_execute("create extension pg_cron")), "55000", "{libraries}");
        // Its settings are its own there.
        assert_eq!(one::<String>(&mut db, "show cron.database_name"), "elsewhere", "{libraries}");
    }
}
