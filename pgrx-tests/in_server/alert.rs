//! The arguments that ask for alerts, what looks make of them, and who may read and acknowledge.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use crate::dispatch::{look_for_alerts, LookedForAlerts};
    use crate::pg::{convert, session};
    use crate::test_support::{check, claim_one, created, dispatch, granting, refused, run, sql, time_passes};
    use pgrx::prelude::*;

    /// What a dispatcher does in one turn, which looks at so many.
    fn look_once(limit: i64) -> usize {
        session(|session| look_for_alerts(session, &mut LookedForAlerts::default(), convert::now(), limit))
    }

    /// What a dispatcher does, as often as there is something to look at now.
    fn look() {
        while look_once(100) > 0 {}
    }

    const SETTINGS: &str = "SELECT max_lateness, max_duration, expect_success_within, alert_job FROM sched.schedules WHERE schedule_name =";

    #[pg_test]
    fn alerts_are_asked_for_altered_and_reset() {
        run(&["SELECT sched.define_job('al/tell')"]);
        created("al/all", "never", "max_lateness => '1 minute', max_duration => '2 days', expect_success_within => '36:00', alert_job => 'al/tell'");
        check(&format!("{SETTINGS} 'al/all'"), "00:01:00|2 days|36:00:00|al/tell");
        created("al/none", "never", "");
        check(&format!("{SETTINGS} 'al/none'"), "|||");
        run(&["SELECT sched.alter_schedule('al/none', max_lateness => '5 s', alert_job => 'al/tell')"]);
        check(&format!("{SETTINGS} 'al/none'"), "00:00:05|||al/tell");
        // What is not said stays; what is reset goes.
        run(&["SELECT sched.alter_schedule('al/all', payload => '1')"]);
        check(&format!("{SETTINGS} 'al/all'"), "00:01:00|2 days|36:00:00|al/tell");
        run(&["SELECT sched.alter_schedule('al/all', reset => '{max_duration,alert_job}', max_lateness => '7 s')"]);
        check(&format!("{SETTINGS} 'al/all'"), "00:00:07||36:00:00|");
        run(&["SELECT sched.alter_schedule('al/all', reset => '{max_lateness,expect_success_within}')"]);
        check(&format!("{SETTINGS} 'al/all'"), "|||");
        check(
            r#"SELECT sched.create_schedules('[{"schedule_name": "al/bulk", "clock": "never", "job_name": "al/tell", "max_lateness": "1 s",
                 "max_duration": "2 s", "expect_success_within": "3 s", "alert_job": "al/tell"}, {"schedule_name": "al/bare", "clock": "never", "job_name": "al/tell"}]')"#,
            "2",
        );
        check(&format!("{SETTINGS} 'al/bulk'"), "00:00:01|00:00:02|00:00:03|al/tell");
        check(&format!("{SETTINGS} 'al/bare'"), "|||");
        // A schedule of schedule_sql keeps what alter_schedule asked for, however often the call is made again.
        run(&[
            "SELECT sched.schedule_sql('al/sql', 'never', 'SELECT 1')",
            "SELECT sched.alter_schedule('al/sql', max_duration => '1 hour', alert_job => 'al/tell')",
            "SELECT sched.schedule_sql('al/sql', 'never', 'SELECT 2', priority => 3)",
        ]);
        check(&format!("{SETTINGS} 'al/sql'"), "|01:00:00||al/tell");
    }

    #[pg_test]
    fn what_cannot_be_asked_for_is_refused() {
        granting();
        run(&["CREATE ROLE al_user", "SELECT sched.grant_use('al_user')", "SELECT sched.define_job('al/super')"]);
        created("al/refused", "never", "");
        let job = "'job of al/refused'";
        for argument in ["max_lateness", "max_duration", "expect_success_within"] {
            for (value, sqlstate) in [
                ("0", "22023"),
                ("-1 second", "22023"),
                ("1 month", "22023"),
                ("1001 years", "22023"),
                ("400000 days", "22008"),
            ] {
                let given = format!("{argument} => '{value}'");
                let new =
                    refused(&format!("SELECT sched.create_schedule('al/new', 'never', {job}, {given})"), sqlstate);
                let old = refused(&format!("SELECT sched.alter_schedule('al/refused', {given})"), sqlstate);
                assert!(
                    new.message.contains(argument) && old.message.contains(argument),
                    "{} {}",
                    new.message,
                    old.message
                );
                let element = format!(
                    r#"[{{"schedule_name": "al/new", "clock": "never", "job_name": "job of al/refused", "{argument}": "{value}"}}]"#
                );
                let bulk = refused(&format!("SELECT sched.create_schedules('{element}')"), sqlstate);
                assert!(bulk.message.contains(&format!("element 1, key \"{argument}\"")), "{}", bulk.message);
            }
            let element = format!(
                r#"[{{"schedule_name": "al/new", "clock": "never", "job_name": "job of al/refused", "{argument}": "soon"}}]"#
            );
            let bulk = refused(&format!("SELECT sched.create_schedules('{element}')"), "22023");
            assert!(bulk.message.contains(argument), "{}", bulk.message);
        }
        refused("SELECT sched.alter_schedule('al/refused', alert_job => '')", "22023");
        for (alert_job, sqlstate) in [("al/unknown", "42704"), ("al/super", "42501")] {
            run(&[
                "SET LOCAL ROLE al_user",
                "SELECT sched.define_job('al/own')",
                "SELECT sched.create_schedule('al/his', 'never', 'al/own')",
            ]);
            let calls = [
                format!("SELECT sched.create_schedule('al/new', 'never', 'al/own', alert_job => '{alert_job}')"),
                format!("SELECT sched.alter_schedule('al/his', alert_job => '{alert_job}')"),
                format!(
                    r#"SELECT sched.create_schedules('[{{"schedule_name": "al/new", "clock": "never", "job_name": "al/own", "alert_job": "{alert_job}"}}]')"#
                ),
            ];
            run(&["RESET ROLE"]);
            for call in calls {
                let as_user = format!("SELECT set_config('role', 'al_user', true); {call}");
                let code = crate::test_support::attempt(&as_user).map(|refusal| refusal.sqlstate);
                run(&["RESET ROLE"]);
                assert_eq!(code.as_deref(), Some(sqlstate), "{call}");
            }
            run(&["SELECT sched.drop_schedule('al/his')"]);
        }
        // A job that is given alerts is in use.
        run(&["SELECT sched.alter_schedule('al/refused', alert_job => 'al/super')"]);
        refused("SELECT sched.drop_job('al/super')", "2BP01");
        run(&["SELECT sched.alter_schedule('al/refused', reset => '{alert_job}')"]);
        check("SELECT sched.drop_job('al/super')", "t");
    }

    #[pg_test]
    fn a_look_opens_and_resolves_and_a_second_one_finds_nothing() {
        created("al/failed", "never", "");
        run(&["SELECT sched.define_job('job of al/failed', queue => 'al/failed', max_attempts => 2)"]);
        dispatch(0);
        let open = "SELECT kind, execution_id IS NOT NULL, resolved_at IS NULL, message ~ 'has failed for good .smtp.: refused$' FROM sched.alerts WHERE schedule_name = 'al/failed' ORDER BY alert_id";
        let fail = || {
            let (id, token) = claim_one("al/failed");
            run(&[&format!("SELECT sched.finish_failure('{id}', '{token}', 'smtp', 'refused', clock_timestamp())")]);
            look();
        };
        run(&["SELECT sched.fire_now('al/failed')"]);
        fail();
        check(open, "");
        fail();
        check(open, "failed|t|t|t");
        look();
        check(open, "failed|t|t|t");
        // Another failure is no other alert; a success ends it.
        run(&["SELECT sched.fire_now('al/failed')"]);
        fail();
        fail();
        check(open, "failed|t|t|t");
        run(&["SELECT sched.fire_now('al/failed')"]);
        let (id, token) = claim_one("al/failed");
        run(&[&format!("SELECT sched.finish_success('{id}', '{token}')")]);
        run(&["UPDATE sched.alert_watch SET due_at = '-infinity'"]);
        look();
        check(open, "failed|t|f|t");
        check("SELECT count(*) FROM sched.alert_state JOIN sched.schedule USING (schedule_id) WHERE schedule_name = 'al/failed'", "0");
    }

    /// A look reads at most 200 runs that have not ended, and goes on when some of them have.
    #[pg_test]
    fn a_backlog_costs_no_more_than_a_part_of_it() {
        created(
            "al/backlog",
            "every 1 second from 2020-01-01 00:00+00",
            "catch_up => 'every_plan', max_plans_per_tick => 1000, max_lateness => '1 second'",
        );
        run(&["SELECT sched.define_job('job of al/backlog', queue => 'al/backlog', max_attempts => 1)"]);
        // A second may have passed since.
        run(&["SELECT sched.dispatch_due()"]);
        look();
        time_passes("500 seconds");
        run(&["UPDATE sched.alert_state SET version = version + 1, seen_plan = seen_plan - interval '500 seconds'"]);
        assert!(sql("SELECT sched.dispatch_due()").parse::<i64>().unwrap() > 400);
        let state = "SELECT cardinality(unsettled) FROM sched.alert_state JOIN sched.schedule USING (schedule_id) WHERE schedule_name = 'al/backlog'";
        run(&["UPDATE sched.alert_watch SET due_at = '-infinity'"]);
        look();
        check(state, "200");
        check("SELECT count(*), count(resolved_at) FROM sched.alerts WHERE schedule_name = 'al/backlog'", "1|0");
        check("SELECT count(*) > 400 FROM sched.late WHERE schedule_name = 'al/backlog'", "t");
        run(&[
            "SELECT sched.finish_success_many(array_agg(execution_id), array_agg(lease_token)) FROM sched.claim('al/backlog', 150)",
            "UPDATE sched.alert_watch SET due_at = '-infinity'",
        ]);
        look();
        look();
        check("SELECT count(*), count(resolved_at) FROM sched.alerts WHERE schedule_name = 'al/backlog'", "2|1");
        run(&["UPDATE sched.alert_watch SET due_at = '-infinity'"]);
        look();
        check(state, "200");
    }

    /// A look that is told of the newest run sees those between all the same.
    #[pg_test]
    fn a_failure_hides_no_run_before_it() {
        created(
            "al/jump",
            "every 1 second from 2020-01-01 00:00+00",
            "catch_up => 'every_plan', max_plans_per_tick => 1000, max_lateness => '1 second'",
        );
        // A second may have passed since.
        run(&["SELECT sched.dispatch_due()"]);
        look();
        time_passes("500 seconds");
        run(&["UPDATE sched.alert_state SET version = version + 1, seen_plan = now() - interval '500 seconds'"]);
        assert!(sql("SELECT sched.dispatch_due()").parse::<i64>().unwrap() > 450);
        run(&[
            "UPDATE sched.alert_state w SET version = s.version FROM sched.schedule s WHERE w.schedule_id = s.schedule_id",
            "WITH newest AS (UPDATE sched.ledger SET status = 'FAILED', finished_at = clock_timestamp()
                              WHERE id = (SELECT id FROM sched.ledger WHERE schedule_name = 'al/jump' ORDER BY plan_time DESC LIMIT 1)
                          RETURNING id, schedule_id)
             INSERT INTO sched.alert_watch (due_at, schedule_id, execution_id, failed) SELECT '-infinity', schedule_id, id, true FROM newest",
        ]);
        look();
        check(
            "SELECT string_agg(kind, ' ' ORDER BY kind) FROM sched.alerts WHERE schedule_name = 'al/jump'",
            "failed late",
        );
        let state =
            "FROM sched.alert_state w JOIN sched.schedule s USING (schedule_id) WHERE s.schedule_name = 'al/jump'";
        // The oldest, and as far as those.
        let oldest =
            "SELECT id, plan_time FROM sched.ledger WHERE schedule_name = 'al/jump' ORDER BY plan_time LIMIT 200";
        check(&format!("SELECT w.unsettled @> array(SELECT o.id FROM ({oldest}) AS o) AND cardinality(w.unsettled) = 200 {state}"), "t");
        check(
            &format!(
                "SELECT w.seen_plan < (SELECT max(o.plan_time) + interval '1 second' FROM ({oldest}) AS o) {state}"
            ),
            "t",
        );
    }

    /// Runs that cannot be late keep no look from seeing one that is.
    #[pg_test]
    fn a_backfill_hides_no_late_run() {
        created("al/filled", "every 1 second from 2020-01-01 00:00+00", "max_lateness => '30 seconds'");
        // A second may have passed since.
        run(&["SELECT sched.dispatch_due()"]);
        look();
        check("SELECT sched.backfill('al/filled', '2021-01-01 00:00+00', '2021-01-01 00:05+00') >= 300", "t");
        look();
        check("SELECT count(*) FROM sched.alerts WHERE schedule_name = 'al/filled'", "0");
        let state =
            "FROM sched.alert_state w JOIN sched.schedule s USING (schedule_id) WHERE s.schedule_name = 'al/filled'";
        check(&format!("SELECT cardinality(w.unsettled) >= 300 {state}"), "t");
        run(&["SELECT sched.fire_now('al/filled')"]);
        let named = "DELETE FROM sched.alert_watch WHERE execution_id IS NOT NULL";
        // As if it had been planned, a while ago.
        run(&[
            named,
            "UPDATE sched.ledger SET plan_time = plan_time - interval '1 minute' WHERE schedule_name = 'al/filled' AND origin = 'manual'",
            "UPDATE sched.alert_state SET seen_plan = now() - interval '1 hour'",
            "UPDATE sched.alert_watch SET due_at = '-infinity'",
        ]);
        look();
        check("SELECT string_agg(kind, ' ') FROM sched.alerts WHERE schedule_name = 'al/filled'", "late");
    }

    /// Two schedules of one job and scope: each has alerts of its own runs.
    #[pg_test]
    fn the_runs_of_another_schedule_in_its_scope_are_not_its_own() {
        run(&["SELECT sched.define_job('al/shared', queue => 'al/shared', max_attempts => 1)"]);
        for (name, more) in [
            ("al/one", "max_lateness => '1 second'"),
            ("al/two", "max_lateness => '1 second', expect_success_within => '1 hour'"),
        ] {
            run(&[&format!(
                "SELECT sched.create_schedule('{name}', 'never', 'al/shared', scope_kind => 'shared', scope_id => 'scope', {more})"
            )]);
        }
        dispatch(0);
        look();
        let again = "UPDATE sched.alert_watch SET due_at = '-infinity'";
        run(&[
            "SELECT sched.fire_now('al/one')",
            "UPDATE sched.ledger SET plan_time = plan_time - interval '1 minute'",
            again,
        ]);
        run(&["UPDATE sched.alert_state SET seen_plan = NULL"]);
        look();
        let open = "SELECT string_agg(schedule_name || ' ' || kind, ', ' ORDER BY schedule_name, kind) FROM sched.alerts WHERE schedule_name IN ('al/one', 'al/two') AND resolved_at IS NULL";
        check(open, "al/one late");
        check(
            "SELECT string_agg(schedule_name, ' ') FROM sched.late WHERE schedule_name IN ('al/one', 'al/two')",
            "al/one",
        );
        // Nor is the other's success its own.
        run(&[
            "UPDATE sched.ledger SET status = 'SUCCESS', finished_at = clock_timestamp() WHERE schedule_name = 'al/one'",
            "ALTER TABLE sched.schedule DISABLE TRIGGER schedule_before_update",
            "UPDATE sched.schedule SET updated_at = updated_at - interval '2 hours' WHERE schedule_name = 'al/two'",
            "ALTER TABLE sched.schedule ENABLE ALWAYS TRIGGER schedule_before_update",
            again,
        ]);
        look();
        check(open, "al/two no_success");
    }

    /// The many failures of one schedule keep no other waiting, and do not pile up where nobody looks.
    #[pg_test]
    fn many_failures_of_one_schedule_delay_no_other() {
        for name in ["al/first", "al/second", "al/third"] {
            created(name, "never", "max_lateness => '1 hour'");
        }
        dispatch(0);
        look();
        let id = |name: &str| sql(&format!("SELECT schedule_id FROM sched.schedule WHERE schedule_name = '{name}'"));
        let (first, second, third) = (id("al/first"), id("al/second"), id("al/third"));
        let many = format!(
            "INSERT INTO sched.alert_watch (due_at, schedule_id, execution_id, failed) SELECT '-infinity', {first}, gen_random_uuid(), true FROM generate_series(1, 1000)"
        );
        run(&[
            "DELETE FROM sched.alert_watch",
            &many,
            &format!("INSERT INTO sched.alert_watch (due_at, schedule_id) VALUES ('-infinity', {second}), (now() - interval '1 second', {third})"),
        ]);
        assert_eq!(look_once(4), 202);
        let left = "SELECT schedule_id, count(*) FROM sched.alert_watch GROUP BY schedule_id";
        check(left, &format!("{first}|800"));
        // The next turn goes on with the next schedules, however many are added to the first.
        let mut looked = LookedForAlerts::default();
        run(&[&format!("INSERT INTO sched.alert_watch (due_at, schedule_id) VALUES ('-infinity', {second}), ('-infinity', {third})")]);
        for expected in [200, 1, 1, 200] {
            assert_eq!(session(|session| look_for_alerts(session, &mut looked, convert::now(), 2)), expected);
        }
        run(&[&many]);
        dispatch(0);
        check(left, &format!("{first}|200"));
    }

    /// Who takes the name of a job that is gone is not told what went wrong with others' runs.
    #[pg_test]
    fn a_strangers_job_is_given_no_alert() {
        granting();
        run(&[
            "CREATE ROLE al_team; CREATE ROLE al_stranger; CREATE ROLE al_member IN ROLE al_team",
            "SELECT sched.define_job('al/pager')",
        ]);
        created("al/watched", "never", "alert_job => 'al/pager'");
        run(&["UPDATE sched.job SET owner = 'al_team' WHERE job_name = 'job of al/watched'"]);
        dispatch(0);
        let given = |owner: &str| {
            run(&[
                "DELETE FROM sched.alert",
                &format!("UPDATE sched.job SET owner = '{owner}' WHERE job_name = 'al/pager'"),
                "SELECT sched.fire_now('al/watched')",
                "UPDATE sched.ledger SET status = 'FAILED', finished_at = clock_timestamp() WHERE schedule_name = 'al/watched'",
                "INSERT INTO sched.alert_watch (due_at, schedule_id, execution_id, failed)
                 SELECT '-infinity', schedule_id, id, true FROM sched.ledger WHERE schedule_name = 'al/watched' ORDER BY plan_time DESC LIMIT 1",
            ]);
            look();
            check("SELECT count(*) FROM sched.alerts WHERE schedule_name = 'al/watched'", "1");
            sql("SELECT count(*) FROM sched.alert a JOIN sched.ledger e ON e.job_name = 'al/pager' AND e.scope_id = a.alert_id::text")
        };
        assert_eq!(["al_team", "al_stranger", "al_member", "postgres"].map(given), ["1", "0", "1", "1"]);
    }

    /// What a dump has of a schedule that was dropped is resolved by the rebuild.
    #[pg_test]
    fn a_rebuild_resolves_what_is_left_of_a_dropped_schedule() {
        run(&[
            "INSERT INTO sched.alert (kind, schedule_id, schedule_name, owner, since, message, opened_at)
             VALUES ('late', 987654321, 'al/gone', current_user::regrole, now(), 'm', now())",
            "SELECT sched.rebuild()",
        ]);
        look();
        check("SELECT resolved_at IS NOT NULL FROM sched.alerts WHERE schedule_name = 'al/gone'", "t");
    }

    /// Health says how many alerts of each kind are open, however many there are of another.
    #[pg_test]
    fn health_counts_each_kind() {
        run(&["INSERT INTO sched.alert (kind, schedule_id, schedule_name, owner, since, message, opened_at)
             SELECT CASE WHEN i <= 1500 THEN 'late' ELSE 'long' END, -i, 'al/many ' || i, current_user::regrole, now() - i * interval '1 second', 'm', now()
               FROM generate_series(1, 1503) AS i"]);
        check(
            "SELECT message FROM sched.health() WHERE component = 'schedules'",
            "open alerts: 1000 or more late, 3 long; the worst is \"al/many 1503\"",
        );
    }

    #[pg_test]
    fn acknowledge_names_what_is_wrong() {
        refused("SELECT sched.acknowledge(NULL, now())", "22004");
        refused("SELECT sched.acknowledge(1, NULL)", "22004");
        refused("SELECT sched.acknowledge(-1, now())", "42704");
        run(&["INSERT INTO sched.alert (kind, schedule_id, schedule_name, owner, since, message, opened_at)
             VALUES ('late', -7, 'al/gone', current_user::regrole, now(), 'm', now())"]);
        let acknowledge = |until: &str| {
            run(&[&format!(
                "SELECT sched.acknowledge(alert_id, {until}) FROM sched.alerts WHERE schedule_name = 'al/gone'"
            )]);
            sql("SELECT acknowledged_until FROM sched.alerts WHERE schedule_name = 'al/gone'")
        };
        assert_eq!(acknowledge("'2100-01-01 00:00+00'"), "2100-01-01 00:00:00+00");
        assert_eq!(acknowledge("'infinity'"), "infinity");
        assert_eq!(acknowledge("clock_timestamp()"), "");
        assert_eq!(acknowledge("'-infinity'"), "");
    }
}
