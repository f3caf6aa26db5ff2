//! Clocks that count from the last run: rows by hand, and random lives against an oracle that keeps one number, when the
//! count began.

use scheduler_core::clock::zone::Utc;
use scheduler_core::clock::Clock;
use scheduler_core::schedule::{plan, ArmEvent, Next, Progress, SkipReason};
use scheduler_core::time::Instant;

use crate::support::{read_policy, show, show_next, show_skips, t};

fn fires(clock: &str, policy: &str, armed: i64, busy: bool, now: i64, expected: &str) {
    let clock = Clock::parse(clock).unwrap();
    let timeline = clock.bind(&Utc, Instant::UNIX_EPOCH);
    let fired = plan::fire(&read_policy(policy), &timeline, Progress::default(), t(armed), busy, t(now));
    let shown = format!("{}; {}", show(&fired), show_skips(&fired.skipped));
    assert_eq!(shown, expected, "{clock}, {policy}: armed for {armed}, now {now}");
}

const START: &str = "every 10 seconds after start";
const END: &str = "every 10 seconds after end";

#[test]
fn a_run_begins_when_it_is_dispatched() {
    fires(START, "", 10, false, 10, "10; cursor=10; armed 20; ");
    fires(START, "", 10, false, 13, "10; cursor=13; armed 23; ");
    // However long nothing ran, one plan was due: the next would have counted from it.
    fires(START, "", 10, false, 1_000_003, "10; cursor=1000003; armed 1000013; ");
    fires(START, "every_plan", 10, false, 1_000_003, "10; cursor=1000003; armed 1000013; ");
    fires(START, "every_plan", 10, true, 14, "10; cursor=14; armed 24; ");
    fires(START, "delay=3", 10, false, 14, "10; cursor=14; armed 24 at 27; ");
    fires(START, "ends=20", 10, false, 11, "10; cursor=11; done; ");
}

#[test]
fn what_is_passed_over_counts_as_a_run() {
    fires(START, "skip_missed grace=5", 10, false, 16, "nothing; cursor=16; armed 26; 10 missed");
    fires(START, "window=30", 10, false, 50, "nothing; cursor=50; armed 60; 10 window");
    fires(START, "every_plan window=30", 10, false, 50, "nothing; cursor=50; armed 60; 10 window");
    fires(START, "skip", 10, true, 12, "nothing; cursor=12; armed 22; 10 overlap");
    fires(START, "buffer_one", 10, true, 12, "nothing; cursor=10 buffered=10; waiting; ");
}

#[test]
fn the_end_of_a_run_is_waited_for() {
    fires(END, "on_terminal", 10, false, 12, "10; cursor=12; waiting; ");
    fires(END, "on_terminal", 10, true, 12, "nothing; ; waiting; ");
    fires(START, "on_terminal", 10, false, 12, "10; cursor=12; waiting; ");
    for (clock, ended, now, expected) in
        [(END, 40, 41, "armed 50"), (END, 12, 12, "armed 22"), (START, 40, 41, "armed 22"), (START, 13, 13, "armed 22")]
    {
        let clock = Clock::parse(clock).unwrap();
        let timeline = clock.bind(&Utc, Instant::UNIX_EPOCH);
        let progress = Progress { cursor: Some(t(12)), ..Progress::default() };
        let event = ArmEvent { terminal_at: Some(t(ended)), ..ArmEvent::default() };
        let armed = plan::arm(&read_policy("on_terminal"), &timeline, progress, event, t(now));
        assert_eq!(show_next(armed.next), expected, "{clock} ended at {ended}");
        assert!(armed.skipped.is_empty());
    }
}

#[test]
fn the_first_run_is_one_interval_after_it_begins() {
    for (policy, expected) in [
        ("", "armed 10"),
        ("baseline=7", "armed 17"),
        ("starts=20", "armed 30"),
        ("starts=20 baseline=33", "armed 43"),
        ("ends=10", "done"),
    ] {
        for clock in [START, END] {
            let clock = Clock::parse(clock).unwrap();
            let timeline = clock.bind(&Utc, Instant::UNIX_EPOCH);
            let armed = plan::arm(&read_policy(policy), &timeline, Progress::default(), ArmEvent::default(), t(5));
            assert_eq!(show_next(armed.next), expected, "{clock}, {policy}");
        }
    }
}

