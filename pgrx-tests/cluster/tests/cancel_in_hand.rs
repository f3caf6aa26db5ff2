//! `sched.cancel` waits for no transaction that has the execution in hand, and what it said becomes true when that one has ended.

use scheduler_cluster_tests::scheduler::{one, rest, SOON};
use scheduler_cluster_tests::sql_jobs::{define, enqueue, status};
use scheduler_cluster_tests::{wait_for, wait_until, Client, Cluster};

/// A call that has to wait fails.
const AT_ONCE: &str = "set lock_timeout = '1ms'";

/// A cluster whose dispatcher serves the database, or one in which only `dispatch_due` does anything.
fn cluster(fast_path: &str, enabled: &str) -> (Cluster, Client, Client) {
    let cluster = Cluster::builder().set("sched.fast_path", fast_path).set("sched.enabled", enabled).start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.define_job('work', queue => 'q', max_attempts => 2, retry_backoff => '{0 seconds}')",
    )
    .unwrap();
    let mut other = cluster.connect();
    other.batch_execute(AT_ONCE).unwrap();
    (cluster, db, other)
}

fn waiting(db: &mut Client) -> String {
    one(db, "select sched.enqueue('work')::text")
}

fn running(db: &mut Client) -> (String, String) {
    let id = waiting(db);
    let row = db.query_one("select execution_id::text, lease_token::text from sched.claim('q')", &[]).unwrap();
    assert_eq!(row.get::<_, String>(0), id);
    (id, row.get(1))
}

fn cancel(other: &mut Client, id: &str) -> bool {
    one(other, &format!("select sched.cancel('{id}')"))
}

/// Nothing of it is claimed any more, and it ends as CANCELLED.
fn is_cancelled(db: &mut Client, id: &str) {
    assert_eq!(one::<i64>(db, "select count(*) from sched.claim('q')"), 0);
    // A request that is kept is looked at again a little later.
    wait_until("it to be cancelled", SOON, || {
        db.batch_execute("select sched.dispatch_due()").unwrap();
        one::<bool>(db, &format!("select status = 'CANCELLED' from sched.execution where id = '{id}'")).then_some(())
    });
    wait_for(db, "select not exists (select from sched.cancel_request)", SOON);
}

/// Each transaction that can have an execution in hand, left open while it is cancelled, and what becomes of it.
fn whatever_is_open(fast_path: &str, enabled: &str) {
    let (_cluster, mut db, mut other) = cluster(fast_path, enabled);
    // A claim, which is committed or not: the next heartbeat answers cancel, and a failure ends it for good.
    let id = waiting(&mut db);
    db.batch_execute("begin").unwrap();
    let token: String = one(&mut db, "select lease_token::text from sched.claim('q')");
    assert!(cancel(&mut other, &id));
    db.batch_execute("commit").unwrap();
    assert_eq!(one::<String>(&mut db, &format!("select sched.heartbeat('{id}', '{token}')")), "cancel");
    assert_eq!(
        one::<String>(&mut db, &format!("select answer from sched.heartbeat_many('{{{id}}}', '{{{token}}}')")),
        "cancel"
    );
    assert!(one::<bool>(&mut db, &format!("select cancel_requested from sched.running where id = '{id}'")));
    db.batch_execute(&format!("select sched.finish_failure('{id}', '{token}')")).unwrap();
    is_cancelled(&mut db, &id);
    let id = waiting(&mut db);
    db.batch_execute("begin; select sched.claim('q')").unwrap();
    assert!(cancel(&mut other, &id));
    db.batch_execute("rollback").unwrap();
    is_cancelled(&mut db, &id);
    // A change of what waits.
    let id = waiting(&mut db);
    db.batch_execute(&format!("begin; select sched.alter_execution('{id}', priority => 7)")).unwrap();
    assert!(cancel(&mut other, &id));
    db.batch_execute("commit").unwrap();
    is_cancelled(&mut db, &id);
    // An end: a success counts, a failure does not, whether it is to be tried again or not.
    let (id, token) = running(&mut db);
    db.batch_execute(&format!("begin; select sched.finish_success('{id}', '{token}')")).unwrap();
    assert!(cancel(&mut other, &id));
    db.batch_execute("commit; select sched.dispatch_due()").unwrap();
    wait_for(&mut db, "select not exists (select from sched.cancel_request)", SOON);
    assert_eq!(one::<String>(&mut db, &format!("select status from sched.execution where id = '{id}'")), "SUCCESS");
    assert!(!cancel(&mut other, &id));
    for terminal in ["false", "true"] {
        let (id, token) = running(&mut db);
        db.batch_execute(&format!("begin; select sched.finish_failure('{id}', '{token}', terminal => {terminal})"))
            .unwrap();
        assert!(cancel(&mut other, &id));
        db.batch_execute("commit").unwrap();
        is_cancelled(&mut db, &id);
    }
    // A run that is given back, and a heartbeat; the key as well.
    let (id, token) = running(&mut db);
    db.batch_execute(&format!("begin; select sched.heartbeat('{id}', '{token}')")).unwrap();
    assert!(cancel(&mut other, &id));
    db.batch_execute("commit").unwrap();
    db.batch_execute(&format!("select sched.snooze('{id}', '{token}', now())")).unwrap();
    is_cancelled(&mut db, &id);
    db.batch_execute("begin; select sched.try_claim('work', '2026-01-01', stale_timeout => '1 hour')").unwrap();
    assert!(!cancel(&mut other, "00000000-0000-0000-0000-000000000000"));
    db.batch_execute("rollback").unwrap();
    let id: String = one(&mut db, "select sched.enqueue('work', '{}', '2026-01-01', 'k', 'i')::text");
    db.batch_execute(&format!("begin; select sched.alter_execution('{id}', payload => '1')")).unwrap();
    assert!(cancel(&mut other, &id));
    db.batch_execute("commit").unwrap();
    assert_ne!(one::<String>(&mut db, "select outcome from sched.try_claim('work', '2026-01-01', 'k', 'i')"), "won");
    is_cancelled(&mut db, &id);
}

