//! sched.recent, sched.last_runs, sched.waiting: what a person looks at first.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, refused, run};

    #[pg_test]
    fn recent_has_the_newest_that_have_ended_of_a_job_or_of_all() {
        run(&[
            "SELECT sched.define_job('r/one', max_attempts => 2, retry_backoff => '{1 hour}', queue => 'r'), sched.define_job('r/two', max_attempts => 1, queue => 'r')",
            // Numbers 1 to 30, one after the other; the even ones are of the other job.
            "SELECT sched.enqueue(CASE i % 2 WHEN 0 THEN 'r/two' ELSE 'r/one' END, to_jsonb(i)) FROM generate_series(1, 30) AS i",
        ]);
        check("SELECT count(*) FROM sched.recent()", "0");
        run(&[
            "CREATE TEMP TABLE held AS SELECT * FROM sched.claim('r', 30)",
            // 29 is to be tried again, 28 has failed for good, 27 goes on.
            "SELECT sched.finish_failure(execution_id, lease_token, 'E', 'x') FROM held WHERE payload IN ('28', '29')",
            "SELECT sched.finish_success(execution_id, lease_token, result => payload) FROM held WHERE payload NOT IN ('27', '28', '29')",
        ]);
        let all = "SELECT string_agg(COALESCE(r.result::text, r.status), ' ') FROM sched.recent(";
        check(&format!("{all}max_rows => 5) r"), "30 FAILED 26 25 24");
        check(&format!("{all}'r/one', 4) r"), "25 23 21 19");
        check("SELECT count(*) FROM sched.recent()", "20");
        check("SELECT count(*) FROM sched.recent('r/none')", "0");
        check(
            "SELECT count(*), bool_and(queue = 'r' AND duration_ms IS NOT NULL) FROM sched.recent('r/two', 100)",
            "15|t",
        );
        refused("SELECT * FROM sched.recent(max_rows => 0)", "22023");
        refused("SELECT * FROM sched.recent(max_rows => NULL)", "22004");
        refused("SELECT * FROM sched.recent('')", "22023");
    }

    #[pg_test]
    fn last_runs_has_twenty_of_each_schedule_through_a_new_scope() {
        run(&[
            "SELECT sched.define_job('r/job', kind => 'log'), sched.create_schedule('r/a', '0 * * * *', 'r/job'), sched.create_schedule('r/b', '0 * * * *', 'r/job')",
            "SELECT sched.backfill('r/a', '2026-01-01 00:00+00', '2026-01-01 15:00+00'), sched.backfill('r/b', '2026-01-01 00:00+00', '2026-01-01 02:00+00')",
            "SELECT sched.alter_schedule('r/a', scope_id => 'other')",
            "SELECT sched.backfill('r/a', '2026-01-02 00:00+00', '2026-01-02 10:00+00')",
        ]);
        check("SELECT count(*) FROM sched.history WHERE schedule_name = 'r/a'", "25");
        check(
            "SELECT schedule_name, count(*), min(plan_time) AT TIME ZONE 'UTC', max(plan_time) AT TIME ZONE 'UTC' FROM sched.last_runs WHERE schedule_name = 'r/a' GROUP BY 1",
            "r/a|20|2026-01-01 05:00:00|2026-01-02 09:00:00",
        );
        check(
            "SELECT count(*), min(status), min(origin) FROM sched.last_runs WHERE schedule_name = 'r/b'",
            "2|SUCCESS|backfill",
        );
    }

    #[pg_test]
    fn waiting_has_the_first_of_each_queue_in_the_order_of_claims() {
        let long = "q".repeat(57);
        run(&[
            "SELECT sched.define_job('r/job', queue => 'r')",
            &format!("SELECT sched.define_job('r/long', queue => '{long}')"),
            "SELECT sched.enqueue('r/job', to_jsonb(i), priority => i % 3) FROM generate_series(1, 130) AS i",
            "SELECT sched.enqueue('r/job', run_at => clock_timestamp() + interval '1 hour')",
            "SELECT sched.enqueue('r/long')",
        ]);
        check("SELECT count(*), min(position), max(position) FROM sched.waiting WHERE queue = 'r'", "100|1|100");
        check(&format!("SELECT job_name, position, attempt FROM sched.waiting WHERE queue = '{long}'"), "r/long|1|0");
        run(&[
            "CREATE TEMP TABLE listed AS SELECT * FROM sched.waiting WHERE queue = 'r'",
            "CREATE TEMP TABLE held AS SELECT * FROM sched.claim('r', 60)",
        ]);
        check(
            "SELECT count(*), bool_and(l.position <= 60 AND l.waits_since <= clock_timestamp()) FROM held h JOIN listed l USING (execution_id)",
            "60|t",
        );
    }
}
