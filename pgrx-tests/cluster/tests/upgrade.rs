//! Updates from released versions. What library and objects of different versions do together is in `library_versions`.

use scheduler_cluster_tests::catalog::{difference, facts};
use scheduler_cluster_tests::scheduler::{dispatcher, one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{repository, stays, wait_for, wait_until, Client, Cluster};
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::upgrade_rows::{what_0_2_0_added_goes_on, what_0_3_0_added_goes_on, what_0_3_1_added_goes_on};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The versions whose install scripts are kept in sql/release, but for this one.
pub fn released() -> Vec<String> {
    let files = fs::read_dir(repository().join("sql/release")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut versions: Vec<String> = names
        .filter_map(|name| Some(name.strip_prefix("scheduler--")?.strip_suffix(".sql")?.to_owned()))
        .filter(|version| version != VERSION)
        .collect();
    versions.sort();
    assert!(!versions.is_empty());
    versions
}

/// The first release, before which there was none: later ones know more tables and rights.
pub fn was_first(version: &str) -> bool {
    version == "0.1.0"
}

/// A database with rights that an update must neither forget nor hand on: a user, a monitor, and default privileges. The extension is
/// created by one superuser; the connection is another's, who updates it.
pub fn prepared(cluster: &Cluster, database: &str, version: &str) -> Client {
    cluster.execute(&format!("create database {database}"));
    let mut dba = cluster.connect_as("dba", database);
    let mut db = cluster.connect_as("postgres", database);
    for superuser in [&mut dba, &mut db] {
        superuser
            .batch_execute(
                "alter default privileges grant all on functions to nosy;
                 alter default privileges grant all on tables to nosy;
                 alter default privileges grant all on sequences to nosy;
                 alter default privileges grant all on types to nosy;
                 alter default privileges grant all on schemas to nosy",
            )
            .unwrap();
    }
    dba.batch_execute(&format!("create extension scheduler version '{version}'")).unwrap();
    db
}

pub const ROLES: &str =
    "create role dba superuser login; create role app login; create role ops login; create role nosy login;
                         create role partly login";
pub const GRANTS: &str = "select sched.grant_use('app'), sched.grant_monitor('ops')";
/// Single rights that somebody was given by hand: an update makes no user, monitor or worker of him.
pub const PARTS: &str = "grant usage on schema sched to partly; grant execute on function sched.define_job to partly;
                     grant select on sched.monitor to partly; grant insert on sched.ledger to partly";

#[test]
fn an_updated_extension_is_what_a_new_one_is() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(ROLES);
    let mut new = prepared(&cluster, "new", VERSION);
    new.batch_execute(GRANTS).unwrap();
    new.batch_execute(PARTS).unwrap();
    let fresh = facts(&mut new);
    assert!(fresh.len() > 300, "the catalogs hold more than {} facts", fresh.len());
    for version in released() {
        let database = format!("from_{}", version.replace('.', "_"));
        let mut old = prepared(&cluster, &database, &version);
        old.batch_execute(GRANTS).unwrap();
        old.batch_execute(PARTS).unwrap();
        let before = facts(&mut old);
        assert!(!difference(["old", "new"], &before, &fresh).is_empty(), "{version} is not another version");
        old.batch_execute("alter extension scheduler update").unwrap();
        let updated = facts(&mut old);
        let names = [&*format!("after the update from {version}"), "in a new extension"];
        // A later library goes on with the objects of a release that has the same number.
        if layout(&before).is_some() && layout(&before) == layout(&fresh) {
            let tables = difference(["old", "new"], &of_tables(&before), &of_tables(&fresh));
            assert!(
                tables.is_empty(),
                "{version} has the number of sched_internal.table_layout(), but other tables:\n{tables}"
            );
        }
        let different = difference(names, &updated, &fresh);
        assert!(
            different.is_empty(),
            "the scripts in sql do not bring from {version} to {VERSION} all that is new:\n{different}"
        );
    }
}

/// What says which tables there are, and how they are numbered.
fn layout(facts: &BTreeSet<String>) -> Option<&String> {
    facts.iter().find(|fact| fact.starts_with("function sched_internal.table_layout"))
}

fn of_tables(facts: &BTreeSet<String>) -> BTreeSet<String> {
    let kinds = ["column sched.", "constraint ", "index ", "sequence ", "trigger "];
    facts.iter().filter(|fact| kinds.iter().any(|kind| fact.starts_with(kind))).cloned().collect()
}

/// A user from whom some rights were taken is one all the same: he gets what is new, and nothing back.
#[test]
fn what_was_taken_from_a_user_stays_taken() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create role trimmed; create role partly; create role lead");
    for version in released() {
        let database = format!("from_{}", version.replace('.', "_"));
        cluster.execute(&format!("create database {database}"));
        let mut db = cluster.connect_as("postgres", &database);
        db.batch_execute(&format!("create extension scheduler version '{version}'")).unwrap();
        db.batch_execute(
            "select sched.grant_use('trimmed'), sched.grant_monitor('trimmed');
             revoke execute on function sched.dispatch_due from trimmed; revoke select on sched.failed from trimmed",
        )
        .unwrap();
        // What later releases than the first one gave.
        let later = !was_first(&version);
        if later {
            db.batch_execute(
                "revoke execute on function sched.enqueue_many from trimmed; revoke select on sched.skipped from trimmed",
            )
            .unwrap();
        }
        let newest = later && version != "0.2.0";
        if newest {
            db.batch_execute("revoke execute on function sched.snooze, sched.health from trimmed; revoke select on sched.alerts from trimmed")
                .unwrap();
        }
        db.batch_execute(PARTS).unwrap();
        // A function that 0.3.0 has replaced.
        db.batch_execute("grant execute on function sched.enqueue to lead with grant option").unwrap();
        db.batch_execute("alter extension scheduler update").unwrap();
        let hands_on = "select has_function_privilege('lead', 'sched.enqueue'::regproc, 'execute with grant option')";
        assert!(one::<bool>(&mut db, hands_on), "after the update from {version}");
        let rights = |role: &str| {
            format!(
                "select concat_ws(' ',
                    (select string_agg(p.proname, ' ' order by p.proname) from pg_proc p
                      where p.pronamespace = 'sched'::regnamespace and p.proname in ('claim', 'dispatch_due', 'define_job', 'enqueue_many', 'explain', 'health', 'snooze')
                        and has_function_privilege('{role}', p.oid, 'execute')),
                    (select string_agg(c.relname, ' ' order by c.relname) from pg_class c
                      where c.relnamespace = 'sched'::regnamespace and c.relname in ('alerts', 'failed', 'history', 'skipped')
                        and has_table_privilege('{role}', c.oid, 'select')))"
            )
        };
        let has: String = one(&mut db, &rights("trimmed"));
        let left = match (later, newest) {
            (_, true) => "claim define_job explain history",
            (true, _) => "claim define_job explain health snooze alerts history",
            _ => "claim define_job enqueue_many explain health snooze alerts history skipped",
        };
        assert_eq!(has, left, "after the update from {version}");
        let has: String = one(&mut db, &rights("partly"));
        assert_eq!(has, "define_job", "after the update from {version}");
    }
}

