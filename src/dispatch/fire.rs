//! Due timers → executions, a batch at a time. A batch that fails is halved until the bad one is alone; the healthy ones of the
//! same batch still fire in the same call.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

use pgrx::pg_sys::Oid;
use scheduler_core::schedule::{batch, plan, Bounds, CatchUp, Demand, Next};
use scheduler_core::{Instant, Keyword};

use crate::dispatch::apply_changes::{is_edited, rearm, report_parked, report_parking};
use crate::dispatch::bisect::{bisect, bisect_unless};
use crate::dispatch::compile::{CompiledSchedule, MAX_PLANS_PER_TICK};
use crate::dispatch::notify::notify;
use crate::dispatch::retry::{postponed, try_again_at};
use crate::pg::error::Failure;
use crate::pg::{subtransaction, Session};
use crate::store::alert;
use crate::store::database_clock;
use crate::store::schedule::skipped_plans;
use crate::store::timer::lock_timeout::{self, RetryBudget};
use crate::store::timer::{self, BatchWindow, NewTimer, PreviousKeys, ScheduleRow, ScheduleState, TimerRow};

/// A plan that is still to come is not fired sooner than this after the one before, in microseconds: a clock that ticks faster
/// fires what its policy makes of the plans in between, and leaves time for others.
const CLOSEST: i64 = 1_000;

/// What one call did.
#[derive(Default)]
pub struct Fired {
    /// How many executions were inserted.
    pub executions: i64,
    /// How many schedules were due.
    pub schedules: usize,
    /// More is due, or was when this call began.
    pub more: bool,
    /// Nothing was written but executions and the timers that moved on.
    pub is_plain: bool,
}

/// Fires a batch of the schedules that are due.
pub fn fire_due(session: &Session, window: BatchWindow, now: Instant) -> Fired {
    // Locked and written in one subtransaction: an update of a row that the transaction around it had locked would leave a
    // list of both behind, in each timer.
    let mut is_plain = true;
    let whole = subtransaction::run(|| {
        let batch = DueBatch::pick(session, window, now);
        let settled = batch.settle(session, now);
        let fired = (!batch.moves.is_empty()).then(|| fire(session, &batch.moves, now));
        (batch, settled, fired)
    });
    let (mut batch, settled, fired) = match whole {
        Ok((batch, settled, fired)) => (batch, settled, Vec::from_iter(fired)),
        Err(_) => {
            is_plain = false;
            let readable = subtransaction::run(|| DueBatch::pick(session, window, now));
            let batch = readable.unwrap_or_else(|_| DueBatch::pick_readable(session, window, now));
            let settled = batch.settle_apart(session, now);
            let mut work = |timers: &[NewTimer]| fire(session, timers, now);
            let mut defer = |timer: &NewTimer, failure| batch.defer(session, timer.schedule_id, &failure, now);
            let budget = RetryBudget::begin();
            let mut left_out = |part: &[NewTimer], failure: &Failure| {
                let is_spent = budget.is_spent(failure, part.len());
                if is_spent {
                    let schedule_ids = part.iter().map(|timer| timer.schedule_id).collect();
                    timer::postpone(session, schedule_ids, postponed(database_clock::now().max(now)));
                }
                is_spent
            };
            let fired = bisect_unless(&batch.moves, &mut work, &mut left_out, &mut defer);
            (batch, settled, fired)
        }
    };
    // What had failed may fire again.
    let errors = &batch.errors;
    alert::look_at(session, batch.moves.iter().map(|timer| timer.schedule_id).filter(|id| errors.contains_key(id)));
    batch.more |= i64::try_from(batch.due) == Ok(window.latest + window.earliest);
    settled.parked.iter().for_each(|(schedule_id, reason)| report_parked(session, *schedule_id, reason));
    settled.rearmed.iter().for_each(|timer| report_parking(session, timer));
    let mut queues: Vec<String> = fired.iter().flat_map(|fired| fired.queues.iter().cloned()).collect();
    queues.sort_unstable();
    queues.dedup();
    notify(session, queues);
    is_plain &=
        settled.rearmed.is_empty() && settled.parked.is_empty() && !fired.iter().any(|fired| fired.by_statement);
    Fired { executions: fired.iter().map(|fired| fired.count).sum(), schedules: batch.due, more: batch.more, is_plain }
}

