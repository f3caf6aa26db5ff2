//! fire_now, backfill.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{armed, check, created, dispatch, refused, run, sql, state, time_passes};

    #[pg_test]
    fn fire_now_is_one_extra_run_and_leaves_the_timer_alone() {
        created("r/now", "every 1 hour", "payload => '{\"n\": 1}'");
        dispatch(0);
        time_passes("61 minutes");
        let before = sql("SELECT next_plan_time, next_fire_at FROM sched.schedules");
        let id = sql("SELECT sched.fire_now('r/now')");
        check(
            "SELECT id, origin, status, payload, schedule_name, scope_id, abs(extract(epoch FROM clock_timestamp() - plan_time)) < 60 FROM sched.execution",
            &format!("{id}|manual|PENDING|{{\"n\": 1}}|r/now|r/now|t"),
        );
        check("SELECT next_plan_time, next_fire_at FROM sched.schedules", &before);
        // The plan that was due still is.
        dispatch(1);
        for (change, shown) in [("enabled => false", "paused"), ("ownership => 'external'", "external")] {
            run(&[&format!("SELECT sched.alter_schedule('r/now', {change})"), "SELECT sched.fire_now('r/now')"]);
            assert_eq!(state("r/now"), shown);
        }
        check("SELECT count(*) FROM sched.claim(max_claims => 9)", "4");
        refused("SELECT sched.fire_now('r/none')", "42704");
        refused("SELECT sched.fire_now(NULL)", "22004");
    }

    /// Each is one more, however close they follow, and none takes the place of a plan time of the clock.
    #[pg_test]
    fn fire_now_draws_a_plan_time_that_is_nobodys() {
        created("r/dense", "every 2 microseconds from epoch", "");
        check("SELECT count(DISTINCT sched.fire_now('r/dense')) FROM generate_series(1, 50)", "50");
        check(
            "SELECT count(*), bool_and(extract(microseconds FROM plan_time)::bigint % 2 = 1) FROM sched.execution",
            "50|t",
        );
        // Where every time is one, so is this.
        created("r/densest", "every 1 microsecond from epoch", "");
        check("SELECT count(DISTINCT sched.fire_now('r/densest')) FROM generate_series(1, 3)", "3");
        // A schedule whose clock cannot be read can be fired all the same.
        run(&["UPDATE sched.schedule SET clock = 'nonsense' WHERE schedule_name = 'r/dense'"]);
        check("SELECT sched.fire_now('r/dense') IS NOT NULL", "t");
    }

    #[pg_test]
    fn fire_now_neither_heeds_overlap_nor_arms_on_terminal() {
        created("r/wait", "every 1 hour", "rearm => 'on_terminal', overlap => 'skip'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        run(&["SELECT sched.fire_now('r/wait')"]);
        run(&["SELECT sched.finish_success(c.execution_id, c.lease_token) FROM sched.execution e, sched.try_claim(e.job_name, e.plan_time, e.scope_kind, e.scope_id) c
                WHERE e.origin = 'manual'"]);
        dispatch(0);
        assert_eq!(state("r/wait"), "waiting");
        run(&["SELECT sched.finish_success(execution_id, lease_token) FROM sched.claim()"]);
        dispatch(0);
        assert_eq!(armed("r/wait"), "t");
    }

    #[pg_test]
    fn backfill_adds_what_the_ledger_lacks() {
        created("r/back", "0 0 * * *", "overlap => 'skip'");
        let backfill = |from: &str, to: &str| format!("SELECT sched.backfill('r/back', '{from}', '{to}')");
        check(&backfill("2026-01-01 00:00+00", "2026-01-05 00:00+00"), "4");
        check(&backfill("2026-01-01 00:00+00", "2026-01-05 00:00+00"), "0");
        check(&backfill("2026-01-04 00:00:00.000001+00", "2026-01-06 00:00:00.000001+00"), "2");
        check(
            "SELECT origin, status, string_agg(extract(day FROM plan_time)::text, ' ' ORDER BY plan_time) FROM sched.execution GROUP BY 1, 2",
            "backfill|PENDING|1 2 3 4 5 6",
        );
        run(&["SELECT sched.pause('r/back')"]);
        check(&backfill("2026-02-01 00:00+00", "2026-02-03 00:00+00"), "2");
        for (arguments, sqlstate) in [
            ("'r/back', '2026-01-02', '2026-01-02'", "22023"),
            ("'r/back', '2026-01-02', '2026-01-01'", "22023"),
            ("'r/none', '2026-01-01', '2026-01-02'", "42704"),
            ("NULL, '2026-01-01', '2026-01-02'", "22004"),
            ("'r/back', NULL, '2026-01-02'", "22004"),
            ("'r/back', '2026-01-01', NULL", "22004"),
            ("'r/back', '-infinity', '2026-01-02'", "22008"),
            ("'r/back', '2026-01-01', 'infinity'", "22008"),
            ("'r/back', '1700-01-01', '2026-01-01'", "54000"),
            // It is for the past: what is to come would be claimable at once.
            ("'r/back', '2026-01-01', clock_timestamp() + interval '1 minute'", "22023"),
            ("'r/back', clock_timestamp() + interval '1 day', clock_timestamp() + interval '2 days'", "22023"),
        ] {
            refused(&format!("SELECT sched.backfill({arguments})"), sqlstate);
        }
        // Until this very moment, which is none of its plan times.
        run(&["SELECT sched.backfill('r/back', clock_timestamp() - interval '1 microsecond', clock_timestamp())"]);
    }
}
