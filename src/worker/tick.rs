//! One tick: steps in transactions of their own. A step that fails rests for a while, with growing pauses, and takes nothing
//! from the others: an error in ending leases never delays a fire, nor the other way round.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::dispatch::{self, Pruner};
use crate::guc;
use crate::store::{role, session, timer, Session};
use crate::worker::{dispatcher, hold, transaction};

/// The steps in the order in which they run: what is overdue ends before anything new begins.
const STEPS: [Step; 5] = [
    Step {
        what: c"ending stale leases",
        done: "stale leases ended",
        work: |_, session| dispatch::sweep_stale(session, None, convert::now(), guc::batch_size(), role::caller()),
    },
    Step {
        what: c"offering due retries",
        done: "retries offered",
        work: |_, session| {
            usize::try_from(dispatch::promote_retries(session, convert::now(), guc::batch_size(), role::caller()))
                .unwrap_or(0)
        },
    },
    Step {
        what: c"applying changed schedules",
        done: "changed schedules applied",
        work: |_, session| dispatch::apply_changes(session, convert::now(), guc::batch_size()),
    },
    Step {
        what: c"dispatching due schedules",
        done: "due schedules dispatched",
        work: |_, session| dispatch::fire_due(session, convert::now(), guc::batch_size()).1,
    },
    Step {
        what: c"forgetting old executions",
        done: "old executions forgotten",
        work: |pruner, session| pruner.step(session),
    },
];

/// How long to wait before looking again at what others have locked, in microseconds. Their commit wakes us earlier.
const BUSY: i64 = 250_000;

/// One step of a tick.
struct Step {
    /// What pg_stat_activity and a failure say.
    what: &'static CStr,
    /// What `sched.log_ticks` says of a number of them.
    done: &'static str,
    /// Does at most a batch of work; how much it did.
    work: fn(&mut Pruner, &Session) -> usize,
}

/// How a tick ended.
pub enum Ended {
    /// Everything that is due is done; when there is something to do again, as far as is known.
    Done(Option<Instant>),
    /// Something else comes first: new settings, a command that wants the database to itself, the end of the process or
    /// of the extension.
    Interrupted,
}

/// What a dispatcher remembers from tick to tick.
pub struct Tick {
    pruner: Pruner,
    rests: [Rest; STEPS.len()],
}

/// How a step is doing.
#[derive(Clone, Copy, Default)]
struct Rest {
    failures: i32,
    until: Option<Instant>,
}

impl Tick {
    /// A dispatcher that starts at `now`.
    pub fn new(now: Instant) -> Tick {
        Tick { pruner: Pruner::new(now), rests: [Rest::default(); STEPS.len()] }
    }

    /// Does everything that is due in this database.
    pub fn run(&mut self, database: u32, name: &str) -> Ended {
        // Every step gets a turn in each round and does no more than a batch, so that none can starve another.
        let last_round = loop {
            let started = convert::now();
            match self.round(database, name) {
                None => return Ended::Interrupted,
                Some(false) => break started,
                Some(true) => {
                    pgrx::check_for_interrupts!();
                }
            }
        };
        let now = convert::now();
        let what = c"looking for what is next";
        let found = match transaction::attempt(what, || session(timer::next_deadlines)) {
            Ok(found) => found,
            Err(_) if interrupted(database) || extension_is_gone() => return Ended::Interrupted,
            Err(message) => {
                transaction::log(what, &message);
                return Ended::Done(now.checked_add_micros(backoff::after_fire_failures(1)));
            }
        };
        let change = found.changes.then_some(last_round);
        let deadlines = [found.stale, found.retry, change, found.fire, Some(self.pruner.next_step())];
        // What was due when the last round began and still is, somebody else has in an open transaction.
        let free =
            |deadline: Instant| if deadline <= last_round { now.checked_add_micros(BUSY) } else { Some(deadline) };
        let next = deadlines
            .into_iter()
            .zip(self.rests)
            .filter_map(|(deadline, rest)| match (deadline.and_then(free), rest.until) {
                (Some(deadline), Some(until)) => Some(deadline.max(until)),
                (deadline, until) => deadline.or(until),
            })
            .min();
        Ended::Done(next)
    }

    /// One turn for each step that is not resting: whether any found work, or `None` where something else comes first.
    fn round(&mut self, database: u32, name: &str) -> Option<bool> {
        let began = std::time::Instant::now();
        let mut report: Vec<String> = Vec::new();
        let mut busy = false;
        for (step, rest) in STEPS.into_iter().zip(&mut self.rests) {
            if interrupted(database) {
                return None;
            }
            let now = convert::now();
            if rest.until.is_some_and(|until| now < until) {
                continue;
            }
            let pruner = AssertUnwindSafe(&mut self.pruner);
            let done = transaction::attempt(step.what, move || {
                let pruner = pruner;
                session(|session| (step.work)(pruner.0, session))
            });
            match done {
                Ok(count) => {
                    *rest = Rest::default();
                    busy |= count > 0;
                    if count > 0 && guc::log_ticks() {
                        report.push(format!("{count} {}", step.done));
                    }
                }
                Err(_) if interrupted(database) || extension_is_gone() => return None,
                Err(message) => {
                    transaction::log(step.what, &message);
                    rest.failures = rest.failures.saturating_add(1);
                    rest.until = now.checked_add_micros(backoff::after_fire_failures(rest.failures));
                }
            }
        }
        if !report.is_empty() {
            let (what, took) = (report.join(", "), began.elapsed().as_secs_f64() * 1000.0);
            pgrx::log!("scheduler: tick in database \"{name}\": {what} in {took:.1} ms");
        }
        Some(busy)
    }
}

/// Whether something else comes before the next step. Reads memory only.
fn interrupted(database: u32) -> bool {
    super::must_end() || super::must_reload() || hold::is_held(database)
}

/// Whether a step failed because there is nothing left to work on.
fn extension_is_gone() -> bool {
    matches!(transaction::attempt(c"looking for the extension", dispatcher::extension_here), Ok(None))
}
