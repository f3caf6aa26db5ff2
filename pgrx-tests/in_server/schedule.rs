//! create_schedule, alter_schedule, drop_schedule, pause, resume, and the view sched.schedules.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{armed, check, created, dispatch, fails, refused, run, sql, state, time_passes};

    #[pg_test]
    fn the_defaults_of_a_schedule() {
        run(&["SELECT sched.define_job('s/job')", "SELECT sched.create_schedule('s/a', '*/5 * * * *', 's/job')"]);
        check(
            "SELECT clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, catch_up_window, max_plans_per_tick, rearm,
                    overlap, delay, jitter, starts_at, ends_at, ownership, enabled, version FROM sched.schedule",
            "*/5 * * * *|UTC|s/job|{}|schedule|s/a|latest_only||100|on_dispatch|allow|00:00:00|00:00:00|||owned|t|1",
        );
        check("SELECT sched.create_schedule('s/b', 'never', 's/job') > 0", "t");
        check(
            "SELECT schedule_name, job_name, clock, time_zone, enabled, ownership, state, next_plan_time, next_fire_at, last_plan_time,
                    last_fired_at, error_count, last_error FROM sched.schedules WHERE schedule_name = 's/a'",
            "s/a|s/job|*/5 * * * *|UTC|t|owned|arming|||||0|",
        );
    }

    #[pg_test]
    fn creating_never_fires() {
        created("s/new", "every 1 hour from epoch", "");
        check("SELECT sched.dispatch_due()", "0");
        check("SELECT next_plan_time > created_at FROM sched.schedules JOIN sched.schedule USING (schedule_name)", "t");
        assert_eq!(state("s/new"), "armed");
        created("s/past", "at 2020-01-01 00:00+00", "catch_up => 'every_plan'");
        check("SELECT sched.dispatch_due()", "0");
        assert_eq!(state("s/past"), "done");
    }

    #[pg_test]
    fn bad_arguments_of_create() {
        run(&["SELECT sched.define_job('s/bad')"]);
        for (arguments, sqlstate) in [
            ("'s/x', '61 * * * *', 's/bad'", "22023"),
            ("'s/x', '', 's/bad'", "22023"),
            ("'s/x', NULL, 's/bad'", "22004"),
            ("'s/x', 'every 0 days', 's/bad'", "22023"),
            ("'s/x', 'every -1 days', 's/bad'", "22023"),
            ("'s/x', '@daily', 's/none'", "42704"),
            ("'s/x', '@daily', ''", "22023"),
            ("'s/x', '@daily', NULL", "22004"),
            ("NULL, '@daily', 's/bad'", "22004"),
            ("'', '@daily', 's/bad'", "22023"),
            ("repeat('x', 1001), '@daily', 's/bad'", "22023"),
            ("'s/x', '@daily', 's/bad', time_zone => 'Mars/Olympus'", "22023"),
            ("'s/x', '@daily', 's/bad', time_zone => ''", "22023"),
            ("'s/x', '@daily', 's/bad', payload => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', scope_kind => ''", "22023"),
            ("'s/x', '@daily', 's/bad', scope_kind => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', scope_id => ''", "22023"),
            ("'s/x', '@daily', 's/bad', scope_id => repeat('x', 1001)", "22023"),
            ("'s/x', '@daily', 's/bad', catch_up => 'some'", "22023"),
            ("'s/x', '@daily', 's/bad', catch_up => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', catch_up_window => '0'", "22023"),
            ("'s/x', '@daily', 's/bad', catch_up_window => '-1s'", "22023"),
            ("'s/x', '@daily', 's/bad', catch_up_window => '1 month'", "22023"),
            ("'s/x', '@daily', 's/bad', max_plans_per_tick => 0", "22023"),
            ("'s/x', '@daily', 's/bad', max_plans_per_tick => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', rearm => 'never'", "22023"),
            ("'s/x', '@daily', 's/bad', rearm => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', overlap => 'queue'", "22023"),
            ("'s/x', '@daily', 's/bad', overlap => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', delay => '-1s'", "22023"),
            ("'s/x', '@daily', 's/bad', delay => '1 month'", "22023"),
            ("'s/x', '@daily', 's/bad', delay => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', delay => make_interval(days => 2147483647)", "22008"),
            ("'s/x', '@daily', 's/bad', jitter => '-1s'", "22023"),
            ("'s/x', '@daily', 's/bad', jitter => '-1 year'", "22023"),
            ("'s/x', '@daily', 's/bad', jitter => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', starts_at => 'infinity'", "22008"),
            ("'s/x', '@daily', 's/bad', ends_at => '-infinity'", "22008"),
            ("'s/x', '@daily', 's/bad', starts_at => '2027-01-01', ends_at => '2027-01-01'", "22023"),
            ("'s/x', '@daily', 's/bad', starts_at => '2027-01-02', ends_at => '2027-01-01'", "22023"),
            ("'s/x', '@daily', 's/bad', ownership => 'shared'", "22023"),
            ("'s/x', '@daily', 's/bad', ownership => NULL", "22004"),
            ("'s/x', '@daily', 's/bad', enabled => NULL", "22004"),
        ] {
            refused(&format!("SELECT sched.create_schedule({arguments})"), sqlstate);
        }
        check("SELECT count(*) FROM sched.schedule", "0");
    }

    #[pg_test]
    fn a_name_is_taken_once() {
        created("s/dup", "@daily", "");
        let refusal = refused("SELECT sched.create_schedule('s/dup', '@hourly', 'job of s/dup')", "42710");
        assert!(refusal.message.contains("\"s/dup\""), "{}", refusal.message);
        check("SELECT clock, version FROM sched.schedule", "@daily|1");
    }

    /// Three names of 1,000 bytes that do not compress: their index entry would be larger than a B-tree allows.
    #[pg_test]
    fn three_long_names_work_together() {
        run(&[
            "CREATE FUNCTION pg_temp.noise(seed text) RETURNS text LANGUAGE sql AS
             $$ SELECT left(string_agg(translate(encode(sha256((seed || n)::bytea), 'base64'), E'\\n', ''), ''), 1000) FROM generate_series(1, 30) n $$",
            "SELECT sched.define_job(pg_temp.noise('job'))",
            "SELECT sched.create_schedule(pg_temp.noise('name'), 'every 1 hour', pg_temp.noise('job'),
                                          scope_kind => pg_temp.noise('kind'), scope_id => pg_temp.noise('id'))",
        ]);
        check("SELECT octet_length(schedule_name), octet_length(scope_id) FROM sched.schedule", "1000|1000");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        check("SELECT count(*) FROM sched.claim()", "1");
        let claim = "SELECT outcome FROM sched.try_claim(pg_temp.noise('job'), (SELECT plan_time FROM sched.execution), pg_temp.noise('kind'), pg_temp.noise('id'))";
        check(claim, "conflicted");
        check("SELECT sched.drop_schedule(pg_temp.noise('name'))", "t");
    }

    #[pg_test]
    fn the_window_is_inclusive_and_exclusive() {
        created("s/window", "every 1 day from epoch", "starts_at => '2031-01-05', ends_at => '2031-01-06'");
        dispatch(0);
        check("SELECT next_plan_time FROM sched.schedules", "2031-01-05 00:00:00+00");
        run(&["SELECT sched.alter_schedule('s/window', ends_at => '2031-01-05 00:00:00.000001')"]);
        dispatch(0);
        assert_eq!(state("s/window"), "armed");
        run(&["SELECT sched.alter_schedule('s/window', starts_at => '2031-01-04 00:00:00.000001', ends_at => '2031-01-05')"]);
        dispatch(0);
        assert_eq!(state("s/window"), "done");
    }

    #[pg_test]
    fn a_new_clock_is_a_new_baseline() {
        for (n, change) in [
            "clock => 'every 2 hours'",
            "time_zone => 'Europe/Berlin'",
            "starts_at => '2001-01-01'",
            "ends_at => '2999-01-01'",
            "enabled => true",
            "ownership => 'owned'",
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("s/baseline/{n}");
            created(&name, "every 1 hour", "");
            dispatch(0);
            time_passes("90 minutes");
            let kept = n >= 4;
            run(&[&format!("SELECT sched.alter_schedule('{name}', {change})")]);
            // What was due and not dispatched is dropped by a new baseline, and fires after any other edit.
            dispatch(if kept { 1 } else { 0 });
            check(
                &format!(
                    "SELECT next_plan_time > clock_timestamp() FROM sched.schedules WHERE schedule_name = '{name}'"
                ),
                "t",
            );
            run(&[&format!("SELECT sched.drop_schedule('{name}')")]);
        }
    }

    #[pg_test]
    fn other_edits_keep_the_armed_plan_and_fire_with_the_new_values() {
        run(&["SELECT sched.define_job('s/other', queue => 's/other')"]);
        created("s/keep", "every 1 hour", "payload => '{\"v\": 1}'");
        dispatch(0);
        time_passes("90 minutes");
        run(&["SELECT sched.alter_schedule('s/keep', payload => '{\"v\": 2}', job_name => 's/other', scope_id => 'new', scope_kind => 'k',
                      catch_up => 'every_plan', overlap => 'skip', max_plans_per_tick => 7)"]);
        check("SELECT state FROM sched.schedules", "arming");
        dispatch(1);
        check(
            "SELECT payload, job_name, queue, scope_kind, scope_id, schedule_name FROM sched.execution",
            "{\"v\": 2}|s/other|s/other|k|new|s/keep",
        );
    }

    #[pg_test]
    fn null_leaves_and_reset_puts_back() {
        created(
            "s/reset",
            "@daily",
            "time_zone => 'Europe/Berlin', payload => '{\"a\": 1}', scope_kind => 'k', scope_id => 'i', catch_up => 'every_plan',
             catch_up_window => '1 day', max_plans_per_tick => 3, rearm => 'on_terminal', overlap => 'skip', delay => '1s', jitter => '2s',
             starts_at => '2001-01-01', ends_at => '2999-01-01', ownership => 'external', enabled => false",
        );
        let columns = "SELECT clock, time_zone, job_name, payload, scope_kind, scope_id, catch_up, catch_up_window, max_plans_per_tick, rearm,
                              overlap, delay, jitter, starts_at, ends_at, ownership, enabled FROM sched.schedule";
        let before = sql(columns);
        run(&["SELECT sched.alter_schedule('s/reset')"]);
        check(columns, &before);
        run(&["SELECT sched.alter_schedule('s/reset', reset => '{catch_up_window,ends_at}')"]);
        check("SELECT catch_up_window, ends_at, starts_at FROM sched.schedule", "||2001-01-01 00:00:00+00");
        run(&["SELECT sched.alter_schedule('s/reset', reset => '{time_zone,payload,scope_kind,scope_id,catch_up,catch_up_window,max_plans_per_tick,
                      rearm,overlap,delay,jitter,starts_at,ends_at,ownership,enabled}')"]);
        check(
            columns,
            "@daily|UTC|job of s/reset|{}|schedule|s/reset|latest_only||100|on_dispatch|allow|00:00:00|00:00:00|||owned|t",
        );
        for (reset, sqlstate) in [
            ("{clock}", "22023"),
            ("{job_name}", "22023"),
            ("{schedule_name}", "22023"),
            ("{\"\"}", "22023"),
            ("{NULL}", "22004"),
        ] {
            refused(&format!("SELECT sched.alter_schedule('s/reset', reset => '{reset}')"), sqlstate);
        }
    }

    #[pg_test]
    fn bad_arguments_of_alter_and_kin() {
        created("s/alter", "@daily", "");
        created("s/taken", "@daily", "");
        for (arguments, sqlstate) in [
            ("clock => '61 * * * *'", "22023"),
            ("time_zone => 'Mars/Olympus'", "22023"),
            ("job_name => 's/none'", "42704"),
            ("scope_id => ''", "22023"),
            ("scope_kind => ''", "22023"),
            ("job_name => ''", "22023"),
            ("catch_up => 'some'", "22023"),
            ("max_plans_per_tick => 0", "22023"),
            ("delay => '-1s'", "22023"),
            ("starts_at => '2027-01-02', ends_at => '2027-01-01'", "22023"),
            ("ends_at => 'infinity'", "22008"),
            ("ownership => 'shared'", "22023"),
            ("new_name => ''", "22023"),
            ("new_name => repeat('x', 1001)", "22023"),
            ("new_name => 's/taken'", "42710"),
        ] {
            refused(&format!("SELECT sched.alter_schedule('s/alter', {arguments})"), sqlstate);
        }
        for call in ["alter_schedule(%, clock => '@hourly')", "pause(%)", "resume(%)"] {
            refused(&format!("SELECT sched.{}", call.replace('%', "'s/none'")), "42704");
            refused(&format!("SELECT sched.{}", call.replace('%', "NULL")), "22004");
            refused(&format!("SELECT sched.{}", call.replace('%', "''")), "22023");
        }
        check("SELECT sched.drop_schedule('s/none')", "f");
        refused("SELECT sched.drop_schedule(NULL)", "22004");
        fails("SELECT sched.drop_schedule('s/alter', NULL)", "22004");
    }

    #[pg_test]
    fn renaming() {
        created("s/old", "every 1 hour", "");
        dispatch(0);
        run(&[
            "SELECT sched.alter_schedule('s/old', new_name => 's/old')",
            "SELECT sched.alter_schedule('s/old', new_name => 's/fresh')",
        ]);
        check("SELECT schedule_name, scope_id FROM sched.schedule", "s/fresh|s/old");
        time_passes("61 minutes");
        dispatch(1);
        check("SELECT schedule_name, scope_id FROM sched.execution", "s/fresh|s/old");
        refused("SELECT sched.pause('s/old')", "42704");
    }

    #[pg_test]
    fn pausing_and_resuming_make_no_burst() {
        created("s/pause", "every 1 hour", "catch_up => 'every_plan'");
        dispatch(0);
        run(&["SELECT sched.pause('s/pause')", "SELECT sched.pause('s/pause')"]);
        assert_eq!(state("s/pause"), "paused");
        dispatch(0);
        time_passes("5 hours");
        dispatch(0);
        check("SELECT state, next_plan_time FROM sched.schedules", "paused|");
        run(&["SELECT sched.resume('s/pause')"]);
        assert_eq!(state("s/pause"), "arming");
        dispatch(0);
        assert_eq!(armed("s/pause"), "t");
        // Resuming what runs is no new baseline.
        time_passes("2 hours");
        run(&["SELECT sched.resume('s/pause')"]);
        dispatch(2);
    }

    #[pg_test]
    fn a_pause_that_no_dispatcher_has_seen_holds_at_once() {
        created("s/held", "every 1 hour", "");
        dispatch(0);
        time_passes("90 minutes");
        run(&["SELECT sched.pause('s/held')"]);
        dispatch(0);
        check("SELECT count(*) FROM sched.execution", "0");
    }

    #[pg_test]
    fn an_external_schedule_is_not_dispatched_and_taking_it_over_is_no_burst() {
        created("s/ext", "every 1 hour", "catch_up => 'every_plan', ownership => 'external'");
        assert_eq!(state("s/ext"), "external");
        dispatch(0);
        time_passes("5 hours");
        dispatch(0);
        run(&["SELECT sched.alter_schedule('s/ext', ownership => 'owned')"]);
        dispatch(0);
        assert_eq!(armed("s/ext"), "t");
        time_passes("1 hour");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('s/ext', ownership => 'external')"]);
        time_passes("1 hour");
        dispatch(0);
        assert_eq!(state("s/ext"), "external");
    }

    #[pg_test]
    fn of_several_states_the_first_is_shown() {
        created("s/states", "every 1 hour", "rearm => 'on_terminal'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        assert_eq!(state("s/states"), "waiting");
        run(&["SELECT sched.pause('s/states')"]);
        assert_eq!(state("s/states"), "paused");
        run(&["SELECT sched.alter_schedule('s/states', ownership => 'external')"]);
        assert_eq!(state("s/states"), "external");
        dispatch(0);
        run(&["UPDATE sched.schedule SET time_zone = 'Mars/Olympus'"]);
        dispatch(0);
        check("SELECT state, next_plan_time, last_error <> '' FROM sched.schedules", "parked||t");
        run(&["SELECT sched.alter_schedule('s/states', time_zone => 'UTC')"]);
        assert_eq!(state("s/states"), "external");
        run(&["SELECT sched.alter_schedule('s/states', ownership => 'owned')"]);
        assert_eq!(state("s/states"), "paused");
        run(&["SELECT sched.resume('s/states')"]);
        assert_eq!(state("s/states"), "arming");
        dispatch(0);
        assert_eq!(state("s/states"), "waiting");
    }

    #[pg_test]
    fn dropping_leaves_executions_and_can_cancel_what_nobody_runs() {
        created("s/drop", "every 1 hour", "catch_up => 'every_plan'");
        dispatch(0);
        time_passes("3 hours 1 minute");
        dispatch(3);
        run(&["SELECT sched.claim('default')"]);
        check("SELECT sched.drop_schedule('s/drop', cancel_pending => true)", "t");
        check("SELECT string_agg(status, ' ' ORDER BY plan_time) FROM sched.execution", "RUNNING CANCELLED CANCELLED");
        check("SELECT count(*) FROM sched.claim(max_claims => 9)", "0");
        check("SELECT outcome FROM sched.try_claim('job of s/drop', (SELECT max(plan_time) FROM sched.execution), 'schedule', 's/drop')", "conflicted");
        dispatch(0);
        check(&format!("SELECT (SELECT count(*) FROM {TIMER} t), (SELECT count(*) FROM sched.schedules)"), "0|0");
        created("s/drop", "every 1 hour", "");
        check("SELECT sched.drop_schedule('s/drop')", "t");
        check("SELECT count(*) FROM sched.execution", "3");
    }
}
