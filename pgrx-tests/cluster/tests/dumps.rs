//! What a dump says to whom: nothing of a dropped role's to a stranger, and nothing at all to who may not read it.

use scheduler_cluster_tests::conn::text;
use scheduler_cluster_tests::scheduler::{one, switch_off, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{bin, wait_for, Client, Cluster};
use std::process::{Command, Output};

use crate::copies::{dump, restore};
use crate::upgrade::{released, GRANTS};

/// Rows of a role in each table that is dumped: executions in each state, a schedule that was edited and paused, one that waits for its run.
fn works(cluster: &Cluster, db: &mut Client, role: &str) {
    db.batch_execute(&format!("create role {role} login; select sched.grant_use('{role}')")).unwrap();
    let mut user = cluster.connect_as(role, "postgres");
    user.batch_execute(&format!(
        "select sched.define_job('{role}', queue => '{role}', max_attempts => 3, retry_backoff => '{{1 hour}}');
         select sched.create_schedule('{role}', 'every 100 milliseconds', '{role}', payload => '\"secret of {role}\"');
         select sched.create_schedule('chained {role}', 'every 100 milliseconds', '{role}', rearm => 'on_terminal');
         select sched.pause('{role}')"
    ))
    .unwrap();
    wait_for(
        &mut user,
        &format!("select count(*) = 1 from sched.execution where schedule_name = 'chained {role}'"),
        SOON,
    );
    user.batch_execute(&format!(
        "select sched.resume('{role}'); select sched.alter_schedule('{role}', clock => 'every 70 milliseconds');
         select sched.enqueue('other', '\"secret\"', '2026-01-01', 'adhoc', 'pending {role}', run_at => '2100-01-01', unique_by => 'scope');
         select sched.enqueue('{role}', '\"secret\"');
         select sched.try_claim('other', '2026-01-01', 'adhoc', 'running {role}', stale_timeout => '1 hour');
         select sched.finish_success(execution_id, lease_token, 7) from sched.try_claim('other', '2026-01-01', 'adhoc', 'done {role}');
         select sched.finish_failure(execution_id, lease_token, 'smtp', 'refused', clock_timestamp() + '1 hour')
           from sched.try_claim('other', '2026-01-01', 'adhoc', 'retry {role}', max_attempts => 2);
         select sched.alter_schedule('chained {role}', max_duration => '1 hour', expect_success_within => '1 microsecond')"
    ))
    .unwrap();
    wait_for(&mut user, &format!("select count(*) > 0 from sched.alerts where schedule_name = 'chained {role}'"), SOON);
    wait_for(&mut user, &format!("select count(*) > 0 from sched.execution where schedule_name = '{role}'"), SOON);
    // It is dropped like any role, with work left.
    db.batch_execute(&format!("select sched.revoke_all('{role}')")).unwrap();
}

/// How many rows each dumped table has of what this role left.
fn left(db: &mut Client, role: &str) -> Vec<(String, i64)> {
    let mut counts = Vec::new();
    let own = format!("like '%{role}'");
    let schedules = format!("(select schedule_id from sched.schedule where job_name {own})");
    let runs = format!("(select id from sched.ledger where job_name {own} or scope_id {own})");
    for (table, condition) in [
        ("sched.job", format!("job_name {own}")),
        ("sched.schedule", format!("job_name {own}")),
        ("sched.ledger", format!("id in {runs}")),
        (READY_TABLE, format!("execution_id in {runs} or queue {own}")),
        (DELAYED_TABLE, format!("execution_id in {runs}")),
        (LEASE_TABLE, format!("execution_id in {runs}")),
        ("sched.awaited", format!("schedule_id in {schedules}")),
        ("sched.imported", format!("schedule_id in {schedules}")),
        ("sched.reported_fire", format!("schedule_id in {schedules}")),
        ("sched.schedule_definition", format!("schedule_id in {schedules}")),
        ("sched.skip", format!("schedule_id in {schedules}")),
        ("sched.timer_state", format!("schedule_id in {schedules}")),
        ("sched.unique_scope", format!("execution_id in {runs}")),
        ("sched.alert", format!("schedule_name {own}")),
    ] {
        counts.push((table.to_owned(), one(db, &format!("select count(*) from {table} where {condition}"))));
    }
    counts
}

/// Rows that belong to nothing: of schedules, executions or jobs that are not there.
fn loose() -> String {
    format!(
        "select concat_ws(' ',
    (select 'schedule' from sched.schedule where job_name not in (select job_name from sched.job) limit 1),
    (select 'definition' from sched.schedule_definition where schedule_id not in (select schedule_id from sched.schedule) limit 1),
    (select 'reported' from sched.reported_fire where schedule_id not in (select schedule_id from sched.schedule) limit 1),
    (select 'imported' from sched.imported where schedule_id not in (select schedule_id from sched.schedule) limit 1),
    (select 'skip' from sched.skip where schedule_id not in (select schedule_id from sched.schedule) limit 1),
    (select 'state' from sched.timer_state where schedule_id not in (select schedule_id from sched.schedule) limit 1),
    (select 'awaited' from sched.awaited where schedule_id not in (select schedule_id from sched.schedule)
                                            or execution_id not in (select id from sched.ledger) limit 1),
    (select 'scope' from sched.unique_scope where execution_id not in (select id from sched.ledger) limit 1),
    (select 'waiting' from {PLACE} p where execution_id not in (select id from sched.ledger) limit 1))"
    )
}

