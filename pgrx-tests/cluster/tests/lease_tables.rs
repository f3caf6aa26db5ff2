//! What the tables of the ledger do over time: heartbeats stay cheap, and history leaves without being noticed.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Client, Cluster};
use std::thread;

fn number(db: &mut Client, query: &str) -> i64 {
    one(db, query)
}

/// 100,000 heartbeats, each in a transaction of its own, on 1,000 runs.
#[test]
fn heartbeats_are_heap_only_and_leave_the_tables_as_they_are() {
    // VACUUM comes while it goes on. ANALYZE does not: it sleeps with a snapshot that keeps all these versions, if only by chance.
    let cluster = Cluster::builder()
        .set("autovacuum_naptime", "1s")
        .set("autovacuum_analyze_threshold", "2000000000")
        .set("max_wal_size", "2GB")
        .start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "create table held as select n, execution_id, lease_token from generate_series(1, 1000) n,
                sched.try_claim('beat', '2026-01-01', 'n', n::text)",
    )
    .unwrap();
    let lease_size = &format!("select pg_total_relation_size('{LEASE_TABLE}')");
    let ledger_updates = "select n_tup_upd from pg_stat_user_tables where relname = 'ledger'";
    let (size, updates) = (number(&mut db, lease_size), number(&mut db, ledger_updates));
    thread::scope(|scope| {
        for share in 0..2 {
            let mut db = cluster.connect();
            scope.spawn(move || {
                db.batch_execute(&format!(
                    "do $$ declare h held;
                     begin
                         for round in 1..100 loop
                             for h in select * from held where n % 2 = {share} loop
                                 perform sched.heartbeat(h.execution_id, h.lease_token, progress => to_jsonb(round));
                                 commit;
                             end loop;
                         end loop;
                     end $$"
                ))
                .unwrap();
            });
        }
    });
    wait_for(
        &mut db,
        &format!("select n_tup_upd >= 100000 from pg_stat_user_tables where relid = '{LEASE_TABLE}'::regclass"),
        SOON,
    );
    let counted =
        format!("select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = '{LEASE_TABLE}'::regclass");
    let row = db.query_one(&counted, &[]).unwrap();
    let (all, hot): (i64, i64) = (row.get(0), row.get(1));
    let grown = number(&mut db, lease_size);
    println!("{hot} of {all} heap-only; the table was {size} bytes and is {grown}");
    assert!(hot * 100 >= all * 95, "{hot} of {all} updates were heap-only");
    assert!(grown <= 2 * size, "the table was {size} bytes and is {grown}");
    assert_eq!(number(&mut db, ledger_updates), updates);
    assert_eq!(number(&mut db, "select count(*) from sched.execution where progress = '100'"), 1000);
}

/// VACUUM keeps the pages of ended leases for the next ones: to give them back it would lock out all claims.
#[test]
fn vacuum_gives_no_page_of_the_leases_back() {
    let cluster = Cluster::builder().set("autovacuum", "off").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    let pages = &format!("select pg_relation_size('{LEASE_TABLE}') / 8192");
    let mut lengths = Vec::new();
    for round in 1..=2 {
        db.batch_execute(&format!(
            "create table held as select c.* from generate_series(1, 1000) n, sched.try_claim('vacuumed', '2026-01-01', '{round}', n::text) c;
             do $$ begin
                 if exists (select from sched.finish_success_many((select array_agg(execution_id) from held), (select array_agg(lease_token) from held)))
                 then raise 'lost'; end if;
             end $$;
             drop table held"
        ))
        .unwrap();
        db.batch_execute(&format!("vacuum {LEASE_TABLE}")).unwrap();
        lengths.push(number(&mut db, pages));
    }
    assert!(lengths[0] > 50 && lengths[1] == lengths[0], "{lengths:?} pages");
}

/// A run's payload is written once: neither its heartbeats nor its end touch it.
#[test]
fn a_payload_of_100_kb_is_written_once() {
    let cluster = Cluster::builder().set("autovacuum", "off").start();
    let mut db = cluster.with_extension("postgres");
    db.batch_execute(
        "select sched.enqueue('large', jsonb_build_object('p', (select string_agg(md5(random()::text), '') from generate_series(1, 3200))));
         create table held as select execution_id, lease_token, octet_length(payload::text) as bytes from sched.claim()",
    )
    .unwrap();
    assert!(number(&mut db, "select bytes::bigint from held") > 100_000);
    let toast = "select pg_relation_size(reltoastrelid) from pg_class where oid = 'sched.ledger'::regclass";
    let written = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    db.batch_execute("checkpoint; select sched.heartbeat(execution_id, lease_token) from held").unwrap();
    let (size, before) = (number(&mut db, toast), number(&mut db, written));
    for round in 0..100 {
        db.batch_execute(&format!(
            "select sched.heartbeat(execution_id, lease_token, progress => '{round}') from held"
        ))
        .unwrap();
    }
    db.batch_execute("select sched.finish_success(execution_id, lease_token) from held").unwrap();
    let bytes = number(&mut db, written) - before;
    println!("100 heartbeats and a finish wrote {bytes} bytes of WAL");
    assert!(bytes < 100_000, "100 heartbeats and a finish wrote {bytes} bytes of WAL");
    assert_eq!(number(&mut db, toast), size);
}

