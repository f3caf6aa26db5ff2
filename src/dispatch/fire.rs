//! Due timers → executions, a batch at a time. A batch that fails is halved until the bad one is alone; the healthy ones of the
//! same batch still fire in the same call.

use pgrx::PgLogLevel;
use scheduler_core::plan;
use scheduler_core::{backoff, Instant};

use crate::convert;
use crate::dispatch::arm::{is_edited, parked, rearm};
use crate::dispatch::policy::Usable;
use crate::error::{self, Failure};
use crate::store::skip;
use crate::store::timer::{self, Fired, NewTimer, Snapshot};
use crate::store::Session;
use crate::subtransaction;

/// How many executions one batch inserts, unless a single schedule asks for more.
const MOST_RUNS: usize = 10_000;

/// Fires up to `limit` due schedules: how many executions were inserted, and how many schedules were due.
pub fn fire_due(session: &Session, now: Instant, limit: i64) -> (i64, usize) {
    let due = timer::pick_due(session, now, limit);
    if due.is_empty() {
        return (0, 0);
    }
    // An edit that nobody has applied yet comes first; what it arms may be due in the next round.
    let (edited, snapshots): (Vec<_>, Vec<_>) = timer::read(session, due.clone()).into_iter().partition(is_edited);
    if !edited.is_empty() {
        rearm(session, edited, now);
    }
    let (mut moves, mut park, mut dropped) = (Vec::<NewTimer>::new(), Vec::new(), Vec::new());
    for snapshot in &snapshots {
        match decide(snapshot, now) {
            Decision::Move(timer) => moves.push(*timer),
            Decision::Park(reason) => park.push((snapshot.schedule_id, reason)),
            Decision::Drop => dropped.push(snapshot.schedule_id),
        }
    }
    bound_runs(&mut moves);
    if !park.is_empty() {
        timer::park(session, park);
    }
    if !dropped.is_empty() {
        skip::forget(session, dropped.clone());
        timer::drop_timers(session, dropped);
    }
    let errors: Vec<(i64, i32)> = snapshots
        .iter()
        .map(|snapshot| (snapshot.schedule_id, snapshot.timer.as_ref().map_or(0, |timer| timer.error_count)))
        .collect();
    let mut fired = fire_batch(session, moves, &errors, now);
    fired.queues.sort_unstable();
    fired.queues.dedup();
    super::announce(session, fired.queues, &fired.log);
    (fired.count, due.len())
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
    Park(String),
    Drop,
}

/// What one due timer calls for.
fn decide(snapshot: &Snapshot, now: Instant) -> Decision {
    let (Some(row), Some(timer)) = (&snapshot.schedule, &snapshot.timer) else { return Decision::Drop };
    let usable = match Usable::of(snapshot.schedule_id, row) {
        Ok(usable) => usable,
        Err(reason) => return Decision::Park(parked(snapshot.schedule_id, reason)),
    };
    let mut new = NewTimer::idle(snapshot.schedule_id, row, timer.progress);
    let Some(plan) = timer.next_plan else { return Decision::Move(Box::new(new)) };
    let clock = usable.clock.bind(&usable.zone, usable.anchor);
    let fired = plan::fire(&usable.policy, &clock, new.progress, plan, snapshot.busy, now);
    new.next = Some(fired.next);
    new.progress = fired.progress;
    new.runs = fired.run;
    new.skipped = fired.skipped.into_iter().map(|skip| (row.since_at, skip)).collect();
    new.awaited = usable.awaits_runs();
    Decision::Move(Box::new(new))
}

fn fire_batch(session: &Session, mut batch: Vec<NewTimer>, errors: &[(i64, i32)], now: Instant) -> Fired {
    let Some(first) = batch.first().map(|timer| timer.schedule_id) else { return Fired::default() };
    let copy: Vec<NewTimer> = batch.clone();
    let fire = || {
        let fired = timer::fire(session, copy, now);
        let runs: usize = batch.iter().map(|timer| timer.runs.len()).sum();
        skip::record(session, &batch, fired.count.unsigned_abs() != runs as u64);
        fired
    };
    match subtransaction::run(fire) {
        Ok(fired) => fired,
        Err(failure) if batch.len() == 1 => {
            failed(session, first, &failure.message, errors, now);
            Fired::default()
        }
        Err(_) => {
            let rest = batch.split_off(batch.len() / 2);
            let mut fired = fire_batch(session, batch, errors, now);
            let more = fire_batch(session, rest, errors, now);
            fired.count += more.count;
            fired.queues.extend(more.queues);
            fired.log.extend(more.log);
            fired
        }
    }
}

fn failed(session: &Session, schedule_id: i64, message: &str, errors: &[(i64, i32)], now: Instant) {
    let before = errors.iter().find(|(id, _)| *id == schedule_id).map_or(0, |(_, count)| *count);
    if before == 0 {
        // Once, not at every retry: the view has the rest.
        error::report(
            PgLogLevel::LOG_SERVER_ONLY,
            Failure::note(format!(
                "scheduler: schedule {schedule_id} could not be fired and will be tried again: {message}"
            )),
        );
    }
    let wait = backoff::after_fire_failures(before.saturating_add(1));
    let retry_at = convert::now().max(now).checked_add_micros(wait).unwrap_or(Instant::MAX);
    timer::record_failure(session, schedule_id, message, retry_at);
}
