//! I7 where the extension's objects change hands: as whom a function acts is asked anew at each call, and nobody's table is written as
//! somebody else.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{refused, wait_for, wait_until, Client, Cluster};

/// An extension of the superuser dba, with a schedule that fires; a superuser's session.
fn created_by_dba() -> (Cluster, Client) {
    let cluster = Cluster::new();
    cluster.execute("create role dba superuser login; create role keeper login; create role evil login");
    cluster.connect_as("dba", "postgres").batch_execute("create extension scheduler").unwrap();
    let mut root = cluster.connect();
    root.batch_execute(
        "create table seen (who name); grant insert on seen to public;
         select sched.grant_use('evil'), sched.define_job('job'), sched.create_schedule('s', 'every 100 milliseconds', 'job')",
    )
    .unwrap();
    (cluster, root)
}

#[test]
fn a_session_acts_as_the_owner_of_this_moment() {
    let (cluster, mut root) = created_by_dba();
    let mut caller = cluster.connect();
    // What it has to look up in a catalog, a session hears of changes by.
    caller.batch_execute("begin; select sched.enqueue('job'); rollback; begin; savepoint s").unwrap();
    // A call of which nothing is left but what the session remembers: it gives its locks back.
    assert_eq!(refused(&mut caller, "select sched.pause('none')"), SqlState::UNDEFINED_OBJECT);
    caller.batch_execute("rollback to s").unwrap();
    root.batch_execute("reassign owned by dba to keeper").unwrap();
    cluster
        .connect_as("keeper", "postgres")
        .batch_execute(
            "create function sched.seen() returns trigger language plpgsql as $$ begin insert into public.seen values (current_user); return new; end $$;
             create trigger seen before insert on sched.ledger for each row execute function sched.seen()",
        )
        .unwrap();
    caller.batch_execute("select sched.enqueue('job'); commit").unwrap();
    assert_eq!(one::<String>(&mut root, "select string_agg(distinct who, ' ') from seen"), "keeper");
}

/// What its owner attaches to a table would run as the extension's owner.
#[test]
fn a_table_of_somebody_who_may_not_act_for_the_owner_is_not_written() {
    let (cluster, mut root) = created_by_dba();
    wait_for(&mut root, "select count(*) > 2 from sched.execution", SOON);
    let mut caller = cluster.connect();
    caller.batch_execute("begin; savepoint s").unwrap();
    assert_eq!(refused(&mut caller, "select sched.pause('none')"), SqlState::UNDEFINED_OBJECT);
    caller.batch_execute("rollback to s").unwrap();
    root.batch_execute("create schema evil authorization evil; alter table sched.ledger owner to evil").unwrap();
    let mut evil = cluster.connect_as("evil", "postgres");
    evil.batch_execute(
        "create function evil.takes() returns trigger language plpgsql as
             $$ begin insert into public.seen values (current_user); execute 'alter role evil superuser'; return null; end $$;
         create trigger evil after insert on sched.ledger for each row execute function evil.takes()",
    )
    .unwrap();
    // A session that remembers how things were, another one, and the dispatcher.
    for client in [&mut caller, &mut root] {
        let error = client.batch_execute("select sched.enqueue('job')").expect_err("the ledger is evil's");
        let error = error.as_db_error().unwrap();
        assert_eq!(*error.code(), SqlState::INSUFFICIENT_PRIVILEGE, "{error:?}");
        assert_eq!(
            error.message(),
            "table \"sched.ledger\" belongs to role \"evil\", which may not act for role \"dba\""
        );
        assert!(error.hint().is_some(), "{error:?}");
    }
    caller.batch_execute("rollback").unwrap();
    wait_until("the dispatcher to say so", SOON, || {
        cluster
            .logged("belongs to role \"evil\"")
            .iter()
            .any(|line| line.contains("scheduler dispatcher"))
            .then_some(())
    });
    let fired: i64 = one(&mut root, "select count(*) from sched.ledger");
    root.batch_execute("drop trigger evil on sched.ledger; alter table sched.ledger owner to dba").unwrap();
    wait_for(&mut root, &format!("select count(*) > {fired} + 2 from sched.ledger"), SOON);
    assert_eq!(one::<i64>(&mut root, "select count(*) from seen"), 0);
    assert!(!one::<bool>(&mut root, "select rolsuper from pg_roles where rolname = 'evil'"));
}

/// One who may act for the owner anyway gains nothing by that; but what he puts off would run as whoever called us.
#[test]
fn what_the_owner_of_one_table_puts_off_does_not_run_as_whoever_called_us() {
    let (cluster, mut root) = created_by_dba();
    root.batch_execute(
        "create schema deputy authorization keeper; grant dba to keeper; alter table sched.ledger owner to keeper",
    )
    .unwrap();
    let fired: i64 = one(&mut root, "select count(*) from sched.ledger");
    wait_for(&mut root, &format!("select count(*) > {fired} + 2 from sched.ledger"), SOON);
    root.batch_execute("select sched.enqueue('job')").unwrap();
    let mut keeper = cluster.connect_as("keeper", "postgres");
    keeper
        .batch_execute(
            "create function deputy.deferred() returns trigger language plpgsql as
                 $$ begin insert into public.seen values (current_user); return null; end $$;
             create constraint trigger deferred after insert on sched.ledger deferrable initially deferred for each row execute function deputy.deferred()",
        )
        .unwrap();
    assert_eq!(refused(&mut root, "select sched.enqueue('job')"), SqlState::INSUFFICIENT_PRIVILEGE);
    wait_for(&mut root, "select state = 'failing' from sched.schedules", SOON);
    keeper.batch_execute("drop trigger deferred on sched.ledger").unwrap();
    wait_for(&mut root, "select state = 'armed' from sched.schedules", SOON);
    assert_eq!(one::<i64>(&mut root, "select count(*) from seen"), 0);
}
