//! enqueue_many: as many calls of enqueue, in one.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{alone, attempt, check, granting, refused, run, sql};

    const STORED: &str = "SELECT string_agg(payload::text, ' ' ORDER BY payload::text), count(DISTINCT scope_id), min(queue), min(priority),
               min(max_attempts), min(status), min(origin), bool_and(plan_time = '2026-01-01') FROM sched.execution";

    #[pg_test]
    fn an_execution_for_each_payload_in_their_order() {
        alone();
        run(&["SELECT sched.define_job('e/job', queue => 'e', priority => 2, max_attempts => 4)"]);
        // Scopes of their own, and scopes that are given: two ways through the store.
        for scope_ids in ["NULL", "ARRAY(SELECT 's' || i FROM generate_series(1, 250) i)"] {
            run(&[
                NO_EXECUTIONS,
                &format!(
                    "CREATE TEMP TABLE enqueued AS SELECT id, row_number() OVER () AS n FROM sched.enqueue_many('e/job',
                        ARRAY(SELECT to_jsonb(i) FROM generate_series(1, 250) i),
                        ARRAY(SELECT timestamptz '2026-01-01' FROM generate_series(1, 250)), scope_ids => {scope_ids}) AS id"
                ),
            ]);
            check(
                "SELECT count(*) FROM enqueued q JOIN sched.execution e USING (id) WHERE e.payload = to_jsonb(q.n)",
                "250",
            );
            check(
                &format!("SELECT (s).* FROM ({STORED} WHERE payload IN ('1', '250')) AS s (a, b, c, d, e, f, g, h)"),
                "1 250|2|e|2|4|PENDING|enqueue|t",
            );
            // Claimed in the order in which they were given, as their plan times are equal.
            check(
                "SELECT count(*), count(DISTINCT fence), bool_and(attempt = 1), bool_and(payload = to_jsonb(n))
                   FROM sched.claim('e', 300) WITH ORDINALITY AS c (id, token, fence, attempt, a, b, d, f, payload, g, h, i, k, n)",
                "250|250|t|t",
            );
            run(&["DROP TABLE enqueued"]);
        }
        check("SELECT count(*) FROM sched.enqueue_many('e/job', '{}')", "0");
    }

    /// Version 7 of RFC 9562, rising also within a millisecond and from one call to the next; tokens are version 4.
    #[pg_test]
    fn ids_rise_and_are_of_their_versions() {
        run(&["CREATE TEMP TABLE made (n bigint GENERATED ALWAYS AS IDENTITY, id uuid)"]);
        for _ in 0..3 {
            run(&[
                "INSERT INTO made (id) SELECT sched.enqueue('e/ids', plan_time => '2026-01-01') FROM generate_series(1, 100)",
                "INSERT INTO made (id) SELECT sched.enqueue_many('e/ids', array_fill('1'::jsonb, ARRAY[100]), array_fill(timestamptz '2026-01-01', ARRAY[100]))",
            ]);
        }
        check("SELECT count(*), bool_and(id > before) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM made) AS ids", "600|t");
        check("SELECT bool_and(made.id = claimed.execution_id) FROM made JOIN (SELECT *, row_number() OVER () AS n FROM sched.claim(max_claims => 600)) AS claimed USING (n)", "t");
        let version = |id: &str| format!("get_byte(uuid_send({id}), 6) / 16, get_byte(uuid_send({id}), 8) / 64");
        check(&format!("SELECT DISTINCT {}, {}, abs(extract(epoch FROM clock_timestamp()) * 1000 - ('x0000' || left(replace(id::text, '-', ''), 12))::bit(64)::bigint) < 600000
                          FROM made JOIN {LEASE} l ON execution_id = id", version("id"), version("lease_token")), "7|2|4|2|t");
        check(&format!("SELECT count(DISTINCT lease_token), count(DISTINCT right(id::text, 16)) FROM made JOIN {LEASE} l ON execution_id = id"), "600|600");
    }

    #[pg_test]
    fn what_enqueue_does_it_does_for_each() {
        granting();
        // Without a job: queue default, owned by the caller.
        run(&["SELECT sched.enqueue_many('e/undefined', '{1,1}')", "SELECT sched.enqueue('e/undefined', '1')"]);
        check(
            "SELECT scope_kind, queue, max_attempts, allow_stale_reentry, payload, count(DISTINCT scope_id),
                    bool_and(abs(extract(epoch FROM clock_timestamp() - plan_time)) < 60) FROM sched.execution GROUP BY 1, 2, 3, 4, 5",
            "adhoc|default|1|t|1|3|t",
        );
        // The same key twice, within one call and across calls, is the same execution; the first payload stays.
        let ids =
            sql("SELECT sched.enqueue_many('e/same', '{1,2,3}', '{2026-01-01,2026-01-01,2026-01-02}', 'k', '{i,i,i}')");
        let ids: Vec<&str> = ids.lines().collect();
        assert_eq!((ids.len(), ids[0] == ids[1], ids[1] == ids[2]), (3, true, false), "{ids:?}");
        check(
            "SELECT sched.enqueue_many('e/same', '{4,5}', '{2026-01-02,2026-01-01}', 'k', '{i,i}')",
            &format!("{}\n{}", ids[2], ids[0]),
        );
        check("SELECT sched.enqueue('e/same', '6', '2026-01-01', 'k', 'i')", ids[0]);
        check(
            "SELECT string_agg(payload::text, ' ' ORDER BY plan_time) FROM sched.execution WHERE job_name = 'e/same'",
            "1 3",
        );
        check(&format!("SELECT count(*) FROM {READY} r JOIN sched.ledger e ON e.id = r.execution_id WHERE e.job_name = 'e/same'"), "2");
        // A job that nobody claims is done at once.
        run(&[
            "SELECT sched.define_job('e/told', 'notify', 'e_channel')",
            "SELECT sched.enqueue_many('e/told', '{1,2}')",
        ]);
        check(
            "SELECT status, attempt, count(*) FROM sched.execution WHERE job_name = 'e/told' GROUP BY 1, 2",
            "SUCCESS|1|2",
        );
        // Whoever enqueues for another role's job writes nothing.
        run(&["CREATE ROLE e_stranger", "SELECT sched.grant_use('e_stranger')"]);
        attempt("SELECT 1");
        run(&["SET LOCAL ROLE e_stranger"]);
        let of_anothers_job = attempt("SELECT sched.enqueue_many('e/told', '{1}')");
        let anothers = attempt("SELECT sched.enqueue_many('e/same', '{1,2}', '{2026-01-03,2026-01-01}', 'k', '{i,i}')");
        run(&["RESET ROLE"]);
        assert_eq!([of_anothers_job, anothers].map(|refusal| refusal.unwrap().sqlstate), ["42501", "42501"]);
        check("SELECT count(*) FROM sched.execution WHERE plan_time = '2026-01-03' OR payload = '1' AND job_name = 'e/told'", "1");
    }

    /// Two that name no plan time are two, also in one scope and one microsecond: row by row, by the statement, and where the job is done
    /// at once.
    #[pg_test]
    fn a_plan_time_that_is_not_named_is_free() {
        alone();
        run(&[
            "SELECT sched.define_job('e/drawn', queue => 'e drawn')",
            "SELECT sched.define_job('e/drawn and told', 'notify', 'e_drawn')",
        ]);
        let by_statements = "CREATE TRIGGER e_note BEFORE UPDATE ON sched.ledger FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()";
        for way in ["", by_statements] {
            run(&[way]);
            for job in ["e/drawn", "e/drawn and told", "e/drawn and undefined"] {
                run(&[
                    NO_EXECUTIONS,
                    &format!(
                        "CREATE TEMP TABLE drawn AS SELECT id, n::integer FROM sched.enqueue_many('{job}', '{{1,2,3,4,5}}', scope_ids => '{{c1,c1,c2,c2,c1}}')
                           WITH ORDINALITY AS d (id, n)"
                    ),
                    &format!(
                        "INSERT INTO drawn SELECT id, n + 5 FROM sched.enqueue_many('{job}', ARRAY(SELECT to_jsonb(i) FROM generate_series(6, 300) AS i),
                                scope_ids => array_fill('c1'::text, ARRAY[295])) WITH ORDINALITY AS d (id, n)"
                    ),
                    // One by one, faster than a client could.
                    &format!("INSERT INTO drawn SELECT sched.enqueue('{job}', to_jsonb(i), scope_id => 'c1'), i FROM generate_series(301, 1500) AS i"),
                ]);
                check(
                    "SELECT count(*), count(DISTINCT id), count(DISTINCT (scope_id, plan_time)), bool_and(e.payload = to_jsonb(n)),
                            bool_and(e.plan_time BETWEEN clock_timestamp() - interval '10 minutes' AND clock_timestamp()) FROM drawn JOIN sched.execution e USING (id)",
                    "1500|1500|1500|t|t",
                );
                // They come in the order in which they were given.
                check(
                    "SELECT count(*) FROM (SELECT (e.plan_time, e.id) > lag((e.plan_time, e.id)) OVER (ORDER BY n) AS later FROM drawn JOIN sched.execution e USING (id)) AS d
                      WHERE NOT later",
                    "0",
                );
                if job != "e/drawn and told" {
                    let queue = if job == "e/drawn" { "e drawn" } else { "default" };
                    check(
                        &format!("SELECT count(*), bool_and(payload = to_jsonb(n)) FROM sched.claim('{queue}', 2000) WITH ORDINALITY AS c (id, token, fence, attempt, a, b, d, f, payload, g, h, i, k, n)"),
                        "1500|t",
                    );
                }
                run(&["DROP TABLE drawn"]);
            }
            // A scope with many keys of one time: none is drawn later than it has to be.
            run(&["SELECT sched.enqueue_many('e/drawn', array_fill('1'::jsonb, ARRAY[300]), scope_kind => 'each', scope_ids => ARRAY(SELECT i::text FROM generate_series(1, 300) AS i))"]);
            check("SELECT count(DISTINCT plan_time), count(*) FROM sched.execution WHERE scope_kind = 'each'", "1|300");
            run(&["DELETE FROM sched.ledger WHERE scope_kind = 'each'"]);
        }
    }

    #[pg_test]
    fn what_cannot_be_enqueued_leaves_nothing() {
        for (arguments, sqlstate) in [
            ("NULL, '{1}'", "22004"),
            ("'', '{1}'", "22023"),
            ("'e/bad', NULL", "22004"),
            ("'e/bad', '{1,NULL}'", "22023"),
            ("'e/bad', '{1,2}', '{2026-01-01}'", "22023"),
            ("'e/bad', '{1,2}', '{2026-01-01,NULL}'", "22023"),
            ("'e/bad', '{1,2}', '{2026-01-01,infinity}'", "22008"),
            ("'e/bad', '{1,2}', '{}'", "22023"),
            ("'e/bad', '{1}', scope_kind => ''", "22023"),
            ("'e/bad', '{1}', scope_kind => NULL", "22004"),
            ("'e/bad', '{1}', scope_ids => '{a,b}'", "22023"),
            ("'e/bad', '{1,2}', scope_ids => '{a,NULL}'", "22023"),
            ("'e/bad', '{1,2}', scope_ids => '{a,\"\"}'", "22023"),
            ("'e/bad', '{1,2}', scope_ids => ARRAY['a', repeat('x', 1001)]", "22023"),
        ] {
            refused(&format!("SELECT sched.enqueue_many({arguments})"), sqlstate);
        }
    }
}