/// What was written of a batch besides fires.
struct SettledBatch {
    /// Timers that were made anew.
    rearmed: Vec<NewTimer>,
    /// Schedules that were parked, each with its reason.
    parked: Vec<(i64, Failure)>,
}

/// What is due and ours, and what is to become of it.
#[derive(Default)]
struct DueBatch {
    due: usize,
    /// Some of them are due again, or were left out.
    more: bool,
    moves: Vec<NewTimer>,
    park: Vec<(i64, Failure)>,
    dropped: Vec<i64>,
    /// Made before an edit that nobody has applied yet: it comes first, and what it arms may be due in the next round.
    edited: Vec<i64>,
    /// Failed fires in a row, of those that have some.
    errors: HashMap<i64, i32>,
}

impl DueBatch {
    fn pick(session: &Session, window: BatchWindow, now: Instant) -> DueBatch {
        DueBatch::of(session, timer::pick_due(session, window, now), window.bounds, now)
    }

    /// The same where a row cannot even be read: that is found and put off.
    fn pick_readable(session: &Session, window: BatchWindow, now: Instant) -> DueBatch {
        let due = timer::lock_due(session, window, now);
        let errors: HashMap<i64, i32> = due.iter().copied().collect();
        let mut all = DueBatch { due: due.len(), errors: errors.clone(), ..DueBatch::default() };
        let mut read = |part: &[(i64, i32)]| {
            let schedule_ids = part.iter().map(|(schedule_id, _)| *schedule_id).collect();
            DueBatch::of(session, timer::timers(session, schedule_ids), window.bounds, now)
        };
        let bad = DueBatch { errors, ..DueBatch::default() };
        let mut defer = |(schedule_id, _): &(i64, i32), failure| bad.defer(session, *schedule_id, &failure, now);
        for part in bisect(&due, &mut read, &mut defer) {
            all.more |= part.more;
            all.moves.extend(part.moves);
            all.park.extend(part.park);
            all.dropped.extend(part.dropped);
            all.edited.extend(part.edited);
        }
        all
    }

    /// What is to become of timers that are due and locked.
    fn of(session: &Session, due: BTreeMap<i64, TimerRow>, bounds: Bounds, now: Instant) -> DueBatch {
        let mut batch = DueBatch { due: due.len(), ..DueBatch::default() };
        if due.is_empty() {
            return batch;
        }
        let mut moved_scope = HashSet::new();
        let mut candidates = Candidates::default();
        for snapshot in timer::read(session, due.keys().copied().collect(), due) {
            if snapshot.schedule.as_ref().is_some_and(|row| row.previous_keys == PreviousKeys::Some) {
                moved_scope.insert(snapshot.schedule_id);
            }
            let errors = snapshot.timer.as_ref().map_or(0, |timer| timer.error_count);
            if errors > 0 {
                batch.errors.insert(snapshot.schedule_id, errors);
            }
            if is_edited(&snapshot) {
                batch.edited.push(snapshot.schedule_id);
                continue;
            }
            // One plan time each at first: how many more is a matter of what others have due.
            match decide(&snapshot, 1, now) {
                Decision::Move(timer) => candidates.push(*timer, snapshot, now),
                Decision::Park(reason) => batch.park.push((snapshot.schedule_id, reason)),
                Decision::Drop => batch.dropped.push(snapshot.schedule_id),
            }
        }
        let decided = candidates.timers.len();
        batch.moves = candidates.within(bounds, now);
        note_fired_before(session, &mut batch.moves, &moved_scope);
        batch.more = batch.moves.len() < decided
            || !batch.edited.is_empty()
            || batch.moves.iter().any(|timer| timer.is_due(now));
        batch
    }

