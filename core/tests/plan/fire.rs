//! One due timer → runs; progress; next.

use crate::support::{fires, fires_busy};

#[test]
fn on_time_one_plan_runs_and_the_next_is_armed() {
    for catch_up in ["latest_only", "every_plan", "skip_missed"] {
        fires(catch_up, "", 10, 10, "10; cursor=10; armed 20");
        fires(catch_up, "cursor=10", 20, 24, "20; cursor=20; armed 30");
        // The last microsecond before the next plan is still on time; the plan itself is not.
        fires(
            catch_up,
            "",
            10,
            19,
            if catch_up == "skip_missed" { "nothing; cursor=10; armed 20" } else { "10; cursor=10; armed 20" },
        );
    }
}

#[test]
fn missed_plans() {
    fires("latest_only", "", 10, 45, "40; cursor=40; armed 50");
    fires("every_plan", "", 10, 45, "10 20 30 40; cursor=40; armed 50");
    fires("skip_missed", "", 10, 45, "40; cursor=40; armed 50");
    fires("skip_missed", "", 10, 46, "nothing; cursor=40; armed 50");
    fires("skip_missed grace=0", "", 10, 40, "40; cursor=40; armed 50");
    fires("skip_missed grace=0", "", 10, 41, "nothing; cursor=40; armed 50");
    // Due at this very instant counts as due.
    fires("latest_only", "", 10, 40, "40; cursor=40; armed 50");
    fires("every_plan", "", 10, 40, "10 20 30 40; cursor=40; armed 50");
}

#[test]
fn plans_older_than_the_window_do_not_run() {
    fires("latest_only window=5", "", 10, 45, "40; cursor=40; armed 50");
    fires("latest_only window=4", "", 10, 45, "nothing; cursor=40; armed 50");
    fires("every_plan window=25", "", 10, 45, "20 30 40; cursor=40; armed 50");
    fires("every_plan window=24", "", 10, 45, "30 40; cursor=40; armed 50");
    fires("every_plan window=4", "", 10, 45, "nothing; cursor=40; armed 50");
    fires("skip_missed window=2 grace=9", "", 10, 45, "nothing; cursor=40; armed 50");
    fires("skip_missed window=5 grace=9", "", 10, 45, "40; cursor=40; armed 50");
}

#[test]
fn a_tick_runs_no_more_than_it_may() {
    fires("every_plan max=2", "", 10, 45, "10 20; cursor=20; armed 30");
    fires("every_plan max=2", "cursor=20", 30, 45, "30 40; cursor=40; armed 50");
    fires("every_plan max=2 window=25", "", 10, 45, "20 30; cursor=30; armed 40");
    fires("every_plan max=4", "", 10, 45, "10 20 30 40; cursor=40; armed 50");
    // The others run one anyway.
    fires("latest_only max=1", "", 10, 45, "40; cursor=40; armed 50");
}

#[test]
fn nothing_at_or_after_ends_at() {
    fires("ends=50", "", 40, 40, "40; cursor=40; done");
    fires("ends=51", "", 40, 40, "40; cursor=40; armed 50");
    fires("latest_only ends=30", "", 10, 95, "20; cursor=20; done");
    fires("every_plan ends=30", "", 10, 95, "10 20; cursor=20; done");
    fires("every_plan ends=30 max=1", "", 10, 95, "10; cursor=10; armed 20");
    fires("skip_missed ends=30 grace=90", "", 10, 95, "20; cursor=20; done");
}

#[test]
fn delay_moves_the_fire_and_never_past_the_next_plan() {
    fires("delay=3", "", 10, 13, "10; cursor=10; armed 20 at 23");
    fires("delay=25", "", 10, 20, "10; cursor=10; armed 20 at 30");
    // 40 has come, but its delay has not passed.
    fires("latest_only delay=3", "", 10, 42, "30; cursor=30; armed 40 at 43");
    fires("latest_only delay=3", "", 10, 43, "40; cursor=40; armed 50 at 53");
    fires("every_plan delay=3", "", 10, 42, "10 20 30; cursor=30; armed 40 at 43");
    // The grace counts from plan + delay.
    fires("skip_missed delay=3", "", 10, 18, "10; cursor=10; armed 20 at 23");
    fires("skip_missed delay=3", "", 10, 19, "nothing; cursor=10; armed 20 at 23");
    // So does the window, and of a plan whose delay goes past the next one from there.
    fires("latest_only delay=3 window=2", "", 10, 15, "10; cursor=10; armed 20 at 23");
    fires("latest_only delay=3 window=2", "", 10, 16, "nothing; cursor=10; armed 20 at 23");
    fires("every_plan delay=3 window=12", "", 10, 44, "30 40; cursor=40; armed 50 at 53");
    fires("every_plan delay=3 window=12", "", 10, 46, "40; cursor=40; armed 50 at 53");
    fires("latest_only delay=25 window=2", "", 10, 22, "10; cursor=10; armed 20 at 30");
    fires("latest_only delay=25 window=2", "", 10, 23, "nothing; cursor=10; armed 20 at 30");
}

