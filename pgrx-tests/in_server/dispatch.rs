//! dispatch_due: what is due becomes executions, and what is broken is isolated.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{armed, attempt, check, created, dispatch, refused, run, sql, state, time_passes};

    /// How many minutes ago the plans of all executions were.
    const AGES: &str = "SELECT string_agg(round(extract(epoch FROM clock_timestamp() - plan_time) / 60)::text, ' ' ORDER BY plan_time) FROM sched.execution";

    #[pg_test]
    fn what_an_execution_looks_like() {
        run(&["SELECT sched.define_job('job of d/row', queue => 'q', priority => 3, max_attempts => 4, allow_stale_reentry => false)"]);
        created("d/row", "every 1 hour", "payload => '{\"a\": [1, null]}', scope_kind => 'tenant', scope_id => '7'");
        dispatch(0);
        time_passes("61 minutes");
        check("SELECT state, next_plan_time = next_fire_at, next_plan_time < now() FROM sched.schedules", "armed|t|t");
        dispatch(1);
        check(
            "SELECT job_name, scope_kind, scope_id, queue, priority, payload, status, attempt, max_attempts, runner_id, lease_token, fence,
                    heartbeat_at, stale_after, started_at, finished_at, duration_ms, rows_affected, result, error_code, error_msg,
                    next_retry_at, progress, allow_stale_reentry, origin, schedule_name FROM sched.execution",
            "job of d/row|tenant|7|q|3|{\"a\": [1, null]}|PENDING|0|4|||||||||||||||f|schedule|d/row",
        );
        check(
            "SELECT id::text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]', plan_time = last_plan_time, last_fired_at > now()
               FROM sched.execution JOIN sched.schedules USING (schedule_name)",
            "t|t|t",
        );
        assert_eq!(armed("d/row"), "t");
        dispatch(0);
        assert_eq!(sql("SELECT sched.dispatch_due(5)"), "0");
    }

    #[pg_test]
    fn catch_up_latest_only() {
        created("d/latest", "every 1 hour", "");
        dispatch(0);
        time_passes("210 minutes");
        dispatch(1);
        check(AGES, "30");
        assert_eq!(armed("d/latest"), "t");
    }

    #[pg_test]
    fn catch_up_every_plan() {
        created("d/every", "every 1 hour", "catch_up => 'every_plan', max_plans_per_tick => 2");
        dispatch(0);
        time_passes("210 minutes");
        dispatch(2);
        check(AGES, "150 90");
        check("SELECT state, next_plan_time < now() FROM sched.schedules", "armed|t");
        dispatch(1);
        dispatch(0);
        check(AGES, "150 90 30");
        created("d/all", "every 1 hour", "catch_up => 'every_plan'");
        dispatch(0);
        time_passes("3 days 30 minutes");
        run(&["SELECT sched.drop_schedule('d/every')"]);
        dispatch(72);
    }

    #[pg_test]
    fn catch_up_skip_missed() {
        created("d/skip", "every 1 hour", "catch_up => 'skip_missed'");
        dispatch(0);
        time_passes("90 minutes");
        dispatch(0);
        assert_eq!(armed("d/skip"), "t");
        time_passes("30 minutes 50 seconds");
        dispatch(1);
        // Counted from plan + delay.
        created("d/delay", "every 1 hour", "catch_up => 'skip_missed', delay => '20 minutes'");
        dispatch(0);
        run(&["SELECT sched.drop_schedule('d/skip')"]);
        time_passes("79 minutes");
        dispatch(0);
        time_passes("90 seconds");
        dispatch(1);
        time_passes("62 minutes");
        dispatch(0);
    }

    #[pg_test]
    fn catch_up_window() {
        created("d/w1", "every 1 hour", "catch_up => 'every_plan', catch_up_window => '100 minutes'");
        created("d/w2", "every 1 hour", "catch_up_window => '20 minutes'");
        dispatch(0);
        time_passes("330 minutes");
        dispatch(2);
        check(AGES, "90 30");
        assert_eq!((armed("d/w1"), armed("d/w2")), ("t".into(), "t".into()));
    }

    #[pg_test]
    fn no_more_schedules_than_asked_for_soonest_first() {
        for (name, minutes) in [("d/n1", 30), ("d/n2", 20), ("d/n3", 10)] {
            created(name, &format!("every {minutes} minutes"), "");
        }
        dispatch(0);
        time_passes("35 minutes");
        check("SELECT sched.dispatch_due(2)", "2");
        check("SELECT string_agg(schedule_name, ' ' ORDER BY schedule_name) FROM sched.execution", "d/n2 d/n3");
        check("SELECT sched.dispatch_due(max_schedules => 2)", "1");
        check("SELECT sched.dispatch_due(NULL)", "0");
        refused("SELECT sched.dispatch_due(0)", "22023");
        refused("SELECT sched.dispatch_due(-1)", "22023");
    }

    #[pg_test]
    fn delay_and_jitter_move_the_fire_only() {
        created("d/wait", "every 1 hour", "delay => '10 minutes'");
        created("d/jitter", "every 1 hour", "jitter => '30 minutes'");
        created("d/long", "every 1 hour", "delay => '1000 days', jitter => '1000 days'");
        dispatch(0);
        check(
            "SELECT schedule_name, next_fire_at - next_plan_time FROM sched.schedules WHERE schedule_name <> 'd/jitter' ORDER BY 1",
            "d/long|01:00:00\nd/wait|00:10:00",
        );
        check("SELECT next_fire_at - next_plan_time BETWEEN '0' AND '30 minutes' FROM sched.schedules WHERE schedule_name = 'd/jitter'", "t");
        // An edit does not draw again.
        let before = sql("SELECT next_fire_at FROM sched.schedules WHERE schedule_name = 'd/jitter'");
        run(&["SELECT sched.alter_schedule('d/jitter', payload => '{\"x\": 1}')"]);
        dispatch(0);
        check("SELECT next_fire_at FROM sched.schedules WHERE schedule_name = 'd/jitter'", &before);
        time_passes("65 minutes");
        check("SELECT sched.dispatch_due() BETWEEN 0 AND 1", "t");
        time_passes("6 minutes");
        check("SELECT sched.dispatch_due() >= 1", "t");
        check("SELECT round(extract(epoch FROM clock_timestamp() - plan_time) / 60) FROM sched.execution WHERE schedule_name = 'd/wait'", "11");
    }

    #[pg_test]
    fn payloads_go_through_unchanged() {
        let number = "123456789012345678901234567890.000000000000000000000000000001";
        let payload = format!("{{\"n\": {number}, \"e\": 1e400, \"t\": \"ü\\\"\\\\\\u0041\", \"d\": [{{}}, [], null, true], \"m\": -0.10}}");
        let expected = sql(&format!("SELECT $p${payload}$p$::jsonb"));
        created("d/json", "every 1 hour", &format!("payload => $p${payload}$p$"));
        for value in ["7", "\"text\"", "null", "[1.10]", "true"] {
            created(&format!("d/json/{value}"), "every 1 hour", &format!("payload => '{value}'"));
        }
        run(&["SELECT sched.alter_schedule('d/json', max_plans_per_tick => 5)"]);
        check("SELECT payload FROM sched.schedule WHERE schedule_name = 'd/json'", &expected);
        dispatch(0);
        time_passes("61 minutes");
        dispatch(6);
        check("SELECT payload FROM sched.claim(max_claims => 9) WHERE scope_id = 'd/json'", &expected);
        check(
            "SELECT string_agg(payload::text, ' ' ORDER BY schedule_name) FROM sched.execution WHERE schedule_name <> 'd/json'",
            "\"text\" 7 [1.10] null true",
        );
        // As large as an application likes.
        created(
            "d/big",
            "every 1 hour",
            "payload => (SELECT jsonb_agg(md5(n::text)) FROM generate_series(1, 29000) n)",
        );
        dispatch(0);
        time_passes("61 minutes");
        run(&["SELECT sched.dispatch_due()"]);
        check(
            "SELECT jsonb_array_length(payload) FROM sched.claim(max_claims => 99) WHERE scope_id = 'd/big'",
            "29000",
        );
    }

    #[pg_test]
    fn a_plan_that_the_ledger_holds_counts_as_fired() {
        created("d/held", "every 1 hour", "");
        created("d/held/t", "every 1 hour", "rearm => 'on_terminal'");
        created("d/held/b", "every 1 hour", "overlap => 'buffer_one'");
        dispatch(0);
        time_passes("61 minutes");
        check(
            "SELECT string_agg(c.outcome, ' ') FROM sched.schedules s,
                    sched.try_claim(s.job_name, s.next_plan_time, 'schedule', s.schedule_name) c",
            "won won won",
        );
        dispatch(0);
        check("SELECT string_agg(origin, ' ') FROM sched.execution", "claim claim claim");
        dispatch(0);
        for name in ["d/held", "d/held/t", "d/held/b"] {
            assert_eq!(armed(name), "t", "{name}");
        }
        time_passes("1 hour");
        dispatch(3);
        // An earlier schedule of that name: the same.
        run(&[
            "SELECT sched.drop_schedule('d/held')",
            "SELECT sched.create_schedule('d/held', 'every 1 hour', 'job of d/held')",
        ]);
        run(&["UPDATE sched.schedule s SET created_at = e.plan_time - interval '1 hour', baseline_at = e.plan_time - interval '1 minute'
                 FROM (SELECT max(plan_time) AS plan_time FROM sched.execution WHERE schedule_name = 'd/held') e WHERE s.schedule_name = 'd/held'"]);
        dispatch(0);
        assert_eq!(armed("d/held"), "t");
    }

    #[pg_test]
    fn one_bad_schedule_delays_no_other() {
        let garbled = [
            ("clock = 'nonsense'", "nonsense"),
            ("clock = ''", ""),
            ("time_zone = 'Mars/Olympus'", "Mars/Olympus"),
            ("delay = '-1 second'", "delay"),
            ("jitter = '1 month'", "jitter"),
            ("catch_up_window = make_interval(days => 2147483647)", "catch_up_window"),
            ("starts_at = 'infinity'", "starts_at"),
            ("job_name = 'd/no such job'", "d/no such job"),
        ];
        for (n, _) in garbled.iter().enumerate() {
            created(&format!("d/bad/{n}"), "every 1 hour", "");
        }
        created("d/good/1", "every 1 hour", "");
        created("d/good/2", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        for (n, (change, _)) in garbled.iter().enumerate() {
            run(&[&format!("UPDATE sched.schedule SET {change} WHERE schedule_name = 'd/bad/{n}'")]);
        }
        dispatch(2);
        for (n, (change, word)) in garbled.iter().enumerate() {
            let shown = sql(&format!(
                "SELECT state, next_plan_time, next_fire_at, error_count, last_error FROM sched.schedules WHERE schedule_name = 'd/bad/{n}'"
            ));
            assert!(shown.starts_with("parked|||1|") && shown.contains(word), "{change}: {shown}");
        }
        dispatch(0);
        check("SELECT count(*) FROM sched.schedules WHERE state = 'armed'", "2");
        // An alter that puts it right un-parks it; the new clock is a new baseline.
        run(&["SELECT sched.alter_schedule('d/bad/0', clock => 'every 2 hours')"]);
        assert_eq!(state("d/bad/0"), "arming");
        dispatch(0);
        check("SELECT state, error_count, last_error FROM sched.schedules WHERE schedule_name = 'd/bad/0'", "armed|0|");
        // One that does not, does not get in.
        refused("SELECT sched.alter_schedule('d/bad/2', payload => '{}')", "22023");
    }

    /// The row is as it was, but what it names has gone since the timer was made.
    #[pg_test]
    fn what_breaks_while_armed_is_parked_when_due() {
        for name in ["d/gone/job", "d/gone/owner", "d/gone/well"] {
            created(name, "every 1 hour", "");
        }
        dispatch(0);
        time_passes("61 minutes");
        run(&[
            "DELETE FROM sched.job WHERE job_name = 'job of d/gone/job'",
            "UPDATE sched.job SET owner = 4294967000::oid WHERE job_name = 'job of d/gone/owner'",
        ]);
        dispatch(1);
        check(
            "SELECT schedule_name, state, error_count, last_error FROM sched.schedules ORDER BY 1",
            "d/gone/job|parked|1|job \"job of d/gone/job\" does not exist\n\
             d/gone/owner|parked|1|the owner of job \"job of d/gone/owner\" was dropped\n\
             d/gone/well|armed|0|",
        );
        // define_job puts it right.
        run(&["SELECT sched.define_job('job of d/gone/job')"]);
        dispatch(1);
        assert_eq!(armed("d/gone/job"), "t");
    }

    /// The insert itself fails: a queue that an index entry cannot hold, which only a superuser can write.
    #[pg_test]
    fn a_fire_that_fails_is_tried_again_with_backoff() {
        created("d/fail", "every 1 hour", "");
        created("d/fine/1", "every 1 hour", "");
        created("d/fine/2", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        run(&["UPDATE sched.job SET queue = (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 200) n) WHERE job_name = 'job of d/fail'"]);
        let fails = |dispatched: i64, failures: u32| {
            let (before, wait) = (sql("SELECT clock_timestamp()"), 1 << (failures - 1));
            dispatch(dispatched);
            let shown = format!(
                "SELECT state, error_count, last_error <> '', next_plan_time < now(),
                        next_fire_at - interval '{wait} seconds' BETWEEN '{before}' AND clock_timestamp()
                   FROM sched.schedules WHERE schedule_name = 'd/fail'"
            );
            check(&shown, &format!("failing|{failures}|t|t|t"));
        };
        fails(2, 1);
        // Not before that, however long it takes to look.
        time_passes("-10 minutes");
        dispatch(0);
        check("SELECT state, error_count FROM sched.schedules WHERE schedule_name = 'd/fail'", "failing|1");
        time_passes("10 minutes 1 second");
        fails(0, 2);
        time_passes("2 seconds");
        fails(0, 3);
        run(&["UPDATE sched.job SET queue = 'default' WHERE job_name = 'job of d/fail'"]);
        time_passes("4 seconds");
        dispatch(1);
        check("SELECT state, error_count, last_error FROM sched.schedules WHERE schedule_name = 'd/fail'", "armed|0|");
        check("SELECT count(*) FROM sched.execution WHERE schedule_name = 'd/fail'", "1");
    }

    /// A schedule is not to blame for what the session has used up around the call.
    #[pg_test]
    fn a_session_without_stack_left_fails_itself() {
        created("d/deep", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        run(&[
            "SET LOCAL max_stack_depth = '100kB'",
            &format!(
                "CREATE FUNCTION pg_temp.deep(levels int) RETURNS void LANGUAGE plpgsql AS $$
             BEGIN
                 IF levels > 0 THEN
                     PERFORM pg_temp.deep(levels - 1);
                 ELSE
                     PERFORM sched.dispatch_due();
                     IF EXISTS (SELECT FROM {TIMER} t WHERE error_count > 0) THEN
                         RAISE SQLSTATE 'BLAME';
                     END IF;
                     RAISE SQLSTATE 'FIRED';
                 END IF;
             END $$"
            ),
        ]);
        let states: Vec<String> =
            (0..40).map(|levels| attempt(&format!("SELECT pg_temp.deep({levels})")).unwrap().sqlstate).collect();
        assert!(
            states.iter().any(|state| state == "FIRED") && states.iter().any(|state| state == "54001"),
            "{states:?}"
        );
        assert!(!states.iter().any(|state| state == "BLAME"), "{states:?}");
    }

    #[pg_test]
    fn timers_are_finite_and_times_of_schedules_too() {
        created("d/finite", "every 1 hour", "");
        dispatch(0);
        for change in ["created_at = 'infinity'", "baseline_at = '-infinity'"] {
            let refusal = crate::test_support::fails(&format!("UPDATE sched.schedule SET {change}"), "23514");
            assert!(refusal.message.contains("check constraint"), "{}", refusal.message);
        }
        crate::test_support::fails(&format!("UPDATE {TIMER_TABLE} SET fire_at = 'infinity'"), "23514");
        crate::test_support::fails(&format!("UPDATE {TIMER_TABLE} SET fire_at = NULL"), "23514");
    }
}
