//! A session whose last keys were new takes the next one for a new one too.

use postgres::error::SqlState;
use scheduler_cluster_tests::scheduler::one;
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{Client, Cluster};

/// Where it is not, it hears so at once, as anybody does.
#[test]
fn a_wrong_guess_is_noticed_by_nobody() {
    let cluster = Cluster::builder().row_by_row().set("sched.enabled", "off").start();
    let (mut holder, mut db) = (cluster.with_extension("postgres"), cluster.connect());
    let believe = |db: &mut Client| {
        db.batch_execute("select sched.try_claim('new', to_timestamp(n), 'a', gen_random_uuid()::text) from generate_series(1, 20) n").unwrap();
    };
    let claim = |db: &mut Client| {
        one::<String>(db, "select outcome from sched.try_claim('guessed', '2026-01-01', max_attempts => 3)")
    };
    for (level, serializable) in [("read committed", false), ("repeatable read", false), ("serializable", true)] {
        holder.batch_execute(NO_EXECUTIONS).unwrap();
        db.batch_execute(&format!("set lock_timeout = '5 s'; set default_transaction_isolation = '{level}'")).unwrap();
        holder.batch_execute("begin").unwrap();
        assert_eq!(claim(&mut holder), "won");
        believe(&mut db);
        // Whoever writes nothing has no transaction id: that is how a guess is told from none.
        db.batch_execute("begin").unwrap();
        assert_eq!(claim(&mut db), "conflicted", "{level}");
        let guessed = one::<bool>(&mut db, "select pg_current_xact_id_if_assigned() is not null");
        assert_eq!(guessed, !serializable, "{level}");
        db.batch_execute("commit").unwrap();
        believe(&mut db);
        holder.batch_execute("rollback").unwrap();
        assert_eq!(claim(&mut db), "won", "{level}");
        believe(&mut db);
        assert_eq!(claim(&mut db), "conflicted", "{level}");
        // Another's execution; a stale one.
        holder
            .batch_execute(&format!("update {LEASE_TABLE} set stale_after = started_at, sweep_at = started_at"))
            .unwrap();
        believe(&mut db);
        assert_eq!(claim(&mut db), "stole", "{level}");
    }
    // More that may refuse a row is asked by nobody who only guesses.
    holder
        .batch_execute("create unique index mine on sched.ledger (job_name, scope_kind, scope_id, plan_time)")
        .unwrap();
    db.batch_execute("set default_transaction_isolation = 'read committed'").unwrap();
    believe(&mut db);
    assert_eq!(claim(&mut db), "conflicted");
}

/// What raises is no answer: the next claim asks.
#[test]
fn a_guess_that_fails_is_not_made_again() {
    let cluster = Cluster::builder().row_by_row().set("sched.enabled", "off").start();
    let (mut admin, mut db) = (cluster.with_extension("postgres"), cluster.connect());
    db.batch_execute("select sched.try_claim('job', to_timestamp(n), 'a', 'b') from generate_series(1, 20) n").unwrap();
    admin
        .batch_execute(&format!(
            "delete from {LEASE_TABLE}; delete from sched.ledger where plan_time > to_timestamp(1);
             update sched.ledger set runner_id = 'r', lease_token = gen_random_uuid();
             alter table sched.ledger alter lease_token set not null"
        ))
        .unwrap();
    let known = "select outcome from sched.try_claim('job', to_timestamp(1), 'a', 'b')";
    assert_eq!(db.query(known, &[]).unwrap_err().code(), Some(&SqlState::NOT_NULL_VIOLATION));
    assert_eq!(one::<String>(&mut db, known), "conflicted");
}