    /// Writes what needs no execution.
    fn settle(&self, session: &Session, now: Instant) -> SettledBatch {
        let rearmed = if self.edited.is_empty() { Vec::new() } else { rearm(session, &self.edited, now) };
        if !self.park.is_empty() {
            timer::park(session, &self.park);
        }
        if !self.dropped.is_empty() {
            forget_dropped(session, &self.dropped);
        }
        SettledBatch { rearmed, parked: self.park.clone() }
    }

    /// The same, for a batch of which something is bad: that is found and put off, and the rest written.
    fn settle_apart(&self, session: &Session, now: Instant) -> SettledBatch {
        let mut defer = |schedule_id: &i64, failure| self.defer(session, *schedule_id, &failure, now);
        let rearmed = bisect(&self.edited, &mut |part| rearm(session, part, now), &mut defer);
        bisect(&self.dropped, &mut |part| forget_dropped(session, part), &mut defer);
        let mut park = |part: &[(i64, Failure)]| {
            timer::park(session, part);
            part.to_vec()
        };
        let parked = bisect(&self.park, &mut park, &mut |(schedule_id, _), failure| {
            self.defer(session, *schedule_id, &failure, now);
        });
        SettledBatch {
            rearmed: rearmed.into_iter().flatten().collect(),
            parked: parked.into_iter().flatten().collect(),
        }
    }

    /// Leaves a schedule that could not be fired for later; the view says why.
    fn defer(&self, session: &Session, schedule_id: i64, failure: &Failure, now: Instant) {
        let before = self.errors.get(&schedule_id).copied().unwrap_or(0);
        let retry_at = try_again_at(session, schedule_id, "fired", before, failure, now);
        timer::record_failure(session, schedule_id, &failure.message, retry_at);
    }
}

/// What dispatchers know of schedules that were dropped goes.
fn forget_dropped(session: &Session, schedule_ids: &[i64]) {
    skipped_plans::forget(session, schedule_ids);
    alert::look_at_watched(session, schedule_ids);
    timer::drop_timers(session, schedule_ids.to_vec());
}

fn fire(session: &Session, timers: &[NewTimer], now: Instant) -> timer::Fired {
    // A run that a client puts into the ledger between our look and our insert is waited for, as long as the client's transaction
    // stays open. After a short while the batch fails instead, looks again, and finds it.
    let (fired, external) = lock_timeout::with_lock_timeout(|| timer::fire(session, timers, now, postponed(now)));
    skipped_plans::record(session, &timers.iter().collect::<Vec<_>>(), &external);
    fired
}

thread_local! {
    /// The owner behind whom the next batch begins, where one could not take all.
    static SERVED: Cell<u32> = const { Cell::new(0) };
}

/// Timers that may move on with this batch.
#[derive(Default)]
struct Candidates {
    timers: Vec<NewTimer>,
    /// What each takes of the batch.
    demands: Vec<Demand>,
    /// What more plan times are decided by, of those that have a backlog to be made up for.
    backlogs: Vec<Option<Box<ScheduleState>>>,
}

impl Candidates {
    fn push(&mut self, timer: NewTimer, snapshot: ScheduleState, now: Instant) {
        let most = if timer.is_due(now) { most_plans(&snapshot) } else { 1 };
        self.demands.push(demand(&snapshot, most));
        self.backlogs.push((most > 1).then(|| Box::new(snapshot)));
        self.timers.push(timer);
    }

    /// Keeps the batch to a size that others can wait for, in which each owner has its part. What does not fit stays due.
    fn within(self, bounds: Bounds, now: Instant) -> Vec<NewTimer> {
        if self.backlogs.iter().all(Option::is_none) && batch::fit(&self.demands, bounds) {
            return self.timers;
        }
        let all = self.timers.into_iter().zip(self.demands).zip(self.backlogs);
        let (mut firing, idle): (Vec<_>, Vec<_>) = all.partition(|((timer, _), _)| !timer.runs.is_empty());
        // Of an owner's schedules those with a backlog come last: they are due again at once.
        firing.sort_by_key(|((timer, _), _)| (timer.is_due(now), timer.runs.first().copied()));
        let demands: Vec<Demand> = firing.iter().map(|((_, demand), _)| *demand).collect();
        let admission = batch::share_out(&demands, bounds, SERVED.get());
        SERVED.set(admission.served);
        let mut kept: Vec<NewTimer> = idle.into_iter().map(|((timer, _), _)| timer).collect();
        for (((timer, _), backlog), executions) in firing.into_iter().zip(admission.executions) {
            kept.push(match (backlog, executions) {
                (_, 0) => continue,
                (None, _) | (_, 1) => timer,
                (Some(snapshot), executions) => match decide(&snapshot, executions, now) {
                    Decision::Move(more) => *more,
                    Decision::Park(_) | Decision::Drop => timer,
                },
            });
        }
        kept
    }
}

