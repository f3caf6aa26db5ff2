//! Jobs of kind log: a line for each run that is committed, and for no other; short, and not many.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::tables::*;
use scheduler_cluster_tests::{wait_for, Cluster};

/// What these jobs have said, without what the server puts before it.
fn lines(cluster: &Cluster) -> Vec<String> {
    let said = |line: &str| line.split_once("scheduler: says").map(|(_, text)| format!("says{text}"));
    cluster.log().lines().filter_map(said).collect()
}

fn without_dispatcher() -> Cluster {
    let cluster = Cluster::builder()
        .set("sched.enabled", "off")
        .set("max_prepared_transactions", "2")
        .set("timezone", "UTC")
        .start();
    cluster.execute("create extension scheduler");
    cluster.execute("select sched.define_job('says', 'log')");
    cluster
}

#[test]
fn a_line_is_written_when_its_run_is_committed() {
    let cluster = without_dispatcher();
    let mut db = cluster.connect();
    db.batch_execute("select sched.create_schedule('says it', 'every 1 second', 'says', payload => '[1]')").unwrap();
    db.batch_execute("select sched.dispatch_due()").unwrap();
    wait_for(&mut db, &format!("select fire_at < clock_timestamp() from {TIMER} t"), SOON);
    let dispatch = "select sched.dispatch_due()";
    for _ in 0..3 {
        db.batch_execute(&format!("begin; {dispatch}; rollback")).unwrap();
    }
    db.batch_execute(&format!("begin; savepoint a; {dispatch}; rollback to a; commit")).unwrap();
    db.batch_execute(&format!("begin; {dispatch}; select 1 / 0")).unwrap_err();
    db.batch_execute("rollback").unwrap();
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger"), 0);
    // Whatever the session shows times like; and nobody's statement stands beside it.
    db.batch_execute("set datestyle = 'German, DMY'; set timezone = 'Asia/Kathmandu'").unwrap();
    db.batch_execute(&format!("begin; savepoint a; savepoint b; {dispatch}; release b; release a; commit")).unwrap();
    let plan: String = one(
        &mut db,
        "select to_char(plan_time at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') from sched.ledger where status = 'SUCCESS'",
    );
    let plan = plan.trim_end_matches('0').trim_end_matches('.').to_owned();
    assert_eq!(lines(&cluster), [format!("says it at {plan}+00: [1]")]);
    assert!(!cluster.log().contains("STATEMENT:  begin; savepoint a; savepoint b"), "{}", cluster.log());
}

/// Each way to make executions, and what becomes of the lines of parts of a transaction.
#[test]
fn who_enqueues_writes_the_lines_of_what_he_commits() {
    let cluster = without_dispatcher();
    let mut db = cluster.connect();
    db.batch_execute("select sched.create_schedule('says by hand', '0 0 * * *', 'says', payload => '\"s\"')").unwrap();
    db.batch_execute(
        "begin;
         select sched.enqueue_many('says', '{2,1}', array['2026-01-02', '2026-01-01']::timestamptz[]);
         savepoint a;
         select sched.enqueue('says', '3', '2026-01-03');
         savepoint b;
         select sched.enqueue('says', '4', '2026-01-04', scope_id => 'b');
         rollback to a;
         select sched.enqueue('says', '5', '2026-01-05', scope_id => 'a');
         select sched.backfill('says by hand', '2026-01-06', '2026-01-08');
         commit",
    )
    .unwrap();
    let expected = [
        "01-01 00:00:00+00: 1",
        "01-02 00:00:00+00: 2",
        "01-05 00:00:00+00: 5",
        "01-06 00:00:00+00: \"s\"",
        "01-07 00:00:00+00: \"s\"",
    ];
    assert_eq!(lines(&cluster), expected.map(|line| format!("says at 2026-{line}")));
    // Who commits a prepared transaction is another session: the lines are written when it is prepared.
    db.batch_execute(
        "begin; select sched.enqueue('says', '6', '2026-01-09', scope_id => 'p'); prepare transaction 'p'",
    )
    .unwrap();
    assert_eq!(lines(&cluster).last().unwrap(), "says at 2026-01-09 00:00:00+00: 6");
    db.batch_execute("commit prepared 'p'").unwrap();
    assert_eq!(lines(&cluster).len(), expected.len() + 1);
    assert_eq!(one::<i64>(&mut db, "select count(*) from sched.ledger where status = 'SUCCESS'"), 6);
}

#[test]
fn lines_are_cut_and_a_transaction_writes_a_thousand() {
    let cluster = without_dispatcher();
    cluster.execute("create database bytes template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'");
    let mut bytes = cluster.connect_as("postgres", "bytes");
    bytes.batch_execute("create extension scheduler; select sched.define_job('says', 'log')").unwrap();
    let mut db = cluster.connect();
    // A quotation mark and 999 characters of two bytes each, cut; one of them less and both quotation marks, whole.
    for db in [&mut db, &mut bytes] {
        db.batch_execute("select sched.enqueue('says', to_jsonb(repeat('é', 5000)), '2026-01-01')").unwrap();
        db.batch_execute("select sched.enqueue('says', to_jsonb(repeat('é', 998)), '2026-01-02')").unwrap();
    }
    let said = [(1, "... (cut)", 999), (2, "\"", 998)]
        .map(|(day, end, count)| format!("says at 2026-01-0{day} 00:00:00+00: \"{}{end}", "é".repeat(count)));
    assert_eq!(lines(&cluster), [said.clone(), said].concat());
    db.batch_execute(
        "begin; select sched.enqueue_many('says', array_fill('7'::jsonb, array[600]));
         savepoint a; select sched.enqueue_many('says', array_fill('8'::jsonb, array[600])); release a;
         select sched.enqueue('says', '9'); commit",
    )
    .unwrap();
    let ends = |with: &str| lines(&cluster).iter().filter(|line| line.ends_with(with)).count();
    assert_eq!([ends("+00: 7"), ends("+00: 8"), ends("+00: 9")], [600, 400, 0]);
    assert_eq!(cluster.logged("scheduler: 201 more runs of jobs of kind log in the same transaction").len(), 1);
}

/// A line that has all of a payload's text, for each run, is the one multiplied by the other.
#[test]
fn a_great_payload_and_many_runs_take_little_memory() {
    let cluster = without_dispatcher();
    let mut db = cluster.connect();
    db.batch_execute(
        "select sched.create_schedule('says much', 'every 1 microsecond', 'says', catch_up => 'every_plan', max_plans_per_tick => 400,
                                      payload => to_jsonb(repeat('x', 1000000)))",
    )
    .unwrap();
    let pid: i32 = one(&mut db, "select pg_backend_pid()");
    let peak = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        value.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let before = peak();
    // Armed, it is due at once. One call writes payloads of 64 MiB at most; the next one goes on.
    let mut fired = 0;
    while fired < 400 {
        let now: i64 = one(&mut db, "select sched.dispatch_due()");
        assert!(now > 0 && now * 1_000_000 <= 64 * 1_048_576, "{now} after {fired}");
        fired += now;
    }
    let grown = peak() - before;
    println!("{grown} kB more");
    assert!(grown < 250_000, "{grown} kB");
    assert!(!lines(&cluster).is_empty());
}
