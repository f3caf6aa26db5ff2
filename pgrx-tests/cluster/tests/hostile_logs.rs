//! I7 where a user fails on purpose: what the server's log says of that has bounds, whatever the text and however often.

use scheduler_cluster_tests::scheduler::{one, SOON};
use scheduler_cluster_tests::{wait_for, Cluster};

const RUNS: i64 = 200;

#[test]
fn runs_that_fail_do_not_fill_the_log() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "4").start();
    let mut root = cluster.with_extension("postgres");
    root.batch_execute(
        "create role evil login; select sched.grant_use('evil'); set role evil;
         select sched.define_job('loud', 'sql', $$do 'begin raise exception ''%'', repeat(''x'', 1000000); end'$$, max_attempts => 1);
         select sched.enqueue_many('loud', array_fill('{}'::jsonb, array[200]));
         reset role",
    )
    .unwrap();
    let ended = format!("select count(*) = {RUNS} from sched.failed where job_name = 'loud'");
    wait_for(&mut root, &ended, SOON);
    let log = cluster.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("run of job \"loud\"")).collect();
    let seconds: i64 = one(&mut root, "select ceil(extract(epoch from max(finished_at) - min(started_at)))::bigint from sched.execution where job_name = 'loud'");
    let most = 11 * (usize::try_from(seconds).unwrap() + 1);
    assert!(!lines.is_empty() && lines.len() <= most, "{} lines in {seconds} s", lines.len());
    assert!(lines.iter().all(|line| line.contains("in database \"postgres\" failed: P0001: xxx")), "{:.300}", lines[0]);
    let longest = log.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest < 4_400, "a line of {longest} characters");
    // There are far more runs than lines only where they are quick enough: then a line says what is left out.
    if lines.len() < usize::try_from(RUNS).unwrap() {
        assert!(log.contains("further lines of the job are left out until the next second"), "{} lines", lines.len());
    }
    // What the ledger has is whole.
    assert_eq!(one::<i64>(&mut root, "select count(*) from sched.failed where error_msg like 'xxx%'"), RUNS);
}