#[test]
fn what_a_dropped_role_left_is_in_no_dump_unless_somebody_took_it_over() {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").start();
    let mut db = cluster.with_extension("postgres");
    for role in ["victim", "leaver", "stays"] {
        works(&cluster, &mut db, role);
    }
    db.batch_execute(
        "insert into sched.imported select 'pg_cron', 'cron', schedule_name, schedule_id, '', job_name from sched.schedule;
         insert into sched.reported_fire select schedule_id, '2026-01-01', '2026-01-01' from sched.schedule",
    )
    .unwrap();
    let victim: u32 = one(&mut db, "select 'victim'::regrole::oid");
    db.batch_execute("drop role victim; drop role leaver").unwrap();
    wait_for(
        &mut db,
        "select count(*) = 2 from sched.schedules where schedule_name in ('victim', 'leaver') and state = 'parked'",
        SOON,
    );
    // What a schedule that was parked as it was due would have left, too.
    db.batch_execute("insert into sched.timer_state (schedule_id, parked) select schedule_id, true from sched.schedule where schedule_name in ('victim', 'leaver') on conflict do nothing").unwrap();
    let all = left(&mut db, "victim");
    assert!(all.iter().all(|(_, rows)| *rows > 0), "of each table something: {all:?}");
    // What docs/operations/backup-and-copies.md says of those who want it to survive.
    db.batch_execute(
        "begin; select sched.define_job('leaver', queue => 'leaver');
         create temp table heirs as select id from sched.ledger where job_name = 'leaver' or scope_id like '%leaver'",
    )
    .unwrap();
    for (table, key) in OWNED_TABLES {
        let owner = format!(
            "update {table} set owner = 'postgres' where owner::text ~ '^[0-9]' and {key} in (select id from heirs)"
        );
        db.batch_execute(&owner).unwrap();
    }
    db.batch_execute("update sched.alert set owner = 'postgres' where owner::text ~ '^[0-9]' and schedule_name like '%leaver'; commit").unwrap();
    switch_off(&cluster, &mut db);

    // Where somebody else has the number.
    let other = Cluster::builder().set("sched.enabled", "off").start_other();
    let mut root = other.connect();
    root.batch_execute(&format!(
        "create role stays login; set allow_system_table_mods = on;
         insert into pg_authid (oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit)
         values ({victim}, 'newcomer', false, true, false, false, true, false, false, -1)"
    ))
    .unwrap();
    for database in ["full_dump", "only_data", "in_parallel"] {
        other.execute(&format!("create database {database}"));
    }
    other.connect_as("postgres", "only_data").batch_execute("create extension scheduler").unwrap();
    for (database, arguments) in [
        ("full_dump", &[][..]),
        ("only_data", &["--data-only", "--inserts"]),
        ("in_parallel", &["--format=directory", "--jobs=2"]),
    ] {
        let file = dump(&cluster, "postgres", arguments);
        if database == "in_parallel" {
            let mut load = other.client(Command::new(bin().join("pg_restore")), "postgres", database);
            let output = load.args(["--jobs=2", "--dbname", database]).arg(&file).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
        } else {
            restore(&other, database, &file);
            std::fs::remove_file(&file).unwrap();
        }
        let mut copy = other.connect_as("postgres", database);
        copy.batch_execute("select sched.grant_use('newcomer')").unwrap();
        assert!(
            left(&mut copy, "victim").iter().all(|(_, rows)| *rows == 0),
            "{database}: {:?}",
            left(&mut copy, "victim")
        );
        assert_eq!(one::<String>(&mut copy, &loose()), "", "{database}");
        for role in ["leaver", "stays"] {
            assert_eq!(left(&mut copy, role), left(&mut db, role), "{database}: {role}");
        }
        // The newcomer sees nothing, and the names that are free again are his with nothing behind them.
        let mut newcomer = other.connect_as("newcomer", database);
        newcomer.batch_execute("select sched.define_job('victim', queue => 'victim')").unwrap();
        let sees = "select (select count(*) from sched.execution) + (select count(*) from sched.schedules)";
        assert_eq!(one::<i64>(&mut newcomer, sees), 0, "{database}");
    }

    // A role that goes while the dump runs is in its snapshot, and a number all the same.
    let mut snapshot = cluster.connect();
    snapshot.batch_execute("begin isolation level repeatable read").unwrap();
    let role = "select count(*) from pg_roles where rolname = 'stays'";
    assert_eq!(one::<i64>(&mut snapshot, role), 1);
    db.batch_execute("drop role stays").unwrap();
    assert_eq!(one::<i64>(&mut snapshot, role), 1);
    // Of the three only the one is left whose work was taken over.
    for (table, rows) in left(&mut db, "leaver") {
        let condition: String = one(
            &mut snapshot,
            &format!("select extcondition[array_position(extconfig, '{table}'::regclass)] from pg_extension where extname = 'scheduler'"),
        );
        let dumped: i64 = one(&mut snapshot, &format!("select count(*) from {table} {condition}"));
        assert_eq!(dumped, rows, "{table}");
    }
}

