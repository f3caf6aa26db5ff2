//! Many sessions want the same executions: each goes to one of them, and nobody waits for another's open transaction.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::sync::Barrier;
use std::thread;

const SESSIONS: usize = 64;

/// Room for the sessions, but no more locks than a server has by default.
fn crowded() -> Cluster {
    // Should anybody ever wait for another's transaction, the log says who, and for what.
    let waits = [("log_lock_waits", "on"), ("deadlock_timeout", "10s")];
    let room = Cluster::builder().set("max_connections", "100");
    let cluster = waits.into_iter().fold(room, |builder, (name, value)| builder.set(name, value)).start();
    cluster.execute("create extension scheduler");
    cluster
}

/// The same work in as many sessions as there are numbers below `sessions`; what each of them returned.
fn side_by_side<T: Send>(cluster: &Cluster, sessions: usize, work: impl Fn(&mut Client, usize) -> T + Sync) -> Vec<T> {
    // Connected before anybody begins: who failed to would leave the others waiting. The timeout is for those who wait for each other.
    let clients: Vec<Client> = (0..sessions)
        .map(|_| {
            let mut db = cluster.connect();
            db.batch_execute("set statement_timeout = '600 s'").unwrap();
            db
        })
        .collect();
    thread::scope(|scope| {
        let work = &work;
        let spawn = |(number, mut db): (usize, Client)| scope.spawn(move || work(&mut db, number));
        let all: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
        all.into_iter().map(|session| session.join().unwrap()).collect()
    })
}

#[test]
fn one_of_64_sessions_wins_a_hot_key_and_nobody_waits() {
    let cluster = crowded();
    const ROUNDS: usize = 10;
    let barrier = Barrier::new(SESSIONS);
    // Nobody commits before everybody has an answer: whoever waited for an open transaction would wait for ever.
    let answers = side_by_side(&cluster, SESSIONS, |db, _| {
        (0..ROUNDS)
            .map(|round| {
                barrier.wait();
                let mut work = db.transaction().unwrap();
                let claim = format!("select outcome from sched.try_claim('hot', '2026-01-01', 'round', '{round}')");
                // Looked at behind the barrier: who fails before it leaves the others waiting.
                let answer = work.query_one(&claim, &[]);
                barrier.wait();
                let outcome: String = answer.unwrap().get(0);
                work.commit().unwrap();
                outcome
            })
            .collect::<Vec<_>>()
    });
    for round in 0..ROUNDS {
        let count = |wanted: &str| answers.iter().filter(|outcomes| outcomes[round] == wanted).count();
        assert_eq!((count("won"), count("conflicted")), (1, SESSIONS - 1), "round {round}");
    }
    let mut db = cluster.connect();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.execution where status = 'RUNNING'"), 10);
    // Nor is anything left of those who came to write their row.
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger"), 10);
}

/// A stale run and a waiting one are taken over by one of many as well.
#[test]
fn one_of_many_sessions_takes_over() {
    let cluster = Cluster::builder().set("max_connections", "100").set("sched.enabled", "off").start();
    cluster.execute("create extension scheduler");
    let mut db = cluster.connect();
    db.batch_execute(
        "select sched.try_claim('stale', '2026-01-01', 'round', i::text, stale_timeout => '1 microsecond', max_attempts => 2)
           from generate_series(0, 9) i;
         select sched.enqueue('waiting', plan_time => '2026-01-01', scope_kind => 'round', scope_id => i::text)
           from generate_series(0, 9) i",
    )
    .unwrap();
    let barrier = Barrier::new(SESSIONS);
    let answers = side_by_side(&cluster, SESSIONS, |db, _| {
        let mut outcomes = Vec::new();
        for job in ["stale", "waiting"] {
            barrier.wait();
            let mut work = db.transaction().unwrap();
            let claims = format!(
                "select outcome, i::text from generate_series(0, 9) i, sched.try_claim('{job}', '2026-01-01', 'round', i::text)"
            );
            let answers = work.query(&claims, &[]);
            barrier.wait();
            for row in answers.unwrap() {
                outcomes.push((row.get::<_, String>(0), row.get::<_, String>(1)));
            }
            work.commit().unwrap();
        }
        outcomes
    });
    for round in 0..10 {
        let count = |wanted: &str| {
            answers.iter().flatten().filter(|(outcome, id)| outcome == wanted && *id == round.to_string()).count()
        };
        assert_eq!((count("stole"), count("won"), count("conflicted")), (1, 1, 2 * SESSIONS - 2), "round {round}");
    }
}