/// What a schedule takes of a batch, with at most so many runs.
fn demand(snapshot: &ScheduleState, most: usize) -> Demand {
    let (owner, bytes) =
        snapshot.schedule.as_ref().map_or((0, 0), |row| (row.job_owner.map_or(0, Oid::to_u32), row.payload_bytes));
    Demand { owner, bytes, most }
}

/// How many plan times of a schedule may run at once.
fn most_plans(snapshot: &ScheduleState) -> usize {
    let makes_up = |row: &&ScheduleRow| row.catch_up == CatchUp::EveryPlan.as_str();
    let most = snapshot.schedule.as_ref().filter(makes_up).map_or(1, |row| row.max_plans_per_tick);
    usize::try_from(most).map_or(1, |most| most.clamp(1, MAX_PLANS_PER_TICK))
}

/// Notes which runs need no other one because the schedule fired them in the scope that it had: an edit of clock and scope whose
/// transaction stayed open was overtaken by fires, and the new clock begins anew at the edit.
fn note_fired_before(session: &Session, moves: &mut [NewTimer], moved_scope: &HashSet<i64>) {
    let concerns = |timer: &&NewTimer| moved_scope.contains(&timer.schedule_id);
    let runs_of = |timer: &NewTimer| timer.runs.iter().map(|run| (timer.schedule_id, *run)).collect::<Vec<_>>();
    let runs: Vec<(i64, Instant)> = moves.iter().filter(concerns).flat_map(runs_of).collect();
    if runs.is_empty() {
        return;
    }
    for (schedule_id, run) in timer::fired_before(session, &runs) {
        moves
            .iter_mut()
            .filter(|timer| timer.schedule_id == schedule_id)
            .for_each(|timer| timer.fired_before.push(run));
    }
}

enum Decision {
    Move(Box<NewTimer>),
    Park(Failure),
    Drop,
}

/// What one due timer calls for.
fn decide(snapshot: &ScheduleState, most_plans: usize, now: Instant) -> Decision {
    let (Some(row), Some(timer)) = (&snapshot.schedule, &snapshot.timer) else { return Decision::Drop };
    let mut compiled = match CompiledSchedule::compile(snapshot.schedule_id, row) {
        Ok(compiled) => compiled,
        Err(reason) => return Decision::Park(reason),
    };
    let progress = match &timer.progress {
        Ok(progress) => *progress,
        Err(reason) => return Decision::Park(reason.clone()),
    };
    let mut new = NewTimer::idle(snapshot.schedule_id, row, progress);
    new.held = timer.held;
    let Some(plan) = timer.next_plan_time else { return Decision::Move(Box::new(new)) };
    compiled.policy.max_plans_per_tick = compiled.policy.max_plans_per_tick.min(most_plans);
    let clock = compiled.clock.bind(&compiled.zone, compiled.anchor);
    let fired = plan::fire(&compiled.policy, &clock, new.progress, plan, snapshot.busy, now);
    new.next = Some(match fired.next {
        Next::Armed { plan_time, fire_at } if plan_time > now => {
            Next::Armed { plan_time, fire_at: fire_at.max(now.checked_add_micros(CLOSEST).unwrap_or(fire_at)) }
        }
        next @ (Next::Armed { .. } | Next::Waiting | Next::Done) => next,
    });
    new.progress = fired.progress;
    new.runs = fired.plan_times;
    new.skipped = fired.skipped.into_iter().map(|skip| (row.defined_at, skip)).collect();
    new.awaited = compiled.tracks_runs();
    Decision::Move(Box::new(new))
}
