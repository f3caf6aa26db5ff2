//! Due timers → executions, a batch at a time. A batch that fails is halved until the bad one is alone; the healthy ones of the
//! same batch still fire in the same call.

use pgrx::PgLogLevel;
use scheduler_core::plan::{self, Next};
use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::dispatch::arm::{is_edited, rearm, report_parked};
use crate::dispatch::halve::halved;
use crate::dispatch::policy::Usable;
use crate::error::{self, Failure};
use crate::store::skip;
use crate::store::timer::{self, Fired, NewTimer, Reach, Snapshot};
use crate::store::Session;
use crate::subtransaction;

/// How many executions one batch inserts, unless a single schedule asks for more.
const MOST_RUNS: usize = 10_000;
/// How long a schedule is left alone whose plan somebody is just claiming, or whose run somebody is just ending, in microseconds.
pub const POSTPONED: i64 = 100_000;

/// A plan that is still to come is not fired sooner than this after the one before, in microseconds: a clock that ticks faster
/// fires what its policy makes of the plans in between, and leaves time for others.
const CLOSEST: i64 = 1_000;

/// What one call did.
#[derive(Default)]
pub struct Done {
    /// How many executions were inserted.
    pub executions: i64,
    /// How many schedules were due.
    pub schedules: usize,
    /// More is due, or was when this call began.
    pub more: bool,
}

/// Fires a batch of the schedules that are due.
pub fn fire_due(session: &Session, reach: Reach, now: Instant) -> Done {
    // Locked and written in one subtransaction: an update of a row that the transaction around it had locked would leave a
    // list of both behind, in each timer.
    let whole = subtransaction::run(|| {
        let batch = Batch::pick(session, reach, now);
        let fired = batch.settle(session, now).then(|| fire(session, &batch.moves, now));
        (batch, fired)
    });
    let (mut batch, fired) = match whole {
        Ok((batch, fired)) => (batch, Vec::from_iter(fired)),
        Err(_) => {
            let batch = Batch::pick(session, reach, now);
            batch.settle_apart(session, now);
            let mut work = |timers: &[NewTimer]| fire(session, timers, now);
            let fired = halved(&batch.moves, &mut work, &mut |timer, failure| {
                let errors =
                    batch.errors.iter().find(|(id, _)| *id == timer.schedule_id).map_or(0, |(_, count)| *count);
                failed(session, timer.schedule_id, errors, &failure, now);
            });
            (batch, fired)
        }
    };
    batch.more |= i64::try_from(batch.due) == Ok(reach.latest + reach.earliest);
    batch.report_parked();
    let mut queues: Vec<String> = fired.iter().flat_map(|fired| fired.queues.iter().cloned()).collect();
    queues.sort_unstable();
    queues.dedup();
    let log: Vec<String> = fired.iter().flat_map(|fired| fired.log.iter().cloned()).collect();
    super::announce(session, queues, &log);
    Done { executions: fired.iter().map(|fired| fired.count).sum(), schedules: batch.due, more: batch.more }
}

/// What is due and ours, and what is to become of it.
#[derive(Default)]
struct Batch {
    due: usize,
    /// Some of them are due again, or were left out.
    more: bool,
    moves: Vec<NewTimer>,
    park: Vec<(i64, Failure)>,
    dropped: Vec<i64>,
    /// Made before an edit that nobody has applied yet: it comes first, and what it arms may be due in the next round.
    edited: Vec<Snapshot>,
    /// Failed fires in a row, of those that have some.
    errors: Vec<(i64, i32)>,
}

impl Batch {
    fn pick(session: &Session, reach: Reach, now: Instant) -> Batch {
        let due = timer::pick_due(session, reach, now);
        let mut batch = Batch { due: due.len(), ..Batch::default() };
        if due.is_empty() {
            return batch;
        }
        for snapshot in timer::read(session, due.keys().copied().collect(), due) {
            if is_edited(&snapshot) {
                batch.edited.push(snapshot);
                continue;
            }
            match decide(&snapshot, now) {
                Decision::Move(timer) => batch.moves.push(*timer),
                Decision::Park(reason) => batch.park.push((snapshot.schedule_id, reason)),
                Decision::Drop => batch.dropped.push(snapshot.schedule_id),
            }
            let errors = snapshot.timer.map_or(0, |timer| timer.error_count);
            if errors > 0 {
                batch.errors.push((snapshot.schedule_id, errors));
            }
        }
        let decided = batch.moves.len();
        bound_runs(&mut batch.moves);
        batch.more = batch.moves.len() < decided
            || !batch.edited.is_empty()
            || batch.moves.iter().any(|timer| timer.is_due(now));
        batch
    }