/// The comparison sees what an update can forget.
#[test]
fn each_kind_of_difference_is_seen() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("create role somebody").unwrap();
    let before = facts(&mut db);
    for (change, seen) in [
        ("alter table sched.job add column x int", "column sched.job.x"),
        ("alter table sched.job alter column priority set default 0", "column sched.job.priority"),
        ("alter table sched.job alter column queue drop not null", "column sched.job.queue"),
        ("alter table sched.schedule alter column max_plans_per_tick type bigint", "type | bigint"),
        ("alter table sched.job drop constraint job_kind_check", "constraint sched.job job_kind_check"),
        ("alter table sched.job alter column queue set (n_distinct = 5)", "n_distinct"),
        (&format!("drop index sched.{TIMER_INDEX}"), &format!("index sched.{TIMER_INDEX}")),
        (&format!("alter table {LEASE_TABLE} set (fillfactor = 90)"), &format!("relation {LEASE_TABLE}")),
        ("alter table sched.schedule disable trigger schedule_updated", "trigger sched.schedule schedule_updated"),
        ("alter function sched.claim stable", "function sched.claim"),
        ("alter function sched_internal.scope_key called on null input", "function sched_internal.scope_key"),
        ("alter function sched.claim parallel safe", "function sched.claim"),
        ("grant execute on function sched.claim to somebody", "somebody=X"),
        ("grant select on sched.schedules to somebody", "somebody=r"),
        ("comment on function sched.claim is 'x'", "function sched.claim"),
        ("create or replace view sched.running as select * from sched.running where false", "relation sched.running"),
        ("alter extension scheduler drop view sched.running", "member view sched.running"),
        ("alter sequence sched.fence cache 9", "sequence sched.fence"),
        ("alter table sched.home owner to somebody", "relation sched.home"),
        ("alter view sched.running owner to somebody", "relation sched.running"),
        ("alter function sched.adopt owner to somebody", "function sched.adopt"),
        ("alter schema sched owner to somebody", "schema sched"),
        ("grant usage on type sched.schedule to somebody", "type sched.schedule"),
        ("alter schema sched_internal owner to somebody", "schema sched_internal"),
        ("grant usage on schema sched_internal to somebody", "somebody=U"),
        ("comment on function sched_internal.uuid_v7() is 'x'", "function sched_internal.uuid_v7()"),
        ("alter function sched_internal.next_open set schema sched", "function sched.next_open"),
        ("update pg_extension set extconfig = extconfig[2:], extcondition = extcondition[2:] where extname = 'scheduler'", "dumped"),
    ] {
        // A view of itself cannot be replaced by a query of itself; its definition is looked up instead.
        let change = if change.contains("replace view") {
            let definition: String = one(&mut db, "select pg_get_viewdef('sched.running'::regclass)");
            format!("create or replace view sched.running as {} and false", definition.trim_end_matches(';'))
        } else {
            change.to_owned()
        };
        db.batch_execute("begin").unwrap();
        db.batch_execute(&change).unwrap_or_else(|error| panic!("{change}: {error}"));
        let different = difference(["before", "after"], &before, &facts(&mut db));
        assert!(different.contains(seen), "after \"{change}\" the comparison shows only: {different}");
        db.batch_execute("rollback").unwrap();
    }
    assert_eq!(difference(["before", "after"], &before, &facts(&mut db)), "");
}

