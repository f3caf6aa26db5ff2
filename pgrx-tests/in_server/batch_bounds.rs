//! What one batch fires is bounded, and where that is not all the owners take turns. A schedule's payload has a limit.

use pgrx::prelude::*;

#[pg_schema]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{check, created, dispatch, refused, run, set_fast_path, sql, time_passes};

    /// Thirty schedules of one role, one of another, and thirty more of the first.
    fn many_of_one_role_and_one_of_another() {
        run(&[
            "CREATE ROLE turns_many",
            "CREATE ROLE turns_one",
            "SELECT sched.grant_use('turns_many'), sched.grant_use('turns_one')",
            "SET LOCAL ROLE turns_many",
            "SELECT sched.define_job('turns/many')",
            "SELECT sched.create_schedule('turns/before ' || i, 'every 1 hour', 'turns/many') FROM generate_series(1, 30) AS i",
            "SET LOCAL ROLE turns_one",
            "SELECT sched.define_job('turns/one')",
            "SELECT sched.create_schedule('turns/one', 'every 1 hour', 'turns/one')",
            "SET LOCAL ROLE turns_many",
            "SELECT sched.create_schedule('turns/behind ' || i, 'every 1 hour', 'turns/many') FROM generate_series(1, 30) AS i",
            "RESET ROLE",
        ]);
        dispatch(0);
        time_passes("61 minutes");
    }

    fn the_other_role_fires_with_the_first_batch() {
        many_of_one_role_and_one_of_another();
        check(&format!("SELECT count(DISTINCT t.owner), bool_and(t.owner = j.owner) FROM {TIMER} t JOIN sched.schedule USING (schedule_id) JOIN sched.job j USING (job_name) WHERE job_name LIKE 'turns/%'"), "2|t");
        check("SELECT sched.dispatch_due(10)", "10");
        check("SELECT count(*) FROM sched.execution WHERE job_name = 'turns/one'", "1");
        for _ in 0..5 {
            check("SELECT sched.dispatch_due(10)", "10");
        }
        check("SELECT sched.dispatch_due(10)", "1");
        check("SELECT sched.dispatch_due(10)", "0");
        check(
            "SELECT count(*), count(DISTINCT schedule_name) FROM sched.execution WHERE job_name LIKE 'turns/%'",
            "61|61",
        );
    }

    #[pg_test]
    fn owners_take_turns_where_not_all_fires_at_once() {
        the_other_role_fires_with_the_first_batch();
    }

    #[pg_test]
    fn owners_take_turns_by_statements_too() {
        set_fast_path(false);
        the_other_role_fires_with_the_first_batch();
        set_fast_path(true);
    }

    #[pg_test]
    fn owners_take_turns_in_calls_for_one_schedule_each() {
        many_of_one_role_and_one_of_another();
        run(&["SELECT sched.dispatch_due(1)", "SELECT sched.dispatch_due(1)"]);
        check("SELECT string_agg(job_name, ' ' ORDER BY job_name) FROM sched.execution", "turns/many turns/one");
    }

    #[pg_test]
    fn a_batch_has_so_many_bytes_of_payload() {
        // (What is stored is compressed. The size is that of the whole value.)
        let backlog = "payload => to_jsonb(repeat('x', 1000000)), catch_up => 'every_plan', max_plans_per_tick => 1000";
        created("b/large", "every 1 minute", backlog);
        created("b/small", "every 1 minute", "catch_up => 'every_plan', max_plans_per_tick => 1000");
        dispatch(0);
        time_passes("80 minutes 30 seconds");
        dispatch(67 + 80);
        check("SELECT count(*), round(extract(epoch FROM clock_timestamp() - max(plan_time)) / 60) FROM sched.execution WHERE schedule_name = 'b/large'", "67|14");
        dispatch(13);
        dispatch(0);
        check(
            "SELECT schedule_name, count(*), count(DISTINCT plan_time) FROM sched.execution GROUP BY 1 ORDER BY 1",
            "b/large|80|80\nb/small|80|80",
        );
        check("SELECT count(*) FROM sched.skip", "0");
    }

    #[pg_test]
    fn a_payload_of_a_schedule_has_a_limit() {
        created("p/full", "every 1 hour", "payload => to_jsonb(repeat('x', 1048574))");
        run(&["SELECT sched.define_job('p')"]);
        let said = refused(
            "SELECT sched.create_schedule('p/x', 'every 1 hour', 'p', payload => to_jsonb(repeat('x', 1048575)))",
            "54000",
        );
        assert_eq!(said.message, "payload of a schedule is too large: 1048577 bytes");
        // Its text counts, which may be longer than what is stored.
        refused("SELECT sched.create_schedule('p/x', 'every 1 hour', 'p', payload => to_jsonb(ARRAY(SELECT '1e131071'::numeric FROM generate_series(1, 9))))", "54000");
        let said = refused("SELECT sched.create_schedules(jsonb_build_array(jsonb_build_object('schedule_name', 'p/x', 'clock', 'every 1 hour', 'job_name', 'p', 'payload', repeat('x', 1048575))))", "54000");
        assert!(
            said.message.starts_with("element 1, key \"payload\": payload of a schedule is too large"),
            "{}",
            said.message
        );
        refused("SELECT sched.alter_schedule('p/full', payload => to_jsonb(repeat('x', 1048575)))", "54000");
        refused(
            "SELECT sched.schedule_sql('p/sql', 'every 1 hour', 'SELECT 1', payload => to_jsonb(repeat('x', 1048575)))",
            "54000",
        );
    }

    #[pg_test]
    fn a_longer_payload_of_before_is_kept_and_named() {
        created("p/kept", "every 1 hour", "");
        check("SELECT severity FROM sched.health() WHERE component = 'schedules'", "ok");
        run(&["UPDATE sched.schedule SET payload = to_jsonb(repeat('x', 2000000)) WHERE schedule_name = 'p/kept'"]);
        check(
            "SELECT severity, message, hint LIKE '%sched.alter_schedule%' FROM sched.health() WHERE component = 'schedules'",
            "warning|1 with a payload over 1048576 bytes: \"p/kept\"|t",
        );
        run(&["SELECT sched.alter_schedule('p/kept', clock => 'every 2 hours')"]);
        refused("SELECT sched.alter_schedule('p/kept', payload => to_jsonb(repeat('y', 2000000)))", "54000");
        dispatch(0);
        time_passes("121 minutes");
        dispatch(1);
        check("SELECT octet_length(payload::text) FROM sched.execution", "2000002");
        run(&["SELECT sched.alter_schedule('p/kept', reset => '{payload}')"]);
        check("SELECT severity FROM sched.health() WHERE component = 'schedules'", "ok");
        assert_eq!(sql("SELECT payload FROM sched.schedule"), "{}");
    }
}
