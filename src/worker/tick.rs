//! One tick: steps in transactions of their own. A step that fails rests for a while, with growing pauses, and takes nothing
//! from the others: an error in ending leases never delays a fire, nor the other way round.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::dispatch::{self, Pruner};
use crate::guc;
use crate::store::{role, session, timer, Session};
use crate::worker::transaction;

/// The steps in the order in which they run: what is overdue ends before anything new begins.
const STEPS: [(&CStr, Work); 5] = [
    (c"ending stale leases", |_, session| {
        dispatch::sweep_stale(session, None, convert::now(), guc::batch_size(), role::caller())
    }),
    (c"offering due retries", |_, session| {
        usize::try_from(dispatch::promote_retries(session, convert::now(), guc::batch_size(), role::caller()))
            .unwrap_or(0)
    }),
    (c"applying changed schedules", |_, session| dispatch::apply_changes(session, convert::now(), guc::batch_size())),
    (c"dispatching due schedules", |_, session| dispatch::fire_due(session, convert::now(), guc::batch_size()).1),
    (c"forgetting old executions", |pruner, session| pruner.step(session)),
];

/// How long to wait before looking again at what others have locked, in microseconds. Their commit wakes us earlier.
const BUSY: i64 = 250_000;

/// How long a tick may last, in microseconds: a schedule that is always due must not keep the dispatcher from reading settings, or
/// from seeing that the extension is gone.
const LONGEST_TICK: i64 = 1_000_000;

/// Does at most a batch of work; how much it did.
type Work = fn(&mut Pruner, &Session) -> usize;

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

    /// Does everything that is due; when there is something to do again, as far as is known.
    pub fn run(&mut self) -> Option<Instant> {
        // Every step gets a turn in each round and does no more than a batch, so that none can starve another.
        let began = convert::now();
        let last_round = loop {
            let started = convert::now();
            if !self.round() {
                break started;
            }
            if began.checked_add_micros(LONGEST_TICK).is_none_or(|end| started >= end) {
                return Some(started);
            }
            pgrx::check_for_interrupts!();
        };
        let now = convert::now();
        let found = transaction::run(c"looking for what is next", || session(timer::next_deadlines));
        let Some(found) = found else { return now.checked_add_micros(backoff::after_fire_failures(1)) };
        let change = found.changes.then_some(last_round);
        let deadlines = [found.stale, found.retry, change, found.fire, Some(self.pruner.next_step())];
        // What was due when the last round began and still is, somebody else has in an open transaction.
        let free =
            |deadline: Instant| if deadline <= last_round { now.checked_add_micros(BUSY) } else { Some(deadline) };
        deadlines
            .into_iter()
            .zip(self.rests)
            .filter_map(|(deadline, rest)| match (deadline.and_then(free), rest.until) {
                (Some(deadline), Some(until)) => Some(deadline.max(until)),
                (deadline, until) => deadline.or(until),
            })
            .min()
    }

    /// One turn for each step that is not resting; whether any found work.
    fn round(&mut self) -> bool {
        let mut busy = false;
        for ((what, work), rest) in STEPS.into_iter().zip(&mut self.rests) {
            let now = convert::now();
            if rest.until.is_some_and(|until| now < until) {
                continue;
            }
            let pruner = AssertUnwindSafe(&mut self.pruner);
            let done = transaction::run(what, move || {
                let pruner = pruner;
                session(|session| work(pruner.0, session))
            });
            match done {
                Some(count) => {
                    *rest = Rest::default();
                    busy |= count > 0;
                }
                None => {
                    rest.failures = rest.failures.saturating_add(1);
                    rest.until = now.checked_add_micros(backoff::after_fire_failures(rest.failures));
                }
            }
        }
        busy
    }
}
