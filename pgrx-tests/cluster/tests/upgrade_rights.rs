//! Whose an updated extension is, and what of others' an update meets.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::{refusal, repository, Cluster};
use std::fs;

use crate::upgrade::{prepared, released, was_first, GRANTS, PARTS, ROLES};

const UPDATE: &str = "alter extension scheduler update";
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn start() -> Cluster {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute(ROLES);
    cluster.execute("create role keeper login");
    cluster
}

/// What one superuser created and another updated is the first one's, and goes to whom he hands it.
#[test]
fn what_an_update_adds_belongs_to_the_owner_of_the_rest() {
    let cluster = start();
    for version in released() {
        let mut db = prepared(&cluster, &format!("from_{}", version.replace('.', "_")), &version);
        // What anybody may say of his own tables takes nothing from their owner.
        db.batch_execute(
            "set role app; alter default privileges grant select on tables to dba;
             alter default privileges grant execute on functions to dba; reset role",
        )
        .unwrap();
        db.batch_execute(UPDATE).unwrap();
        db.batch_execute("reassign owned by dba to keeper; select sched.grant_use('app')").unwrap();
        let owners = "select string_agg(distinct owner::regrole::text, ' ')
                        from (select relowner from pg_class where relnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace)
                              union all select proowner from pg_proc where pronamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace)
                              union all select typowner from pg_type where typnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace)
                              union all select nspowner from pg_namespace where nspname in ('sched', 'sched_internal')) as o (owner)";
        assert_eq!(one::<String>(&mut db, owners), "keeper", "after the update from {version}");
        for call in [
            "select sched.define_job('j'), sched.create_schedule('s', '@hourly', 'j'), sched.dispatch_due()",
            "select sched.is_home(), sched.rebuild(), sched.enqueue('j'), sched.pause('s')",
            "select * from sched.claim()",
            "select sched.adopt()",
            "select * from sched.skipped, sched.jobs",
            "select * from sched.explain('s', '2026-01-01', '2026-01-02')",
        ] {
            db.batch_execute(call).unwrap_or_else(|error| panic!("after the update from {version}: {call}: {error:?}"));
        }
    }
}