/// Whatever is not derived from the rest is in a dump: a new table has to be on one of the two lists.
#[test]
fn every_table_and_sequence_is_dumped_or_derived() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let derived = format!("sched.alert_state sched.alert_watch sched.alert_watch_watch_id_seq sched.monitor sched.schedule_change sched.schedule_change_change_id_seq sched.test_clock {TIMER_TABLE}");
    let rest: String = one(
        &mut db,
        "select coalesce(string_agg(c.oid::regclass::text, ' ' order by c.relname), '') from pg_class c, pg_extension e
          where c.relnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) and c.relkind in ('r', 'S') and e.extname = 'scheduler'
            and c.oid <> all (e.extconfig)",
    );
    assert_eq!(rest, derived, "sql/schema/60_dump.sql says what pg_dump takes along");
}

/// The rows of each of these tables as JSON.
fn rows(db: &mut Client, tables: &[String]) -> Vec<(String, Vec<String>)> {
    let mut of = |table: &String| {
        let (_, key) = KEYS
            .iter()
            .find(|(kept, _)| kept == table)
            .unwrap_or_else(|| panic!("{table} is not in KEYS of pgrx-tests/support/tables.rs"));
        let query = format!("select to_jsonb(t)::text from sched.{table} t order by {key}");
        (table.clone(), db.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect())
    };
    tables.iter().map(&mut of).collect()
}