    /// Writes what needs no execution; whether there is more to write.
    fn settle(&self, session: &Session, now: Instant) -> bool {
        if !self.edited.is_empty() {
            rearm(session, &self.edited, now);
        }
        if !self.park.is_empty() {
            timer::park(session, &self.park);
        }
        if !self.dropped.is_empty() {
            skip::forget(session, &self.dropped);
            timer::drop_timers(session, self.dropped.clone());
        }
        !self.moves.is_empty()
    }

    /// The same, for a batch of which something is bad: that is found and put off, and the rest written.
    fn settle_apart(&self, session: &Session, now: Instant) {
        halved(&self.edited, &mut |part| rearm(session, part, now), &mut |snapshot, failure| {
            let errors = snapshot.timer.as_ref().map_or(0, |timer| timer.error_count);
            failed(session, snapshot.schedule_id, errors, &failure, now);
        });
        halved(&self.park, &mut |part| timer::park(session, part), &mut |(schedule_id, _), failure| {
            failed(session, *schedule_id, 0, &failure, now);
        });
        let mut forget = |part: &[i64]| {
            skip::forget(session, part);
            timer::drop_timers(session, part.to_vec());
        };
        halved(&self.dropped, &mut forget, &mut |schedule_id, failure| failed(session, *schedule_id, 0, &failure, now));
    }

    fn report_parked(&self) {
        for (schedule_id, reason) in &self.park {
            report_parked(*schedule_id, reason);
        }
        for timer in &self.moves {
            if let Some(reason) = &timer.parked {
                report_parked(timer.schedule_id, reason);
            }
        }
    }
}

fn fire(session: &Session, timers: &[NewTimer], now: Instant) -> Fired {
    let fired = timer::fire(session, timers, now, now.checked_add_micros(POSTPONED).unwrap_or(Instant::MAX));
    let runs: usize = timers.iter().map(|timer| timer.runs.len()).sum();
    skip::record(session, &timers.iter().collect::<Vec<_>>(), fired.count.unsigned_abs() != runs as u64);
    fired
}

/// Keeps the batch to a size that others can wait for: the schedules with the longest backlogs are left for the next one.
fn bound_runs(moves: &mut Vec<NewTimer>) {
    moves.sort_by_key(|timer| timer.runs.len());
    let mut runs = 0;
    let fits = moves.iter().take_while(|timer| {
        runs += timer.runs.len();
        runs <= MOST_RUNS
    });
    let count = fits.count().max(1);
    moves.truncate(count);
}

enum Decision {
    Move(Box<NewTimer>),
    Park(Failure),
    Drop,
}

/// What one due timer calls for.
fn decide(snapshot: &Snapshot, now: Instant) -> Decision {
    let (Some(row), Some(timer)) = (&snapshot.schedule, &snapshot.timer) else { return Decision::Drop };
    let usable = match Usable::of(snapshot.schedule_id, row) {
        Ok(usable) => usable,
        Err(reason) => return Decision::Park(reason),
    };
    let mut new = NewTimer::idle(snapshot.schedule_id, row, timer.progress);
    new.held = timer.held;
    let Some(plan) = timer.next_plan else { return Decision::Move(Box::new(new)) };
    let clock = usable.clock.bind(&usable.zone, usable.anchor);
    let fired = plan::fire(&usable.policy, &clock, new.progress, plan, snapshot.busy, now);
    new.next = Some(match fired.next {
        Next::Armed { plan, fire_at } if plan > now => {
            Next::Armed { plan, fire_at: fire_at.max(now.checked_add_micros(CLOSEST).unwrap_or(fire_at)) }
        }
        next @ (Next::Armed { .. } | Next::Waiting | Next::Done) => next,
    });
    new.progress = fired.progress;
    new.runs = fired.run;
    new.skipped = fired.skipped.into_iter().map(|skip| (row.since_at, skip)).collect();
    new.awaited = usable.awaits_runs();
    Decision::Move(Box::new(new))
}

/// Puts off a schedule that failed `before` times in a row and now again.
fn failed(session: &Session, schedule_id: i64, before: i32, failure: &Failure, now: Instant) {
    if before == 0 {
        // Once, not at every retry: the view has the rest.
        error::report(
            PgLogLevel::LOG_SERVER_ONLY,
            Failure::note(format!(
                "scheduler: schedule {schedule_id} could not be fired and will be tried again: {}",
                failure.message
            )),
        );
    }
    let wait = backoff::after_fire_failures(before.saturating_add(1));
    let retry_at = convert::now().max(now).checked_add_micros(wait).unwrap_or(Instant::MAX);
    timer::record_failure(session, schedule_id, &failure.message, retry_at);
}
