//! One tick: what is due fires, and one other step that has something to do gets its turn, each in a transaction of its own and
//! with no more than a batch. So none can starve another, and what is on time waits for one batch at most. A step that fails
//! rests for a while, with growing pauses, and takes nothing from the others: an error in ending leases never delays a fire, nor
//! the other way round.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::dispatch::{self, Done, Pruner};
use crate::guc;
use crate::store::deadline::{self, Deadlines};
use crate::store::timer::Reach;
use crate::store::{role, session, Session};
use crate::worker::transaction;

/// The steps beside firing: what each is called, when it has something to do, and how it does at most a batch of it (how much it
/// did).
const STEPS: [(&CStr, Due, Work); 4] = [
    (
        c"applying changed schedules",
        |tick| tick.deadlines.change,
        |tick, session| dispatch::apply_changes(session, convert::now(), turn(), &mut tick.changes_after),
    ),
    (
        c"ending stale leases",
        |tick| tick.deadlines.stale,
        |_, session| dispatch::sweep_stale(session, None, convert::now(), turn(), role::caller()),
    ),
    (
        c"offering due retries",
        |tick| tick.deadlines.retry,
        |_, session| {
            let count = dispatch::promote_retries(session, convert::now(), turn(), role::caller());
            usize::try_from(count).unwrap_or(0)
        },
    ),
    (c"forgetting old executions", |tick| Some(tick.pruner.next_step()), |tick, session| tick.pruner.step(session)),
];

type Due = fn(&Tick) -> Option<Instant>;
type Work = fn(&mut Tick, &Session) -> usize;

/// How much a step does in one turn, while fires wait: some milliseconds' work.
fn turn() -> i64 {
    guc::batch_size().min(250)
}

/// How long to wait before looking again at what others have locked, in microseconds. Their commit wakes us earlier.
const BUSY: i64 = 250_000;

/// What a dispatcher remembers from tick to tick: some numbers, whatever there is to do.
pub struct Tick {
    pruner: Pruner,
    deadlines: Deadlines,
    /// Where applying changes goes on.
    changes_after: i64,
    /// Up to here everything that was due has been looked at. The index of timers has an entry for each fire of the last minutes,
    /// until it is vacuumed: to go through them each time would cost more than what is due.
    looked_until: Instant,
    /// When to look at what is due from the first on, because something may have been left, or come up, before that.
    look_back: Option<Instant>,
    firing: Rest,
    rests: [Rest; STEPS.len()],
    /// Whose turn it is.
    turn: usize,
}

/// How a step is doing.
#[derive(Clone, Copy, Default)]
struct Rest {
    failures: i32,
    until: Option<Instant>,
}

impl Rest {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// When a step whose work is due at `deadline` has its next turn.
    fn then(&self, deadline: Option<Instant>) -> Option<Instant> {
        deadline.map(|deadline| deadline.max(self.until.unwrap_or(deadline)))
    }

    /// A step failed.
    fn after_failure(self, now: Instant) -> Rest {
        let failures = self.failures.saturating_add(1);
        Rest { failures, until: now.checked_add_micros(backoff::after_fire_failures(failures)) }
    }

    /// A step that began at `began` found nothing to do. What was due then and still is, others have in hand.
    fn after_nothing(deadline: Option<Instant>, began: Instant, now: Instant) -> Rest {
        let others = deadline.is_some_and(|deadline| deadline <= began);
        Rest { failures: 0, until: now.checked_add_micros(BUSY).filter(|_| others) }
    }
}

impl Tick {
    /// A dispatcher that starts at `now`.
    pub fn new(now: Instant) -> Tick {
        Tick {
            pruner: Pruner::new(now),
            deadlines: Deadlines::default(),
            changes_after: 0,
            looked_until: Instant::MIN,
            look_back: None,
            firing: Rest::default(),
            rests: [Rest::default(); STEPS.len()],
            turn: 0,
        }
    }

