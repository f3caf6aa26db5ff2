//! Databases that hold the rows of another one: restored dumps and databases made from a template. They fire nothing until they are adopted,
//! and then nothing that was missed.

use postgres::error::SqlState;
use scheduler_cluster_tests::proc::Program;
use scheduler_cluster_tests::scheduler::{dispatcher, one, whole_grid, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{bin, stays, wait_for, wait_until, Client, Cluster, Shutdown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What an original has: a user with a job, executions in each state, and a schedule that fires all the time. The dispatcher of the copy
/// looks around often.
fn original() -> (Cluster, Client) {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").start();
    cluster.execute("create role app login; create role ops login");
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.grant_use('app'), sched.grant_monitor('ops')").unwrap();
    let mut app = cluster.connect_as("app", "postgres");
    app.batch_execute(
        "select sched.define_job('job', queue => 'q', max_attempts => 3, retry_backoff => '{1 hour}');
         select sched.create_schedule('pulse', 'every 200 milliseconds', 'job', catch_up => 'every_plan');
         select sched.create_schedule('chained', 'every 1 second', 'job', rearm => 'on_terminal');
         select sched.create_schedule('paused', '@hourly', 'job', enabled => false);
         select sched.enqueue('other', '{\"to\": \"all\"}', '2026-01-01', 'adhoc', 'pending');
         select sched.try_claim('other', '2026-01-01', 'adhoc', 'running', stale_timeout => '1 hour');
         select sched.finish_success(execution_id, lease_token, 7) from sched.try_claim('other', '2026-01-01', 'adhoc', 'done');
         select sched.finish_failure(execution_id, lease_token, 'smtp', 'refused')
           from sched.try_claim('other', '2026-01-01', 'adhoc', 'retry', max_attempts => 2)",
    )
    .unwrap();
    wait_for(&mut db, "select count(distinct schedule_name) = 2 from sched.execution", SOON);
    (cluster, db)
}

/// Runs pg_dump of a database into a file or folder.
pub fn dump(cluster: &Cluster, database: &str, arguments: &[&str]) -> PathBuf {
    let file = cluster.folder().join("dump");
    let mut dump = cluster.client(Command::new(bin().join("pg_dump")), "postgres", database);
    let output = dump.args(arguments).arg("--file").arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    file
}

/// Restores a plain dump without a single error.
pub fn restore(cluster: &Cluster, database: &str, file: &Path) {
    let mut psql = cluster.psql("postgres", database);
    let output = psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f"]).arg(file).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Everything that a user sees of the ledger and of the schedules, but for what goes on in the original meanwhile.
fn seen(db: &mut Client) -> Vec<String> {
    let query = "select to_jsonb(e)::text from sched.execution e where scope_kind = 'adhoc'
                 union all select to_jsonb(s)::text from sched.schedule s
                 union all select to_jsonb(j)::text from sched.job j order by 1";
    db.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn states(db: &mut Client) -> String {
    one(db, "select string_agg(schedule_name || ' ' || state, ', ' order by schedule_name) from sched.schedules")
}

fn refused(db: &mut Client, statement: &str) -> String {
    let error = db.batch_execute(statement).expect_err(statement);
    assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{statement}: {error:?}");
    let error = error.as_db_error().unwrap();
    assert!(error.hint().unwrap().contains("sched.adopt()"), "{error:?}");
    error.message().to_owned()
}

const LAST: &str = "select max(created_at)::text from sched.execution where schedule_name is not null";

/// The whole life of a copy: still, then adopted, then alive, with nothing of what was missed.
fn stays_still_until_adopted(cluster: &Cluster, database: &str) {
    let mut db = cluster.connect_as("postgres", database);
    let says = format!(
        "dispatcher for database \"{database}\" stopped: database \"{database}\" is a copy that nobody has adopted"
    );
    wait_until("the dispatcher to say why it leaves", SOON, || (!cluster.logged(&says).is_empty()).then_some(()));
    wait_until("it to leave", SOON, || dispatcher(&mut db).is_none().then_some(()));
    // A worker slot is not kept for what may never be adopted, nor does one come again and again.
    let all = "select md5(string_agg(to_jsonb(e)::text, '' order by id)) from sched.execution e";
    stays("the ledger of a copy", Duration::from_secs(1), || (dispatcher(&mut db), one::<String>(&mut db, all)));
    assert_eq!(cluster.logged(&says).len(), 1, "it says so once");
    assert_eq!(states(&mut db), "chained copied, paused paused, pulse copied");
    assert!(!one::<bool>(&mut db, "select sched.is_home()"));
    assert!(!one::<bool>(&mut db, "select sched.healthy()"), "whoever restores a server is to know that nothing fires");

    // What fires or hands out is refused; what only writes down, or ends what somebody holds, is not.
    let mut app = cluster.connect_as("app", database);
    assert_eq!(
        refused(&mut app, "select sched.dispatch_due()"),
        format!("database \"{database}\" is a copy that nobody has adopted")
    );
    refused(&mut app, "select sched.claim('q')");
    refused(&mut app, "select sched.try_claim('other', '2026-01-01')");
    app.batch_execute("begin; select sched.define_job('new'); select sched.create_schedule('new', '@daily', 'new'), sched.enqueue('new')").unwrap();
    refused(&mut app, "select sched.claim()");
    app.batch_execute("rollback").unwrap();
    let error = app.batch_execute("select sched.adopt()").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    assert_eq!(
        one::<String>(
            &mut cluster.connect_as("ops", database),
            "select state from sched.schedules where schedule_name = 'pulse'"
        ),
        "copied"
    );

    let before: String = one(&mut db, LAST);
    let adopted: String = one(&mut db, "select clock_timestamp()::text");
    // A transaction that does not commit adopts nothing.
    db.batch_execute("begin; select sched.adopt(); select sched.claim('none'); rollback").unwrap();
    refused(&mut db, "select sched.claim('none')");
    assert_eq!(dispatcher(&mut db), None);
    assert_eq!(one::<i64>(&mut db, "select sched.adopt()"), 3);
    wait_until("a dispatcher", SOON, || dispatcher(&mut db));
    assert_eq!(
        cluster.logged(&format!("database \"{database}\" is adopted by \"postgres\", 3 schedules begin anew")).len(),
        2,
        "one line for each call"
    );
    wait_for(
        &mut db,
        &format!("select count(*) > 3 from sched.execution where schedule_name = 'pulse' and plan_time > '{adopted}'"),
        SOON,
    );
    // I3: of the plans between the copy and the adoption none has run.
    let missed =
        format!("select count(*) from sched.execution where created_at > '{before}' and plan_time <= '{adopted}'");
    assert_eq!(one::<i64>(&mut db, &missed), 0, "adopting has fired what was missed");
    assert_eq!(states(&mut db), "chained waiting, paused paused, pulse armed");
    assert!(one::<bool>(&mut db, "select sched.is_home() and count(*) = 1 from sched.home"));

    // Work goes on where the original was: the lease of the copy, what was claimable, keys that were taken.
    let mut app = cluster.connect_as("app", database);
    let outcome = |app: &mut Client, scope: &str| -> String {
        one(app, &format!("select outcome from sched.try_claim('other', '2026-01-01', 'adhoc', '{scope}')"))
    };
    assert_eq!(outcome(&mut app, "done"), "conflicted", "what ran in the original does not run again");
    assert_eq!(outcome(&mut app, "running"), "conflicted");
    assert_eq!(outcome(&mut app, "pending"), "won");
    let fences: bool =
        one(&mut app, "select max(fence) filter (where scope_id = 'pending') = max(fence) from sched.execution");
    assert!(fences, "fences rise beyond those of the original");
    let running = "from sched.execution where scope_id = 'running'";
    app.batch_execute(&format!("select sched.finish_success(id, lease_token) {running}")).unwrap();
    assert_eq!(one::<String>(&mut app, &format!("select status {running}")), "SUCCESS");
    // The run that a schedule waits for ends, and arms it.
    app.batch_execute("select sched.cancel(id) from sched.execution where schedule_name = 'chained'").unwrap();
    wait_for(
        &mut app,
        &format!(
            "select count(*) > 0 from sched.execution where schedule_name = 'chained' and plan_time > '{adopted}'"
        ),
        SOON,
    );
    // New schedules get new numbers.
    app.batch_execute("select sched.create_schedule('after', '@daily', 'job')").unwrap();
    let newest = "select schedule_name from sched.schedule order by schedule_id desc limit 1";
    assert_eq!(one::<String>(&mut db, newest), "after");
}

#[test]
fn a_restored_dump_is_complete_and_fires_nothing_until_adopted() {
    let (cluster, mut db) = original();
    let file = dump(&cluster, "postgres", &[]);
    let original = seen(&mut db);
    let other = Cluster::builder().set("sched.tick_interval", "100ms").start_other();
    other.execute("create role app login; create role ops login");
    // Into the database of the same name and number: only the server is another one.
    restore(&other, "postgres", &file);
    let mut copy = other.connect();
    // created_at and baseline_at too: the triggers that see the rows arrive change none of them.
    assert_eq!(seen(&mut copy), original);
    drop(copy);
    stays_still_until_adopted(&other, "postgres");
    // The original has not noticed anything.
    wait_for(&mut db, "select max(plan_time) > clock_timestamp() - interval '1 second' from sched.execution where schedule_name = 'pulse'", SOON);
}

/// The new cluster has another identifier, so that it is a copy like others. Timers come along, too: they fire nothing either.
#[test]
fn a_cluster_after_pg_upgrade_fires_nothing_until_adopted() {
    let (old, mut db) = original();
    let new = Cluster::builder().set("sched.tick_interval", "100ms").start_other();
    new.stop(Shutdown::Fast);
    db.batch_execute("select sched.pause('pulse'); select sched.resume('pulse')").unwrap();
    let before = seen(&mut db);
    drop(db);
    old.stop(Shutdown::Fast);
    new.upgrade_from(&old);
    new.start();
    assert_eq!(seen(&mut new.connect()), before);
    stays_still_until_adopted(&new, "postgres");
    // pg_upgrade knows nothing of the rights on types of rows; adopting takes them from PUBLIC again.
    let open = "select count(*) from pg_type t where t.typnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) and t.typelem = 0 and has_type_privilege('public', t.oid, 'usage')";
    assert_eq!(one::<i64>(&mut new.connect(), open), 0);
}

/// Many jobs load the tables in any order, so that schedules may be there before the home that says whose they are.
#[test]
fn a_parallel_restore_beside_the_original_fires_nothing_either() {
    let (cluster, _db) = original();
    let folder = dump(&cluster, "postgres", &["--format=directory"]);
    cluster.execute("create database restored");
    let restore = || cluster.client(Command::new(bin().join("pg_restore")), "postgres", "restored");
    // The worst order: everything but the home, and time for the dispatcher to look.
    let list = restore().arg("--list").arg(&folder).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let (home, rest): (Vec<&str>, Vec<&str>) = list.lines().partition(|line| line.contains("TABLE DATA sched home"));
    assert_eq!(home.len(), 1, "{list}");
    for (name, lines) in [("rest", rest), ("home", home)] {
        let file = cluster.folder().join(name);
        std::fs::write(&file, lines.join("\n")).unwrap();
        let output =
            restore().args(["--jobs=2", "--dbname=restored", "--use-list"]).arg(&file).arg(&folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        if name == "rest" {
            let mut db = cluster.connect_as("postgres", "restored");
            wait_until("a dispatcher", SOON, || dispatcher(&mut db));
            stays("what was fired", Duration::from_secs(1), || one::<String>(&mut db, LAST));
            assert_eq!(one::<i64>(&mut db, "select sched.dispatch_due()"), 0);
        }
    }
    stays_still_until_adopted(&cluster, "restored");
}

#[test]
fn a_database_made_from_a_template_fires_nothing_until_adopted() {
    let (cluster, db) = original();
    drop(db);
    cluster.set("sched.databases", "none");
    let mut other = cluster.connect_as("postgres", "template1");
    wait_for(&mut other, "select not exists (select from pg_stat_activity where datname = 'postgres')", SOON);
    other.batch_execute("create database copied template postgres").unwrap();
    drop(other);
    cluster.set("sched.databases", "*");
    stays_still_until_adopted(&cluster, "copied");
    // The original goes on, with what it missed while it had no dispatcher.
    let mut db = cluster.connect();
    assert!(one::<bool>(&mut db, "select sched.is_home()"));
    wait_for(&mut db, "select max(plan_time) > clock_timestamp() - interval '1 second' from sched.execution where schedule_name = 'pulse'", SOON);
}

#[test]
fn a_dump_taken_under_load_is_consistent() {
    let (cluster, mut db) = original();
    // Runners that claim and finish all the time, while schedules fire.
    db.batch_execute("select sched.create_schedule('load ' || n, 'every 20 milliseconds', 'job', overlap => 'skip') from generate_series(1, 20) n").unwrap();
    let script = cluster.folder().join("load.sql");
    std::fs::write(&script, "select sched.finish_success(execution_id, lease_token) from sched.claim('q', 5);\nselect sched.enqueue('job');\n").unwrap();
    let mut load = cluster.client(Command::new(bin().join("pgbench")), "postgres", "postgres");
    load.args(["--no-vacuum", "--client=3", "--time=60", "--file"]).arg(&script);
    let load = Program::start(load, &cluster.folder().join("load.log"));
    wait_for(&mut db, "select count(*) > 300 from sched.execution where status = 'SUCCESS'", SOON);
    for round in 1..=3 {
        let file = dump(&cluster, "postgres", &[]);
        let database = format!("round_{round}");
        cluster.execute(&format!("create database {database}"));
        restore(&cluster, &database, &file);
        let mut copy = cluster.connect_as("postgres", &database);
        // An unfinished execution is in exactly one of the three places, a finished one in none; nobody waits for one that has ended.
        let wrong = &format!("select coalesce(string_agg(format('%s: %s place(s), %s', e.status, p.places, case when a.execution_id is null then 'not awaited' else 'awaited' end), '; '), '')
                       from sched.ledger e
                       left join {LEASE} l on l.execution_id = e.id
                       left join sched.awaited a on a.execution_id = e.id
                      cross join lateral (select count(*) as places from {PLACE} p where p.execution_id = e.id) p
                      where p.places <> (e.status = 'PENDING' or e.next_retry_at is not null or l.execution_id is not null)::int
                         or (p.places = 0 and a.execution_id is not null)");
        assert_eq!(one::<String>(&mut copy, wrong), "", "round {round}");
        assert!(one::<bool>(
            &mut copy,
            "select (select last_value from sched.fence) >= max(fence) from sched.execution"
        ));
    }
    drop(load);
}

/// The first lease writes the home down. Without that the dispatcher would never look at it.
#[test]
fn a_rolled_back_first_claim_leaves_it_to_the_next() {
    let cluster = Cluster::builder().set("sched.tick_interval", "100ms").start();
    let mut db = cluster.with_extension("postgres");
    let claim = "select sched.try_claim('job', '2026-01-01', stale_timeout => '1 millisecond')";
    for round in ["a new extension", "another in the same session"] {
        db.batch_execute(&format!("begin; {claim}; {claim}; rollback")).unwrap();
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.home"), 0, "{round}");
        db.batch_execute(&format!("begin; savepoint s; {claim}; rollback to s; {claim}; commit")).unwrap();
        assert_eq!(one::<i64>(&mut db, "select count(*) from sched.home"), 1, "{round}");
        wait_for(&mut db, "select status = 'FAILED' from sched.execution", SOON);
        db.batch_execute("drop extension scheduler; create extension scheduler").unwrap();
    }
}

/// A pooled session lives long, and knows from before that it is at home.
#[test]
fn a_session_that_has_claimed_hands_nothing_out_once_this_is_a_copy() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let mut runner = cluster.connect();
    runner.batch_execute("select sched.enqueue('job'), sched.enqueue('job'); select sched.claim()").unwrap();
    runner.batch_execute("prepare next as select sched.claim()").unwrap();
    for (change, state) in [
        ("insert into sched.home select system_identifier + 1, database from sched.home", "55000"),
        ("select sched.adopt()", "none"),
        ("copy sched.home (system_identifier, database) from program 'echo 1,1' csv", "55000"),
        ("truncate sched.home", "none"),
    ] {
        db.batch_execute(change).unwrap();
        for statement in ["execute next", "select sched.try_claim('job', '2026-01-01')"] {
            let refused = runner.batch_execute(statement).err().map(|error| error.code().unwrap().code().to_owned());
            assert_eq!(refused.as_deref().unwrap_or("none"), state, "{statement} after {change}");
        }
    }
}

#[test]
fn a_dump_without_the_ledger_brings_the_schedules() {
    let (cluster, _db) = original();
    let without = EXECUTION_TABLES.map(|table| format!("--exclude-table-data={table}"));
    let file = dump(&cluster, "postgres", &without.iter().map(String::as_str).collect::<Vec<_>>());
    cluster.execute("create database copied");
    restore(&cluster, "copied", &file);
    let mut copy = cluster.connect_as("postgres", "copied");
    for table in EXECUTION_TABLES {
        assert_eq!(one::<i64>(&mut copy, &format!("select count(*) from {table}")), 0, "{table}");
    }
    assert_eq!(states(&mut copy), "chained copied, paused paused, pulse copied");
    copy.batch_execute("select sched.adopt()").unwrap();
    wait_for(&mut copy, "select count(distinct schedule_name) = 2 from sched.execution", SOON);
}

#[test]
fn a_dump_restored_where_it_came_from_is_at_home() {
    let (cluster, mut db) = original();
    let file = dump(&cluster, "postgres", &[]);
    db.batch_execute("drop extension scheduler").unwrap();
    restore(&cluster, "postgres", &file);
    let restored: String = one(&mut db, "select clock_timestamp()::text");
    assert!(one::<bool>(&mut db, "select sched.is_home()"));
    // Nobody adopts it: it goes on, with what was missed (the schedule wants every plan).
    wait_for(&mut db, &format!("select count(*) > 3 from sched.execution where plan_time > '{restored}'"), SOON);
    println!("{} plans", whole_grid(&mut db, "pulse", "200 milliseconds"));
}

/// Logical replication brings the rows and leaves each sequence at its beginning.
#[test]
fn adopting_moves_sequences_behind_what_is_there() {
    let (cluster, _db) = original();
    let file = dump(&cluster, "postgres", &[]);
    cluster.execute("create database replica");
    restore(&cluster, "replica", &file);
    let mut db = cluster.connect_as("postgres", "replica");
    let sequences = "select count(*) filter (where last_value > 1) from pg_sequences where schemaname = 'sched'";
    db.batch_execute("do $$ declare s regclass; begin for s in select oid from pg_class where relnamespace = 'sched'::regnamespace and relkind = 'S' loop perform setval(s, 1, false); end loop; end $$")
        .unwrap();
    assert_eq!(one::<i64>(&mut db, sequences), 0);
    let greatest: i64 = one(
        &mut db,
        &format!("select greatest((select max(fence) from {LEASE} l), (select max(fence) from sched.ledger))"),
    );
    db.batch_execute("select sched.adopt()").unwrap();
    db.batch_execute(
        "set role app; select sched.create_schedule('new', 'every 1 second', 'job'), sched.alter_schedule('paused', clock => '@daily');
         select sched.define_job('fresh', queue => 'fresh'), sched.enqueue('fresh'); reset role",
    )
    .unwrap();
    assert!(one::<i64>(&mut db, "select fence from sched.claim('fresh')") > greatest);
    wait_for(&mut db, "select exists (select from sched.execution where schedule_name = 'new')", SOON);
    wait_for(&mut db, "select not exists (select from sched.schedule_change)", SOON);
}

/// What the owner of a clone does whose identity is that of its original: a base backup, a recovery to a point in time.
#[test]
fn adopting_at_home_is_a_new_baseline() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('job');
         select sched.create_schedule('s', 'every 100 milliseconds', 'job', catch_up => 'every_plan')",
    )
    .unwrap();
    wait_for(&mut db, "select clock_timestamp() - created_at > interval '1 second' from sched.schedule", SOON);
    let adopted: String = one(&mut db, "select clock_timestamp()::text");
    db.batch_execute("select sched.adopt()").unwrap();
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select count(*) > 3 from sched.execution", SOON);
    assert_eq!(one::<i64>(&mut db, &format!("select count(*) from sched.execution where plan_time <= '{adopted}'")), 0);
}

/// Nothing belongs to a database in which nothing was ever defined.
#[test]
fn databases_made_from_a_template_with_nothing_in_it_are_homes() {
    let cluster = Cluster::builder().set("sched.tick_interval", "200ms").start();
    cluster.connect_as("postgres", "template1").batch_execute("create extension scheduler").unwrap();
    for database in ["one", "two"] {
        cluster.execute(&format!("create database {database}"));
        let mut db = cluster.connect_as("postgres", database);
        db.batch_execute(
            "select sched.define_job('j'); select sched.create_schedule('s', 'every 100 milliseconds', 'j')",
        )
        .unwrap();
        wait_for(&mut db, "select count(*) > 2 from sched.execution", SOON);
    }
}

/// No callback sees the end of a prepared transaction: whoever next wants work, or gives some, asks for the dispatcher. In a copy nobody does.
#[test]
fn a_prepared_adoption_gets_its_dispatcher_with_the_next_claim() {
    let cluster = Cluster::builder().set("max_prepared_transactions", "2").start();
    cluster.execute("create database app");
    cluster
        .with_extension("app")
        .batch_execute(
            "select sched.define_job('job'); select sched.create_schedule('s', 'every 200 milliseconds', 'job')",
        )
        .unwrap();
    wait_for(&mut cluster.connect_as("postgres", "app"), "select count(*) > 1 from sched.execution", SOON);
    cluster.execute("create database copy template app");
    let says = "dispatcher for database \"copy\" stopped";
    wait_until("the copy's dispatcher to leave", SOON, || (!cluster.logged(says).is_empty()).then_some(()));
    let mut db = cluster.connect_as("postgres", "copy");
    for clock in ["every 1 hour", "every 200 milliseconds"] {
        db.batch_execute(&format!("select sched.alter_schedule('s', clock => '{clock}')")).unwrap();
        refused(&mut db, "select * from sched.claim()");
    }
    stays("what the log says of the copy", Duration::from_secs(2), || cluster.logged(says).len());
    assert_eq!(cluster.logged(says).len(), 1, "{:#?}", cluster.logged(says));
    db.batch_execute("begin; select sched.adopt(); prepare transaction 'adopt'").unwrap();
    db.batch_execute("commit prepared 'adopt'").unwrap();
    db.batch_execute("select * from sched.claim()").unwrap();
    wait_for(&mut db, "select count(*) > 1 from sched.execution where created_at > (select max(backend_start) from pg_stat_activity where pid = pg_backend_pid())", SOON);
}
