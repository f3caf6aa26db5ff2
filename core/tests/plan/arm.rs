//! An edit or the end of a run → progress; next.

use crate::support::arms;

#[test]
fn creating_never_fires() {
    arms("baseline=20", "", None, false, 20, "; armed 30");
    arms("baseline=25", "", None, false, 25, "; armed 30");
    // However late a dispatcher sees it: the baseline counts, not the time of arming.
    arms("baseline=25", "", None, false, 95, "; armed 30");
    for policy in ["every_plan", "skip_missed", "on_terminal", "skip", "buffer_one"] {
        arms(&format!("{policy} baseline=20"), "", None, false, 20, "; armed 30");
    }
}

#[test]
fn what_is_decided_is_never_offered_again() {
    arms("", "cursor=40", None, false, 45, "cursor=40; armed 50");
    arms("", "cursor=40", None, false, 15, "cursor=40; armed 50");
    arms("baseline=70", "cursor=40", None, false, 75, "cursor=40; armed 80");
    // An edit of another kind keeps the armed plan, due or not.
    arms("", "cursor=40", None, false, 95, "cursor=40; armed 50");
}

#[test]
fn the_window_of_the_schedule() {
    arms("starts=40", "", None, false, 5, "; armed 40");
    arms("starts=41", "", None, false, 5, "; armed 50");
    arms("starts=40 baseline=60", "", None, false, 65, "; armed 70");
    arms("ends=10", "", None, false, 5, "; done");
    arms("ends=11", "", None, false, 5, "; armed 10");
    arms("starts=41 ends=50", "", None, false, 5, "; done");
    arms("ends=30", "cursor=20", None, false, 25, "cursor=20; done");
}

#[test]
fn delay_and_jitter_stay_before_the_next_plan() {
    arms("delay=3", "", None, false, 5, "; armed 10 at 13");
    arms("delay=30", "", None, false, 5, "; armed 10 at 20");
    arms("delay=3 ends=15", "", None, false, 5, "; armed 10 at 13");
    // ends_at takes no part in it: the plan that follows does, even if it never fires.
    arms("delay=30 ends=15", "", None, false, 5, "; armed 10 at 20");
}

#[test]
fn on_terminal_goes_on_after_the_end() {
    arms("on_terminal", "cursor=10", None, true, 15, "cursor=10; waiting");
    arms("on_terminal", "cursor=10", Some(34), false, 34, "cursor=34; armed 40");
    arms("on_terminal", "cursor=10", Some(40), false, 41, "cursor=40; armed 50");
    // Seen late: the next plan after the end is due by now, and catch_up decides.
    arms("on_terminal", "cursor=10", Some(34), false, 95, "cursor=34; armed 40");
    // One of two runs has ended.
    arms("on_terminal", "cursor=10", Some(34), true, 95, "cursor=10; waiting");
    arms("on_terminal ends=40", "cursor=10", Some(34), false, 34, "cursor=34; done");
    // Ended before the baseline of a later edit, or before the cursor (a run of an earlier plan).
    arms("on_terminal baseline=50", "cursor=10", Some(34), false, 55, "cursor=34; armed 60");
    arms("on_terminal", "cursor=40", Some(34), false, 41, "cursor=40; armed 50");
}

#[test]
fn on_terminal_with_a_backlog() {
    arms("on_terminal every_plan", "cursor=10 backlog=40", Some(95), false, 95, "cursor=10 backlog=40; armed 20");
    arms("on_terminal every_plan", "cursor=30 backlog=40", Some(95), false, 95, "cursor=30 backlog=40; armed 40");
    arms("on_terminal every_plan", "cursor=40 backlog=40", Some(95), false, 95, "cursor=95 backlog=40; armed 100");
    // The rest of the backlog is too old: on after the end, as if there were none.
    arms(
        "on_terminal every_plan window=25",
        "cursor=80 backlog=100",
        Some(134),
        false,
        134,
        "cursor=134 backlog=100; armed 140",
    );
    arms(
        "on_terminal every_plan window=34",
        "cursor=80 backlog=100",
        Some(134),
        false,
        134,
        "cursor=80 backlog=100; armed 90",
    );
}

#[test]
fn on_dispatch_takes_no_notice_of_ends() {
    arms("", "cursor=10", Some(34), false, 34, "cursor=10; armed 20");
    arms("skip", "cursor=10", Some(34), true, 34, "cursor=10; armed 20");
}

#[test]
fn a_buffered_plan_runs_when_the_run_has_ended() {
    arms("buffer_one", "cursor=30 buffered=20", None, true, 34, "cursor=30 buffered=20; waiting");
    arms("buffer_one", "cursor=30 buffered=20", Some(34), false, 34, "cursor=30 buffered=20; armed 20 at 34");
    arms("buffer_one ends=25", "cursor=20 buffered=20", Some(34), false, 34, "cursor=20 buffered=20; armed 20 at 34");
    // A new baseline drops it. Another policy applies to it as to any plan: it runs at once, or is skipped beside a run.
    arms("buffer_one baseline=20", "cursor=30 buffered=20", None, false, 34, "cursor=30; armed 40");
    arms("", "cursor=30 buffered=20", None, true, 34, "cursor=30 buffered=20; armed 20 at 34");
    arms("skip", "cursor=30 buffered=20", None, false, 34, "cursor=30 buffered=20; armed 20 at 34");
    arms("skip", "cursor=30 buffered=20", None, true, 34, "cursor=30; armed 40");
}