    /// Does some of what is due; when to come again, as far as is known. `woken` by a commit, it knows nothing.
    pub fn run(&mut self, woken: bool) -> Option<Instant> {
        let again = |now: Instant| now.checked_add_micros(backoff::after_fire_failures(1));
        if woken {
            // What others had in hand they may have given back.
            for rest in self.rests.iter_mut().filter(|rest| rest.failures == 0) {
                rest.until = None;
            }
            self.look_back = Some(convert::now());
            if !self.look(Instant::MAX) {
                return again(convert::now());
            }
        }
        let looked_from = self.fire();
        let worked = self.one_step();
        if !self.look(looked_from) {
            return again(convert::now());
        }
        if let Some((step, began, 0)) = worked {
            self.rests[step] = Rest::after_nothing(STEPS[step].1(self), began, convert::now());
        }
        let others = STEPS.iter().zip(&self.rests).map(|((_, deadline, _), rest)| rest.then(deadline(self)));
        let fires = [self.deadlines.fire, self.look_back].map(|deadline| self.firing.then(deadline));
        others.chain(fires).flatten().min()
    }

    /// Finds out what is due when; false where that failed. What is still due after `looked_from` was passed over by the look
    /// that has just been, because others have it in hand.
    fn look(&mut self, looked_from: Instant) -> bool {
        let (looked_until, changes_after) = (self.looked_until, self.changes_after);
        let now = convert::now();
        let found = transaction::run(c"looking for what is next", move || {
            session(|session| deadline::next(session, looked_from, looked_until, changes_after))
        });
        let Some(found) = found else { return false };
        if found.change.is_none() && changes_after > 0 {
            // The end of the queue: what others had in hand may be left before it.
            self.changes_after = 0;
            return self.look(looked_from);
        }
        self.deadlines = found;
        if found.left_behind {
            self.look_back = self.look_back.or(now.checked_add_micros(BUSY));
        }
        true
    }

    /// Fires a batch, if some are due; after which time it looked for them, the end of all times where it did not.
    fn fire(&mut self) -> Instant {
        let now = convert::now();
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let looks_back = is_due(self.look_back);
        if !(looks_back || is_due(self.deadlines.fire)) || !self.firing.is_over(now) {
            return Instant::MAX;
        }
        let after = if looks_back { Instant::MIN } else { self.looked_until };
        let done = transaction::run(c"dispatching due schedules", move || {
            // Of a backlog both ends: those that may still be on time, and those that have waited longest.
            let latest = guc::batch_size() / 2;
            let reach = Reach { after, latest, earliest: guc::batch_size() - latest };
            session(|session| dispatch::fire_due(session, reach, now))
        });
        let Some(Done { more, .. }) = done else {
            self.firing = self.firing.after_failure(now);
            return Instant::MAX;
        };
        self.firing = Rest::default();
        self.looked_until = now;
        if more {
            self.look_back = Some(now);
            return Instant::MAX;
        }
        self.look_back = self.look_back.filter(|_| !looks_back);
        after
    }

    /// Gives the next step that has something to do its turn; which it was, when it began, and how much it did.
    fn one_step(&mut self) -> Option<(usize, Instant, usize)> {
        let now = convert::now();
        let is_due = |step: &usize| {
            let deadline = STEPS[*step].1(self);
            deadline.is_some_and(|deadline| deadline <= now) && self.rests[*step].is_over(now)
        };
        let step = (self.turn..self.turn + STEPS.len()).map(|turn| turn % STEPS.len()).find(is_due)?;
        self.turn = step + 1;
        let (what, _, work) = STEPS[step];
        let tick = AssertUnwindSafe(&mut *self);
        let done = transaction::run(what, move || {
            let tick = tick;
            session(|session| work(tick.0, session))
        });
        match done {
            Some(count) => {
                self.rests[step] = Rest::default();
                if count > 0 {
                    // A schedule that changed may be due at once.
                    self.look_back = Some(now);
                }
                Some((step, now, count))
            }
            None => {
                self.rests[step] = self.rests[step].after_failure(now);
                None
            }
        }
    }
}