fn dumped(cluster: &Cluster, role: &str, arguments: &[&str]) -> Output {
    let mut dump = cluster.client(Command::new(bin().join("pg_dump")), role, "prey");
    dump.args(arguments).output().unwrap()
}

/// docs/operations/backup-and-copies.md says what the owner of a database does who may not read what its users schedule.
#[test]
fn the_owner_of_a_database_dumps_it_without_our_schema_or_as_a_reader_of_all() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create role keeper login; create role reader login in role pg_read_all_data");
    cluster.execute("create database prey owner keeper");
    let mut db = cluster.connect_as("postgres", "prey");
    db.batch_execute("create extension scheduler; select sched.define_job('j')").unwrap();
    cluster.connect_as("keeper", "prey").batch_execute("create table his (n int); insert into his values (7)").unwrap();
    for grants in ["", "select sched.grant_use('keeper'), sched.grant_monitor('keeper')"] {
        db.batch_execute(grants).unwrap();
        let refused = dumped(&cluster, "keeper", &[]);
        let said = text(&refused);
        // Since version 18 it asks a function for sequences.
        let denied = said.contains("permission denied for ") || said.contains("user may lack SELECT privilege");
        assert!(!refused.status.success() && denied, "{said}");
        let output = dumped(&cluster, "keeper", &["--exclude-schema=sched"]);
        let said = text(&output);
        assert!(output.status.success() && output.stderr.is_empty(), "{said}");
        assert!(
            said.contains("COPY public.his") && said.contains("CREATE EXTENSION IF NOT EXISTS scheduler"),
            "{said}"
        );
        assert!(!said.contains("COPY sched."), "{said}");
    }
    db.batch_execute("grant pg_read_all_data to keeper").unwrap();
    for role in ["keeper", "reader"] {
        let output = dumped(&cluster, role, &[]);
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
        assert!(text(&output).contains("COPY sched.job") && text(&output).contains("COPY public.his"));
    }
}

/// CREATE EXTENSION in a dump brings the version that the server has. What a release's dump grants besides is still there.
#[test]
fn a_dump_of_a_released_version_is_restored_with_its_rights() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create role app login; create role ops login");
    for version in released() {
        let name = version.replace('.', "_");
        let (old, new) = (format!("of_{name}"), format!("restored_{name}"));
        cluster.execute(&format!("create database {old}"));
        cluster.execute(&format!("create database {new}"));
        let mut db = cluster.connect_as("postgres", &old);
        db.batch_execute(&format!("create extension scheduler version '{version}'; {GRANTS}")).unwrap();
        let mut psql = cluster.psql("postgres", &new);
        let output = psql.args(["-q", "-o", "/dev/null", "-f"]).arg(dump(&cluster, &old, &[])).output().unwrap();
        let said = text(&output);
        // These have had other arguments since: what a dump grants on them is granted again below.
        let replaced = [
            "define_job",
            "enqueue",
            "enqueue_many",
            "create_schedule",
            "alter_schedule",
            "alter_job",
            "alter_execution",
        ]
        .map(|function| format!("function sched.{function}("));
        let is_replaced = |line: &str| replaced.iter().any(|function| line.contains(function.as_str()));
        let others = said.lines().filter(|line| line.contains("ERROR") && !is_replaced(line));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new(), "{said}");

        let mut copy = cluster.connect_as("postgres", &new);
        let installed = "select extversion from pg_extension where extname = 'scheduler'";
        assert_eq!(one::<String>(&mut copy, installed), env!("CARGO_PKG_VERSION"));
        let mut app = cluster.connect_as("app", &new);
        app.batch_execute("select sched.try_claim('j', now())").unwrap();
        // Who was a monitor is one; a dump of before cannot grant what is new.
        let mut ops = cluster.connect_as("ops", &new);
        assert_eq!(one::<i64>(&mut ops, "select count(id) from sched.execution"), 1, "after {version}");
        copy.batch_execute(GRANTS).unwrap();
        for reader in [&mut app, &mut ops] {
            reader.batch_execute("select * from sched.schedules; select * from sched.skipped").unwrap();
        }
        app.batch_execute("select sched.define_job('j2'); select sched.enqueue('j2')").unwrap();
    }
}