/// Every session tries an eighth of the keys, in an order of its own; each key is tried by eight. `in_one` puts all that a session
/// claims into one transaction: a lock for each, held to its end, would not fit into the server's lock table.
fn twenty_thousand_keys(in_one: bool) {
    const KEYS: i64 = 20_000;
    let cluster = crowded();
    let barrier = Barrier::new(SESSIONS);
    let won = side_by_side(&cluster, SESSIONS, |db, number| {
        let share = number % 8;
        db.batch_execute(&format!(
            "create temp table mine as select timestamptz '2026-01-01' + i * interval '1 minute' as plan, random() as place
               from generate_series(1, {KEYS}) i where i % 8 = {share}"
        ))
        .unwrap();
        barrier.wait();
        let claims = "select count(*) from (select plan from mine order by place) m, sched.try_claim('many', plan, stale_timeout => '1 day') c
                       where c.outcome = 'won'";
        if in_one {
            let mut work = db.transaction().unwrap();
            let answer = work.query_one(claims, &[]);
            barrier.wait();
            let won: i64 = answer.unwrap().get(0);
            work.commit().unwrap();
            return won;
        }
        db.batch_execute(
            "do $$ declare plan timestamptz; got text; won int := 0;
             begin
                 for plan in select m.plan from mine m order by place loop
                     select outcome into got from sched.try_claim('many', plan, stale_timeout => '1 day');
                     won := won + (got = 'won')::int;
                     commit;
                 end loop;
                 perform set_config('test.won', won::text, false);
             end $$",
        )
        .unwrap();
        one::<String>(db, "select current_setting('test.won')").parse().unwrap()
    });
    assert_eq!(won.iter().sum::<i64>(), KEYS);
    let mut db = cluster.connect();
    let row = db
        .query_one(
            "select count(*), count(distinct plan_time), count(distinct lease_token), count(distinct fence), max(attempt)::bigint
               from sched.execution where job_name = 'many' and status = 'RUNNING'",
            &[],
        )
        .unwrap();
    let counts: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
    assert_eq!(counts, [KEYS, KEYS, KEYS, KEYS, 1]);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger"), KEYS);
}

#[test]
fn sessions_share_20_000_keys_in_a_transaction_each() {
    twenty_thousand_keys(false);
}

#[test]
fn sessions_share_20_000_keys_in_one_transaction_per_session() {
    twenty_thousand_keys(true);
}

/// Who loses a race for a key leaves nothing of it behind, however long his transaction stays open: when the winner rolls back, the
/// key is free. A CHECK that takes its time makes the race: it is computed between the look at the key and the insert. (The statement
/// holds a lock meanwhile, and has no such race.)
#[test]
fn a_race_that_is_lost_keeps_the_key_from_nobody() {
    let cluster = Cluster::builder().row_by_row().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create function in_time() returns boolean language plpgsql as $$
         begin
             if current_setting('test.slow', true) = 'on' then perform pg_advisory_lock(1); end if;
             return true;
         end $$;
         alter table sched.ledger add check (public.in_time())",
    )
    .unwrap();
    let claim = "select outcome from sched.try_claim('job', '2026-01-01')";
    let mut gate = cluster.connect();
    gate.batch_execute("select pg_advisory_lock(1)").unwrap();
    let (mut winner, mut loser) = (cluster.connect(), cluster.connect());
    winner.batch_execute("begin").unwrap();
    loser.batch_execute("set test.slow = on; begin").unwrap();
    thread::scope(|scope| {
        let loses = scope.spawn(|| one::<String>(&mut loser, claim));
        wait_for(&mut db, "select exists (select from pg_locks where locktype = 'advisory' and not granted)", SOON);
        assert_eq!(one::<String>(&mut winner, claim), "won");
        gate.batch_execute("select pg_advisory_unlock(1)").unwrap();
        assert_eq!(loses.join().unwrap(), "conflicted");
    });
    assert_eq!(one::<String>(&mut db, claim), "conflicted", "the winner may still commit");
    winner.batch_execute("rollback").unwrap();
    assert_eq!(one::<String>(&mut db, claim), "won");
    assert_eq!(one::<String>(&mut loser, claim), "conflicted");
    loser.batch_execute("commit").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger"), 1);
}