#[test]
fn an_update_under_a_running_dispatcher_keeps_every_row_and_goes_on() {
    let cluster = Cluster::builder().set("sched.tick_interval", "200ms").start();
    cluster.execute(ROLES);
    for version in released() {
        let database = format!("from_{}", version.replace('.', "_"));
        let mut db = prepared(&cluster, &database, &version);
        db.batch_execute(GRANTS).unwrap();
        let data = repository().join(format!("pgrx-tests/data/releases/{version}.sql"));
        db.batch_execute(&fs::read_to_string(data).unwrap()).unwrap();
        wait_until("a dispatcher", SOON, || dispatcher(&mut db));
        // The library is newer than these objects: it waits, and says so once.
        let says = format!("dispatcher for database \"{database}\" waits: the scheduler's library is of version \"{VERSION}\", its objects in this database are of version \"{version}\"");
        wait_until("the dispatcher to say why it waits", SOON, || (!cluster.logged(&says).is_empty()).then_some(()));
        // All tables that this version has; `sched.monitor` never has a row.
        let tables: Vec<String> = one(
            &mut db,
            "select array_agg(relname::text order by relname) from pg_class
              where relnamespace = 'sched'::regnamespace and relkind = 'r' and relname <> 'monitor'",
        );
        stays("the rows", Duration::from_secs(1), || rows(&mut db, &tables));
        assert_eq!(cluster.logged(&says).len(), 1);
        assert!(!cluster.logged("Run ALTER EXTENSION scheduler UPDATE in this database.").is_empty());

        let before = rows(&mut db, &tables);
        for (table, rows) in &before {
            assert!(!rows.is_empty(), "data/releases/{version}.sql has no row for {table}");
        }
        // In one transaction, so that nobody works on them before they are compared.
        db.batch_execute("begin; alter extension scheduler update").unwrap();
        let after = rows(&mut db, &tables);
        for ((table, before), (_, after)) in before.iter().zip(&after) {
            assert_eq!(before.len(), after.len(), "{table}");
            for (before, after) in before.iter().zip(after) {
                // The queues from which dispatchers deliver have other names since 0.3.1.
                let is_kept = "select $1::text::jsonb @> case when $2::text::jsonb ->> 'queue' like '%delivers when they are due, those of queue%'
                                                              then $2::text::jsonb - 'queue' else $2::text::jsonb end";
                let kept = db.query_one(is_kept, &[after, before]).unwrap();
                assert!(kept.get::<_, bool>(0), "{table}: {before} became {after}");
            }
        }
        db.batch_execute("commit").unwrap();

        // A dispatcher goes on: one execution for what was missed, then on time.
        let fired = "select count(*) >= 3 from sched.execution where schedule_name = 'pulse' and created_at > now() - interval '10 minutes'
                        and plan_time > clock_timestamp() - interval '1 minute'";
        wait_for(&mut db, fired, SOON);
        wait_for(&mut db, "select count(*) = 0 from sched.schedule_change", SOON);
        let mut app = cluster.connect_as("app", &database);
        let states: String = one(
            &mut app,
            "select string_agg(schedule_name || ' ' || state, ', ' order by schedule_name) from sched.schedules",
        );
        let known = if was_first(&version) {
            "chained waiting, paused paused, pulse armed, theirs external, yearly armed"
        } else {
            "backlog waiting, buffered waiting, chained waiting, edited armed, parked parked, paused paused, posix armed, pulse armed, \
             theirs external, yearly armed"
        };
        assert_eq!(states, known, "after the update from {version}");
        // The lease that was given before holds, and its end arms the schedule that waits for it.
        let lease = "from sched.execution where status = 'RUNNING' and schedule_name = 'chained'";
        assert_eq!(one::<String>(&mut app, &format!("select sched.heartbeat(id, lease_token) {lease}")), "ok");
        app.batch_execute(&format!("select sched.finish_success(id, lease_token) {lease}")).unwrap();
        wait_for(
            &mut app,
            "select count(*) >= 1 from sched.execution where schedule_name = 'chained' and status = 'PENDING'",
            SOON,
        );
        // What was claimable is.
        let oldest = "select clock_timestamp() - plan_time between '27 minutes' and '40 minutes' from sched.claim('q')";
        assert!(one::<bool>(&mut app, oldest), "what has waited for 27 minutes comes first");
        assert!(one::<bool>(&mut app, "select sched.is_home()"));
        if !was_first(&version) {
            what_0_2_0_added_goes_on(&mut app, &mut db);
        }
        if !["0.1.0", "0.2.0"].contains(&version.as_str()) {
            what_0_3_0_added_goes_on(&mut app, &mut db);
        }
        if !["0.1.0", "0.2.0", "0.3.0"].contains(&version.as_str()) {
            what_0_3_1_added_goes_on(&mut app, &mut db);
        }
        assert!(cluster.logged("ERROR").is_empty(), "{:#?}", cluster.logged("ERROR"));
    }
}

