//! One tick: what is due fires, and one other step that has something to do gets its turn, each in a transaction of its own and
//! with no more than a batch. So none can starve another, and what is on time waits for one batch at most. A step that fails
//! rests for a while, with growing pauses, and takes nothing from the others: an error in ending leases never delays a fire, nor
//! the other way round.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

use scheduler_core::runtime::backoff;
use scheduler_core::runtime::cooldown::{Cooldown, Now, BUSY};
use scheduler_core::schedule::{Bounds, MOST_BYTES, MOST_CONTENDED};
use scheduler_core::Instant;

use crate::dispatch::{self, Fired, LookedForAlerts, Pruner};
use crate::guc;
use crate::pg::{convert, role, session, Session};
use crate::shmem::counters;
use crate::shmem::registry::marks;
use crate::store::schedule::dropped::Runs;
use crate::store::timer::deadline::{self, Deadlines, Looked};
use crate::store::timer::BatchWindow;
use crate::worker::attempt::{attempt, Interrupted};
use crate::worker::change_watch::ChangeWatch;
use crate::worker::owner_watch::OwnerWatch;
use crate::worker::retry_offers::RetryOffers;
use crate::worker::staffing::Staffing;

/// The steps beside firing.
const STEPS: [Step; 13] = [
    Step {
        what: c"applying changed schedules",
        can_wait: false,
        done: "changed schedules applied",
        arms_timers: true,
        deadline: |tick| tick.deadlines.change,
        work: |tick, session| dispatch::apply_changes(session, convert::now(), turn(), &mut tick.changes.after),
    },
    Step {
        what: c"ending stale leases",
        can_wait: false,
        done: "stale leases ended",
        arms_timers: true,
        deadline: |tick| tick.deadlines.stale,
        work: |_, session| dispatch::sweep_stale(session, None, convert::now(), turn(), role::DISPATCHER).ended,
    },
    Step {
        what: c"offering due retries",
        can_wait: false,
        done: "retries offered",
        arms_timers: true,
        deadline: |tick| tick.deadlines.retry,
        work: |tick, session| tick.retries.offer(session, now(), turn()),
    },
    Step {
        what: c"delivering due notifications",
        can_wait: false,
        done: "executions delivered",
        arms_timers: true,
        deadline: |tick| tick.deadlines.delivery,
        work: |_, session| dispatch::deliver(session, convert::now(), turn()),
    },
    Step {
        what: c"cancelling what others had in hand",
        can_wait: false,
        done: "requests to cancel looked at",
        arms_timers: true,
        deadline: |tick| tick.deadlines.cancel,
        work: |_, session| dispatch::settle_cancels(session, Runs::End, convert::now()),
    },
    Step {
        what: c"cancelling executions of dropped schedules",
        can_wait: false,
        done: "dropped schedules looked at",
        arms_timers: true,
        deadline: |tick| tick.deadlines.dropped,
        work: |_, session| dispatch::settle_dropped(session, Runs::End, convert::now()),
    },
    Step {
        what: c"looking for alerts",
        can_wait: false,
        done: "schedules looked at for alerts",
        arms_timers: false,
        deadline: |tick| tick.deadlines.alert,
        work: |tick, session| tick.look_for_alerts(session),
    },
    Step {
        what: c"looking for what others run again",
        can_wait: true,
        done: "schedules parked that others run again",
        arms_timers: false,
        deadline: |tick| tick.two_owners,
        work: |tick, session| tick.look_for_two_owners(session),
    },
    Step {
        what: c"looking for owners that were dropped",
        can_wait: true,
        done: "schedules of dropped roles found",
        arms_timers: false,
        deadline: |tick| tick.owners.next_look(),
        work: |tick, session| tick.owners.look(session, turn()),
    },
    Step {
        what: c"notifying all queues",
        can_wait: false,
        done: "queues notified",
        arms_timers: false,
        deadline: |tick| tick.notify_all,
        work: |tick, session| tick.notify_all_queues(session),
    },
    Step {
        what: c"starting runners",
        can_wait: false,
        done: "runners started or woken",
        arms_timers: true,
        deadline: |tick| tick.staffing.next_start(),
        work: |tick, session| tick.staffing.start_runners(session, turn()),
    },
    Step {
        what: c"ending runs without a runner",
        can_wait: false,
        done: "runs without a runner ended",
        arms_timers: true,
        deadline: |tick| tick.staffing.next_end(),
        work: |tick, session| tick.staffing.end_lost_runs(session),
    },
    Step {
        what: c"forgetting old executions",
        can_wait: true,
        done: "old executions forgotten",
        arms_timers: true,
        deadline: |tick| Some(tick.pruner.next_step()),
        work: |tick, session| tick.pruner.step(session),
    },
];