/// A small generator whose seed is printed with what it has found.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % n
    }
}

/// One life: ticks at random moments, runs that last for random times; the oracle says when each plan was and what became of it.
fn live(seed: u64) -> usize {
    let mut random = Random(seed);
    let interval = 1 + random.below(40);
    let after_end = random.below(2) == 0;
    let on_terminal = after_end || random.below(3) == 0;
    let overlap = if on_terminal { "" } else { ["", "skip", "buffer_one"][random.below(3) as usize] };
    let grace = random.below(20);
    let skips_missed = random.below(3) == 0;
    let words = format!(
        "{} {} {overlap} grace={grace}",
        if skips_missed { "skip_missed" } else { "every_plan" },
        if on_terminal { "on_terminal" } else { "" }
    );
    let policy = read_policy(&words);
    let clock =
        Clock::parse(&format!("every {interval} seconds after {}", if after_end { "end" } else { "start" })).unwrap();
    let timeline = clock.bind(&Utc, Instant::UNIX_EPOCH);
    let what = format!("seed {seed}: {clock}, {words}");

    let mut armed = plan::arm(&policy, &timeline, Progress::default(), ArmEvent::default(), t(0));
    // The oracle: when the count began, and the plan that waits for a run to end.
    let (mut counted_from, mut buffered): (i64, Option<i64>) = (0, None);
    let mut running: Vec<i64> = Vec::new();
    let (mut now, mut fires) = (0, 0);
    for _ in 0..60 {
        now += random.below(2 * interval + 3);
        // Runs that have ended by now, the last of which tells the schedule.
        let waits = on_terminal || overlap == "skip" || overlap == "buffer_one";
        let before = running.len();
        let ended = running.iter().copied().filter(|end| *end <= now).max();
        running.retain(|end| *end > now);
        if let (Some(ended), true) = (ended, waits && running.len() < before) {
            let event = ArmEvent { terminal_at: Some(t(ended)), busy: !running.is_empty(), unparked: false };
            armed = plan::arm(&policy, &timeline, armed.progress, event, t(now));
            if after_end {
                counted_from = ended;
            }
        }
        let busy = waits && !running.is_empty();
        let due = buffered.unwrap_or(counted_from + interval);
        let expects_wait = (on_terminal || buffered.is_some()) && busy;
        match armed.next {
            Next::Waiting => assert!(expects_wait, "{what}: waits at {now}"),
            Next::Done => panic!("{what}: done at {now}"),
            Next::Armed { plan_time, fire_at } => {
                assert!(!expects_wait, "{what}: armed at {now}");
                assert_eq!(plan_time, t(due), "{what}: at {now}");
                if fire_at > t(now) {
                    continue;
                }
                let fired = plan::fire(&policy, &timeline, armed.progress, plan_time, busy, t(now));
                armed.progress = fired.progress;
                armed.next = fired.next;
                let late = skips_missed && now > due + grace && buffered.is_none();
                if busy && overlap == "skip" {
                    assert_eq!(
                        fired.skipped.iter().map(|skip| skip.reason).collect::<Vec<_>>(),
                        [SkipReason::Overlap],
                        "{what}"
                    );
                    counted_from = now;
                } else if busy && overlap == "buffer_one" {
                    assert!(fired.plan_times.is_empty() && fired.skipped.is_empty(), "{what}: {now}");
                    buffered = Some(due);
                } else if late {
                    assert_eq!(
                        fired.skipped.iter().map(|skip| skip.reason).collect::<Vec<_>>(),
                        [SkipReason::Missed],
                        "{what}"
                    );
                    counted_from = now;
                } else {
                    assert_eq!(fired.plan_times, [t(due)], "{what}: at {now}");
                    fires += 1;
                    buffered = None;
                    counted_from = now;
                    running.push(now + 1 + random.below(2 * interval));
                }
            }
        }
    }
    fires
}

#[test]
fn random_lives_agree_with_the_oracle() {
    let fires: usize = (0..5_000).map(live).sum();
    assert!(fires > 50_000, "{fires}");
}