/// A retry that a claimer of another queue, or of more than it may have, could hold in its open transaction is one that nobody gets.
#[test]
fn an_open_claim_holds_only_what_it_claimed() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    cluster.execute("create extension scheduler");
    let mut db = cluster.connect();
    db.batch_execute(
        "create role stranger login; select sched.grant_use('stranger');
         select sched.define_job('job', queue => 'q', max_attempts => 3, retry_backoff => '{1 microsecond}');
         select sched.enqueue('job', scope_id => i::text) from generate_series(1, 10) i;
         select sched.finish_failure(execution_id, lease_token) from sched.claim('q', 10)",
    )
    .unwrap();
    let claimed = |client: &mut postgres::Transaction, queue: &str, most: i32| {
        client.query("select attempt from sched.claim($1, $2)", &[&queue, &most]).unwrap().len()
    };
    let (mut elsewhere, mut stranger, mut first) =
        (cluster.connect(), cluster.connect_as("stranger", "postgres"), cluster.connect());
    let (mut elsewhere, mut stranger, mut first) =
        (elsewhere.transaction().unwrap(), stranger.transaction().unwrap(), first.transaction().unwrap());
    assert_eq!(claimed(&mut elsewhere, "default", 9), 0);
    assert_eq!(claimed(&mut stranger, "q", 9), 0);
    assert_eq!(claimed(&mut first, "q", 3), 3);
    let mut work = db.transaction().unwrap();
    assert_eq!(claimed(&mut work, "q", 20), 7);
}

/// Who locks a lease in the transaction of his work keeps nobody from extending the others, nor himself from extending his own.
#[test]
fn a_lease_that_is_locked_keeps_no_heartbeat_waiting() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute("select sched.enqueue('job', scope_id => i::text) from generate_series(1, 4) i").unwrap();
    db.batch_execute("create table run as select * from sched.claim('default', 3)").unwrap();
    // Each with its answer and whether it was extended, for it would wait for ever: a second is an error.
    let beat = |client: &mut Client| -> String {
        client
            .batch_execute(&format!(
                "set lock_timeout = '1s'; create temp table before as select execution_id, stale_after from {LEASE} l"
            ))
            .unwrap();
        one(
            client,
            "select string_agg(answer, ' ' order by r.scope_id) from run r,
                    lateral (select array_agg(execution_id order by scope_id) ids, array_agg(lease_token order by scope_id) tokens from run) a,
                    lateral (select * from sched.heartbeat_many(a.ids, a.tokens) h where h.execution_id = r.execution_id) h",
        )
    };
    let extended = &format!(
        "select string_agg((l.stale_after > b.stale_after)::text, ' ' order by r.scope_id) from run r
                      left join {LEASE} l using (execution_id) left join before b using (execution_id)"
    );
    let mut holder = cluster.connect();
    let (one_of, token): (String, String) = (
        one(&mut db, "select execution_id::text from run where scope_id = '2'"),
        one(&mut db, "select lease_token::text from run where scope_id = '2'"),
    );
    for (lock, answers) in [
        (format!("select sched.assert_lease('{one_of}', '{token}')"), "ok ok ok"),
        (format!("select sched.heartbeat('{one_of}', '{token}', progress => '1')"), "ok ok ok"),
        (format!("select sched.finish_success('{one_of}', '{token}')"), "ok ok ok"),
        (format!("select sched.cancel('{one_of}')"), "ok ok ok"),
    ] {
        holder.batch_execute(&format!("begin; {lock}")).unwrap();
        let mut other = cluster.connect();
        assert_eq!(beat(&mut other), answers, "{lock}");
        assert_eq!(one::<String>(&mut other, extended), "true false true", "{lock}");
        // His own lock is in nobody's way.
        if !lock.contains("finish") {
            let own =
                format!("select answer from sched.heartbeat_many(array['{one_of}'::uuid], array['{token}'::uuid])");
            let answer: String = one(&mut holder, &own);
            assert_eq!(answer, if lock.contains("cancel") { "cancel" } else { "ok" }, "{lock}");
        }
        holder.batch_execute("rollback").unwrap();
    }
    // What was committed counts: one is asked to stop, one has ended, and a token that is none is lost.
    db.batch_execute(&format!(
        "select sched.finish_success('{one_of}', '{token}'), (select sched.cancel(execution_id) from run where scope_id = '3')"
    ))
    .unwrap();
    let mut other = cluster.connect();
    assert_eq!(beat(&mut other), "ok lost cancel");
    db.batch_execute("update run set lease_token = gen_random_uuid() where scope_id = '1'").unwrap();
    assert_eq!(beat(&mut cluster.connect()), "lost lost cancel");
}