/// One step of a tick.
struct Step {
    /// What pg_stat_activity and a failure say.
    what: &'static CStr,
    /// It can wait for the dispatcher that comes after a rest.
    can_wait: bool,
    /// What `sched.log_ticks` says of a number of them.
    done: &'static str,
    /// When it has something to do.
    deadline: fn(&Tick) -> Option<Instant>,
    /// What it has done may make a schedule due at once.
    arms_timers: bool,
    /// Does at most a batch of work; how much it did.
    work: fn(&mut Tick, &Session) -> usize,
}

/// How much a step does in one turn, while fires wait: some milliseconds' work.
fn turn() -> i64 {
    guc::batch_size().min(250)
}

/// The least time from one notification of all queues to the next, in microseconds: others' prepared transactions may be many.
const NOTIFY_ALL_EVERY: i64 = 50_000;

/// How many schedules are looked at for alerts in one turn: to open one takes longer than to look.
const MOST_LOOKS: i64 = 100;

/// What a dispatcher remembers from tick to tick: some numbers, whatever there is to do.
pub struct Tick {
    pruner: Pruner,
    staffing: Staffing,
    deadlines: Deadlines,
    /// Where applying changes goes on.
    changes: ChangeWatch,
    /// Up to here everything that was due has been looked at: the index of timers has the entries of what has fired until it is vacuumed.
    looked_until: Instant,
    /// Schedules fire by themselves here.
    fires: bool,
    /// When to look at what is due from the first on, because something may have been left, or come up, before that.
    look_back: Option<Instant>,
    retries: RetryOffers,
    /// How far looks for alerts have come, as with fires.
    alerts: LookedForAlerts,
    /// When to look whether other schedulers run what was taken over from them, when that was done last, and whether there was any.
    two_owners: Option<Instant>,
    looked_for_owners: Instant,
    has_taken: bool,
    owners: OwnerWatch,
    /// When to notify all queues, since something was committed of what kind nobody knows, and when that was done last.
    notify_all: Option<Instant>,
    notified_all: Instant,
    looking: Cooldown,
    firing: Cooldown,
    cooldowns: [Cooldown; STEPS.len()],
    /// Whose turn it is.
    turn: usize,
    /// When something is to be done that no other dispatcher can do later.
    pub urgent: Option<Instant>,
}

/// This moment by both clocks.
pub fn now() -> Now {
    Now { wall: convert::now(), moment: std::time::Instant::now() }
}

impl Tick {
    /// A dispatcher that starts at `now`.
    pub fn new(now: Instant) -> Tick {
        Tick {
            pruner: Pruner::new(now),
            staffing: Staffing::default(),
            deadlines: Deadlines::default(),
            changes: ChangeWatch::default(),
            looked_until: Instant::MIN,
            fires: true,
            look_back: None,
            retries: RetryOffers::default(),
            alerts: LookedForAlerts::default(),
            two_owners: None,
            looked_for_owners: Instant::MIN,
            has_taken: false,
            owners: OwnerWatch::begin(),
            notify_all: None,
            notified_all: Instant::MIN,
            looking: Cooldown::default(),
            firing: Cooldown::default(),
            cooldowns: [Cooldown::default(); STEPS.len()],
            turn: 0,
            urgent: Some(Instant::MIN),
        }
    }