/// Old executions leave in batches that claims never wait for; never the newest of a scope, never one that has not ended.
#[test]
fn history_leaves_in_batches() {
    let cluster = Cluster::builder().set("sched.history_retention", "2s").set("sched.enabled", "off").start();
    let mut db = cluster.with_extension("postgres");
    // 4,000 finished ones in four scopes, of which each keeps its newest, and three that have not ended.
    db.batch_execute(
        "select sched.finish_success(execution_id, lease_token)
           from generate_series(1, 1000) i, generate_series(1, 4) s,
                sched.try_claim('old', '2026-01-01'::timestamptz + i * interval '1 minute', 'scope', s::text);
         select sched.finish_failure(execution_id, lease_token, next_retry_at => '2999-01-01')
           from sched.try_claim('retry', '2026-01-01', max_attempts => 2);
         select sched.try_claim('running', '2026-01-01');
         select sched.enqueue('pending', plan_time => '2026-01-01', scope_kind => 'global', scope_id => 'global');
         select sched.finish_success(execution_id, lease_token)
           from (values ('retry'), ('running'), ('pending')) j (job), sched.try_claim(job, '2026-01-02')",
    )
    .unwrap();
    let count = "select count(*) from sched.execution where job_name = 'old'";
    assert_eq!(number(&mut db, count), 4000);
    // All of them are to go at once, or the steps are cut elsewhere.
    wait_for(
        &mut db,
        "select max(finished_at) < clock_timestamp() - interval '2 seconds' from sched.execution where job_name = 'old'",
        SOON,
    );
    // A row whose deletion takes its time stops the walk in its third step: the first two have been committed by then.
    let stop: String =
        one(&mut db, "select id::text from sched.ledger where job_name = 'old' order by id offset 2500 limit 1");
    db.batch_execute(&format!(
        "create function stop() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(1); return old; end $$;
         create trigger stop before delete on sched.ledger for each row when (old.id = '{stop}') execute function stop();
         alter table sched.ledger enable always trigger stop"
    ))
    .unwrap();
    let mut blocker = cluster.connect();
    let mut block = blocker.transaction().unwrap();
    block.batch_execute("select pg_advisory_xact_lock(1)").unwrap();
    // All of them are old: a walk that ended between them would begin its next one at another place.
    wait_for(&mut db, "select max(created_at) < clock_timestamp() - interval '2.5 seconds' from sched.execution", SOON);
    cluster.set("sched.enabled", "on");
    wait_for(&mut db, "select count(*) < 2010 from sched.execution where job_name = 'old'", SOON);
    wait_for(
        &mut db,
        "select exists (select from pg_stat_activity where backend_type = 'scheduler dispatcher' and wait_event_type = 'Lock')",
        SOON,
    );
    // Some of the four newest were among those that the two steps looked at.
    assert!((2000..=2004).contains(&number(&mut db, count)));
    // Meanwhile claims go on as if nothing happened.
    db.batch_execute("set lock_timeout = '20 s'").unwrap();
    let claimed = number(
        &mut db,
        "select count(*) from generate_series(1, 500) i, sched.try_claim('old', '2027-01-01'::timestamptz + i * interval '1 minute')
          where outcome = 'won'",
    );
    assert_eq!(claimed, 500);
    assert_eq!(number(&mut db, "select count(*) from sched.claim(max_claims => 9)"), 1);
    assert_eq!(number(&mut db, "select count(*) from sched.try_claim('old', '2026-01-01 00:01+00', 'scope', '4')"), 1);
    block.rollback().unwrap();
    drop(blocker);
    wait_for(&mut db, "select count(*) = 4 from sched.execution where job_name = 'old' and scope_kind = 'scope'", SOON);
    assert_eq!(
        number(&mut db, "select count(*) from sched.execution where scope_kind = 'scope' and plan_time = timestamptz '2026-01-01' + interval '1000 minutes'"),
        4
    );
    // What has not ended is older than the newest of its scope, and stays all the same.
    let left: String = one(
        &mut db,
        "select string_agg(job_name || ' ' || status, ', ' order by job_name) from sched.execution
          where job_name in ('retry', 'running', 'pending') and plan_time = '2026-01-01'",
    );
    assert_eq!(left, "pending RUNNING, retry FAILED, running RUNNING");
}

/// Who waits for a lock on a table that is being written anew takes what is in it then.
#[test]
fn a_claim_that_waits_for_a_table_that_is_rewritten_finds_its_rows() {
    let cluster = Cluster::builder().set("sched.enabled", "off").start();
    let (mut admin, mut db) = (cluster.with_extension("postgres"), cluster.connect());
    db.batch_execute("select sched.define_job('anew', max_attempts => 3)").unwrap();
    for (state, table) in [("ready", READY_TABLE), ("delayed", DELAYED_TABLE)] {
        db.batch_execute("select sched.enqueue_many('anew', '{1,2,3}')").unwrap();
        if state == "delayed" {
            db.batch_execute(
                "select sched.finish_failure(execution_id, lease_token, next_retry_at => clock_timestamp() + interval '100 milliseconds')
                   from sched.claim(max_claims => 3)",
            )
            .unwrap();
            wait_for(
                &mut db,
                &format!("select count(*) = 3 and max(due_at) < clock_timestamp() from {DELAYED} d"),
                SOON,
            );
        }
        admin.batch_execute(&format!("begin; alter table {table} set unlogged")).unwrap();
        let claimed = thread::scope(|scope| {
            let claim = scope.spawn(|| number(&mut db, "select count(*) from sched.claim(max_claims => 9)"));
            wait_for(&mut admin, "select exists (select from pg_locks where not granted)", SOON);
            admin.batch_execute("commit").unwrap();
            claim.join().unwrap()
        });
        assert_eq!(claimed, 3, "{state}");
    }
}