#[test]
fn overlap_skip() {
    fires_busy("skip", "", 10, 10, "nothing; cursor=10; armed 20");
    fires_busy("skip every_plan", "", 10, 45, "nothing; cursor=40; armed 50");
    fires_busy("skip every_plan max=1", "", 10, 45, "nothing; cursor=40; armed 50");
    fires("skip", "", 10, 45, "40; cursor=40; armed 50");
    // Of several missed plans the first runs; the others came while it had not ended.
    fires("skip every_plan", "", 10, 45, "10; cursor=40; armed 50");
    fires("skip every_plan window=25", "", 10, 45, "20; cursor=40; armed 50");
    fires("skip skip_missed", "", 10, 46, "nothing; cursor=40; armed 50");
}

#[test]
fn overlap_buffer_one() {
    fires_busy("buffer_one", "", 10, 10, "nothing; cursor=10 buffered=10; waiting");
    fires_busy("buffer_one", "", 10, 45, "nothing; cursor=40 buffered=10; waiting");
    fires_busy("buffer_one every_plan", "cursor=10", 20, 45, "nothing; cursor=40 buffered=20; waiting");
    // Not busy any more: the buffered one runs, whatever its age, and what came meanwhile does not.
    fires("buffer_one", "cursor=10 buffered=10", 10, 45, "10; cursor=40; armed 50");
    fires("buffer_one every_plan", "cursor=10 buffered=10", 10, 45, "10; cursor=40; armed 50");
    fires("buffer_one skip_missed", "cursor=10 buffered=10", 10, 45, "10; cursor=40; armed 50");
    fires("buffer_one ends=20", "cursor=10 buffered=10", 10, 45, "10; cursor=10; done");
    // Busy again before it could run.
    fires_busy("buffer_one", "cursor=10 buffered=10", 10, 45, "nothing; cursor=10 buffered=10; waiting");
    // Of several missed plans the first runs and the second waits for it.
    fires("buffer_one every_plan", "", 10, 45, "10; cursor=40 buffered=20; waiting");
    fires("buffer_one every_plan", "", 40, 45, "40; cursor=40; armed 50");
    fires("buffer_one latest_only", "", 10, 45, "40; cursor=40; armed 50");
}

#[test]
fn what_is_too_old_is_not_buffered() {
    fires_busy("buffer_one window=25", "", 10, 45, "nothing; cursor=40 buffered=20; waiting");
    fires_busy("buffer_one window=4", "", 10, 45, "nothing; cursor=40; armed 50");
}

#[test]
fn overlap_allow_runs_beside() {
    fires_busy("", "", 10, 45, "40; cursor=40; armed 50");
    fires_busy("every_plan", "", 10, 45, "10 20 30 40; cursor=40; armed 50");
    // A plan that was buffered before the policy became allow.
    fires_busy("", "cursor=10 buffered=10", 10, 15, "10; cursor=10; armed 20");
}

#[test]
fn on_terminal_waits_for_what_it_ran() {
    fires("on_terminal", "", 10, 45, "40; cursor=40; waiting");
    fires("on_terminal skip_missed", "", 10, 45, "40; cursor=40; waiting");
    // Nothing ran, so there is nothing to wait for.
    fires("on_terminal skip_missed", "", 10, 46, "nothing; cursor=40; armed 50");
    fires("on_terminal window=4", "", 10, 45, "nothing; cursor=40; armed 50");
    fires("on_terminal ends=50", "", 40, 45, "40; cursor=40; waiting");
    for overlap in ["", "skip", "buffer_one"] {
        fires_busy(&format!("on_terminal {overlap}"), "cursor=5", 10, 45, "nothing; cursor=5; waiting");
    }
}

#[test]
fn on_terminal_runs_a_backlog_one_at_a_time() {
    fires("on_terminal every_plan", "", 10, 45, "10; cursor=10 backlog=40; waiting");
    fires("on_terminal every_plan", "cursor=10 backlog=40", 20, 75, "20; cursor=20 backlog=40; waiting");
    fires("on_terminal every_plan", "cursor=40 backlog=40", 80, 80, "80; cursor=80 backlog=80; waiting");
    fires("on_terminal every_plan window=25", "", 10, 45, "20; cursor=20 backlog=40; waiting");
    fires("on_terminal every_plan window=4", "", 10, 45, "nothing; cursor=40 backlog=40; armed 50");
    // What came while the backlog ran is not part of it: not even when the rest of the backlog is too old by now.
    fires(
        "on_terminal every_plan window=25",
        "cursor=80 backlog=100",
        90,
        134,
        "nothing; cursor=130 backlog=100; armed 140",
    );
    fires("on_terminal every_plan window=34", "cursor=80 backlog=100", 90, 134, "100; cursor=100 backlog=100; waiting");
}

#[test]
fn a_clock_that_ends() {
    use crate::support::{policy, read_policy, show, t, List};
    use scheduler_core::schedule::plan::{fire, Progress};
    let list = List(vec![10, 20, 35]);
    let fired = |policy: &str, now| show(&fire(&read_policy(policy), &list, Progress::default(), t(10), false, t(now)));
    assert_eq!(fired("", 34), "20; cursor=20; armed 35");
    assert_eq!(fired("", 1000), "35; cursor=35; done");
    assert_eq!(fired("every_plan", 1000), "10 20 35; cursor=35; done");
    assert_eq!(fired("delay=100", 19), "10; cursor=10; armed 20 at 35", "called early: armed decides");
    assert_eq!(fired("delay=100", 134), "20; cursor=20; armed 35 at 135", "the last one has no follower");
    assert_eq!(policy().baseline, t(0));
}