/// The other extension is updated after this one, and is then what a new one is.
#[test]
fn an_updated_scheduler_cron_is_what_a_new_one_is() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let its = "select string_agg(f, E'\\n' order by f) from (
                   select pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '') || coalesce(obj_description(p.oid, 'pg_proc'), '') as f
                     from pg_proc p where p.pronamespace in ('cron'::regnamespace, 'cron_internal'::regnamespace)
                   union all
                   select c.relname::text || c.relkind::text || coalesce(c.relacl::text, '') || coalesce(pg_get_viewdef(c.oid), '')
                     from pg_class c where c.relnamespace in ('cron'::regnamespace, 'cron_internal'::regnamespace)
                   union all
                   select pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
                    where c.relnamespace in ('cron'::regnamespace, 'cron_internal'::regnamespace)) a";
    cluster.execute(ROLES);
    let mut new = prepared(&cluster, "new", VERSION);
    new.batch_execute("create extension scheduler_cron").unwrap();
    let fresh: String = one(&mut new, its);
    assert!(fresh.contains("cron.schedule("), "{fresh}");
    // Its first release is 0.3.0.
    for version in released().into_iter().filter(|version| !["0.1.0", "0.2.0"].contains(&version.as_str())) {
        let mut db = prepared(&cluster, &format!("from_{}", version.replace('.', "_")), &version);
        db.batch_execute(&format!("create extension scheduler_cron version '{version}'")).unwrap();
        db.batch_execute("select cron.schedule('nightly', '0 3 * * *', 'select 1')").unwrap();
        db.batch_execute("alter extension scheduler update; alter extension scheduler_cron update").unwrap();
        assert_eq!(one::<String>(&mut db, its), fresh, "after the update from {version}");
        let job = "select schedule || ' ' || command || ' ' || active from cron.job where jobname = 'nightly'";
        assert_eq!(one::<String>(&mut db, job), "0 3 * * * select 1 true");
        assert!(one::<bool>(&mut db, "select cron.unschedule('nightly')"));
    }
}

#[test]
fn without_preloading_the_functions_work_and_create_extension_says_what_does_not() {
    let cluster = Cluster::builder().without_preload().start();
    let mut psql = cluster.psql("postgres", "postgres");
    let output = psql.args(["-c", "create extension scheduler"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("WARNING").count(), 1, "{said}");
    assert!(said.contains("scheduler is not preloaded") && said.contains("shared_preload_libraries"), "{said}");
    let mut db = cluster.connect();
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 50 milliseconds', 'j')")
        .unwrap();
    // By hand it fires, and a claim finds it.
    wait_until("dispatch_due to fire", SOON, || (one::<i64>(&mut db, "select sched.dispatch_due()") > 0).then_some(()));
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.claim()"), 1);
    db.batch_execute("select sched.finish_success(id, lease_token) from sched.execution where status = 'RUNNING'")
        .unwrap();
    assert_eq!(cluster.logged("WARNING").len(), 1, "{:#?}", cluster.logged("WARNING"));
    assert!(cluster.logged("ERROR").is_empty());
}

/// What pg_upgrade starts.
#[test]
fn a_server_for_pg_upgrade_has_the_settings_but_no_worker() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.define_job('j'); select sched.create_schedule('s', 'every 100 milliseconds', 'j')")
        .unwrap();
    wait_for(&mut db, "select count(*) > 2 from sched.execution", SOON);
    cluster.stop(scheduler_cluster_tests::Shutdown::Fast);
    cluster.start_with("-b");
    let mut db = cluster.connect();
    assert_eq!(one::<String>(&mut db, "select current_setting('sched.tick_interval')"), "1min");
    let workers = "select string_agg(backend_type, ' ') from pg_stat_activity where backend_type like 'scheduler%'";
    stays("the workers", Duration::from_secs(2), || one::<Option<String>>(&mut db, workers));
    assert_eq!(one::<Option<String>>(&mut db, workers), None);
    drop(db);
    cluster.restart(scheduler_cluster_tests::Shutdown::Fast);
    let mut db = cluster.connect();
    wait_for(&mut db, "select max(created_at) > pg_postmaster_start_time() from sched.execution", SOON);
}
