//! A clock of round numbers, policies, and decisions as text. All times are seconds after 2000-01-01.

use scheduler_core::schedule::CatchUp;
use scheduler_core::schedule::Overlap;
use scheduler_core::schedule::Skip;
use scheduler_core::schedule::{plan, ArmEvent, Fired, Next, PlanTimes, Policy, Progress, Rearm};
use scheduler_core::time::Instant;

const SECOND: i64 = 1_000_000;

/// Plans at every multiple of this many seconds, for ever in both directions.
pub struct Grid(pub i64);

impl PlanTimes for Grid {
    fn next_after(&self, after: Instant) -> Option<Instant> {
        let period = self.0 * SECOND;
        Instant::from_micros((after.as_micros().div_euclid(period) + 1) * period)
    }

    fn previous_at_or_before(&self, at: Instant) -> Option<Instant> {
        let period = self.0 * SECOND;
        Instant::from_micros(at.as_micros().div_euclid(period) * period)
    }
}

/// Plans at these seconds only, in order.
pub struct List(pub Vec<i64>);

impl PlanTimes for List {
    fn next_after(&self, after: Instant) -> Option<Instant> {
        self.0.iter().map(|second| t(*second)).find(|plan_time| *plan_time > after)
    }

    fn previous_at_or_before(&self, at: Instant) -> Option<Instant> {
        self.0.iter().map(|second| t(*second)).rfind(|plan_time| *plan_time <= at)
    }
}

pub fn t(second: i64) -> Instant {
    Instant::from_micros(second * SECOND).unwrap()
}

pub fn seconds(length: i64) -> i64 {
    length * SECOND
}

/// All defaults of create_schedule, created at 0.
pub fn policy() -> Policy {
    Policy {
        catch_up: CatchUp::LatestOnly,
        window: None,
        misfire_grace: seconds(5),
        max_plans_per_tick: 100,
        rearm: Rearm::OnDispatch,
        overlap: Overlap::Allow,
        delay: 0,
        jitter: 0,
        jitter_seed: 1,
        starts_at: None,
        ends_at: None,
        baseline: t(0),
    }
}

/// `latest_only every_plan skip_missed on_terminal skip buffer_one window=30 max=2 delay=3 jitter=4 starts=20 ends=50 baseline=7`
pub fn read_policy(text: &str) -> Policy {
    let mut policy = policy();
    for word in text.split_whitespace() {
        let (name, number) = word.split_once('=').unwrap_or((word, "0"));
        let number: i64 = number.parse().unwrap();
        match name {
            "latest_only" => policy.catch_up = CatchUp::LatestOnly,
            "every_plan" => policy.catch_up = CatchUp::EveryPlan,
            "skip_missed" => policy.catch_up = CatchUp::SkipMissed,
            "on_terminal" => policy.rearm = Rearm::OnTerminal,
            "skip" => policy.overlap = Overlap::Skip,
            "buffer_one" => policy.overlap = Overlap::BufferOne,
            "window" => policy.window = Some(seconds(number)),
            "max" => policy.max_plans_per_tick = usize::try_from(number).unwrap(),
            "delay" => policy.delay = seconds(number),
            "jitter" => policy.jitter = seconds(number),
            "grace" => policy.misfire_grace = seconds(number),
            "starts" => policy.starts_at = Some(t(number)),
            "ends" => policy.ends_at = Some(t(number)),
            "baseline" => policy.baseline = t(number),
            other => panic!("{other}"),
        }
    }
    policy
}

/// `cursor=30 buffered=20 backlog=60`
pub fn read_progress(text: &str) -> Progress {
    let mut progress = Progress::default();
    for word in text.split_whitespace() {
        let (name, number) = word.split_once('=').unwrap();
        let at = Some(t(number.parse().unwrap()));
        match name {
            "cursor" => progress.cursor = at,
            "buffered" => progress.buffered = at,
            "backlog" => progress.backlog_until = at,
            other => panic!("{other}"),
        }
    }
    progress
}

fn number(at: Instant) -> String {
    if at.as_micros() % SECOND == 0 {
        (at.as_micros() / SECOND).to_string()
    } else {
        (at.as_micros() as f64 / SECOND as f64).to_string()
    }
}

pub fn show_progress(progress: Progress) -> String {
    let parts = [("cursor", progress.cursor), ("buffered", progress.buffered), ("backlog", progress.backlog_until)];
    let shown = parts.iter().filter_map(|(name, at)| at.map(|at| format!("{name}={}", number(at))));
    shown.collect::<Vec<_>>().join(" ")
}

pub fn show_next(next: Next) -> String {
    match next {
        Next::Armed { plan_time, fire_at } if plan_time == fire_at => format!("armed {}", number(plan_time)),
        Next::Armed { plan_time, fire_at } => format!("armed {} at {}", number(plan_time), number(fire_at)),
        Next::Waiting => "waiting".to_owned(),
        Next::Done => "done".to_owned(),
    }
}

pub fn show(fired: &Fired) -> String {
    let runs: Vec<String> = fired.plan_times.iter().map(|plan_time| number(*plan_time)).collect();
    let run = if runs.is_empty() { "nothing".to_owned() } else { runs.join(" ") };
    format!("{run}; {}; {}", show_progress(fired.progress), show_next(fired.next))
}

/// A plan is due each 10 seconds. What the timer armed for `armed` calls for at `now`: runs; progress; next.
#[track_caller]
pub fn fires(policy: &str, progress: &str, armed: i64, now: i64, expected: &str) {
    let fired = plan::fire(&read_policy(policy), &Grid(10), read_progress(progress), t(armed), false, t(now));
    assert_eq!(show(&fired), expected, "{policy}: armed for {armed}, now {now}");
}

/// The same while an earlier execution has not ended.
#[track_caller]
pub fn fires_busy(policy: &str, progress: &str, armed: i64, now: i64, expected: &str) {
    let fired = plan::fire(&read_policy(policy), &Grid(10), read_progress(progress), t(armed), true, t(now));
    assert_eq!(show(&fired), expected, "{policy}: busy, armed for {armed}, now {now}");
}

/// What is armed at `now`, after an edit or (`ended`) the end of a run.
#[track_caller]
pub fn arms(policy: &str, progress: &str, ended: Option<i64>, busy: bool, now: i64, expected: &str) {
    let news = ArmEvent { terminal_at: ended.map(t), busy, unparked: false };
    let armed = plan::arm(&read_policy(policy), &Grid(10), read_progress(progress), news, t(now));
    assert_eq!(
        format!("{}; {}", show_progress(armed.progress), show_next(armed.next)),
        expected,
        "{policy}: now {now}"
    );
}

/// `10-30 (3) missed after 0, 40 window`: runs of skips; what comes before one where it is asked for.
pub fn show_skips(skips: &[Skip]) -> String {
    let shown = skips.iter().map(|skip| {
        let reason = format!("{:?}", skip.reason).to_lowercase();
        if skip.from == skip.to {
            assert_eq!(skip.count, 1);
            format!("{} {reason}", number(skip.from))
        } else {
            format!("{}-{} ({}) {reason}", number(skip.from), number(skip.to), skip.count)
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}
