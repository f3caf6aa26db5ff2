//! What is passed over, and why.

use scheduler_core::schedule::{plan, ArmEvent, Progress};

use crate::support::{read_policy, read_progress, show_skips, t, Grid};

/// What the timer armed for `armed` passes over at `now`.
#[track_caller]
fn skips(policy: &str, progress: &str, armed: i64, busy: bool, now: i64, expected: &str) {
    let fired = plan::fire(&read_policy(policy), &Grid(10), read_progress(progress), t(armed), busy, t(now));
    assert_eq!(show_skips(&fired.skipped), expected, "{policy}: armed for {armed}, now {now}");
}

/// What arming passes over at `now`.
#[track_caller]
fn arming_skips(policy: &str, progress: &str, news: ArmEvent, now: i64, expected: &str) {
    let armed = plan::arm(&read_policy(policy), &Grid(10), read_progress(progress), news, t(now));
    assert_eq!(show_skips(&armed.skipped), expected, "{policy}: now {now}");
}

#[test]
fn on_time_nothing_is_passed_over() {
    for catch_up in ["latest_only", "every_plan", "skip_missed", "on_terminal", "skip every_plan", "buffer_one"] {
        skips(catch_up, "", 10, false, 10, "");
    }
}

#[test]
fn what_catch_up_passes_over() {
    skips("latest_only", "", 10, false, 45, "10-30 (3) missed");
    skips("every_plan", "", 10, false, 45, "");
    skips("every_plan max=2", "", 10, false, 45, "");
    skips("skip_missed", "", 10, false, 45, "10-30 (3) missed");
    skips("skip_missed", "", 10, false, 46, "10-40 (4) missed");
    skips("latest_only window=15", "", 10, false, 45, "10-20 (2) window, 30 missed");
    skips("latest_only window=4", "", 10, false, 45, "10-40 (4) window");
    skips("latest_only delay=3 window=17", "", 10, false, 48, "10-20 (2) window, 30 missed");
    skips("latest_only delay=3 window=15", "", 10, false, 49, "10-30 (3) window");
    skips("every_plan window=15", "", 10, false, 45, "10-20 (2) window");
    skips("skip_missed window=15", "", 10, false, 48, "10-30 (3) window, 40 missed");
    skips("latest_only ends=30", "", 10, false, 95, "10 missed");
}

#[test]
fn what_a_run_that_goes_on_keeps_from_running() {
    skips("skip", "", 10, true, 45, "10-40 (4) overlap");
    skips("skip window=15", "", 10, true, 45, "10-40 (4) overlap");
    skips("buffer_one", "", 10, true, 45, "20-40 (3) overlap");
    skips("buffer_one window=15", "", 10, true, 45, "10-20 (2) window, 40 overlap");
    skips("buffer_one window=4", "", 10, true, 45, "10-40 (4) window");
    skips("buffer_one", "cursor=10 buffered=10", 10, false, 45, "20-40 (3) overlap");
    skips("skip every_plan", "", 10, false, 45, "20-40 (3) overlap");
    skips("buffer_one every_plan window=25", "", 10, false, 45, "10 window, 40 overlap");
    skips("on_terminal", "", 10, true, 45, "");
}

#[test]
fn what_the_end_of_a_run_passes_over() {
    let ended = |at| ArmEvent { terminal_at: Some(t(at)), ..ArmEvent::default() };
    arming_skips("on_terminal", "cursor=10", ended(45), 45, "20-40 (3) overlap");
    arming_skips("on_terminal", "cursor=10", ended(19), 19, "");
    arming_skips("on_terminal ends=30", "cursor=10", ended(45), 45, "20 overlap");
    arming_skips("on_terminal every_plan", "cursor=10 backlog=30", ended(45), 45, "");
    arming_skips(
        "on_terminal every_plan window=5",
        "cursor=10 backlog=30",
        ended(45),
        45,
        "20-30 (2) window, 40 overlap",
    );
    let busy = ArmEvent { busy: true, ..ArmEvent::default() };
    arming_skips("skip", "cursor=30 buffered=20", busy, 35, "20 overlap");
}

#[test]
fn what_passed_while_parked() {
    let unparked = ArmEvent { unparked: true, ..ArmEvent::default() };
    arming_skips("latest_only", "cursor=10", unparked, 45, "20-30 (2) parked");
    arming_skips("every_plan", "cursor=10", unparked, 45, "");
    arming_skips("every_plan window=15", "cursor=10", unparked, 45, "20 parked");
    arming_skips("skip_missed", "cursor=10", unparked, 48, "20-40 (3) parked");
    arming_skips("skip", "cursor=10", ArmEvent { busy: true, ..unparked }, 45, "");
}

#[test]
fn a_run_of_skips_knows_the_plan_before_it() {
    let fired = plan::fire(&read_policy("skip"), &Grid(10), Progress::default(), t(30), true, t(30));
    assert_eq!(fired.skipped[0].previous, Some(t(20)));
}
