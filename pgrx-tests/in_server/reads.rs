//! Reads of the ledger by id, by scope and by schedule, which go along its indexes.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{check, refused, run, sql};

    const VIEWS: [&str; 4] = ["execution", "running", "failed", "history"];

    /// How often a plan reads the ledger as a whole.
    fn scans(query: &str) -> usize {
        sql(&format!("EXPLAIN {query}")).matches("Seq Scan on ledger").count()
    }

    #[pg_test]
    fn a_join_by_id_goes_along_the_index() {
        run(&[
            "SELECT sched.define_job('rd/job', queue => 'rd')",
            "SELECT sched.enqueue_many('rd/job', (SELECT array_agg(to_jsonb(i)) FROM generate_series(1, 5000) AS i))",
            "CREATE TEMP TABLE few AS SELECT id FROM sched.execution LIMIT 12",
            &format!("ANALYZE sched.ledger, {LEASE_TABLE}, few"),
        ]);
        for view in VIEWS {
            for query in [
                format!("SELECT * FROM few JOIN sched.{view} v ON v.id = few.id"),
                format!("SELECT * FROM few LEFT JOIN sched.{view} v USING (id)"),
                format!("SELECT * FROM few CROSS JOIN LATERAL (SELECT * FROM sched.{view} v WHERE v.id = few.id) AS v"),
                format!("SELECT * FROM sched.{view} WHERE id IN (SELECT id FROM few)"),
            ] {
                assert_eq!(scans(&query), 0, "{query}");
            }
        }
        // Failed executions are looked for once, not for each row.
        assert!(scans("SELECT * FROM sched.failed JOIN sched.execution USING (id)") <= 1);
        // (The planner expects 1,000 rows of a function, a fifth of this ledger.)
        run(&["SET LOCAL enable_hashjoin = off", "SET LOCAL enable_mergejoin = off"]);
        assert_eq!(scans("SELECT * FROM sched.executions_of('rd/job', 'adhoc', '1')"), 0);
        // A view with the barrier is read whole.
        run(&["ALTER VIEW sched.execution SET (security_barrier)"]);
        assert_eq!(scans("SELECT * FROM few JOIN sched.execution v ON v.id = few.id"), 1);
    }

    #[pg_test]
    fn executions_of_a_scope_and_runs_of_a_schedule_come_newest_first() {
        run(&[
            "SELECT sched.define_job('rd/job', kind => 'log'), sched.create_schedule('rd/a', '0 * * * *', 'rd/job')",
            "SELECT sched.backfill('rd/a', '2026-01-01 00:00+00', '2026-01-01 03:00+00')",
            "SELECT sched.alter_schedule('rd/a', scope_id => 'other')",
            "SELECT sched.backfill('rd/a', '2026-01-02 00:00+00', '2026-01-02 02:00+00')",
            "SELECT sched.define_job('rd/pull'), sched.enqueue('rd/pull', '1', '2026-01-01 00:00+00', 'rd', 'x'), sched.enqueue('rd/pull', '2', '2026-01-02 00:00+00', 'rd', 'x')",
        ]);
        let hours = "SELECT string_agg(to_char(plan_time AT TIME ZONE 'UTC', 'DD\"/\"HH24'), ' ') FROM sched.";
        // Through a change of its scope.
        check(&format!("{hours}runs_of('rd/a')"), "02/01 02/00 01/02 01/01 01/00");
        check(&format!("{hours}runs_of('rd/a', '2026-01-01 01:00+00', '2026-01-02 00:00+00')"), "01/02 01/01");
        check(&format!("{hours}runs_of('rd/a', to_time => '2026-01-01 01:00+00')"), "01/00");
        check(&format!("{hours}executions_of('rd/job', 'schedule', 'other')"), "02/01 02/00");
        check(
            "SELECT string_agg(payload::text || status, ' ') FROM sched.executions_of('rd/pull', 'rd', 'x')",
            "2PENDING 1PENDING",
        );
        check(&format!("{hours}executions_of('rd/pull', 'rd', 'x', from_time => '2026-01-01 00:00:01+00')"), "02/00");
        check("SELECT count(*) FROM sched.executions_of('rd/none', 'rd', 'x')", "0");
        for (call, code) in [
            ("executions_of(NULL, 'rd', 'x')", "22004"),
            ("executions_of('rd/job', 'rd', '')", "22023"),
            ("executions_of('rd/job', 'rd', 'x', '2026-01-02', '2026-01-01')", "22023"),
            ("executions_of('rd/job', 'rd', 'x', '-infinity')", "22008"),
            ("runs_of('rd/none')", "42704"),
            ("runs_of(NULL)", "22004"),
            ("runs_of('rd/a', '2026-01-02', '2026-01-02')", "22023"),
        ] {
            refused(&format!("SELECT * FROM sched.{call}"), code);
        }
    }
}
