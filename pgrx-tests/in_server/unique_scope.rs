//! Executions that are the same as one that waits: by scope, by plan; and what waits is changed and cancelled.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{alone, attempt, check, granting, refused, run, set_fast_path, sql, time_passes};

    /// Both ways through the store.
    fn both_ways(test: impl Fn()) {
        alone();
        for row_by_row in [true, false] {
            set_fast_path(row_by_row);
            run(&[NO_EXECUTIONS]);
            test();
        }
        set_fast_path(true);
    }

    /// What waits, of what there is, as a claim and a look see it; and that each stands where its row says.
    fn waiting(queue: &str) -> String {
        check(
            &format!("SELECT count(*) FROM sched.ledger e
              WHERE status = 'PENDING' AND NOT EXISTS (SELECT FROM {LEASE} l WHERE execution_id = e.id)
                AND {TRUE_PLACE} IS DISTINCT FROM CASE WHEN e.next_retry_at > clock_timestamp() THEN 'delayed' ELSE 'ready' END
                AND NOT ({TRUE_PLACE} = 'delayed' AND e.next_retry_at <= clock_timestamp())"),
            "0",
        );
        sql(&format!(
            "SELECT payload, status, attempt, priority, COALESCE(run_at, next_retry_at) > clock_timestamp() FROM sched.execution
              WHERE queue = '{queue}' AND status IN ('PENDING', 'FAILED') ORDER BY payload::text"
        ))
    }

    fn enqueue(payload: &str, more: &str) -> String {
        sql(&format!("SELECT sched.enqueue('u/job', '{payload}', scope_kind => 'k', scope_id => 'one', unique_by => 'scope'{more})"))
    }

    const LATER: &str = ", run_at => clock_timestamp() + interval '1 hour'";

    #[pg_test]
    fn one_waits_in_a_scope() {
        both_ways(|| {
            run(&["SELECT sched.define_job('u/job', queue => 'u', priority => 1, max_attempts => 3)"]);
            let first = enqueue("1", "");
            assert_eq!(enqueue("2", ""), first);
            assert_eq!(waiting("u"), "1|PENDING|0|1|");
            assert_eq!(enqueue("3", ", if_exists => 'replace', priority => 5"), first);
            assert_eq!(waiting("u"), "3|PENDING|0|5|");
            // Later, and at once again; the priority is the job's again.
            assert_eq!(enqueue("4", &format!(", if_exists => 'replace'{LATER}")), first);
            assert_eq!(waiting("u"), "4|PENDING|0|1|t");
            check("SELECT count(*) FROM sched.claim('u')", "0");
            assert_eq!(enqueue("5", ", if_exists => 'keep'"), first);
            assert_eq!(enqueue("6", ", if_exists => 'replace'"), first);
            assert_eq!(waiting("u"), "6|PENDING|0|1|");
            let refusal = refused(
                "SELECT sched.enqueue('u/job', '7', scope_kind => 'k', scope_id => 'one', unique_by => 'scope', if_exists => 'error')",
                "23505",
            );
            assert_eq!(
                refusal.message,
                "an execution of job \"u/job\" with scope_kind \"k\", scope_id \"one\" waits already"
            );
            // Another scope is another one.
            check("SELECT sched.enqueue('u/job', '8', scope_kind => 'k', scope_id => 'two', unique_by => 'scope') IS NOT NULL", "t");
            assert_eq!(waiting("u"), "6|PENDING|0|1|\n8|PENDING|0|1|");
            // A run that goes on does not count, nor one that has ended.
            check("SELECT payload FROM sched.claim('u')", "6");
            let second = enqueue("9", ", if_exists => 'replace'");
            assert_ne!(first, second);
            assert_eq!(enqueue("10", ""), second);
            assert_eq!(waiting("u"), "8|PENDING|0|1|\n9|PENDING|0|1|");
            run(&[FINISH_ALL]);
            check("SELECT count(*) FROM sched.claim('u', 10)", "2");
            run(&[FINISH_ALL]);
            assert_ne!(enqueue("11", ", if_exists => 'error'"), second);
            check("SELECT count(*), count(DISTINCT plan_time) FROM sched.ledger WHERE scope_id = 'one'", "3|3");
        });
    }

    /// One that failed and is to be tried again waits, whoever made it; so does what a plan has made.
    #[pg_test]
    fn what_was_not_enqueued_by_scope_waits_as_well() {
        both_ways(|| {
            run(&["SELECT sched.define_job('u/job', queue => 'u', max_attempts => 3, retry_backoff => '{1 hour}')"]);
            let first = enqueue("1", "");
            run(&["SELECT count(*) FROM sched.claim('u')", FAIL_ALL]);
            assert_eq!(enqueue("2", ""), first);
            assert_eq!(waiting("u"), "1|FAILED|1|0|t");
            // At once, with what it is now, and with all its attempts; its run_at is none.
            assert_eq!(enqueue("3", ", if_exists => 'replace'"), first);
            assert_eq!(waiting("u"), "3|FAILED|0|0|f");
            check("SELECT payload, attempt FROM sched.claim('u')", "3|1");
            let second = enqueue("4", "");
            assert_ne!(second, first);
            run(&[FAIL_ALL, "SELECT sched.cancel(id) FROM sched.execution WHERE payload = '4'"]);
            // The one that the scope had last has ended: the other one waits.
            assert_eq!(enqueue("5", &format!(", if_exists => 'replace'{LATER}")), first);
            check("SELECT status, next_retry_at > clock_timestamp(), run_at IS NULL FROM sched.execution WHERE payload = '5'", "FAILED|t|t");
            run(&["SELECT sched.cancel(id) FROM sched.execution WHERE payload = '5'"]);
            let by_plan = sql("SELECT sched.enqueue('u/job', '6', '2020-01-01', 'k', 'one')");
            assert_eq!(enqueue("7", ""), by_plan);
            // What lies under more than a thousand newer ones is not looked for.
            run(&[
                "UPDATE sched.unique_scope SET execution_id = gen_random_uuid()",
                "INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, status, max_attempts, allow_stale_reentry, origin, owner)
                 SELECT key, job_name, scope_kind, scope_id, timestamptz '2030-01-01' + make_interval(secs => i), queue, priority, '0', 'SUCCESS', 1, true, origin, owner
                   FROM sched.ledger, generate_series(1, 999) AS i WHERE payload = '6'",
                "DELETE FROM sched.ledger WHERE status = 'CANCELLED'",
            ]);
            assert_eq!(enqueue("8", ""), by_plan);
            run(&[
                "UPDATE sched.unique_scope SET execution_id = gen_random_uuid()",
                "UPDATE sched.ledger SET plan_time = '2031-01-01' WHERE plan_time = (SELECT max(plan_time) FROM sched.ledger)",
                "INSERT INTO sched.ledger (key, job_name, scope_kind, scope_id, plan_time, queue, priority, payload, status, max_attempts, allow_stale_reentry, origin, owner)
                 SELECT key, job_name, scope_kind, scope_id, '2032-01-01', queue, priority, '0', 'SUCCESS', 1, true, origin, owner FROM sched.ledger WHERE payload = '6'",
            ]);
            assert_ne!(enqueue("9", ""), by_plan);
        });
    }

    #[pg_test]
    fn many_scopes_at_once_and_one_scope_twice() {
        both_ways(|| {
            run(&["SELECT sched.define_job('u/many', queue => 'u many')"]);
            let many = |payloads: &str, scopes: &str, more: &str| {
                sql(&format!("SELECT string_agg(id::text, ' ' ORDER BY n) FROM sched.enqueue_many('u/many', '{payloads}', scope_ids => '{scopes}', unique_by => 'scope'{more}) WITH ORDINALITY AS e (id, n)"))
            };
            let ids = many("{1,2,3,4}", "{a,b,a,c}", "");
            let ids: Vec<&str> = ids.split(' ').collect();
            assert!(ids[0] == ids[2] && ids[0] != ids[1] && ids[1] != ids[3], "{ids:?}");
            assert_eq!(waiting("u many"), "1|PENDING|0|0|\n2|PENDING|0|0|\n4|PENDING|0|0|");
            // The last one says what it is.
            let replaced = many(
                "{5,6,7,8}",
                "{c,d,c,d}",
                ", if_exists => 'replace', run_ats => ARRAY[NULL, '2100-01-01', '2100-01-01', NULL]::timestamptz[]",
            );
            let replaced: Vec<&str> = replaced.split(' ').collect();
            assert!(
                replaced[0] == ids[3] && replaced[2] == ids[3] && replaced[1] == replaced[3],
                "{ids:?} {replaced:?}"
            );
            assert_eq!(waiting("u many"), "1|PENDING|0|0|\n2|PENDING|0|0|\n7|PENDING|0|0|t\n8|PENDING|0|0|");
            for scopes in ["{x,y,x}", "{x,y,a}"] {
                refused(&format!("SELECT sched.enqueue_many('u/many', '{{1,2,3}}', scope_ids => '{scopes}', unique_by => 'scope', if_exists => 'error')"), "23505");
            }
            // As many as one likes.
            let all = "ARRAY(SELECT 's' || i FROM generate_series(1, 10000) AS i)";
            for payload in [1, 2] {
                check(
                    &format!("SELECT count(DISTINCT id) FROM sched.enqueue_many('u/many', array_fill('{payload}00'::jsonb, ARRAY[10000]), scope_ids => {all}, unique_by => 'scope', if_exists => 'replace') AS id"),
                    "10000",
                );
            }
            check(&format!("SELECT payload, count(*) FROM sched.ledger JOIN {READY} r ON execution_id = id WHERE scope_id LIKE 's%' GROUP BY 1"), "200|10000");
            check("SELECT count(*) FROM sched.claim('u many', 20000)", "10003");
        });
    }

    #[pg_test]
    fn one_of_a_plan_is_replaced_while_it_waits() {
        both_ways(|| {
            run(&["SELECT sched.define_job('u/plan', queue => 'u plan')"]);
            let plan = |payload: &str, more: &str| {
                format!("SELECT sched.enqueue('u/plan', '{payload}', '2030-01-01', 'k', 'i'{more})")
            };
            let replace = ", if_exists => 'replace'";
            let id = sql(&plan("1", replace));
            assert_eq!(sql(&plan("2", &format!("{replace}{LATER}, priority => 4"))), id);
            assert_eq!(waiting("u plan"), "2|PENDING|0|4|t");
            assert_eq!(sql(&plan("3", replace)), id);
            assert_eq!(waiting("u plan"), "3|PENDING|0|0|");
            let refusal = refused(&plan("4", ", if_exists => 'error'"), "23505");
            assert_eq!(
                refusal.message,
                "an execution of job \"u/plan\" with scope_kind \"k\", scope_id \"i\" and plan time \"2030-01-01 00:00:00+00\" exists already"
            );
            refused("SELECT sched.enqueue_many('u/plan', '{1,2}', '{2030-01-02,2030-01-02}', 'k', '{j,j}', if_exists => 'error')", "23505");
            check(
                "SELECT count(DISTINCT id) FROM sched.enqueue_many('u/plan', '{5,6,7}', '{2030-01-01,2030-01-02,2030-01-02}', 'k', '{i,j,j}', if_exists => 'replace') AS id",
                "2",
            );
            assert_eq!(waiting("u plan"), "5|PENDING|0|0|\n7|PENDING|0|0|");
            // One that runs or has ended is kept, for ever.
            check("SELECT payload FROM sched.claim('u plan')", "5");
            assert_eq!(sql(&plan("8", replace)), id);
            run(&[FINISH_ALL]);
            assert_eq!(sql(&plan("9", replace)), id);
            check("SELECT payload, status FROM sched.execution WHERE scope_id = 'i'", "5|SUCCESS");
            // By scope a plan time that is named is taken for ever as well.
            assert_eq!(sql(&plan("10", ", unique_by => 'scope'")), id);
            refused(&plan("11", ", unique_by => 'scope', if_exists => 'error'"), "23505");
            // A plan time or a scope that the call leaves out is never the same.
            for free in ["", ", scope_id => 'i'", ", plan_time => '2030-01-01'"] {
                check(&format!("SELECT count(DISTINCT sched.enqueue('u/plan'{free})) FROM generate_series(1, 3)"), "3");
                for word in ["replace", "error"] {
                    let refusal =
                        refused(&format!("SELECT sched.enqueue('u/plan'{free}, if_exists => '{word}')"), "22023");
                    assert_eq!(
                        refusal.message,
                        format!("if_exists \"{word}\" needs scope_id and plan_time where unique_by is \"plan\"")
                    );
                }
            }
            for free in ["", ", scope_ids => '{i}'", ", plan_times => '{2030-01-01}'"] {
                refused(
                    &format!("SELECT sched.enqueue_many('u/plan', '{{1}}'{free}, if_exists => 'replace')"),
                    "22023",
                );
            }
        });
    }

    #[pg_test]
    fn what_replaces_has_all_attempts() {
        both_ways(|| {
            run(&["SELECT sched.define_job('u/job', queue => 'u', max_attempts => 2, retry_backoff => '{1 hour}')"]);
            let plan = |payload: &str| {
                format!("SELECT sched.enqueue('u/job', '{payload}', '2030-01-01', 'p', 'i', if_exists => 'replace')")
            };
            let scope = |payload: &str| {
                format!("SELECT sched.enqueue('u/job', '{payload}', scope_id => 's', unique_by => 'scope', if_exists => 'replace')")
            };
            for (old, new) in [(plan("1"), plan("2")), (scope("3"), scope("4"))] {
                let id = sql(&old);
                check("SELECT count(sched.finish_failure(execution_id, lease_token)) FROM sched.claim('u')", "1");
                assert_eq!(sql(&new), id);
                // Two attempts, the first of them at once.
                check("SELECT attempt FROM sched.claim('u')", "1");
                run(&[&format!("SELECT sched.finish_failure(id, lease_token) FROM sched.execution WHERE id = '{id}'")]);
                check(
                    &format!("SELECT attempt, next_retry_at IS NOT NULL FROM sched.execution WHERE id = '{id}'"),
                    "1|t",
                );
                check(&format!("SELECT sched.cancel('{id}')"), "t");
            }
        });
    }

    #[pg_test]
    fn what_waits_is_altered() {
        both_ways(|| {
            run(&[
                "SELECT sched.define_job('u/job', queue => 'u', max_attempts => 2, retry_backoff => '{1 hour}')",
                "SELECT sched.enqueue('u/job', to_jsonb(i)) FROM generate_series(1, 3) AS i",
            ]);
            let alter = |payload: &str, change: &str, expected: &str| {
                check(
                    &format!(
                        "SELECT sched.alter_execution(id{change}) FROM sched.execution WHERE payload = '{payload}'"
                    ),
                    expected,
                );
            };
            alter("1", "", "t");
            alter("1", ", '\"one\"'", "t");
            alter("2", LATER, "t");
            alter("3", ", priority => 3", "t");
            assert_eq!(waiting("u"), "\"one\"|PENDING|0|0|\n2|PENDING|0|0|t\n3|PENDING|0|3|");
            alter("2", ", priority => 2", "t");
            check("SELECT priority, run_at > clock_timestamp() FROM sched.execution WHERE payload = '2'", "2|t");
            check("SELECT payload FROM sched.claim('u', 10)", "3\n\"one\"");
            alter("3", ", '0'", "f");
            alter("2", ", run_at => clock_timestamp() - interval '1 day'", "t");
            check("SELECT payload FROM sched.claim('u', 10)", "2");
            run(&[FAIL_ALL]);
            // A retry has its time.
            alter("2", ", run_at => '2100-01-01'", "t");
            check("SELECT status, next_retry_at = '2100-01-01', run_at < clock_timestamp() FROM sched.execution WHERE payload = '2'", "FAILED|t|t");
            alter("2", ", '\"two\"', clock_timestamp()", "t");
            check("SELECT payload, attempt FROM sched.claim('u', 10)", "\"two\"|2");
            run(&[FINISH_ALL]);
            alter("\"two\"", ", '0'", "f");
            check("SELECT sched.alter_execution(gen_random_uuid(), '1')", "f");
            check("SELECT sched.cancel(id) FROM sched.execution WHERE payload = '3'", "t");
            alter("3", ", '0'", "f");
            for (arguments, sqlstate) in [("NULL", "22004"), ("gen_random_uuid(), run_at => 'infinity'", "22008")] {
                refused(&format!("SELECT sched.alter_execution({arguments})"), sqlstate);
            }
        });
    }

    #[pg_test]
    fn what_waits_is_cancelled_together() {
        granting();
        both_ways(|| {
            run(&[
                "SELECT sched.define_job('u/a', queue => 'u a', max_attempts => 2, retry_backoff => '{1 hour}')",
                "SELECT sched.define_job('u/b', 'sql', 'SELECT 1', queue => 'u b')",
                "SELECT sched.define_job('u/c', 'notify', 'u_c', queue => 'u b')",
            ]);
            let fill = || {
                run(&[
                    NO_EXECUTIONS,
                    "SELECT sched.enqueue_many('u/a', '{1,2,3,4}', scope_ids => '{x,x,y,z}', run_ats => '{NULL,2100-01-01,NULL,NULL}')",
                    "SELECT sched.finish_failure(execution_id, lease_token) FROM sched.claim('u a')",
                    "SELECT sched.enqueue_many('u/b', '{5,6}', scope_ids => '{x,y}', run_ats => '{NULL,2100-01-01}')",
                    "SELECT sched.enqueue('u/c', '7', scope_id => 'x', run_at => '2100-01-01')",
                ]);
            };
            let left = "SELECT string_agg(payload::text, '' ORDER BY payload::text) FROM sched.execution WHERE status <> 'CANCELLED'";
            for (arguments, count, expected) in [
                ("", "7", ""),
                ("'u/a'", "4", "567"),
                ("queue => 'u a'", "4", "567"),
                ("queue => 'u b'", "3", "1234"),
                ("scope_id => 'x'", "4", "346"),
                ("'u/a', scope_id => 'x'", "2", "34567"),
                ("'u/a', 'u b'", "0", "1234567"),
                ("'u/nothing'", "0", "1234567"),
            ] {
                fill();
                check(&format!("SELECT sched.cancel_many({arguments})"), count);
                check(left, expected);
                check(&count_of(PENDING), &expected.len().to_string());
                check("SELECT count(*) FROM sched.ledger WHERE status = 'CANCELLED' AND (finished_at IS NULL OR next_retry_at IS NOT NULL)", "0");
            }
            fill();
            check("SELECT sched.cancel_many(max_executions => 3), sched.cancel_many(max_executions => 2), sched.cancel_many()", "3|2|2");
            fill();
            // What runs goes on, and others' is left alone.
            run(&[
                "SELECT sched.claim('u a')",
                "CREATE ROLE u_stranger",
                "SELECT sched.grant_use('u_stranger')",
                "SET LOCAL ROLE u_stranger",
            ]);
            check("SELECT sched.cancel_many()", "0");
            run(&["SELECT sched.enqueue('u/mine', '8')"]);
            check("SELECT sched.cancel_many()", "1");
            run(&["RESET ROLE", "DROP OWNED BY u_stranger", "DROP ROLE u_stranger"]);
            check("SELECT sched.cancel_many('u/a')", "3");
            for arguments in ["max_executions => 0", "max_executions => -1", "''", "queue => ''", "scope_id => ''"] {
                refused(&format!("SELECT sched.cancel_many({arguments})"), "22023");
            }
            refused("SELECT sched.cancel_many(max_executions => NULL)", "22004");
        });
    }

    /// A schedule that waits for the end of its run goes on.
    #[pg_test]
    fn a_schedule_hears_of_what_is_cancelled_together() {
        alone();
        run(&[
            "SELECT sched.define_job('u/awaited', queue => 'u awaited')",
            "SELECT sched.create_schedule('u/awaited', 'every 1 minute', 'u/awaited', rearm => 'on_terminal')",
            "SELECT sched.dispatch_due()",
        ]);
        time_passes("2 minutes");
        check("SELECT sched.dispatch_due()", "1");
        check("SELECT state FROM sched.schedules WHERE schedule_name = 'u/awaited'", "waiting");
        check("SELECT sched.cancel_many('u/awaited')", "1");
        run(&["SELECT sched.dispatch_due()"]);
        check("SELECT state FROM sched.schedules WHERE schedule_name = 'u/awaited'", "armed");
    }

    #[pg_test]
    fn words_and_others_executions_are_refused() {
        granting();
        for arguments in [
            "unique_by => 'scope'",
            "unique_by => 'key', scope_id => 'i'",
            "unique_by => 'Scope', scope_id => 'i'",
            "if_exists => 'ignore'",
            "if_exists => ''",
        ] {
            refused(&format!("SELECT sched.enqueue('u/bad', {arguments})"), "22023");
        }
        assert_eq!(
            attempt("SELECT sched.enqueue('u/bad', if_exists => 'x')").unwrap().hint,
            "Use 'keep', 'replace', 'error'."
        );
        assert_eq!(attempt("SELECT sched.enqueue('u/bad', unique_by => 'x')").unwrap().hint, "Use 'plan', 'scope'.");
        refused("SELECT sched.enqueue_many('u/bad', '{1}', unique_by => 'scope')", "22023");
        refused("SELECT sched.enqueue('u/bad', unique_by => NULL)", "22004");
        refused("SELECT sched.enqueue('u/bad', if_exists => NULL)", "22004");
        run(&[
            "SELECT sched.define_job('u/theirs')",
            "SELECT sched.enqueue('u/nobodys', '1', '2030-01-01', scope_kind => 'k', scope_id => 'i')",
            "CREATE ROLE u_other",
            "SELECT sched.grant_use('u_other')",
        ]);
        let id = sql("SELECT id FROM sched.execution WHERE job_name = 'u/nobodys'");
        for statement in [
            "SELECT sched.enqueue('u/theirs', scope_id => 'i', unique_by => 'scope')".to_owned(),
            "SELECT sched.enqueue('u/nobodys', '2', '2030-01-01', scope_kind => 'k', scope_id => 'i', if_exists => 'replace')".to_owned(),
            "SELECT sched.enqueue('u/nobodys', '2', '2030-01-01', scope_kind => 'k', scope_id => 'i', if_exists => 'error')".to_owned(),
            format!("SELECT sched.alter_execution('{id}', '2')"),
        ] {
            attempt("SELECT 1");
            run(&["SET LOCAL ROLE u_other"]);
            let refusal = attempt(&statement).unwrap();
            run(&["RESET ROLE"]);
            assert_eq!(refusal.sqlstate, "42501", "{statement}: {}", refusal.message);
        }
        check("SELECT payload FROM sched.execution WHERE job_name = 'u/nobodys'", "1");
        // A scope of a job that was never defined is each role's own.
        let by_scope = |payload: &str| {
            format!("SELECT sched.enqueue('u/nobodys', '{payload}', scope_kind => 'k', scope_id => 'i', unique_by => 'scope', if_exists => 'replace') = '{id}'")
        };
        run(&["SET LOCAL ROLE u_other"]);
        check(&by_scope("2"), "f");
        check(&by_scope("3"), "f");
        run(&["RESET ROLE"]);
        check(&by_scope("4"), "t");
        check(
            "SELECT payload, owner FROM sched.ledger WHERE job_name = 'u/nobodys' AND owner = 'u_other'::regrole",
            "3|u_other",
        );
        check("SELECT count(*) FROM sched.ledger WHERE job_name = 'u/nobodys'", "2");
    }
}