    /// Does some of what is due in this database; when to come again, as far as is known. `woken` by a commit, it knows nothing.
    /// Without `fires` no schedule fires, and all else goes on.
    pub fn run(&mut self, database: u32, name: &str, woken: bool, fires: bool) -> Result<Option<Instant>, Interrupted> {
        let began = std::time::Instant::now();
        if !std::mem::replace(&mut self.fires, fires) && fires {
            // What came due meanwhile.
            self.look_back = Some(convert::now());
        }
        self.staffing.look_unasked();
        if self.notify_all.is_none() && marks::wants_notify_all(database) {
            self.notify_all = self.notified_all.checked_add_micros(NOTIFY_ALL_EVERY).or(Some(Instant::MIN));
        }
        if woken {
            self.changes.may_have_come(true);
            self.cooldowns.iter_mut().for_each(Cooldown::end_wait_for_others);
            self.retries.end_wait_for_others();
            self.look_back = Some(convert::now());
            let due = self.looked_for_owners.checked_add_micros(guc::tick_interval()).unwrap_or(Instant::MAX);
            if self.has_taken || due <= convert::now() {
                // Whatever was committed may have switched one on there.
                self.two_owners = self.two_owners.or(Some(due));
            }
            self.load_deadlines(database, Instant::MAX)?;
        }
        let mut report = Vec::new();
        let looked_from = self.fire(database, &mut report)?;
        let worked = self.one_step(database, &mut report)?;
        if !report.is_empty() {
            let (what, took) = (report.join(", "), began.elapsed().as_secs_f64() * 1000.0);
            pgrx::log!("scheduler: tick in database \"{name}\": {what} in {took:.1} ms");
        }
        if !self.load_deadlines(database, looked_from)? {
            // What is due fires nevertheless.
            let now = convert::now();
            self.look_back = Some(now);
            return Ok(now.checked_add_micros(backoff::after_fire_failures(1)));
        }
        counters::ticked();
        if let Some((step, began, 0)) = worked {
            self.cooldowns[step] = Cooldown::after_nothing((STEPS[step].deadline)(self), began, now());
        }
        let now = now();
        let turns = || {
            STEPS
                .iter()
                .zip(&self.cooldowns)
                .map(|(step, cooldown)| (step.can_wait, cooldown.next_turn((step.deadline)(self), now)))
        };
        let fires = [self.deadlines.fire, self.look_back].map(|deadline| deadline.filter(|_| self.fires));
        let fires = fires.map(|deadline| self.firing.next_turn(deadline, now));
        let left = self.retries.next_turn(self.deadlines.retry_left_behind, now);
        let others = fires.into_iter().chain([left]).flatten().min();
        let next = |can_wait: bool| {
            turns().filter(|(waits, _)| can_wait || !waits).filter_map(|(_, turn)| turn).chain(others).min()
        };
        let (next, urgent) = (next(true), next(false));
        self.urgent = urgent;
        Ok(next)
    }

    /// Finds out what is due when; false where that failed. What is still due after `looked_from` was passed over by the look
    /// that has just been, because others have it in hand.
    fn load_deadlines(&mut self, database: u32, looked_from: Instant) -> Result<bool, Interrupted> {
        let now = now();
        if now.wall < self.alerts.until {
            // The clock was set back: what is planned since lies before that.
            self.alerts.until = Instant::MIN;
        }
        let (changes, retries) = (self.changes.look_after(now.wall), self.retries.before(now));
        let (until, alerts) = (self.looked_until, self.alerts.until);
        let looked =
            Looked { from: looked_from, until, changes: self.deadlines.changes_after(changes), retries, alerts };
        // Whatever is committed meanwhile: each failure is a line in the log.
        if !self.looking.is_over(now) {
            return Ok(false);
        }
        let found =
            attempt(database, c"looking for what is next", move || session(|session| deadline::next(session, looked)))?;
        let Some(found) = found else {
            // No longer than anything else that nobody told us of.
            self.looking = self.looking.after_failure(now).no_longer_than(guc::tick_interval(), now);
            return Ok(false);
        };
        self.looking = Cooldown::default();
        if self.changes.found(changes, found.more_changes, now.wall) {
            return self.load_deadlines(database, looked_from);
        }
        self.deadlines = found;
        if found.left_behind {
            self.look_back = self.look_back.or(now.wall.checked_add_micros(BUSY));
        }
        Ok(true)
    }