#[test]
fn a_cancel_waits_for_no_open_transaction() {
    whatever_is_open("on", "on");
}

#[test]
fn a_cancel_waits_for_no_open_transaction_without_a_dispatcher() {
    whatever_is_open("on", "off");
}

#[test]
fn a_cancel_waits_for_no_open_transaction_by_statements() {
    whatever_is_open("off", "off");
}

/// `dispatch_due` in a transaction that stays open holds no run: its heartbeats and its finish go on.
#[test]
fn an_open_dispatch_due_locks_no_run() {
    for fast_path in ["on", "off"] {
        let (_cluster, mut db, mut other) = cluster(fast_path, "off");
        let id = waiting(&mut db);
        db.batch_execute("begin").unwrap();
        let token: String = one(&mut db, "select lease_token::text from sched.claim('q')");
        assert!(cancel(&mut other, &id));
        db.batch_execute("commit; begin; select sched.dispatch_due()").unwrap();
        assert_eq!(one::<String>(&mut other, &format!("select sched.heartbeat('{id}', '{token}')")), "cancel");
        other.batch_execute(&format!("select sched.finish_failure('{id}', '{token}')")).unwrap();
        db.batch_execute("commit").unwrap();
        is_cancelled(&mut db, &id);
    }
}

/// Neither do cancels of one execution for each other; and what is left of it costs the dispatcher nothing.
#[test]
fn cancels_of_one_execution_wait_for_none_of_them() {
    let (cluster, mut db, mut other) = cluster("on", "on");
    let id = waiting(&mut db);
    db.batch_execute("begin; select sched.claim('q')").unwrap();
    other.batch_execute("begin").unwrap();
    assert!(cancel(&mut other, &id));
    let mut third = cluster.connect();
    third.batch_execute(AT_ONCE).unwrap();
    assert!(cancel(&mut third, &id));
    db.batch_execute("rollback").unwrap();
    is_cancelled(&mut db, &id);
    other.batch_execute("commit").unwrap();
    wait_for(&mut db, "select not exists (select from sched.cancel_request)", SOON);
    rest(&mut db);
    // A cancel that is rolled back was none.
    let id = waiting(&mut db);
    db.batch_execute("begin; select sched.claim('q')").unwrap();
    other.batch_execute("begin").unwrap();
    assert!(cancel(&mut other, &id));
    other.batch_execute("rollback").unwrap();
    db.batch_execute("rollback").unwrap();
    assert_eq!(one::<String>(&mut db, "select execution_id::text from sched.claim('q')"), id);
}

/// A crash keeps what a cancel has said.
#[test]
fn a_request_survives_a_crash() {
    let (cluster, mut db, mut other) = cluster("on", "on");
    let id = waiting(&mut db);
    db.batch_execute("begin; select sched.claim('q')").unwrap();
    assert!(cancel(&mut other, &id));
    cluster.crash();
    cluster.start();
    let mut db = cluster.connect();
    is_cancelled(&mut db, &id);
}

/// The run of an SQL job whose commit waits for a standby that is not there.
#[test]
fn a_cancel_waits_for_no_commit_of_a_run() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(AT_ONCE).unwrap();
    db.batch_execute("set synchronous_commit = local; create table done ()").unwrap();
    define(&mut db, "job", "insert into done default values; select pg_advisory_xact_lock(1)", "");
    db.batch_execute("select pg_advisory_lock(1)").unwrap();
    let id = enqueue(&mut db, "job", 1).remove(0);
    let waits = |event: &str| {
        format!("select exists (select from pg_stat_activity where backend_type = 'scheduler runner' and wait_event = '{event}')")
    };
    wait_for(&mut db, &waits("advisory"), SOON);
    cluster.set("synchronous_standby_names", "nobody");
    db.batch_execute("select pg_advisory_unlock(1)").unwrap();
    wait_for(&mut db, &waits("SyncRep"), SOON);
    assert!(cancel(&mut db, &id));
    // The signal ends the wait, and what was committed here counts.
    wait_until("the run has ended", SOON, || Some(status(&mut db, &id).0).filter(|status| status == "SUCCESS"));
    cluster.set("synchronous_standby_names", "");
    wait_for(&mut db, "select not exists (select from sched.cancel_request)", SOON);
}
