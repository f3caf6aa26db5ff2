//! Executions that are enqueued for later: PENDING, and nobody's before their time.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{alone, check, executed, refused, run, set_fast_path, sql, time_passes};

    /// Where the executions of a job stand: in the ledger and in the tables of what waits.
    fn places(job: &str) -> String {
        sql(&format!(
            "SELECT e.payload, e.status, e.priority, e.run_at IS NULL, e.next_retry_at = e.run_at,
                    {TRUE_PLACE}
               FROM sched.ledger e WHERE e.job_name = '{job}' ORDER BY e.payload"
        ))
    }

    /// Both ways through the store, and both ways of what names scope and plan time.
    fn both_ways(test: impl Fn()) {
        alone();
        for row_by_row in [true, false] {
            set_fast_path(row_by_row);
            run(&[NO_EXECUTIONS]);
            test();
        }
        set_fast_path(true);
    }

    const ONE: &str = "SELECT outcome, attempt, payload FROM sched.try_claim('d/job', '2030-01-01', 'k', 'i')";

    #[pg_test]
    fn nobody_has_it_before_its_time() {
        both_ways(|| {
            run(&[
                "SELECT sched.define_job('d/job', queue => 'd', priority => 2, max_attempts => 3)",
                "SELECT sched.enqueue('d/job', '1', '2030-01-01', 'k', 'i', clock_timestamp() + interval '1 hour')",
                "SELECT sched.enqueue('d/job', '2', run_at => clock_timestamp() + interval '2 hours', priority => 7)",
                "SELECT sched.enqueue('d/job', '3', run_at => clock_timestamp() - interval '1 hour', priority => -1)",
                "SELECT sched.enqueue('d/job', '4', scope_id => 'mine', run_at => clock_timestamp())",
                "SELECT sched.enqueue('d/job', '5', scope_id => 'mine', run_at => clock_timestamp() + interval '1 hour')",
            ]);
            assert_eq!(
                places("d/job"),
                "1|PENDING|2|f|t|delayed\n2|PENDING|7|f|t|delayed\n3|PENDING|-1|f||ready\n4|PENDING|2|f||ready\n5|PENDING|2|f|t|delayed"
            );
            // The view shows when it runs, and that it is no retry.
            check("SELECT status, run_at > clock_timestamp(), next_retry_at IS NULL, attempt FROM sched.execution WHERE payload = '1'", "PENDING|t|t|0");
            check(ONE, "conflicted||");
            check(
                "SELECT status, retry_eligible, next_retry_at IS NULL FROM sched.latest_plan('d/job', 'k', 'i')",
                "PENDING|f|t",
            );
            check(
                "SELECT count(*) FROM sched.due_plans('d/job', 'at 2030-01-01 00:00+00', 'k', 'i', 'every_plan')",
                "0",
            );
            check("SELECT payload FROM sched.claim('d', 10)", "4\n3");
            run(&[FINISH_ALL]);
            time_passes("61 minutes");
            // What is due is claimed with what was claimable before, in the order of priority and plan time.
            check("SELECT payload FROM sched.claim('d')", "5");
            check("SELECT outcome, attempt, payload FROM sched.try_claim('d/job', '2030-01-01'::timestamptz - interval '61 minutes', 'k', 'i')", "won|1|1");
            check("SELECT count(*) FROM sched.claim('d', 10)", "0");
            run(&[FINISH_ALL]);
            time_passes("1 hour");
            check("SELECT payload FROM sched.claim('d', 10)", "2");
            check(&count_of(DELAYED), "0");
            // Ended, it says when it was to run, and nothing of a retry.
            run(&[FINISH_ALL]);
            check("SELECT count(*), count(run_at), count(next_retry_at) FROM sched.ledger", "5|5|0");
        });
    }

    /// What is due stands beside what is ready: by priority, then by plan time, wherever it waits; and a backlog of hundreds too.
    #[pg_test]
    fn what_is_due_comes_in_its_order() {
        both_ways(|| {
            run(&["SELECT sched.define_job('d/job', queue => 'd', stale_timeout => '10 hours')"]);
            for (number, priority, delayed) in
                [(1, 1, true), (2, 1, false), (3, 9, false), (4, 9, true), (5, 0, true), (6, 5, false)]
            {
                let run_at = if delayed { "clock_timestamp() + interval '1 hour'" } else { "NULL" };
                run(&[&format!("SELECT sched.enqueue('d/job', '{number}', '2030-01-0{number}', run_at => {run_at}, priority => {priority})")]);
            }
            run(&["SELECT sched.enqueue('other', '7', run_at => clock_timestamp() + interval '1 hour')"]);
            time_passes("61 minutes");
            check("SELECT payload FROM sched.claim('d', 2)", "3\n4");
            check("SELECT payload FROM sched.claim('d', 3)", "6\n1\n2");
            check("SELECT payload FROM sched.claim('d', 3)", "5");
            check("SELECT payload FROM sched.claim('default', 3)", "7");
            // An entry whose execution is not there stays for whoever restores it.
            run(&[
                "SELECT sched.enqueue('d/job', '8', run_at => clock_timestamp() + interval '1 hour')",
                &put_orphan_delayed("99"),
            ]);
            time_passes("61 minutes");
            check("SELECT payload FROM sched.claim('d', 3)", "8");
            check(&count_of(PENDING), "1");
            run(&[&remove_delayed("true"), &remove_ready("true")]);
            run(&["SELECT sched.enqueue_many('d/job', array_agg(to_jsonb(i)), run_ats => array_agg(clock_timestamp() + interval '1 hour'), plan_times => array_agg('2031-01-01'::timestamptz + i * interval '1 hour'))
                     FROM generate_series(1, 1200) AS i"]);
            time_passes("61 minutes");
            check("SELECT min(payload::int), max(payload::int), count(*) FROM sched.claim('d', 100)", "1|100|100");
            check("SELECT min(payload::int), max(payload::int), count(*) FROM sched.claim('d', 1000)", "101|1100|1000");
            check("SELECT min(payload::int), max(payload::int), count(*) FROM sched.claim('d', 1000)", "1101|1200|100");
            check(&count_of(PENDING), "0");
        });
    }

    #[pg_test]
    fn many_at_once_each_at_its_time() {
        both_ways(|| {
            run(&["SELECT sched.define_job('d/many', queue => 'd many')"]);
            for scope_ids in ["NULL", "ARRAY(SELECT 's' || i FROM generate_series(1, 200) AS i)"] {
                run(&[
                    NO_EXECUTIONS,
                    &format!(
                        "SELECT sched.enqueue_many('d/many', ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 200) AS i), scope_ids => {scope_ids}, priority => 3,
                                run_ats => ARRAY(SELECT CASE i % 3 WHEN 1 THEN clock_timestamp() + make_interval(mins => i) WHEN 2 THEN clock_timestamp() - '1 hour'::interval END
                                                   FROM generate_series(1, 200) AS i))"
                    ),
                ]);
                check(
                    &format!("SELECT count(*), count(DISTINCT e.priority), count(r.*), count(l.*), bool_and((l.due_at IS NOT NULL) = (e.payload::int % 3 = 1)),
                            bool_and(CASE e.payload::int % 3 WHEN 0 THEN e.run_at IS NULL ELSE e.run_at IS NOT NULL END)
                       FROM sched.ledger e LEFT JOIN {READY} r ON r.execution_id = e.id LEFT JOIN {DELAYED} l ON l.execution_id = e.id"),
                    "200|1|133|67|t|t",
                );
                time_passes("100 minutes");
                check("SELECT count(*), max(payload::int) FILTER (WHERE payload::int % 3 = 1) FROM sched.claim('d many', 300)", "167|100");
                run(&[&format!("TRUNCATE {LEASE_TABLE}")]);
            }
        });
    }

    /// Row by row it costs no statement.
    #[pg_test]
    fn enqueueing_for_later_runs_no_statement() {
        alone();
        set_fast_path(true);
        run(&["SELECT sched.define_job('d/fast')", "SELECT sched.enqueue('d/fast', run_at => '2100-01-01')"]);
        assert_eq!(executed(|| run(&["SELECT sched.enqueue('d/fast', run_at => '2100-01-01')"])), 1);
    }

    /// A delayed one is found wherever a waiting one is.
    #[pg_test]
    fn what_waits_for_its_time_is_cancelled_and_moved_like_others() {
        both_ways(|| {
            run(&[
                "SELECT sched.define_job('d/kept', queue => 'd kept')",
                "SELECT sched.enqueue('d/kept', '1', run_at => '2100-01-01')",
                "SELECT sched.enqueue('d/kept', '2', run_at => '2100-01-01')",
            ]);
            check("SELECT sched.cancel(id) FROM sched.execution WHERE payload = '1'", "t");
            assert_eq!(places("d/kept"), "1|CANCELLED|0|f||\n2|PENDING|0|f|t|delayed");
            // To the runners, and back.
            run(&["SELECT sched.define_job('d/kept', 'sql', 'SELECT 1', queue => 'd kept')"]);
            check(&format!("SELECT count(*) FROM {DELAYED} d WHERE route = 'server' AND runs_as = owner"), "1");
            check("SELECT queue, status FROM sched.execution WHERE payload = '2'", "d kept|PENDING");
            run(&["SELECT sched.define_job('d/kept', queue => 'd kept')"]);
            assert_eq!(places("d/kept"), "1|CANCELLED|0|f||\n2|PENDING|0|f|t|delayed");
            run(&["SELECT sched.drop_job('d/kept')"]);
            assert_eq!(places("d/kept"), "1|CANCELLED|0|f||\n2|PENDING|0|f|t|delayed");
            time_passes("100 years");
            check("SELECT payload FROM sched.claim('d kept', 10)", "2");
        });
    }

    /// What is otherwise done at once is delivered when it is due, by whoever dispatches, and by nobody else.
    #[pg_test]
    fn notifications_and_lines_are_delivered_at_their_time() {
        both_ways(|| {
            run(&[
                "SELECT sched.define_job('d/told', 'notify', 'd_channel', queue => 'd told')",
                "SELECT sched.define_job('d/logged', 'log', queue => 'd told')",
                "SELECT sched.enqueue('d/told', '1')",
                "SELECT sched.enqueue('d/told', '2', run_at => clock_timestamp() + interval '1 hour')",
                "SELECT sched.enqueue_many('d/told', '{3,4}', run_ats => ARRAY[NULL, clock_timestamp() + interval '1 hour'])",
                "SELECT sched.enqueue('d/logged', '5', '2030-01-01', 'k', 'i', clock_timestamp() + interval '1 hour')",
            ]);
            check(
                &format!("SELECT e.payload, e.status, e.attempt, w.queue, w.route, {TRUE_PLACE}
                   FROM sched.ledger e JOIN {ROUTE} w ON w.execution_id = e.id ORDER BY 1"),
                "1|SUCCESS|1|d told|worker|\n2|PENDING|0|d told|dispatcher|delayed\n3|SUCCESS|1|d told|worker|\n4|PENDING|0|d told|dispatcher|delayed\n5|PENDING|0|d told|dispatcher|delayed",
            );
            check("SELECT sched.dispatch_due(), count(*) FROM sched.execution WHERE status = 'PENDING'", "0|3");
            time_passes("1 hour");
            // A claim takes none of them.
            check("SELECT count(*) FROM sched.claim('d told', 10)", "0");
            check("SELECT outcome FROM sched.try_claim('d/logged', '2030-01-01'::timestamptz - interval '1 hour', 'k', 'i')", "conflicted");
            check("SELECT sched.dispatch_due()", "0");
            check(
                "SELECT count(*), count(started_at), count(finished_at), max(attempt), count(next_retry_at), count(result) FROM sched.execution WHERE status = 'SUCCESS'",
                "5|5|5|1|0|5",
            );
            check(&format!("SELECT (SELECT count(*) FROM {READY} r), (SELECT count(*) FROM {DELAYED} d)"), "0|0");
        });
    }

    /// One that NOTIFY does not take fails, and keeps no other waiting; what its job has become is asked when it is due.
    #[pg_test]
    fn a_delivery_that_cannot_be_made_fails_alone() {
        both_ways(|| {
            run(&[
                "SELECT sched.define_job(j, 'notify', 'd_channel', queue => 'd poison') FROM unnest('{d/poison, d/pulled, d/dropped}'::text[]) AS j",
                "SELECT sched.define_job('d/again', 'notify', 'd_channel', queue => 'd poison', max_attempts => 2, retry_backoff => '{1 hour}')",
                "SELECT sched.enqueue(j, to_jsonb(j), run_at => clock_timestamp() + interval '1 hour') FROM unnest('{d/poison, d/pulled, d/dropped, d/again}'::text[]) AS j",
                // (What enqueue refuses, a hand has written.)
                "SELECT sched.enqueue(j, to_jsonb(repeat('x', 100)), run_at => clock_timestamp() + interval '1 hour') FROM unnest('{d/poison, d/again}'::text[]) AS j",
                "UPDATE sched.ledger SET payload = to_jsonb(repeat('x', 8000)) WHERE payload = to_jsonb(repeat('x', 100))",
                "SELECT sched.define_job('d/pulled', queue => 'd pulled')",
                "SELECT sched.drop_job('d/dropped')",
            ]);
            time_passes("1 hour");
            run(&["SELECT sched.dispatch_due()"]);
            check(
                "SELECT job_name, status, attempt, error_code, next_retry_at IS NULL FROM sched.execution ORDER BY job_name, status, length(payload::text)",
                "d/again|FAILED|1|22023|f\nd/again|SUCCESS|1||t\nd/dropped|CANCELLED|0||t\nd/poison|FAILED|1|22023|t\nd/poison|SUCCESS|1||t\nd/pulled|PENDING|0||t",
            );
            check("SELECT payload FROM sched.claim('d pulled', 10)", "\"d/pulled\"");
            time_passes("1 hour");
            run(&["SELECT sched.dispatch_due()"]);
            check("SELECT status, attempt, error_code, next_retry_at IS NULL FROM sched.execution WHERE job_name = 'd/again' AND status = 'FAILED'", "FAILED|2|22023|t");
            check(&count_of(DELAYED), "0");
        });
    }

    #[pg_test]
    fn times_and_lengths_that_are_refused() {
        for (call, sqlstate) in [
            ("sched.enqueue('d/bad', run_at => 'infinity')", "22008"),
            ("sched.enqueue('d/bad', run_at => '-infinity')", "22008"),
            ("sched.enqueue_many('d/bad', '{1,2}', run_ats => '{2030-01-01}')", "22023"),
            ("sched.enqueue_many('d/bad', '{1,2}', run_ats => '{2030-01-01,infinity}')", "22008"),
            ("sched.enqueue_many('d/bad', '{1}', run_ats => '{}')", "22023"),
        ] {
            refused(&format!("SELECT {call}"), sqlstate);
        }
    }
}
