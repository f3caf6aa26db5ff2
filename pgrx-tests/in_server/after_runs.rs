//! Clocks that count from the last run of their schedule: `every … after start`, `every … after end`.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, claim_one, created, dispatch, quote, refused, run, sql, state, time_passes};

    /// In how many minutes the schedule's next plan time is.
    fn next_in(name: &str) -> String {
        sql(&format!(
            "SELECT round(extract(epoch FROM next_plan_time - clock_timestamp()) / 60)::integer FROM sched.schedules WHERE schedule_name = {}",
            quote(name)
        ))
    }

    fn finish(lease: &(String, String)) {
        sql(&format!("SELECT sched.finish_success('{}', '{}')", lease.0, lease.1));
    }

    #[pg_test]
    fn after_start_counts_from_the_dispatch() {
        created("a/s", "every 10 minutes after start", "");
        dispatch(0);
        assert_eq!(next_in("a/s"), "10");
        time_passes("5 minutes");
        dispatch(0);
        assert_eq!(next_in("a/s"), "5");
        // Late by an hour: one run, and the next counts from it.
        time_passes("65 minutes");
        dispatch(1);
        assert_eq!(next_in("a/s"), "10");
        // Another edit moves nothing, an edit of the clock begins anew.
        time_passes("3 minutes");
        run(&["SELECT sched.alter_schedule('a/s', payload => '{\"x\": 1}')"]);
        dispatch(0);
        assert_eq!(next_in("a/s"), "7");
        run(&["SELECT sched.alter_schedule('a/s', clock => 'every 20 minutes after start')"]);
        dispatch(0);
        assert_eq!(next_in("a/s"), "20");
        check("SELECT count(*) FROM sched.skipped", "0");
        check("SELECT string_agg(verdict, ' ' ORDER BY plan_time) FROM sched.explain('a/s', now() - interval '1 day', now() + interval '1 day')", "fired planned");
    }

    #[pg_test]
    fn after_end_waits_for_the_end() {
        created("a/e", "every 10 minutes after end", "");
        check("SELECT rearm FROM sched.schedule WHERE schedule_name = 'a/e'", "on_terminal");
        dispatch(0);
        time_passes("11 minutes");
        dispatch(1);
        assert_eq!(state("a/e"), "waiting");
        time_passes("3 hours");
        dispatch(0);
        finish(&claim_one("default"));
        dispatch(0);
        assert_eq!(next_in("a/e"), "10");
        check("SELECT count(*) FROM sched.skipped", "0");
        // Nobody heard of the end for a while: it counts from when that was.
        time_passes("10 minutes");
        dispatch(1);
        finish(&claim_one("default"));
        time_passes("4 minutes");
        dispatch(0);
        assert_eq!(next_in("a/e"), "6");
    }

    #[pg_test]
    fn a_timer_is_made_anew_from_the_ledger() {
        created("a/r", "every 10 minutes after end", "");
        created("a/q", "every 10 minutes after start", "");
        dispatch(0);
        time_passes("14 minutes");
        dispatch(2);
        time_passes("2 minutes");
        for lease in [claim_one("default"), claim_one("default")] {
            finish(&lease);
        }
        dispatch(0);
        time_passes("3 minutes");
        let armed = || (next_in("a/r"), next_in("a/q"));
        assert_eq!(armed(), ("7".to_owned(), "5".to_owned()));
        check("SELECT sched.rebuild()", "2");
        assert_eq!(armed(), ("7".to_owned(), "5".to_owned()));
        // Also where the end is not known yet.
        time_passes("8 minutes");
        dispatch(2);
        for lease in [claim_one("default"), claim_one("default")] {
            finish(&lease);
        }
        check("SELECT sched.rebuild()", "2");
        assert_eq!(armed(), ("10".to_owned(), "10".to_owned()));
    }

    #[pg_test]
    fn pause_resume_and_hand_over_begin_anew() {
        created("a/p", "every 10 minutes after start", "");
        dispatch(0);
        time_passes("9 minutes");
        run(&["SELECT sched.pause('a/p')"]);
        dispatch(0);
        time_passes("1 hour");
        dispatch(0);
        check("SELECT count(*) FROM sched.skipped", "0");
        run(&["SELECT sched.resume('a/p')"]);
        dispatch(0);
        assert_eq!(next_in("a/p"), "10");
        run(&["SELECT sched.alter_schedule('a/p', ownership => 'external')"]);
        dispatch(0);
        time_passes("1 hour");
        dispatch(0);
        run(&["SELECT sched.alter_schedule('a/p', ownership => 'owned')"]);
        dispatch(0);
        assert_eq!(next_in("a/p"), "10");
        time_passes("11 minutes");
        dispatch(1);
    }

    #[pg_test]
    fn what_comes_while_a_run_goes_on() {
        created("a/skip", "every 10 minutes after start", "overlap => 'skip'");
        created("a/buffer", "every 10 minutes after start", "overlap => 'buffer_one'");
        dispatch(0);
        time_passes("10 minutes");
        dispatch(2);
        time_passes("11 minutes");
        dispatch(0);
        // What is skipped counts as a run.
        assert_eq!(next_in("a/skip"), "10");
        check("SELECT schedule_name, count, reason FROM sched.skipped", "a/skip|1|overlap");
        assert_eq!(state("a/buffer"), "waiting");
        time_passes("5 minutes");
        for lease in [claim_one("default"), claim_one("default")] {
            finish(&lease);
        }
        // The buffered one runs as soon as the earlier has ended.
        dispatch(1);
        assert_eq!((next_in("a/skip"), next_in("a/buffer")), ("5".to_owned(), "10".to_owned()));
        for (name, verdicts) in [("a/skip", "fired skipped planned"), ("a/buffer", "fired fired planned")] {
            check(
                &format!("SELECT string_agg(verdict, ' ' ORDER BY plan_time) FROM sched.explain('{name}', now() - interval '1 day', now() + interval '1 day')"),
                verdicts,
            );
        }
    }

    #[pg_test]
    fn a_late_plan_may_be_passed_over() {
        created("a/late", "every 10 minutes after start", "catch_up => 'skip_missed'");
        created("a/old", "every 10 minutes after start", "catch_up => 'every_plan', catch_up_window => '20 minutes'");
        dispatch(0);
        time_passes("3 days");
        dispatch(0);
        assert_eq!((next_in("a/late"), next_in("a/old")), ("10".to_owned(), "10".to_owned()));
        check("SELECT schedule_name, count, reason FROM sched.skipped ORDER BY 1", "a/late|1|missed\na/old|1|window");
    }

    #[pg_test]
    fn nobody_can_say_what_would_have_run() {
        created("a/past", "every 10 minutes after end", "");
        let refusal = refused("SELECT sched.backfill('a/past', now() - interval '1 hour', now())", "22023");
        assert!(refusal.message.contains("\"every 10 minutes after end\""), "{}", refusal.message);
        refused("SELECT sched.due_plans('job of a/past', 'every 10 minutes after start')", "22023");
        // A run beside the clock moves nothing.
        dispatch(0);
        time_passes("5 minutes");
        run(&["SELECT sched.fire_now('a/past')"]);
        dispatch(0);
        assert_eq!(next_in("a/past"), "5");
    }

    #[pg_test]
    fn the_edit_of_a_clock_says_what_its_schedule_waits_for() {
        created("a/edit", "every 10 minutes", "");
        run(&["SELECT sched.alter_schedule('a/edit', clock => 'every 10 minutes after end')"]);
        check("SELECT rearm FROM sched.schedule WHERE schedule_name = 'a/edit'", "on_terminal");
        run(&["SELECT sched.alter_schedule('a/edit', rearm => 'on_dispatch')"]);
        check("SELECT rearm FROM sched.schedule WHERE schedule_name = 'a/edit'", "on_terminal");
        run(&["SELECT sched.alter_schedule('a/edit', clock => 'every 10 minutes', rearm => 'on_dispatch')"]);
        check("SELECT rearm FROM sched.schedule WHERE schedule_name = 'a/edit'", "on_dispatch");
        run(&["SELECT sched.create_schedules('[{\"schedule_name\": \"a/bulk\", \"clock\": \"every 1 day after end\", \"job_name\": \"job of a/edit\"}]')"]);
        check("SELECT rearm FROM sched.schedule WHERE schedule_name = 'a/bulk'", "on_terminal");
    }

    #[pg_test]
    fn a_window_is_kept() {
        created("a/w", "every 10 minutes after start", "starts_at => clock_timestamp() + interval '1 hour'");
        created("a/x", "every 10 minutes after start", "ends_at => clock_timestamp() + interval '5 minutes'");
        dispatch(0);
        assert_eq!(next_in("a/w"), "70");
        assert_eq!(state("a/x"), "done");
    }
}