    /// Fires a batch, if some are due; after which time it looked for them, the end of all times where it did not.
    fn fire(&mut self, database: u32, report: &mut Vec<String>) -> Result<Instant, Interrupted> {
        let both = now();
        let now = both.wall;
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        let looks_back = is_due(self.look_back);
        if !self.fires || !(looks_back || is_due(self.deadlines.fire)) || !self.firing.is_over(both) {
            return Ok(Instant::MAX);
        }
        let after = if looks_back { Instant::MIN } else { self.looked_until };
        let done = attempt(database, c"dispatching due schedules", move || {
            // Of a backlog both ends: those that may still be on time, and those that have waited longest.
            let latest = guc::batch_size() / 2;
            let executions = usize::try_from(guc::batch_size()).unwrap_or(1);
            let bounds = Bounds { executions, contended: MOST_CONTENDED, bytes: MOST_BYTES };
            let earliest = guc::batch_size() - latest;
            session(|session| dispatch::fire_due(session, BatchWindow { after, latest, earliest, bounds }, now))
        })?;
        let Some(Fired { more, schedules, is_plain, .. }) = done else {
            self.firing = self.firing.after_failure(both);
            return Ok(Instant::MAX);
        };
        self.changes.may_have_come(!is_plain);
        push_report(report, schedules, "due schedules dispatched");
        self.firing = Cooldown::default();
        self.looked_until = now;
        if more {
            self.look_back = Some(now);
            return Ok(Instant::MAX);
        }
        self.look_back = self.look_back.filter(|_| !looks_back);
        Ok(after)
    }

    /// Looks at some of the schedules that may call for alerts; how many.
    fn look_for_alerts(&mut self, session: &Session) -> usize {
        let now = convert::now();
        let limit = turn().min(MOST_LOOKS);
        dispatch::look_for_alerts(session, &mut self.alerts, now, limit)
    }

    /// Notifies the queues in which something waits; how many.
    fn notify_all_queues(&mut self, session: &Session) -> usize {
        (self.notify_all, self.notified_all) = (None, convert::now());
        // SAFETY: reads a global of the process.
        marks::take_notify_all(unsafe { pgrx::pg_sys::MyDatabaseId.to_u32() });
        dispatch::notify_all(session)
    }

    /// Parks what another scheduler runs again; how many.
    fn look_for_two_owners(&mut self, session: &Session) -> usize {
        (self.two_owners, self.looked_for_owners) = (None, convert::now());
        let (has_taken, parked) = dispatch::look_for_two_owners(session);
        self.has_taken = has_taken;
        parked
    }

    /// Gives the next step that has something to do its turn; which it was, when it began, and how much it did.
    fn one_step(
        &mut self,
        database: u32,
        report: &mut Vec<String>,
    ) -> Result<Option<(usize, Instant, usize)>, Interrupted> {
        let now = now();
        let is_due = |number: &usize| {
            let deadline = (STEPS[*number].deadline)(self);
            deadline.is_some_and(|deadline| deadline <= now.wall) && self.cooldowns[*number].is_over(now)
        };
        let turns = self.turn..self.turn + STEPS.len();
        let Some(number) = turns.map(|turn| turn % STEPS.len()).find(is_due) else { return Ok(None) };
        self.turn = number + 1;
        let step = &STEPS[number];
        let notifies = self.notify_all.is_some();
        let tick = AssertUnwindSafe(&mut *self);
        let done = attempt(database, step.what, move || {
            let tick = tick;
            session(|session| (step.work)(tick.0, session))
        });
        if notifies && self.notify_all.is_none() {
            marks::end_sending(database, matches!(done, Ok(Some(_))));
        }
        let Some(count) = done? else {
            self.cooldowns[number] = self.cooldowns[number].after_failure(now);
            self.alerts.until = Instant::MIN;
            self.owners.look_again();
            return Ok(None);
        };
        push_report(report, count, step.done);
        self.cooldowns[number] = Cooldown::default();
        self.changes.may_have_come(count > 0);
        if count > 0 && step.arms_timers {
            // A schedule that changed may be due at once.
            self.look_back = Some(now.wall);
        }
        Ok(Some((number, now.wall, count)))
    }
}

/// Remembers what was done, for those who want to read it.
fn push_report(report: &mut Vec<String>, count: usize, what: &str) {
    if count > 0 && guc::log_ticks() {
        report.push(format!("{count} {what}"));
    }
}
