//! Jobs of kind `sql`: where their executions wait, and who does not get them. No runner of the server is at work in these tests.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::store::queue::runner_queue;
    use crate::test_support::tables::*;
    use crate::test_support::{check, dispatch, refused, run, set_fast_path, sql, time_passes};

    /// Where executions of sql jobs of the caller wait whose queue is this.
    fn runner_queue_of_caller(queue: &str) -> String {
        runner_queue::name(sql("SELECT current_user::regrole::oid").parse::<u32>().unwrap().into(), queue)
    }

    #[pg_test]
    fn schema_and_library_name_the_same_queue() {
        run(&["SELECT sched.define_job('s/job', 'sql', 'SELECT 1', 'reports')", "SELECT sched.define_job('s/pull')"]);
        check("SELECT queue FROM sched.job WHERE job_name = 's/job'", "reports");
        check("SELECT ready_queue FROM sched.job WHERE job_name = 's/job'", &runner_queue_of_caller("reports"));
        check("SELECT ready_queue FROM sched.job WHERE job_name = 's/pull'", "default");
        for owner in ["1", "10", "4294967295"] {
            run(&[&format!("UPDATE sched.job SET owner = {owner}::oid WHERE job_name = 's/job'")]);
            let name = sql("SELECT ready_queue FROM sched.job WHERE job_name = 's/job'");
            assert_eq!(name, runner_queue::name(owner.parse::<u32>().unwrap().into(), "reports"));
            assert!(runner_queue::is_runner_queue(&name) && name.len() == 72 + "reports".len(), "{name}");
            assert_eq!(runner_queue::owner(&name).unwrap().to_u32().to_string(), owner);
            assert_eq!(runner_queue::user_queue(&name), "reports");
            check(
                &format!(
                    "SELECT bool_and(q.name > '{}' AND q.name < '{}') FROM (SELECT ready_queue FROM sched.job WHERE job_name = 's/job'
                      UNION ALL SELECT left(ready_queue, 72) || a FROM sched.job, unnest(array['~', 'zz', '9', ' ', 'Ω']) AS a WHERE job_name = 's/job') AS q (name)",
                    runner_queue::bounds(runner_queue::owner(&name))[0],
                    runner_queue::bounds(runner_queue::owner(&name))[1],
                ),
                "t",
            );
        }
        assert_eq!(runner_queue::user_queue("mail"), "mail");
        assert!(!runner_queue::is_runner_queue("executions that the server runs itself"));
        run(&["SELECT sched.define_job('s/job', 'pull', NULL, 'executions that the server runs itself, as the role with')"]);
        check("SELECT ready_queue = queue FROM sched.job WHERE job_name = 's/job'", "t");
    }

    #[pg_test]
    fn whatever_makes_an_execution_leaves_it_to_the_runners() {
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            run(&[
                "SELECT sched.define_job('s/routed', 'sql', 'SELECT 1', 'reports', priority => 3)",
                "SELECT sched.create_schedule('s/routed', '0 * * * *', 's/routed', overlap => 'allow')",
                "SELECT sched.dispatch_due()",
            ]);
            time_passes("1 hour");
            dispatch(1);
            run(&[
                "SELECT sched.fire_now('s/routed')",
                "SELECT sched.backfill('s/routed', now() - interval '5 hours', now() - interval '4 hours')",
                "SELECT sched.enqueue('s/routed')",
                "SELECT sched.enqueue('s/routed', plan_time => '2026-01-01', scope_id => 'once')",
                "SELECT sched.enqueue('s/routed', scope_id => 'drawn')",
                "SELECT sched.enqueue_many('s/routed', '{1,2}')",
            ]);
            check(
                "SELECT origin, count(*), min(queue), max(queue), min(status) FROM sched.execution WHERE job_name = 's/routed' GROUP BY 1 ORDER BY 1",
                "backfill|1|reports|reports|PENDING\nenqueue|5|reports|reports|PENDING\nmanual|1|reports|reports|PENDING\nschedule|1|reports|reports|PENDING",
            );
            check(
                &format!("SELECT {TRUE_PLACE}, w.route, w.queue, w.runs_as = e.owner, count(*) FROM sched.ledger e JOIN {ROUTE} w ON w.execution_id = e.id
                           WHERE e.job_name = 's/routed' GROUP BY 1, 2, 3, 4"),
                "ready|server|reports|t|8",
            );
            check("SELECT count(*) FROM sched.claim('reports', 100)", "0");
            run(&[
                "SELECT sched.drop_schedule('s/routed')",
                "SELECT sched.cancel(id) FROM sched.ledger WHERE job_name = 's/routed'",
                "DELETE FROM sched.ledger WHERE job_name = 's/routed'",
            ]);
        }
        set_fast_path(true);
    }

    #[pg_test]
    fn no_application_claims_what_the_server_runs() {
        run(&[
            "SELECT sched.define_job('s/ours', 'sql', 'SELECT 1')",
            "SELECT sched.enqueue('s/ours', '{}', '2026-01-01', 'a', 'b')",
        ]);
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            for key in ["'2026-01-01', 'a', 'b'", "'2026-01-02'"] {
                let refusal = refused(&format!("SELECT sched.try_claim('s/ours', {key})"), "0A000");
                assert_eq!(refusal.message, "job \"s/ours\" is of kind \"sql\": the server runs it itself");
            }
            check("SELECT count(*) FROM sched.claim(max_claims => 9)", "0");
        }
        set_fast_path(true);
    }

    /// Pending, to be tried again and running, of a job that changes its kind and changes it back.
    #[pg_test]
    fn what_waits_goes_with_the_kind_of_its_job() {
        const AS_SQL: &str = "SELECT sched.define_job('s/change', 'sql', 'SELECT 1', queue => 'q', max_attempts => 3)";
        const AS_PULL: &str =
            "SELECT sched.define_job('s/change', queue => 'q', max_attempts => 3, retry_backoff => '{1 hour}')";
        let places = || {
            sql(&format!(
                "SELECT {TRUE_PLACE}, w.route, w.queue, w.runs_as = e.owner, count(*) FROM sched.ledger e JOIN {ROUTE} w ON w.execution_id = e.id
                  WHERE e.job_name = 's/change' GROUP BY 1, 2, 3, 4 ORDER BY 1"
            ))
        };
        let all_in = |place: &str| format!("delayed|{place}|1\nleased|{place}|1\nready|{place}|2");
        let (workers, runners) = ("worker|q|", "server|q|t");
        run(&[
            AS_PULL,
            "SELECT sched.finish_failure(execution_id, lease_token) FROM sched.try_claim('s/change', '2026-01-01')",
            "SELECT sched.try_claim('s/change', '2026-01-02')",
            "SELECT sched.enqueue_many('s/change', '{1,2}')",
            "SELECT sched.enqueue('s/other')",
        ]);
        assert_eq!(places(), all_in(workers));
        run(&[AS_SQL]);
        assert_eq!(places(), all_in(runners));
        check("SELECT count(*) FROM sched.claim('q', 9)", "0");
        check("SELECT DISTINCT queue FROM sched.execution WHERE job_name = 's/change'", "q");
        run(&[AS_SQL]);
        assert_eq!(places(), all_in(runners));
        // A restore gave the roles other numbers.
        for statement in roles_renumbered("s/change") {
            run(&[&statement]);
        }
        assert_ne!(places(), all_in(runners));
        run(&["SELECT sched.adopt()"]);
        assert_eq!(places(), all_in(runners));
        // Another queue.
        run(&[&AS_SQL.replace("'q'", "'other'")]);
        assert_eq!(places(), all_in("server|other|t"));
        check("SELECT DISTINCT queue FROM sched.execution WHERE job_name = 's/change'", "other");
        run(&[AS_PULL]);
        assert_eq!(places(), all_in(workers));
        check("SELECT count(*) FROM sched.claim('q', 9)", "2");
        // Enqueued before there was a job.
        run(&["SELECT sched.define_job('s/other', 'sql', 'SELECT 1')"]);
        check(
            &format!("SELECT r.route, r.queue, r.runs_as = r.owner FROM {READY} r JOIN sched.ledger e ON e.id = r.execution_id WHERE e.job_name = 's/other'"),
            "server|default|t",
        );
        check("SELECT sched.cancel(id) FROM sched.execution WHERE job_name = 's/other'", "t");
        check("SELECT status FROM sched.execution WHERE job_name = 's/other'", "CANCELLED");
    }

    /// A lease that lasts as long as a process: what runners of the server write.
    #[pg_test]
    fn a_lease_without_end_is_shown_as_none() {
        run(&[
            "SELECT sched.define_job('s/leased', 'sql', 'SELECT 1', queue => 'leased')",
            "SELECT sched.try_claim('s/pulled', '2026-01-01', runner_id => 'sql/7')",
            "SELECT sched.enqueue('s/leased')",
            &put_runner_lease("4711", "e.job_name = 's/leased'"),
        ]);
        check(
            "SELECT job_name, queue, runner_id, pid, stale_after IS NULL, time_to_stale IS NULL FROM sched.running ORDER BY 1",
            "s/leased|leased|sql/4711|4711|t|t\ns/pulled|default|sql/7||f|f",
        );
        check("SELECT status, stale_after IS NULL FROM sched.execution WHERE job_name = 's/leased'", "RUNNING|t");
        check("SELECT sched.mark_stale_as_failed()", "0");
        check("SELECT count(*) FROM sched.claim()", "0");
        run(&[&format!("DELETE FROM {LEASE_TABLE}"), &put_runner_lease("99999999999", "e.job_name = 's/leased'")]);
        check("SELECT count(*), count(pid) FROM sched.running", "1|0");
        check("SELECT sched.cancel(id) FROM sched.ledger WHERE job_name = 's/leased'", "t");
    }
}
