//! Random policies through random lives, with outages, long runs and needless edits, against the model.

use proptest::prelude::*;
use scheduler_core::clock::zone::Utc;
use scheduler_core::clock::Clock;
use scheduler_core::schedule::CatchUp;
use scheduler_core::schedule::Overlap;
use scheduler_core::schedule::Skip;
use scheduler_core::schedule::{plan, ArmEvent, Next, PlanTimes, Policy, Progress, Rearm};
use scheduler_core::time::Instant;

use crate::model::Model;
use crate::support::{policy, seconds, t, List};

/// The life of a schedule: the clock, its policy, and for each tick how long after the last one it comes, for how
/// long what it starts runs, and whether somebody edits the schedule just before.
#[derive(Debug, Clone)]
struct Life {
    clock: TestClock,
    policy: Policy,
    ticks: Vec<(i64, i64, bool)>,
}

#[derive(Debug, Clone)]
enum TestClock {
    EverySeven,
    Uneven(Vec<i64>),
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let choices = (
        prop::sample::select(vec![CatchUp::LatestOnly, CatchUp::EveryPlan, CatchUp::SkipMissed]),
        prop::sample::select(vec![Rearm::OnDispatch, Rearm::OnTerminal]),
        prop::sample::select(vec![Overlap::Allow, Overlap::Skip, Overlap::BufferOne]),
    );
    let lengths = (
        prop::option::of(1i64..60),
        0i64..20,
        1usize..5,
        prop_oneof![2 => Just(0i64), 1 => 1i64..20],
        prop_oneof![2 => Just(0i64), 1 => 1i64..20],
    );
    (choices, lengths, any::<u64>(), prop::option::of(0i64..60), prop::option::of(60i64..300), 0i64..20).prop_map(
        |((catch_up, rearm, overlap), (window, grace, max, delay, jitter), seed, starts, ends, baseline)| Policy {
            catch_up,
            rearm,
            overlap,
            window: window.map(seconds),
            misfire_grace: seconds(grace),
            max_plans_per_tick: max,
            delay: seconds(delay),
            jitter: seconds(jitter),
            jitter_seed: seed,
            starts_at: starts.map(t),
            ends_at: ends.map(t),
            baseline: t(baseline),
        },
    )
}

fn life() -> impl Strategy<Value = Life> {
    let clock = prop_oneof![
        2 => Just(TestClock::EverySeven),
        1 => prop::collection::btree_set(0i64..400, 1..40).prop_map(|set| TestClock::Uneven(set.into_iter().collect())),
    ];
    let wait = prop_oneof![4 => 0i64..9, 2 => 9i64..30, 1 => 30i64..120];
    let run = prop_oneof![3 => 0i64..3, 2 => 3i64..20, 1 => 20i64..90];
    (clock, any_policy(), prop::collection::vec((wait, run, prop::bool::weighted(0.2)), 1..25))
        .prop_map(|(clock, policy, ticks)| Life { clock, policy, ticks })
}

/// What a dispatcher does at one tick, as src/dispatch does it, with the invariants that hold at each.
struct Dispatcher<'a, C> {
    policy: &'a Policy,
    clock: &'a C,
    progress: Progress,
    next: Next,
    newest: Option<Instant>,
    running: Vec<Instant>,
    ran: Vec<Instant>,
    skipped: Vec<Instant>,
}

impl<C: PlanTimes> Dispatcher<'_, C> {
    fn waits_for_runs(&self) -> bool {
        self.policy.rearm == Rearm::OnTerminal || self.policy.overlap != Overlap::Allow
    }

    fn busy(&self) -> bool {
        self.waits_for_runs() && !self.running.is_empty()
    }

    fn arm(&mut self, ended: Option<Instant>, now: Instant) -> Result<(), TestCaseError> {
        let before = self.next;
        let news = ArmEvent { terminal_at: ended, busy: self.busy(), unparked: false };
        let armed = plan::arm(self.policy, self.clock, self.progress, news, now);
        (self.progress, self.next) = (armed.progress, armed.next);
        self.skip(&armed.skipped)?;
        if ended.is_none() && self.progress.buffered.is_none() {
            prop_assert_eq!(self.next, before, "an edit of another kind moved the timer");
        }
        self.armed_soundly()
    }

    fn fire(&mut self, now: Instant) -> Result<Vec<Instant>, TestCaseError> {
        let Next::Armed { plan_time, fire_at } = self.next else { return Ok(Vec::new()) };
        if fire_at > now {
            return Ok(Vec::new());
        }
        let fired = plan::fire(self.policy, self.clock, self.progress, plan_time, self.busy(), now);
        prop_assert!(fired.progress.cursor >= self.progress.cursor, "the cursor went back");
        for plan_time in &fired.plan_times {
            prop_assert!(*plan_time <= now, "ran before its time");
            prop_assert!(self.newest.is_none_or(|newest| newest < *plan_time), "offered again, or out of order");
            self.newest = Some(*plan_time);
        }
        (self.progress, self.next) = (fired.progress, fired.next);
        self.ran.extend(&fired.plan_times);
        self.skip(&fired.skipped)?;
        self.armed_soundly()?;
        Ok(fired.plan_times)
    }

    /// Remembers what was passed over, each plan by itself.
    fn skip(&mut self, skips: &[Skip]) -> Result<(), TestCaseError> {
        for skip in skips {
            let first = skip.from.checked_add_micros(-1).unwrap();
            prop_assert_eq!(skip.previous, self.clock.previous_at_or_before(first));
            let plans: Vec<Instant> =
                std::iter::successors(Some(skip.from), |plan_time| self.clock.next_after(*plan_time))
                    .take_while(|plan_time| *plan_time <= skip.to)
                    .collect();
            prop_assert_eq!(plans.len() as u64, skip.count);
            prop_assert_eq!(plans.last(), Some(&skip.to));
            self.skipped.extend(plans);
        }
        Ok(())
    }

    /// Every plan up to the cursor ran, was passed over or is buffered, and only one of them.
    fn everything_is_decided(&self) -> Result<(), TestCaseError> {
        let starts = self
            .policy
            .starts_at
            .map_or(self.policy.baseline, |starts| self.policy.baseline.max(starts.checked_add_micros(-1).unwrap()));
        let mut called_for: Vec<Instant> =
            std::iter::successors(self.clock.next_after(starts), |plan_time| self.clock.next_after(*plan_time))
                .take_while(|plan_time| {
                    Some(*plan_time) <= self.progress.cursor && self.policy.ends_at.is_none_or(|end| *plan_time < end)
                })
                .collect();
        let mut decided: Vec<Instant> =
            self.ran.iter().chain(&self.skipped).copied().chain(self.progress.buffered).collect();
        decided.sort_unstable();
        called_for.sort_unstable();
        prop_assert_eq!(decided, called_for);
        Ok(())
    }

    fn armed_soundly(&self) -> Result<(), TestCaseError> {
        if let Next::Armed { plan_time, fire_at } = self.next {
            prop_assert!(plan_time > self.policy.baseline && fire_at >= plan_time);
            prop_assert!(self.newest.is_none_or(|newest| newest < plan_time), "I6: armed no later than what ran");
            if self.progress.buffered.is_none() {
                prop_assert!(self.clock.next_after(plan_time).is_none_or(|following| fire_at <= following));
                prop_assert!(self.policy.ends_at.is_none_or(|end| plan_time < end));
                prop_assert!(self.policy.starts_at.is_none_or(|start| plan_time >= start));
            }
        }
        Ok(())
    }
}

