//! enqueue, cancel, finish_success_many, assert_lease, mark_stale_as_failed.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{
        alone, armed, check, claim_one, created, dispatch, granting, refused, run, set_fast_path, sql, time_passes,
        HEADS_ARE_NEW,
    };

    const STATUS: &str = "SELECT status, attempt, error_code, next_retry_at FROM sched.execution";

    #[pg_test]
    fn enqueue_is_idempotent_by_key() {
        run(&["SELECT sched.define_job('l/enq', queue => 'q', priority => 2, max_attempts => 4)"]);
        let id = sql("SELECT sched.enqueue('l/enq', '{\"n\": 1.50}', '2026-01-01', 'k', 'i')");
        check("SELECT sched.enqueue('l/enq', '{\"n\": 2}', '2026-01-01', 'k', 'i')", &id);
        check(
            "SELECT id, queue, priority, payload, status, attempt, max_attempts, origin, schedule_name FROM sched.execution",
            &format!("{id}|q|2|{{\"n\": 1.50}}|PENDING|0|4|enqueue|"),
        );
        check("SELECT execution_id FROM sched.claim('q')", &id);
        check("SELECT sched.enqueue('l/enq', plan_time => '2026-01-01', scope_kind => 'k', scope_id => 'i')", &id);
        // Without a scope each call is one more; a job that was never defined waits in queue default.
        run(&["SELECT sched.enqueue('l/undefined')", "SELECT sched.enqueue('l/undefined')"]);
        check(
            "SELECT scope_kind, queue, max_attempts, count(DISTINCT scope_id), bool_and(abs(extract(epoch FROM clock_timestamp() - plan_time)) < 60)
               FROM sched.execution WHERE job_name = 'l/undefined' GROUP BY 1, 2, 3",
            "adhoc|default|1|2|t",
        );
        for (arguments, sqlstate) in [
            ("NULL", "22004"),
            ("''", "22023"),
            ("'l/enq', NULL", "22004"),
            ("'l/enq', plan_time => 'infinity'", "22008"),
            ("'l/enq', scope_kind => ''", "22023"),
            ("'l/enq', scope_kind => NULL", "22004"),
            ("'l/enq', scope_id => ''", "22023"),
            ("'l/enq', scope_id => repeat('x', 1001)", "22023"),
        ] {
            refused(&format!("SELECT sched.enqueue({arguments})"), sqlstate);
        }
    }

    /// A day of a length of time has 24 hours, whatever the zone of who claims: 100, 200 or 300 days from any day, one goes over a change
    /// of New York's clocks.
    #[pg_test]
    fn days_have_24_hours_in_every_zone() {
        alone();
        let lasts = |days: i32, what: &str| {
            check(
                &format!("SELECT extract(epoch FROM stale_after - heartbeat_at) / 86400 = {days}, sweep_at = stale_after FROM {LEASE} l"),
                "t|t",
            );
            check(&format!("SELECT '{what}', count(*) FROM {LEASE} l"), &format!("{what}|1"));
        };
        let by_statements = &format!("CREATE TRIGGER l_note BEFORE UPDATE ON {LEASE_TABLE} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()");
        run(&["SET LOCAL timezone = 'America/New_York'"]);
        for way in ["", by_statements] {
            run(&[way]);
            for days in [100, 200, 300] {
                run(&[
                    NO_EXECUTIONS,
                    HEADS_ARE_NEW,
                    &format!("SELECT sched.define_job('l/long', queue => 'long', max_attempts => 9, retry_backoff => '{{{days} days}}', stale_timeout => '{days} days')"),
                    "SELECT sched.try_claim('l/long', '2026-01-01')",
                ]);
                lasts(days, "a new key");
                run(&[BEAT_ALL]);
                check(
                    &format!("SELECT extract(epoch FROM stale_after - heartbeat_at) / 86400 = {days} FROM {LEASE} l"),
                    "t",
                );
                run(&[LEASES_LAPSE, HEADS_ARE_NEW]);
                check("SELECT outcome FROM sched.try_claim('l/long', '2026-01-01')", "stole");
                lasts(days, "a stale run");
                run(&[LEASES_LAPSE, HEADS_ARE_NEW]);
                check("SELECT count(*) FROM sched.claim('long')", "1");
                lasts(days, "a stale run in a queue");
                run(&[FAIL_ALL]);
                check(
                    &format!(
                        "SELECT extract(epoch FROM next_retry_at - finished_at) / 86400 = {days} FROM sched.execution"
                    ),
                    "t",
                );
                run(&[DELAYS_ARE_OVER, HEADS_ARE_NEW]);
                check("SELECT outcome FROM sched.try_claim('l/long', '2026-01-01')", "stole");
                lasts(days, "a known key");
                run(&[FINISH_ALL, "SELECT sched.enqueue('l/long')"]);
                check("SELECT count(*) FROM sched.claim('long')", "1");
                lasts(days, "a queue");
            }
        }
    }

    #[pg_test]
    fn cancelling_what_nobody_runs() {
        let id = sql("SELECT sched.enqueue('l/pending')");
        let cancel = format!("SELECT sched.cancel('{id}')");
        check(&cancel, "t");
        check(STATUS, "CANCELLED|0||");
        check(&cancel, "f");
        check("SELECT count(*) FROM sched.claim()", "0");
        check("SELECT sched.cancel(gen_random_uuid())", "f");
        refused("SELECT sched.cancel(NULL)", "22004");
        // One that has lost its place (a partial restore) is not waited for.
        let id = sql("SELECT sched.enqueue('l/lost')");
        run(&[&remove_ready("true")]);
        check(&format!("SELECT sched.cancel('{id}'), sched.cancel('{id}')"), "t|f");
        // Waiting for a retry, due or not.
        run(&[
            "DELETE FROM sched.ledger",
            "SELECT sched.define_job('l/retry', max_attempts => 2, retry_backoff => '{1 hour}')",
        ]);
        let id = sql("SELECT sched.enqueue('l/retry')");
        let (id_again, token) = claim_one("default");
        assert_eq!(id, id_again);
        run(&[&format!("SELECT sched.finish_failure('{id}', '{token}', 'E')")]);
        check(&format!("SELECT sched.cancel('{id}')"), "t");
        check(STATUS, "CANCELLED|1|E|");
        time_passes("2 hours");
        check(&format!("SELECT count(*), (SELECT count(*) FROM {DELAYED} d), (SELECT count(*) FROM {READY} r) FROM sched.claim()"), "0|0|0");
    }

    #[pg_test]
    fn cancelling_what_runs() {
        run(&["SELECT sched.define_job('l/runs', max_attempts => 5)"]);
        for (finish, expected) in [("finish_failure", "CANCELLED|1|handler_error|"), ("finish_success", "SUCCESS|1||")]
        {
            run(&["DELETE FROM sched.ledger", "SELECT sched.enqueue('l/runs')"]);
            let (id, token) = claim_one("default");
            check(&format!("SELECT sched.heartbeat('{id}', '{token}')"), "ok");
            check(&format!("SELECT sched.cancel('{id}'), sched.cancel('{id}')"), "t|t");
            check("SELECT status FROM sched.execution", "RUNNING");
            check(&format!("SELECT sched.heartbeat('{id}', '{token}')"), "cancel");
            run(&[&format!("SELECT sched.{finish}('{id}', '{token}')")]);
            check(STATUS, expected);
            check(&format!("SELECT sched.cancel('{id}')"), "f");
        }
        // A run that was asked to stop and went silent is not given to another.
        run(&["DELETE FROM sched.ledger", "SELECT sched.enqueue('l/runs')"]);
        let (id, _) = claim_one("default");
        run(&[&format!("SELECT sched.cancel('{id}')")]);
        time_passes("1 hour");
        check("SELECT count(*) FROM sched.claim()", "0");
        check("SELECT sched.mark_stale_as_failed()", "1");
        check(STATUS, "CANCELLED|1|stale_timeout|");
    }

    #[pg_test]
    fn a_cancelled_run_lets_its_schedule_go_on() {
        created("l/waits", "every 1 hour", "rearm => 'on_terminal'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        check("SELECT sched.cancel(id) FROM sched.execution", "t");
        dispatch(0);
        assert_eq!(armed("l/waits"), "t");
    }

    #[pg_test]
    fn nothing_is_left_of_a_dropped_schedule_that_waited() {
        created("l/dropped", "every 1 hour", "overlap => 'skip'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        check("SELECT count(*) FROM sched.awaited", "1");
        run(&["SELECT sched.drop_schedule('l/dropped', cancel_pending => true)"]);
        dispatch(0);
        check(&format!("SELECT (SELECT count(*) FROM sched.awaited), (SELECT count(*) FROM sched.schedule_change), (SELECT count(*) FROM {TIMER} t)"), "0|0|0");
    }

    #[pg_test]
    fn finishing_many() {
        run(&[
            "SELECT sched.define_job('l/many', max_attempts => 2)",
            "SELECT sched.enqueue('l/many') FROM generate_series(1, 5)",
        ]);
        run(&["CREATE TEMP TABLE held AS SELECT execution_id, lease_token FROM sched.claim(max_claims => 5)"]);
        let finish = "SELECT sched.finish_success_many((SELECT array_agg(execution_id ORDER BY execution_id) FROM held),
                                                       (SELECT array_agg(lease_token ORDER BY execution_id) FROM held))";
        // One has another token by now.
        let lost = sql("SELECT min(execution_id::text) FROM held");
        run(&[&format!("UPDATE held SET lease_token = gen_random_uuid() WHERE execution_id = '{lost}'")]);
        check(finish, &lost);
        check("SELECT status, count(*) FROM sched.execution GROUP BY 1 ORDER BY 1", "RUNNING|1\nSUCCESS|4");
        check(&format!("SELECT count(*) FROM ({finish}) AS again"), "5");
        check("SELECT count(*) FROM sched.finish_success_many('{}', '{}')", "0");
        let one = "ARRAY[gen_random_uuid()]";
        for (arguments, sqlstate) in [
            (format!("{one}, '{{}}'"), "22023"),
            (format!("{one}, ARRAY[NULL::uuid]"), "22023"),
            (format!("ARRAY[NULL::uuid], {one}"), "22023"),
            (format!("NULL, {one}"), "22004"),
            (format!("{one}, NULL"), "22004"),
        ] {
            refused(&format!("SELECT sched.finish_success_many({arguments})"), sqlstate);
        }
    }

    /// Its answers in the order of the question, both ways; what is not held stays as it is.
    #[pg_test]
    fn many_heartbeats_answer_pair_by_pair() {
        granting();
        alone();
        run(&["SELECT sched.define_job('l/beats')", "CREATE ROLE l_other", "SELECT sched.grant_use('l_other')"]);
        for fast_path in [true, false] {
            set_fast_path(fast_path);
            run(&[
                "SELECT count(*) FROM sched.enqueue_many('l/beats', '{1,2,3,4,5}')",
                "DROP TABLE IF EXISTS held",
                "CREATE TEMP TABLE held AS SELECT (payload #>> '{}')::int AS n, execution_id, lease_token FROM sched.claim(max_claims => 5)",
                "GRANT SELECT ON held TO l_other",
                "SELECT sched.cancel(execution_id) FROM held WHERE n = 2",
                "SELECT sched.finish_success(execution_id, lease_token) FROM held WHERE n = 3",
                "UPDATE held SET lease_token = gen_random_uuid() WHERE n = 4",
                &format!("UPDATE {LEASE_TABLE} SET heartbeat_at = heartbeat_at - interval '1 hour', stale_after = stale_after - interval '1 hour', stale_timeout = '2 hours'"),
            ]);
            // The second list asks for two of them twice, and for what is unknown.
            let ask = |order: &str, more: &str| {
                format!("SELECT string_agg(coalesce(h.n, 0) || answer, ' ' ORDER BY a.ordinality)
                           FROM sched.heartbeat_many((SELECT array_agg(execution_id ORDER BY n {order}) FROM held){more},
                                                     (SELECT array_agg(lease_token ORDER BY n {order}) FROM held){more}) WITH ORDINALITY AS a
                           LEFT JOIN held h USING (execution_id)")
            };
            run(&["SET LOCAL ROLE l_other"]);
            let others = sql(&ask("", ""));
            run(&["RESET ROLE"]);
            assert_eq!(others, "1lost 2lost 3lost 4lost 5lost", "fast_path {fast_path}");
            check(
                &format!(
                    "SELECT count(*) FROM {LEASE} l WHERE heartbeat_at > clock_timestamp() - interval '30 minutes'"
                ),
                "0",
            );
            check(&ask("DESC", ""), "5ok 4lost 3lost 2cancel 1ok");
            check(
                &format!("SELECT n, heartbeat_at > clock_timestamp() - interval '30 minutes', stale_after - heartbeat_at = '2 hours'
                   FROM {LEASE} l JOIN held USING (execution_id) ORDER BY n"),
                "1|t|t\n2|t|t\n4|f|f\n5|t|t",
            );
            let twice = " || gen_random_uuid() || (SELECT array_agg(CASE WHEN n = 1 THEN $ END) FROM held WHERE n = 1)";
            let (ids, tokens) = (twice.replace('$', "execution_id"), twice.replace('$', "lease_token"));
            check(
                &format!(
                    "SELECT string_agg(answer, ' ' ORDER BY ordinality) FROM sched.heartbeat_many(
                              (SELECT array_agg(execution_id ORDER BY n) FROM held){ids},
                              (SELECT array_agg(lease_token ORDER BY n) FROM held){tokens}) WITH ORDINALITY"
                ),
                "ok cancel lost lost ok lost ok",
            );
            check("SELECT count(*) FROM sched.heartbeat_many('{}', '{}')", "0");
            run(&[NO_EXECUTIONS]);
        }
        let one = "ARRAY[gen_random_uuid()]";
        for (arguments, sqlstate) in [
            (format!("{one}, '{{}}'"), "22023"),
            (format!("'{{}}', {one}"), "22023"),
            (format!("{one}, ARRAY[NULL::uuid]"), "22004"),
            (format!("ARRAY[NULL::uuid], {one}"), "22004"),
            (format!("NULL, {one}"), "22004"),
            (format!("{one}, NULL"), "22004"),
        ] {
            refused(&format!("SELECT sched.heartbeat_many({arguments})"), sqlstate);
        }
    }

    /// The statement that docs/guides/batches.md recommends: the end of one and the claim of the next.
    #[pg_test]
    fn a_batch_is_ended_in_the_statement_that_claims_the_next() {
        run(&[
            "SELECT sched.enqueue_many('l/turns', '{1,2,3,4,5}')",
            "CREATE TEMP TABLE held (lost uuid[], execution_id uuid, lease_token uuid)",
        ]);
        let turn = "CREATE TEMP TABLE next AS
            SELECT ended.lost, next.execution_id, next.lease_token
              FROM (SELECT array_agg(id) AS lost
                      FROM sched.finish_success_many((SELECT coalesce(array_agg(execution_id ORDER BY execution_id), '{}') FROM held),
                                                     (SELECT coalesce(array_agg(lease_token ORDER BY execution_id), '{}') FROM held)) AS id) AS ended
              LEFT JOIN sched.claim(max_claims => 2) AS next ON true";
        let states = &format!("SELECT (SELECT count(*) FROM {READY} r), (SELECT count(*) FROM sched.running),
                             (SELECT count(*) FROM sched.execution WHERE status = 'SUCCESS'), (SELECT count(lost) FROM next)");
        // The last turn finds nothing to claim, and ends its batch all the same.
        for expected in ["3|2|0|0", "1|2|2|0", "0|1|4|0", "0|0|5|0"] {
            run(&[turn]);
            check(states, expected);
            run(&["DROP TABLE held", "DELETE FROM next WHERE execution_id IS NULL", "ALTER TABLE next RENAME TO held"]);
        }
        // Who had lost its lease hears of it beside what it is given.
        run(&["INSERT INTO held SELECT NULL, id, lease_token FROM sched.ledger LIMIT 1", turn]);
        check(states, "0|0|5|1");
    }

    #[pg_test]
    fn asserting_a_lease() {
        run(&["SELECT sched.enqueue('l/assert')"]);
        let (id, token) = claim_one("default");
        check(&format!("SELECT sched.assert_lease('{id}', '{token}')"), "");
        refused(&format!("SELECT sched.assert_lease('{id}', gen_random_uuid())"), "55000");
        refused(&format!("SELECT sched.assert_lease('{id}', NULL)"), "22004");
        run(&[&format!("SELECT sched.finish_success('{id}', '{token}')")]);
        refused(&format!("SELECT sched.assert_lease('{id}', '{token}')"), "55000");
    }

    #[pg_test]
    fn stale_runs_are_ended_by_their_jobs_policy() {
        let plan = "'2026-01-01 00:00+00'";
        run(&["SELECT sched.define_job('l/again', max_attempts => 2, retry_backoff => '{1 hour}')"]);
        for (job, more) in [
            ("l/again", ""),
            ("l/last", ""),
            ("l/once", ", max_attempts => 3, allow_stale_reentry => false"),
            ("l/alive", ", stale_timeout => '1 day'"),
        ] {
            check(&format!("SELECT outcome FROM sched.try_claim('{job}', {plan}{more})"), "won");
        }
        check("SELECT sched.mark_stale_as_failed()", "0");
        time_passes("10 minutes");
        check("SELECT sched.mark_stale_as_failed('l/none')", "0");
        check("SELECT sched.mark_stale_as_failed('l/last')", "1");
        check("SELECT sched.mark_stale_as_failed()", "2");
        check(
            "SELECT job_name, status, error_code, round(extract(epoch FROM next_retry_at - finished_at)) FROM sched.execution ORDER BY 1",
            "l/again|FAILED|stale_timeout|3600\nl/alive|RUNNING||\nl/last|FAILED|stale_timeout|\nl/once|FAILED|stale_timeout|",
        );
        check("SELECT sched.mark_stale_as_failed()", "0");
        refused("SELECT sched.mark_stale_as_failed('')", "22023");
        time_passes("1 hour");
        check("SELECT job_name, attempt FROM sched.claim(max_claims => 9)", "l/again|2");
    }
}