/// Code of an owner who is no superuser would run as the one who updates: the script ends before it comes to any.
#[test]
fn an_update_runs_nothing_of_an_owner_who_is_no_superuser() {
    let cluster = start();
    for version in released() {
        let database = format!("from_{}", version.replace('.', "_"));
        let mut db = prepared(&cluster, &database, &version);
        let data = repository().join(format!("pgrx-tests/data/releases/{version}.sql"));
        db.batch_execute(&fs::read_to_string(data).unwrap()).unwrap();
        db.batch_execute("reassign owned by dba to keeper").unwrap();
        // Called for each row when the update adds a generated column.
        let schema = if was_first(&version) { "sched" } else { "sched_internal" };
        let body = |text: &str| {
            format!("create or replace function {schema}.scope_key(job_name text, scope_kind text, scope_id text) returns uuid {text}")
        };
        cluster
            .connect_as("keeper", &database)
            .batch_execute(&body("immutable language plpgsql as $$ begin raise 'trapped as %', current_user; end $$"))
            .unwrap();
        // All is his; then the schemas are given back one after the other, and the rest is not.
        let mut steps = vec![("select", "schema sched"), ("alter schema sched owner to dba", "extension scheduler")];
        if !was_first(&version) {
            steps[1].1 = "schema sched_internal";
            steps.push(("alter schema sched_internal owner to dba", "extension scheduler"));
        }
        for (given_back, named) in steps {
            db.batch_execute(given_back).unwrap();
            let error = refusal(&mut db, UPDATE);
            assert_eq!(error.code(), &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{error:?}");
            assert!(error.message().contains(named) && error.message().contains("belongs to keeper"), "{error}");
            assert!(error.hint().unwrap().contains("REASSIGN OWNED BY keeper TO"), "{error:?}");
        }
        // Somebody who trusts him, or has looked.
        db.batch_execute("reassign owned by keeper to postgres").unwrap();
        db.batch_execute(&body("immutable strict parallel safe language c as 'scheduler', 'scope_key_wrapper'"))
            .unwrap();
        db.batch_execute(UPDATE).unwrap();
    }
}

/// As CREATE EXTENSION does: the owner of a schema could own what is put into it. Nobody's is taken for ours.
#[test]
fn an_update_refuses_a_planted_schema() {
    let cluster = start();
    // Later ones have the schema.
    for version in released().into_iter().filter(|version| was_first(version)) {
        let database = format!("from_{}", version.replace('.', "_"));
        let mut db = prepared(&cluster, &database, &version);
        db.batch_execute(&format!("alter database {database} owner to keeper")).unwrap();
        for planter in ["keeper", "dba"] {
            let mut planting = cluster.connect_as(planter, &database);
            planting.batch_execute("create schema sched_internal").unwrap();
            assert_eq!(refusal(&mut db, UPDATE).code(), &SqlState::DUPLICATE_SCHEMA, "{planter}");
            planting.batch_execute("drop schema sched_internal").unwrap();
        }
        db.batch_execute(UPDATE).unwrap();
    }
}

/// A column of the type of our rows would keep the next update from altering the table. USAGE on the schema is enough to try.
#[test]
fn nobody_can_use_the_types_of_our_rows() {
    let cluster = start();
    let mut versions = released();
    versions.push(VERSION.to_owned());
    for version in versions {
        let database = format!("from_{}", version.replace(['.', '-'], "_"));
        let mut db = prepared(&cluster, &database, &version);
        for statement in ["grant create on schema public to public", UPDATE, GRANTS, PARTS] {
            db.batch_execute(statement).unwrap();
        }
        let types =
            "select array_agg(oid::regtype::text) from pg_type where typnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) and typelem = 0";
        let types: Vec<String> = one(&mut db, types);
        assert!(types.len() >= 20, "{types:?}");
        let others = "select count(*) from pg_type t, aclexplode(t.typacl) a where t.typnamespace in ('sched'::regnamespace, 'sched_internal'::regnamespace) and a.grantee <> t.typowner";
        assert_eq!(one::<i64>(&mut db, others), 0);
        for role in ["app", "ops", "partly"] {
            let mut user = cluster.connect_as(role, &database);
            for name in &types {
                for statement in [
                    "create table x (y TYPE)",
                    "create table x (y TYPE[])",
                    "create table x as select null::TYPE as y",
                    "create domain x as TYPE",
                    "create type x as (y TYPE)",
                    "create function x(TYPE) returns int language sql as 'select 1'",
                    "create function x() returns setof TYPE language plpgsql as 'begin end'",
                ] {
                    let statement = statement.replace("TYPE", name);
                    let error = refusal(&mut user, &statement);
                    assert_eq!(error.code(), &SqlState::INSUFFICIENT_PRIVILEGE, "{role}: {statement}: {error}");
                }
            }
        }
        // What needs no object of its own goes on.
        cluster
            .connect_as("app", &database)
            .batch_execute(
                "do $$ declare s sched.schedules; begin for s in select * from sched.schedules loop null; end loop; end $$;
                 create temp view mine as select * from sched.schedules; select s from sched.schedules s",
            )
            .unwrap();
    }
}

/// docs/operations/upgrades.md says what is to be done: the error names what depends on us.
#[test]
fn an_update_that_meets_what_depends_on_us_names_it() {
    let cluster = start();
    for version in released().into_iter().filter(|version| was_first(version)) {
        let mut db = prepared(&cluster, "dependent", &version);
        for (create, code, drop, named) in [
            (
                "create table public.bait (held sched.schedule)",
                SqlState::FEATURE_NOT_SUPPORTED,
                "drop table public.bait",
                "bait.held",
            ),
            (
                "create view public.bait as select sched.is_being_claimed(null, null) as it",
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                "drop view public.bait",
                "view public.bait",
            ),
        ] {
            db.batch_execute(create).unwrap();
            let error = refusal(&mut db, UPDATE);
            assert_eq!(error.code(), &code, "{error:?}");
            let says = format!("{} {}", error.message(), error.detail().unwrap_or_default());
            assert!(says.contains(named), "{error:?}");
            db.batch_execute(drop).unwrap();
        }
        db.batch_execute(UPDATE).unwrap();
    }
}
