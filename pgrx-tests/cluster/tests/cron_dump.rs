//! The dump of a database with the real pg_cron, restored where there is `scheduler_cron` alone, by the steps of the guide.

use crate::copies::dump;
use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{bin, pg_cron, repository, wait_for, Cluster};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

const SECTION: &str = "## From a dump alone";

/// The blocks of the section in their order: whether psql is to read it, and its text.
fn steps() -> Vec<(bool, String)> {
    let page = fs::read_to_string(repository().join("docs/guides/moving-from-pg_cron.md")).unwrap();
    let section = page.split_once(SECTION).expect(SECTION).1;
    let section = section.split("\n## ").next().unwrap();
    let mut blocks: Vec<(bool, String)> = Vec::new();
    let mut is_inside = false;
    for line in section.lines() {
        if is_inside && line == "```" {
            is_inside = false;
        } else if is_inside {
            let (_, block) = blocks.last_mut().unwrap();
            block.push_str(line);
            block.push('\n');
        } else if let Some(language) = line.strip_prefix("```") {
            is_inside = true;
            blocks.push((language == "sql", String::new()));
        }
    }
    blocks
}

/// What the steps said.
fn follow(cluster: &Cluster, steps: &[(bool, String)]) -> String {
    let mut said = String::new();
    for (is_sql, block) in steps {
        let program = if *is_sql { "psql" } else { "bash" };
        let mut command = cluster.client(Command::new(program), "postgres", "app");
        command.current_dir(cluster.folder());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", bin().display()));
        command.args(if *is_sql {
            ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"].as_slice()
        } else {
            &["-euo", "pipefail", "-s"]
        });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(block.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{block}\n{}", text(&output));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    said
}

/// Jobs of the usual kinds, and those that cannot come: of another database, of a role that is missing, of a step that versions differ on.
fn theirs() -> Option<Cluster> {
    let cluster = pg_cron::server(&[("cron.use_background_workers", "off"), ("cron.host", "/nowhere")])?;
    let mut db = pg_cron::database(&cluster);
    db.batch_execute(
        "drop extension scheduler; create role app login; create role missing login superuser; create table kept (i int); insert into kept values (1);
         grant usage on schema cron to app; grant execute on all functions in schema cron to app;
         select cron.schedule('nightly', '0 3 * * *', 'vacuum'), cron.schedule('*/5 * * * *', e'select ''tab\\there'';\\nselect 2'),
                cron.schedule('boot', '@reboot', 'select 3'), cron.schedule('stepped', '*/60 * * * *', 'select 4'), cron.schedule('off', '0 5 * * *', 'select 5');
         update cron.job set database = 'app'; update cron.job set active = false where jobname = 'off';
         update cron.job set nodename = '', nodeport = 6543 where jobname = 'nightly'; update cron.job set nodeport = 5433 where jobid = 2;
         set role app; select cron.schedule('of app', '0 6 * * *', 'select 6');
         set role missing; select cron.schedule('of missing', '0 7 * * *', 'select 7'); reset role;
         update cron.job set database = 'app' where jobid > 5; select cron.schedule('elsewhere', '0 8 * * *', 'select 8');
         insert into cron.job_run_details (jobid, runid, status, start_time) values (1, 41, 'succeeded', '2026-05-01 03:00+00');
         select setval('cron.runid_seq', 41), setval('cron.jobid_seq', 20)",
    )
    .unwrap();
    Some(cluster)
}

#[test]
fn a_dump_of_a_pg_cron_database_is_restored_by_the_steps_of_the_guide() {
    let Some(old) = theirs() else { return };
    let file = dump(&old, "postgres", &["--format=custom"]);
    let new = Cluster::new();
    new.execute("create role app login");
    new.execute("create database app");
    fs::copy(file, new.folder().join("app.dump")).unwrap();
    let steps = steps();
    assert_eq!(steps.iter().map(|(is_sql, _)| *is_sql).collect::<Vec<_>>(), [false, true, false, true]);
    let said = follow(&new, &steps);
    let mut notices: Vec<_> =
        said.lines().filter_map(|line| line.split_once("NOTICE:  ")).map(|(_, line)| line).collect();
    notices.retain(|line| !line.contains("installing required extension"));
    assert_eq!(
        notices,
        [
            "job 4 (stepped) does not come: invalid schedule: */60 * * * *",
            "job 7 (of missing) does not come: role \"missing\" does not exist",
            "job 8 (elsewhere) does not come: cannot run jobs in database \"postgres\" from database \"app\"",
        ],
        "{said}"
    );
    let mut db = new.connect_as("postgres", "app");
    let jobs = "select string_agg(concat_ws('|', jobid, jobname, schedule, command, username, active, nodeport), E'\\n' order by jobid) from cron.job";
    let came = "1|nightly|0 3 * * *|vacuum|postgres|t|5432\n2|*/5 * * * *|select 'tab\there';\nselect 2|postgres|t|5432\n3|boot|@reboot|select 3|postgres|t|5432\n\
                5|off|0 5 * * *|select 5|postgres|f|5432\n6|of app|0 6 * * *|select 6|app|t|5432";
    assert_eq!(one::<String>(&mut db, jobs), came);
    assert_eq!(one::<i64>(&mut db, "select count(*) from kept"), 1);
    assert_eq!(one::<i64>(&mut db, "select runid from old.job_run_details"), 41);
    // Rights of the old schema hold for the new one.
    let mut app = new.connect_as("app", "app");
    assert_eq!(one::<i64>(&mut app, "select cron.schedule('of app', '0 9 * * *', 'select 9')"), 6);
    assert!(one::<i64>(&mut app, "select cron.schedule('new', '1 second', 'select 10')") > 8);
    wait_for(&mut db, "select exists (select from cron.job_run_details where status = 'succeeded')", SOON);
    // Once more, with the role: it comes, and nothing comes twice.
    new.execute("create role missing login");
    let said = follow(&new, &steps[3..]);
    assert!(said.contains("job 1 (nightly) does not come: duplicate key") && !said.contains("job 7"), "{said}");
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job"), 7);
}

/// Straight into the views a row that cannot come takes the others along, and is named with what to write.
#[test]
fn a_copy_into_cron_job_is_all_or_nothing() {
    let cluster = Cluster::new();
    let mut db = cluster.connect();
    db.batch_execute("create extension scheduler_cron cascade").unwrap();
    let copied = |rows: &str| {
        let script = format!(
            "COPY cron.job (jobid, schedule, command, nodename, nodeport, database, username, active, jobname) FROM stdin;\n{rows}\\.\n"
        );
        let file = cluster.folder().join("rows.sql");
        fs::write(&file, script).unwrap();
        text(&cluster.psql("postgres", "postgres").args(["-q", "-f"]).arg(file).output().unwrap())
    };
    let good = "1\t0 3 * * *\tselect 1\tlocalhost\t5432\tpostgres\tpostgres\tt\ta\n2\t0 3 * * *\tselect 2\t\t5432\tpostgres\tpostgres\tf\t\\N\n";
    for (bad, wanted) in [
        ("3\t0 3 * * *\tselect 3\tlocalhost\t5433\tpostgres\tpostgres\tt\tb\n", "nodename localhost and nodeport 5432"),
        ("3\t0 3 * * *\tselect 3\tlocalhost\t5432\tpostgres\tmissing\tt\tb\n", "role \"missing\" does not exist"),
        ("3\t0 3 * * *\tselect 3\tlocalhost\t5432\telsewhere\tpostgres\tt\tb\n", "in that database"),
    ] {
        let said = copied(&format!("{good}{bad}"));
        assert!(said.contains(wanted) && said.contains("COPY job, line 3"), "{said}");
        assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job"), 0);
    }
    assert_eq!(copied(good), "");
    assert_eq!(one::<i64>(&mut db, "select count(*) from cron.job"), 2);
}