fn live<C: PlanTimes>(life: &Life, clock: &C) -> Result<(), TestCaseError> {
    let policy = &life.policy;
    let all: Vec<Instant> = std::iter::successors(clock.next_after(t(-1)), |plan_time| clock.next_after(*plan_time))
        .take_while(|plan_time| *plan_time < t(10_000))
        .chain([t(1_000_000)])
        .collect();
    let mut model = Model::new(policy, &all);
    let plan::Armed { progress, next, .. } =
        plan::arm(policy, clock, Progress::default(), ArmEvent::default(), policy.baseline);
    let (running, ran, skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut dispatcher = Dispatcher { policy, clock, progress, next, newest: None, running, ran, skipped };
    dispatcher.armed_soundly()?;
    // Ends of runs, in the order in which they come.
    let mut ends: Vec<(Instant, Instant)> = Vec::new();
    let mut now = policy.baseline;
    for (wait, length, edited) in &life.ticks {
        now = now.checked_add_micros(seconds(*wait)).unwrap();
        let mut ended = None;
        ends.sort_unstable();
        while let Some((end, plan_time)) = ends.first().copied().filter(|(end, _)| *end <= now) {
            ends.remove(0);
            dispatcher.running.retain(|running| *running != plan_time);
            ended = Some(end);
        }
        let told = ended.filter(|_| dispatcher.waits_for_runs());
        if told.is_some() {
            dispatcher.arm(told, now)?;
        }
        if *edited {
            dispatcher.arm(None, now)?;
        }
        let busy = dispatcher.busy();
        let run = dispatcher.fire(now)?;
        prop_assert_eq!(&run, &model.tick(now, busy, told), "at {:?}", now);
        dispatcher.everything_is_decided()?;
        if dispatcher.waits_for_runs() && policy.overlap != Overlap::Allow || policy.rearm == Rearm::OnTerminal {
            prop_assert!(run.len() + dispatcher.running.len() <= 1, "two at once");
        }
        for plan_time in run {
            dispatcher.running.push(plan_time);
            ends.push((now.checked_add_micros(seconds(*length)).unwrap(), plan_time));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, rng_seed: prop::test_runner::RngSeed::Fixed(20_261_120), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_schedule_does_what_the_model_does(life in life()) {
        match &life.clock {
            TestClock::EverySeven => {
                let clock = Clock::parse("every 7 seconds").unwrap();
                live(&life, &clock.bind(&Utc, t(0)))?;
            }
            TestClock::Uneven(plans) => live(&life, &List(plans.clone()))?,
        }
    }

    #[test]
    fn every_plan_misses_none_and_doubles_none(ticks in prop::collection::vec(0i64..200, 1..40), max in 1usize..20) {
        let clock = Clock::parse("every 7 seconds").unwrap();
        let timeline = clock.bind(&Utc, t(3));
        let policy = Policy { catch_up: CatchUp::EveryPlan, max_plans_per_tick: max, baseline: t(3), ..policy() };
        let plan::Armed { mut progress, mut next, .. } =
            plan::arm(&policy, &timeline, Progress::default(), ArmEvent::default(), t(3));
        let (mut now, mut ran) = (t(3), Vec::new());
        for wait in ticks {
            now = now.checked_add_micros(seconds(wait)).unwrap();
            while let Next::Armed { plan_time, fire_at } = next {
                if fire_at > now {
                    break;
                }
                let fired = plan::fire(&policy, &timeline, progress, plan_time, false, now);
                prop_assert!((1..=max).contains(&fired.plan_times.len()));
                (progress, next) = (fired.progress, fired.next);
                ran.extend(fired.plan_times);
            }
        }
        let expected: Vec<Instant> = (1..).map(|n| t(3 + 7 * n)).take_while(|plan_time| *plan_time <= now).collect();
        prop_assert_eq!(ran, expected);
    }
}
