//! Decisions over real clocks in real zones.

use scheduler_core::clock::zone::{FixedOffset, Span, Utc, Zone};
use scheduler_core::clock::Clock;
use scheduler_core::schedule::{plan, Next, Progress};
use scheduler_core::time::Instant;

use crate::support::{read_policy, seconds};

/// Berlin in 2026: summer time from 29 March 01:00 UTC to 25 October 01:00 UTC.
struct Berlin;

impl Zone for Berlin {
    fn span_at(&self, second: i64) -> Span {
        let (spring, autumn) = (1_774_746_000, 1_792_890_000);
        if second < spring {
            Span { utc_offset_seconds: 3_600, until: Some(spring) }
        } else if second < autumn {
            Span { utc_offset_seconds: 7_200, until: Some(autumn) }
        } else {
            Span { utc_offset_seconds: 3_600, until: None }
        }
    }
}

fn at(text: &str) -> Instant {
    Clock::parse(&format!("at {text}+00")).unwrap().bind(&Utc, Instant::UNIX_EPOCH).next_after(Instant::MIN).unwrap()
}

/// Created at `created`, seen by a dispatcher at each of `ticks`: the plan times of each tick, and what is armed at the end.
fn life<Z: Zone>(
    clock: &str,
    zone: &Z,
    policy: &str,
    created: &str,
    ticks: &[(&str, &[&str])],
    armed: Option<(&str, i64)>,
) {
    let parsed = Clock::parse(clock).unwrap();
    let timeline = parsed.bind(zone, at(created));
    let mut policy = read_policy(policy);
    policy.baseline = at(created);
    let plan::Armed { mut progress, mut next, .. } =
        plan::arm(&policy, &timeline, Progress::default(), plan::ArmEvent::default(), at(created));
    for (now, expected) in ticks {
        let mut run = Vec::new();
        if let Next::Armed { plan_time, fire_at } = next {
            if fire_at <= at(now) {
                let fired = plan::fire(&policy, &timeline, progress, plan_time, false, at(now));
                (progress, next, run) = (fired.progress, fired.next, fired.plan_times);
            }
        }
        assert_eq!(run, expected.iter().map(|text| at(text)).collect::<Vec<_>>(), "{clock} at {now}");
    }
    let wanted =
        armed.map(|(plan_time, wait)| (at(plan_time), at(plan_time).checked_add_micros(seconds(wait)).unwrap()));
    let shown = match next {
        Next::Armed { plan_time, fire_at } => Some((plan_time, fire_at)),
        Next::Waiting | Next::Done => None,
    };
    assert_eq!(shown, wanted, "{clock} at the end");
}

#[test]
fn a_crontab_line_through_a_night() {
    life(
        "*/5 * * * *",
        &Utc,
        "",
        "2026-11-20 09:58",
        &[
            ("2026-11-20 09:59:59.999999", &[]),
            ("2026-11-20 10:00", &["2026-11-20 10:00"]),
            ("2026-11-20 10:00:00.000001", &[]),
            ("2026-11-21 04:03", &["2026-11-21 04:00"]),
        ],
        Some(("2026-11-21 04:05", 0)),
    );
}

#[test]
fn every_plan_through_an_outage_on_a_grid_from_the_creation() {
    life(
        "every 90 seconds",
        &FixedOffset(-18_000),
        "every_plan max=3",
        "2026-11-20 10:00:07",
        &[
            ("2026-11-20 10:01:36", &[]),
            ("2026-11-20 10:01:37", &["2026-11-20 10:01:37"]),
            ("2026-11-20 10:10", &["2026-11-20 10:03:07", "2026-11-20 10:04:37", "2026-11-20 10:06:07"]),
            ("2026-11-20 10:10", &["2026-11-20 10:07:37", "2026-11-20 10:09:07"]),
        ],
        Some(("2026-11-20 10:10:37", 0)),
    );
}

#[test]
fn a_daily_plan_on_the_days_when_the_clocks_change() {
    // 02:30 does not exist on 29 March: it runs at the end of the gap, 03:00 summer time; once.
    life(
        "30 2 * * *",
        &Berlin,
        "every_plan",
        "2026-03-27 12:00",
        &[("2026-03-30 12:00", &["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"])],
        Some(("2026-03-31 00:30", 0)),
    );
    // It exists twice on 25 October: it runs at the first.
    life(
        "30 2 * * *",
        &Berlin,
        "every_plan",
        "2026-10-23 12:00",
        &[("2026-10-26 12:00", &["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"])],
        Some(("2026-10-27 01:30", 0)),
    );
}

#[test]
fn delay_is_cut_where_the_next_plan_comes_sooner_than_usual() {
    // Local midnights are 23 hours apart on 29 March.
    life("0 0 * * *", &Berlin, "delay=84600", "2026-03-28 12:00", &[], Some(("2026-03-28 23:00", 23 * 3600)));
    life("0 0 * * *", &Berlin, "delay=84600", "2026-03-29 12:00", &[], Some(("2026-03-29 22:00", 84_600)));
}

#[test]
fn once_and_never() {
    life("at 2027-01-01 00:00+00", &Utc, "", "2026-11-20 10:00", &[], Some(("2027-01-01 00:00", 0)));
    life("at 2027-01-01 00:00+00", &Utc, "", "2026-11-20 10:00", &[("2027-01-05 00:00", &["2027-01-01 00:00"])], None);
    life("at 2026-11-20 10:00+00", &Utc, "every_plan", "2026-11-20 10:00", &[("2027-01-05 00:00", &[])], None);
    life("never", &Utc, "every_plan", "2026-11-20 10:00", &[("2027-01-05 00:00", &[])], None);
    life("0 0 30 2 *", &Utc, "delay=9 jitter=9", "2026-11-20 10:00", &[], None);
}

#[test]
fn the_last_instants_of_time_are_no_trap() {
    let clock = Clock::parse("every 1 hour").unwrap();
    for policy in
        ["", "every_plan max=3", "skip_missed delay=90 jitter=90", "every_plan window=60", "on_terminal every_plan"]
    {
        for (baseline, now) in
            [(Instant::MIN, Instant::MIN), (Instant::MAX, Instant::MAX), (at("2026-01-01 00:00"), Instant::MAX)]
        {
            let timeline = clock.bind(&Utc, Instant::UNIX_EPOCH);
            let mut policy = read_policy(policy);
            (policy.baseline, policy.starts_at, policy.ends_at) = (baseline, Some(Instant::MIN), Some(Instant::MAX));
            policy.delay = i64::MAX;
            let plan::Armed { progress, next, .. } =
                plan::arm(&policy, &timeline, Progress::default(), plan::ArmEvent::default(), now);
            if let Next::Armed { plan_time, fire_at } = next {
                assert!(fire_at >= plan_time && plan_time > baseline);
                let _ = plan::fire(&policy, &timeline, progress, plan_time, false, now);
            }
        }
    }
}
