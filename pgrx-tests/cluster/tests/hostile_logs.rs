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

/// Many jobs of one role, each within its own bound, do not fill the log either, nor what jobs of kind log say.
#[test]
fn the_jobs_of_a_role_do_not_fill_the_log() {
    let cluster = Cluster::builder().set("sched.max_sql_runners", "4").start();
    let mut root = cluster.with_extension("postgres");
    root.batch_execute(
        "create role evil login; select sched.grant_use('evil'); set role evil;
         select sched.define_job('loud' || i, 'sql', $$do 'begin raise exception ''%'', repeat(''x'', 4000); end'$$, max_attempts => 1),
                sched.enqueue('loud' || i) from generate_series(1, 60) as i;
         select sched.define_job('says', 'log'), sched.enqueue('says', to_jsonb(repeat('y', 1000))) from generate_series(1, 300);
         reset role; select sched.define_job('other', 'log'), sched.enqueue('other', '\"heard\"')",
    )
    .unwrap();
    wait_for(&mut root, "select count(*) = 60 from sched.failed where job_name like 'loud%'", SOON);
    let log = cluster.log();
    let bytes: usize =
        log.lines().filter(|line| line.contains("xxxxxx") || line.contains("yyyyyy")).map(str::len).sum();
    let seconds: i64 = one(&mut root, "select ceil(extract(epoch from max(finished_at) - min(created_at)))::bigint from sched.execution where job_name like 'loud%'");
    let most = (65_536 + 8_000) * (usize::try_from(seconds).unwrap() + 2);
    assert!(bytes > 10_000 && bytes < most, "{bytes} bytes in {seconds} s");
    assert!(log.contains("further lines of the role's jobs are left out until the next second"));
    assert!(log.contains("scheduler: other at"), "what another role says is not left out");
}
