//! Schedules that wait for their runs: rearm on_terminal, overlap skip and buffer_one.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::tables::*;
    use crate::test_support::{armed, check, claim_one, created, dispatch, run, sql, state, time_passes};

    fn finish(lease: &(String, String)) {
        sql(&format!("SELECT sched.finish_success('{}', '{}')", lease.0, lease.1));
    }

    fn fail(lease: &(String, String), more: &str) {
        sql(&format!("SELECT sched.finish_failure('{}', '{}'{more})", lease.0, lease.1));
    }

    #[pg_test]
    fn on_terminal_life() {
        run(&["SELECT sched.define_job('job of o/t', max_attempts => 2, retry_backoff => '{}')"]);
        created("o/t", "every 1 hour", "rearm => 'on_terminal', catch_up => 'latest_only'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        check("SELECT state, next_plan_time, next_fire_at FROM sched.schedules", "waiting||");
        // However long it takes, and whatever else is edited.
        time_passes("5 hours");
        dispatch(0);
        run(&["SELECT sched.alter_schedule('o/t', payload => '{\"x\": 1}')"]);
        dispatch(0);
        assert_eq!(state("o/t"), "waiting");
        let lease = claim_one("default");
        dispatch(0);
        // A failure that is retried is no end.
        fail(&lease, "");
        dispatch(0);
        assert_eq!(state("o/t"), "waiting");
        let lease = claim_one("default");
        finish(&lease);
        assert_eq!(state("o/t"), "waiting");
        dispatch(0);
        assert_eq!(armed("o/t"), "t");
        time_passes("1 hour");
        dispatch(1);
        let lease = claim_one("default");
        fail(&lease, ", terminal => true");
        dispatch(0);
        assert_eq!(armed("o/t"), "t");
        check("SELECT count(*) FROM sched.awaited", "0");
    }

    #[pg_test]
    fn on_terminal_ends_with_a_cancel_too() {
        created("o/c", "every 1 hour", "rearm => 'on_terminal'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        // A schedule of the same name goes on, whatever became of the old one's runs.
        run(&["SELECT sched.drop_schedule('o/c', cancel_pending => true)"]);
        created("o/c", "every 1 hour", "rearm => 'on_terminal'");
        dispatch(0);
        assert_eq!(armed("o/c"), "t");
    }

    #[pg_test]
    fn every_plan_on_terminal_runs_one_at_a_time() {
        created("o/backlog", "every 1 hour", "rearm => 'on_terminal', catch_up => 'every_plan'");
        dispatch(0);
        time_passes("210 minutes");
        for _ in 0..3 {
            dispatch(1);
            dispatch(0);
            finish(&claim_one("default"));
        }
        dispatch(0);
        assert_eq!(armed("o/backlog"), "t");
        check(
            "SELECT string_agg(round(extract(epoch FROM clock_timestamp() - plan_time) / 60)::text, ' ' ORDER BY plan_time) FROM sched.execution",
            "150 90 30",
        );
    }

    #[pg_test]
    fn overlap_skip() {
        created("o/skip", "every 1 hour", "overlap => 'skip'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        time_passes("1 hour");
        dispatch(0);
        assert_eq!(armed("o/skip"), "t");
        let lease = claim_one("default");
        time_passes("1 hour");
        dispatch(0);
        // Its lease is stale, but it still is the run of that execution.
        finish(&lease);
        time_passes("1 hour");
        dispatch(1);
        check("SELECT count(*) FROM sched.execution", "2");
    }

    #[pg_test]
    fn overlap_allow() {
        created("o/allow", "every 1 hour", "");
        dispatch(0);
        for _ in 0..3 {
            time_passes("61 minutes");
            dispatch(1);
        }
        check(
            "SELECT count(*), (SELECT count(*) FROM sched.awaited) FROM sched.execution WHERE status = 'PENDING'",
            "3|0",
        );
    }

    #[pg_test]
    fn overlap_buffer_one() {
        created("o/buffer", "every 1 hour", "overlap => 'buffer_one'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        assert_eq!(armed("o/buffer"), "t");
        time_passes("1 hour");
        dispatch(0);
        check("SELECT state, next_plan_time FROM sched.schedules", "waiting|");
        time_passes("2 hours");
        dispatch(0);
        finish(&claim_one("default"));
        dispatch(1);
        // The first that came meanwhile, not the latest.
        check("SELECT round(extract(epoch FROM clock_timestamp() - plan_time) / 60) FROM sched.execution WHERE status = 'PENDING'", "121");
        assert_eq!(armed("o/buffer"), "t");
        finish(&claim_one("default"));
        dispatch(0);
        time_passes("1 hour");
        dispatch(1);
    }

    #[pg_test]
    fn an_edit_to_a_policy_that_waits_sees_what_is_running() {
        created("o/later", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('o/later', overlap => 'skip')"]);
        time_passes("1 hour");
        dispatch(0);
        finish(&claim_one("default"));
        time_passes("1 hour");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('o/later', overlap => 'allow', rearm => 'on_terminal')"]);
        time_passes("1 hour");
        dispatch(0);
        assert_eq!(state("o/later"), "waiting");
    }

    #[pg_test]
    fn a_waiting_schedule_that_waits_no_more_goes_on() {
        created("o/edit", "every 1 hour", "rearm => 'on_terminal'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('o/edit', rearm => 'on_dispatch')"]);
        dispatch(0);
        assert_eq!(armed("o/edit"), "t");
        time_passes("1 hour");
        dispatch(1);
    }

    #[pg_test]
    fn a_schedule_that_waits_again_knows_of_what_it_did_not_wait_for() {
        run(&["SELECT sched.define_job('job of waits')"]);
        created("waits", "every 1 hour", "overlap => 'skip'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('waits', payload => '[1]')"]);
        dispatch(0);
        check(&format!("SELECT t.tracks_runs, (SELECT count(*) FROM sched.awaited) FROM {TIMER} t"), "t|1");
        run(&["SELECT sched.alter_schedule('waits', overlap => 'allow')"]);
        dispatch(0);
        check(&format!("SELECT tracks_runs FROM {TIMER} t"), "f");
        time_passes("61 minutes");
        dispatch(1);
        run(&["SELECT sched.alter_schedule('waits', overlap => 'skip')"]);
        dispatch(0);
        check(&format!("SELECT t.tracks_runs, (SELECT count(*) FROM sched.awaited) FROM {TIMER} t"), "t|2");
    }

    /// A superuser may put a schedule back as it was, with an older version than its timer has.
    #[pg_test]
    fn a_schedule_that_was_put_back_waits_for_its_run() {
        created("o/back", "every 1 hour", "rearm => 'on_terminal'");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        let lease = claim_one("default");
        run(&[
            "CREATE TEMP TABLE kept AS SELECT * FROM sched.schedule",
            "SELECT sched.alter_schedule('o/back', payload => '[1]')",
        ]);
        dispatch(0);
        let columns = sql("SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
                            WHERE attrelid = 'sched.schedule'::regclass AND attnum > 0 AND attgenerated = '' AND NOT attisdropped");
        run(&[
            "DELETE FROM sched.schedule",
            &format!("INSERT INTO sched.schedule ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM kept"),
        ]);
        dispatch(0);
        assert_eq!(state("o/back"), "waiting");
        finish(&lease);
        dispatch(0);
        assert_eq!(armed("o/back"), "t");
        check("SELECT count(*) FROM sched.awaited", "0");
    }

    #[pg_test]
    fn a_schedule_without_a_timer_knows_of_what_it_did_not_wait_for() {
        created("o/lost", "every 1 hour", "");
        dispatch(0);
        time_passes("61 minutes");
        dispatch(1);
        run(&[&format!("DELETE FROM {TIMER_TABLE}"), "SELECT sched.alter_schedule('o/lost', overlap => 'skip')"]);
        dispatch(0);
        check(&format!("SELECT t.tracks_runs, (SELECT count(*) FROM sched.awaited) FROM {TIMER} t"), "t|1");
        time_passes("1 hour");
        dispatch(0);
        finish(&claim_one("default"));
        time_passes("1 hour");
        dispatch(1);
    }
}
